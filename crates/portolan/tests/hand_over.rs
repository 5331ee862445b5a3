//! Partitions change hands in the midst of a crawl, and the number of threads from run to run. Nobody outside notices.

mod harness;

use harness::{QUICK, Site, number, run, text};
use portolan_simweb::{Fault, TruthQuery, WebSpec};
use std::collections::BTreeMap;

fn spec() -> WebSpec {
    let mut spec = WebSpec::demo()
        .with_hosts(24)
        .with_pages_per_host(30)
        .with_latency_ms(10.0);
    spec.odd.host_share = 0.0;
    spec.faults.retry_after_s = 0;
    // A page that refuses for ever is waited for, and its crawl does not end in order.
    spec.faults.errors = vec![Fault::NotFound, Fault::ServerError, Fault::TooManyThenOk];
    spec
}

fn settings(threads: usize) -> String {
    format!(
        "{QUICK}[registry]\npartitions = 9\n[archive]\ncommit_ms = 15\n[limits]\nthreads = {threads}\nconnections = 12\n"
    )
}

fn states(site: &Site) -> BTreeMap<String, String> {
    let urls = site.urls().into_iter();
    urls.map(|(url, record)| (url, text(&record, "state").to_owned()))
        .collect()
}

/// Everything was asked for once, one at a time at each host, and nothing else.
fn nobody_noticed(site: &Site) {
    let missed = site.truth(&TruthQuery::default());
    let missed = missed.missed(&site.witness().per_url());
    assert!(missed.is_empty(), "{missed:?}");
    let witness = site.witness().report();
    assert!(witness.is_clean(), "{witness}");
    assert_eq!(witness.repeats, 0, "{witness}");
    assert_eq!(witness.most_at_once, 1, "{witness}");
}

#[test]
fn partitions_go_from_worker_to_worker_while_the_crawl_runs() {
    let calm = Site::serve(spec());
    let config = calm.config(&settings(3));
    run(calm.crawl().arg("--config").arg(config)).succeeded();

    let site = Site::serve(spec());
    let log = site.path("crawl.log");
    let config = site.config(&settings(3));
    let mut command = site.crawl();
    command.env("PORTOLAN_TEST_HAND_OVER_MS", "10");
    command.arg("--config").arg(config).arg("-vv");
    let report = run(command.arg("--log").arg(&log)).succeeded().json();
    assert_eq!(text(&report, "stopped_by"), "done");
    let said = std::fs::read_to_string(&log).expect("a log");
    let count = |words: &str| said.lines().filter(|line| line.contains(words)).count();
    let (given, taken) = (
        count("partition handed over"),
        count("partition taken over"),
    );
    println!("{given} partitions were handed over");
    assert!(given >= 20, "{given} partitions were handed over");
    assert_eq!(given, taken);
    nobody_noticed(&site);
    assert_eq!(states(&site), states(&calm));
    run(harness::portolan().arg("check").arg(site.out())).succeeded();
}

#[test]
fn a_crawl_goes_on_with_another_number_of_threads() {
    let site = Site::serve(spec());
    for (threads, pages) in [(3, 100), (1, 250), (9, 400), (2, 0)] {
        site.config(&settings(threads));
        let mut command = site.again();
        command.args(["--threads", &threads.to_string()]);
        command.env("PORTOLAN_TEST_HAND_OVER_MS", "15");
        let report = run(command.args(["--max-pages", &pages.to_string()])).succeeded();
        let report = report.json();
        if pages == 0 {
            assert_eq!(text(&report, "stopped_by"), "done");
            assert_eq!(number(&report, "urls_due"), 0);
        }
    }
    nobody_noticed(&site);
    run(harness::portolan().arg("check").arg(site.out())).succeeded();
}
