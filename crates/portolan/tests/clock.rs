//! Somebody sets the machine's clock: pauses are kept as if nobody had, and the crawl does not stand still.

mod harness;

use harness::clock_set::ClockSet;
use harness::{Site, finish, run, signal, start, text, wait_until};
use portolan_simweb::{TruthQuery, WebSpec};
use std::time::{Duration, Instant};

const HOUR_S: i64 = 3_600;
const DAY_S: i64 = 24 * HOUR_S;
const LIMIT: Duration = Duration::from_secs(30);

fn site(delay_ms: u64, hosts: u32, pages: u32) -> Site {
    let mut spec = WebSpec::small()
        .with_hosts(hosts)
        .with_pages_per_host(pages);
    spec.skew = 0.0;
    let site = Site::serve(spec);
    site.witness().expect_delay_ms(delay_ms);
    site.config("[politeness]\nip_delay_ms = 1\nresponse_time_factor = 0.0\n");
    site
}

fn crawl(site: &Site, delay_ms: u64) -> std::process::Command {
    let mut command = site.crawl_politely();
    command
        .args(["--scope", "any", "--delay", &format!("{delay_ms}ms")])
        .arg("--config")
        .arg(site.path("settings.toml"));
    command
}

fn wait_for_more(site: &Site, more: u64) {
    let before = site.witness().report().requests;
    let asked = || site.witness().report().requests >= before + more;
    assert!(wait_until(LIMIT, asked), "{}", site.witness().report());
}

fn judge(site: &Site) {
    let witness = site.witness().report();
    assert!(witness.is_clean(), "{witness}");
    assert_eq!(witness.repeats, 0, "{witness}");
    let missed = site.truth(&TruthQuery::default());
    let missed = missed.missed(&site.witness().per_url());
    assert!(missed.is_empty(), "{missed:?}");
}

#[test]
fn set_while_a_crawl_runs_it_neither_stalls_it_nor_shortens_a_gap() {
    let site = site(400, 6, 8);
    let clock = ClockSet::new();
    let begun = Instant::now();
    let child = start(clock.govern(&mut crawl(&site, 400)));
    for seconds in [-HOUR_S, -10 * DAY_S, HOUR_S] {
        wait_for_more(&site, 8);
        clock.set(seconds);
    }
    let report = finish(child, begun).succeeded().json();
    assert_eq!(text(&report, "stopped_by"), "done");
    judge(&site);
    // Dates are the time of day all the same.
    let hours: std::collections::BTreeSet<String> = site
        .records()
        .iter()
        .map(|record| text(record, "date")[..13].to_owned())
        .collect();
    assert!(hours.len() >= 4, "{hours:?}");
}

#[test]
fn set_back_between_two_runs_it_does_not_stall_the_second() {
    const DELAY_MS: u64 = 900;
    let site = site(DELAY_MS, 5, 4);
    let clock = ClockSet::new();
    run(clock
        .govern(&mut crawl(&site, DELAY_MS))
        .args(["--max-pages", "4"]))
    .succeeded();
    site.witness().mark();
    clock.set(-10 * DAY_S);
    let begun = Instant::now();
    let mut resume = site.resume();
    let child = start(clock.govern(&mut resume).args(["--max-pages", "0"]));
    wait_for_more(&site, 6);
    signal(child.id(), "KILL");
    assert_eq!(finish(child, begun).code, None);
    site.witness().mark();
    clock.set(-11 * DAY_S);
    let ran = run(clock.govern(&mut site.resume())).succeeded();
    assert_eq!(text(&ran.json(), "stopped_by"), "done");
    let witness = site.witness().report();
    assert!(witness.is_clean(), "{witness}");
    let missed = site.truth(&TruthQuery::default());
    let missed = missed.missed(&site.witness().per_url());
    assert!(missed.is_empty(), "{missed:?}");
}

#[test]
fn set_forwards_before_a_stop_it_shortens_no_gap_after_it() {
    const DELAY_MS: u64 = 2_500;
    let site = site(DELAY_MS, 4, 2);
    let clock = ClockSet::new();
    let begun = Instant::now();
    let child = start(clock.govern(&mut crawl(&site, DELAY_MS)));
    wait_for_more(&site, 3);
    clock.set(HOUR_S);
    wait_for_more(&site, 2);
    signal(child.id(), "INT");
    let report = finish(child, begun).succeeded().json();
    assert_eq!(text(&report, "stopped_by"), "signal");
    site.witness().mark();
    run(clock.govern(&mut site.resume())).succeeded();
    judge(&site);
}
