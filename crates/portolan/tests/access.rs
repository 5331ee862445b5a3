//! How hosts are asked: header fields, credentials that go nowhere else, and what is particular to some hosts.

mod harness;

use harness::recorder::{Asked, Place, gaps, ok, record, status};
use harness::{ask, run};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::time::Duration;

/// `alice:s3cret` as it is sent.
const BASIC: &str = "Basic YWxpY2U6czNjcmV0";

fn has(head: &str, field: &str) -> bool {
    head.lines().any(|line| line == field)
}

/// Pages that link to each other on two hosts, and a redirect from one to the other.
fn two_hosts(asked: &Asked) -> Vec<u8> {
    let redirect = |to: &str| status("302 Found", &format!("Location: {to}\r\n"), b"");
    match (asked.host, asked.path) {
        (_, "/robots.txt") => status("404 Not Found", "", b""),
        ("a.test", "/") => ok(
            "Content-Type: text/html\r\n",
            b"<a href=/go>1</a><a href=/page>2</a><a href=http://a.test:8080/port>3</a>",
        ),
        ("a.test", "/go") => redirect("http://b.test/landed"),
        _ => ok("Content-Type: text/html\r\n", b"<p>a page"),
    }
}

/// Every file of a crawl that holds `text`, WARC files decompressed.
fn files_with(dir: &Path, text: &str) -> Vec<String> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(dir).expect("a directory") {
        let path = entry.expect("an entry").path();
        if path.is_dir() {
            found.extend(files_with(&path, text));
            continue;
        }
        let bytes = std::fs::read(&path).expect("a file");
        let mut plain = Vec::new();
        let mut members = flate2::read::MultiGzDecoder::new(&bytes[..]);
        if std::io::Read::read_to_end(&mut members, &mut plain).is_err() {
            plain = bytes;
        }
        if plain
            .windows(text.len())
            .any(|part| part == text.as_bytes())
        {
            let name = path.file_name().expect("a name");
            found.push(name.to_string_lossy().into_owned());
        }
    }
    found
}

#[test]
fn a_password_goes_to_its_host_alone_and_is_written_nowhere() {
    let server = record(two_hosts);
    let place = Place::new();
    let mut crawl = place.crawl(&server, &["http://a.test/", "http://b.test/"], "");
    crawl
        .args(["--scope", "any"])
        .args(["--auth", "http://a.test=env:A_PASSWORD"])
        .args(["--header", "X-Purpose: archive"])
        .env("A_PASSWORD", "alice:s3cret");
    let ran = run(&mut crawl).succeeded();
    let sent = format!("Authorization: {BASIC}");
    for seen in server.seen() {
        let is_for_it = seen.host == "a.test" && !seen.head.contains("Host: a.test:8080");
        assert_eq!(has(&seen.head, &sent), is_for_it, "{}", seen.head);
        assert!(has(&seen.head, "X-Purpose: archive"), "{}", seen.head);
    }
    for (host, path) in [
        ("a.test", "/robots.txt"),
        ("a.test", "/port"),
        ("b.test", "/landed"),
        ("b.test", "/robots.txt"),
    ] {
        assert!(server.count(host, path) > 0, "{host}{path} was not asked");
    }
    for secret in ["s3cret", &BASIC[6..]] {
        assert_eq!(files_with(&place.out(), secret), [""; 0], "{secret}");
        assert!(!ran.out.contains(secret) && !ran.err.contains(secret));
    }
    let withheld = files_with(&place.out(), "Authorization: withheld");
    assert_eq!(
        withheld.len(),
        1,
        "the request records say so: {withheld:?}"
    );
}

