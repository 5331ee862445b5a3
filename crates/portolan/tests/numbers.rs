//! The numbers of a report, of `status` and of `urls` add up and agree with each other, whatever the Web is like.

mod harness;

use harness::{QUICK, Site, ask, number, run};
use portolan_simweb::WebSpec;
use serde_json::Value;
use std::collections::BTreeMap;

/// `known` is what documents, redirects, sitemaps, due, failed and excluded URLs are together; the reasons are those of the last two.
#[track_caller]
fn adds_up(told: &Value) {
    let of = |key| number(told, key);
    let parts = [
        "pages",
        "redirects",
        "sitemaps",
        "urls_due",
        "failed",
        "excluded",
    ];
    let sum: u64 = parts.iter().map(|part| of(part)).sum();
    assert_eq!(of("urls_known"), sum, "{told}");
    let reasons = told["reasons"].as_object().expect("reasons");
    let reasons: u64 = reasons.values().filter_map(Value::as_u64).sum();
    assert_eq!(reasons, of("failed") + of("excluded"), "{told}");
    assert!(of("duplicates") <= of("pages"), "{told}");
    // What comes over the wire has heads, and may be packed.
    assert!(of("wire_bytes") > 0 && of("body_bytes") > 0, "{told}");
}

fn agrees_with_the_list(site: &Site, told: &Value) {
    let mut counts: BTreeMap<&str, u64> = BTreeMap::new();
    let mut reasons: BTreeMap<String, u64> = BTreeMap::new();
    let mut bodies = 0;
    for url in site.urls().values() {
        let status = url["status"].as_u64().unwrap_or(0);
        let part = match (url["state"].as_str(), status) {
            (Some("visited"), 200..300) if url["found_as"] == "sitemap" => "sitemaps",
            (Some("visited"), 200..300) => "pages",
            (Some("visited"), 300..400) => "redirects",
            (Some("due"), _) => "urls_due",
            (Some("failed"), _) => "failed",
            (Some("excluded"), _) => "excluded",
            other => panic!("{other:?}: {url}"),
        };
        *counts.entry(part).or_default() += 1;
        bodies += url["body_bytes"].as_u64().unwrap_or(0);
        if let Some(reason) = url["reason"].as_str().filter(|_| part != "urls_due") {
            *reasons.entry(reason.to_owned()).or_default() += 1;
        }
    }
    for (part, count) in counts {
        assert_eq!(number(told, part), count, "{part} of {told}");
    }
    for (reason, count) in reasons {
        assert_eq!(told["reasons"][&reason], count, "{reason} of {told}");
    }
    // Answers that were asked for again count each time.
    assert!(number(told, "body_bytes") >= bodies, "{bodies}: {told}");
}

#[test]
fn the_parts_of_every_report_make_up_the_whole() {
    let mut bad_redirects = 0;
    for seed in 1..=4 {
        let mut spec = match seed % 2 {
            0 => WebSpec::demo(),
            _ => WebSpec::odd(),
        };
        spec = spec.with_seed(seed).with_hosts(8).with_pages_per_host(20);
        spec.traps.calendar_months = 3;
        spec.faults.redirect_share = 0.2;
        let site = Site::serve(spec);
        let config = site.config(QUICK);
        // Half of it, the rest, and once more for what failed.
        let mut first = site.crawl();
        first
            .arg("--config")
            .arg(&config)
            .args(["--max-pages", "40"]);
        let report = run(&mut first).json();
        adds_up(&report);
        let mut rest = site.resume();
        let report = run(rest.args(["--max-pages", "0", "--wait", "0s"])).json();
        adds_up(&report);
        agrees_with_the_list(&site, &report);
        let again = site
            .resume()
            .args(["--wait", "0s", "--retry-failed"])
            .output();
        assert!(again.is_ok_and(|ran| ran.status.code().is_some()));
        let status = ask(&site.out(), &["status", "--json"]).json();
        adds_up(&status);
        agrees_with_the_list(&site, &status);
        bad_redirects += status["reasons"]["bad-redirect"].as_u64().unwrap_or(0);
    }
    assert!(bad_redirects > 0, "none of these Webs has a bad redirect");
}

#[test]
fn a_single_thing_is_told_in_the_singular() {
    let site = Site::serve(WebSpec::small().with_hosts(1).with_pages_per_host(1));
    let mut command = site.crawl();
    command.args(["--max-pages", "1"]);
    run(&mut command);
    let status = site.ask(&["status"]).out;
    assert!(status.contains(" 1 document archived ("), "{status}");
    assert!(
        status.contains(" known on 1 host: 1 document, "),
        "{status}"
    );
}

#[test]
fn a_file_says_once_what_it_was_made_with() {
    let site = Site::serve(WebSpec::small().with_hosts(1).with_pages_per_host(1));
    run(&mut site.crawl());
    let info = site.ask(&["warc cat", "--offset", "0"]).out;
    for field in ["software: ", "format: ", "robots: "] {
        let lines = info.lines().filter(|line| line.starts_with(field));
        assert_eq!(lines.count(), 1, "{field}\n{info}");
    }
}
