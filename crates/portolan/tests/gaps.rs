//! Pauses: what was configured, what hosts ask for, and what addresses are owed, as the servers saw them; also across
//! a kill.

mod harness;

use harness::{Site, finish, run, signal, start, text, wait_until};
use portolan_simweb::{Fault, TruthQuery, WebSpec};
use std::time::{Duration, Instant};

fn spec() -> WebSpec {
    let mut spec = WebSpec::small().with_hosts(9).with_pages_per_host(6);
    spec.skew = 0.0;
    spec.robots.crawl_delay_share = 0.4;
    spec.robots.crawl_delay_s = 0.6;
    spec.faults.error_share = 0.15;
    spec.faults.errors = vec![Fault::TooManyThenOk, Fault::UnavailableThenOk];
    spec.faults.retry_after_s = 1;
    spec
}

const SETTINGS: &str =
    "[politeness]\nip_delay_ms = 60\nresponse_time_factor = 0.0\nbackoff_ms = 100\n";

/// A crawl of nine hosts that live at three addresses, with the witness told what to expect.
fn crawl(site: &Site) -> std::process::Command {
    site.witness().expect_delay_ms(300);
    site.witness().expect_ip_delay_ms(60);
    let mut command = harness::portolan();
    command
        .args([
            "crawl",
            &site.web.spec().home_url(),
            "--scope",
            "any",
            "--json",
        ])
        .args(["--delay", "300ms", "--out"])
        .arg(site.out())
        .arg("--config")
        .arg(site.config(SETTINGS));
    for host in 0..site.web.host_count() {
        let address = site.server.addrs()[host as usize % site.server.addrs().len()];
        command
            .arg("--resolve")
            .arg(format!("{}={address}", site.web.host_name(host)));
    }
    command
}

fn judge(site: &Site) {
    let witness = site.witness().report();
    assert!(witness.is_clean(), "{witness}");
    assert!(
        witness.min_gap_ms.is_some_and(|gap| gap >= 299.0),
        "{witness}"
    );
    assert_eq!(witness.ips.len(), 3);
    for ip in &witness.ips {
        assert!(ip.requests > 10, "{witness}");
        assert_eq!(ip.most_at_once, 1, "{witness}");
        assert!(ip.min_gap_ms.is_some_and(|gap| gap >= 59.0), "{witness}");
    }
    assert!(
        witness.statuses.get(&429).is_some_and(|n| *n > 0),
        "{witness}"
    );
    let missed = site.truth(&TruthQuery::default());
    let missed = missed.missed(&site.witness().per_url());
    assert!(missed.is_empty(), "{missed:?}");
}

#[test]
fn hosts_and_addresses_are_left_alone_as_long_as_they_ask() {
    let site = Site::serve_on(spec(), 3);
    let report = run(&mut crawl(&site)).succeeded().json();
    assert_eq!(text(&report, "stopped_by"), "done");
    judge(&site);
}

#[test]
fn pauses_outlive_a_kill() {
    let site = Site::serve_on(spec(), 3);
    let mut command = crawl(&site);
    for kill in 0..4 {
        let before = site.witness().report().served;
        let begun = Instant::now();
        let mut child = start(&mut command);
        let limit = Duration::from_secs(60);
        // Right after an answer, when a crawler that forgets would ask again at once.
        let more = 8 + 5 * kill;
        let mut has_ended = false;
        assert!(wait_until(limit, || {
            has_ended = matches!(child.try_wait(), Ok(Some(_)));
            has_ended || site.witness().report().served >= before + more
        }));
        if has_ended {
            assert!(
                kill >= 2,
                "the crawl was over before it could be killed twice"
            );
            break;
        }
        signal(child.id(), "KILL");
        assert_eq!(finish(child, begun).code, None);
        site.witness().mark();
        command = site.resume();
    }
    let report = run(&mut command).succeeded().json();
    assert_eq!(text(&report, "stopped_by"), "done");
    judge(&site);
}