#[test]
fn a_token_is_written_down_only_where_that_is_asked_for() {
    let server = record(two_hosts);
    let place = Place::new();
    let settings = "[access]\nwithhold = []\n[[host]]\nmatch = \"*.test\"\nsend_to = [\"http\"]\nbearer = \"t0ken\"\n";
    let mut crawl = place.crawl(&server, &["http://a.test/"], settings);
    run(&mut crawl).succeeded();
    let all = server.seen();
    let of_port_80 = all.iter().filter(|seen| !seen.head.contains(":8080"));
    for seen in of_port_80 {
        assert!(
            has(&seen.head, "Authorization: Bearer t0ken"),
            "{}",
            seen.head
        );
    }
    let mut found = files_with(&place.out(), "t0ken");
    found.sort();
    assert_eq!(found.len(), 2, "{found:?}");
    assert_eq!(found[0], "crawl.toml");
    assert!(found[1].ends_with(".warc.gz"), "{found:?}");
    let mode = std::fs::metadata(place.out().join("crawl.toml")).expect("it is there");
    assert_eq!(mode.permissions().mode() & 0o777, 0o600);
    // The crawl goes on with it.
    run(place.resume().arg("http://a.test/more")).succeeded();
    let more: Vec<_> = server.of("a.test");
    let more = more
        .iter()
        .find(|seen| seen.path == "/more")
        .expect("asked");
    assert!(
        has(&more.head, "Authorization: Bearer t0ken"),
        "{}",
        more.head
    );
}

#[test]
fn bad_options_are_told_in_one_sentence_without_the_secret() {
    let server = record(two_hosts);
    let place = Place::new();
    for (arguments, told) in [
        (["--auth", "s3cret"], "--auth: write it as HOST=SECRET"),
        (["--auth", "a.test=s3cret"], "user:password"),
        (["--header", "Authorization: s3cret"], "--auth"),
        (["--header", "Connection: s3cret"], "Connection"),
        (["--bearer", "a.test=env:NO_SUCH_NAME"], "NO_SUCH_NAME"),
    ] {
        let mut crawl = place.crawl(&server, &["http://a.test/"], "");
        let ran = run(crawl.args(arguments));
        assert_eq!(ran.code, Some(2), "{}", ran.err);
        assert!(ran.err.contains(told), "{}", ran.err);
        assert!(!ran.err.contains("s3cret"), "{}", ran.err);
        assert_eq!(ran.err.trim().lines().count(), 1, "{}", ran.err);
    }
    assert!(server.seen().is_empty());
}

#[test]
fn blocks_rule_delay_pages_agent_and_scope_of_their_hosts() {
    let server = record(|asked| {
        match asked.path {
        "/robots.txt" => ok(
            "Content-Type: text/plain\r\n",
            b"User-agent: portolan\nDisallow: /not-portolan\n\nUser-agent: visitor\nDisallow: /not-visitor\n",
        ),
        "/" => {
            let links: String = ["/not-portolan", "/not-visitor", "/private/x"]
                .iter()
                .map(|to| format!("<a href={to}>x</a>"))
                .chain((0..6).map(|n| format!("<a href=/p{n}>x</a>")))
                .chain(["slow", "few", "www"].map(|host| {
                    format!("<a href=http://{host}.other.test/>x</a>")
                }))
                .collect();
            ok("Content-Type: text/html\r\n", links.as_bytes())
        }
        _ => ok("Content-Type: text/html\r\n", b"<p>x"),
    }
    });
    let place = Place::new();
    let settings = r#"
[[host]]
match = "slow.other.test"
delay_ms = 300
max_pages = 4
[[host]]
match = "few.other.test"
max_pages = 2
[[host]]
match = "*.other.test"
delay_ms = 0
user_agent = "visitor/1.0"
exclude = ["/private/"]
"#;
    let mut crawl = place.crawl(&server, &["http://a.test/"], settings);
    crawl.args(["--scope", "any"]);
    run(&mut crawl).succeeded();
    let asked = |host: &str, path: &str| server.count(host, path) == 1;
    // The crawl's own settings on the seed's host.
    assert!(asked("a.test", "/not-visitor") && asked("a.test", "/private/x"));
    assert!(!asked("a.test", "/not-portolan"));
    // Another agent, another group of robots.txt, another rule.
    assert!(asked("www.other.test", "/not-portolan") && asked("www.other.test", "/p5"));
    assert!(!asked("www.other.test", "/not-visitor") && !asked("www.other.test", "/private/x"));
    for seen in server.of("www.other.test") {
        assert!(has(&seen.head, "User-Agent: visitor/1.0"), "{}", seen.head);
    }
    let pages = |host: &str| server.of(host).len() - 1;
    assert_eq!((pages("few.other.test"), pages("slow.other.test")), (2, 4));
    let slow = gaps(&server.of("slow.other.test"));
    assert!(
        slow.iter().all(|gap| *gap >= Duration::from_millis(300)),
        "{slow:?}"
    );
    let story = ask(
        &place.out(),
        &["why", "http://www.other.test/private/x", "--json"],
    )
    .json();
    assert_eq!(story["reason"], "exclude-rule", "{story}");
    let story = ask(&place.out(), &["why", "http://few.other.test/p5", "--json"]).json();
    assert_eq!(story["reason"], "host-budget", "{story}");
}

