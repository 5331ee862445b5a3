//! `portolan fetch`: what a crawl would do with one URL, told without a crawl.

mod harness;

use harness::fixed::{Fixed, page, serve};
use harness::{Ran, portolan, run, text};
use serde_json::Value;
use std::sync::{Arc, Mutex};
use tempfile::TempDir;

const PAGE: &str = "<meta charset=utf-8><title>A page</title><a href=inside>1</a> <a href=/private/x>2</a> \
    <a href=http://away.test/>3</a> <a href=/old/y>4</a> <a href=more rel=nofollow>5</a> <a href=mailto:me@site.test>6</a>";

/// A site that notes what it is asked for.
struct Noted {
    server: Fixed,
    paths: Arc<Mutex<Vec<String>>>,
}

fn site() -> Noted {
    let paths: Arc<Mutex<Vec<String>>> = Arc::default();
    let noted = Arc::clone(&paths);
    let server = serve(move |path| {
        noted.lock().expect("no panic").push(path.to_owned());
        match path {
            "/robots.txt" => page(
                "User-agent: *\nDisallow: /private/\nSitemap: http://site.test/map.xml\n",
            )
            .replace("text/html", "text/plain"),
            "/moved" => "HTTP/1.1 302 Found\r\nLocation: /docs/\r\nContent-Length: 0\r\nConnection: close\r\n\r\n".into(),
            "/image" => page("GIF89a").replace("text/html", "image/gif"),
            "/gone" => "HTTP/1.1 410 Gone\r\nContent-Length: 0\r\nConnection: close\r\n\r\n".into(),
            _ => page(PAGE),
        }
    });
    Noted { server, paths }
}

impl Noted {
    fn fetch(&self, url: &str, options: &[&str]) -> Ran {
        let here = TempDir::new().expect("a directory");
        let mut command = portolan();
        command
            .current_dir(here.path())
            .args(["fetch", url, "--delay", "0s", "--resolve"])
            .arg(format!("*={}", self.server.addr))
            .args(options);
        let ran = run(&mut command);
        assert!(!ran.err.contains("panicked"), "{}", ran.err);
        let left = std::fs::read_dir(here.path()).expect("a directory").count();
        assert_eq!(left, 0, "it writes nothing");
        ran
    }

    fn asked(&self) -> Vec<String> {
        std::mem::take(&mut self.paths.lock().expect("no panic"))
    }
}

fn verdicts(answer: &Value) -> Vec<(&str, &str)> {
    let links = answer["links"].as_array().expect("links");
    let mut told: Vec<_> = links
        .iter()
        .map(|link| (text(link, "url"), text(link, "verdict")))
        .collect();
    told.sort_unstable();
    told
}

#[test]
fn a_page_with_its_links_and_the_verdict_on_each() {
    let site = site();
    let ran = site
        .fetch("http://site.test/docs/", &["--exclude", "/old/", "--json"])
        .succeeded();
    assert_eq!(site.asked(), ["/robots.txt", "/docs/"], "and nothing else");
    let told = ran.json();
    assert_eq!(told["robots"]["verdict"], "allowed");
    assert_eq!(told["robots"]["sitemaps"][0], "http://site.test/map.xml");
    let answer = &told["answer"];
    assert_eq!(
        (text(answer, "outcome"), &answer["status"]),
        ("kept", &200.into())
    );
    assert_eq!(
        (text(answer, "charset"), text(answer, "title")),
        ("UTF-8", "A page")
    );
    assert!(
        text(answer, "response_head").starts_with("HTTP/1.1 200 OK\r\nContent-Type: text/html")
    );
    assert!(text(answer, "request_head").starts_with("GET /docs/ HTTP/1.1\r\nHost: site.test"));
    let wanted = [
        ("http://away.test/", "scope"),
        ("http://site.test/docs/inside", "fetch"),
        ("http://site.test/docs/more", "nofollow"),
        ("http://site.test/old/y", "exclude-rule"),
        ("http://site.test/private/x", "robots"),
    ];
    assert_eq!(verdicts(answer), wanted);
    // Other settings, other verdicts.
    let ran = site.fetch(
        "http://site.test/docs/",
        &["--scope", "any", "--max-depth", "0", "--json"],
    );
    let told = ran.succeeded().json();
    let depth = verdicts(&told["answer"])
        .iter()
        .all(|(_, verdict)| ["link-depth", "nofollow"].contains(verdict));
    assert!(depth, "{told}");
    // In words.
    let words = site
        .fetch("http://site.test/docs/", &["--scope", "any"])
        .succeeded()
        .out;
    for part in [
        "Allowed: nothing in http://site.test/robots.txt (status 200) speaks against it.",
        "  | HTTP/1.1 200 OK",
        "Type: text/html. Charset: UTF-8.",
        "Title: A page",
        "It would be archived.",
        "5 links, of which 3 would be fetched:",
        "(fetch?)",
    ] {
        assert!(words.contains(part), "{part}\n{words}");
    }
}

