//! Going through all that a state holds: its records by document, its links in order.

use std::collections::VecDeque;
use std::path::Path;

use portolan_model::DocId;

use crate::error::{RegistryError, Result};
use crate::files::{AppendFile, Merged, read_piece};
use crate::record::Record;
use crate::state::State;

/// Parts of the documents that are read side by side, where neighbours are to be far apart: some 4 KB of RAM for each
/// and each table.
const STRIPES: u64 = 256;

/// The records of a partition, or of a stripe of its documents; ends after an error.
pub(crate) struct Records {
    merged: Option<Result<Merged>>,
    last: u64,
}

impl Records {
    pub(crate) fn new(state: &State) -> Self {
        Self::between(state, 0, u64::MAX)
    }

    fn of_stripe(state: &State, stripe: u64) -> Self {
        let width = u64::MAX / STRIPES + 1;
        let first = stripe * width;
        Self::between(state, first, first + (width - 1))
    }

    /// So that neighbours are far apart by document.
    pub(crate) fn scattered(state: &State) -> impl Iterator<Item = Result<(u64, Record)>> {
        let all = (0..STRIPES).map(|stripe| Self::of_stripe(state, stripe));
        RoundRobin(all.collect())
    }

    fn between(state: &State, first: u64, last: u64) -> Self {
        let memory = state.sieve.memory(first..=last);
        let merged = state.sieve.runs.scan_from((first, 0), Some(memory));
        Self {
            merged: Some(merged),
            last,
        }
    }

    fn step(&mut self) -> Result<Option<(u64, Record)>> {
        let mut merged = match self.merged.take() {
            None => return Ok(None),
            Some(merged) => merged?,
        };
        let Some(((doc, _), value)) = merged.next()?.filter(|((doc, _), _)| *doc <= self.last)
        else {
            return Ok(None);
        };
        let record = Record::decode(value).ok_or_else(|| {
            RegistryError::corrupt(Path::new("known"), 0, "a record cannot be read")
        })?;
        self.merged = Some(Ok(merged));
        Ok(Some((doc, record)))
    }
}

impl Iterator for Records {
    type Item = Result<(u64, Record)>;

    fn next(&mut self) -> Option<Self::Item> {
        self.step().transpose()
    }
}

/// One of each in turn, until all are at their ends.
struct RoundRobin<I>(VecDeque<I>);

impl<I: Iterator> Iterator for RoundRobin<I> {
    type Item = I::Item;

    fn next(&mut self) -> Option<I::Item> {
        while let Some(mut first) = self.0.pop_front() {
            if let Some(item) = first.next() {
                self.0.push_back(first);
                return Some(item);
            }
        }
        None
    }
}

/// The links of a partition's pages, in the order in which they were recorded.
pub(crate) struct Graph<'a> {
    file: &'a AppendFile,
    offset: u64,
}

impl<'a> Graph<'a> {
    pub(crate) fn new(file: &'a AppendFile) -> Self {
        Self { file, offset: 0 }
    }
}

impl Iterator for Graph<'_> {
    /// Where it is, the page, and where its links lead.
    type Item = Result<(u64, DocId, Vec<DocId>)>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.offset >= self.file.len() {
            return None;
        }
        match read_piece(self.file, self.offset, |targets| 8 * (targets + 1)) {
            Err(error) => {
                self.offset = u64::MAX;
                Some(Err(error))
            }
            Ok((next, body)) => {
                let at = std::mem::replace(&mut self.offset, next);
                let mut docs = body
                    .chunks_exact(8)
                    .filter_map(|word| word.try_into().ok())
                    .map(|word| DocId(u64::from_le_bytes(word)));
                let from = docs.next()?;
                Some(Ok((at, from, docs.collect())))
            }
        }
    }
}
