//! Servers as they are: every odd answer is a recorded outcome, soon, and within bounds.

mod server;

use portolan_model::{Reason, Truncation};
use portolan_net::{
    BodySink, Decoder, Head, HttpSettings, NetError, Oddity, Request, Response, Version,
};
use server::{Server, Step, answer, ask, fetch, get, send, settings};
use std::io::Write;
use std::ops::ControlFlow;
use std::time::{Duration, Instant};

fn oddities(response: &Response) -> Vec<&'static str> {
    response.oddities.iter().map(Oddity::name).collect()
}

/// An answer that is sent in one go and followed by the end of the connection.
struct Case {
    name: &'static str,
    wire: &'static [u8],
    status: u16,
    body: &'static [u8],
    truncated: Option<Truncation>,
    oddities: &'static [&'static str],
    reusable: bool,
}

const PLAIN: Case = Case {
    name: "plain",
    wire: b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello",
    status: 200,
    body: b"hello",
    truncated: None,
    oddities: &[],
    reusable: true,
};

const CASES: &[Case] = &[
    PLAIN,
    Case {
        name: "HTTP/1.0, length, no keep-alive",
        wire: b"HTTP/1.0 200 OK\r\nContent-Length: 5\r\n\r\nhello",
        reusable: false,
        ..PLAIN
    },
    Case {
        name: "HTTP/1.0 with keep-alive",
        wire: b"HTTP/1.0 200 OK\r\nConnection: Keep-Alive\r\nContent-Length: 5\r\n\r\nhello",
        ..PLAIN
    },
    Case {
        name: "no length, until close",
        wire: b"HTTP/1.1 200 OK\r\n\r\nhello",
        reusable: false,
        ..PLAIN
    },
    Case {
        name: "HTTP/0.9",
        wire: b"<html>old</html>",
        body: b"<html>old</html>",
        oddities: &["http/0.9"],
        reusable: false,
        ..PLAIN
    },
    Case {
        name: "HTTP/0.9 that could have become HTTP",
        wire: b"HT",
        body: b"HT",
        oddities: &["http/0.9"],
        reusable: false,
        ..PLAIN
    },
    Case {
        name: "interim answers",
        wire: b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello",
        ..PLAIN
    },
    Case {
        name: "length too large",
        wire: b"HTTP/1.1 200 OK\r\nContent-Length: 50\r\n\r\nhello",
        truncated: Some(Truncation::Disconnect),
        oddities: &["wrong-content-length"],
        reusable: false,
        ..PLAIN
    },
    Case {
        name: "length absurdly large",
        wire: b"HTTP/1.1 200 OK\r\nContent-Length: 18446744073709551615\r\n\r\nhello",
        truncated: Some(Truncation::Disconnect),
        oddities: &["wrong-content-length"],
        reusable: false,
        ..PLAIN
    },
    Case {
        name: "length too small",
        wire: b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello world",
        oddities: &["wrong-content-length"],
        reusable: false,
        ..PLAIN
    },
    Case {
        name: "repeated length",
        wire: b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nContent-Length: 5\r\n\r\nhello",
        oddities: &["repeated-content-length"],
        ..PLAIN
    },
    Case {
        name: "conflicting lengths",
        wire: b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\nContent-Length: 5\r\n\r\nhello",
        oddities: &["conflicting-content-length"],
        reusable: false,
        ..PLAIN
    },
    Case {
        name: "conflicting lengths, of which the smaller comes true",
        wire: b"HTTP/1.1 200 OK\r\nContent-Length: 9, 5\r\n\r\nhello",
        oddities: &["conflicting-content-length", "wrong-content-length"],
        reusable: false,
        ..PLAIN
    },
    Case {
        name: "conflicting lengths, of which none comes true",
        wire: b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\nContent-Length: 7\r\n\r\nhello",
        truncated: Some(Truncation::Disconnect),
        oddities: &["conflicting-content-length", "wrong-content-length"],
        reusable: false,
        ..PLAIN
    },
    Case {
        name: "a head that ends with the connection",
        wire: b"HTTP/1.1 404 Not Found\r\nContent-Type: text/html\r\n",
        status: 404,
        body: b"",
        oddities: &["head-without-end"],
        reusable: false,
        ..PLAIN
    },
    Case {
        name: "a redirect whose head ends with the connection",
        wire: b"HTTP/1.1 302 Found\nLocation: /x\nContent-Length: 0\n",
        status: 302,
        body: b"",
        oddities: &["bare-lf", "head-without-end"],
        reusable: false,
        ..PLAIN
    },
    Case {
        name: "a head that ends with the connection and promises a body",
        wire: b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n",
        body: b"",
        truncated: Some(Truncation::Disconnect),
        oddities: &["wrong-content-length", "head-without-end"],
        reusable: false,
        ..PLAIN
    },
    Case {
        name: "bad length",
        wire: b"HTTP/1.1 200 OK\r\nContent-Length: five\r\n\r\nhello",
        oddities: &["bad-content-length"],
        reusable: false,
        ..PLAIN
    },
    Case {
        name: "length and chunked",
        wire: b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n",
        oddities: &["length-and-chunked"],
        reusable: false,
        ..PLAIN
    },
    Case {
        name: "chunked, with extension and trailer",
        wire: b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2;x=y\r\nhe\r\n3\r\nllo\r\n0\r\nX-T: 1\r\n\r\n",
        ..PLAIN
    },
    Case {
        name: "chunked, bad size line",
        wire: b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\nxyz\r\nworld\r\n0\r\n\r\n",
        truncated: Some(Truncation::Disconnect),
        oddities: &["bad-chunking"],
        reusable: false,
        ..PLAIN
    },
    Case {
        name: "chunked, line end missing after data",
        wire: b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nhe3\r\nllo0\r\n\r\n",
        oddities: &["bad-chunking"],
        ..PLAIN
    },
    Case {
        name: "chunked, last chunk missing",
        wire: b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n",
        truncated: Some(Truncation::Disconnect),
        oddities: &["bad-chunking"],
        reusable: false,
        ..PLAIN
    },
    Case {
        name: "chunked, last blank line missing",
        wire: b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n",
        oddities: &["bad-chunking"],
        reusable: false,
        ..PLAIN
    },
    Case {
        name: "chunked, cut within a chunk",
        wire: b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nffff\r\nhello",
        truncated: Some(Truncation::Disconnect),
        oddities: &["bad-chunking"],
        reusable: false,
        ..PLAIN
    },
    Case {
        name: "chunked in name only",
        wire: b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n<p>hello\n</p>",
        body: b"<p>hello\n</p>",
        oddities: &["bad-chunking"],
        reusable: false,
        ..PLAIN
    },
    Case {
        name: "bytes after the last chunk",
        wire: b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\nmore",
        oddities: &["wrong-content-length"],
        reusable: false,
        ..PLAIN
    },
    Case {
        name: "bare LF",
        wire: b"HTTP/1.1 200 OK\nContent-Length: 5\n\nhello",
        oddities: &["bare-lf"],
        ..PLAIN
    },
    Case {
        name: "leading blank lines",
        wire: b"\r\n\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello",
        oddities: &["leading-blank-lines"],
        ..PLAIN
    },
    Case {
        name: "folded header",
        wire: b"HTTP/1.1 200 OK\r\nX-Long: a\r\n  b\r\nContent-Length:\r\n 5\r\n\r\nhello",
        oddities: &["folded-header"],
        ..PLAIN
    },
    Case {
        name: "space before the colon",
        wire: b"HTTP/1.1 200 OK\r\nContent-Length : 5\r\n\r\nhello",
        oddities: &["space-before-colon"],
        ..PLAIN
    },
    Case {
        name: "header without colon",
        wire: b"HTTP/1.1 200 OK\r\nnonsense\r\nContent-Length: 5\r\n\r\nhello",
        oddities: &["header-without-colon"],
        ..PLAIN
    },
    Case {
        name: "NUL and 8-bit bytes",
        wire: b"HTTP/1.1 200 OK\r\nX-Nul: a\0b\r\nX-Eight: \xe9\r\nContent-Length: 5\r\n\r\nhello",
        oddities: &["nul-in-head", "8-bit-head"],
        ..PLAIN
    },
    Case {
        name: "no reason phrase",
        wire: b"HTTP/1.1 404\r\nContent-Length: 5\r\n\r\nhello",
        status: 404,
        ..PLAIN
    },
    Case {
        name: "status 999",
        wire: b"HTTP/1.1 999 Request denied\r\nContent-Length: 5\r\n\r\nhello",
        status: 999,
        ..PLAIN
    },
    Case {
        name: "no version",
        wire: b"HTTP 200 OK\r\nContent-Length: 5\r\n\r\nhello",
        oddities: &["strange-status-line"],
        reusable: false,
        ..PLAIN
    },
    Case {
        name: "Shoutcast",
        wire: b"ICY 200 OK\r\nContent-Length: 5\r\n\r\nhello",
        oddities: &["strange-status-line"],
        reusable: false,
        ..PLAIN
    },
    Case {
        name: "204 with a body",
        wire: b"HTTP/1.1 204 No Content\r\n\r\nhello",
        status: 204,
        body: b"",
        oddities: &["wrong-content-length"],
        reusable: false,
        ..PLAIN
    },
    Case {
        name: "304 with a length",
        wire: b"HTTP/1.1 304 Not Modified\r\nContent-Length: 5\r\n\r\n",
        status: 304,
        body: b"",
        ..PLAIN
    },
];

