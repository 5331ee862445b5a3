//! The journal alone: what is committed is read back, in order, by tag; a commit is there whole or not at all.

use super::journal::{Durable, Journal, JournalPlan};
use super::reader::{JournalEnd, JournalReader};
use super::segment::{Positions, list_segments};
use super::stream::{Arrival, Heard};
use super::{Delivery, Entry};
use super::{Exchanged, Streams};
use crate::error::RegistryError;
use crate::lock::DirLock;
use portolan_model::{Link, LinkBatch, LinkKind, Outcome, PartitionId, Pulse, Verdict, Visit};
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tempfile::TempDir;

const PARTITIONS: u16 = 5;

/// Forward from partition to partition, with its links.
fn links(number: u64) -> LinkBatch {
    let mut batch = LinkBatch::new(None);
    batch.push(Link {
        url: &format!("http://host.test/{number}"),
        kind: LinkKind::Anchor,
        depth: 1,
        hops: 0,
        verdict: Verdict::Crawl { priority: 0 },
    });
    batch
}

fn visit(number: u64, forwards: &[u16]) -> Entry {
    Entry::Visit {
        url: format!("http://host.test/{number}"),
        visit: Visit::without_answer(number, Outcome::Fetched),
        pulse: Pulse::default(),
        links: links(number),
        forwards: forwards
            .iter()
            .map(|&to| (PartitionId(to), links(number)))
            .collect(),
        targets: Vec::new(),
    }
}

struct Place {
    _home: TempDir,
    dir: PathBuf,
    lock: Arc<DirLock>,
    durables: BTreeMap<PartitionId, Arc<Durable>>,
}

impl Place {
    fn new() -> Self {
        let home = TempDir::new().unwrap();
        let dir = home.path().join("journal");
        fs::create_dir(&dir).unwrap();
        let lock = Arc::new(DirLock::take(home.path()).unwrap());
        let durable = |id| (PartitionId(id), Arc::new(Durable::new(0, Arc::default())));
        Self {
            _home: home,
            dir,
            lock,
            durables: (0..PARTITIONS).map(durable).collect(),
        }
    }

    fn open(&self, segment_bytes: u64) -> Journal {
        Journal::open(self.plan(segment_bytes)).unwrap()
    }

    fn plan(&self, segment_bytes: u64) -> JournalPlan {
        JournalPlan {
            dir: self.dir.clone(),
            end: read(&self.dir, &self.checkpoints()).unwrap().1,
            durables: self.durables.clone(),
            streams: self.heard(),
            outgoing: None,
            journal_bytes: Arc::default(),
            segment_bytes,
            keep_log: false,
            lock: self.lock.clone(),
        }
    }

    /// What a fold of the journal would have heard.
    fn heard(&self) -> Vec<Streams> {
        let (logs, _) = read(&self.dir, &self.checkpoints()).unwrap();
        let hear = |id: &PartitionId| {
            let mut heard = Heard::default();
            for (_, entry) in logs.get(&id.0).into_iter().flatten() {
                if let Entry::Links {
                    source: Some(origin),
                    ..
                } = entry
                {
                    assert_eq!(heard.hear(origin), Arrival::Next);
                }
            }
            Streams {
                id: *id,
                heard,
                sent: Exchanged::default(),
            }
        };
        self.durables.keys().map(hear).collect()
    }

    fn checkpoints(&self) -> Positions {
        let all = self.durables.iter();
        all.map(|(id, durable)| (id.0, durable.checkpointed()))
            .collect()
    }

    fn segments(&self) -> Vec<PathBuf> {
        let all = list_segments(&self.dir).unwrap();
        all.into_iter().map(|(_, path)| path).collect()
    }
}

type Logs = BTreeMap<u16, Vec<(u64, Entry)>>;

fn read(dir: &Path, known: &Positions) -> Result<(Logs, JournalEnd), RegistryError> {
    let mut reader = JournalReader::open(dir, known)?;
    let mut logs = Logs::new();
    while let Some(commit) = reader.next()? {
        for item in commit.entries(|id| Some(known.of(id.0))) {
            let (id, seq, entry) = item?;
            logs.entry(id.0).or_default().push((seq, entry));
        }
    }
    Ok((logs, reader.end()))
}

fn note(logs: &mut Logs, deliveries: Vec<Delivery>) {
    for delivery in deliveries {
        let log = logs.entry(delivery.partition.0).or_default();
        log.push((delivery.seq, delivery.entry));
    }
}

/// A commit of some visits with forwards, by its number.
fn batch(number: u64) -> Vec<(PartitionId, Entry)> {
    let ids = [number % 5, (number / 2) % 5, (number * 3) % 5];
    let entry = |id: u64| {
        let to = [
            (id as u16 + 1) % PARTITIONS,
            (id as u16 + 3) % PARTITIONS,
            (id as u16 + 1) % PARTITIONS,
        ];
        (PartitionId(id as u16), visit(number, &to))
    };
    ids.into_iter().map(entry).collect()
}

