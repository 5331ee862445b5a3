//! The tables of one kind, newest first. What is new is written to a table of its own; tables are
//! merged in the background, so that they are several times larger than the few before them: few
//! are left, and each entry is rewritten a logarithmic number of times.

use crate::error::{RegistryError, Result};
use crate::files::{Combining, Cursor, Key, MemorySource, MergeInput, Merged};
use crate::files::{Shape, Table, TableWriter};
use std::hint::black_box;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// A table is rewritten with what is newer when it is less than this many times as large.
const GROWTH: u64 = 2;
/// A merge looks this often whether it is still wanted.
const ENTRIES_BETWEEN_LOOKS: u64 = 1 << 12;
/// Keys whose filters are looked at together.
const KEYS_TOGETHER: usize = 16;

/// What sets one kind of table apart.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Kind {
    pub(crate) name: &'static str,
    pub(crate) shape: Shape,
    pub(crate) combining: Combining,
    /// Tables have filters as long as all of them together take no more RAM than this.
    pub(crate) filter_bytes: usize,
    /// The filter of merged tables has room for one first key word in this many entries.
    pub(crate) entries_per_filter_key: usize,
    /// Fewer tables than this are not worth merging.
    pub(crate) fan_in: usize,
}

#[derive(Debug)]
pub(crate) struct Runs {
    dir: PathBuf,
    kind: Kind,
    tables: Vec<Run>,
    /// Ids of those that are being merged in the background.
    compacting: Vec<u64>,
}

#[derive(Clone, Debug)]
pub(crate) struct Run {
    pub(crate) id: u64,
    pub(crate) table: Arc<Table>,
}

/// What a merge will read and write; carried out on another thread.
pub(crate) struct RunsPlan {
    path: PathBuf,
    id: u64,
    kind: Kind,
    filter_keys: usize,
    inputs: Vec<Run>,
    /// Nothing is older: bookmarks have nothing left to skip.
    to_the_oldest: bool,
}

/// What came of it.
#[derive(Debug)]
pub(crate) struct RunsWritten {
    run: Option<Run>,
    merged: Vec<u64>,
}

impl Runs {
    pub(crate) fn open(dir: &Path, kind: Kind, ids: &[u64]) -> Result<Self> {
        let mut runs = Self {
            dir: dir.to_path_buf(),
            kind,
            tables: Vec::with_capacity(ids.len()),
            compacting: Vec::new(),
        };
        for &id in ids {
            let table = Arc::new(Table::open(runs.path(id), kind.shape)?);
            runs.tables.push(Run { id, table });
        }
        Ok(runs)
    }

    fn path(&self, id: u64) -> PathBuf {
        self.dir.join(format!("{}-{id:08}.tbl", self.kind.name))
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.tables.is_empty()
    }

    pub(crate) fn len(&self) -> usize {
        self.tables.len()
    }

    pub(crate) fn ids(&self) -> Vec<u64> {
        self.tables.iter().map(|run| run.id).collect()
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &Run> {
        self.tables.iter()
    }

    pub(crate) fn tables(&self) -> Vec<Arc<Table>> {
        self.tables.iter().map(|run| run.table.clone()).collect()
    }

    pub(crate) fn ram_bytes(&self) -> usize {
        self.tables.iter().map(|run| run.table.ram_bytes()).sum()
    }

    /// May a table hold the key? Reads nothing.
    #[inline]
    pub(crate) fn may_hold(&self, key: u64) -> bool {
        let mut tables = self.tables.iter();
        tables.any(|run| run.table.filter().may_hold(key))
    }

    /// The entries of a key in those tables that have one, newest first.
    pub(crate) fn find(&self, key: u64) -> impl Iterator<Item = Result<Cursor>> + '_ {
        let tables = self.tables.iter().map(|run| &run.table);
        let likely = tables.filter(move |table| table.filter().may_hold(key));
        likely.filter_map(move |table| {
            let mut cursor = Cursor::new(table.clone());
            match cursor.seek((key, 0)) {
                Ok(true) if cursor.key().0 == key => Some(Ok(cursor)),
                Ok(_) => None,
                Err(error) => Some(Err(error)),
            }
        })
    }

    /// All tables as one, oldest and newest combined, with `memory` in front.
    pub(crate) fn scan(&self, memory: Option<MemorySource>) -> Result<Merged> {
        self.scan_from((0, 0), memory)
    }

    /// The same without what is before `first`, where `memory` must begin.
    pub(crate) fn scan_from(&self, first: Key, memory: Option<MemorySource>) -> Result<Merged> {
        let memory = memory.into_iter().map(MergeInput::Memory);
        let tables = self.tables.iter().map(table_input);
        Merged::starting_at(first, memory.chain(tables).collect(), self.kind.combining)
    }

    /// Plans a table of new entries with at most `keys` different first key words.
    pub(crate) fn plan(&self, keys: usize, id: u64) -> RunsPlan {
        // Small and one of several: with twice the room its filter errs a tenth as often.
        self.plan_for(Vec::new(), keys.saturating_mul(2), id)
    }

    /// A merge of tables for the background, if there are any to merge and none are being merged.
    pub(crate) fn plan_compaction(&mut self, id: u64) -> Option<RunsPlan> {
        if !self.compacting.is_empty() {
            return None;
        }
        let mut bytes = 0;
        let count = self
            .tables
            .iter()
            .take_while(|run| {
                let take = bytes == 0 || run.table.bytes() < GROWTH * bytes;
                bytes += run.table.bytes();
                take
            })
            .count();
        if count < self.kind.fan_in {
            return None;
        }
        let inputs = self.tables[..count].to_vec();
        self.compacting = inputs.iter().map(|run| run.id).collect();
        let entries: u64 = inputs.iter().map(|run| run.table.entries()).sum();
        let keys = (entries as usize).div_ceil(self.kind.entries_per_filter_key);
        Some(self.plan_for(inputs, keys, id))
    }

