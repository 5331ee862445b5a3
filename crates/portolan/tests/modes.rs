//! What becomes of links to other partitions, in each mode, as the Web sees it: what is covered, and what is fetched twice.

mod harness;

use harness::{QUICK, Site, number, run, text};
use portolan_simweb::{TruthQuery, WebSpec, WitnessReport};
use serde_json::Value;

/// What one crawl came to.
struct Ran {
    report: Value,
    witness: WitnessReport,
    missed: usize,
}

/// `seeds`: how many hosts are seeds besides the first.
fn crawl(mode: &str, seeds: u32) -> Ran {
    let mut spec = WebSpec::demo().with_hosts(16).with_pages_per_host(20);
    spec.faults.retry_after_s = 0;
    spec.faults.errors.clear();
    spec.odd.host_share = 0.0;
    let site = Site::serve(spec);
    let config = site.config(QUICK);
    let suffix = &site.web.spec().suffix;
    let more = (1..=seeds).map(|host| format!("http://h{host}.{suffix}/"));
    let ran = run(site.crawl().arg("--config").arg(config).args(more).args([
        "--mode",
        mode,
        "--partitions",
        "4",
    ]))
    .succeeded();
    let truth = site.truth(&TruthQuery::default());
    Ran {
        report: ran.json()["exchanged"].clone(),
        missed: truth.missed(&site.witness().per_url()).len(),
        witness: site.witness().report(),
    }
}

fn sent(ran: &Ran) -> [u64; 3] {
    ["messages", "urls", "url_bytes"].map(|name| number(&ran.report, name))
}

#[test]
fn exchange_and_server_fetch_everything_once() {
    let [exchange, server] = ["exchange", "server"].map(|mode| {
        let ran = crawl(mode, 0);
        assert_eq!(text(&ran.report, "mode"), mode);
        assert_eq!((ran.missed, ran.witness.repeats), (0, 0), "{}", ran.witness);
        assert!(ran.witness.is_clean(), "{}", ran.witness);
        ran
    });
    assert!(sent(&exchange).iter().all(|sent| *sent > 0));
    // Everything goes to a server, and what is to be fetched comes back.
    assert!(sent(&server)[1] > sent(&exchange)[1]);
}

#[test]
fn behind_a_firewall_much_is_missed_and_nothing_is_sent() {
    let ran = crawl("firewall", 0);
    assert!(ran.missed > 0);
    assert_eq!(ran.witness.repeats, 0, "{}", ran.witness);
    assert!(ran.witness.is_clean(), "{}", ran.witness);
    assert_eq!(sent(&ran), [0, 0, 0]);
    assert!(number(&ran.report, "discarded") > 0);
}

/// The price of telling nobody anything.
#[test]
fn who_crosses_over_fetches_twice_and_misses_nothing() {
    // With one seed, one partition would find everything.
    let ran = crawl("cross-over", 7);
    assert_eq!(ran.missed, 0);
    assert!(ran.witness.repeats > 0, "{}", ran.witness);
    assert_eq!(sent(&ran), [0, 0, 0]);
    // However often, a host is asked by one partition at a time, and left alone in between.
    assert_eq!(ran.witness.most_at_once, 1, "{}", ran.witness);
}