fn check(case: &Case, response: &Response, reusable: bool, how: &str) {
    let what = format!("{} ({how})", case.name);
    assert_eq!(response.status(), case.status, "{what}");
    assert_eq!(
        response.body.escape_ascii().to_string(),
        case.body.escape_ascii().to_string(),
        "{what}"
    );
    assert_eq!(response.truncated, case.truncated, "{what}");
    assert_eq!(oddities(response), case.oddities, "{what}");
    assert_eq!(reusable, case.reusable, "{what}");
    let head = response.head.bytes();
    assert!(
        head.is_empty() || memchr::memmem::find(case.wire, head).is_some(),
        "{what}: the head is not as received"
    );
}

#[tokio::test]
async fn every_odd_answer_sent_whole() {
    for case in CASES {
        let (response, connection) = answer(case.wire).await;
        check(case, &response, connection.reusable(), "whole");
        assert_eq!(response.wire_bytes, case.wire.len() as u64, "{}", case.name);
    }
    println!("{} odd answers", CASES.len());
}

/// In pieces, extra bytes may come too late to be seen; everything else must be the same.
#[tokio::test]
async fn every_odd_answer_in_single_bytes() {
    for case in CASES {
        if case.oddities.contains(&"wrong-content-length") && case.truncated.is_none() {
            continue;
        }
        let script = vec![Step::Request, Step::Drip(case.wire.to_vec(), 0)];
        let (result, connection) = ask(script, &settings(), &Request::get("/")).await;
        check(case, &result.unwrap(), connection.reusable(), "in bytes");
    }
}

