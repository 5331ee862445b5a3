//! A crawl that keeps what it knows fresh, without end: what changes is seen soon, new pages have their share, hosts are treated as in any crawl,
//! and a kill costs nothing but the requests that were under way.

mod harness;

use harness::small::Small;
use harness::{Site, finish, number, portolan, run, signal, start, text, wait_until};
use portolan_simweb::{MotionSpec, WebSpec};
use serde_json::Value;
use std::process::Command;
use std::time::{Duration, Instant};

const LIMIT: Duration = Duration::from_secs(40);

/// Pages whose days last a second, without what would make a crawl of them incomplete.
fn in_motion(hosts: u32, pages: u32) -> WebSpec {
    let mut spec = WebSpec::default()
        .with_hosts(hosts)
        .with_pages_per_host(pages);
    spec.discovery.sitemap_share = 1.0;
    spec.motion = MotionSpec {
        changes_a_day: 0.1,
        spread: 1.0,
        day_s: 1.0,
        ..MotionSpec::default()
    };
    spec
}

/// `portolan crawl --out … --keep-fresh`, with times told apart as finely as this Web changes.
fn keep_fresh(site: &Site, rate: &str, more: &str) -> Command {
    let config = site.config(&format!(
        "[freshness]\ntick_ms = 1\nfirst_guess_per_day = 10000.0\n{more}"
    ));
    let mut command = site.resume();
    command.args(["--keep-fresh", "--rate", rate]);
    command.arg("--config").arg(config);
    command
}

fn sessions(site: &Site) -> Vec<Value> {
    site.ask(&["sessions", "--json"]).json_lines()
}

fn polite_and_sound(site: &Site) {
    let report = site.witness().report();
    assert_eq!(report.violations.len(), 0, "{report}");
    let check = site.ask(&["check"]);
    let sound = "Everything is as it was written.\n";
    assert!(check.out.ends_with(sound), "{}", check.out);
}

/// An intranet in small: changes are seen soon by what sitemaps say, beside clocks and pages without validators.
#[test]
fn changes_are_seen_soon_and_the_rate_is_kept() {
    let mut spec = in_motion(4, 60);
    spec.motion.clock_share = 0.1;
    spec.changes.no_validators_share = 0.1;
    let site = Site::serve(spec);
    run(&mut site.crawl()).succeeded();
    let before = site.witness().report().requests;
    site.web.set_in_motion();
    let more = "sources_every_s = 1\nimportance = \"equal\"";
    let mut command = keep_fresh(&site, "100/s", more);
    let report = run(command.args(["--time-limit", "12s"]))
        .succeeded()
        .json();
    let seen = site.witness().freshness(3_000, u64::MAX);
    polite_and_sound(&site);
    let requests = site.witness().report().requests - before;
    assert!(requests <= 100 * 14 + 4, "{requests}");
    assert!(number(&report, "refreshed") > 300, "{report}");
    assert_eq!(text(&report, "stopped_by"), "time-limit");
    // Half of all changes are seen soon, and much of what is asked for has changed.
    assert!(seen.fresh > 0.5, "{seen:?}");
    assert!(seen.news * 10 > seen.requests, "{seen:?}");
    assert!(seen.not_modified > 0 && seen.all.changes > 100, "{seen:?}");
    assert!(seen.all.seen_after_s.is_some_and(|s| s < 4.0), "{seen:?}");
    let told = sessions(&site);
    assert_eq!(told.len(), 2, "{told:?}");
    assert!(number(&told[1], "changed") > 10, "{told:?}");
    let survey = site.ask(&["freshness", "--json"]).json();
    assert_eq!(survey["hosts"].as_array().map(Vec::len), Some(4));
    assert!(number(&survey["forecast"], "fetches") > 0, "{survey}");
}

