//! What pages hold and what is made of it: copies, near copies, titles, what robots directives and settings keep out, and
//! in which order a host's pages come.

mod harness;

use harness::fixed::{page, serve};
use harness::{Site, number, portolan, run, text};
use portolan_simweb::{TruthQuery, Via, WebSpec};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};

fn spec() -> WebSpec {
    WebSpec::small().with_hosts(6).with_pages_per_host(40)
}

fn crawl(site: &Site, settings: &str, arguments: &[&str]) -> Value {
    let config = site.config(settings);
    run(site.crawl().arg("--config").arg(config).args(arguments))
        .succeeded()
        .json()
}

fn fetched(site: &Site) -> BTreeSet<String> {
    let mut urls: BTreeSet<String> = site.witness().per_url().into_keys().collect();
    urls.retain(|url| !url.ends_with("/robots.txt"));
    urls
}

#[test]
fn copies_are_archived_once_and_counted() {
    let mut spec = spec();
    spec.content.duplicate_share = 0.3;
    spec.odd.host_share = 0.0;
    let site = Site::serve(spec);
    let report = crawl(&site, "", &[]);
    let truth = site.truth(&TruthQuery {
        digests: true,
        ..TruthQuery::default()
    });
    let copies = truth.duplicates();
    assert!(copies > 10, "{copies}");
    assert_eq!(number(&report, "duplicates"), copies);
    let mut kinds: BTreeMap<&str, u64> = BTreeMap::new();
    let records = site.records();
    for record in &records {
        *kinds.entry(text(record, "type")).or_default() += 1;
    }
    assert_eq!(kinds["revisit"], copies, "{kinds:?}");
    // Turned off, every one is stored.
    let other = Site::serve(site.web.spec().clone());
    let report = crawl(&other, "[archive]\ndeduplicate = false\n", &[]);
    assert_eq!(number(&report, "duplicates"), 0);
    assert!(other.records().iter().all(|r| text(r, "type") != "revisit"));
}

#[test]
fn near_copies_have_near_simhashes() {
    let mut spec = spec();
    spec.content.near_duplicate_share = 0.3;
    let site = Site::serve(spec);
    crawl(&site, "", &[]);
    let hashes: Vec<u64> = site
        .metadata()
        .iter()
        .filter_map(|fields| fields.get("simhash"))
        .map(|hex| u64::from_str_radix(hex, 16).expect("a simhash is hexadecimal"))
        .filter(|hash| *hash != 0)
        .collect();
    assert!(hashes.len() > 100, "{}", hashes.len());
    let near = |a: u64, b: u64| (a ^ b).count_ones() <= 3 && a != b;
    let pairs = hashes
        .iter()
        .enumerate()
        .flat_map(|(n, a)| hashes[n + 1..].iter().map(move |b| (*a, *b)))
        .filter(|(a, b)| near(*a, *b))
        .count();
    assert!(pairs > 5, "only {pairs} pairs of pages look alike");
}

#[test]
fn japanese_titles_come_out_right() {
    let mut spec = spec();
    spec.content.japanese_share = 0.3;
    let site = Site::serve(spec);
    crawl(&site, "", &[]);
    let truth = site.truth(&TruthQuery::default());
    let gates = [Via::Iso2022Jp, Via::EucJp, Via::ShiftJis];
    let led_to = truth
        .urls
        .values()
        .filter(|t| t.via.is_some_and(|via| gates.contains(&via)))
        .count();
    assert!(led_to > 5, "{led_to}");
    let missed = truth.missed(&site.witness().per_url());
    assert!(missed.is_empty(), "{missed:?}");
    let is_kana = |c: char| ('\u{3041}'..='\u{30fe}').contains(&c);
    let mut charsets = BTreeSet::new();
    for fields in site.metadata() {
        let charset = fields.get("charset").cloned().unwrap_or_default();
        if !["ISO-2022-JP", "EUC-JP", "Shift_JIS"].contains(&charset.as_str()) {
            continue;
        }
        let title = fields.get("title").cloned().unwrap_or_default();
        if title.is_ascii() {
            // The page that mixes three scripts; which of them its charset is cannot be said.
            continue;
        }
        assert!(title.chars().any(is_kana), "{charset}: {title:?}");
        assert!(!title.contains('\u{fffd}'), "{charset}: {title:?}");
        charsets.insert(charset);
    }
    assert_eq!(charsets.len(), 3, "{charsets:?}");
}