/// Answers with a few bytes changed, doubled or left out: always an outcome, never a panic or a
/// wait for bytes that cannot come.
#[tokio::test]
async fn every_mutilated_answer_has_an_outcome() {
    const ROUNDS: usize = 40;
    let mut random = 0x9e37_79b9_7f4a_7c15u64;
    let mut next = move |below: usize| {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        random as usize % below
    };
    let (mut answers, mut errors) = (0, 0);
    for case in CASES {
        for _ in 0..ROUNDS {
            let mut wire = case.wire.to_vec();
            for _ in 0..=next(3) {
                let at = next(wire.len().max(1));
                if wire.is_empty() {
                    break;
                }
                match next(4) {
                    0 => wire[at] = next(256) as u8,
                    1 => wire[at] = b"\r\n :\0;0f"[next(8)],
                    2 => wire.insert(at, wire[at]),
                    _ => drop(wire.remove(at)),
                }
            }
            let script = vec![Step::Request, send(&wire)];
            let (result, _) = ask(script, &settings(), &Request::get("/")).await;
            match result {
                Ok(response) => {
                    answers += 1;
                    assert!(response.body.len() <= wire.len());
                }
                Err(error) => {
                    errors += 1;
                    let reason = error.reason();
                    assert!(
                        matches!(reason, Reason::BrokenHttp | Reason::ConnectionLost),
                        "{error}: {}",
                        wire.escape_ascii()
                    );
                }
            }
        }
    }
    println!("{answers} answers, {errors} errors");
    assert!(answers > errors && errors > 0);
}