    fn plan_for(&self, inputs: Vec<Run>, filter_keys: usize, id: u64) -> RunsPlan {
        let kept = self.tables.iter();
        let kept: usize = kept
            .filter(|run| inputs.iter().all(|input| input.id != run.id))
            .map(|run| run.table.filter().bytes())
            .sum();
        let fits = kept.saturating_add(filter_keys) <= self.kind.filter_bytes;
        RunsPlan {
            path: self.path(id),
            id,
            kind: self.kind,
            filter_keys: if fits { filter_keys } else { 0 },
            to_the_oldest: inputs.len() == self.tables.len(),
            inputs,
        }
    }

    /// Puts the new table in the place of those it was made from, or in front; returns their paths.
    pub(crate) fn install(&mut self, written: RunsWritten) -> Result<Vec<PathBuf>> {
        let is_old = |run: &Run| written.merged.contains(&run.id);
        let at = self.tables.iter().position(is_old).unwrap_or(0);
        let mut obsolete = Vec::new();
        for run in self.tables.iter().filter(|run| is_old(run)) {
            run.table.outlive_name()?;
            obsolete.push(run.table.path().to_path_buf());
        }
        self.tables.splice(at..at + obsolete.len(), written.run);
        if self.compacting == written.merged {
            self.compacting.clear();
        }
        Ok(obsolete)
    }
}

impl RunsPlan {
    /// Writes a table of what is new. `next` gives the entries in order: the key, and the value by way of
    /// the buffer.
    pub(crate) fn write(
        self,
        mut next: impl FnMut(&mut Vec<u8>) -> Option<Key>,
    ) -> Result<RunsWritten> {
        let mut writer = None;
        let mut value = Vec::new();
        while let Some(key) = next(&mut value) {
            self.writer(&mut writer)?.push(key, &value)?;
            value.clear();
        }
        self.finish(writer)
    }

    /// Merges the tables that the plan is for. Gives up when `stopping`.
    pub(crate) fn merge(self, stopping: &AtomicBool) -> Result<RunsWritten> {
        let inputs = self.inputs.iter().map(table_input);
        let mut source = Merged::new(inputs.collect(), self.kind.combining)?;
        let leave_bookmarks_out =
            self.to_the_oldest && matches!(self.kind.combining, Combining::Bookmarks);
        let mut writer = None;
        while let Some((key, value)) = source.next()? {
            if leave_bookmarks_out && key.1 == 0 {
                continue;
            }
            let writer = self.writer(&mut writer)?;
            writer.push(key, value)?;
            if writer.entries().is_multiple_of(ENTRIES_BETWEEN_LOOKS)
                && stopping.load(Ordering::Relaxed)
            {
                return Err(RegistryError::MergerDied);
            }
        }
        self.finish(writer)
    }

    /// A table is made when there is something to write.
    #[inline]
    fn writer<'w>(&self, writer: &'w mut Option<TableWriter>) -> Result<&'w mut TableWriter> {
        Ok(match writer {
            Some(writer) => writer,
            none => none.insert(TableWriter::create(
                self.path.clone(),
                self.kind.shape,
                self.filter_keys,
            )?),
        })
    }

    fn finish(self, writer: Option<TableWriter>) -> Result<RunsWritten> {
        let table = writer.map(TableWriter::finish).transpose()?;
        Ok(RunsWritten {
            run: table.map(|table| Run {
                id: self.id,
                table: Arc::new(table),
            }),
            merged: self.inputs.iter().map(|run| run.id).collect(),
        })
    }
}

fn table_input(run: &Run) -> MergeInput {
    MergeInput::Table {
        cursor: Cursor::new(run.table.clone()),
        path: run.table.path().to_path_buf(),
    }
}

/// Looks keys up that come in ascending order; `found` is told of each that is there. Tables come
/// newest first. Reads each block at most once, and only blocks that may hold a key: a batch that
/// is dense streams, one that is sparse jumps.
pub(crate) fn look_up(
    tables: &[Arc<Table>],
    keys: &[u64],
    mut found: impl FnMut(&Table, Key, &[u8]) -> Result<()>,
) -> Result<()> {
    let mut cursors: Vec<Option<Cursor>> = tables
        .iter()
        .map(|table| Some(Cursor::new(table.clone())))
        .collect();
    for together in keys.chunks(KEYS_TOGETHER) {
        // Filters' lines come from RAM, all at once rather than one after the other.
        let lines = together.iter().flat_map(|&key| {
            let filters = tables.iter().map(|table| table.filter());
            filters.map(move |filter| filter.touch(key))
        });
        black_box(lines.fold(0, |sum, word| sum ^ word));
        for &key in together {
            for (slot, table) in cursors.iter_mut().zip(tables) {
                let Some(cursor) = slot else { continue };
                if !table.filter().may_hold(key) {
                    continue;
                }
                if !cursor.seek((key, 0))? {
                    *slot = None;
                    continue;
                }
                if cursor.key().0 == key {
                    found(table, cursor.key(), cursor.value())?;
                    break;
                }
            }
        }
    }
    Ok(())
}
