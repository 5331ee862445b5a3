//! Sitemaps are sources of links, not documents: they are read whatever keeps pages out, and count as none.

mod harness;

use harness::small::{Small, set};
use harness::{Site, number, run, text};
use portolan_simweb::{TruthQuery, Via, WebSpec};

const XML: &str =
    "HTTP/1.1 200 OK\r\nContent-Type: application/xml\r\nConnection: close\r\nContent-Length: ";

fn xml(body: &str) -> String {
    format!("{XML}{}\r\n\r\n{body}", body.len())
}

fn urlset(urls: &[String]) -> String {
    let urls: String = urls
        .iter()
        .map(|url| format!("<url><loc>{url}</loc></url>"))
        .collect();
    xml(&format!("<?xml version=\"1.0\"?><urlset>{urls}</urlset>"))
}

fn index(urls: &[&str]) -> String {
    let urls: String = urls
        .iter()
        .map(|url| format!("<sitemap><loc>{url}</loc></sitemap>"))
        .collect();
    xml(&format!(
        "<?xml version=\"1.0\"?><sitemapindex>{urls}</sitemapindex>"
    ))
}

fn robots(text: &str) -> String {
    format!(
        "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nConnection: close\r\nContent-Length: {}\r\n\r\n{text}",
        text.len()
    )
}

/// Twenty pages that only a sitemap beside them names.
#[test]
fn a_sitemap_is_read_whatever_keeps_pages_out_and_is_no_page() {
    let urls: Vec<String> = (1..=20)
        .map(|n| format!("http://a.test/docs/{n}"))
        .chain(["http://a.test/other/1".to_owned()])
        .collect();
    let pages: Vec<(String, String)> = urls
        .iter()
        .map(|url| (url.replace("http://", ""), "page".to_owned()))
        .collect();
    let robots = robots(
        "User-agent: *\nDisallow: /private/\nSitemap: http://a.test/index.xml\nSitemap: http://a.test/private/map.xml\n",
    );
    let index = index(&["http://a.test/maps/one.xml"]);
    let moved = "HTTP/1.1 301 Moved\r\nLocation: /maps/two.xml\r\nConnection: close\r\nContent-Length: 0\r\n\r\n";
    let map = urlset(&urls);
    let mut all: Vec<(&str, &str)> = vec![
        ("a.test/robots.txt", &robots),
        ("a.test/index.xml", &index),
        ("a.test/maps/one.xml", moved),
        ("a.test/maps/two.xml", &map),
        ("a.test/docs/", "<p>no links"),
    ];
    all.extend(
        pages
            .iter()
            .map(|(url, body)| (url.as_str(), body.as_str())),
    );
    let site = Small::serve(&all);
    let config = site.config(
        "[content]\ntypes = [\"text/html\"]\n[scope]\nunwanted_extensions = [\"xml\"]\n[limits]\nmax_pages_per_host = 21\n",
    );
    let report = site.crawl(&[
        "http://a.test/docs/",
        "--scope",
        "prefix",
        "--include",
        "/docs/[0-9]",
        "--max-depth",
        "1",
        "--config",
        &config,
    ]);
    let asked = site.asked();
    for n in 1..=20 {
        assert!(
            asked.contains(&format!("a.test/docs/{n}")),
            "{n}: {asked:?}"
        );
    }
    // 21 pages, the index, the sitemap and the redirect to it. Robots.txt rules hold for sitemaps, scope for entries.
    assert_eq!(asked.len(), 24, "{asked:?}");
    assert_eq!(number(&report, "pages"), 21, "{report}");
    assert_eq!(number(&report, "sitemaps"), 2, "{report}");
    assert_eq!(number(&report, "redirects"), 1, "{report}");
    assert!(
        site.why("http://a.test/private/map.xml")
            .contains("robots.txt forbids it")
    );
    assert!(
        site.why("http://a.test/other/1")
            .contains("outside the crawl's scope")
    );
}

#[test]
fn sitemaps_are_not_counted_against_the_limit_of_pages() {
    let urls: Vec<String> = (1..=5).map(|n| format!("http://a.test/{n}")).collect();
    let (robots, map) = (robots("Sitemap: http://a.test/map.xml\n"), urlset(&urls));
    let mut all = vec![
        ("a.test/robots.txt", robots.as_str()),
        ("a.test/map.xml", map.as_str()),
        ("a.test/", "home"),
    ];
    let pages: Vec<String> = (1..=5).map(|n| format!("a.test/{n}")).collect();
    all.extend(pages.iter().map(|url| (url.as_str(), "page")));
    let site = Small::serve(&all);
    let report = site.crawl(&["http://a.test/", "--max-pages", "3"]);
    assert_eq!(text(&report, "stopped_by"), "max-pages");
    assert_eq!(number(&report, "pages"), 3);
    let report = site.crawl(&[]);
    assert_eq!(number(&report, "pages"), 6, "{report}");
    assert_eq!(number(&report, "sitemaps"), 1, "{report}");
}

