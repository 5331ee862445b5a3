//! A small crawl, in RAM: links are due at once, visits end them, everything is there after
//! opening again.

use portolan_model::{
    DocId, Identities, Link, LinkBatch, LinkKind, Outcome, PartitionId, Pulse, Reason, Verdict,
    Visit,
};
use portolan_registry::{
    Entry, Opened, Registry, RegistryError, RegistrySettings, Snapshot, UrlFilter, UrlState,
};
use std::path::Path;

fn open(dir: &Path, now_ms: u64) -> Opened {
    let settings = RegistrySettings {
        partitions: 2,
        ..RegistrySettings::default()
    };
    Registry::open(dir, &settings, now_ms).unwrap()
}

fn link(url: &str) -> Link<'_> {
    Link {
        url,
        kind: LinkKind::Anchor,
        depth: 1,
        hops: 0,
        verdict: Verdict::Crawl { priority: 0 },
    }
}

fn home(url: &str) -> PartitionId {
    let host = url.split('/').nth(2).unwrap();
    PartitionId::of(Identities::PUBLIC.host(host), 2)
}

fn seeds(urls: &[&str]) -> Vec<(PartitionId, Entry)> {
    urls.iter()
        .map(|url| {
            let mut links = LinkBatch::new(None);
            links.push(Link {
                kind: LinkKind::Seed,
                depth: 0,
                ..link(url)
            });
            let source = None;
            (home(url), Entry::Links { source, links })
        })
        .collect()
}

fn commit(opened: &mut Opened, batch: Vec<(PartitionId, Entry)>) {
    for delivery in opened.journal.commit(batch).unwrap() {
        opened.partitions[delivery.partition.0 as usize]
            .apply(delivery.seq, &delivery.entry)
            .unwrap();
    }
}

fn visit(url: &str, targets: &[&str], pulse: Pulse) -> (PartitionId, Entry) {
    let from = Identities::PUBLIC.doc(url);
    let (mut links, mut forward) = (LinkBatch::new(Some(from)), LinkBatch::new(Some(from)));
    for target in targets {
        if home(target) == home(url) {
            links.push(link(target));
        } else {
            forward.push(link(target));
        }
    }
    let mut visit = Visit::without_answer(7, Outcome::Fetched);
    visit.status = 200;
    visit.title = "a page".to_owned();
    let other = PartitionId(1 - home(url).0);
    let entry = Entry::Visit {
        url: url.to_owned(),
        visit,
        pulse,
        links,
        forwards: if forward.is_empty() {
            vec![]
        } else {
            vec![(other, forward)]
        },
        targets: targets
            .iter()
            .map(|url| Identities::PUBLIC.doc(url))
            .collect(),
    };
    (home(url), entry)
}

/// Crawls whatever is due, a page linking to the pages in `web`.
fn crawl(opened: &mut Opened, now_ms: &mut u64, web: &[(&str, &[&str])]) -> Vec<String> {
    let mut fetched = Vec::new();
    while !opened.partitions.iter().all(|p| p.is_exhausted()) {
        let mut entries = Vec::new();
        for partition in &mut opened.partitions {
            while let Some(turn) = partition.begin_turn(*now_ms).unwrap() {
                let pulse = Pulse {
                    last_ms: *now_ms,
                    not_before_ms: *now_ms + 100,
                    delay_ms: 100,
                    failures: 0,
                    ..Pulse::default()
                };
                assert!(turn.pulse.not_before_ms <= *now_ms, "impolite");
                if let Some(due) = partition.next_url(turn.host).unwrap() {
                    let targets = web.iter().find(|(url, _)| *url == due.url);
                    entries.push(visit(&due.url, targets.map_or(&[], |t| t.1), pulse));
                    fetched.push(due.url);
                }
                partition.end_turn(turn.host, pulse).unwrap();
            }
            partition.tend(true).unwrap();
        }
        commit(opened, entries);
        *now_ms += 50;
    }
    fetched
}

const WEB: &[(&str, &[&str])] = &[
    (
        "http://a.test/",
        &[
            "http://a.test/1",
            "http://a.test/2",
            "http://b.test/",
            "http://c.test/",
        ],
    ),
    (
        "http://a.test/1",
        &["http://a.test/2", "http://a.test/3", "http://b.test/"],
    ),
    (
        "http://b.test/",
        &["http://a.test/", "http://c.test/x", "http://d.test/"],
    ),
    ("http://c.test/", &["http://c.test/x", "http://e.test/"]),
];

