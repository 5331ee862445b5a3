//! Whoever leaves entries where they are until a partition is ready for them never waits for the disk with them.

use crate::against_model::until_ready;
use crate::model::{Random, scratch};
use portolan_model::{Link, LinkBatch, LinkKind, PartitionId, Verdict};
use portolan_registry::{Entry, Registry, RegistrySettings};

const ENTRIES: u64 = 6_000;
const LINKS: u64 = 50;

/// Links to a Web that grows: a quarter of them new, the others anywhere in it.
fn entry(number: u64, random: &mut Random) -> Entry {
    let mut links = LinkBatch::new(None);
    let known = number * LINKS / 4;
    for at in 0..LINKS {
        let page = match at % 4 {
            0 => known + at / 4,
            _ => random.below(known + 1),
        };
        let url = format!("http://host{}.test/a/page/{page}.html", page % 997);
        links.push(Link {
            url: &url,
            kind: LinkKind::Anchor,
            depth: 1,
            hops: 0,
            verdict: Verdict::Crawl { priority: 0 },
        });
    }
    Entry::Links {
        source: None,
        links,
    }
}

/// How often a partition was not ready, how often its owner waited with an entry, and how many URLs it knows.
fn feed(patient: bool) -> (usize, u64, u64) {
    let dir = scratch();
    let settings = RegistrySettings {
        partitions: 1,
        memory_bytes: 1_000_000,
        ..RegistrySettings::default()
    };
    let mut opened = Registry::open(dir.path(), &settings, 0).unwrap();
    let partition = &mut opened.partitions[0];
    let mut random = Random(7);
    let mut not_ready = 0;
    for number in 0..ENTRIES {
        let batch = vec![(PartitionId(0), entry(number, &mut random))];
        for delivery in opened.journal.commit(batch).unwrap() {
            if patient {
                not_ready += until_ready(partition);
            }
            partition.apply(delivery.seq, &delivery.entry).unwrap();
        }
        partition.tend(false).unwrap();
    }
    let blocked = partition.backlog().blocked;
    partition.flush().unwrap();
    (not_ready, blocked, partition.stats().known)
}

#[test]
fn the_patient_never_wait_for_the_disk() {
    let (not_ready, blocked, known) = feed(true);
    assert!(not_ready > 0, "nothing was held back");
    assert_eq!(blocked, 0);
    // The same without looking whether it is ready: the same result, and this is what the looking is good for.
    let (_, blocked, impatient) = feed(false);
    assert!(blocked > 0, "nobody had to wait");
    assert_eq!(known, impatient);
}
