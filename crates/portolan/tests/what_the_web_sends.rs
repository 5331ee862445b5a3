//! Answers that are not as they should be, and what a crawl by the real program makes of them.

mod harness;

use harness::fixed::{Fixed, gzip, page, serve_bytes};
use harness::{Ran, ask, number, portolan, run, text};
use serde_json::Value;
use std::collections::BTreeMap;
use tempfile::TempDir;

/// A finished crawl of one server that answers for every host.
struct Crawled {
    _server: Fixed,
    dir: TempDir,
    report: Value,
    urls: BTreeMap<String, Value>,
}

impl Crawled {
    fn of(settings: &str, answer: impl Fn(&str) -> Vec<u8> + Send + 'static) -> Crawled {
        let server = serve_bytes(answer);
        let dir = TempDir::new().unwrap();
        let config = dir.path().join("settings.toml");
        std::fs::write(&config, settings).unwrap();
        let mut command = portolan();
        command
            .args(["crawl", "http://site.test/", "--delay", "0s", "--json"])
            .arg("--config")
            .arg(&config)
            .arg("--resolve")
            .arg(format!("*={}", server.addr))
            .arg("--out")
            .arg(dir.path().join("crawl"));
        let report = run(&mut command).succeeded().json();
        let urls = ask(&dir.path().join("crawl"), &["urls", "--json"])
            .json_lines()
            .into_iter()
            .map(|line| (text(&line, "url").to_owned(), line))
            .collect();
        Crawled {
            _server: server,
            dir,
            report,
            urls,
        }
    }

    /// The state of a URL of the site, and the reason for it.
    fn state(&self, path: &str) -> String {
        match self.urls.get(&format!("http://site.test{path}")) {
            None => "unknown".to_owned(),
            Some(url) => match url["reason"].as_str() {
                Some(reason) => format!("{} {reason}", text(url, "state")),
                None => text(url, "state").to_owned(),
            },
        }
    }

    fn why(&self, path: &str, options: &[&str]) -> Ran {
        let url = format!("http://site.test{path}");
        let mut arguments = vec!["why", &url];
        arguments.extend(options);
        ask(&self.dir.path().join("crawl"), &arguments)
    }
}

fn answer(head: &[u8], body: &[u8]) -> Vec<u8> {
    [b"HTTP/1.1 ", head, b"\r\nConnection: close\r\n\r\n", body].concat()
}

fn links(hrefs: &[&str]) -> Vec<u8> {
    let links: String = hrefs
        .iter()
        .map(|href| format!("<a href='{href}'>x</a>"))
        .collect();
    page(&links).into_bytes()
}

const FEED: &str = "<feed xmlns='http://www.w3.org/2005/Atom' xml:base='/blog/'>\
    <entry xml:base='2024/'><link href='one'/></entry><entry><link href='two'/></entry></feed>";

#[test]
fn odd_answers_lead_where_they_should() {
    let crawled = Crawled::of("", |path| {
        match path {
        "/robots.txt" => b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nConnection: close\r\n\r\n\
            User-agent: *\nDisallow: https://other.example/\nDisallow: http://site.test/closed/\n"
            .to_vec(),
        "/" => links(&[
            "/latin-1",
            "/shift-jis",
            "/refresh",
            "/transfer",
            "/encoded",
            "/feed.xml",
            "/head-only",
            "/closed/a",
            "/list?CFID=1&CFTOKEN=2&n=3",
            "/list?CFID=4&n=3",
            "/(S(lit3py55t21z5v55vlm25s55))/page.aspx",
        ]),
        "/latin-1" => answer(b"301 Moved\r\nLocation: /caf\xe9", b""),
        "/shift-jis" => answer(b"302 Found\r\nLocation: /\x93\xfa\x95\x5c/x", b""),
        "/refresh" => answer(
            b"200 OK\r\nContent-Type: text/html\r\nRefresh: 5; URL='/refreshed'",
            b"<base href=/elsewhere/><p>wait",
        ),
        "/transfer" => answer(
            b"200 OK\r\nContent-Type: text/html\r\nTransfer-Encoding: gzip",
            &gzip(b"<a href=/in-transfer>x</a>"),
        ),
        "/encoded" => answer(
            b"200 OK\r\nContent-Type: text/html\r\nContent-Encoding: gzip\r\nContent-Encoding: gzip",
            &gzip(&gzip(b"<a href=/in-encoded>x</a>")),
        ),
        "/feed.xml" => answer(
            b"200 OK\r\nContent-Type: application/atom+xml",
            FEED.as_bytes(),
        ),
        "/head-only" => b"HTTP/1.1 301 Moved\r\nLocation: /from-head\r\n".to_vec(),
        path => page(path).into_bytes(),
    }
    });
    for path in [
        "/caf%E9",
        "/%93%FA%95%5C/x",
        "/refreshed",
        "/in-transfer",
        "/in-encoded",
        "/blog/2024/one",
        "/blog/two",
        "/from-head",
        "/list?n=3",
        "/list?CFID=4&n=3",
        "/page.aspx",
    ] {
        assert_eq!(crawled.state(path), "visited", "{path}");
    }
    assert_eq!(crawled.state("/closed/a"), "excluded robots");
    assert_eq!(crawled.state("/elsewhere/refreshed"), "unknown");
    assert_eq!(crawled.state("/one"), "unknown");
    let received = number(&crawled.report, "wire_bytes_this_run");
    assert!(
        received > number(&crawled.report, "wire_bytes"),
        "{received}"
    );
}