#[test]
fn every_page_once_and_all_of_it_known_afterwards() {
    let dir = tempfile::tempdir().unwrap();
    let mut opened = open(dir.path(), 1_000);
    assert!(!opened.after_crash);
    commit(&mut opened, seeds(&["http://a.test/"]));
    let mut now_ms = 1_000;
    let mut fetched = crawl(&mut opened, &mut now_ms, WEB);
    fetched.sort();
    let mut expected = vec![
        "http://a.test/",
        "http://a.test/1",
        "http://a.test/2",
        "http://a.test/3",
        "http://b.test/",
        "http://c.test/",
        "http://c.test/x",
        "http://d.test/",
        "http://e.test/",
    ];
    assert_eq!(fetched, expected);
    for partition in &mut opened.partitions {
        partition.flush().unwrap();
    }
    opened.journal.close(opened.partitions).unwrap();

    let snapshot = Snapshot::open(dir.path(), Identities::PUBLIC).unwrap();
    let mut urls: Vec<_> = snapshot
        .urls(UrlFilter::default())
        .map(|url| url.unwrap())
        .collect();
    urls.sort_by(|a, b| a.url.cmp(&b.url));
    let texts: Vec<_> = urls.iter().map(|url| url.url.as_str()).collect();
    expected.sort();
    assert_eq!(texts, expected);
    assert!(urls.iter().all(|url| url.state == UrlState::Visited));
    let b = snapshot
        .find(Identities::PUBLIC.doc("http://b.test/"))
        .unwrap()
        .unwrap();
    assert_eq!(
        (b.count, b.from),
        (2, Some(Identities::PUBLIC.doc("http://a.test/")))
    );
    assert_eq!(snapshot.visit(&b).unwrap().unwrap().title, "a page");
    assert_eq!(snapshot.links().count(), 4);
    assert_eq!(snapshot.stats().pages, 9);
    let hosts = snapshot.hosts().unwrap();
    assert_eq!(hosts.len(), 5);
    assert!(hosts.iter().all(|(_, host)| host.counts.due == 0));

    let opened = open(dir.path(), now_ms);
    assert!(!opened.after_crash);
    assert_eq!(opened.seeds, ["http://a.test/"]);
    assert!(opened.partitions.iter().all(|p| p.is_exhausted()));
}

#[test]
fn one_process_at_a_time() {
    let dir = tempfile::tempdir().unwrap();
    let first = open(dir.path(), 0);
    let settings = RegistrySettings::default();
    let second = Registry::open(dir.path(), &settings, 0);
    let Err(RegistryError::Locked { pid, .. }) = second else {
        panic!("opened twice");
    };
    assert_eq!(pid, std::process::id().to_string());
    drop(first);
    assert!(open(dir.path(), 0).after_crash);
}

#[test]
fn after_a_crash_hosts_wait_once_more() {
    let dir = tempfile::tempdir().unwrap();
    let mut opened = open(dir.path(), 1_000);
    commit(&mut opened, seeds(&["http://a.test/", "http://b.test/"]));
    let pulse = Pulse {
        last_ms: 1_000,
        not_before_ms: 1_500,
        delay_ms: 700,
        failures: 0,
        ..Pulse::default()
    };
    let visit = visit("http://a.test/", &["http://a.test/1"], pulse);
    commit(&mut opened, vec![visit]);
    drop(opened);
    let mut opened = open(dir.path(), 9_000);
    assert!(opened.after_crash);
    let mut turns = Vec::new();
    for now_ms in (9_000..11_000).step_by(100) {
        for partition in &mut opened.partitions {
            while let Some(turn) = partition.begin_turn(now_ms).unwrap() {
                turns.push((turn.name, now_ms));
            }
        }
    }
    turns.sort();
    // The one with its recorded delay, the other with the delay of unknown hosts.
    assert_eq!(
        turns,
        [("a.test".to_owned(), 9_700), ("b.test".to_owned(), 10_000)]
    );
}

/// How long after the opening each host gets its first turn.
fn first_turns(opened: &mut Opened) -> Vec<(String, u64)> {
    let mut turns = Vec::new();
    for passed_ms in (0..3_000).step_by(100) {
        let now_ms = opened.opened_ms + passed_ms;
        for partition in &mut opened.partitions {
            while let Some(turn) = partition.begin_turn(now_ms).unwrap() {
                assert!(turn.pulse.not_before_ms <= now_ms, "its pulse says so, too");
                turns.push((turn.name, passed_ms));
            }
        }
    }
    turns.sort();
    turns
}

const DAY_MS: u64 = 86_400_000;

