//! Checkpoints and trimming: what `portolan_crawl` and `crate::node::trim` do with the same decisions. Adopting and deleting
//! take their time, so that whoever trims is late, and whoever takes over has read what is no longer so.

use super::super::{Ledger, LogEvent};
use super::node::{Held, Life, SimNode};
use super::world::{Op, Outcome, Part, Record, Value, What, World};
use crate::checkpoint::{Upload, journal_key};
use crate::records::{Checkpoint, Commit, PartitionCommit, ShipRecord, Shipped};
use portolan_model::PartitionId;
use std::collections::HashSet;

/// A checkpoint shares up to so many pieces with the one before it.
const SHARED: usize = 3;

/// A partition on its way to a node.
#[derive(Debug)]
pub struct Adopting {
    checkpoint: Option<Checkpoint>,
    /// Keys of chunks, and the last entry in each.
    chunks: Vec<(String, u64)>,
    log_end: u64,
    ready_ms: u64,
}

/// Throws away what nobody needs.
#[derive(Debug, Default)]
pub struct Trimming {
    begun: bool,
    summary: Ledger,
    revision: u64,
    now: Ledger,
    tail: Vec<Shipped>,
    noting: Option<(u64, Ledger)>,
    /// What is to go, one step after the other, whatever happens meanwhile.
    purge: Vec<(String, u64)>,
    delete: Vec<String>,
}

impl Record {
    pub fn shipped(&self, seq: u64) -> Shipped {
        let incarnation = self.incarnation;
        let record = match &self.what {
            What::Event(LogEvent::Joined { .. }) => ShipRecord::Joined {
                incarnation,
                session: self.session,
            },
            What::Event(LogEvent::Sealed { .. }) => ShipRecord::Sealed {
                incarnation,
                by: String::new(),
            },
            What::Event(LogEvent::Released {
                partition, epoch, ..
            }) => ShipRecord::Released {
                incarnation,
                partition: *partition,
                epoch: *epoch,
                seq: 0,
            },
            What::Event(LogEvent::Other) => unreachable!("nobody writes it"),
            What::Commit { frame, parts } => ShipRecord::Commit(Commit {
                incarnation,
                first_frame: *frame,
                last_frame: *frame,
                journal: journal_key(&self.node, incarnation, *frame),
                warc: Vec::new(),
                archive_end: None,
                pages: 0,
                partitions: parts.iter().map(Part::commit).collect(),
            }),
            What::Checkpoint(checkpoint) => ShipRecord::Checkpoint(checkpoint.clone()),
        };
        Shipped {
            seq,
            node: self.node.clone(),
            record,
        }
    }
}

impl Part {
    fn commit(&self) -> PartitionCommit {
        PartitionCommit {
            partition: self.partition,
            epoch: self.epoch,
            from_seq: self.from,
            to_seq: self.to,
            inbox_cursor: 0,
        }
    }
}

impl World {
    fn summary(&self) -> (u64, Ledger) {
        match self.keys.get("summary") {
            Some((revision, Some(Value::Summary(ledger)))) => (*revision, ledger.clone()),
            _ => (0, Ledger::default()),
        }
    }

    /// What is left of the log after a message.
    fn left_after(&self, seq: u64) -> impl Iterator<Item = Shipped> {
        let records = (1..).zip(&self.log);
        records
            .filter(move |(at, _)| *at > seq && !self.gone.contains(at))
            .map(|(at, record)| record.shipped(at))
    }

    /// As somebody reads it who comes now.
    pub fn ledger(&self) -> Ledger {
        let (_, mut ledger) = self.summary();
        for shipped in self.left_after(ledger.to()) {
            ledger.fold(&shipped);
        }
        ledger
    }

    /// The last entry of a partition that was ever shipped, up to a message.
    fn last_entry(&self, partition: u16, log_end: u64, of: impl Fn(&Record) -> bool) -> u64 {
        let records = self.log.iter().take(log_end as usize);
        let parts = records.filter(|record| of(record)).flat_map(Record::parts);
        let of_it = parts.filter(|part| part.partition == partition && part.from <= part.to);
        of_it.map(|part| part.to).max().unwrap_or(0)
    }

    fn is_over(&self, node: &str, incarnation: u64, partition: u16, epoch: u32) -> bool {
        self.log.iter().any(|record| match &record.what {
            What::Event(LogEvent::Sealed { .. }) => record.incarnation == incarnation,
            What::Event(LogEvent::Joined { .. }) => {
                let follows = record.node == node && record.incarnation != incarnation;
                let own = |own: &Record| own.incarnation == incarnation;
                follows
                    && self.log.iter().position(own) < self.log.iter().rposition(|r| r == record)
            }
            _ => {
                let mut parts = record.parts();
                parts.any(|part| part.partition == partition && part.epoch > epoch)
            }
        })
    }
}