#[test]
fn sitemaps_and_feeds_lead_to_what_nothing_else_names_unless_turned_off() {
    let mut spec = spec();
    spec.discovery.sitemap_share = 1.0;
    spec.discovery.sitemap_only_share = 0.1;
    spec.discovery.feed_share = 1.0;
    spec.discovery.feed_only_share = 0.1;
    let site = Site::serve(spec.clone());
    crawl(&site, "", &[]);
    let truth = site.truth(&TruthQuery::default());
    let by = |via| truth.urls.values().filter(|t| t.via == Some(via)).count();
    assert!(by(Via::Sitemap) > 5 && by(Via::Feed) > 5);
    let missed = truth.missed(&site.witness().per_url());
    assert!(missed.is_empty(), "{missed:?}");

    let without = Site::serve(spec);
    crawl(
        &without,
        "[robots]\nsitemaps = false\n[content]\nfeeds = false\n",
        &[],
    );
    let seen = fetched(&without);
    for (url, page) in &truth.urls {
        let hidden = matches!(page.via, Some(Via::Sitemap | Via::Feed));
        assert!(!hidden || !seen.contains(url), "{url}");
    }
    assert!(without.witness().report().is_clean());
}

#[test]
fn a_sitemap_may_have_fifty_thousand_urls_and_a_page_ten_thousand_links() {
    const ENTRIES: u64 = 50_000;
    const LINKS: u64 = 10_500;
    let server = serve(|path| match path {
        "/robots.txt" => page("Sitemap: http://site.test/map.xml").replace("html", "plain"),
        "/map.xml" => {
            let urls =
                (0..ENTRIES).map(|n| format!("<url><loc>http://site.test/m/{n}</loc></url>"));
            let urls: String = urls.collect();
            page(&format!("<urlset>{urls}</urlset>")).replace("text/html", "text/xml")
        }
        "/" => page(
            &(0..LINKS)
                .map(|n| format!("<a href=/p/{n}>{n}</a>"))
                .collect::<String>(),
        ),
        path => page(path),
    });
    let site = Site::serve(WebSpec::small().with_hosts(1).with_pages_per_host(1));
    let mut command = portolan();
    // The root and the sitemap come first: nothing else is known before.
    command
        .args(["crawl", "http://site.test/", "--delay", "0s", "--json"])
        .args(["--max-pages", "4", "--resolve"])
        .arg(format!("*={}", server.addr))
        .arg("--out")
        .arg(site.out());
    run(&mut command).succeeded();
    let urls = site.urls();
    let known = |prefix: &str| urls.keys().filter(|url| url.starts_with(prefix)).count() as u64;
    assert_eq!(known("http://site.test/m/"), ENTRIES);
    assert_eq!(known("http://site.test/p/"), 10_000);
}

#[test]
fn reserved_texts_keep_a_page_out_of_the_archive_but_not_its_links() {
    let site = Site::serve(spec());
    let needle = "Page 8 of host 2";
    let report = crawl(
        &site,
        &format!("[content]\nreserved_texts = [\"{needle}\"]\n"),
        &[],
    );
    let kept_out: Vec<Value> = site
        .urls()
        .into_values()
        .filter(|u| u["reason"] == "reserved-text")
        .collect();
    assert!(!kept_out.is_empty(), "{report}");
    let records = site.records();
    for page in &kept_out {
        assert_eq!(text(page, "state"), "excluded");
        assert!(records.iter().all(|r| r["url"] != page["url"]), "{page}");
    }
    let missed = site.truth(&TruthQuery::default());
    let missed = missed.missed(&site.witness().per_url());
    assert!(missed.is_empty(), "{missed:?}");
}

#[test]
fn unwanted_types_are_not_fetched_whole_and_head_first_saves_the_get() {
    let mut spec = spec();
    spec.content.binary_share = 0.2;
    spec.content.text_share = 0.1;
    let wanted = "[content]\ntypes = [\"text/html\"]\n[http]\nhead_first = ";
    let count = |mode: &str| {
        let site = Site::serve(spec.clone());
        let report = crawl(&site, &format!("{wanted}\"{mode}\"\n"), &[]);
        let witness = site.witness().report();
        assert!(witness.is_clean(), "{witness}");
        let refused = number(&report["reasons"], "content-type");
        assert!(refused > 20, "{report}");
        assert!(
            site.records()
                .iter()
                .all(|r| r["mime"] != "application/pdf")
        );
        let papers: u32 = site
            .witness()
            .per_url()
            .iter()
            .filter(|(url, _)| url.contains("/papers/"))
            .map(|(_, count)| count.served)
            .sum();
        (witness.heads, papers)
    };
    let (heads, _) = count("never");
    assert_eq!(heads, 0);
    let (heads, gets_of_papers) = count("by-look");
    assert!(heads > 0);
    assert_eq!(gets_of_papers, 0, "a HEAD was enough");
    let (more_heads, _) = count("always");
    assert!(more_heads > heads);
}

