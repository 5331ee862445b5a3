//! A new session that is divided anew: the last session's graph is cut, every site's URLs go to their new partition with all
//! that is known of them, and the Web notices nothing. Killed at any moment it goes on.

mod harness;

use harness::{QUICK, Site, finish, number, portolan, run, signal, start, text, wait_until};
use portolan_graph::PartVector;
use portolan_model::{CanonicalUrl, Identities, UrlKey};
use portolan_simweb::WebSpec;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::process::Command;
use std::time::{Duration, Instant};

const LIMIT: Duration = Duration::from_secs(20);
const DIVIDE: [&str; 5] = ["--new-session", "--divide", "graph", "--partitions", "5"];

fn spec() -> WebSpec {
    let mut spec = WebSpec::small().with_hosts(16).with_pages_per_host(25);
    // Whole answers, so that the witness counts what is asked for twice.
    spec.changes.no_validators_share = 1.0;
    spec
}

/// What `urls` says of each URL, but for what a division changes.
fn known(site: &Site) -> BTreeMap<String, Value> {
    let bare = |mut row: Value| {
        if let Some(row) = row.as_object_mut() {
            row.remove("partition");
        }
        row
    };
    let rows = site.urls().into_iter();
    rows.map(|(url, row)| (url, bare(row))).collect()
}

/// Every host is in one partition: the one that the crawl's part vector names.
fn is_divided_by_its_vector(site: &Site, partitions: u16) {
    let vector = PartVector::open(&site.out().join("partition/parts.pv")).expect("a vector");
    assert_eq!(vector.parts(), partitions);
    let (mut listed, mut used) = (0, BTreeSet::new());
    for (url, row) in site.urls() {
        let partition = number(&row, "partition");
        let url = CanonicalUrl::from_canonical(url).expect("a URL");
        if let Some(part) = vector.find(UrlKey::of(&url, &Identities::PUBLIC)) {
            assert_eq!(u64::from(part.0), partition, "{url:?}");
            listed += 1;
        }
        used.insert(partition);
    }
    assert!(listed > 300 && used.len() > 3, "{listed} {used:?}");
}

fn polite_and_sound(site: &Site) {
    let report = site.witness().report();
    assert_eq!(report.violations.len(), 0, "{report}");
    assert_eq!(
        (report.forbidden, report.before_robots, report.overlaps),
        (0, 0, 0)
    );
    let check = site.ask(&["check"]);
    let sound = "Everything is as it was written.\n";
    assert!(check.out.ends_with(sound), "{}", check.out);
}

fn first_session(site: &Site) -> Value {
    let config = site.config(&format!("{QUICK}[registry]\npartitions = 3\n"));
    run(site.crawl().arg("--config").arg(config))
        .succeeded()
        .json()
}

fn divided(site: &Site) -> Command {
    let mut command = site.resume();
    command.args(DIVIDE);
    command
}

#[test]
fn the_next_session_is_divided_by_the_graph_of_the_last() {
    let site = Site::serve(spec());
    let first = first_session(&site);
    let (before, asked) = (known(&site), site.witness().report());
    let mut command = divided(&site);
    let second = run(command.args(["--order", "pagerank"]));
    let second = second.succeeded();
    assert!(
        second.err.contains("Divided anew by graph: 16 hosts"),
        "{}",
        second.err
    );
    assert!(second.err.contains("among 5 partitions"), "{}", second.err);
    let second = second.json();
    polite_and_sound(&site);
    is_divided_by_its_vector(&site, 5);
    assert_eq!(number(&second, "session"), 2);
    for key in ["pages", "failed", "urls_known", "excluded"] {
        assert_eq!(number(&second, key), number(&first, key), "{key}");
    }
    // Once each, and robots.txt again.
    let now = site.witness().report();
    assert_eq!(now.requests, 2 * asked.requests);
    let told = site.ask(&["sessions", "--json"]).json_lines();
    assert_eq!(told.len(), 2);
    assert_eq!(number(&told[0], "pages"), number(&first, "pages"));
    assert_eq!(number(&told[1], "unchanged"), number(&first, "pages"));
    // What was known before is known now: back-links, where each was found, and what the check before found.
    let after = known(&site);
    assert_eq!(after.len(), before.len());
    for (url, row) in &before {
        for key in ["state", "reason", "backlinks", "depth", "from"] {
            assert_eq!(after[url].get(key), row.get(key), "{url} {key}");
        }
    }
    let page = site.ask(&[
        "diff",
        "1",
        "2",
        "--url",
        &site.web.spec().home_url(),
        "--json",
    ]);
    let page = page.json();
    let texts = ["before", "after"].map(|key| page[key].as_array().map(Vec::len));
    assert!(texts[0] > Some(0) && texts[0] == texts[1], "{texts:?}");
    // It stays so; and by hash it can be divided again.
    let third = run(site.resume().arg("--new-session")).succeeded().json();
    assert_eq!(number(&third, "pages"), number(&first, "pages"));
    is_divided_by_its_vector(&site, 5);
    let mut command = site.resume();
    command.args(["--new-session", "--divide", "hash", "--partitions", "2"]);
    let fourth = run(&mut command).succeeded().json();
    assert_eq!(number(&fourth, "pages"), number(&first, "pages"));
    assert_eq!(number(&fourth, "session"), 4);
    let parts: BTreeSet<u64> = site
        .urls()
        .values()
        .map(|row| number(row, "partition"))
        .collect();
    assert_eq!(parts, BTreeSet::from([0, 1]));
    assert_eq!(site.witness().report().requests, 4 * asked.requests);
    polite_and_sound(&site);
}

