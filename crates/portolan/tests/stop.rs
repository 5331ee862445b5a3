//! Stopping on purpose: by Ctrl-C once or twice, by a number of pages, by time. What was stopped goes on to the end.

mod harness;

use harness::{Site, finish, number, run, signal, start, text, wait_until};
use portolan_simweb::{TruthQuery, WebSpec};
use serde_json::Value;
use std::time::{Duration, Instant};

const SLOW_MS: f64 = 30.0;

fn site() -> Site {
    let mut spec = WebSpec::small().with_latency_ms(SLOW_MS);
    spec.content.duplicate_share = 0.05;
    Site::serve(spec)
}

/// Starts a crawl, lets it make some requests, and interrupts it so many times; its report and how long it took to stop.
fn interrupted(site: &Site, times: u32) -> (Value, Duration) {
    let begun = Instant::now();
    let child = start(&mut site.crawl());
    let asked = || site.witness().report().requests > 60;
    assert!(wait_until(Duration::from_secs(30), asked), "it crawls");
    let interrupted = Instant::now();
    for n in 0..times {
        if n > 0 {
            // Two signals at once are one.
            std::thread::sleep(Duration::from_millis(70));
        }
        signal(child.id(), "INT");
    }
    let ran = finish(child, begun).succeeded();
    (ran.json(), interrupted.elapsed())
}

/// The rest of the crawl, and then everything is there and nothing was asked twice.
fn goes_on_to_the_end(site: &Site, in_flight: u64) {
    let report = run(&mut site.resume()).succeeded().json();
    assert_eq!(text(&report, "stopped_by"), "done");
    let missed_nothing = site.truth(&TruthQuery::default());
    let missed = missed_nothing.missed(&site.witness().per_url());
    assert!(missed.is_empty(), "{missed:?}");
    let witness = site.witness().report();
    assert!(witness.is_clean(), "{witness}");
    assert!(witness.repeats <= in_flight, "{witness}");
    for verdict in site.ask(&["warc verify", "--json"]).json_lines() {
        assert_eq!(verdict["sound"], true, "{verdict}");
    }
    let documents = missed_nothing.documents().len() as u64;
    assert_eq!(number(&report, "pages"), documents);
}

#[test]
fn interrupted_once_it_finishes_what_is_under_way() {
    let site = site();
    let (report, took) = interrupted(&site, 1);
    assert_eq!(text(&report, "stopped_by"), "signal");
    assert!(number(&report, "urls_due") > 0, "{report}");
    assert!(took < Duration::from_secs(5), "{took:?}");
    let witness = site.witness().report();
    assert_eq!(
        witness.aborted, 0,
        "nothing under way was given up: {witness}"
    );
    // What was answered is committed: the figures are the witness's.
    assert_eq!(number(&report, "requests_this_run"), witness.requests);
    let status = site.ask(&["status", "--json"]).json();
    assert_eq!(status["running"], false);
    assert_eq!(number(&status, "pages"), number(&report, "pages"));
    site.witness().mark();
    goes_on_to_the_end(&site, 0);
}

#[test]
fn interrupted_twice_it_stops_at_once_and_loses_nothing() {
    let mut spec = WebSpec::small().with_latency_ms(700.0);
    spec.latency.host_spread = 0.0;
    let site = Site::serve(spec.with_hosts(12).with_pages_per_host(4));
    let begun = Instant::now();
    let child = start(&mut site.crawl());
    assert!(wait_until(Duration::from_secs(30), || {
        site.witness().report().requests > 20
    }));
    signal(child.id(), "INT");
    std::thread::sleep(Duration::from_millis(120));
    let second = Instant::now();
    signal(child.id(), "INT");
    let ran = finish(child, begun).succeeded();
    let took = second.elapsed();
    let report = ran.json();
    assert_eq!(text(&report, "stopped_by"), "signal");
    println!("stopped {took:?} after the second signal");
    assert!(took < Duration::from_millis(1_500), "{took:?}");
    site.witness().mark();
    goes_on_to_the_end(&site, 12);
}

#[test]
fn a_number_of_pages_is_kept_exactly() {
    let site = site();
    let mut total = 0;
    // Of one run each.
    for pages in [1, 36, 63] {
        total += pages;
        let mut command = if total == 1 {
            site.crawl()
        } else {
            site.resume()
        };
        let report = run(command.args(["--max-pages", &pages.to_string()]))
            .succeeded()
            .json();
        assert_eq!(number(&report, "pages"), total, "{report}");
        assert_eq!(text(&report, "stopped_by"), "max-pages");
        let archived = site
            .records()
            .iter()
            .filter(|r| r["status"] == "200" && !text(r, "url").contains("/robots"))
            .count() as u64;
        assert_eq!(archived, total, "documents in the archive");
        site.witness().mark();
    }
    // It was for the runs that it was given to.
    let report = run(&mut site.resume()).succeeded().json();
    assert_eq!(text(&report, "stopped_by"), "done");
    goes_on_to_the_end(&site, 0);
}

#[test]
fn time_is_kept() {
    let site = site();
    let ran = run(site.crawl().args(["--time-limit", "700ms"])).succeeded();
    let report = ran.json();
    assert_eq!(text(&report, "stopped_by"), "time-limit");
    assert!(number(&report, "urls_due") > 0);
    assert!(ran.took >= Duration::from_millis(700), "{:?}", ran.took);
    assert!(ran.took < Duration::from_secs(6), "{:?}", ran.took);
    site.witness().mark();
    // The next run has no limit.
    let report = run(&mut site.resume()).succeeded().json();
    assert_eq!(text(&report, "stopped_by"), "done");
    goes_on_to_the_end(&site, 0);
}
