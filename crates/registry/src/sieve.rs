//! Which URLs are known: records of recent ones in RAM, all of them in sorted tables whose filters
//! tell most new URLs at once, and in between the operations on URLs that may be on disk, which wait
//! to be looked up together. Not what an operation does to a record; that is the fold.

use crate::error::{RegistryError, Result};
use crate::files::{Combining, Key, Kind, MemorySource, Runs, Shape, Table, look_up};
use crate::log::Was;
use crate::recent::{Recent, Slot};
use crate::record::Record;
use crate::settings::Limits;
use crate::texts::Finding;
use portolan_model::{DocId, Outcome, Verdict};
use std::hint::black_box;
use std::ops::RangeInclusive;
use std::path::Path;
use std::sync::Arc;

pub(crate) const RECORDS: Shape = Shape {
    wide: false,
    value_bytes: None,
};

#[derive(Debug)]
pub(crate) struct Sieve {
    /// Newer than the tables, or the same.
    recent: Recent,
    pub(crate) runs: Runs,
    pub(crate) pending: Pending,
    /// Records that were looked up one by one, each in the slot that its document names. They hold until the next
    /// freeze: what has changed since does not leave RAM before.
    lately: Vec<Option<(u64, Record)>>,
}

/// Slots for records looked up lately: hosts in turn at one time, and some more.
const LATELY_SLOTS: usize = 1 << 9;

impl Sieve {
    pub(crate) fn open(dir: &Path, run_ids: &[u64], limits: &Limits) -> Result<Self> {
        let kind = Kind {
            name: "known",
            shape: RECORDS,
            combining: Combining::Newest,
            filter_bytes: limits.known_filter_bytes,
            entries_per_filter_key: 1,
            fan_in: 4,
        };
        Ok(Self {
            recent: Recent::planned_for(
                limits.recent_records,
                limits.recent_records.saturating_sub(limits.changed_records),
            ),
            runs: Runs::open(dir, kind, run_ids)?,
            pending: Pending::default(),
            lately: Vec::new(),
        })
    }

    /// The record, to be changed, if it is in RAM.
    #[inline(always)]
    pub(crate) fn touch(&mut self, doc: u64) -> Option<&mut Slot> {
        self.recent.touch(doc)
    }

    pub(crate) fn insert(&mut self, doc: u64, record: &Record) {
        self.recent.insert(doc, record);
    }

    /// The record of a URL that is not in RAM.
    pub(crate) fn insert_new(&mut self, doc: u64, record: &Record) {
        self.recent.insert_new(doc, record);
    }

    /// Takes a record that was looked up, unless RAM has a newer one. Pending operations on it must
    /// follow at once.
    pub(crate) fn insert_found(&mut self, doc: u64, record: &Record) {
        if self.recent.get(doc).is_none() {
            self.recent.insert_new(doc, record);
        }
    }

    /// The record, wherever it is. It does not become a recent one: operations on it may be
    /// waiting, and those that come later must not overtake them.
    pub(crate) fn peek(&self, doc: u64) -> Result<Option<Record>> {
        if let Some(slot) = self.recent.get(doc) {
            return Ok(Some(slot.record()));
        }
        match self.runs.find(doc).next().transpose()? {
            None => Ok(None),
            Some(found) => decode(found.table(), doc, found.value()).map(Some),
        }
    }

    /// The same, for who will ask again soon.
    pub(crate) fn peek_twice(&mut self, doc: u64) -> Result<Option<Record>> {
        if let Some(slot) = self.recent.get(doc) {
            return Ok(Some(slot.record()));
        }
        self.lately.resize(LATELY_SLOTS, None);
        let slot = doc as usize % LATELY_SLOTS;
        if let Some((known, record)) = self.lately[slot]
            && known == doc
        {
            return Ok(Some(record));
        }
        let found = self.peek(doc)?;
        self.lately[slot] = found.map(|record| (doc, record));
        Ok(found)
    }

    /// May a URL that is not in RAM be known all the same?
    #[inline]
    pub(crate) fn may_be_on_disk(&self, doc: u64) -> bool {
        self.runs.may_hold(doc)
    }

    /// Like `warm`, for documents whose records are about to be put into RAM.
    pub(crate) fn warm_homes(&self, docs: impl Iterator<Item = u64>) {
        let homes = docs.map(|doc| self.recent.touch_home(doc));
        black_box(homes.fold(0, |sum, word| sum ^ word));
    }

    /// Brings what the documents' operations will look at into the processor's caches, all at once
    /// rather than one after the other.
    pub(crate) fn warm(&self, docs: &[u64]) {
        self.warm_homes(docs.iter().copied());
        if self.runs.is_empty() {
            return;
        }
        let mut sum = 0;
        for &doc in docs {
            if self.recent.get(doc).is_none() {
                for run in self.runs.iter() {
                    sum ^= run.table.filter().touch(doc);
                }
            }
        }
        black_box(sum);
    }

    /// Records in RAM.
    pub(crate) fn recent(&self) -> usize {
        self.recent.records()
    }

    /// Records that are newer than the tables.
    pub(crate) fn changed(&self) -> usize {
        self.recent.changed()
    }

    /// What is newer than the tables, for the caller to write, which must be done before the next time. It stays in RAM
    /// until then; what was written last time may go, see `sweep`.
    pub(crate) fn freeze(&mut self) -> Vec<Slot> {
        self.lately.clear();
        self.recent.take_changed()
    }

    /// What was frozen is written.
    pub(crate) fn thaw(&mut self, frozen: Vec<Slot>) {
        self.recent.give_back(frozen);
    }

