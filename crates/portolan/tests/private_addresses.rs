//! A link never leads into the private network: not by its name, not by a redirect, not by what a name resolves to.

mod harness;

use harness::{Site, number, portolan, run, text};
use portolan_simweb::WebSpec;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener};
use std::path::PathBuf;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// A server of a few fixed answers, by path, that counts its connections. Ends with the test.
struct Fixed {
    addr: SocketAddr,
    connections: Arc<AtomicU64>,
}

fn serve(answer: impl Fn(&str) -> String + Send + 'static) -> Fixed {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let addr = listener.local_addr().expect("it is bound");
    let connections = Arc::new(AtomicU64::new(0));
    let count = Arc::clone(&connections);
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let Ok(mut stream) = stream else { continue };
            count.fetch_add(1, Ordering::SeqCst);
            let mut request = [0u8; 4096];
            let Ok(read) = stream.read(&mut request) else {
                continue;
            };
            let head = String::from_utf8_lossy(&request[..read]).into_owned();
            let path = head.split(' ').nth(1).unwrap_or("/").to_owned();
            let _ = stream.write_all(answer(&path).as_bytes());
        }
    });
    Fixed { addr, connections }
}

fn page(body: &str) -> String {
    format!(
        "HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nConnection: close\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    )
}

fn crawl(out: &PathBuf, seeds: &[&str], resolve: &[String]) -> Command {
    let mut command = portolan();
    command
        .arg("crawl")
        .args(seeds)
        .args(["--scope", "any", "--delay", "0s", "--json", "--out"])
        .arg(out);
    for rule in resolve {
        command.args(["--resolve", rule]);
    }
    command
}

#[test]
fn links_and_redirects_into_the_private_network_are_refused() {
    let site = Site::serve(WebSpec::small().with_hosts(1).with_pages_per_host(1));
    let secret = serve(|_| page("secret"));
    let at = secret.addr;
    let door = serve(move |path| match path {
        "/robots.txt" => {
            "HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\nConnection: close\r\n\r\n".into()
        }
        "/moved" => format!(
            "HTTP/1.1 302 Found\r\nLocation: http://{at}/by-redirect\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
        ),
        _ => page(&format!(
            "<a href='http://{at}/by-link'>1</a> <a href='/moved'>2</a> <a href='http://localhost:{}/by-name'>3</a>\
             <a href='http://2130706433:{}/by-number'>4</a> <a href='http://[::ffff:127.0.0.1]:{}/mapped'>5</a>",
            at.port(),
            at.port(),
            at.port()
        )),
    });
    let rule = [format!("public.example=127.0.0.1:{}", door.addr.port())];
    let out = site.path("refused");
    let report = run(&mut crawl(&out, &["http://public.example/"], &rule))
        .succeeded()
        .json();
    assert_eq!(number(&report, "pages"), 1, "{report}");
    assert_eq!(
        secret.connections.load(Ordering::SeqCst),
        0,
        "not even a connection"
    );
    let urls = harness::ask(&out, &["urls", "--json", "--state", "excluded"]).json_lines();
    let refused: Vec<&str> = urls
        .iter()
        .filter(|u| u["reason"] == "private-address")
        .map(|u| text(u, "url"))
        .collect();
    for name in ["by-link", "by-redirect", "by-name", "by-number", "mapped"] {
        assert!(
            refused.iter().any(|url| url.ends_with(name)),
            "{name}: {urls:?}"
        );
    }
    // A person may name it, as a seed.
    let out = site.path("named");
    let seed = format!("http://{at}/");
    let report = run(&mut crawl(&out, &["http://public.example/", &seed], &rule))
        .succeeded()
        .json();
    assert!(number(&report, "pages") >= 2, "{report}");
    assert!(secret.connections.load(Ordering::SeqCst) > 0);
}

#[test]
fn a_seed_that_redirects_to_another_host_makes_it_a_seed() {
    let site = Site::serve(WebSpec::small().with_hosts(1).with_pages_per_host(1));
    let server = serve(|path| {
        match path {
        "/robots.txt" => "HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\nConnection: close\r\n\r\n".into(),
        "/" => "HTTP/1.1 301 Moved\r\nLocation: http://www.example.test/start\r\nContent-Length: 0\r\nConnection: close\r\n\r\n".into(),
        "/start" => page("<a href=/inside>1</a> <a href='http://other.test/'>2</a>"),
        _ => page("inside"),
    }
    });
    let out = site.path("moved");
    let mut command = portolan();
    command
        .args([
            "crawl",
            "example.test",
            "--delay",
            "0s",
            "--json",
            "--resolve",
        ])
        .arg(format!("*={}", server.addr))
        .arg("--out")
        .arg(&out);
    let report = run(&mut command).succeeded().json();
    assert_eq!(number(&report, "pages"), 2, "{report}");
    let why = harness::ask(&out, &["why", "http://other.test/"]).out;
    assert!(why.contains("scope"), "{why}");
}