#[tokio::test]
async fn heads_are_kept_byte_for_byte_and_read() {
    let head = b"HTTP/1.1 302 Found  \r\nLocation: http://a.test/caf\xe9 \r\nSET-cookie: a=1\r\nset-Cookie: b=2\r\nX-Fold: one\r\n\ttwo \r\n   \r\n three\r\nContent-Length: 0\r\n\r\n";
    let (response, _) = answer(head).await;
    assert_eq!(response.head.bytes(), head);
    assert_eq!(
        response.header("location"),
        Some(b"http://a.test/caf\xe9".as_slice())
    );
    assert_eq!(response.header_str("location"), None);
    let cookies: Vec<_> = response.head.get_all("Set-Cookie").collect();
    assert_eq!(cookies, [b"a=1", b"b=2"]);
    assert_eq!(response.header_str("x-fold"), Some("one two three"));
    assert_eq!(response.version(), Version::Http11);
    assert!(
        response
            .request_head
            .starts_with(b"GET / HTTP/1.1\r\nHost: odd.test:")
    );
}

#[tokio::test]
async fn a_body_after_head_is_discarded() {
    let wire = "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello";
    let script = vec![Step::Request, send(wire), Step::Hold];
    let (result, connection) = ask(script, &settings(), &Request::head("/")).await;
    let response = result.unwrap();
    assert_eq!((response.status(), response.body.len()), (200, 0));
    assert_eq!(oddities(&response), ["body-after-head"]);
    assert!(!connection.reusable());
    let script = vec![Step::Request, send(&wire[..wire.len() - 5]), Step::Hold];
    let (result, connection) = ask(script, &settings(), &Request::head("/")).await;
    assert_eq!(result.unwrap().truncated, None);
    assert!(connection.reusable());
}

#[tokio::test]
async fn endless_heads_and_bodies_are_cut() {
    let endless =
        |start: &str, again: &[u8]| vec![Step::Request, send(start), Step::Endless(again.to_vec())];
    let request = Request::get("/");
    let script = endless("HTTP/1.1 200 OK\r\n", b"X-More: and more\r\n");
    let (result, _) = ask(script, &settings(), &request).await;
    assert_eq!(result.unwrap_err().reason(), Reason::BrokenHttp);

    let script = endless("\r\n", b"\r\n\r\n");
    let (result, _) = ask(script, &settings(), &request).await;
    assert_eq!(result.unwrap_err().reason(), Reason::BrokenHttp);

    let script = endless("", b"HTTP/1.1 100 Continue\r\n\r\n");
    let (result, _) = ask(script, &settings(), &request).await;
    assert_eq!(result.unwrap_err().reason(), Reason::BrokenHttp);

    for start in [
        "HTTP/1.1 200 OK\r\n\r\n",
        "HTTP/1.1 200 OK\r\nContent-Length: 10000000\r\n\r\n",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n",
        "no status line ",
    ] {
        let script = endless(start, b"a\r\n0123456789\r\n");
        let (result, connection) = ask(script, &settings(), &request).await;
        let response = result.unwrap();
        assert_eq!(response.truncated, Some(Truncation::Length), "{start}");
        assert_eq!(response.body.len(), 100_000, "{start}");
        assert!(!connection.reusable());
    }
    // An endless trailer ends a body that is whole.
    let start = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nx\r\n0\r\n";
    let (result, connection) = ask(endless(start, b"T: 1\r\n"), &settings(), &request).await;
    let response = result.unwrap();
    assert_eq!((response.truncated, response.body.len()), (None, 1));
    assert!(!connection.reusable());
}

#[tokio::test]
async fn a_body_of_exactly_the_limit_is_whole() {
    let body = "x".repeat(100_000);
    let (response, _) = answer(format!(
        "HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\n{body}"
    ))
    .await;
    assert_eq!((response.truncated, response.body.len()), (None, 100_000));
    let (response, _) = answer(format!("HTTP/1.1 200 OK\r\n\r\n{body}")).await;
    assert_eq!((response.truncated, response.body.len()), (None, 100_000));
}