#[test]
fn a_kill_costs_what_was_under_way_and_a_plain_run_goes_on() {
    let mut spec = in_motion(3, 40).with_latency_ms(5.0);
    spec.motion.lying_share = 0.5;
    spec.motion.advert_share = 0.3;
    let site = Site::serve(spec);
    run(&mut site.crawl()).succeeded();
    site.web.set_in_motion();
    for after_ms in [300, 900, 1_500] {
        let begun = Instant::now();
        let child = start(&mut keep_fresh(&site, "60/s", "importance = \"equal\""));
        std::thread::sleep(Duration::from_millis(after_ms));
        signal(child.id(), "KILL");
        finish(child, begun);
    }
    let asked = || site.witness().report().requests;
    let before = asked();
    let begun = Instant::now();
    let child = start(&mut keep_fresh(&site, "60/s", ""));
    assert!(wait_until(LIMIT, || asked() > before + 60));
    // Another run is refused while this one works.
    let refused = run(site.resume().arg("--new-session"));
    assert_eq!(refused.err.lines().count(), 1, "{}", refused.err);
    assert_ne!(refused.code, Some(0));
    signal(child.id(), "INT");
    let report = finish(child, begun).succeeded().json();
    assert_eq!(text(&report, "stopped_by"), "signal");
    polite_and_sound(&site);
    // All of it was one session, whose unfinished rest a plain run finishes.
    let last = run(&mut site.resume()).succeeded().json();
    assert_eq!(text(&last, "stopped_by"), "done");
    assert_eq!(
        (number(&last, "urls_due"), number(&last, "session")),
        (0, 2)
    );
    let next = run(site.resume().arg("--new-session")).succeeded().json();
    assert_eq!(number(&next, "session"), 3);
}

#[test]
fn new_pages_wait_for_their_share_and_what_a_person_says_comes_first() {
    let site = Small::serve(&[
        ("a.test/", "<p>old</p><a href=/1>1</a>"),
        ("a.test/1", "one"),
    ]);
    site.crawl(&["http://a.test/"]);
    site.asked();
    let links: String = (10..40).map(|n| format!("<a href=/{n}>{n}</a>")).collect();
    site.change(
        "a.test/",
        Some(&format!("<p>fresh news of another kind</p>{links}")),
    );
    for n in 10..40 {
        site.change(&format!("a.test/{n}"), Some("new"));
    }
    let signal_url = |url: &str| {
        let mut command = portolan();
        run(command.arg("signal").arg(site.out()).arg(url)).succeeded();
    };
    signal_url("http://a.test/");
    let report = site.crawl(&["--keep-fresh", "--rate", "20/s", "--time-limit", "2s"]);
    let asked = site.asked_in_order();
    assert_eq!(asked.first().map(String::as_str), Some("a.test/"));
    let waiting = report["reasons"]["waits-for-its-share"].as_u64();
    assert!(waiting.is_some_and(|urls| urls > 0), "{report}");
    assert!(asked.iter().any(|url| url == "a.test/10"), "{asked:?}");
    // Without the rate, what waited for it is fetched.
    let rest = site.crawl(&[]);
    assert_eq!(number(&rest, "urls_known"), 32);
    assert_eq!(number(&rest, "pages"), 32, "{rest}");
}

#[test]
fn bad_input_is_told_in_a_sentence() {
    let site = Site::serve(in_motion(1, 5));
    let refused = |command: &mut Command, about: &str| {
        let ran = run(command);
        assert_eq!(
            (ran.code, ran.err.lines().count()),
            (Some(2), 1),
            "{}",
            ran.err
        );
        assert!(ran.err.contains(about), "{}", ran.err);
    };
    refused(site.resume().arg("--keep-fresh"), "holds no crawl");
    refused(site.resume().args(["--rate", "5/s"]), "--keep-fresh");
    // Begun, and stopped before anything was fetched.
    run(site
        .crawl()
        .args(["--exclude", "."])
        .args(["--time-limit", "0.001s"]));
    let ran = run(site.resume().arg("--keep-fresh"));
    assert!(ran.err.contains("fetched no page yet"), "{}", ran.err);
    let mut signal = portolan();
    refused(
        signal
            .arg("signal")
            .arg(site.path("nowhere"))
            .arg("http://a.test/"),
        "holds no crawl",
    );
    let mut signal = portolan();
    refused(
        signal.arg("signal").arg(site.out()).arg("http://"),
        "is no URL",
    );
    let mut freshness = portolan();
    refused(
        freshness.arg("freshness").arg(site.path("nowhere")),
        "holds no crawl",
    );
}
