//! Whom the crawler may be sent to by what the Web says: not into private networks, however names and redirects turn,
//! and not to services that are no Web servers.

mod harness;

use harness::dns::{self, Says};
use harness::fixed::{self, Fixed, page};
use harness::{Ran, ask, portolan, run, text};
use std::net::{Ipv4Addr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use tempfile::TempDir;

const LOOPBACK: Ipv4Addr = Ipv4Addr::LOCALHOST;
/// Nobody connects to it: it is what a name had before it turned.
const PUBLIC: Ipv4Addr = Ipv4Addr::new(93, 184, 215, 14);

struct Place {
    dir: TempDir,
}

impl Place {
    fn new(settings: &str) -> Self {
        let dir = TempDir::new().expect("a directory");
        std::fs::write(dir.path().join("settings.toml"), settings).expect("settings");
        Self { dir }
    }

    fn out(&self) -> PathBuf {
        self.dir.path().join("crawl")
    }

    fn crawl(&self, seeds: &[&str]) -> Command {
        let mut command = self.resume();
        command.args(seeds).args(["--delay", "0s", "--config"]);
        command.arg(self.dir.path().join("settings.toml"));
        command
    }

    fn resume(&self) -> Command {
        let mut command = portolan();
        command.args(["crawl", "--json", "--out"]).arg(self.out());
        command
    }
}

/// State and reason of a URL, by `portolan why`.
fn fate(dir: &Path, url: &str) -> (String, String) {
    let story = ask(dir, &["why", url, "--json"]).json();
    let reason = story["reason"].as_str().unwrap_or("").to_owned();
    (text(&story, "state").to_owned(), reason)
}

fn refused_as(reason: &str) -> (String, String) {
    ("excluded".to_owned(), reason.to_owned())
}

fn connections(server: &Fixed) -> u64 {
    server.connections.load(Ordering::SeqCst)
}

fn redirect(to: &str) -> String {
    format!(
        "HTTP/1.1 302 Found\r\nLocation: {to}\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
    )
}

const NOTHING: &str = "HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\nConnection: close\r\n\r\n";

#[test]
fn a_seed_that_redirects_inwards_opens_no_door_however_often_the_crawl_goes_on() {
    let inner = fixed::serve(|_| page("secret"));
    let target = format!("http://inner.test:{}/secret", inner.addr.port());
    let location = target.clone();
    let outer = fixed::serve(move |path| match path {
        "/go" => redirect(&location),
        "/page" => page("hello"),
        _ => NOTHING.to_owned(),
    });
    // In the first run nobody says where the target is, so that it is due at its end.
    let inner_is_known = Arc::new(AtomicBool::new(false));
    let is_known = Arc::clone(&inner_is_known);
    let names = dns::serve(move |_, _| match is_known.load(Ordering::SeqCst) {
        true => Says::At(LOOPBACK),
        false => Says::Nothing,
    });
    let place = Place::new(&format!(
        "[dns]\nservers = [\"{names}\"]\nresolve = [\"seed.test={}\"]\ntimeout_ms = 1000\n\
         ttl_min_ms = 0\nttl_negative_ms = 0\n[politeness]\nbackoff_ms = 50\nbackoff_max_ms = 100\n",
        outer.addr
    ));
    let seeds = ["http://seed.test/go", "http://seed.test/page"];
    run(place.crawl(&seeds).arg("--time-limit=1s"));
    assert_eq!(
        fate(&place.out(), &target).0,
        "due",
        "else this shows nothing"
    );
    inner_is_known.store(true, Ordering::SeqCst);
    for _ in 0..2 {
        run(place.resume().arg("--time-limit=60s")).succeeded();
        assert_eq!(fate(&place.out(), &target), refused_as("private-address"));
    }
    assert_eq!(connections(&inner), 0, "somebody got in");
    // A person may name it.
    run(place.resume().arg(format!("{target}2"))).succeeded();
    assert_eq!(fate(&place.out(), &format!("{target}2")).0, "visited");
}

#[test]
fn a_name_that_was_public_when_it_was_named_does_not_become_private() {
    let inner = fixed::serve(|_| page("secret"));
    let port = inner.addr.port();
    let names = dns::serve(|name, count| match name {
        "turned.test" if count == 0 => Says::At(PUBLIC),
        "unknown.test" if count == 0 => Says::NoAddress,
        "turned.test" | "unknown.test" | "home.test" => Says::At(LOOPBACK),
        _ => Says::NoAddress,
    });
    let place = Place::new(&format!(
        "[dns]\nservers = [\"{names}\"]\nttl_min_ms = 0\nttl_negative_ms = 0\n"
    ));
    let url = |name: &str| format!("http://{name}.test:{port}/");
    let (turned, unknown, home) = (url("turned"), url("unknown"), url("home"));
    run(&mut place.crawl(&[&turned, &unknown, &home])).succeeded();
    assert_eq!(fate(&place.out(), &home).0, "visited");
    for _ in 0..2 {
        for url in [&turned, &unknown] {
            assert_eq!(fate(&place.out(), url), refused_as("private-address"));
        }
        run(&mut place.resume()).succeeded();
    }
    // What has a private address when it is named may be there, also in later runs; here for robots.txt and a page.
    assert!(connections(&inner) <= 2, "somebody got in");
    let literal = format!("http://127.0.0.1:{port}/literal");
    run(place.resume().arg(&literal)).succeeded();
    assert_eq!(fate(&place.out(), &literal).0, "visited");
}

#[test]
fn ports_of_other_services_are_asked_by_no_link_no_redirect_and_no_robots_txt() {
    let listener = TcpListener::bind("127.0.0.53:6379").expect("nobody else has this port here");
    let redis = fixed::serve_on(listener, |_| page("+PONG").into_bytes());
    let outer = fixed::serve(|path| match path {
        "/" => page(
            "<a href='http://redis.test:6379/a'>a</a> <a href='http://redis.test:22/'>b</a>\
             <a href='/go'>c</a> <a href='http://odd.test/x'>d</a>",
        ),
        "/go" => redirect("http://redis.test:6379/b"),
        _ => NOTHING.to_owned(),
    });
    let odd = fixed::serve(|path| match path {
        "/robots.txt" => redirect("http://redis.test:6379/robots.txt"),
        _ => page("not to be asked for"),
    });
    let settings = format!(
        "[dns]\nresolve = [\"seed.test={}\", \"odd.test={}\", \"redis.test=127.0.0.53\"]\n\
         [scope]\nscope = \"any\"\n[outages]\nwait_ms = 200\n\
         [politeness]\nbackoff_ms = 50\nbackoff_max_ms = 100\n",
        outer.addr, odd.addr
    );
    let place = Place::new(&settings);
    // A host whose robots.txt leads astray is not read, and is waited for in vain: exit code 3.
    let ran = run(place.crawl(&["http://seed.test/"]).arg("--time-limit=20s"));
    assert!(matches!(ran.code, Some(0 | 3)), "{}", ran.err);
    let out = place.out();
    for url in ["6379/a", "6379/b", "22/"].map(|rest| format!("http://redis.test:{rest}")) {
        assert_eq!(fate(&out, &url), refused_as("port"), "{url}");
    }
    let told = ask(&out, &["why", "http://redis.test:22/"]).out;
    assert!(told.contains("another service"), "{told}");
    assert_ne!(fate(&out, "http://odd.test/x").0, "visited");
    assert_eq!(connections(&redis), 0, "somebody got through");

    let refused: Ran = run(&mut Place::new("").crawl(&["http://seed.test:25/"]));
    assert_eq!(refused.code, Some(2), "{}", refused.err);
    assert_eq!(refused.err.lines().count(), 1, "{}", refused.err);
    assert!(
        refused.err.contains("port 25 is that of SMTP"),
        "{}",
        refused.err
    );

    let open = Place::new(&settings.replace("[outages]", "also_ports = [6379]\n[outages]"));
    run(&mut open.crawl(&["http://redis.test:6379/a"])).succeeded();
    assert_eq!(fate(&open.out(), "http://redis.test:6379/a").0, "visited");
    assert!(connections(&redis) > 0);
}
