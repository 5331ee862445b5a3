//! Every oddity really happens on the wire.

mod client;

use client::{ask, connect, exchange, find, get, receive, send, serve};
use portolan_simweb::{Fault, FaultSpec, OddSpec, Oddity, Server, TruthQuery, UrlTruth, WebSpec};
use std::io::{Read, Write};
use std::time::{Duration, Instant};

/// A small Web in which every host but the sound ones has the oddity.
fn odd_web(oddity: Oddity) -> Server {
    let odd = OddSpec {
        host_share: 1.0,
        kinds: vec![oddity],
        drip_pause_ms: 10,
        endless_bytes: 3_000_000,
        ..OddSpec::default()
    };
    serve(WebSpec {
        hosts: 2,
        pages_per_host: 12,
        odd,
        ..WebSpec::default()
    })
}

/// A page of h1 that is served oddly: its target, and the body it would have.
fn odd_page(server: &Server) -> (String, UrlTruth) {
    let truth = server.web().truth(&TruthQuery {
        digests: true,
        ..TruthQuery::default()
    });
    let page = truth
        .urls
        .into_iter()
        .find(|(_, t)| t.oddity.is_some())
        .expect("an odd page");
    let (host, target) = server.web().locate(&page.0).expect("of this Web");
    assert_eq!(host, 1);
    (target.to_owned(), page.1)
}

fn reply(oddity: Oddity) -> (client::Reply, u64) {
    let server = odd_web(oddity);
    let (target, truth) = odd_page(&server);
    let request = format!("GET {target} HTTP/1.1\r\nHost: h1.sim.test\r\n\r\n");
    (
        exchange_until_quiet(&server, &request),
        truth.body.expect("a digest").bytes,
    )
}

/// Reads until the server closes or nothing has come for a while, as on a kept connection.
fn exchange_until_quiet(server: &Server, request: &str) -> client::Reply {
    let mut stream = connect(server.addr());
    stream
        .set_read_timeout(Some(Duration::from_millis(300)))
        .expect("a timeout");
    stream.write_all(request.as_bytes()).expect("sent");
    let mut raw = Vec::new();
    let _ = stream.read_to_end(&mut raw);
    client::parse(raw)
}

#[test]
fn http_1_0_closes() {
    let server = odd_web(Oddity::Http10);
    let (target, truth) = odd_page(&server);
    let mut stream = connect(server.addr());
    send(&mut stream, "h1.sim.test", &target);
    let mut raw = Vec::new();
    stream.read_to_end(&mut raw).expect("closed by the server");
    let reply = client::parse(raw);
    assert_eq!(
        (reply.version.as_str(), reply.header("connection")),
        ("HTTP/1.0", None)
    );
    assert_eq!(reply.body.len() as u64, truth.body.expect("a body").bytes);
}

#[test]
fn http_0_9_has_no_head() {
    let (reply, bytes) = reply(Oddity::Http09);
    assert!(reply.raw.starts_with(b"<!DOCTYPE html>"));
    assert_eq!(reply.raw.len() as u64, bytes);
}

#[test]
fn lengths_lie() {
    let (none, bytes) = reply(Oddity::NoLength);
    assert_eq!(
        (none.header("content-length"), none.body.len() as u64),
        (None, bytes)
    );
    let body_of = |raw: &[u8]| raw.len() - find(raw, b"\r\n\r\n").expect("a head") - 4;
    let stated = |r: &client::Reply| {
        r.header("content-length")
            .and_then(|l| l.parse::<u64>().ok())
            .expect("a length")
    };
    let (short, bytes) = reply(Oddity::ShortLength);
    assert_eq!(
        (stated(&short), body_of(&short.raw) as u64),
        (bytes / 2, bytes)
    );
    let (long, bytes) = reply(Oddity::LongLength);
    assert_eq!(
        (stated(&long), body_of(&long.raw) as u64),
        (bytes + 1_000, bytes)
    );
    let (cut, bytes) = reply(Oddity::Cut);
    assert_eq!((stated(&cut), body_of(&cut.raw) as u64), (bytes, bytes / 2));
}