#[test]
fn killed_at_any_moment_of_it_nothing_is_lost_and_nothing_is_asked_for_twice() {
    let site = Site::serve(spec().with_latency_ms(2.0));
    let first = first_session(&site);
    let (before, asked) = (known(&site), site.witness().report());
    let dividing = site.out().join("dividing");
    let session = site.out().join("session");
    let mut inside = 0;
    // Kills by the clock, and as soon as something is there.
    let moments: [Option<&str>; 12] = [
        None,
        Some(""),
        Some("partition"),
        None,
        Some("registry/meta"),
        Some("registry/p04/manifest"),
        None,
        Some("crawl.toml"),
        None,
        Some("ready"),
        Some("old-registry"),
        None,
    ];
    for (at, moment) in (0..).zip(moments) {
        let begun = Instant::now();
        let noted = session.exists();
        // From the first note on, a plain run goes on with it.
        let child = start(&mut if noted && at % 2 == 1 {
            site.resume()
        } else {
            divided(&site)
        });
        match moment {
            Some(name) => {
                let path = dividing.join(name);
                let there = || path.exists() || site.witness().report().requests > asked.requests;
                assert!(wait_until(LIMIT, there), "{name}");
            }
            None => std::thread::sleep(Duration::from_millis(10 + 13 * at)),
        }
        signal(child.id(), "KILL");
        finish(child, begun);
        inside += u32::from(dividing.exists());
        if site.witness().report().requests > asked.requests {
            break;
        }
        // What is known can be looked at, but for the moment between two renames, of which a sentence tells.
        let mut urls = portolan();
        let listed = run(urls.arg("urls").arg(site.out()).args(["--format", "jsonl"]));
        match listed.code {
            Some(0) => assert_eq!(listed.out.lines().count(), before.len()),
            _ => assert!(listed.err.contains("goes on with it"), "{}", listed.err),
        }
    }
    assert!(inside >= 3, "only {inside} kills left a division half made");
    let mut command = match session.exists() {
        true => site.resume(),
        false => divided(&site),
    };
    let last = run(&mut command).succeeded().json();
    assert_eq!(text(&last, "stopped_by"), "done");
    assert_eq!(number(&last, "session"), 2);
    assert!(!dividing.exists());
    is_divided_by_its_vector(&site, 5);
    assert_eq!(number(&last, "pages"), number(&first, "pages"));
    assert_eq!(
        known(&site).keys().collect::<Vec<_>>(),
        before.keys().collect::<Vec<_>>()
    );
    let told = site.ask(&["sessions", "--json"]).json_lines();
    assert_eq!(told.len(), 2, "{told:?}");
    assert_eq!(number(&told[1], "unchanged"), number(&first, "pages"));
    let now = site.witness().report();
    // The last kill may have hit requests that were under way, whose answers were not durable yet.
    let again = now.requests - 2 * asked.requests;
    assert!(again <= 16 * 8 + 16, "{again} asked for again");
    polite_and_sound(&site);
}

#[test]
fn what_cannot_be_divided_is_told_before_anything_is_begun() {
    let site = Site::serve(spec());
    first_session(&site);
    let refused = |command: &mut Command| {
        let ran = run(command);
        assert_eq!(
            ran.err
                .lines()
                .filter(|line| line.starts_with("portolan: "))
                .count(),
            1
        );
        assert_ne!(ran.code, Some(0));
        ran.err
    };
    let mut command = site.resume();
    command.args(["--new-session", "--divide", "graph", "--partitions", "40"]);
    let said = refused(&mut command);
    assert!(
        said.contains("16 sites cannot be cut into 40 parts"),
        "{said}"
    );
    assert!(!site.out().join("session").exists() && !site.out().join("dividing").exists());
    // While another process is at work here.
    let held = std::fs::File::open(site.out()).expect("the directory");
    held.try_lock().expect("a lock");
    let said = refused(&mut divided(&site));
    assert!(said.contains("another process"), "{said}");
    drop(held);
    run(&mut divided(&site)).succeeded();
    polite_and_sound(&site);
}
