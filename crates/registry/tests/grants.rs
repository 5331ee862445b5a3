//! Grants: what goes out with a turn, and what may come back of it when.

use portolan_model::{
    DocId, Identities, Link, LinkBatch, LinkKind, Outcome, PartitionId, Pulse, Verdict, Visit,
};
use portolan_registry::{
    Entry, Grant, Opened, Partition, Registry, RegistrySettings, Return, Terms,
};
use std::path::Path;

const AT: PartitionId = PartitionId(0);
/// Everybody's clock begins then.
const NOW_MS: u64 = 1_000_000;

fn open(dir: &Path) -> Opened {
    let settings = RegistrySettings {
        partitions: 1,
        ..RegistrySettings::default()
    };
    Registry::open(dir, &settings, NOW_MS).unwrap()
}

fn commit(opened: &mut Opened, entry: Entry) {
    for delivery in opened.journal.commit(vec![(AT, entry)]).unwrap() {
        let partition = &mut opened.partitions[0];
        partition.apply(delivery.seq, &delivery.entry).unwrap();
    }
}

/// A registry in which these URLs are due.
fn due(dir: &Path, urls: &[&str]) -> Opened {
    let mut opened = open(dir);
    let mut links = LinkBatch::new(None);
    for &url in urls {
        links.push(Link {
            url,
            kind: LinkKind::Seed,
            depth: 0,
            hops: 0,
            verdict: Verdict::Crawl { priority: 0 },
        });
    }
    let source = None;
    commit(&mut opened, Entry::Links { source, links });
    opened
}

fn doc(url: &str) -> DocId {
    Identities::PUBLIC.doc(url)
}

const THREE: &[&str] = &["http://a.test/", "http://a.test/1", "http://a.test/2"];

fn grant(partition: &mut Partition, now_ms: u64, terms: Terms) -> Option<Grant> {
    let turn = partition.begin_turn(now_ms).unwrap()?;
    Some(partition.grant(turn, &terms).unwrap())
}

fn back(grant: &Grant, not_before_ms: u64, unused: &[DocId]) -> Return {
    Return {
        id: grant.id,
        host: grant.turn.host,
        pulse: Pulse {
            last_ms: not_before_ms,
            not_before_ms,
            delay_ms: 100,
            ..Pulse::default()
        },
        unused: unused.to_vec(),
        entries: Vec::new(),
    }
}

fn urls(grant: &Grant) -> Vec<&str> {
    grant.urls.iter().map(|url| &url.due.url[..]).collect()
}

#[test]
fn what_was_not_used_is_due_again_and_comes_first() {
    let dir = tempfile::tempdir().unwrap();
    let mut opened = due(dir.path(), THREE);
    let partition = &mut opened.partitions[0];
    let first = grant(partition, NOW_MS, Terms::here(2)).unwrap();
    assert_eq!(urls(&first), THREE[..2]);
    assert_eq!((first.id.partition, first.turn.in_flight), (AT, 0));
    // A host has one turn at a time.
    assert_eq!(grant(partition, NOW_MS, Terms::here(2)), None);
    let unused = [first.urls[1].due.doc];
    let returned = back(&first, NOW_MS + 100, &unused);
    assert!(partition.take_back(&returned).unwrap());
    assert!(!partition.take_back(&returned).unwrap(), "taken twice");
    assert_eq!(grant(partition, NOW_MS + 99, Terms::here(9)), None);
    let second = grant(partition, NOW_MS + 100, Terms::here(9)).unwrap();
    assert_eq!(urls(&second), THREE[1..]);
    // The first URL's visit is not folded yet.
    assert_eq!(second.turn.in_flight, 1);
    assert!(second.id > first.id);
}