impl Record {
    pub fn parts(&self) -> impl Iterator<Item = &Part> {
        let parts = match &self.what {
            What::Commit { parts, .. } => &parts[..],
            _ => &[],
        };
        parts.iter()
    }
}

impl SimNode {
    pub(super) fn adopt(
        &mut self,
        life: &mut Life,
        world: &mut World,
        (partition, epoch, log_end): (u16, u32, u64),
    ) {
        let mut held = Held::new(epoch);
        if let Some(&adopted) = self.disk.get(&(partition, epoch)) {
            let own = |record: &Record| record.incarnation == self.incarnation;
            held.applied = world.last_entry(partition, u64::MAX, own).max(adopted);
            life.held.insert(partition, held);
            return;
        }
        let ledger = world.ledger();
        let checkpoints: Vec<_> = ledger.checkpoints_of(PartitionId(partition)).collect();
        // The newest one, or the one before it where that is damaged.
        let back = usize::from(world.below(4) == 0 && checkpoints.len() > 1);
        let checkpoint = checkpoints
            .get(back)
            .map(|checkpoint| (*checkpoint).clone());
        let known = checkpoint.as_ref().map_or(0, |checkpoint| checkpoint.seq);
        let chunks = ledger.commits_after(PartitionId(partition), known);
        let chunk = |(_, commit): &(u64, std::sync::Arc<Commit>)| {
            let named = commit
                .partitions
                .iter()
                .find(|it| it.partition == partition);
            (commit.journal.clone(), named.map_or(0, |it| it.to_seq))
        };
        held.adopting = Some(Adopting {
            checkpoint,
            chunks: chunks.iter().map(chunk).collect(),
            log_end,
            ready_ms: world.now_ms + world.below(12_000),
        });
        life.held.insert(partition, held);
    }

    /// True if others have gone on without this node.
    pub(super) fn finish_adopting(&mut self, life: &mut Life, world: &mut World) -> bool {
        for (&partition, held) in &mut life.held {
            let is_ready = |it: &Adopting| it.ready_ms <= world.now_ms;
            let Some(adopting) = held.adopting.take_if(|it| is_ready(it)) else {
                continue;
            };
            let mut needed: Vec<String> =
                adopting.chunks.iter().map(|(key, _)| key.clone()).collect();
            let mut applied = adopting.chunks.iter().map(|(_, to)| *to).max().unwrap_or(0);
            if let Some(checkpoint) = &adopting.checkpoint {
                let named = world.objects.get(&checkpoint.manifest);
                needed.push(checkpoint.manifest.clone());
                needed.extend(named.into_iter().flatten().cloned());
                held.pieces = named.cloned().unwrap_or_default();
                applied = applied.max(checkpoint.seq);
                world.from_checkpoints += 1;
            }
            let is_over = world.is_over(&self.name, self.incarnation, partition, held.epoch);
            let missing = needed.iter().find(|key| !world.objects.contains_key(*key));
            if missing.is_some() && is_over {
                world.late_adopters += 1;
                return true;
            }
            let seed = world.seed;
            assert_eq!(
                missing, None,
                "seed {seed}: {} needs it: {adopting:?}",
                self.name
            );
            let shipped = world.last_entry(partition, adopting.log_end, |_| true);
            assert_eq!(
                applied, shipped,
                "seed {seed}: {} has lost entries of {partition}: {adopting:?}",
                self.name
            );
            held.applied = applied;
            self.disk.insert((partition, held.epoch), applied);
        }
        false
    }

    /// What is held, with some more entries each. The chunk is there before it is told of.
    pub(super) fn commit(&self, life: &Life, world: &mut World) -> What {
        let mut parts = Vec::new();
        for (&partition, held) in &life.held {
            if held.adopting.is_none() {
                parts.push(Part {
                    partition,
                    epoch: held.epoch,
                    from: held.applied + 1,
                    to: held.applied + world.below(3),
                });
            }
        }
        let frame = world.next() >> 32;
        let frame = frame.max(1) + (life.last << 33);
        let key = journal_key(&self.name, self.incarnation, frame);
        world.objects.insert(key, Vec::new());
        What::Commit { frame, parts }
    }