/// What robots.txt names is read on any host; what an index names only where the index is, or where pages are in scope.
#[test]
fn other_hosts_sitemaps_are_read_where_robots_txt_names_them() {
    let (robots, index) = (
        robots("Sitemap: http://cdn.test/index.xml\n"),
        index(&["http://cdn.test/map.xml", "http://evil.test/map.xml"]),
    );
    let map = urlset(&[
        "http://a.test/hidden".to_owned(),
        "http://cdn.test/page".to_owned(),
    ]);
    let site = Small::serve(&[
        ("a.test/robots.txt", &robots),
        ("a.test/", "home"),
        ("a.test/hidden", "found"),
        ("cdn.test/index.xml", &index),
        ("cdn.test/map.xml", &map),
    ]);
    let report = site.crawl(&["http://a.test/"]);
    assert_eq!(
        site.asked(),
        set(&[
            "a.test/",
            "a.test/hidden",
            "cdn.test/index.xml",
            "cdn.test/map.xml"
        ])
    );
    assert_eq!(number(&report, "sitemaps"), 2);
    let report = site.crawl(&["--include", "a.test", "--include", "evil"]);
    assert_eq!(number(&report, "judged_due"), 0, "{report}");
    assert!(
        site.why("http://evil.test/map.xml")
            .contains("outside the crawl's scope")
    );
    assert_eq!(site.asked(), set(&[]));
    // Turned off, none is asked for.
    let site = Small::serve(&[("a.test/robots.txt", &robots), ("a.test/", "home")]);
    let config = site.config("[robots]\nsitemaps = false\n");
    site.crawl(&["http://a.test/", "--config", &config]);
    assert_eq!(site.asked(), set(&["a.test/"]));
}

/// A page that links to a sitemap before robots.txt is known to name it does not make a page of it.
#[test]
fn a_sitemap_that_pages_link_to_is_read_as_one() {
    let map = urlset(&["http://b.test/hidden".to_owned()]);
    let robots = robots("Sitemap: http://b.test/map.xml\n");
    let site = Small::serve(&[
        (
            "a.test/",
            "<a href=http://b.test/map.xml>map</a><a href=http://b.test/>b</a>",
        ),
        ("b.test/robots.txt", &robots),
        ("b.test/", "home"),
        ("b.test/map.xml", &map),
        ("b.test/hidden", "found"),
    ]);
    let config = site.config("[content]\ntypes = [\"text/html\"]\n");
    let report = site.crawl(&["http://a.test/", "--scope", "any", "--config", &config]);
    assert!(site.asked().contains("b.test/hidden"), "{report}");
    assert_eq!(
        (number(&report, "pages"), number(&report, "sitemaps")),
        (3, 1)
    );
}

/// The witness: types that no sitemap has keep nothing from being found, politely.
#[test]
fn wanted_types_do_not_keep_sitemaps_from_being_read() {
    let mut spec = WebSpec::small().with_hosts(6).with_pages_per_host(40);
    spec.discovery.sitemap_share = 1.0;
    spec.discovery.sitemap_only_share = 0.1;
    let site = Site::serve(spec);
    let config = site.config("[content]\ntypes = [\"text/html\", \"application/xhtml+xml\"]\n");
    let mut command = site.crawl();
    let report = run(command.arg("--config").arg(config)).succeeded().json();
    let truth = site.truth(&TruthQuery::default());
    let by_sitemap: Vec<&String> = truth
        .urls
        .iter()
        .filter(|(_, page)| page.via == Some(Via::Sitemap))
        .map(|(url, _)| url)
        .collect();
    assert!(by_sitemap.len() > 5, "{by_sitemap:?}");
    let seen = site.witness().per_url();
    let missed: Vec<_> = by_sitemap
        .iter()
        .filter(|url| !seen.contains_key(**url))
        .collect();
    assert!(missed.is_empty(), "{missed:?}");
    assert!(number(&report, "sitemaps") >= 6, "{report}");
    let witness = site.witness().report();
    assert!(witness.is_clean(), "{witness}");
}
