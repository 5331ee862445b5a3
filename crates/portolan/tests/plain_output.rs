//! Whatever pages, headers and files say, what the program prints cannot act on a terminal or break a table.

mod harness;

use harness::fixed::serve;
use harness::{Ran, ask, portolan, run, text};
use std::fs;
use std::process::Command;
use tempfile::TempDir;

/// Clears a screen, sets a window's title, turns the direction of text, ends a line, in several ways.
const LIVE: &str = "\x1b[2J\x1b]0;x\x07\u{9b}31m\u{202e}\u{2066}\u{200f}\u{2028}\x7f\x08";

#[track_caller]
fn harmless(ran: &Ran) {
    for bytes in [&ran.raw_out[..], ran.err.as_bytes()] {
        let said = std::str::from_utf8(bytes).expect("UTF-8");
        let live = said.chars().find(|&c| {
            (c.is_control() && !matches!(c, '\n' | '\t'))
                || matches!(c, '\u{061c}' | '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
        });
        assert_eq!(live, None, "{said:?}");
    }
}

#[test]
fn titles_and_headers_of_pages_are_only_read() {
    let server = serve(|path| {
        let body = format!(
            "<meta charset=utf-8><title>Zürich {LIVE}&#27;[31m&#x202e; a\tb\nc</title><a href='/next\u{202e}\x1b'>x</a>"
        );
        let (kind, body) = match path {
            "/robots.txt" => ("text/plain\u{9b}", String::new()),
            _ => ("text/html; charset=\"utf-8\x1b[1m\u{202e}\"", body),
        };
        format!(
            "HTTP/1.1 200 O\x1bK\r\nContent-Type: {kind}\r\nETag: \"\x1b[2J\"\r\nConnection: close\r\n\
             Content-Length: {}\r\n\r\n{body}",
            body.len()
        )
    });
    let dir = TempDir::new().expect("a directory");
    let out = dir.path().join("crawl");
    let home = format!("http://{}/", server.addr);
    let mut crawl = portolan();
    crawl
        .args(["crawl", &home, "--delay", "0s", "--out"])
        .arg(&out);
    harmless(&run(&mut crawl).succeeded());
    for command in [
        &["urls"][..],
        &["urls", "--json"],
        &["why", &home],
        &["why", &home, "--json"],
        &["links"],
        &["status"],
        &["graph"],
        &["rank"],
        &["rank", "--json"],
        &["warc list"],
        &["warc list", "--json"],
        &["warc verify"],
    ] {
        harmless(&ask(&out, command));
    }
    // Nothing is lost for programs: JSON gives the title as it was; people see what was there.
    let story = ask(&out, &["why", &home, "--json"]).json();
    assert!(text(&story, "title").starts_with("Zürich "), "{story}");
    assert!(text(&story, "title").contains('\u{202e}'), "{story}");
    let told = ask(&out, &["why", &home]).out;
    let title = told.lines().find(|line| line.contains("Title:"));
    let title = title.expect("a title");
    assert!(
        title.contains("Zürich") && title.contains("\\u202e"),
        "{told}"
    );
}

#[test]
fn files_of_other_people_are_only_read() {
    let dir = TempDir::new().expect("a directory");
    let record = |url: &str, kind: &str| {
        let body = format!("HTTP/1.1 200 OK\r\nContent-Type: {kind}\r\n\r\nraw \x1b[2J bytes");
        format!(
            "WARC/1.1\r\nWARC-Type: response\r\nWARC-Record-ID: <urn:uuid:00000000-0000-0000-0000-000000000001>\r\n\
             WARC-Date: 2026-01-01T00:00:00Z\r\nWARC-Target-URI: {url}\r\n\
             Content-Type: application/http; msgtype=response\r\nContent-Length: {}\r\n\r\n{body}\r\n\r\n",
            body.len()
        )
    };
    let warc = dir.path().join("odd.warc");
    fs::write(
        &warc,
        record(&format!("http://a.test/{LIVE}"), "text/html\x1b[1m"),
    )
    .expect("written");
    let listed = ask(&warc, &["warc list"]);
    harmless(&listed);
    assert_eq!(listed.out.lines().count(), 1, "{}", listed.out);
    assert_eq!(listed.out.matches('\t').count(), 6, "{}", listed.out);
    harmless(&ask(&warc, &["warc list", "--json"]));
    harmless(&run(portolan().args(["warc", "verify"]).arg(&warc)));
    // A pipe gets bytes as they are.
    let raw = run(portolan()
        .args(["warc", "cat", "--offset=0", "--payload"])
        .arg(&warc))
    .succeeded();
    assert!(raw.raw_out.ends_with(b"raw \x1b[2J bytes"), "{:?}", raw.out);
    let (nodes, edges) = (dir.path().join("nodes.tsv"), dir.path().join("edges.tsv"));
    fs::write(
        &nodes,
        "0\thttp://a.test/\x1b[2J\u{202e}\t1\n1\thttp://b.test/\t1\n",
    )
    .expect("written");
    fs::write(&edges, "0\t1\n1\t0\n").expect("written");
    for command in ["graph", "rank"] {
        harmless(&run(portolan().arg(command).args([&nodes, &edges])));
    }
}

/// `script` gives a program a terminal of its own; most systems have it.
#[test]
fn a_terminal_gets_no_raw_payload() {
    let dir = TempDir::new().expect("a directory");
    let warc = dir.path().join("odd.warc");
    let body = "HTTP/1.1 200 OK\r\n\r\nraw \x1b[2J bytes";
    let head = "WARC/1.1\r\nWARC-Type: response\r\nWARC-Record-ID: <urn:uuid:00000000-0000-0000-0000-000000000001>\r\n\
        WARC-Date: 2026-01-01T00:00:00Z\r\nWARC-Target-URI: http://a.test/\r\nContent-Type: application/http\r\n";
    let record = format!("{head}Content-Length: {}\r\n\r\n{body}\r\n\r\n", body.len());
    fs::write(&warc, record).expect("written");
    let line = format!(
        "{} warc cat --offset 0 --payload {}",
        env!("CARGO_BIN_EXE_portolan"),
        warc.display()
    );
    let mut command = Command::new("script");
    command
        .args(["-qec", &line, "/dev/null"])
        .stdin(std::process::Stdio::null());
    let Ok(said) = command.output() else {
        println!("not run: there is no 'script' here");
        return;
    };
    let said = String::from_utf8_lossy(&said.stdout).into_owned();
    assert!(said.contains("raw \\u001b[2J bytes"), "{said:?}");
}