    /// One of a partition that is held; its pieces are there before it is told of, and others throw away meanwhile. Who
    /// began again puts what was told of there once more.
    pub(super) fn checkpoint(&self, life: &mut Life, world: &mut World) -> Option<What> {
        let any = world.below(life.held.len() as u64) as usize;
        let (&partition, held) = life.held.iter_mut().nth(any)?;
        if held.adopting.is_some() || held.applied == 0 {
            return None;
        }
        if let Some(put) = held.putting.take() {
            held.pieces = world
                .objects
                .get(&put.manifest)
                .cloned()
                .unwrap_or_default();
            held.told = Some(put.clone());
            return Some(What::Checkpoint(put));
        }
        let again = held.told.clone().filter(|told| told.seq == held.applied);
        if again.is_some() && world.below(2) == 0 {
            return again.map(What::Checkpoint);
        }
        let upload = Upload {
            partition,
            incarnation: self.incarnation,
            epoch: held.epoch,
            seq: held.applied,
            drawn: world.next(),
        };
        let mut pieces: Vec<_> = held.pieces.iter().rev().take(SHARED).cloned().collect();
        pieces.insert(0, upload.piece_key("urls", 0));
        pieces.reverse();
        world
            .objects
            .insert(upload.piece_key("urls", 0), Vec::new());
        let manifest = upload.manifest_key();
        world.objects.insert(manifest.clone(), pieces);
        if world.below(8) != 0 {
            held.putting = Some(Checkpoint {
                incarnation: self.incarnation,
                partition,
                epoch: held.epoch,
                seq: held.applied,
                manifest,
                bytes: 0,
            });
        }
        None
    }

    /// A step of whoever coordinates; what has begun to go goes whoever coordinates.
    pub(super) fn trim(&mut self, coordinates: bool, world: &mut World) {
        if self.cut_off(world) {
            return;
        }
        let mut trimming = std::mem::take(&mut self.trimming);
        trimming.throw_away(world);
        if !coordinates {
            trimming.begun = false;
        } else if trimming.noting.is_none() && world.below(20) == 0 {
            self.summarize(&mut trimming, world);
        }
        self.trimming = trimming;
    }

    fn summarize(&self, trimming: &mut Trimming, world: &mut World) {
        let (revision, summary) = world.summary();
        if !trimming.begun || summary.to() != trimming.summary.to() {
            trimming.begun = true;
            (trimming.now, trimming.summary) = (summary.clone(), summary);
            (trimming.revision, trimming.tail) = (revision, Vec::new());
        }
        for shipped in world.left_after(trimming.now.to()) {
            trimming.now.fold(&shipped);
            trimming.tail.push(shipped);
        }
        let named: HashSet<String> = trimming
            .now
            .checkpoints()
            .flat_map(|it| {
                world
                    .objects
                    .get(&it.manifest)
                    .into_iter()
                    .flatten()
                    .chain([&it.manifest])
            })
            .cloned()
            .collect();
        let now = &trimming.now;
        let is_spent = |key: &&String| now.is_spent_chunk(key) || now.is_spent_piece(key, &named);
        trimming
            .delete
            .extend(world.objects.keys().filter(is_spent).cloned());
        let Some((_, Some(Value::Assignment(assignment)))) = world.keys.get("assignment") else {
            return;
        };
        let to = (trimming.now.ground() - 1).min(assignment.log);
        if to <= trimming.summary.to() {
            return;
        }
        let mut new = trimming.summary.clone();
        trimming
            .tail
            .iter()
            .filter(|it| it.seq <= to)
            .for_each(|it| new.fold(it));
        let op = Op::Swap {
            key: "summary".to_owned(),
            value: Some(Value::Summary(new.clone())),
            revision: trimming.revision,
        };
        trimming.noting = Some((self.send(world, op), new));
    }

    /// Was it the note of a summary? What it says may go.
    pub(super) fn noted(&mut self, request: u64, outcome: Outcome) {
        let trimming = &mut self.trimming;
        let Some((_, new)) = trimming.noting.take_if(|(noting, _)| *noting == request) else {
            return;
        };
        trimming.begun = false;
        if let Outcome::Done(_) = outcome {
            let trimmed = trimming.now.trimmed_by(new.to()).into_iter();
            trimming.purge = trimmed
                .map(|(node, from)| (node.to_owned(), from))
                .collect();
        }
    }
}

impl Trimming {
    /// Some of what is to go.
    fn throw_away(&mut self, world: &mut World) {
        if world.below(3) > 0 {
            return;
        }
        if let Some((node, from)) = self.purge.pop() {
            world.purge(&node, from);
        }
        for _ in 0..world.below(6) {
            if let Some(key) = self.delete.pop() {
                world.deleted += u64::from(world.objects.remove(&key).is_some());
            }
        }
    }

    /// Its process ends.
    pub(super) fn stop(&mut self) {
        *self = Self::default();
    }
}

impl World {
    fn purge(&mut self, node: &str, from: u64) {
        let seed = self.seed;
        let Some((_, Some(Value::Assignment(assignment)))) = self.keys.get("assignment") else {
            return;
        };
        let accounted = assignment.log;
        let last = self.last_of(node);
        for (at, record) in (1..from).zip(&self.log) {
            if record.node == node && self.gone.insert(at) {
                assert!(at <= accounted, "seed {seed}: a coordinator needs {at}");
                assert!(at < last, "seed {seed}: {node} expects {at}");
            }
        }
    }
}