/// Whoever was given a cookie at the door finds pages; others are sent back to the door.
fn members_only(asked: &Asked) -> Vec<u8> {
    let has_cookie = asked.head.contains("sid=m3mber");
    let links: String = (0..12).map(|n| format!("<a href=/p{n}>x</a>")).collect();
    match asked.path {
        "/robots.txt" => status("404 Not Found", "", b""),
        "/" => ok(
            "Content-Type: text/html\r\nSet-Cookie: sid=m3mber; Path=/; HttpOnly\r\nSet-Cookie: x=1; Domain=test\r\n",
            format!("{links}<a href=http://b.test/>b</a>").as_bytes(),
        ),
        _ if asked.host == "a.test" && !has_cookie => status("403 Forbidden", "", b""),
        _ => ok("Content-Type: text/html\r\n", b"<p>a page"),
    }
}

#[test]
fn set_cookie_is_obeyed_only_where_a_setting_says_so() {
    let server = record(members_only);
    let place = Place::new();
    run(&mut place.crawl(&server, &["http://a.test/"], "")).succeeded();
    assert!(
        !server
            .seen()
            .iter()
            .any(|seen| seen.head.contains("Cookie:"))
    );
    assert!(!place.out().join("cookies").exists());
    let place = Place::new();
    let settings = "[[host]]\nmatch = \"a.test\"\nkeep_cookies = true\n";
    let mut crawl = place.crawl(&server, &["http://a.test/"], settings);
    let report = run(crawl.args(["--scope", "any"])).succeeded().json();
    assert_eq!(report["pages"], 26, "{report}");
    let before = server.of("a.test").len() - 14;
    for seen in &server.of("a.test")[before..] {
        let is_told = seen.path.starts_with("/p");
        assert_eq!(
            seen.head.contains("Cookie: sid=m3mber"),
            is_told,
            "{}",
            seen.head
        );
    }
    for seen in server.of("b.test") {
        assert!(!seen.head.contains("Cookie:"), "{}", seen.head);
    }
    assert_eq!(files_with(&place.out(), "Cookie: withheld").len(), 1);
    let kept = files_with(&place.out(), "m3mber");
    assert!(kept.contains(&"cookies".to_owned()), "{kept:?}");
    let mode = std::fs::metadata(place.out().join("cookies")).expect("it is there");
    assert_eq!(mode.permissions().mode() & 0o777, 0o600);
}

#[test]
fn cookies_outlive_a_kill_and_a_persons_file_is_read() {
    use std::time::Instant;
    let server = record(members_only);
    let place = Place::new();
    let file = place.write(
        "cookies.txt",
        "# Netscape HTTP Cookie File\na.test\tFALSE\t/p3\tFALSE\t0\tfrom\tfile\n",
    );
    let mut crawl = place.crawl(&server, &["http://a.test/"], "");
    crawl.arg("--cookies").arg(&file).arg("--keep-cookies");
    let (begun, child) = (Instant::now(), harness::start(&mut crawl));
    let enough = || server.of("a.test").len() >= 5;
    assert!(harness::wait_until(Duration::from_secs(30), enough));
    harness::signal(child.id(), "KILL");
    harness::finish(child, begun);
    let before = server.seen().len();
    run(&mut place.resume()).succeeded();
    let after = &server.seen()[before..];
    assert!(
        after.iter().any(|seen| seen.path.starts_with("/p")),
        "{after:?}"
    );
    for seen in after.iter().filter(|seen| seen.path.starts_with("/p")) {
        assert!(seen.head.contains("sid=m3mber"), "{}", seen.head);
    }
    for seen in server.of("a.test") {
        let is_named = seen.path == "/p3";
        assert_eq!(seen.head.contains("from=file"), is_named, "{}", seen.head);
    }
    let bad = place.write("bad.txt", "s3cret\n");
    let ran = run(place.resume().arg("--cookies").arg(bad));
    assert_eq!(ran.code, Some(2), "{}", ran.err);
    assert!(
        ran.err.contains("line 1") && !ran.err.contains("s3cret"),
        "{}",
        ran.err
    );
}

