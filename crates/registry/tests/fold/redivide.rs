//! A registry that is divided otherwise says the same of every URL, host and session, hands out the same in the same
//! order, and is a fold of its own log.

use crate::against_model::{Crawl, orders, tiny};
use crate::model::scratch;
use portolan_model::{DocId, HostId, Identities, Order, PartitionId, Visit};
use portolan_registry::{
    HostState, Redivision, Registry, RegistryError, RegistrySettings, Snapshot, Stats, UrlFilter,
    UrlRecord,
};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Debug;
use std::path::Path;

const IDS: Identities = Identities::PUBLIC;

/// All that a registry says, by names that do not depend on who has what.
struct Said {
    urls: BTreeMap<String, (String, Vec<Visit>)>,
    links: BTreeMap<DocId, Vec<DocId>>,
    hosts: BTreeMap<HostId, HostState>,
    queues: BTreeMap<HostId, Vec<DocId>>,
    stats: String,
    session: u32,
}

fn said(dir: &Path) -> Said {
    let snapshot = Snapshot::open(dir, IDS).unwrap();
    let (mut urls, mut linking) = (BTreeMap::new(), BTreeSet::new());
    for record in snapshot.urls(UrlFilter::default()) {
        let record = record.unwrap();
        let last = snapshot.visit(&record).unwrap();
        let visits = visits(&snapshot, &record);
        if last.is_some_and(|last| last.history.links_at != 0) {
            linking.insert(record.doc);
        }
        urls.insert(record.url.clone(), (facts(&record), visits));
    }
    let hosts: BTreeMap<HostId, HostState> = snapshot.hosts().unwrap().into_iter().collect();
    let queues = hosts
        .keys()
        .map(|&host| (host, snapshot.queue(host).unwrap()));
    let queues = queues.collect();
    // A random crawl fetches pages several times in one session, and forgets that; of a page whose links are there more than
    // once, nobody can say which are the last.
    let mut links: BTreeMap<DocId, Vec<DocId>> = BTreeMap::new();
    let mut several = BTreeSet::new();
    for (from, targets) in snapshot.links().map(Result::unwrap) {
        if linking.contains(&from) && links.insert(from, targets).is_some() {
            several.insert(from);
        }
    }
    links.retain(|from, _| !several.contains(from));
    Said {
        urls,
        links,
        hosts,
        queues,
        stats: format!("{:?}", comparable(snapshot.stats())),
        session: snapshot.session(),
    }
}

/// A random crawl visits documents that are not due, and counts them each time: what is counted here of documents is told
/// by the URLs.
fn comparable(mut stats: Stats) -> Stats {
    (stats.pages, stats.sitemaps, stats.duplicates) = (0, 0, 0);
    stats
}

impl Said {
    fn must_be(&self, expected: &Said, place: &str) {
        same(&self.urls, &expected.urls, place);
        // Who is told of twice in the old one is told of once in the new one.
        let mut links = self.links.clone();
        links.retain(|from, _| expected.links.contains_key(from));
        same(&links, &expected.links, place);
        same(&self.hosts, &expected.hosts, place);
        same(&self.queues, &expected.queues, place);
        assert_eq!(self.stats, expected.stats, "{place}");
        assert_eq!(self.session, expected.session, "{place}");
    }
}

/// Names the first entry that differs, and not all of them.
fn same<K: Ord + Debug, V: PartialEq + Debug>(
    found: &BTreeMap<K, V>,
    expected: &BTreeMap<K, V>,
    place: &str,
) {
    for (key, value) in expected {
        assert_eq!(found.get(key), Some(value), "{place}: {key:?}");
    }
    assert_eq!(found.len(), expected.len(), "{place}: there are more");
}

fn facts(url: &UrlRecord) -> String {
    format!(
        "{:?} {:?} {} {} {} {} {} {} {:?} {:?} {} {} {}",
        url.state,
        url.reason,
        url.count,
        url.class,
        url.score,
        url.priority,
        url.depth,
        url.hops,
        url.kind,
        url.from,
        url.early,
        url.arrival,
        url.attempts
    )
}

/// The last one and the checks before it, without the places where they are.
fn visits(snapshot: &Snapshot, url: &UrlRecord) -> Vec<Visit> {
    let mut visits = Vec::new();
    let mut next = snapshot.visit(url).unwrap();
    while let Some(visit) = next {
        next = snapshot.check_before(url, &visit).unwrap();
        let mut bare = visit;
        bare.history.before = 0;
        bare.history.links_at = 0;
        visits.push(bare);
    }
    visits
}

fn owner(partitions: u16) -> impl FnMut(&str, PartitionId) -> PartitionId {
    move |url, _| {
        let host = crate::model::host_of(url).0;
        PartitionId((host.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40) as u16 % partitions)
    }
}

fn crawled(dir: &Path, order: Order, seed: u64) {
    let mut crawl = Crawl::start(dir, &tiny(false, order), seed);
    for _ in 0..150 {
        let batch = crawl.step();
        let deliveries = crawl.commit(batch);
        crawl.fold(deliveries);
        crawl.tend();
    }
    // As after a crash: the journal's tail is not in a checkpoint.
}

#[test]
fn what_is_known_goes_along_whoever_gets_it() {
    for ((seed, order), partitions) in (70..).zip(orders()).zip([1, 3, 11].into_iter().cycle()) {
        let (old, home) = (scratch(), scratch());
        crawled(old.path(), order, seed);
        let before = said(old.path());
        assert!(before.urls.len() > 300, "{}", before.urls.len());
        assert!(before.links.len() > 20, "{}", before.links.len());
        let new = home.path().join(format!("{order:?}-{partitions}"));
        let settings = RegistrySettings {
            partitions,
            ..tiny(false, order)
        };
        let redivision = Redivision::of(old.path(), IDS).unwrap();
        let done = redivision.run(&new, &settings, owner(partitions), || true);
        let done = done.unwrap().expect("it was not stopped");
        assert_eq!(done.urls as usize, before.urls.len());
        said(&new).must_be(&before, &format!("{order:?} {partitions}"));
        // Nobody closed the old one, so the new one does not count as closed either.
        assert!(!Registry::is_closed(&new));
        // All of it again from the log alone.
        let opened = Registry::open(&new, &settings, 0).unwrap();
        drop(opened);
        said(&new).must_be(&before, &format!("{order:?} {partitions}, opened"));
        for id in 0..partitions {
            let one = Snapshot::open_one(&new, IDS, id).unwrap();
            for record in one.urls(UrlFilter::default()) {
                let url = record.unwrap().url;
                assert_eq!(owner(partitions)(&url, PartitionId(0)), PartitionId(id));
            }
        }
        said(old.path()).must_be(&before, "the old one");
    }
}

#[test]
fn the_old_registry_stays_open_to_one_and_as_it_was_when_it_is_stopped() {
    let (old, home) = (scratch(), scratch());
    crawled(old.path(), Order::Backlinks, 5);
    let before = said(old.path());
    let settings = tiny(false, Order::Backlinks);
    let redivision = Redivision::of(old.path(), IDS).unwrap();
    let refused = Registry::open(old.path(), &settings, 0).unwrap_err();
    assert!(matches!(refused, RegistryError::Locked { .. }), "{refused}");
    let new = home.path().join("new");
    let stopped = redivision.run(&new, &settings, owner(settings.partitions), || false);
    assert_eq!(stopped.unwrap(), None);
    redivision.give_up().unwrap();
    said(old.path()).must_be(&before, "the old one");
    Registry::open(old.path(), &settings, 0).unwrap();
}