#[tokio::test]
async fn very_many_headers_are_kept_as_far_as_the_head_may_go() {
    let mut head = "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n".to_owned();
    for n in 0..5_000 {
        head += &format!("{}: {n}\r\n", n % 10);
    }
    head += "\r\n";
    let settings = HttpSettings {
        max_head_bytes: 128 * 1024,
        ..settings()
    };
    let script = vec![Step::Request, send(&head)];
    let (result, _) = ask(script, &settings, &Request::get("/")).await;
    let response = result.unwrap();
    assert_eq!(oddities(&response), ["too-many-headers"]);
    assert_eq!(response.head.bytes(), head.as_bytes());
}

#[tokio::test]
async fn slow_servers_run_into_the_right_limit() {
    let limits = HttpSettings {
        first_byte_timeout_ms: 200,
        read_timeout_ms: 200,
        request_timeout_ms: 600,
        ..settings()
    };
    let request = Request::get("/");
    let head = b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\nhello";
    let started = Instant::now();

    let (result, _) = ask(vec![Step::Request, Step::Hold], &limits, &request).await;
    assert_eq!(result.unwrap_err().reason(), Reason::Timeout);

    // A head that comes in drops is no head.
    let script = vec![Step::Request, Step::Drip(head.to_vec(), 50)];
    let (result, _) = ask(script, &limits, &request).await;
    assert_eq!(result.unwrap_err().reason(), Reason::Timeout);

    // Silence within the body.
    let script = vec![Step::Request, send(head), Step::Hold];
    let (result, connection) = ask(script, &limits, &request).await;
    let response = result.unwrap();
    assert_eq!(response.truncated, Some(Truncation::Time));
    assert_eq!(response.body, b"hello");
    assert!(
        (200..500).contains(&response.timings.total_ms),
        "{:?}",
        response.timings
    );
    assert!(!connection.reusable());

    // Drops within the body: never silent for long, but below the smallest pace over a stretch,
    let script = vec![Step::Request, send(head), Step::Drip(vec![b'x'; 500], 50)];
    let (result, _) = ask(script.clone(), &limits, &request).await;
    let response = result.unwrap();
    assert_eq!(response.truncated, Some(Truncation::Time));
    assert!((200..500).contains(&response.timings.total_ms));
    // and where any pace will do, too slow as a whole.
    let patient = HttpSettings {
        min_bytes_per_s: 0,
        ..limits.clone()
    };
    let (result, _) = ask(script, &patient, &request).await;
    let response = result.unwrap();
    assert_eq!(response.truncated, Some(Truncation::Time));
    assert!(response.body.len() > 10 && response.timings.total_ms >= 600);

    // A server that never pauses is cut by time too, if not by length.
    let generous = HttpSettings {
        max_body_bytes: u64::MAX,
        request_timeout_ms: 100,
        ..limits.clone()
    };
    let script = vec![
        Step::Request,
        send("HTTP/1.1 200 OK\r\n\r\n"),
        Step::Endless(vec![b'x'; 1_000]),
    ];
    let (result, _) = ask(script, &generous, &request).await;
    assert_eq!(result.unwrap().truncated, Some(Truncation::Time));

    assert!(
        started.elapsed() < Duration::from_secs(5),
        "limits held late"
    );
}

#[tokio::test]
async fn lost_connections() {
    let request = Request::get("/");
    let lost = |result: Result<Response, NetError>| {
        let error = result.unwrap_err();
        assert_eq!(error.reason(), Reason::ConnectionLost, "{error}");
        error.retry_on_new_connection()
    };
    // On a new connection nothing says that a second try would fare better.
    let (result, _) = ask(vec![Step::Request], &settings(), &request).await;
    assert!(!lost(result));
    let (result, _) = ask(vec![Step::Request, Step::Reset], &settings(), &request).await;
    assert!(!lost(result));
    let script = vec![Step::Request, send("HTTP/1.1 200 OK\r\nContent-Le")];
    let (result, _) = ask(script, &settings(), &request).await;
    assert!(!lost(result));

    // Within the body: kept.
    let head = "HTTP/1.1 200 OK\r\n\r\nhello";
    let script = vec![Step::Request, send(head), Step::Wait(50), Step::Reset];
    let (result, _) = ask(script, &settings(), &request).await;
    let response = result.unwrap();
    assert_eq!(response.truncated, Some(Truncation::Disconnect));
    assert_eq!(response.body, b"hello");

    // A server that answers without having read the request.
    let (result, _) = ask(vec![send(PLAIN.wire)], &settings(), &request).await;
    assert_eq!(result.unwrap().body, b"hello");
}

