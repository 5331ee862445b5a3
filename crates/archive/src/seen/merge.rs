//! Several runs into one, streamed. A job needs nothing of the table, so that it can run on a
//! thread of its own while pages are looked up.

use super::run::{RunMeta, RunReader, RunWriter};
use crate::error::ArchiveError;
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::path::PathBuf;

/// A merge that is due. Give its result to `ContentSeen::adopt`.
pub struct MergeJob {
    pub(super) dir: PathBuf,
    pub(super) inputs: Vec<RunMeta>,
    pub(super) output: String,
    /// Entries from here on in the text are left out.
    pub(super) text_limit: u64,
}

/// The outcome of a merge.
pub struct MergedRun {
    pub(super) inputs: Vec<RunMeta>,
    pub(super) damaged: Vec<RunMeta>,
    /// `None` if a run was damaged: then that one is dropped and the rest merged later.
    pub(super) output: Option<RunMeta>,
}

impl MergeJob {
    pub fn run(self) -> Result<MergedRun, ArchiveError> {
        let (Some(first), Some(last)) = (self.inputs.first(), self.inputs.last()) else {
            return Ok(MergedRun {
                inputs: Vec::new(),
                damaged: Vec::new(),
                output: None,
            });
        };
        let mut readers = Vec::new();
        for input in &self.inputs {
            readers.push(RunReader::open(&self.dir, input)?);
        }
        let mut heap = BinaryHeap::new();
        for (number, reader) in readers.iter_mut().enumerate() {
            if let Some(pair) = reader.next()? {
                heap.push(Reverse((pair, number)));
            }
        }
        let mut out = RunWriter::create(&self.dir, self.output.clone())?;
        let mut last_pushed = None;
        while let Some(Reverse((pair, number))) = heap.pop() {
            // Of equal fingerprints the one first stored stays.
            if last_pushed != Some(pair.0) && pair.1 < self.text_limit {
                out.push(pair)?;
                last_pushed = Some(pair.0);
            }
            if let Some(next) = readers[number].next()? {
                heap.push(Reverse((next, number)));
            }
        }
        let damaged: Vec<RunMeta> = self
            .inputs
            .iter()
            .zip(readers)
            .filter(|(_, reader)| !reader.is_undamaged())
            .map(|(input, _)| input.clone())
            .collect();
        let output = out.finish(first.text_from, last.last)?;
        Ok(MergedRun {
            output: damaged.is_empty().then_some(output),
            inputs: self.inputs,
            damaged,
        })
    }
}
