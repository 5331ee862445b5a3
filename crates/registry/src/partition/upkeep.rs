//! Getting the state to disk without stopping the crawl: looking up pending operations, writing
//! what is in RAM to tables, committing checkpoints. Long work is the merge thread's; one job of a
//! partition at a time.

use crate::error::{At, RegistryError, Result};
use crate::files::{RunsWritten, sync_dir};
use crate::frontier::frozen_source;
use crate::hosts::hosts_source;
use crate::log::Durable;
use crate::manifest::Manifest;
use crate::merger::{Merger, Promise};
use crate::partition::Partition;
use crate::record::Record;
use crate::sieve::{Pending, generation_source, look_up_records};
use std::fs;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;

/// So many pending operations are looked up at once where they are, without the merge thread.
const INLINE_OPS: usize = 2048;
/// About what an entry takes on disk, to choose what to merge.
const RECORD_BYTES: u64 = 30;
const ENTRY_BYTES: u64 = 13;

/// What `tend` did.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Tended {
    /// Links or states became visible: more may be due.
    pub changed: bool,
    /// Work goes on in the background.
    pub busy: bool,
}

#[derive(Debug)]
pub(super) struct Upkeep {
    durable: Arc<Durable>,
    merger: Merger,
    next_file: u64,
    /// Log folded since the last freeze.
    log_bytes: u64,
    work: Work,
    /// A checkpoint whose files are written but which may not be committed yet.
    uncommitted: Option<Checkpoint>,
    /// Tables that no checkpoint will name again.
    obsolete: Vec<PathBuf>,
}

#[derive(Debug)]
enum Work {
    Idle,
    /// Finding the records of pending operations.
    Joining {
        batch: Pending,
        found: Promise<Vec<(u64, Record)>>,
    },
    Writing {
        /// All but the tables' ids.
        manifest: Box<Manifest>,
        merged_due: Vec<u64>,
        written: Promise<Written>,
    },
    Committing {
        seq: u64,
        done: Promise<()>,
    },
}

#[derive(Debug)]
struct Checkpoint {
    manifest: Box<Manifest>,
    obsolete: Vec<PathBuf>,
}

#[derive(Debug)]
struct Written {
    known: RunsWritten,
    due: RunsWritten,
    hosts: RunsWritten,
}

impl Upkeep {
    pub(super) fn new(durable: Arc<Durable>, merger: Merger, next_file: u64) -> Self {
        Self {
            durable,
            merger,
            next_file,
            log_bytes: 0,
            work: Work::Idle,
            uncommitted: None,
            obsolete: Vec::new(),
        }
    }
}

impl Partition {
    /// To be called in every loop: installs finished work, starts what is wanted. `hungry`: there is
    /// too little to do, so pending links are wanted now.
    pub fn tend(&mut self, hungry: bool) -> Result<Tended> {
        let mut changed = self.poll()?;
        if matches!(self.upkeep.work, Work::Idle) {
            changed |= self.start_work(hungry)?;
        }
        Ok(Tended {
            changed,
            busy: self.is_merging(),
        })
    }

    /// Merges everything and commits a checkpoint: a clean stop. All logs must have been synced
    /// after the last entry was applied.
    pub fn flush(&mut self) -> Result<()> {
        self.finish_work()?;
        self.join_all_inline()?;
        let durable = self.upkeep.durable.settled(self.id);
        if durable < self.applied {
            return Err(RegistryError::NotSynced {
                partition: self.id.0,
                applied: self.applied,
                durable,
            });
        }
        self.start_write(true)?;
        self.finish_work()?;
        self.start_commit()?;
        self.finish_work()
    }

    pub(super) fn pending_ops(&self) -> usize {
        let joining = match &self.upkeep.work {
            Work::Joining { batch, .. } => batch.len(),
            _ => 0,
        };
        joining + self.sieve.pending.len()
    }

    pub(super) fn is_merging(&self) -> bool {
        !matches!(self.upkeep.work, Work::Idle)
    }

    pub(super) fn log_bytes(&self) -> u64 {
        self.upkeep.log_bytes
    }

    pub(super) fn upkeep_ram_bytes(&self) -> usize {
        match &self.upkeep.work {
            Work::Joining { batch, .. } => batch.bytes() + batch.len() * 64,
            // The merge thread sorts keys and holds a few blocks and the new index.
            Work::Writing { .. } => self.limits.recent_records.min(1 << 24) * 8 + (1 << 20),
            _ => 0,
        }
    }

