//! A whole crawl of a Web with a bit of everything, and of one with everything nasty: complete, truly archived, and
//! without cause for complaint.

mod harness;

use harness::{QUICK, Site, number, portolan, run, text};
use portolan_simweb::{Oddity, TruthQuery, UrlKind, WebSpec};
use serde_json::Value;
use std::collections::BTreeMap;

/// One body in so many is compared with what the page holds.
const SAMPLE_EVERY: usize = 20;

struct Done {
    site: Site,
    report: Value,
}

fn crawl(spec: WebSpec) -> Done {
    let site = Site::serve(spec);
    let config = site.config(QUICK);
    let ran = run(site.crawl().arg("--config").arg(config));
    // Some pages of these Webs answer 429 or 503 for ever, and some hosts never give their robots.txt.
    assert_eq!(ran.code, Some(3), "{}\n{}", ran.out, ran.err);
    assert!(!ran.err.contains("panicked"), "{}", ran.err);
    let report = ran.json();
    Done { site, report }
}

#[test]
fn a_web_with_a_bit_of_everything() {
    judge(&crawl(WebSpec::demo()));
}

#[test]
fn a_web_with_everything_nasty() {
    let mut spec = WebSpec::odd().with_hosts(40).with_pages_per_host(40);
    // Without an end, no crawl of it ends.
    spec.traps.calendar_months = 30;
    judge(&crawl(spec));
}

fn judge(done: &Done) {
    everything_is_fetched(done);
    nobody_can_complain(done);
    figures_agree_with_the_witness(done);
    bodies_are_what_was_served(done);
}

fn everything_is_fetched(Done { site, report }: &Done) {
    let truth = site.truth(&TruthQuery::default());
    let seen = site.witness().per_url();
    let known = site.urls();
    let missed: Vec<String> = truth
        .missed(&seen)
        .into_iter()
        .map(|url| format!("{url} {:?}: {:?}", truth.urls[url], known.get(url)))
        .collect();
    assert!(missed.is_empty(), "{}", missed.join("\n"));
    let unasked: Vec<&str> = truth
        .requested()
        .into_iter()
        .filter(|url| !seen.contains_key(*url))
        .collect();
    assert!(unasked.is_empty(), "never asked for: {unasked:?}");
    assert_eq!(text(report, "stopped_by"), "waiting");
    // All that is due waits for a host that fails.
    assert_eq!(
        number(report, "urls_due"),
        number(&report["waiting"], "urls")
    );
    // Everything that must be asked for is in the state that its answer calls for.
    for (url, truth) in &truth.urls {
        let record = known
            .get(url)
            .unwrap_or_else(|| panic!("{url} is not known"));
        let state = text(record, "state");
        let right = match truth.kind {
            // Without a robots.txt that can be read nothing is settled.
            UrlKind::Forbidden => state == "excluded" || (state == "due" && is_closed(site, url)),
            // Who asks for a rest for ever is waited for.
            UrlKind::Error if [429, 503].contains(&truth.status) => state == "due",
            UrlKind::Error => state == "failed",
            // One that leads to itself leads nowhere.
            UrlKind::Redirect => state == "visited" || truth.redirects_to.as_ref() == Some(url),
            _ => state == "visited",
        };
        assert!(right, "{truth:?} became {record}");
    }
    // And nothing was asked for beyond that, but for endless places.
    let stray: Vec<&String> = seen
        .keys()
        .filter(|url| !truth.urls.contains_key(*url) && !truth.is_trap(url))
        .filter(|url| !url.ends_with("/robots.txt") && !url.ends_with("/robots-moved.txt"))
        .collect();
    assert!(stray.is_empty(), "{stray:?}");
}

/// Does the URL's host let nobody in?
fn is_closed(site: &Site, url: &str) -> bool {
    let host = site.web.locate(url).map(|(host, _)| host);
    host.is_some_and(|host| !site.web.allowed(host, "/"))
}

fn nobody_can_complain(Done { site, .. }: &Done) {
    let witness = site.witness().report();
    assert!(witness.is_clean(), "{witness}");
    assert_eq!(witness.repeats, 0, "{witness}");
    assert_eq!(witness.aliases, 0, "{witness}");
    assert_eq!(witness.most_at_once, 1, "{witness}");
    // The test can tell: this Web has what tempts a careless crawler.
    let truth = site.truth(&TruthQuery::default());
    assert!(truth.forbidden().len() > 20, "{}", truth.forbidden().len());
}

