//! IndexNow: what a site says by HTTP is heard if it speaks for itself, and believed as far as it was right before.

mod harness;

use harness::small::Small;
use harness::{Ran, Site, finish, portolan, run, signal, start, wait_until};
use portolan_simweb::{Candour, MotionSpec, Web, WebSpec};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, ChildStderr, Stdio};
use std::time::{Duration, Instant};

const KEY: &str = "abcdef12-3456";
const LIMIT: Duration = Duration::from_secs(20);

/// `portolan signal DIR --listen 127.0.0.1:0`, and where it listens.
struct Receiver {
    child: Child,
    said: BufReader<ChildStderr>,
    addr: String,
}

impl Receiver {
    fn start(dir: &Path, options: &[&str]) -> Self {
        let mut command = portolan();
        command.arg("signal").arg(dir);
        command.args(["--listen", "127.0.0.1:0"]).args(options);
        let mut child = command.stderr(Stdio::piped()).spawn().expect("started");
        let mut said = BufReader::new(child.stderr.take().expect("its messages"));
        let mut line = String::new();
        said.read_line(&mut line).expect("a line");
        let addr = line
            .trim_end()
            .strip_prefix("Pings are heard at http://")
            .and_then(|rest| rest.strip_suffix("/indexnow."))
            .unwrap_or_else(|| panic!("where it listens: {line}"));
        Self {
            addr: addr.to_owned(),
            child,
            said,
        }
    }

    /// Status and sentence.
    fn send(&self, request: &[u8]) -> (u16, String) {
        let mut stream = TcpStream::connect(&self.addr).expect("connected");
        stream.set_read_timeout(Some(LIMIT)).expect("a limit");
        // An answer may come before all was sent.
        let _ = stream.write_all(request);
        let mut answer = String::new();
        let _ = stream.read_to_string(&mut answer);
        let status = answer.get(9..12).and_then(|digits| digits.parse().ok());
        let sentence = answer.split_once("\r\n\r\n").map_or("", |(_, body)| body);
        (status.unwrap_or(0), sentence.trim().to_owned())
    }

    fn get(&self, path_and_query: &str) -> (u16, String) {
        self.request("GET", path_and_query, "")
    }

    fn post(&self, body: &str) -> (u16, String) {
        self.request("POST", "/indexnow", body)
    }

    fn request(&self, method: &str, target: &str, body: &str) -> (u16, String) {
        let head = format!(
            "{method} {target} HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: {}\r\n\r\n",
            body.len()
        );
        self.send((head + body).as_bytes())
    }

    /// What it said last.
    fn stop(mut self) -> String {
        signal(self.child.id(), "INT");
        let mut rest = String::new();
        self.said.read_to_string(&mut rest).expect("its messages");
        assert!(self.child.wait().expect("its end").success());
        rest
    }
}

fn ping(url: &str, key: &str) -> String {
    format!("/indexnow?url={url}&key={key}")
}