/// Pages of `bytes` each that link to each other, and one of ten times as much.
fn heavy(bytes: usize) -> impl Fn(&Asked) -> Vec<u8> {
    move |asked| match asked.path {
        "/robots.txt" => status("404 Not Found", "", b""),
        "/" => {
            let links: String = (0..8).map(|n| format!("<a href=/p{n}>x</a>")).collect();
            ok(
                "Content-Type: text/html\r\n",
                format!("{links}<a href=/large>x</a>").as_bytes(),
            )
        }
        "/large" => ok("Content-Type: text/plain\r\n", &vec![b'l'; 10 * bytes]),
        _ => ok("Content-Type: text/plain\r\n", &vec![b'x'; bytes]),
    }
}

#[test]
fn a_host_is_read_slowly_without_blame_and_others_are_not_held_up() {
    const BYTES: usize = 40_000;
    let server = record(heavy(BYTES));
    let place = Place::new();
    // A large body takes longer than a request may, and than a silence: that is our own doing.
    let settings = "[http]\nrequest_timeout_ms = 1500\nread_timeout_ms = 1000\nmin_bytes_per_s = 100000\n\
        [limits]\nconnections = 1\nthreads = 1\n\
        [[host]]\nmatch = \"*.test\"\ndelay_ms = 0\n[[host]]\nmatch = \"slow.test\"\nbytes_per_s = 150000\n";
    let mut crawl = place.crawl(
        &server,
        &["http://slow.test/", "http://quick.test/"],
        settings,
    );
    let report = run(&mut crawl).succeeded().json();
    assert_eq!(report["pages"], 20, "{report}");
    assert_eq!(report["failed"], 0, "{report}");
    let span = |host: &str| {
        let seen = server.of(host);
        let first = seen.iter().map(|s| s.begun).min().expect("asked");
        seen.iter().map(|s| s.ended).max().expect("asked") - first
    };
    // 18 times 40,000 bytes at 150,000 a second; the last answer's time comes after it.
    assert!(
        span("slow.test") >= Duration::from_secs(2),
        "{:?}",
        span("slow.test")
    );
    assert!(
        span("quick.test") < span("slow.test"),
        "{:?}",
        span("quick.test")
    );
    for row in ask(&place.out(), &["warc list", "--json"]).json_lines() {
        assert!(row.get("truncated").is_none_or(|t| t.is_null()), "{row}");
    }
    let large = ask(&place.out(), &["why", "http://slow.test/large", "--json"]).json();
    assert!(!large.to_string().contains("truncated\":\""), "{large}");
}

#[test]
fn all_hosts_together_keep_to_a_rate() {
    use std::time::Instant;
    const BYTES: usize = 20_000;
    let server = record(heavy(BYTES));
    let place = Place::new();
    let seeds: Vec<String> = (0..4).map(|n| format!("http://h{n}.test/")).collect();
    let seeds: Vec<&str> = seeds.iter().map(String::as_str).collect();
    let settings = "[[host]]\nmatch = \"*\"\ndelay_ms = 0\n";
    let mut crawl = place.crawl(&server, &seeds, settings);
    let begun = Instant::now();
    let report = run(crawl.args(["--limit-rate", "400K"])).succeeded().json();
    assert_eq!(report["pages"], 40, "{report}");
    let bytes = 4 * 18 * BYTES as u64;
    let rate = bytes as f64 / begun.elapsed().as_secs_f64();
    assert!(rate < 450.0 * 1024.0, "{rate}");
    let ran = run(place.resume().args(["--limit-rate", "fast"]));
    assert_eq!(ran.code, Some(2), "{}", ran.err);
}
