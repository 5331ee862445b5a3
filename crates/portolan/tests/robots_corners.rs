//! robots.txt in unusual places and states: behind a redirect to another host, busy, broken off; and a host with several
//! addresses. Judged by servers that record when they were asked.

mod harness;

use harness::recorder::{Asked, Place, gaps, ok, record, status};
use harness::{Ran, finish, run, signal, start, wait_until};
use std::net::UdpSocket;
use std::time::{Duration, Instant};

const LIMIT: Duration = Duration::from_secs(30);

fn moved_to(url: &str) -> Vec<u8> {
    status("301 Moved", &format!("Location: {url}\r\n"), b"")
}

fn refused(seconds: u32) -> Vec<u8> {
    status("503 Busy", &format!("Retry-After: {seconds}\r\n"), b"")
}

fn html(body: &str) -> Vec<u8> {
    ok("Content-Type: text/html\r\n", body.as_bytes())
}

fn kill(child: std::process::Child, begun: Instant) {
    signal(child.id(), "KILL");
    let ran: Ran = finish(child, begun);
    assert_eq!(ran.code, None, "killed, not ended: {}", ran.err);
}

#[test]
fn a_robots_txt_behind_a_redirect_is_asked_for_at_its_hosts_pace() {
    const CRAWL_DELAY: Duration = Duration::from_secs(1);
    let server = record(|asked: &Asked| match (asked.host, asked.path) {
        ("refuge.test", "/robots.txt") => ok("", b"User-agent: *\nCrawl-delay: 1\n"),
        ("refuge.test", "/") => html("<a href=/1>1</a> <a href=/2>2</a> <a href=/3>3</a>"),
        (_, "/robots.txt") => moved_to(&format!("http://refuge.test/of-{}.txt", asked.host)),
        (_, path) if path.ends_with(".txt") => ok("", b"User-agent: *\nDisallow: /x\n"),
        _ => html("a page"),
    });
    let place = Place::new();
    let seeds = [
        "http://refuge.test/",
        "http://a.test/",
        "http://b.test/",
        "http://c.test/",
    ];
    // The refuge's own rules are known before anybody is sent there.
    run(place
        .crawl(&server, &seeds[..1], "")
        .args(["--max-pages", "1"]))
    .succeeded();
    // It goes on as a guest's and as the host's own turns come, and across a kill.
    let begun = Instant::now();
    let mut more = place.resume();
    let child = start(more.args(&seeds[1..]).args(["--max-pages", "0"]));
    assert!(
        wait_until(LIMIT, || server.of("refuge.test").len() >= 4),
        "{:?}",
        server.seen()
    );
    kill(child, begun);
    run(&mut place.resume()).succeeded();
    let seen = server.of("refuge.test");
    let pauses = gaps(&seen);
    assert!(
        pauses.iter().all(|gap| *gap >= CRAWL_DELAY),
        "{pauses:?} {seen:#?}"
    );
    for host in ["a.test", "b.test", "c.test"] {
        // What was not committed at the kill is asked for again.
        assert!(server.count(host, "/") >= 1, "{:#?}", server.seen());
        assert!(server.count("refuge.test", &format!("/of-{host}.txt")) >= 1);
    }
    assert!(
        server.count("refuge.test", "/3") >= 1,
        "guests do not shut out its own pages"
    );
}

#[test]
fn retry_after_behind_a_redirect_holds_for_all_and_across_a_kill() {
    let server = record(|asked: &Asked| match (asked.host, asked.path) {
        ("refuge.test", "/of-a.test.txt") if asked.before == 0 => refused(3),
        ("refuge.test", _) => ok("", b"User-agent: *\nDisallow: /x\n"),
        ("a.test", "/robots.txt") => moved_to("http://refuge.test/of-a.test.txt"),
        _ => html("a page"),
    });
    let place = Place::new();
    let mut command = place.crawl(&server, &["http://a.test/"], "");
    let begun = Instant::now();
    let child = start(&mut command);
    assert!(wait_until(LIMIT, || !server.of("refuge.test").is_empty()));
    std::thread::sleep(Duration::from_millis(50));
    kill(child, begun);
    // Now the refuge is a host to be crawled, too.
    run(place
        .resume()
        .args(["http://refuge.test/", "http://a.test/"]))
    .succeeded();
    let pauses = gaps(&server.of("refuge.test"));
    assert!(
        pauses[0] >= Duration::from_secs(3),
        "{pauses:?} {:#?}",
        server.seen()
    );
    assert_eq!(server.count("a.test", "/"), 1);
}

