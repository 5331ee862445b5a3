//! A crawl in several sessions: what is unchanged is not sent again, what changed, came and went is told, and a kill at any
//! moment leaves a session that goes on.

mod harness;

use harness::small::{Small, set};
use harness::{Site, finish, number, portolan, run, signal, start, text, wait_until};
use portolan_simweb::WebSpec;
use serde_json::Value;
use std::collections::BTreeSet;
use std::time::{Duration, Instant};

fn spec() -> WebSpec {
    WebSpec::small().with_hosts(8).with_pages_per_host(40)
}

fn new_session(site: &Site) -> Value {
    let mut command = site.resume();
    run(command.arg("--new-session")).succeeded().json()
}

fn sessions(site: &Site) -> Vec<Value> {
    site.ask(&["sessions", "--json"]).json_lines()
}

/// Nobody was treated in a way that the witness complains of.
fn polite(site: &Site) {
    let report = site.witness().report();
    assert_eq!(report.violations.len(), 0, "{report}");
    assert_eq!(
        (report.forbidden, report.before_robots, report.overlaps),
        (0, 0, 0)
    );
}

#[test]
fn pages_that_have_not_changed_are_not_sent_again() {
    let site = Site::serve(spec());
    let first = run(&mut site.crawl()).succeeded().json();
    let before = site.witness().report();
    let second = new_session(&site);
    let after = site.witness().report();
    let pages = number(&first, "pages");
    assert!(pages > 200, "{first}");
    assert_eq!(number(&second, "pages"), pages);
    assert_eq!(number(&second, "session"), 2);
    assert_eq!(after.statuses.get(&304), Some(&pages));
    assert_eq!(
        after.statuses[&200] - before.statuses[&200],
        8,
        "robots.txt alone"
    );
    assert_eq!(after.robots_fetches, 2 * before.robots_fetches);
    polite(&site);
    let told = sessions(&site);
    assert_eq!(told.len(), 2);
    let counts = |session: &Value| {
        [
            "pages",
            "new",
            "changed",
            "unchanged",
            "not_modified",
            "gone",
        ]
        .map(|key| number(session, key))
    };
    assert_eq!(counts(&told[0]), [pages, pages, 0, 0, 0, 0]);
    assert_eq!(counts(&told[1]), [pages, 0, 0, pages, pages, 0]);
    let received = |session: &Value| number(session, "wire_bytes");
    assert!(received(&told[1]) * 20 < received(&told[0]), "{told:?}");
    assert_eq!(
        number(&told[1], "saved_bytes") + received(&told[1]),
        received(&told[0])
    );
    let profiles: BTreeSet<String> = revisits(&site)
        .iter()
        .map(|r| text(r, "url").to_owned())
        .collect();
    assert_eq!(profiles.len() as u64, pages);
    let check = site.ask(&["check"]);
    assert!(
        check.out.ends_with("Everything is as it was written.\n"),
        "{}",
        check.out
    );
    // The links of unchanged pages do not count again.
    let links = site
        .ask(&["why", &site.web.spec().home_url(), "--json"])
        .json();
    assert_eq!(
        (number(&links, "checks"), number(&links, "changes")),
        (2, 0)
    );
}

fn revisits(site: &Site) -> Vec<Value> {
    let mut records = site.records();
    records.retain(|record| text(record, "type") == "revisit");
    records
}

#[test]
fn what_changed_and_what_is_gone_is_told_as_the_web_knows_it() {
    let mut spec = spec();
    spec.changes.no_validators_share = 0.3;
    let site = Site::serve(spec);
    run(&mut site.crawl()).succeeded();
    let known = site.urls();
    site.web.set_generation(1);
    new_session(&site);
    polite(&site);
    let (mut changed, mut gone) = (BTreeSet::new(), BTreeSet::new());
    for host in 0..site.web.host_count() {
        for page in 0..40 {
            let url = site.web.page_url(host, page);
            let was_there = known.get(&url).is_some_and(|row| row["status"] == 200);
            match site.web.changes(host, page) {
                (_, true) if was_there => gone.insert(url),
                (1.., false) if was_there => changed.insert(url),
                _ => false,
            };
        }
    }
    assert!(changed.len() > 10 && gone.len() > 2, "{changed:?} {gone:?}");
    let told = &sessions(&site)[1];
    assert_eq!(number(told, "changed"), changed.len() as u64, "{told}");
    assert_eq!(number(told, "gone"), gone.len() as u64, "{told}");
    assert!(
        number(told, "unchanged") > number(told, "not_modified"),
        "{told}"
    );
    let differences = site.ask(&["diff", "--json"]).json_lines();
    let with = |name: &str| -> BTreeSet<String> {
        let these = differences
            .iter()
            .filter(|line| text(line, "difference") == name);
        these.map(|line| text(line, "url").to_owned()).collect()
    };
    assert_eq!((with("changed"), with("gone")), (changed, gone.clone()));
    let url = gone.first().expect("some are gone");
    assert!(site.ask(&["why", url]).out.contains("Gone since"));
}