#[test]
fn what_is_committed_is_read_back_by_partition() {
    let place = Place::new();
    let mut journal = place.open(1 << 12);
    let mut logs = Logs::new();
    for number in 1..=60 {
        journal.note_archive_end(2, number * 10);
        note(&mut logs, journal.commit(batch(number)).unwrap());
    }
    assert_eq!(journal.syncs(), 60, "one for each commit");
    assert!(place.segments().len() > 3);
    let (found, end) = read(&place.dir, &place.checkpoints()).unwrap();
    assert_eq!(found, logs);
    assert_eq!(end.archive_end, Some((2, 600)));
    assert_eq!(end.torn_bytes, 0);
    for (id, log) in &logs {
        assert_eq!(end.positions.of(*id), log.len() as u64);
        let numbers: Vec<u64> = log.iter().map(|(seq, _)| *seq).collect();
        assert_eq!(numbers, (1..=log.len() as u64).collect::<Vec<_>>());
        assert_eq!(
            place.durables[&PartitionId(*id)].settled(),
            log.len() as u64
        );
    }
    // Nothing is written for nothing.
    assert!(journal.commit(Vec::new()).unwrap().is_empty());
    assert_eq!(journal.syncs(), 60);
}

#[test]
fn cut_anywhere_in_its_last_segment_it_ends_after_a_whole_commit_and_goes_on() {
    let place = Place::new();
    let mut journal = place.open(1 << 12);
    let mut after_commit = Vec::new();
    let mut logs = Logs::new();
    for number in 1..=30 {
        note(&mut logs, journal.commit(batch(number)).unwrap());
        after_commit.push(logs.clone());
    }
    drop(journal);
    let last = place.segments().pop().unwrap();
    let bytes = fs::read(&last).unwrap();
    for cut in (0..bytes.len()).rev().step_by(7) {
        fs::write(&last, &bytes[..cut]).unwrap();
        let (found, end) = read(&place.dir, &place.checkpoints()).unwrap();
        let whole = after_commit
            .iter()
            .position(|logs| *logs == found)
            .expect("whole commits");
        let kept = end.segment.as_ref().map_or(0, |(_, kept)| *kept);
        assert_eq!(end.torn_bytes, cut as u64 - kept);
        let mut journal = place.open(1 << 12);
        let mut expected = after_commit[whole].clone();
        note(&mut expected, journal.commit(batch(77)).unwrap());
        drop(journal);
        assert_eq!(
            read(&place.dir, &place.checkpoints()).unwrap().0,
            expected,
            "cut at {cut}"
        );
        for path in place.segments() {
            // A commit behind a full segment begins another one.
            if path > last {
                fs::remove_file(path).unwrap();
            }
        }
    }
}

#[test]
fn a_damaged_commit_that_was_synced_is_no_torn_tail() {
    let place = Place::new();
    let mut journal = place.open(1 << 20);
    for number in 1..=10 {
        journal.commit(batch(number)).unwrap();
    }
    let before_last = fs::metadata(&place.segments()[0]).unwrap().len() as usize;
    journal.commit(batch(11)).unwrap();
    let path = place.segments().pop().unwrap();
    let bytes = fs::read(&path).unwrap();
    for at in (0..bytes.len()).step_by(11) {
        let mut bad = bytes.clone();
        bad[at] ^= 0x20;
        fs::write(&path, bad).unwrap();
        match read(&place.dir, &place.checkpoints()) {
            Ok((_, end)) => {
                assert!(at >= before_last, "byte {at} of {before_last}");
                assert_eq!(end.torn_bytes, (bytes.len() - before_last) as u64);
            }
            Err(RegistryError::Corrupt { path: named, .. }) => {
                assert!(at < before_last);
                assert_eq!(named, path);
            }
            Err(other) => panic!("{other}"),
        }
    }
}

#[test]
fn segments_go_when_the_checkpoints_of_all_partitions_are_past_them() {
    let place = Place::new();
    let mut journal = place.open(1 << 12);
    let mut logs = Logs::new();
    for number in 1..=60 {
        note(&mut logs, journal.commit(batch(number)).unwrap());
    }
    let all = place.segments().len();
    for id in 0..PARTITIONS - 1 {
        let durable = &place.durables[&PartitionId(id)];
        durable.note_checkpoint(durable.settled());
    }
    journal.trim().unwrap();
    assert_eq!(
        place.segments().len(),
        all,
        "one partition still needs them"
    );
    let slow = &place.durables[&PartitionId(PARTITIONS - 1)];
    slow.note_checkpoint(slow.settled() / 2);
    journal.trim().unwrap();
    let left = place.segments().len();
    assert!(left > 1 && left < all, "{left} of {all}");
    // What is left is enough for each from its checkpoint on.
    let known = place.checkpoints();
    let (found, end) = read(&place.dir, &known).unwrap();
    for (id, log) in logs {
        let news = &log[known.of(id) as usize..];
        assert_eq!(found.get(&id).map_or(&[][..], Vec::as_slice), news);
        assert_eq!(end.positions.of(id), log.len() as u64);
    }
    // And not for one whose checkpoint is lost.
    let lost = [(PARTITIONS - 1, 0)].into_iter().collect();
    let error = read(&place.dir, &lost).unwrap_err().to_string();
    assert!(error.contains("are missing before it"), "{error}");
    // Nor is a journal that ends before a checkpoint.
    let ahead: Positions = [(0, 1_000)].into_iter().collect();
    let error = end.refuse_if_short(&place.dir, &ahead).unwrap_err();
    assert!(error.to_string().contains("its end is missing"), "{error}");
}

#[test]
fn a_segment_that_is_gone_from_the_middle_is_missed() {
    let place = Place::new();
    let mut journal = place.open(1 << 12);
    for number in 1..=60 {
        journal.commit(batch(number)).unwrap();
    }
    fs::remove_file(&place.segments()[1]).unwrap();
    let error = read(&place.dir, &place.checkpoints()).unwrap_err();
    assert!(
        error.to_string().contains("are missing before it"),
        "{error}"
    );
}