#[test]
fn chunks_are_good_or_bad() {
    let (good, bytes) = reply(Oddity::Chunked);
    assert_eq!(
        (good.header("transfer-encoding"), good.body.len() as u64),
        (Some("chunked"), bytes)
    );
    assert!(good.raw.ends_with(b"0\r\nX-Trailer: end\r\n\r\n"));
    let (bad, bytes) = reply(Oddity::BadChunkSize);
    assert!(find(&bad.raw, b"\r\nzz\r\n").is_some() && (bad.body.len() as u64) < bytes);
    let (open, bytes) = reply(Oddity::NoLastChunk);
    assert!(!open.raw.ends_with(b"0\r\n\r\n"));
    assert_eq!(open.body.len() as u64, bytes);
}

#[test]
fn heads_are_strange() {
    let (bare, bytes) = reply(Oddity::BareLf);
    assert!(find(&bare.raw, b"\r").is_none());
    assert_eq!(bare.body.len() as u64, bytes);
    let (folded, _) = reply(Oddity::FoldedHeader);
    assert!(
        find(&folded.raw, b"\r\n\tthe next").is_some()
            && find(&folded.raw, b";\r\n charset").is_some()
    );
    let server = odd_web(Oddity::BodyAfterHead);
    let (target, truth) = odd_page(&server);
    let reply = exchange(
        server.addr(),
        &format!("HEAD {target} HTTP/1.1\r\nHost: h1.sim.test\r\nConnection: close\r\n\r\n"),
    );
    assert_eq!(reply.body.len() as u64, truth.body.expect("a body").bytes);
    let proper = exchange(
        server.addr(),
        "HEAD / HTTP/1.1\r\nHost: h0.sim.test\r\nConnection: close\r\n\r\n",
    );
    assert!(proper.body.is_empty() && proper.header("content-length").is_some());
}

#[test]
fn connections_close_unannounced() {
    let server = odd_web(Oddity::ClosesEarly);
    let mut stream = connect(server.addr());
    for n in 0..3 {
        send(&mut stream, "h1.sim.test", "/");
        let reply = receive(&mut stream);
        assert_eq!(
            (reply.status, reply.header("connection")),
            (200, None),
            "{n}"
        );
    }
    assert_eq!(
        stream.read(&mut [0; 16]).unwrap_or(0),
        0,
        "closed after the third"
    );
}

#[test]
fn bodies_drip_or_never_end() {
    let server = odd_web(Oddity::Drip);
    let (target, truth) = odd_page(&server);
    let start = Instant::now();
    let reply = get(server.addr(), "h1.sim.test", &target);
    assert_eq!(reply.body.len() as u64, truth.body.expect("a body").bytes);
    assert!(
        start.elapsed() >= Duration::from_millis(150),
        "{:?}",
        start.elapsed()
    );

    let server = odd_web(Oddity::Endless);
    let (target, _) = odd_page(&server);
    let reply = get(server.addr(), "h1.sim.test", &target);
    assert!(reply.body.len() >= 2_900_000 && reply.header("content-length").is_none());
    let mut stream = connect(server.addr());
    send(&mut stream, "h1.sim.test", &target);
    stream.read_exact(&mut [0; 50_000]).expect("some of it");
    drop(stream);
    let deadline = Instant::now() + Duration::from_secs(5);
    while server.witness().report().served < 2 && Instant::now() < deadline {
        std::thread::sleep(Duration::from_millis(5));
    }
    let report = server.witness().report();
    assert_eq!(
        (report.served, report.aborted),
        (2, 0),
        "leaving an endless body is right"
    );
}