fn figures_agree_with_the_witness(Done { site, report }: &Done) {
    let witness = site.witness().report();
    assert_eq!(number(report, "requests_this_run"), witness.requests);
    assert_eq!(
        number(report, "requests"),
        witness.requests - robots_requests(site) - asked_on_a_kept_connection(site),
        "requests for URLs of the queue"
    );
    let answered_200: u64 = site
        .urls()
        .values()
        .filter(|url| url["status"] == 200 && url["state"] == "visited")
        .count() as u64;
    let kept = number(report, "pages") + number(report, "sitemaps");
    assert_eq!(kept, answered_200);
    let archived = site
        .records()
        .iter()
        .filter(|r| r["status"] == "200" && !text(r, "url").contains("/robots"))
        .count() as u64;
    assert_eq!(kept, archived, "one record a document");
}

fn robots_requests(site: &Site) -> u64 {
    site.witness()
        .per_url()
        .iter()
        .filter(|(url, _)| url.ends_with("/robots.txt") || url.ends_with("/robots-moved.txt"))
        .map(|(_, count)| u64::from(count.requests))
        .sum()
}

/// HTTP/0.9 on a connection that has carried HTTP/1 cannot be told from a leftover: asked once more, on a new one.
fn asked_on_a_kept_connection(site: &Site) -> u64 {
    let truth = site.truth(&TruthQuery::default());
    let seen = site.witness().per_url();
    truth
        .urls
        .iter()
        .filter(|(_, t)| t.oddity == Some(Oddity::Http09))
        .filter_map(|(url, t)| Some((seen.get(url)?, t.refusals)))
        .map(|(count, refusals)| u64::from(count.requests - 1 - refusals))
        .sum()
}

/// The archive holds what the truth says the page is, byte for byte where the server sent it whole and plain.
fn bodies_are_what_was_served(Done { site, .. }: &Done) {
    let truth = site.truth(&TruthQuery {
        digests: true,
        ..TruthQuery::default()
    });
    let mut responses: BTreeMap<String, Vec<Value>> = BTreeMap::new();
    for record in site.records() {
        if text(&record, "type") == "response" || text(&record, "type") == "revisit" {
            let url = text(&record, "url").to_owned();
            responses.entry(url).or_default().push(record);
        }
    }
    let documents: Vec<&str> = truth.documents().into_iter().collect();
    for url in &documents {
        let records = responses.get(*url).map_or(&[][..], Vec::as_slice);
        assert_eq!(records.len(), 1, "{url} is archived once: {records:?}");
    }
    // By its length, every body that could be had whole was had whole, whatever its coding.
    let known = site.urls();
    let whole = |url: &str| !truth.urls[url].oddity.is_some_and(|o| o.damages());
    for url in documents.iter().filter(|url| whole(url)) {
        if let Some(body) = &truth.urls[*url].body {
            assert_eq!(number(&known[*url], "body_bytes"), body.bytes, "{url}");
        }
    }
    // By its digest, a sample: the archive keeps codings, so only of those sent without one.
    let mut compared = 0;
    for url in documents.iter().step_by(SAMPLE_EVERY) {
        let record = &responses[*url][0];
        let Some(body) = &truth.urls[*url].body else {
            continue;
        };
        if text(record, "type") == "revisit" || !whole(url) {
            continue;
        }
        let cat = |arguments: &[&str]| {
            run(portolan()
                .args(["warc", "cat", "--offset"])
                .arg(number(record, "offset").to_string())
                .args(arguments)
                .arg(text(record, "file")))
            .succeeded()
        };
        if cat(&[])
            .out
            .to_ascii_lowercase()
            .contains("\ncontent-encoding:")
        {
            continue;
        }
        let payload = cat(&["--payload"]).raw_out;
        assert_eq!(harness::sha1_hex(&payload), body.sha1, "{url}");
        compared += 1;
    }
    assert!(compared > 10, "only {compared} bodies were compared");
}
