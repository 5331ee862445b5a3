//! Links from the stream: what a slow page names is fetched while the page is still coming, and counts once.

mod harness;

use harness::{QUICK, Site, number, run, signal, start, text, wait_until};
use portolan_simweb::WebSpec;
use serde_json::Value;
use std::collections::BTreeMap;
use std::time::Duration;

const PAGE_BYTES: u32 = 5_000_000;
const BODY_MS: f64 = 3_500.0;
const SETTLE: Duration = Duration::from_millis(100);

/// The home page is 5 MB and takes its time. Every host is asked by itself, so other hosts wait for nobody.
fn slow_home() -> WebSpec {
    let mut spec = WebSpec::small().with_hosts(5).with_pages_per_host(2);
    spec.content.page_bytes = PAGE_BYTES;
    spec.content.page_bytes_spread = 0.0;
    spec.content.gzip_share = 0.5;
    spec.links.off_host_share = 0.6;
    spec.latency.body_ms = BODY_MS;
    spec
}

/// Back-links of every URL.
fn back_links(site: &Site) -> BTreeMap<String, u64> {
    let urls = site.urls();
    let count = |line: &Value| number(line, "back_links");
    urls.iter()
        .map(|(url, line)| (url.clone(), count(line)))
        .collect()
}

#[test]
fn what_a_slow_page_names_is_fetched_before_the_page_has_ended() {
    let mut counts = Vec::new();
    for early in [true, false] {
        let site = Site::serve(slow_home());
        site.witness().record_requests(1_000);
        let config = site.config(&format!("{QUICK}[content]\nearly_links = {early}\n"));
        let report = run(site.crawl().arg("--config").arg(&config))
            .succeeded()
            .json();
        assert!(
            site.witness().report().is_clean(),
            "{}",
            site.witness().report()
        );
        let requests = site.witness().requests();
        let home = site.web.spec().home_url();
        let page = requests
            .iter()
            .find(|r| r.url == home)
            .expect("the home page");
        let meanwhile = |url: &str| !url.starts_with(&home) && !url.ends_with("/robots.txt");
        let before_its_end = requests
            .iter()
            .filter(|r| meanwhile(&r.url) && r.end_us < page.end_us)
            .count();
        assert_eq!(
            before_its_end > 0,
            early,
            "{before_its_end} of {requests:?}"
        );
        assert_eq!(number(&report, "early_links") > 0, early);
        let early_ones: Vec<String> = site
            .urls()
            .into_keys()
            .filter(|url| site.ask(&["why", "--json", url]).json()["found_early"] == true)
            .collect();
        assert_eq!(!early_ones.is_empty(), early);
        for url in early_ones.iter().take(1) {
            let why = site.ask(&["why", url]).out;
            assert!(why.contains("while that page was still coming.\n"), "{why}");
        }
        counts.push(back_links(&site));
    }
    assert_eq!(counts[0], counts[1], "early links count once");
}

#[test]
fn after_a_kill_in_the_middle_of_a_page_no_link_counts_twice() {
    let site = Site::serve(slow_home());
    let config = site.config(QUICK);
    let child = start(site.crawl().arg("--config").arg(&config));
    let id = child.id();
    let asked_others = || {
        let asked = site.witness().per_url();
        asked
            .keys()
            .any(|url| url.contains("://h") && !url.contains("://h0.") && !url.ends_with(".txt"))
    };
    assert!(
        wait_until(Duration::from_secs(60), asked_others),
        "nothing was fetched early"
    );
    signal(id, "KILL");
    let _ = child.wait_with_output();
    // The server may still read what the killed one had sent, and answer nobody: that belongs to the epoch before.
    std::thread::sleep(SETTLE);
    let settled = || {
        let seen = site.witness().report();
        seen.requests == seen.served + seen.aborted
    };
    assert!(
        wait_until(Duration::from_secs(60), settled),
        "requests stay open"
    );
    site.witness().mark();
    let home = site.web.spec().home_url();
    let urls = site.urls();
    assert_eq!(text(&urls[&home], "state"), "due");
    let named = urls
        .keys()
        .find(|url| **url != home)
        .expect("links left early");
    let why = site.ask(&["why", named]);
    assert!(
        why.out.contains("The page was cut; it is due again."),
        "{}",
        why.out
    );
    assert!(why.out.contains("Back-links so far: 0."), "{}", why.out);

    run(&mut site.resume()).succeeded();
    let report = site.witness().report();
    assert!(
        report.is_clean() && report.repeats_in_one_epoch == 0,
        "{report}"
    );
    let killed = back_links(&site);
    let calm = Site::serve(slow_home());
    let config = calm.config(&format!("{QUICK}[content]\nearly_links = false\n"));
    run(calm.crawl().arg("--config").arg(&config)).succeeded();
    assert_eq!(killed, back_links(&calm));
}