#[test]
fn errors_recover_or_do_not() {
    let faults = FaultSpec {
        error_share: 1.0,
        retry_after_s: 7,
        recover_after: 2,
        ..FaultSpec::default()
    };
    let server = serve(WebSpec {
        hosts: 1,
        pages_per_host: 200,
        faults,
        ..WebSpec::default()
    });
    let truth = server.web().truth(&TruthQuery::default());
    let mut seen = std::collections::BTreeSet::new();
    for (url, expected) in &truth.urls {
        let (_, target) = server.web().locate(url).expect("of this Web");
        for _ in 0..expected.refusals {
            let refused = get(server.addr(), "h0.sim.test", target);
            assert!([429, 503].contains(&refused.status), "{url}");
            assert_eq!(refused.header("retry-after"), Some("7"));
        }
        let reply = get(server.addr(), "h0.sim.test", target);
        assert_eq!(reply.status, expected.status, "{url}");
        seen.insert((reply.status, expected.refusals));
    }
    let all: Vec<u16> = Fault::ALL
        .iter()
        .filter(|f| !f.recovers())
        .map(|f| f.status())
        .collect();
    assert!(
        all.iter().all(|status| seen.contains(&(*status, 0))),
        "{seen:?}"
    );
    assert!(seen.contains(&(200, 2)), "{seen:?}");
}

#[test]
fn codings_carry_the_same_body() {
    let mut spec = WebSpec {
        hosts: 1,
        pages_per_host: 80,
        ..WebSpec::default()
    };
    let content = &mut spec.content;
    (
        content.gzip_share,
        content.deflate_share,
        content.brotli_share,
        content.zstd_share,
    ) = (0.25, 0.25, 0.25, 0.25);
    let server = serve(spec);
    let mut seen = std::collections::BTreeSet::new();
    for url in server.web().truth(&TruthQuery::default()).documents() {
        let (_, target) = server.web().locate(url).expect("of this Web");
        let plain = get(server.addr(), "h0.sim.test", target);
        assert_eq!(plain.header("content-encoding"), None);
        let coded = ask(
            server.addr(),
            "h0.sim.test",
            target,
            "Accept-Encoding: gzip, deflate;q=0.5, br, zstd\r\n",
        );
        let coding = coded
            .header("content-encoding")
            .expect("a coding")
            .to_owned();
        let mut body = Vec::new();
        match coding.as_str() {
            "gzip" => flate2::read::GzDecoder::new(&coded.body[..]).read_to_end(&mut body),
            "deflate" => flate2::read::ZlibDecoder::new(&coded.body[..]).read_to_end(&mut body),
            "br" => brotli::Decompressor::new(&coded.body[..], 4096).read_to_end(&mut body),
            "zstd" => zstd::stream::read::Decoder::new(&coded.body[..])
                .expect("zstd")
                .read_to_end(&mut body),
            other => panic!("{other}"),
        }
        .expect("decoded");
        assert_eq!(body, plain.body, "{url}");
        seen.insert(coding);
    }
    assert_eq!(seen.len(), 4);
}

#[test]
fn hosts_are_picked_by_name() {
    let server = serve(WebSpec::small());
    let addr = server.addr();
    assert_eq!(exchange(addr, "GET / HTTP/1.1\r\n\r\n").status, 400);
    assert_eq!(
        get(addr, "h10.sim.test", "/").status,
        421,
        "ten hosts are h0 to h9"
    );
    assert_eq!(get(addr, "H3.Sim.Test:8080", "/").status, 200);
    assert_eq!(exchange(addr, "nonsense\r\n\r\n").status, 400);
    assert_eq!(get(addr, "h0.sim.test", "/no/such/p9999.html").status, 404);
    assert_eq!(
        get(addr, "h0.sim.test", "/-/witness").status,
        404,
        "control is not on the Web's hosts"
    );
    let conditional = get(addr, "h0.sim.test", "/");
    let tag = conditional.header("etag").expect("a tag").to_owned();
    let again = ask(
        addr,
        "h0.sim.test",
        "/",
        &format!("If-None-Match: {tag}\r\n"),
    );
    assert_eq!((again.status, again.body.len()), (304, 0));
    assert_eq!(
        exchange(
            addr,
            "POST / HTTP/1.1\r\nHost: h0.sim.test\r\nConnection: close\r\n\r\n"
        )
        .status,
        405
    );
}
