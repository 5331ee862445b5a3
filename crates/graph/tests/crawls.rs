//! The graph of a crawl: what was fetched, what it weighed, where it began.

use std::path::Path;

use portolan_graph::{CrawlPages, read_crawl};
use portolan_model::{
    Identities, Link, LinkBatch, LinkKind, Outcome, PartitionId, Pulse, Verdict, Visit,
};
use portolan_registry::{Entry, Opened, Registry, RegistrySettings, Snapshot};

fn open(dir: &Path) -> Opened {
    let settings = RegistrySettings {
        partitions: 1,
        ..RegistrySettings::default()
    };
    Registry::open(dir, &settings, 1_000).expect("a registry")
}

fn link(url: &str, kind: LinkKind) -> Link<'_> {
    Link {
        url,
        kind,
        depth: 0,
        hops: 0,
        verdict: Verdict::Crawl { priority: 0 },
    }
}

fn seed(url: &str) -> (PartitionId, Entry) {
    let mut links = LinkBatch::new(None);
    links.push(link(url, LinkKind::Seed));
    let source = None;
    (PartitionId(0), Entry::Links { source, links })
}

fn visit(url: &str, bytes: u64, targets: &[&str]) -> (PartitionId, Entry) {
    let mut links = LinkBatch::new(Some(Identities::PUBLIC.doc(url)));
    for target in targets {
        links.push(link(target, LinkKind::Anchor));
    }
    let mut visit = Visit::without_answer(7, Outcome::Fetched);
    visit.status = 200;
    visit.wire_bytes = bytes;
    let entry = Entry::Visit {
        url: url.to_owned(),
        visit,
        pulse: Pulse::default(),
        links,
        forwards: Vec::new(),
        targets: targets
            .iter()
            .map(|url| Identities::PUBLIC.doc(url))
            .collect(),
    };
    (PartitionId(0), entry)
}

fn commit(opened: &mut Opened, batch: Vec<(PartitionId, Entry)>) {
    for delivery in opened.journal.commit(batch).expect("committed") {
        opened.partitions[usize::from(delivery.partition.0)]
            .apply(delivery.seq, &delivery.entry)
            .expect("applied");
    }
}

#[test]
fn what_was_fetched_is_the_graph() {
    let dir = tempfile::tempdir().expect("a directory");
    let mut opened = open(dir.path());
    commit(&mut opened, vec![seed("http://a.test/")]);
    let empty = read_crawl(
        &Snapshot::open(dir.path(), Identities::PUBLIC).expect("a snapshot"),
        CrawlPages::Fetched,
    )
    .expect_err("nothing fetched")
    .to_string();
    assert!(empty.contains("fetched nothing yet"), "{empty}");
    let (a, b, c) = ("http://a.test/", "http://a.test/b", "http://c.test/");
    commit(
        &mut opened,
        vec![visit(a, 100, &[b, c, "http://due.test/", a])],
    );
    commit(&mut opened, vec![visit(b, 20, &[a]), visit(c, 3, &[])]);
    drop(opened);
    let graph = read_crawl(
        &Snapshot::open(dir.path(), Identities::PUBLIC).expect("a snapshot"),
        CrawlPages::Fetched,
    )
    .expect("a graph");
    let pages = &graph.pages;
    let find = |url: &str| {
        (0..pages.count())
            .find(|&page| pages.url(page) == Some(url))
            .unwrap_or_else(|| panic!("no {url}"))
    };
    assert_eq!((pages.count(), pages.sites()), (3, 2));
    assert_eq!([a, b, c].map(|url| pages.bytes(find(url))), [100, 20, 3]);
    let mut links: Vec<(u32, u32)> = graph.links.iter().collect();
    links.sort_unstable();
    let mut wanted = [(a, b), (a, c), (b, a)].map(|(from, to)| (find(from), find(to)));
    wanted.sort_unstable();
    assert_eq!(links, wanted);
    assert_eq!(graph.seeds, [find(a)]);
    let notes: Vec<String> = graph.notes.iter().map(ToString::to_string).collect();
    assert!(
        notes
            .iter()
            .any(|note| note.starts_with("1 links to URLs that were not fetched")),
        "{notes:?}"
    );
}
