//! A page and what it needs to be shown are one: with `-p` its style sheets, fonts, images and frames are archived
//! with it, whatever depth and scope say of links; robots.txt holds for them.

mod harness;

use harness::fixed::{Fixed, page, serve_bytes};
use harness::{ask, portolan, run, text};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use tempfile::TempDir;

/// A small site; `cdn.test` is another host at the same address, `/docs/` a part of it.
fn answer(path: &str) -> Vec<u8> {
    let css = |body: &str| {
        let length = body.len();
        format!(
            "HTTP/1.1 200 OK\r\nContent-Type: text/css\r\nConnection: close\r\nContent-Length: {length}\r\n\r\n{body}"
        )
    };
    let moved = |to: &str| {
        format!(
            "HTTP/1.1 302 Found\r\nLocation: {to}\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
        )
    };
    let answer = match path {
        "/robots.txt" => {
            page("User-agent: *\nDisallow: /private/").replace("text/html", "text/plain")
        }
        "/docs/" => page(
            "<meta name=robots content=nofollow><link rel=stylesheet href=/style/main.css>\
             <style>@import url('http://cdn.test/theme.css');</style>\
             <a href=big.png><img src=big.png srcset='big2.png 2x'></a><img src=/private/no.png>\
             <p style=\"background:url('/moved.png')\"><iframe src=/frame.html></iframe>\
             <link rel=icon href=/i.ico><a href=next.html>next</a>",
        ),
        "/frame.html" => page("<script src=/frame.js></script><a href=/elsewhere.html>on</a>"),
        "/style/main.css" => css(
            "@import 'more.css'; @font-face { src: url(../fonts/a.woff2) format('woff2') } \
             @namespace url(/no-link); /* url(comment.png) */",
        ),
        "/style/more.css" => css("a { background: image-set('set.png' 1x) }"),
        "/theme.css" => css("a { background: url(theme.png) }"),
        "/moved.png" => moved("http://cdn.test/arrived.png"),
        // Style sheets without end.
        "/endless/" => page("<link rel=stylesheet href=0.css><a href=on>on</a>"),
        _ if path.starts_with("/endless/") && path.ends_with(".css") => {
            let number: u32 = path["/endless/".len()..path.len() - 4].parse().unwrap();
            css(&format!("@import '{}.css'", number + 1))
        }
        _ => page(path),
    };
    answer.into_bytes()
}

struct Crawled {
    _server: Fixed,
    _dir: TempDir,
    /// State by URL.
    urls: BTreeMap<String, String>,
    asked: Vec<String>,
}

impl Crawled {
    fn of(seed: &str, options: &[&str]) -> Crawled {
        let asked = Arc::new(Mutex::new(Vec::new()));
        let log = Arc::clone(&asked);
        let server = serve_bytes(move |path| {
            log.lock().unwrap().push(path.to_owned());
            answer(path)
        });
        let dir = TempDir::new().unwrap();
        let out = dir.path().join("crawl");
        let mut command = portolan();
        command
            .args(["crawl", seed, "--delay", "0s", "--json", "--resolve"])
            .arg(format!("*={}", server.addr))
            .arg("--out")
            .arg(&out)
            .args(options);
        run(&mut command).succeeded();
        let urls = ask(&out, &["urls", "--json"]).json_lines();
        let state = |url: &serde_json::Value| match url["reason"].as_str() {
            Some(reason) => reason.to_owned(),
            None => text(url, "state").to_owned(),
        };
        let asked = asked.lock().unwrap().clone();
        Crawled {
            _server: server,
            _dir: dir,
            urls: urls
                .iter()
                .map(|url| (text(url, "url").to_owned(), state(url)))
                .collect(),
            asked,
        }
    }

    fn with(&self, state: &str) -> Vec<&str> {
        let of_state = self.urls.iter().filter(|(_, found)| *found == state);
        of_state
            .map(|(url, _)| url.strip_prefix("http://").unwrap_or(url))
            .collect()
    }
}

const PARTS: [&str; 13] = [
    "cdn.test/arrived.png",
    "cdn.test/theme.css",
    "cdn.test/theme.png",
    "site.test/docs/big.png",
    "site.test/docs/big2.png",
    "site.test/fonts/a.woff2",
    "site.test/frame.html",
    "site.test/frame.js",
    "site.test/i.ico",
    "site.test/moved.png",
    "site.test/style/main.css",
    "site.test/style/more.css",
    "site.test/style/set.png",
];

#[test]
fn a_page_and_its_requisites_are_one() {
    let options = ["-p", "--max-depth", "0", "--scope", "prefix"];
    let crawled = Crawled::of("http://site.test/docs/", &options);
    let mut expected = PARTS.to_vec();
    expected.push("site.test/docs/");
    expected.sort_unstable();
    assert_eq!(crawled.with("visited"), expected, "{:?}", crawled.urls);
    assert_eq!(crawled.with("robots"), ["site.test/private/no.png"]);
    assert!(
        !crawled
            .asked
            .iter()
            .any(|path| path.starts_with("/private"))
    );
    assert!(!crawled.urls.contains_key("http://site.test/no-link"));
    assert!(
        !crawled
            .urls
            .contains_key("http://site.test/style/comment.png")
    );
    // Links are still links, from the page and from its frame.
    for url in [
        "http://site.test/docs/next.html",
        "http://site.test/elsewhere.html",
    ] {
        assert!(crawled.urls[url] != "visited", "{:?}", crawled.urls);
    }
}

#[test]
fn without_them_a_page_is_alone() {
    let crawled = Crawled::of("http://site.test/docs/", &["--max-depth", "0"]);
    assert_eq!(crawled.with("visited"), ["site.test/docs/"]);
    assert!(!crawled.urls.contains_key("http://site.test/style/main.css"));
}

#[test]
fn by_settings_they_stay_in_the_scope() {
    let dir = TempDir::new().unwrap();
    let config = dir.path().join("settings.toml");
    std::fs::write(&config, "[content]\nembeds = true\n").unwrap();
    let config = config.to_str().unwrap();
    let crawled = Crawled::of(
        "http://site.test/docs/",
        &["--config", config, "--max-depth", "0"],
    );
    let fetched = crawled.with("visited");
    assert!(fetched.contains(&"site.test/fonts/a.woff2"), "{fetched:?}");
    let elsewhere = ["cdn.test/arrived.png", "cdn.test/theme.css"];
    assert_eq!(crawled.with("scope"), elsewhere);
}

#[test]
fn style_sheets_without_end_end() {
    let crawled = Crawled::of("http://site.test/endless/", &["-p", "--max-depth", "1"]);
    let sheets = crawled.asked.iter().filter(|path| path.ends_with(".css"));
    // Eight in a row are no link away, the ninth is one.
    assert_eq!(sheets.count(), 9, "{:?}", crawled.asked);
    assert_eq!(crawled.urls["http://site.test/endless/9.css"], "link-depth");
}