/// It is asked as a crawl would ask: with the fields and cookies of the settings.
#[test]
fn fields_and_cookies_go_along() {
    let site = site();
    let here = TempDir::new().expect("a directory");
    let jar = here.path().join("cookies.txt");
    let line = "site.test\tFALSE\t/\tFALSE\t0\tflavour\tvanilla\n";
    std::fs::write(&jar, format!("# Netscape HTTP Cookie File\n{line}")).expect("a file");
    let config = here.path().join("open.toml");
    std::fs::write(&config, "[access]\nwithhold = []\n").expect("a file");
    let ran = site.fetch(
        "http://site.test/",
        &[
            "--header",
            "X-Purpose: look",
            "--cookies",
            &jar.to_string_lossy(),
            "--config",
            &config.to_string_lossy(),
            "--json",
        ],
    );
    let told = ran.succeeded().json();
    let head = text(&told["answer"], "request_head");
    for field in ["X-Purpose: look\r\n", "Cookie: flavour=vanilla\r\n"] {
        assert!(head.contains(field), "{head}");
    }
}

#[test]
fn robots_are_obeyed_unless_told_otherwise() {
    let site = site();
    let ran = site.fetch("http://site.test/private/x", &[]);
    assert_eq!(ran.code, Some(1));
    assert_eq!(site.asked(), ["/robots.txt"]);
    let told = "Forbidden by 'Disallow: /private/' of http://site.test/robots.txt (status 200).";
    assert!(ran.out.contains(told), "{}", ran.out);
    assert!(ran.out.contains("--anyway"), "{}", ran.out);
    let ran = site.fetch("http://site.test/private/x", &["--anyway", "--json"]);
    assert_eq!(site.asked(), ["/robots.txt", "/private/x"]);
    assert_eq!(
        (ran.code, &ran.json()["answer"]["status"]),
        (Some(1), &200.into())
    );
}

#[test]
fn redirects_failures_and_unwanted_types_are_told() {
    let site = site();
    let moved = site
        .fetch("http://site.test/moved", &["--json"])
        .succeeded()
        .json();
    assert_eq!(moved["answer"]["redirects_to"], "http://site.test/docs/");
    let gone = site.fetch("http://site.test/gone", &[]);
    assert_eq!(gone.code, Some(1));
    assert!(
        gone.out
            .contains("It counts as failed: the server answered with a client error.")
    );
    let here = TempDir::new().expect("a directory");
    let config = here.path().join("types.toml");
    std::fs::write(&config, "[content]\ntypes = [\"text/*\"]\n").expect("a file");
    let image = site.fetch(
        "http://site.test/image",
        &["--config", &config.to_string_lossy()],
    );
    assert!(
        image
            .out
            .contains("It would not be kept: its content type is not wanted."),
        "{}",
        image.out
    );
    // The private network is not for links, and a port without a server is told.
    let mut command = portolan();
    let none = run(command.args(["fetch", "http://127.0.0.1:9/", "--delay", "0s", "--json"]));
    assert_eq!(none.code, Some(2), "{}{}", none.out, none.err);
    assert!(none.err.contains("port 9"), "{}", none.err);
}

#[test]
fn what_is_for_crawls_is_refused_and_not_offered() {
    let site = site();
    for options in [
        &["--out", "x"][..],
        &["--max-pages", "3"],
        &["http://two.test/"],
    ] {
        let ran = site.fetch("http://site.test/", options);
        assert_eq!(ran.code, Some(2), "{options:?}: {}", ran.err);
        assert_eq!(ran.err.trim_end().lines().count(), 1, "{}", ran.err);
    }
    assert!(site.asked().is_empty());
    let help = run(portolan().args(["fetch", "--help"])).succeeded().out;
    for option in [
        "--out",
        "--max-pages",
        "--time-limit",
        "--retry-failed",
        "SEED",
    ] {
        assert!(!help.contains(option), "{option}\n{help}");
    }
    for option in ["--anyway", "--scope", "--config", "--json"] {
        assert!(help.contains(option), "{option}\n{help}");
    }
}
