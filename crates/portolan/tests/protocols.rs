//! Protocols beside each other on one host: each has its own pauses. `tests/outside/protocols.py` has real servers.

mod harness;

use harness::fixed::serve;
use harness::{ask, number, portolan, run, text};
use serde_json::Value;
use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpListener};
use tempfile::TempDir;

/// A Gopher server with a menu of two texts.
fn serve_gopher() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let addr = listener.local_addr().expect("it is bound");
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let Ok(mut stream) = stream else { continue };
            let mut selector = String::new();
            if BufReader::new(&stream).read_line(&mut selector).is_err() {
                continue;
            }
            let port = addr.port();
            let answer = match selector.trim_end() {
                "" => format!("0One\t/one\ta.test\t{port}\r\n0Two\t/two\ta.test\t{port}\r\n.\r\n"),
                "/one" => "one\n".to_owned(),
                "/two" => "two\n".to_owned(),
                other => format!("3'{other}' is not there\t\terror.host\t1\r\n.\r\n"),
            };
            let _ = stream.write_all(answer.as_bytes());
        }
    });
    addr
}

#[test]
fn a_host_whose_web_server_wants_a_rest_may_be_asked_by_gopher() {
    let web = serve(|path| {
        match path {
        "/robots.txt" => {
            "HTTP/1.1 404 Not Found\r\nConnection: close\r\nContent-Length: 0\r\n\r\n".into()
        }
        _ => "HTTP/1.1 503 Unavailable\r\nRetry-After: 6000\r\nConnection: close\r\nContent-Length: 0\r\n\r\n".into(),
    }
    });
    let gopher = serve_gopher();
    let dir = TempDir::new().expect("a directory");
    let out = dir.path().join("crawl");
    let mut command = portolan();
    command
        .arg("crawl")
        .arg(format!("http://a.test:{}/", web.addr.port()))
        .arg(format!("gopher://a.test:{}/", gopher.port()))
        .args([
            "--resolve",
            "a.test=127.0.0.1",
            "--delay",
            "0s",
            "--wait",
            "1s",
            "--json",
        ])
        .arg("--out")
        .arg(&out);
    let ran = run(&mut command);
    assert_eq!(ran.code, Some(3), "one host is left: {}", ran.err);
    let report = ran.json();
    assert_eq!(
        (number(&report, "pages"), number(&report, "urls_due")),
        (3, 1),
        "{report}"
    );
    // All servers of the host are found by its name.
    let lines = ask(&out, &["urls", "--json", "--host", "a.test"]).json_lines();
    let states: BTreeMap<&str, &str> = lines
        .iter()
        .map(|row: &Value| (text(row, "url"), text(row, "state")))
        .collect();
    let (web, gopher) = (web.addr.port(), gopher.port());
    let wanted = [
        (format!("http://a.test:{web}/"), "due"),
        (format!("gopher://a.test:{gopher}/"), "visited"),
        (format!("gopher://a.test:{gopher}/0/one"), "visited"),
        (format!("gopher://a.test:{gopher}/0/two"), "visited"),
    ];
    let wanted = wanted.iter().map(|(url, state)| (url.as_str(), *state));
    assert_eq!(states, wanted.collect());
    ask(&out, &["check"]);
}