#[test]
fn retry_after_on_robots_txt_is_kept() {
    let server = record(|asked: &Asked| match asked.path {
        "/robots.txt" if asked.before == 0 => refused(3),
        "/robots.txt" => ok("", b""),
        _ => html("a page"),
    });
    let place = Place::new();
    run(&mut place.crawl(&server, &["http://a.test/"], "")).succeeded();
    let pauses = gaps(&server.seen());
    assert!(pauses[0] >= Duration::from_secs(3), "{pauses:?}");
    assert_eq!(server.count("a.test", "/"), 1, "{:#?}", server.seen());
}

#[test]
fn a_robots_txt_that_is_refused_counts_once() {
    let server = record(|asked: &Asked| match asked.path {
        "/robots.txt" if asked.before < 2 => status("503 Busy", "", b""),
        "/robots.txt" => ok("", b""),
        _ => html("a page"),
    });
    let place = Place::new();
    let mut command = place.crawl(&server, &["http://a.test/"], "");
    place.change_settings("backoff_ms = 100", "backoff_ms = 1000");
    run(&mut command).succeeded();
    let pauses = gaps(&server.seen());
    // 1 s and 2 s; counted twice, 2 s and 8 s.
    let both = pauses[0] + pauses[1];
    assert!(both >= Duration::from_secs(3), "{pauses:?}");
    assert!(both < Duration::from_secs(6), "{pauses:?}");
}

/// Rules of so many bytes that leave `/` open and end with one that does not matter.
fn rules(bytes: usize) -> Vec<u8> {
    let mut rules = b"User-agent: *\nDisallow: /x\n".to_vec();
    while rules.len() < bytes {
        rules.extend_from_slice(b"# so that there is something to be cut off\n");
    }
    rules
}

#[test]
fn a_robots_txt_that_breaks_off_is_unreachable() {
    fn broken(host: &str) -> Option<Vec<u8>> {
        let whole = rules(2_000);
        Some(match host {
            "short.test" => {
                let mut answer = ok("", &whole);
                answer.truncate(answer.len() - 100);
                answer
            }
            "chunk.test" => {
                let head = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n";
                let mut answer = format!("{head}{:x}\r\n", whole.len()).into_bytes();
                answer.extend_from_slice(&whole[..1_500]);
                answer
            }
            "chunks.test" => {
                let head = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n";
                let mut answer = format!("{head}{:x}\r\n", whole.len()).into_bytes();
                answer.extend_from_slice(&whole);
                answer.extend_from_slice(b"\r\n");
                answer
            }
            "gzip.test" => {
                let packed = gzip(&whole);
                ok("Content-Encoding: gzip\r\n", &packed[..packed.len() - 20])
            }
            _ => return None,
        })
    }
    let server = record(|asked: &Asked| match asked.path {
        "/robots.txt" if asked.host == "once.test" && asked.before == 0 => {
            broken("short.test").expect("a broken one")
        }
        // Cut by ourselves, which is no breaking off.
        "/robots.txt" if asked.host == "long.test" => ok("", &rules(600 * 1024)),
        "/robots.txt" => broken(asked.host).unwrap_or_else(|| ok("", &rules(100))),
        _ => html("a page"),
    });
    let broken_hosts = ["short.test", "chunk.test", "chunks.test", "gzip.test"];
    let hosts = ["once.test", "long.test", "plain.test"];
    let seeds: Vec<String> = broken_hosts
        .iter()
        .chain(&hosts)
        .map(|host| format!("http://{host}/"))
        .collect();
    let seeds: Vec<&str> = seeds.iter().map(String::as_str).collect();
    let place = Place::new();
    run(place
        .crawl(&server, &seeds, "")
        .args(["--time-limit", "6s"]))
    .succeeded();
    for host in broken_hosts {
        assert_eq!(server.count(host, "/"), 0, "{host}: {:#?}", server.of(host));
        assert!(
            server.count(host, "/robots.txt") > 1,
            "{host} is asked again"
        );
    }
    for host in hosts {
        assert_eq!(server.count(host, "/"), 1, "{host}: {:#?}", server.of(host));
    }
    assert_eq!(server.count("once.test", "/robots.txt"), 2);
}

