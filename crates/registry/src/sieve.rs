//! Which URLs are known: records of recent ones in RAM in two generations, all others in sorted
//! tables, and in between the operations on URLs not found in RAM, which wait to be looked up
//! together. Not what an operation does to a record; that is the fold.

use crate::by_id::IdMap;
use crate::error::{RegistryError, Result};
use crate::files::{MemorySource, Runs, Shape, Table, look_up};
use crate::record::Record;
use crate::texts::Finding;
use portolan_model::{DocId, Outcome, Verdict};
use std::collections::hash_map::Entry;
use std::path::Path;
use std::sync::Arc;

pub(crate) type Generation = IdMap<Record>;

/// RAM of one record in a generation: key, record and control byte, at a load of 7/8.
pub(crate) const GENERATION_ENTRY_BYTES: usize = 56;

pub(crate) const RECORDS: Shape = Shape {
    wide: false,
    value_bytes: None,
};

#[derive(Debug)]
pub(crate) struct Sieve {
    /// Newer than everything else.
    active: Generation,
    /// Being written to a table, or written and kept because recent URLs come again soon.
    frozen: Option<Arc<Generation>>,
    pub(crate) runs: Runs,
    pub(crate) pending: Pending,
}

impl Sieve {
    pub(crate) fn open(dir: &Path, run_ids: &[u64]) -> Result<Self> {
        Ok(Self {
            active: Generation::default(),
            frozen: None,
            runs: Runs::open(dir, "known", RECORDS, None, run_ids)?,
            pending: Pending::default(),
        })
    }

    /// The record, if it is in RAM; from now on it is a recent one.
    #[inline]
    pub(crate) fn touch(&mut self, doc: u64) -> Option<&mut Record> {
        match self.active.entry(doc) {
            Entry::Occupied(record) => Some(record.into_mut()),
            Entry::Vacant(place) => {
                let record = *self.frozen.as_ref()?.get(&doc)?;
                Some(place.insert(record))
            }
        }
    }

    pub(crate) fn insert(&mut self, doc: u64, record: Record) {
        self.active.insert(doc, record);
    }

    /// Takes a record that was looked up, unless RAM has a newer one. Pending operations on it must
    /// follow at once.
    pub(crate) fn insert_found(&mut self, doc: u64, record: Record) {
        if self.touch(doc).is_none() {
            self.active.insert(doc, record);
        }
    }

    /// The record, wherever it is. It does not become a recent one: operations on it may be
    /// waiting, and those that come later must not overtake them.
    pub(crate) fn peek(&self, doc: u64) -> Result<Option<Record>> {
        if let Some(record) = self.active.get(&doc) {
            return Ok(Some(*record));
        }
        if let Some(record) = self.frozen.as_ref().and_then(|frozen| frozen.get(&doc)) {
            return Ok(Some(*record));
        }
        self.look_up_one(doc)
    }

    fn look_up_one(&self, doc: u64) -> Result<Option<Record>> {
        let found = look_up_records(&self.runs.tables(), &[doc])?;
        Ok(found.first().map(|(_, record)| *record))
    }

    /// May a URL that is not in RAM be known all the same?
    pub(crate) fn has_tables(&self) -> bool {
        !self.runs.is_empty()
    }

    pub(crate) fn recent(&self) -> usize {
        self.active.len()
    }

    /// Starts a new generation; the old one is written to a table by the caller.
    pub(crate) fn freeze(&mut self) -> Arc<Generation> {
        let mut fresh = self
            .frozen
            .take()
            .and_then(|old| Arc::try_unwrap(old).ok())
            .unwrap_or_default();
        fresh.clear();
        let frozen = Arc::new(std::mem::replace(&mut self.active, fresh));
        self.frozen = Some(frozen.clone());
        frozen
    }

    pub(crate) fn ram_bytes(&self) -> usize {
        let generation = |map: &Generation| map.capacity() * GENERATION_ENTRY_BYTES;
        generation(&self.active)
            + self.frozen.as_ref().map_or(0, |frozen| generation(frozen))
            + self.pending.ram_bytes()
            + self.runs.ram_bytes()
    }

    /// All records in RAM that are newer than the tables, sorted.
    pub(crate) fn memory(&self) -> MemorySource {
        let mut records: Vec<(u64, Record)> = self
            .frozen
            .iter()
            .flat_map(|frozen| frozen.iter())
            .filter(|(doc, _)| !self.active.contains_key(doc))
            .chain(self.active.iter())
            .map(|(&doc, &record)| (doc, record))
            .collect();
        records.sort_unstable_by_key(|(doc, _)| *doc);
        let mut records = records.into_iter();
        Box::new(move |value| {
            let (doc, record) = records.next()?;
            record.encode(value);
            Some((doc, 0))
        })
    }
}

/// A generation as a sorted source, for writing it to a table.
pub(crate) fn generation_source(generation: Arc<Generation>) -> MemorySource {
    let mut docs: Vec<u64> = generation.keys().copied().collect();
    docs.sort_unstable();
    let mut docs = docs.into_iter();
    Box::new(move |value| {
        let doc = docs.next()?;
        generation.get(&doc)?.encode(value);
        Some((doc, 0))
    })
}

/// Records of those of the documents (ascending) that the tables know.
pub(crate) fn look_up_records(tables: &[Arc<Table>], docs: &[u64]) -> Result<Vec<(u64, Record)>> {
    let mut records = Vec::new();
    look_up(tables, docs.iter().copied(), |table, (doc, _), value| {
        let record = Record::decode(value).ok_or_else(|| {
            RegistryError::corrupt(
                table.path(),
                0,
                format!("the record of {:?} cannot be read", DocId(doc)),
            )
        })?;
        records.push((doc, record));
        Ok(())
    })?;
    Ok(records)
}

/// What is to be done to a URL's record.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Op<'a> {
    pub(crate) doc: u64,
    pub(crate) host: u64,
    pub(crate) arrival: u64,
    pub(crate) url: &'a str,
    pub(crate) finding: Finding,
    pub(crate) act: Act,
}

#[derive(Clone, Copy, Debug)]
pub(crate) enum Act {
    Observe(Verdict),
    /// `at` is where the visit is recorded.
    Visit {
        outcome: Outcome,
        at: u64,
    },
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
    host: u64,
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
            host: op.host,
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

    /// The documents concerned, ascending, each once.
    pub(crate) fn docs(&self) -> Vec<u64> {
        let mut docs: Vec<u64> = self.ops.iter().map(|op| op.doc).collect();
        docs.sort_unstable();
        docs.dedup();
        docs
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = Op<'_>> {
        let mut start = 0;
        self.ops.iter().map(move |op| {
            let url = &self.texts[start..op.text_end];
            start = op.text_end;
            Op {
                doc: op.doc,
                host: op.host,
                arrival: op.arrival,
                url,
                finding: op.finding,
                act: op.act,
            }
        })
    }
}