    /// How many slots are wanted for records that come soon, see `take_room`.
    pub(crate) fn wanted_room(&self) -> Option<usize> {
        self.recent.wanted_room()
    }

    pub(crate) fn take_room(&mut self, room: Vec<Slot>) {
        self.recent.take_room(room);
    }

    /// Drops records that need not stay, a part of them at a time.
    pub(crate) fn sweep(&mut self, slots: usize) {
        self.recent.sweep(slots);
    }

    pub(crate) fn ram_bytes(&self) -> usize {
        let lately = self.lately.capacity() * size_of::<Option<(u64, Record)>>();
        self.recent.ram_bytes() + self.pending.ram_bytes() + self.runs.ram_bytes() + lately
    }

    /// All records in RAM of documents from the first to the last, as a sorted source.
    pub(crate) fn memory(&self, docs: RangeInclusive<u64>) -> MemorySource {
        let slots = self.recent.iter().copied();
        let records: Vec<Slot> = slots.filter(|slot| docs.contains(&slot.doc())).collect();
        Box::new(records_source(records.into_iter()))
    }
}

/// Records in order, for writing them to a table.
pub(crate) fn records_source(
    mut slots: impl Iterator<Item = Slot>,
) -> impl FnMut(&mut Vec<u8>) -> Option<Key> {
    move |value| {
        let slot = slots.next()?;
        slot.record().encode(value);
        Some((slot.doc(), 0))
    }
}

/// Operations with what tables know of the URLs that they are on.
#[derive(Debug)]
pub(crate) struct Joined {
    pub(crate) batch: Pending,
    /// The batch's operations by document, and in order for each.
    pub(crate) by_doc: Vec<u32>,
    /// Ascending.
    pub(crate) found: Vec<(u64, Record)>,
}

/// Looks up what the tables know of the operations' URLs. Costs what is pending, not what is known.
pub(crate) fn join(tables: &[Arc<Table>], batch: Pending) -> Result<Joined> {
    let by_doc = batch.by_doc();
    let mut docs: Vec<u64> = by_doc.iter().map(|&op| batch.doc(op)).collect();
    docs.dedup();
    let mut found = Vec::new();
    look_up(tables, &docs, |table, (doc, _), value| {
        found.push((doc, decode(table, doc, value)?));
        Ok(())
    })?;
    Ok(Joined {
        batch,
        by_doc,
        found,
    })
}

fn decode(table: &Table, doc: u64, value: &[u8]) -> Result<Record> {
    Record::decode(value).ok_or_else(|| {
        RegistryError::corrupt(
            table.path(),
            0,
            format!("the record of {:?} cannot be read", DocId(doc)),
        )
    })
}

/// What is to be done to a URL's record.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Op<'a> {
    pub(crate) doc: u64,
    pub(crate) arrival: u64,
    pub(crate) url: &'a str,
    pub(crate) finding: Finding,
    pub(crate) act: Act,
}

#[derive(Clone, Copy, Debug)]
pub(crate) enum Act {
    Observe {
        verdict: Verdict,
        /// What the link brings, see `Ranker::vote`.
        vote: u32,
    },
    /// A link that left before its page was there as a whole; see `LinkBatch::is_early`.
    Announce { verdict: Verdict },
    /// `at` is where the visit is recorded.
    Visit { outcome: Outcome, at: u64 },
    /// It failed or was excluded, and is to be tried again.
    Again,
    /// What other settings say of it; see `Entry::Judged`.
    Judge { verdict: Verdict, vote: u32 },
    /// Its copy has grown old; see `Entry::Refresh`.
    Refresh,
    /// It is due in a new session, whose visits are recorded from `from` on.
    Renew { was: Was, from: u64 },
}

/// Operations on URLs that were not in RAM, in order.
#[derive(Debug, Default)]
pub(crate) struct Pending {
    ops: Vec<PendingOp>,
    texts: String,
}

#[derive(Debug)]
struct PendingOp {
    doc: u64,
    arrival: u64,
    finding: Finding,
    act: Act,
    text_end: usize,
}

impl Pending {
    pub(crate) fn push(&mut self, op: &Op<'_>) {
        self.texts.push_str(op.url);
        self.ops.push(PendingOp {
            doc: op.doc,
            arrival: op.arrival,
            finding: op.finding,
            act: op.act,
            text_end: self.texts.len(),
        });
    }

    pub(crate) fn len(&self) -> usize {
        self.ops.len()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.ops.is_empty()
    }

    pub(crate) fn bytes(&self) -> usize {
        self.ops.len() * size_of::<PendingOp>() + self.texts.len()
    }

    fn ram_bytes(&self) -> usize {
        self.ops.capacity() * size_of::<PendingOp>() + self.texts.capacity()
    }

    /// Numbers of the operations by document, and in order for each.
    fn by_doc(&self) -> Vec<u32> {
        let mut numbers: Vec<u32> = (0..self.ops.len() as u32).collect();
        numbers.sort_unstable_by_key(|&op| (self.doc(op), op));
        numbers
    }

    pub(crate) fn doc(&self, op: u32) -> u64 {
        self.ops[op as usize].doc
    }

    /// The operation of a number.
    pub(crate) fn op(&self, number: u32) -> Op<'_> {
        let at = number as usize;
        let start = at
            .checked_sub(1)
            .map_or(0, |before| self.ops[before].text_end);
        let op = &self.ops[at];
        Op {
            doc: op.doc,
            arrival: op.arrival,
            url: &self.texts[start..op.text_end],
            finding: op.finding,
            act: op.act,
        }
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = Op<'_>> {
        (0..self.ops.len() as u32).map(|number| self.op(number))
    }
}