#[test]
fn a_new_page_is_found_a_link_counts_once_and_a_page_shows_both_texts() {
    let site = Small::serve(&[
        ("a.test/", "<p>old news</p><a href=/1>1</a><a href=/2>2</a>"),
        ("a.test/1", "<a href=/2>2</a>"),
        ("a.test/2", "two"),
    ]);
    site.crawl(&["http://a.test/"]);
    assert_eq!(site.asked(), set(&["a.test/", "a.test/1", "a.test/2"]));
    assert!(
        site.why("http://a.test/2")
            .contains("Back-links so far: 2.")
    );
    site.change(
        "a.test/",
        Some("<p>fresh news</p><a href=/1>1</a><a href=/2>2</a><a href=/3>3</a>"),
    );
    site.change("a.test/3", Some("three"));
    site.change("a.test/1", None);
    let report = site.crawl(&["--new-session"]);
    let all = ["a.test/", "a.test/1", "a.test/2", "a.test/3"];
    assert_eq!(site.asked(), set(&all));
    assert_eq!(
        (number(&report, "pages"), number(&report, "failed")),
        (3, 1),
        "{report}"
    );
    assert!(
        site.why("http://a.test/2")
            .contains("Back-links so far: 2.")
    );
    assert!(site.why("http://a.test/1").contains("Gone since"));
    let told = |arguments: &[&str]| {
        let mut command = portolan();
        let command = command.arg(arguments[0]).arg(site.out());
        run(command.args(&arguments[1..])).succeeded().out
    };
    let listed = told(&["diff"]);
    assert!(listed.contains("1 URL new, 1 changed, 1 gone"), "{listed}");
    let page = told(&["diff", "1", "2", "--url", "http://a.test/"]);
    let (old, fresh) = (page.find("old news"), page.find("fresh news"));
    assert!(old.is_some() && fresh.is_some(), "{page}");
    // The same text came again: its record refers to the first, and its text is read from there.
    let same = told(&["diff", "--url", "http://a.test/2", "--json"]);
    assert_eq!(same.matches("two").count(), 2, "{same}");
    // What is gone is asked for again, and may come back.
    site.change("a.test/1", Some("back"));
    site.crawl(&["--new-session"]);
    assert_eq!(site.asked(), set(&all));
    assert!(!site.why("http://a.test/1").contains("Gone since"));
    assert!(
        site.why("http://a.test/2")
            .contains("3 checks up to session 3")
    );
}

#[test]
fn a_session_can_go_by_the_ranks_of_the_last_one() {
    // Few links lead to /top, but from where all others lead to.
    let mut pages = vec![
        ("a.test/".to_owned(), "<a href=/hub>h</a>".to_owned()),
        ("a.test/hub".to_owned(), "<a href=/top>t</a>".to_owned()),
        ("a.test/top".to_owned(), "top".to_owned()),
    ];
    for n in 0..12 {
        pages[0].1.push_str(&format!("<a href=/{n}>{n}</a>"));
        let body = format!("<a href=/hub>h</a><a href=/{}>n</a>", (n + 1) % 12);
        pages.push((format!("a.test/{n}"), body));
    }
    let pages: Vec<(&str, &str)> = pages.iter().map(|(u, b)| (&**u, &**b)).collect();
    let site = Small::serve(&pages);
    site.crawl(&["http://a.test/"]);
    let first = site.asked_in_order();
    let place = |asked: &[String], url: &str| asked.iter().position(|asked| asked == url);
    assert!(place(&first, "a.test/top") > Some(2), "{first:?}");
    site.crawl(&["--new-session", "--order", "pagerank"]);
    let second = site.asked_in_order();
    assert_eq!(second.len(), first.len());
    let best: BTreeSet<&str> = second[..2].iter().map(String::as_str).collect();
    assert_eq!(
        best,
        BTreeSet::from(["a.test/hub", "a.test/top"]),
        "{second:?}"
    );
}