#[test]
fn indexes_in_indexes_end() {
    let crawled = Crawled::of("[robots]\nmax_sitemap_depth = 3\n", |path| {
        if path == "/robots.txt" {
            return page("Sitemap: /index/0")
                .replace("html", "plain")
                .into_bytes();
        }
        let Some(number) = path.strip_prefix("/index/") else {
            return page(path).into_bytes();
        };
        let next = number.parse::<u64>().unwrap() + 1;
        let index = format!(
            "<sitemapindex><sitemap><loc>http://site.test/index/{next}</loc></sitemap></sitemapindex>"
        );
        page(&index).replace("text/html", "text/xml").into_bytes()
    });
    for number in 0..=3 {
        let path = format!("/index/{number}");
        assert_eq!(crawled.state(&path), "visited", "{path}");
    }
    assert_eq!(crawled.state("/index/4"), "excluded sitemap-depth");
    assert_eq!(crawled.state("/index/5"), "unknown");
    assert_eq!(number(&crawled.report["reasons"], "sitemap-depth"), 1);
}

#[test]
fn links_left_out_are_told_and_counted() {
    let crawled = Crawled::of("[content]\nmax_links = 10\n", |path| match path {
        "/" => {
            let hrefs: Vec<String> = (0..25).map(|n| format!("/{}", n % 23)).collect();
            links(&hrefs.iter().map(String::as_str).collect::<Vec<_>>())
        }
        path => page(path).into_bytes(),
    });
    assert_eq!(number(&crawled.report, "links_left_out"), 13);
    assert_eq!(number(&crawled.report, "pages_over_links"), 1);
    let told = crawled.why("/", &[]).out;
    assert!(
        told.contains("Links taken: 10. Links beyond content.max_links, not taken: 13."),
        "{told}"
    );
    assert_eq!(
        number(&crawled.why("/", &["--json"]).json(), "links_left_out"),
        13
    );
    assert_eq!(
        number(&crawled.why("/3", &["--json"]).json(), "links_left_out"),
        0
    );
    assert!(!crawled.why("/3", &[]).out.contains("max_links"));
}

/// The bound falls behind `Disallow: /p`, which would forbid far more than the whole line.
#[test]
fn a_compressed_robots_txt_over_the_bound_loses_its_cut_line() {
    const BOUND: usize = 500 * 1024;
    let mut rules = b"User-agent: *\nDisallow: /closed/\n".to_vec();
    let cut = b"Disallow: /p";
    rules.resize(BOUND - cut.len() - 1, b'#');
    rules.extend_from_slice(b"\nDisallow: /private/\n");
    assert!(rules[..BOUND].ends_with(cut));
    let robots = [
        &b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Encoding: gzip\r\nConnection: close\r\n\r\n"[..],
        &gzip(&rules),
    ]
    .concat();
    let crawled = Crawled::of("", move |path| match path {
        "/robots.txt" => robots.clone(),
        "/" => links(&["/public", "/closed/x"]),
        path => page(path).into_bytes(),
    });
    assert_eq!(crawled.state("/public"), "visited");
    assert_eq!(crawled.state("/closed/x"), "excluded robots");
}

#[test]
fn a_robots_txt_may_move_to_a_name_in_any_charset() {
    let crawled = Crawled::of("", |path| match path {
        "/robots.txt" => answer(b"301 Moved\r\nLocation: /r\xe8gles.txt", b""),
        "/r%E8gles.txt" => answer(
            b"200 OK\r\nContent-Type: text/plain",
            b"User-agent: *\nDisallow: /closed/\n",
        ),
        "/" => links(&["/open", "/closed/x"]),
        path => page(path).into_bytes(),
    });
    assert_eq!(crawled.state("/open"), "visited");
    assert_eq!(crawled.state("/closed/x"), "excluded robots");
}