#[test]
fn who_speaks_for_a_host_is_heard_and_its_page_is_next() {
    let site = Small::serve(&[
        (
            "a.test/",
            "<a href=/1>1</a><a href=/2>2</a><a href=http://b.test/>b</a>",
        ),
        ("a.test/1", "one"),
        ("a.test/2", "two"),
        ("b.test/", "another host"),
    ]);
    site.crawl(&["http://a.test/", "--scope", "any"]);
    site.change(&format!("a.test/{KEY}.txt"), Some(KEY));
    site.change("a.test/in/key", Some(&format!("\n{KEY}\n")));
    site.asked();
    let receiver = Receiver::start(&site.out(), &[]);
    assert_eq!(receiver.get(&ping("http://a.test/1", KEY)).0, 200);
    // It was looked for once.
    assert_eq!(receiver.get(&ping("http://a.test/1", KEY)).0, 200);
    assert_eq!(site.asked_in_order(), [format!("a.test/{KEY}.txt")]);
    // Nobody can speak for the other host, and its server is asked once only.
    let (status, why) = receiver.get(&ping("http://b.test/", KEY));
    assert_eq!(status, 403, "{why}");
    assert!(why.contains("status 404"), "{why}");
    assert_eq!(receiver.get(&ping("http://b.test/", KEY)).0, 403);
    assert_eq!(receiver.get(&ping("http://b.test/", "another-key")).0, 429);
    // What the crawl does not know is not asked anything.
    let (status, why) = receiver.get(&ping("http://c.test/", KEY));
    assert_eq!(status, 422, "{why}");
    assert_eq!(site.asked_in_order(), [format!("b.test/{KEY}.txt")]);
    let body = |host: &str, more: &str, url: &str| {
        format!(r#"{{"host":"{host}","key":"{KEY}",{more}"urlList":["{url}"]}}"#)
    };
    // A new page, which the crawl finds by this alone.
    site.change("a.test/new", Some("news"));
    let told = receiver.post(&body("a.test", "", "http://a.test/new"));
    assert_eq!(told, (200, "received".to_owned()));
    for (request, expected) in [
        (receiver.get("/"), 404),
        (receiver.get("/indexnow"), 400),
        (receiver.get("/indexnow?url=http://a.test/1"), 400),
        (receiver.get(&ping("http://a.test/1", "short")), 422),
        (receiver.request("DELETE", "/indexnow", ""), 405),
        (receiver.post("{\"host\":"), 400),
        (receiver.post("\u{fffd}"), 400),
        (receiver.post(&body("b.test", "", "http://a.test/1")), 422),
        (
            receiver.post(&body(
                "a.test",
                r#""keyLocation":"http://a.test/in/key","#,
                "http://a.test/1",
            )),
            422,
        ),
        (
            receiver.send(b"POST /indexnow HTTP/1.1\r\nHost: x\r\nContent-Length: 9437184\r\n\r\n"),
            413,
        ),
        (receiver.send(b"\0\0\0\r\n\r\n"), 400),
    ] {
        assert_eq!(request.0, expected, "{}", request.1);
    }
    let rest = receiver.stop();
    assert!(rest.contains("3 taken, with 3 URLs."), "{rest}");
    // The crawl believes it: the page is first.
    site.asked_in_order();
    let ran = site.crawl(&["--keep-fresh", "--rate", "20/s", "--time-limit", "3s"]);
    let asked = site.asked_in_order();
    assert_eq!(asked.first().map(String::as_str), Some("a.test/1"), "{ran}");
    assert!(asked.iter().any(|url| url == "a.test/new"), "{asked:?}");
}

/// Far fewer fetches than pages: what was pinged is asked for within a second or two all the same.
#[test]
fn a_crawl_that_runs_asks_for_what_was_pinged_next() {
    let mut spec = WebSpec::default().with_hosts(2).with_pages_per_host(150);
    spec.discovery.sitemap_share = 0.0;
    spec.motion = MotionSpec {
        changes_a_day: 1e-3,
        day_s: 1.0,
        ..MotionSpec::default()
    };
    let site = Site::serve(spec);
    run(&mut site.crawl()).succeeded();
    site.web.set_in_motion();
    let config = site.config("[freshness]\ntick_ms = 1\nimportance = \"equal\"");
    let mut command = site.resume();
    command.args(["--keep-fresh", "--rate", "2/s", "--config"]);
    let begun = Instant::now();
    let child = start(command.arg(config));
    let receiver = Receiver::start(&site.out(), &["--trust", "127.0.0.0/8"]);
    let asked = |url: &str| {
        let counts = site.witness().per_url();
        counts.get(url).map_or(0, |count| count.requests)
    };
    let pages = (100..150).filter(|page| site.web.change_rate(1, *page) > 0.0);
    let known = pages
        .map(|page| site.web.page_url(1, page))
        .filter(|url| asked(url) > 0);
    for url in known.take(3) {
        let before = asked(&url);
        let (status, why) = receiver.get(&ping(&url, KEY));
        assert_eq!(status, 200, "{why}");
        assert!(wait_until(LIMIT, || asked(&url) > before), "{url}");
    }
    let told = begun.elapsed();
    // By worth alone it would have taken 150 s to come to each of 300 pages.
    assert!(told < Duration::from_secs(45), "{told:?}");
    receiver.stop();
    // What was fetched need not be told again.
    let left = || std::fs::read_dir(site.out().join("signals")).map_or(0, Iterator::count);
    assert!(wait_until(LIMIT, || left() == 0), "{}", left());
    signal(child.id(), "INT");
    finish(child, begun).succeeded();
    assert_eq!(site.witness().report().violations.len(), 0);
}

/// One host says at each reading of its sitemap that everything has changed. It is believed now and then, and the others' changes are
/// seen all the same.
#[test]
fn a_sitemap_that_lies_is_not_believed_for_long() {
    let spec_of = |seed: u64| {
        let mut spec = WebSpec::default().with_hosts(5).with_pages_per_host(60);
        spec.seed = seed;
        spec.discovery.sitemap_share = 1.0;
        spec.motion = MotionSpec {
            changes_a_day: 0.01,
            spread: 0.5,
            day_s: 1.0,
            lying_share: 0.4,
            ..MotionSpec::default()
        };
        spec
    };
    let candour = |web: &Web| -> Vec<Candour> { (0..5).map(|host| web.candour(host)).collect() };
    let seed = (1..2_000).find(|seed| {
        let web = Web::new(spec_of(*seed)).expect("a sound spec");
        web.set_in_motion();
        let boasts = candour(&web).into_iter().filter(|c| *c == Candour::Boasts);
        let told = (0..5).filter(|host| web.announces(*host));
        boasts.count() == 1 && told.count() >= 3 && liar_has_dates(&web)
    });
    let site = Site::serve(spec_of(seed.expect("a Web with one such host")));
    run(&mut site.crawl()).succeeded();
    site.web.set_in_motion();
    let liar = candour(&site.web)
        .iter()
        .position(|c| *c == Candour::Boasts);
    let liar = site.web.host_name(liar.expect("it is in the Web") as u32);
    let before: u64 = site.witness().per_host().iter().map(|h| h.requests).sum();
    let of_liar = |site: &Site| {
        let hosts = site.witness().per_host();
        let found = hosts.iter().find(|host| host.host == liar);
        found.map_or(0, |host| host.requests)
    };
    let liar_before = of_liar(&site);
    let config = site.config(
        "[freshness]\ntick_ms = 1\nsources_every_s = 1\nimportance = \"equal\"\nfirst_guess_per_day = 864.0",
    );
    let mut command = site.resume();
    command.args(["--keep-fresh", "--rate", "30/s", "--time-limit", "20s"]);
    run(command.arg("--config").arg(config)).succeeded();
    let all: u64 = site.witness().per_host().iter().map(|h| h.requests).sum();
    let share = (of_liar(&site) - liar_before) as f64 / (all - before) as f64;
    // It is a fifth of all pages. Believed, it would have sixty fetches a second, which is all there are.
    assert!((0.05..0.55).contains(&share), "{share}");
    let seen = site.witness().freshness(3_000, 14_000);
    assert!(seen.announced.changes > 5, "{seen:?}");
    assert!(
        seen.announced.seen * 10 >= seen.announced.changes * 8,
        "{seen:?}"
    );
}

/// Is the host that boasts one whose sitemap has dates?
fn liar_has_dates(web: &Web) -> bool {
    let mut hosts = 0..5;
    let liar = hosts.find(|host| web.candour(*host) == Candour::Boasts);
    liar.is_some_and(|host| web.has_dates(host))
}

#[test]
fn bad_input_is_told_in_a_sentence() {
    let refused = |options: &[&str], about: &str| {
        let site = Small::serve(&[("a.test/", "one")]);
        site.crawl(&["http://a.test/"]);
        let mut command = portolan();
        let ran: Ran = run(command.arg("signal").arg(site.out()).args(options));
        assert_eq!(ran.code, Some(2), "{}", ran.err);
        assert!(ran.err.contains(about), "{}", ran.err);
    };
    refused(&["--listen", "nowhere"], "nowhere");
    refused(&["--listen", "192.0.2.1:1"], "cannot be listened on");
    refused(
        &["--listen", "127.0.0.1:0", "--trust", "everybody"],
        "everybody",
    );
    refused(&["--trust", "10.0.0.0/8", "http://a.test/"], "--listen");
    let mut command = portolan();
    let ran = run(command.args(["signal", "/nowhere", "--listen", "127.0.0.1:0"]));
    assert_eq!((ran.code, ran.err.lines().count()), (Some(2), 1));
    assert!(ran.err.contains("holds no crawl"), "{}", ran.err);
}