#[test]
fn a_host_is_granted_again_once_its_grant_has_expired_and_its_delay_has_passed() {
    let dir = tempfile::tempdir().unwrap();
    let mut opened = due(dir.path(), THREE);
    let partition = &mut opened.partitions[0];
    let terms = Terms {
        expires_ms: NOW_MS + 5_000,
        ..Terms::here(3)
    };
    let lost = grant(partition, NOW_MS, terms).unwrap();
    let expired = |partition: &mut Partition, ms| {
        let expired = partition.take_back_expired(NOW_MS + ms, 700);
        expired.unwrap()
    };
    assert_eq!(expired(partition, 4_999), 0);
    assert_eq!(grant(partition, NOW_MS + 4_999, terms), None);
    assert_eq!(expired(partition, 5_000), 1);
    assert_eq!(expired(partition, 5_000), 0);
    // Nothing is recorded of the host, so it waits for the delay that unknown hosts wait for.
    assert_eq!(grant(partition, NOW_MS + 5_700, terms), None);
    let again = grant(partition, NOW_MS + 5_701, Terms::here(3)).unwrap();
    assert_eq!(urls(&again), THREE);
    // What comes back late is refused, and does not end the turn that somebody has by now.
    let late = back(&lost, NOW_MS + 5_800, &[doc(THREE[2])]);
    assert!(!partition.take_back(&late).unwrap());
    assert_eq!(grant(partition, NOW_MS + 9_000, terms), None);
    assert!(partition.take_back(&back(&again, NOW_MS, &[])).unwrap());
}

#[test]
fn an_expired_grant_leaves_alone_what_came_back_before() {
    let dir = tempfile::tempdir().unwrap();
    let mut opened = due(dir.path(), THREE);
    let partition = &mut opened.partitions[0];
    let first = grant(partition, NOW_MS, Terms::here(1)).unwrap();
    assert!(partition.take_back(&back(&first, NOW_MS, &[])).unwrap());
    let terms = Terms {
        expires_ms: NOW_MS + 10,
        ..Terms::here(1)
    };
    let second = grant(partition, NOW_MS, terms).unwrap();
    assert_eq!(urls(&second), THREE[1..2]);
    assert_eq!(partition.take_back_expired(NOW_MS + 10, 0).unwrap(), 1);
    // The first URL was asked for, and its visit may come to be folded any time.
    let third = grant(partition, NOW_MS + 1_000, Terms::here(9)).unwrap();
    assert_eq!(urls(&third), THREE[1..]);
}

#[test]
fn a_grant_for_another_process_has_the_links_of_the_last_check_and_is_bounded() {
    let dir = tempfile::tempdir().unwrap();
    let mut opened = due(dir.path(), &THREE[..1]);
    let page = grant(&mut opened.partitions[0], NOW_MS, Terms::here(1)).unwrap();
    let targets = vec![doc(THREE[1]), doc(THREE[2])];
    let mut visit = Visit::without_answer(NOW_MS, Outcome::Fetched);
    visit.status = 200;
    visit.follow(1, None, false);
    let pulse = Pulse::default();
    let mut links = LinkBatch::new(Some(page.urls[0].due.doc));
    for &url in &THREE[1..] {
        links.push(Link {
            url,
            kind: LinkKind::Anchor,
            depth: 1,
            hops: 0,
            verdict: Verdict::Crawl { priority: 0 },
        });
    }
    let entry = Entry::Visit {
        url: THREE[0].to_owned(),
        visit,
        pulse,
        links,
        forwards: Vec::new(),
        targets: targets.clone(),
    };
    commit(&mut opened, entry);
    let refresh = Entry::Refresh {
        docs: vec![doc(THREE[0])],
    };
    commit(&mut opened, refresh);
    let partition = &mut opened.partitions[0];
    partition.take_back(&back(&page, NOW_MS, &[])).unwrap();
    let wired = Terms {
        with_links: true,
        ..Terms::here(9)
    };
    let all = grant(partition, NOW_MS, wired).unwrap();
    assert_eq!(all.urls.len(), 3);
    for url in &all.urls {
        let is_known = url.due.doc == doc(THREE[0]);
        assert_eq!(url.due.last.is_some(), is_known);
        assert_eq!(url.known_links, is_known.then(|| targets.clone()));
    }
    assert_eq!(Grant::decode(&all.encode()).as_ref(), Some(&all));
    // One URL is in a grant however large it is.
    let unused: Vec<DocId> = all.urls.iter().map(|url| url.due.doc).collect();
    partition.take_back(&back(&all, NOW_MS, &unused)).unwrap();
    let small = Terms {
        max_bytes: 1,
        ..wired
    };
    let one = grant(partition, NOW_MS, small).unwrap();
    assert_eq!(one.urls.len(), 1);
}