#[tokio::test]
async fn a_kept_connection_that_was_closed_may_be_retried() {
    let page = || send(PLAIN.wire);
    for ends in [
        // Closed while idle; closed on the next request; reset on the next request.
        vec![],
        vec![Step::Request],
        vec![Step::Request, Step::Reset],
    ] {
        let waits = ends.is_empty();
        let mut script = vec![Step::Request, page(), Step::Request, page()];
        script.extend(ends);
        let server = Server::start(vec![script]).await;
        let mut connection = server.connect(&settings()).await;
        for path in ["/1", "/2"] {
            assert_eq!(get(&mut connection, path).await.unwrap().body, b"hello");
            assert!(connection.reusable());
        }
        if waits {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        let error = get(&mut connection, "/3").await.unwrap_err();
        assert_eq!(error.reason(), Reason::ConnectionLost);
        assert!(error.retry_on_new_connection(), "{error}");
        assert!(!connection.reusable());
        assert!(get(&mut connection, "/4").await.is_err());
        let requests = server.requests();
        assert!(requests[0].contains("GET /1 ") && requests[0].contains("GET /2 "));
    }
}

#[tokio::test]
async fn bytes_that_come_between_requests_end_the_connection() {
    let script = vec![
        Step::Request,
        send(PLAIN.wire),
        Step::Wait(50),
        send("late bytes"),
        Step::Hold,
    ];
    let server = Server::start(vec![script]).await;
    let mut connection = server.connect(&settings()).await;
    get(&mut connection, "/1").await.unwrap();
    tokio::time::sleep(Duration::from_millis(150)).await;
    let error = get(&mut connection, "/2").await.unwrap_err();
    assert!(error.retry_on_new_connection(), "{error}");
    // The request was not even sent.
    assert_eq!(server.requests()[0].matches("GET ").count(), 1);
}

#[tokio::test]
async fn an_abandoned_request_leaves_no_usable_connection() {
    let server = Server::start(vec![vec![Step::Request, Step::Hold]]).await;
    let mut connection = server.connect(&settings()).await;
    let request = Request::get("/");
    let mut sink = |_: &[u8]| ControlFlow::Continue(());
    let fetch = connection.fetch(&request, &mut sink);
    assert!(
        tokio::time::timeout(Duration::from_millis(50), fetch)
            .await
            .is_err()
    );
    assert!(!connection.reusable());
}

#[tokio::test]
async fn keep_alive_hints_are_heeded() {
    let wire = "HTTP/1.1 200 OK\r\nKeep-Alive: timeout=1, max=5\r\nContent-Length: 0\r\n\r\n";
    let (_, connection) = answer(wire).await;
    assert!(!connection.reusable(), "one second less one is none");
    let (_, connection) = answer(wire.replace("=1", "=9")).await;
    assert!(connection.reusable());
}

/// Looks at the head, then takes a few bytes only.
struct Picky {
    status: u16,
    wanted_bytes: usize,
    seen: Vec<u8>,
}

impl BodySink for Picky {
    fn head(&mut self, head: &Head) -> ControlFlow<()> {
        self.status = head.status();
        if self.wanted_bytes == 0 {
            return ControlFlow::Break(());
        }
        ControlFlow::Continue(())
    }

    fn body(&mut self, bytes: &[u8]) -> ControlFlow<()> {
        self.seen.extend_from_slice(bytes);
        if self.seen.len() >= self.wanted_bytes {
            return ControlFlow::Break(());
        }
        ControlFlow::Continue(())
    }
}

#[tokio::test]
async fn a_sink_can_say_that_it_is_enough() {
    for framing in [
        "Content-Length: 50000",
        "Transfer-Encoding: chunked",
        "X: y",
    ] {
        for wanted_bytes in [0, 5] {
            let head = format!("HTTP/1.1 203 OK\r\n{framing}\r\n\r\n");
            let script = vec![
                Step::Request,
                send(head),
                Step::Endless(b"a\r\n0123456789\r\n".to_vec()),
            ];
            let server = Server::start(vec![script]).await;
            let mut connection = server.connect(&settings()).await;
            let mut sink = Picky {
                status: 0,
                wanted_bytes,
                seen: Vec::new(),
            };
            let response = connection
                .fetch(&Request::get("/"), &mut sink)
                .await
                .unwrap();
            assert_eq!(sink.status, 203);
            assert_eq!(response.truncated, Some(Truncation::Length), "{framing}");
            assert_eq!(response.body, sink.seen, "{framing}");
            assert!(response.body.len() < 50_000);
            assert!(!connection.reusable());
        }
    }
}

#[tokio::test]
async fn http09_can_be_switched_off() {
    let strict = HttpSettings {
        http09: false,
        ..settings()
    };
    let script = vec![Step::Request, send("SSH-2.0-OpenSSH_9.2\r\n"), Step::Hold];
    let (result, _) = ask(script, &strict, &Request::get("/")).await;
    let error = result.unwrap_err();
    assert_eq!(error.reason(), Reason::BrokenHttp);
    assert!(error.to_string().contains("SSH-2.0"), "{error}");
}

#[tokio::test]
async fn conditional_requests_carry_their_validators() {
    let wire = "HTTP/1.1 304 Not Modified\r\n\r\n";
    let server = Server::start(vec![vec![Step::Request, send(wire)]]).await;
    let mut connection = server.connect(&settings()).await;
    let request = Request {
        if_none_match: Some("\"abc\""),
        if_modified_since: Some("Thu, 01 Jan 1970 00:00:00 GMT"),
        referer: Some("http://from.test/"),
        ..Request::get("/x?y=z")
    };
    let response = fetch(&mut connection, &request).await.unwrap();
    assert_eq!(response.status(), 304);
    let sent = &server.requests()[0];
    assert_eq!(sent.as_bytes(), response.request_head);
    assert!(sent.contains("\r\nIf-None-Match: \"abc\"\r\n"));
    assert!(sent.contains("\r\nIf-Modified-Since: Thu, 01 Jan 1970 00:00:00 GMT\r\n"));
    assert!(sent.contains("\r\nReferer: http://from.test/\r\n"));
    assert!(sent.contains("\r\nAccept-Encoding: gzip, deflate, br, zstd\r\n"));
}

/// Cut within a line, a head may say half of what it meant.
#[tokio::test]
async fn a_head_that_stops_within_a_line_is_lost() {
    for wire in [
        "HTTP/1.1 302 Found\r\nLocation: http://a.test/al",
        "HTTP/1.1 200 OK",
        "HTTP/1.1 100 Continue\r\n",
    ] {
        let script = vec![Step::Request, send(wire)];
        let (result, _) = ask(script, &settings(), &Request::get("/")).await;
        let error = result.unwrap_err();
        assert_eq!(error.reason(), Reason::ConnectionLost, "{wire}");
    }
}

#[tokio::test]
async fn locations_are_read_whatever_charset_they_are_in() {
    for (location, expected) in [
        (&b"/caf\xe9"[..], "/caf%E9"),
        (b"http://a.test/\x93\xfa", "http://a.test/%93%FA"),
        ("/日本".as_bytes(), "/日本"),
    ] {
        let wire = [
            b"HTTP/1.1 301 Moved\r\nContent-Length: 0\r\nLocation: ",
            location,
            b"\r\n\r\n",
        ]
        .concat();
        let (response, _) = answer(wire).await;
        assert_eq!(response.header_url("location").as_deref(), Some(expected));
        assert_eq!(response.header("location"), Some(location));
    }
}

fn gzip(data: &[u8]) -> Vec<u8> {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
    encoder.write_all(data).unwrap();
    encoder.finish().unwrap()
}

fn chunked(data: &[u8]) -> Vec<u8> {
    let size = format!("{:x}\r\n", data.len());
    [size.as_bytes(), data, b"\r\n0\r\n\r\n"].concat()
}

#[tokio::test]
async fn compressed_transfers_are_undone() {
    let text = "<a href=/x>x</a>\n".repeat(400);
    let packed = gzip(text.as_bytes());
    for (fields, body, reusable, truncated) in [
        ("Transfer-Encoding: gzip", packed.clone(), false, None),
        (
            "Transfer-Encoding: gzip, chunked",
            chunked(&packed),
            true,
            None,
        ),
        (
            "Transfer-Encoding: x-gzip\r\nTransfer-Encoding: chunked",
            chunked(&packed),
            true,
            None,
        ),
        // Only said, not done.
        (
            "Transfer-Encoding: gzip, chunked",
            chunked(text.as_bytes()),
            true,
            None,
        ),
        (
            "Transfer-Encoding: gzip",
            packed[..packed.len() / 2].to_vec(),
            false,
            Some(Truncation::Disconnect),
        ),
    ] {
        let head = format!("HTTP/1.1 200 OK\r\n{fields}\r\n\r\n");
        let wire = [head.as_bytes(), &body].concat();
        let (response, connection) = answer(&wire).await;
        assert_eq!(response.truncated, truncated, "{fields}");
        if truncated.is_none() {
            assert_eq!(response.body, text.as_bytes(), "{fields}");
        } else {
            assert!(text.as_bytes().starts_with(&response.body), "{fields}");
        }
        assert_eq!(oddities(&response), ["compressed-transfer"], "{fields}");
        assert_eq!(response.wire_bytes, wire.len() as u64, "{fields}");
        assert_eq!(connection.reusable(), reusable, "{fields}");
    }
    // A bomb is cut where any body is.
    let bomb = gzip(&vec![b'x'; 1_000_000]);
    let head = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip\r\n\r\n";
    let (response, _) = answer([&head[..], &bomb].concat()).await;
    assert_eq!(response.truncated, Some(Truncation::Length));
    assert_eq!(response.body.len() as u64, settings().max_body_bytes);
}

#[tokio::test]
async fn encodings_said_twice_and_done_once_or_twice() {
    let text = b"hello ".repeat(500);
    let once = gzip(&text);
    let twice = gzip(&once);
    for (fields, body) in [
        ("Content-Encoding: gzip\r\nContent-Encoding: gzip", &once),
        ("Content-Encoding: gzip\r\nContent-Encoding: gzip", &twice),
        ("Content-Encoding: gzip, gzip", &once),
        ("Content-Encoding: gzip, gzip", &twice),
        (
            "Content-Encoding: identity\r\nContent-Encoding: x-gzip",
            &once,
        ),
    ] {
        let length = body.len();
        let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {length}\r\n{fields}\r\n\r\n");
        let (response, _) = answer([head.as_bytes(), body].concat()).await;
        assert_eq!(response.body, *body, "as received");
        let (decoded, result) = Decoder::decode_answer(&response.head, &response.body, 1 << 20);
        assert_eq!(result, Ok(()), "{fields}");
        assert!(decoded == text, "{fields}");
    }
}

/// A byte of body a chunk and kilobytes of extension: little body, but endless bytes.
#[tokio::test]
async fn framing_is_bounded_as_bodies_are() {
    let chunk = format!("1;{}\r\nx\r\n", "e".repeat(3_000));
    let script = vec![
        Step::Request,
        send("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"),
        Step::Endless(chunk.into_bytes()),
    ];
    let settings = HttpSettings {
        request_timeout_ms: 60_000,
        ..settings()
    };
    let (result, connection) = ask(script, &settings, &Request::get("/")).await;
    let response = result.unwrap();
    assert_eq!(response.truncated, Some(Truncation::Length));
    assert_eq!(oddities(&response), ["too-much-framing"]);
    assert!(response.body.len() < 1_000, "{}", response.body.len());
    let limit = 2 * settings.max_body_bytes + settings.max_head_bytes as u64;
    assert!(response.wire_bytes > limit && response.wire_bytes < 2 * limit);
    assert!(!connection.reusable());
}

#[tokio::test]
async fn interim_answers_are_bounded() {
    let script = vec![
        Step::Request,
        Step::Endless(b"HTTP/1.1 103 Early Hints\r\n\r\n".to_vec()),
    ];
    let (result, _) = ask(script, &settings(), &Request::get("/")).await;
    let error = result.unwrap_err();
    assert_eq!(error.reason(), Reason::BrokenHttp);
    assert!(error.to_string().contains("interim"), "{error}");
}