    /// An entry is folded: between entries is where a checkpoint may begin.
    pub(super) fn note_log(&mut self, bytes: u64) -> Result<()> {
        self.upkeep.log_bytes += bytes;
        if !self.read_only && self.is_full() {
            // RAM is at its limit: wait for the merge thread rather than grow.
            self.finish_work()?;
            if self.is_full() {
                self.join_all_inline()?;
                self.start_write(false)?;
            }
        }
        Ok(())
    }

    /// Pending operations have reached their limit.
    pub(super) fn relieve(&mut self) -> Result<()> {
        if self.read_only {
            return self.join_all_inline();
        }
        self.finish_work()?;
        if !self.sieve.pending.is_empty() {
            self.start_join()?;
        }
        Ok(())
    }

    fn is_full(&self) -> bool {
        let limits = &self.limits;
        // A snapshot has no limits, which are as large as numbers get.
        self.sieve.recent().saturating_add(limits.pending_ops) >= limits.recent_records
            || self.frontier.recent() >= limits.frontier_entries
            || self.hosts.news_bytes() >= limits.news_bytes
    }

    fn start_work(&mut self, hungry: bool) -> Result<bool> {
        if self.upkeep.uncommitted.is_some() && self.may_commit() {
            self.start_commit()?;
            return Ok(false);
        }
        let pending = self.sieve.pending.len();
        if self.is_full() || self.upkeep.log_bytes >= self.limits.checkpoint_log_bytes {
            if pending <= INLINE_OPS {
                self.join_all_inline()?;
                self.start_write(false)?;
            } else {
                self.start_join()?;
            }
            return Ok(pending > 0);
        }
        if hungry && pending > 0 {
            if pending <= INLINE_OPS {
                self.join_all_inline()?;
                return Ok(true);
            }
            self.start_join()?;
        }
        Ok(false)
    }

    /// Installs what is finished.
    fn poll(&mut self) -> Result<bool> {
        match std::mem::replace(&mut self.upkeep.work, Work::Idle) {
            Work::Idle => Ok(false),
            Work::Joining { batch, found } => match found.poll() {
                None => self.keep(Work::Joining { batch, found }),
                Some(found) => self.install_join(batch, found?),
            },
            Work::Writing {
                manifest,
                merged_due,
                written,
            } => match written.poll() {
                None => self.keep(Work::Writing {
                    manifest,
                    merged_due,
                    written,
                }),
                Some(written) => self.install_write(manifest, &merged_due, written?),
            },
            Work::Committing { seq, done } => match done.poll() {
                None => self.keep(Work::Committing { seq, done }),
                Some(done) => done.map(|()| self.install_commit(seq)),
            },
        }
    }

    fn keep(&mut self, work: Work) -> Result<bool> {
        self.upkeep.work = work;
        Ok(false)
    }

    /// Waits for the job under way and installs it.
    fn finish_work(&mut self) -> Result<()> {
        match std::mem::replace(&mut self.upkeep.work, Work::Idle) {
            Work::Idle => {}
            Work::Joining { batch, found } => {
                let found = found.wait()?;
                self.install_join(batch, found)?;
            }
            Work::Writing {
                manifest,
                merged_due,
                written,
            } => {
                let written = written.wait()?;
                self.install_write(manifest, &merged_due, written)?;
            }
            Work::Committing { seq, done } => {
                done.wait()?;
                self.install_commit(seq);
            }
        }
        Ok(())
    }

    fn start_join(&mut self) -> Result<()> {
        let batch = std::mem::take(&mut self.sieve.pending);
        let (docs, tables) = (batch.docs(), self.sieve.runs.tables());
        let found = self
            .upkeep
            .merger
            .start_job(move || look_up_records(&tables, &docs))?;
        self.upkeep.work = Work::Joining { batch, found };
        Ok(())
    }

    /// Looks pending operations up and carries them out. Costs what is pending, not what is known.
    pub(crate) fn join_all_inline(&mut self) -> Result<()> {
        if self.sieve.pending.is_empty() {
            return Ok(());
        }
        let batch = std::mem::take(&mut self.sieve.pending);
        let found = look_up_records(&self.sieve.runs.tables(), &batch.docs())?;
        self.install_join(batch, found)?;
        Ok(())
    }

    fn install_join(&mut self, batch: Pending, found: Vec<(u64, Record)>) -> Result<bool> {
        for (doc, record) in found {
            self.sieve.insert_found(doc, record);
        }
        for op in batch.iter() {
            self.act(&op, false)?;
        }
        // Operations that came meanwhile on the same URLs must not be overtaken by later ones,
        // which no longer need to wait.
        let later = std::mem::take(&mut self.sieve.pending);
        for op in later.iter() {
            if !self.act(&op, true)? {
                self.sieve.pending.push(&op);
            }
        }
        Ok(true)
    }