#[test]
fn priority_rules_change_the_order() {
    let mut spec = WebSpec::small().with_hosts(1).with_pages_per_host(200);
    spec.links.per_page = 30;
    let mean_place = |settings: &str| {
        let site = Site::serve(spec.clone());
        site.witness().record_requests(10_000);
        crawl(&site, settings, &[]);
        let requests = site.witness().requests();
        let places: Vec<usize> = requests
            .iter()
            .enumerate()
            .filter(|(_, r)| r.url.contains("/section"))
            .map(|(place, _)| place)
            .collect();
        assert!(places.len() > 5, "{}", places.len());
        places.iter().sum::<usize>() as f64 / places.len() as f64
    };
    let rule = |priority: i32| {
        mean_place(&format!(
            "[scope]\npriorities = [{{ pattern = \"/section\", priority = {priority} }}]\n"
        ))
    };
    let (up, plain, down) = (rule(20), mean_place(""), rule(-20));
    assert!(up < plain && plain < down, "{up} {plain} {down}");
}

#[test]
fn depth_and_rules_bound_the_crawl() {
    let site = Site::serve(spec());
    crawl(&site, "", &["--max-depth", "1"]);
    let depths: BTreeSet<u64> = site
        .urls()
        .values()
        .filter(|u| text(u, "state") == "visited")
        .map(|u| number(u, "depth"))
        .collect();
    assert_eq!(depths, BTreeSet::from([0, 1]));

    let site = Site::serve(spec());
    let include = "^http://h[01]\\.sim\\.test/";
    crawl(
        &site,
        "",
        &[
            "--include",
            include,
            "--exclude",
            "/section",
            "--exclude",
            "\\?",
        ],
    );
    let seen = fetched(&site);
    assert!(seen.len() > 20, "{}", seen.len());
    for url in &seen {
        let host = url.starts_with("http://h0.") || url.starts_with("http://h1.");
        assert!(
            host && !url.contains("/section") && !url.contains('?'),
            "{url}"
        );
    }
    let reasons: BTreeSet<String> = site
        .urls()
        .values()
        .filter_map(|u| u["reason"].as_str().map(str::to_owned))
        .collect();
    assert!(
        reasons.contains("not-included") && reasons.contains("exclude-rule"),
        "{reasons:?}"
    );
}

#[test]
fn noarchive_and_nofollow_are_obeyed_wherever_they_stand() {
    let server = serve(|path| match path {
        "/robots.txt" => {
            "HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\nConnection: close\r\n\r\n".into()
        }
        "/" => page(
            "<a href=/meta>1</a> <a href=/header>2</a> <a href=/others>3</a> <a href=/leads-nowhere>4</a>\
             <a rel=nofollow href=/marked>5</a> <a rel=nofollow href=/twice>6</a> <a href=/twice>7</a>",
        ),
        "/meta" => page("<meta name=robots content='noarchive'><a href=/from-meta>1</a>"),
        "/header" => page("<a href=/from-header>1</a>").replace(
            "Connection: close",
            "Connection: close\r\nX-Robots-Tag: noarchive",
        ),
        "/others" => page("not for us").replace(
            "Connection: close",
            "Connection: close\r\nX-Robots-Tag: otherbot: noarchive",
        ),
        "/leads-nowhere" => {
            page("<meta name=ROBOTS content='noindex, NoFollow'><a href=/hidden>1</a>")
        }
        path => page(&format!("a page at {path}")),
    });
    let site = Site::serve(WebSpec::small().with_hosts(1).with_pages_per_host(1));
    let mut command = portolan();
    command
        .args([
            "crawl",
            "http://site.test/",
            "--delay",
            "0s",
            "--json",
            "--resolve",
        ])
        .arg(format!("*={}", server.addr))
        .arg("--out")
        .arg(site.out());
    let report = run(&mut command).succeeded().json();
    let records = site.records();
    let archived: BTreeSet<&str> = records
        .iter()
        .filter(|r| text(r, "type") == "response")
        .filter_map(|r| text(r, "url").strip_prefix("http://site.test"))
        .filter(|path| *path != "/robots.txt")
        .collect();
    let expected = [
        "/",
        "/others",
        "/leads-nowhere",
        "/twice",
        "/from-meta",
        "/from-header",
    ];
    assert_eq!(archived, BTreeSet::from(expected), "{report}");
    let urls = site.urls();
    let reason = |path: &str| urls[&format!("http://site.test{path}")]["reason"].clone();
    assert_eq!(reason("/meta"), "noarchive");
    assert_eq!(reason("/header"), "noarchive");
    assert_eq!(reason("/marked"), "nofollow");
    assert_eq!(reason("/hidden"), "nofollow");
}
