//! Options of the server: connections that end after some requests, pages from a folder, and a witness
//! that is heard without TLS.

mod client;

use client::{get, serve};
use portolan_simweb::{Server, ServerOptions, Web, WebSpec};
use std::io::{Read, Write};
use std::sync::Arc;

#[test]
fn a_connection_ends_after_as_many_requests_as_it_may_have() {
    let server = serve(WebSpec {
        requests_per_connection: 3,
        ..WebSpec::small()
    });
    let mut stream = client::connect(server.addr());
    let request = "GET / HTTP/1.1\r\nHost: h0.sim.test\r\n\r\n";
    stream
        .write_all(request.repeat(5).as_bytes())
        .expect("sent");
    let mut raw = Vec::new();
    // With requests left unread the end of a connection may be a reset.
    let _ = stream.read_to_end(&mut raw);
    let text = String::from_utf8_lossy(&raw);
    assert_eq!(text.matches("HTTP/1.1 200 OK").count(), 3);
    assert_eq!(text.matches("Connection: close").count(), 1);
}

#[test]
fn real_pages_are_served_with_the_links_of_this_web() {
    let dir = std::env::temp_dir().join(format!("simweb-pages-{}", std::process::id()));
    std::fs::create_dir_all(&dir).expect("a folder");
    std::fs::write(dir.join("a.html"), "<html><head><title>Real</title></head>").expect("written");
    let spec = WebSpec {
        pages_from: Some(dir.display().to_string()),
        ..WebSpec::small()
    };
    let server = serve(spec);
    let reply = get(server.addr(), "h3.sim.test", "/");
    std::fs::remove_dir_all(&dir).expect("removed");
    let text = reply.text();
    let start = "<html><head><base href=\"http://pages.example/a.html\"><title>Real</title>";
    assert!(text.starts_with(start), "{text}");
    assert!(text.contains("<a href=\"http://h3.sim.test/"), "{text}");
    assert_eq!(reply.header("content-type"), Some("text/html"));
    assert_eq!(server.web().page_body(3, 0), reply.body);

    let missing = WebSpec {
        pages_from: Some("/nowhere/at/all".into()),
        ..WebSpec::small()
    };
    let refused = Web::new(missing).err().expect("refused").to_string();
    assert!(
        refused.starts_with("pages_from /nowhere/at/all: "),
        "{refused}"
    );
}

#[test]
fn the_witness_is_heard_without_tls_and_the_web_is_not() {
    let spec = WebSpec {
        tls: true,
        ..WebSpec::small()
    };
    let options = ServerOptions {
        tls: true,
        ..ServerOptions::default()
    };
    let web = Arc::new(Web::new(spec).expect("sound"));
    let server = Server::start_with(web, &options).expect("started");
    assert_eq!(get(server.addr(), "127.0.0.1", "/-/witness").status, 200);
    assert_eq!(get(server.addr(), "h0.sim.test", "/").status, 421);
    assert_eq!(server.witness().report().requests, 0);
}