#[test]
fn a_session_needs_a_crawl_and_only_one_runs_at_a_time() {
    let site = Site::serve(spec().with_latency_ms(20.0));
    let refused = |command: &mut std::process::Command| {
        let ran = run(command);
        assert!(
            ran.code != Some(0) && ran.err.lines().count() == 1,
            "{}",
            ran.err
        );
        ran.err
    };
    let mut command = site.resume();
    let said = refused(command.arg("--new-session"));
    assert!(said.contains("holds no crawl"), "{said}");
    run(&mut site.crawl()).succeeded();
    let mut diff = portolan();
    let said = refused(diff.arg("diff").arg(site.out()));
    assert!(said.contains("one session"), "{said}");
    let begun = Instant::now();
    let before = site.witness().report().requests;
    let child = start(site.resume().arg("--new-session"));
    assert!(wait_until(LIMIT, || site.witness().report().requests > before + 20));
    let mut command = site.resume();
    refused(command.arg("--new-session"));
    finish(child, begun).succeeded();
    std::fs::write(site.out().join("session"), "session 2 begun").expect("written");
    let mut command = site.resume();
    let said = refused(command.arg("--new-session"));
    assert!(said.contains("session is cut off"), "{said}");
}

const LIMIT: Duration = Duration::from_secs(20);
const CONNECTIONS: u64 = 8;

/// Killed while it begins and while it runs, a session ends as an undisturbed one: every URL has one visit in it.
#[test]
fn kills_at_any_moment_leave_a_session_that_goes_on() {
    let mut spec = spec().with_latency_ms(15.0);
    // Whole answers, so that the witness counts what is asked for twice.
    spec.changes.no_validators_share = 1.0;
    let site = Site::serve(spec);
    let config = site.config("[archive]\ncommit_ms = 20\n[limits]\nconnections = 8\n");
    let first = run(site.crawl().arg("--config").arg(config))
        .succeeded()
        .json();
    let asked_first = number(&first, "requests");
    let before = site.witness().report();
    let mut kills = 0;
    // Milliseconds after the start: some before, some while URLs become due, and some after that.
    for (at, after_ms) in [3, 9, 14, 19, 25, 32, 40, 60, 120, 250]
        .into_iter()
        .enumerate()
    {
        let begun = Instant::now();
        let mut command = site.resume();
        if at < 7 && !site.out().join("session").exists() {
            command.arg("--new-session");
        }
        let child = start(&mut command);
        std::thread::sleep(Duration::from_millis(after_ms));
        signal(child.id(), "KILL");
        kills += u64::from(finish(child, begun).code.is_none());
    }
    assert!(kills >= 7, "only {kills} kills hit a running crawl");
    let mut command = site.resume();
    if !site.out().join("session").exists() {
        command.arg("--new-session");
    }
    let last = run(&mut command).succeeded().json();
    assert_eq!(text(&last, "stopped_by"), "done");
    assert_eq!(number(&last, "pages"), number(&first, "pages"));
    let told = sessions(&site);
    assert_eq!(told.len(), 2, "{told:?}");
    assert_eq!(number(&told[1], "requests"), asked_first, "{told:?}");
    assert_eq!(number(&told[1], "unchanged"), number(&first, "pages"));
    let report = site.witness().report();
    let robots = report.robots_fetches - before.robots_fetches;
    let asked = report.requests - before.requests - robots;
    // What was under way when it was killed, or not yet durable, is asked for once more.
    assert!(
        asked <= asked_first + kills * 4 * CONNECTIONS,
        "{asked} of {asked_first}"
    );
    polite(&site);
    let check = site.ask(&["check"]);
    assert!(
        check.out.ends_with("Everything is as it was written.\n"),
        "{}",
        check.out
    );
}