    /// Freezes the state as of the last entry and has it written. Nothing may be pending.
    fn start_write(&mut self, everything: bool) -> Result<()> {
        debug_assert!(self.sieve.pending.is_empty() && !self.is_merging());
        for file in [
            self.texts.file(),
            &mut self.visits,
            &mut self.graph,
            &mut self.seeds,
        ] {
            file.write_out()?;
        }
        let append_files: Vec<_> = [
            self.texts.file().handle(),
            self.visits.handle(),
            self.graph.handle(),
            self.seeds.handle(),
        ]
        .into_iter()
        .flatten()
        .collect();
        let file_id = self.upkeep.next_file;
        // One for the tables, one for the frozen entries as a source of their own.
        self.upkeep.next_file += 2;
        let records = self.sieve.recent() as u64 * RECORD_BYTES;
        let news = self.hosts.news_bytes() as u64 / 2;
        let taken: Vec<_> = self.taken_entries().collect();
        let frozen = self.frontier.freeze(file_id + 1, taken.into_iter());
        let entries = frozen.entries.len() as u64 * ENTRY_BYTES;
        let known = self.sieve.runs.plan(records, file_id, everything);
        let due = self.frontier.runs.plan(entries, file_id, everything);
        let hosts = self.hosts.runs.plan(news, file_id, everything);
        let consumed = self.frontier.consumed(due.inputs());
        let merged_due = due.inputs().iter().map(|run| run.id).collect();
        let (generation, news) = (self.sieve.freeze(), self.hosts.freeze());
        let dir = self.dir.clone();
        let written = self.upkeep.merger.start_job(move || {
            let written = Written {
                known: known.write(generation_source(generation), |_| None)?,
                due: due.write(frozen_source(frozen), |id| consumed.get(&id).cloned())?,
                hosts: hosts.write(hosts_source(news), |_| None)?,
            };
            for (path, file) in append_files {
                file.sync_data().at(&path)?;
            }
            sync_dir(&dir)?;
            Ok(written)
        })?;
        let manifest = Box::new(Manifest {
            seq: self.applied,
            arrivals: self.arrivals,
            heard: self.heard.clone(),
            texts_bytes: self.texts.len(),
            visits_bytes: self.visits.len(),
            graph_bytes: self.graph.len(),
            seeds_bytes: self.seeds.len(),
            stats: self.stats.clone(),
            ..Manifest::default()
        });
        self.upkeep.log_bytes = 0;
        self.upkeep.work = Work::Writing {
            manifest,
            merged_due,
            written,
        };
        Ok(())
    }

    fn install_write(
        &mut self,
        mut manifest: Box<Manifest>,
        merged_due: &[u64],
        written: Written,
    ) -> Result<bool> {
        let new_run = written.due.id();
        let obsolete = &mut self.upkeep.obsolete;
        obsolete.extend(self.sieve.runs.install(written.known));
        obsolete.extend(self.frontier.runs.install(written.due));
        obsolete.extend(self.hosts.runs.install(written.hosts));
        self.frontier.thaw(merged_due, new_run);
        self.hosts.thaw();
        manifest.known_runs = self.sieve.runs.ids();
        manifest.due_runs = self.frontier.runs.ids();
        manifest.host_runs = self.hosts.runs.ids();
        manifest.next_file = self.upkeep.next_file;
        self.upkeep.uncommitted = Some(Checkpoint {
            manifest,
            obsolete: Vec::new(),
        });
        Ok(false)
    }

    /// Is the log safe up to the checkpoint's position, and all that was forwarded from there?
    fn may_commit(&self) -> bool {
        let durable = self.upkeep.durable.settled(self.id);
        self.upkeep
            .uncommitted
            .as_ref()
            .is_some_and(|checkpoint| checkpoint.manifest.seq <= durable)
    }

    fn start_commit(&mut self) -> Result<()> {
        let Some(mut checkpoint) = self.upkeep.uncommitted.take() else {
            return Ok(());
        };
        checkpoint.obsolete = std::mem::take(&mut self.upkeep.obsolete);
        let dir = self.dir.clone();
        let seq = checkpoint.manifest.seq;
        let done = self.upkeep.merger.start_job(move || {
            checkpoint.manifest.write(&dir)?;
            for path in checkpoint.obsolete {
                match fs::remove_file(&path) {
                    Err(error) if error.kind() != io::ErrorKind::NotFound => {
                        return Err(error).at(&path);
                    }
                    _ => {}
                }
            }
            Ok(())
        })?;
        self.upkeep.work = Work::Committing { seq, done };
        Ok(())
    }

    fn install_commit(&mut self, seq: u64) -> bool {
        self.upkeep.durable.note_checkpoint(self.id, seq);
        false
    }
}
