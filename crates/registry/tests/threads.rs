//! Reading a registry needs nobody but the reader. Alone in its program: it counts the threads that there are.

use portolan_model::{Identities, Link, LinkBatch, LinkKind, PartitionId, Verdict};
use portolan_registry::{Entry, Registry, RegistrySettings, Snapshot};

fn threads() -> usize {
    std::fs::read_dir("/proc/self/task").unwrap().count()
}

#[cfg(target_os = "linux")]
#[test]
fn a_snapshot_starts_no_threads() {
    let dir = tempfile::tempdir().unwrap();
    let before = threads();
    let settings = RegistrySettings {
        partitions: 1,
        ..RegistrySettings::default()
    };
    let mut opened = Registry::open(dir.path(), &settings, 0).unwrap();
    assert!(
        threads() > before,
        "an open registry has threads that write"
    );
    let mut links = LinkBatch::new(None);
    links.push(Link {
        url: "http://a.test/",
        kind: LinkKind::Seed,
        depth: 0,
        hops: 0,
        verdict: Verdict::Crawl { priority: 0 },
    });
    let source = None;
    let entry = Entry::Links { source, links };
    opened
        .journal
        .commit(vec![(PartitionId(0), entry)])
        .unwrap();
    // The partition is left behind: what the snapshot knows, it folds itself.
    opened.journal.close(opened.partitions).unwrap();
    assert_eq!(threads(), before);
    let snapshot = Snapshot::open(dir.path(), Identities::PUBLIC).unwrap();
    let known = snapshot.find(Identities::PUBLIC.doc("http://a.test/"));
    assert!(known.unwrap().is_some());
    assert_eq!(threads(), before);
}
