//! The tables of one kind, newest first, each several times larger than the one before: what is
//! new is written with all tables that are not much larger, so that few are left and each entry is
//! rewritten a logarithmic number of times.

use crate::error::Result;
use crate::files::merge::{Combine, Consumed, MemorySource};
use crate::files::{Cursor, Key, MergeInput, Merged, Shape, Table, TableWriter};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// A table is rewritten with what is newer when it is less than this many times as large.
const GROWTH: u64 = 4;

#[derive(Debug)]
pub(crate) struct Runs {
    dir: PathBuf,
    name: &'static str,
    shape: Shape,
    combine: Option<Combine>,
    tables: Vec<Run>,
}

#[derive(Clone, Debug)]
pub(crate) struct Run {
    pub(crate) id: u64,
    pub(crate) table: Arc<Table>,
}

/// What a merge will read and write; carried out on the merge thread.
pub(crate) struct RunsPlan {
    path: PathBuf,
    id: u64,
    shape: Shape,
    combine: Option<Combine>,
    inputs: Vec<Run>,
}

/// What came of it.
#[derive(Debug)]
pub(crate) struct RunsWritten {
    run: Option<Run>,
    merged: usize,
}

impl Runs {
    pub(crate) fn open(
        dir: &Path,
        name: &'static str,
        shape: Shape,
        combine: Option<Combine>,
        ids: &[u64],
    ) -> Result<Self> {
        let mut runs = Self {
            dir: dir.to_path_buf(),
            name,
            shape,
            combine,
            tables: Vec::with_capacity(ids.len()),
        };
        for &id in ids {
            let table = Arc::new(Table::open(runs.path(id), shape)?);
            runs.tables.push(Run { id, table });
        }
        Ok(runs)
    }

    fn path(&self, id: u64) -> PathBuf {
        self.dir.join(format!("{}-{id:08}.tbl", self.name))
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.tables.is_empty()
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

    /// All tables as one, oldest and newest combined, with `memory` in front.
    pub(crate) fn scan(&self, memory: Option<MemorySource>) -> Result<Merged> {
        let memory = memory.into_iter().map(MergeInput::Memory);
        let tables = self.tables.iter().map(|run| table_input(run, None));
        Merged::new(memory.chain(tables).collect(), self.combine)
    }

    /// Which tables to rewrite together with about `new_bytes`.
    pub(crate) fn plan(&self, new_bytes: u64, id: u64, everything: bool) -> RunsPlan {
        let mut bytes = new_bytes;
        let merged = self
            .tables
            .iter()
            .take_while(|run| {
                let take = everything || run.table.bytes() < GROWTH * bytes;
                bytes += run.table.bytes();
                take
            })
            .count();
        RunsPlan {
            path: self.path(id),
            id,
            shape: self.shape,
            combine: self.combine,
            inputs: self.tables[..merged].to_vec(),
        }
    }

    /// Puts the new table in the place of those it was made from; returns their paths.
    pub(crate) fn install(&mut self, written: RunsWritten) -> Vec<PathBuf> {
        let obsolete = self.tables[..written.merged]
            .iter()
            .map(|run| run.table.path().to_path_buf())
            .collect();
        self.tables.splice(..written.merged, written.run);
        obsolete
    }
}

impl RunsWritten {
    /// The new table's id; `None` if nothing was left to write.
    pub(crate) fn id(&self) -> Option<u64> {
        self.run.as_ref().map(|run| run.id)
    }
}

impl RunsPlan {
    /// Ids and tables that will be rewritten.
    pub(crate) fn inputs(&self) -> &[Run] {
        &self.inputs
    }

    /// Writes the new table. `consumed` says, by run id, what need not be written again.
    pub(crate) fn write(
        self,
        memory: MemorySource,
        consumed: impl Fn(u64) -> Option<Consumed>,
    ) -> Result<RunsWritten> {
        let merged = self.inputs.len();
        let mut inputs = vec![MergeInput::Memory(memory)];
        inputs.extend(
            self.inputs
                .iter()
                .map(|run| table_input(run, consumed(run.id))),
        );
        let mut source = Merged::new(inputs, self.combine)?;
        let mut writer: Option<TableWriter> = None;
        while let Some((key, value)) = source.next()? {
            let writer = match &mut writer {
                Some(writer) => writer,
                none => none.insert(TableWriter::create(self.path.clone(), self.shape)?),
            };
            writer.push(key, value)?;
        }
        let table = writer.map(TableWriter::finish).transpose()?;
        Ok(RunsWritten {
            run: table.map(|table| Run {
                id: self.id,
                table: Arc::new(table),
            }),
            merged,
        })
    }
}

fn table_input(run: &Run, consumed: Option<Consumed>) -> MergeInput {
    MergeInput::Table {
        cursor: Cursor::new(run.table.clone()),
        path: run.table.path().to_path_buf(),
        consumed,
    }
}

/// Looks keys up that come in ascending order; `found` is told of each that is there. Tables come
/// newest first. Reads each block at most once, and only blocks that may hold a key: a batch that
/// is dense streams, one that is sparse jumps.
pub(crate) fn look_up(
    tables: &[Arc<Table>],
    keys: impl Iterator<Item = u64>,
    mut found: impl FnMut(&Table, Key, &[u8]) -> Result<()>,
) -> Result<()> {
    let mut cursors: Vec<Option<Cursor>> = tables
        .iter()
        .map(|table| Some(Cursor::new(table.clone())))
        .collect();
    for key in keys {
        for (slot, table) in cursors.iter_mut().zip(tables) {
            let Some(cursor) = slot else { continue };
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
    Ok(())
}