#[test]
fn a_clock_set_back_between_runs_neither_stalls_nor_shortens_a_pause() {
    for (back_ms, crashed) in [
        (3_600_000, false),
        (3_600_000, true),
        (10 * DAY_MS, false),
        (10 * DAY_MS, true),
    ] {
        let dir = tempfile::tempdir().unwrap();
        let then_ms = 100 * DAY_MS;
        let mut opened = open(dir.path(), then_ms);
        commit(&mut opened, seeds(&["http://a.test/", "http://b.test/"]));
        let pulse = Pulse {
            last_ms: then_ms + 5_000,
            not_before_ms: then_ms + 5_001 + 1_500,
            delay_ms: 700,
            ..Pulse::default()
        };
        let visit = visit("http://a.test/", &["http://a.test/1"], pulse);
        commit(&mut opened, vec![visit]);
        if crashed {
            drop(opened);
        } else {
            opened.journal.close(opened.partitions).unwrap();
        }
        let mut opened = open(dir.path(), then_ms - back_ms);
        assert_eq!(opened.after_crash, crashed);
        assert_eq!(opened.opened_ms, then_ms + 5_001);
        let unasked_ms = if crashed { 1_000 } else { 0 };
        assert_eq!(
            first_turns(&mut opened),
            [
                ("a.test".to_owned(), 1_500),
                ("b.test".to_owned(), unasked_ms)
            ]
        );
    }
}

#[test]
fn a_stored_pause_longer_than_any_may_be_is_cut() {
    let dir = tempfile::tempdir().unwrap();
    let settings = |longest_pause_ms| RegistrySettings {
        partitions: 2,
        longest_pause_ms,
        ..RegistrySettings::default()
    };
    let mut opened = Registry::open(dir.path(), &settings(10 * DAY_MS), 1_000).unwrap();
    commit(&mut opened, seeds(&["http://a.test/", "http://b.test/"]));
    let pulse = |delay_ms| Pulse {
        last_ms: 1_000,
        not_before_ms: 9 * DAY_MS,
        delay_ms,
        failures: 1,
        demanded: true,
        ..Pulse::default()
    };
    let first = visit("http://a.test/", &["http://a.test/1"], pulse(0));
    let second = visit("http://b.test/", &["http://b.test/1"], pulse(2_000));
    commit(&mut opened, vec![first, second]);
    for partition in &mut opened.partitions {
        partition.flush().unwrap();
    }
    opened.journal.close(opened.partitions).unwrap();
    let mut opened = Registry::open(dir.path(), &settings(1_200), 1_000).unwrap();
    // What the host itself asks for holds in any case.
    assert_eq!(
        first_turns(&mut opened),
        [("a.test".to_owned(), 1_200), ("b.test".to_owned(), 2_000)]
    );
}

#[test]
fn retries_go_to_the_end_and_excluded_urls_can_be_lifted() {
    let dir = tempfile::tempdir().unwrap();
    let mut opened = open(dir.path(), 0);
    let mut links = LinkBatch::new(Some(DocId(1)));
    for name in ["x", "y", "z"] {
        links.push(link(&format!("http://a.test/{name}")));
    }
    links.push(Link {
        verdict: Verdict::Exclude(Reason::LinkDepth),
        depth: 9,
        ..link("http://a.test/deep")
    });
    let at = home("http://a.test/");
    commit(
        &mut opened,
        vec![(
            at,
            Entry::Links {
                source: None,
                links,
            },
        )],
    );
    let partition = &mut opened.partitions[at.0 as usize];
    let host = partition.begin_turn(0).unwrap().unwrap().host;
    let first = partition.next_url(host).unwrap().unwrap();
    assert_eq!(first.url, "http://a.test/x");
    let second = partition.next_url(host).unwrap().unwrap();
    partition.put_back(host, second.doc).unwrap();
    let (at, entry) = visit(&first.url, &[], Pulse::default());
    let Entry::Visit {
        url,
        visit,
        pulse,
        links,
        forwards,
        targets,
    } = entry
    else {
        unreachable!()
    };
    let visit = Visit {
        outcome: Outcome::Retry(Reason::Timeout),
        ..visit
    };
    let mut lifted = links.clone();
    lifted.push(link("http://a.test/deep"));
    let entry = Entry::Visit {
        url,
        visit,
        pulse,
        links: lifted,
        forwards,
        targets,
    };
    commit(&mut opened, vec![(at, entry)]);
    let partition = &mut opened.partitions[at.0 as usize];
    let mut order = Vec::new();
    while let Some(due) = partition.next_url(host).unwrap() {
        order.push((due.url[14..].to_owned(), due.depth, due.attempts));
    }
    // "deep" was seen twice, which is a better class.
    let expected = [("deep", 1, 0), ("y", 1, 0), ("z", 1, 0), ("x", 1, 1)];
    assert_eq!(
        order,
        expected.map(|(name, depth, tries)| (name.to_owned(), depth, tries))
    );
    assert_eq!(partition.stats().due, 4);
    assert_eq!(partition.stats().by_reason(Reason::LinkDepth), 0);
}