/// With stored blocks, which any decoder takes.
fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut out = vec![0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 0xff];
    let length = bytes.len() as u16;
    out.push(1);
    out.extend_from_slice(&length.to_le_bytes());
    out.extend_from_slice(&(!length).to_le_bytes());
    out.extend_from_slice(bytes);
    out.extend_from_slice(&crc32(bytes).to_le_bytes());
    out.extend_from_slice(&(bytes.len() as u32).to_le_bytes());
    out
}

fn crc32(bytes: &[u8]) -> u32 {
    !bytes.iter().fold(u32::MAX, |crc, byte| {
        (0..8).fold(crc ^ u32::from(*byte), |crc, _| {
            (crc >> 1) ^ (0xedb8_8320 & (crc & 1).wrapping_neg())
        })
    })
}

/// A name server by which every host has an address of its own where nobody listens, and then the one where all are.
fn dns() -> String {
    let socket = UdpSocket::bind("127.0.0.1:0").expect("a free port");
    let address = socket.local_addr().expect("it is bound").to_string();
    std::thread::spawn(move || {
        let mut query = [0; 512];
        while let Ok((length, client)) = socket.recv_from(&mut query) {
            let _ = socket.send_to(&dns_reply(&query[..length]), client);
        }
    });
    address
}

fn dns_reply(query: &[u8]) -> Vec<u8> {
    let end = 12 + query[12..].iter().position(|b| *b == 0).expect("a name") + 1;
    let wants_a = query[end..end + 2] == [0, 1];
    let mut reply = query[..2].to_vec();
    let answers = if wants_a { 2 } else { 0 };
    reply.extend_from_slice(&[0x85, 0x80, 0, 1, 0, answers, 0, 0, 0, 0]);
    reply.extend_from_slice(&query[12..end + 4]);
    if wants_a {
        // The first letter of the name.
        for address in [[127, 0, 9, query[13]], [127, 0, 0, 1]] {
            reply.extend_from_slice(&[0xc0, 12, 0, 1, 0, 1, 0, 0, 0, 77, 0, 4]);
            reply.extend_from_slice(&address);
        }
    }
    reply
}

#[test]
fn the_address_that_is_left_alone_is_the_one_connected_to() {
    const IP_DELAY: Duration = Duration::from_millis(300);
    let server = record(|asked: &Asked| match asked.path {
        "/robots.txt" => status("404 None", "", b""),
        _ => html("a page"),
    });
    let place = Place::new();
    let seeds = ["a", "b", "c", "d", "e"]
        .map(|name| format!("http://{name}.several:{}/", server.addr.port()));
    let seeds: Vec<&str> = seeds.iter().map(String::as_str).collect();
    let settings = format!(
        "[dns]\nservers = [\"{}\"]\nallow_networks = [\"127.0.0.0/8\"]\n",
        dns()
    );
    let mut command = place.crawl(&server, &seeds, &settings);
    place.change_settings("ip_delay_ms = 1", "ip_delay_ms = 300");
    run(&mut command).succeeded();
    let mut seen = server.seen();
    seen.sort_by_key(|request| request.begun);
    assert_eq!(seen.len(), 10, "{seen:#?}");
    let pauses = gaps(&seen);
    assert!(pauses.iter().all(|gap| *gap >= IP_DELAY), "{pauses:?}");
}
