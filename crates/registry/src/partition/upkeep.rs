//! Getting the state to disk without stopping the crawl: looking up pending operations, writing
//! what is in RAM to tables, committing checkpoints. Long work is the merge threads'; a partition has
//! at most one job of these kinds under way, beside a merge of tables (`compaction`).

use crate::error::{At, RegistryError, Result};
use crate::files::{Consumed, RunsWritten, sync_dir};
use crate::frontier::frozen_source;
use crate::hosts::hosts_source;
use crate::log::Durable;
use crate::manifest::Manifest;
use crate::merger::{Mergers, Promise};
use crate::partition::Partition;
use crate::record::Record;
use crate::sieve::{Pending, look_up_records, records_source};
use std::collections::HashMap;
use std::fs;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;

/// So many pending operations are looked up at once where they are, without the merge thread.
const INLINE_OPS: usize = 2048;
/// With more tables of a kind than this, whoever applies entries waits for them to be merged.
const MAX_TABLES: usize = 32;

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
    pub(super) mergers: Mergers,
    pub(super) next_file: u64,
    /// Log folded since the last freeze.
    log_bytes: u64,
    pub(super) work: Work,
    /// A merge of tables.
    pub(super) compaction: Option<Promise<Written>>,
    /// A checkpoint whose files are written but which may not be committed yet.
    uncommitted: Option<Checkpoint>,
    /// Tables that no checkpoint will name again.
    obsolete: Vec<PathBuf>,
}

#[derive(Debug)]
pub(super) enum Work {
    Idle,
    /// Finding the records of pending operations.
    Joining {
        batch: Pending,
        found: Promise<Vec<(u64, Record)>>,
    },
    Writing {
        /// All but the tables' ids.
        manifest: Box<Manifest>,
        /// What had been read of the frontier's runs when the state was frozen.
        consumed: HashMap<u64, Consumed>,
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

/// By kind of table; those that nothing was to be done for are left out.
#[derive(Debug, Default)]
pub(super) struct Written {
    pub(super) known: Option<RunsWritten>,
    pub(super) due: Option<RunsWritten>,
    pub(super) hosts: Option<RunsWritten>,
}

impl Upkeep {
    pub(super) fn new(durable: Arc<Durable>, mergers: Mergers, next_file: u64) -> Self {
        Self {
            durable,
            mergers,
            next_file,
            log_bytes: 0,
            work: Work::Idle,
            compaction: None,
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
        self.poll_compaction()?;
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
        self.finish_compaction()?;
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
        !matches!(self.upkeep.work, Work::Idle) || self.upkeep.compaction.is_some()
    }

    pub(super) fn log_bytes(&self) -> u64 {
        self.upkeep.log_bytes
    }

    pub(super) fn upkeep_ram_bytes(&self) -> usize {
        match &self.upkeep.work {
            Work::Joining { batch, .. } => batch.bytes() + batch.len() * 64,
            // A copy of what changed, a few blocks, the new index and filter.
            Work::Writing { .. } => self.limits.changed_records.min(1 << 24) * 34 + (1 << 20),
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
            let tables = [&self.sieve.runs, &self.frontier.runs, &self.hosts.runs];
            if tables.iter().any(|runs| runs.len() > MAX_TABLES) {
                self.finish_compaction()?;
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
        self.sieve.changed().saturating_add(limits.pending_ops) >= limits.changed_records
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
                consumed,
                written,
            } => match written.poll() {
                None => self.keep(Work::Writing {
                    manifest,
                    consumed,
                    written,
                }),
                Some(written) => self.install_write(manifest, consumed, written?),
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
                consumed,
                written,
            } => {
                let written = written.wait()?;
                self.install_write(manifest, consumed, written)?;
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
            .mergers
            .prompt
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
            self.sieve.insert_found(doc, &record);
        }
        for op in batch.iter() {
            self.act(&op, false)?;
        }
        // Operations that came meanwhile on the same URLs need not wait any longer.
        self.retry_pending()?;
        Ok(true)
    }

    /// What operations wait for has changed. Those that need not wait any longer must not be
    /// overtaken by later ones on the same URL, which would not wait either.
    fn retry_pending(&mut self) -> Result<()> {
        let later = std::mem::take(&mut self.sieve.pending);
        for op in later.iter() {
            if !self.act(&op, true)? {
                self.sieve.pending.push(&op);
            }
        }
        Ok(())
    }

    /// Freezes the state as of the last entry and has it written. Nothing may be pending.
    fn start_write(&mut self, everything: bool) -> Result<()> {
        debug_assert!(self.sieve.pending.is_empty() && matches!(self.upkeep.work, Work::Idle));
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
        let taken: Vec<_> = self.taken_entries().collect();
        let frozen = self.frontier.freeze(file_id + 1, taken.into_iter());
        let (records, news) = (self.sieve.freeze(), self.hosts.freeze());
        let consumed = self.frontier.consumed();
        let known = self.sieve.runs.plan(records.len(), file_id, everything);
        let entries = frozen.entries.len();
        let due = self.frontier.runs.plan(entries, file_id, everything);
        let hosts = self.hosts.runs.plan(news.len(), file_id, everything);
        let dir = self.dir.clone();
        let read = consumed.clone();
        let written = self.upkeep.mergers.prompt.start_job(move || {
            let written = Written {
                known: Some(known.write(Some(records_source(records)), |_| None)?),
                due: Some(due.write(Some(frozen_source(frozen)), |id| read.get(&id).cloned())?),
                hosts: Some(hosts.write(Some(hosts_source(news)), |_| None)?),
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
            consumed,
            written,
        };
        Ok(())
    }

    fn install_write(
        &mut self,
        mut manifest: Box<Manifest>,
        consumed: HashMap<u64, Consumed>,
        written: Written,
    ) -> Result<bool> {
        let due = written.due.as_ref();
        let merged_due = due.map_or(Vec::new(), |due| due.merged().to_vec());
        self.frontier
            .thaw(&merged_due, due.and_then(RunsWritten::id));
        self.hosts.thaw();
        self.install_tables(written)?;
        manifest.known_runs = self.sieve.runs.ids();
        manifest.due_runs = self.frontier.runs.ids();
        manifest.host_runs = self.hosts.runs.ids();
        manifest.next_file = self.upkeep.next_file;
        // Whatever becomes obsolete from now on is named by this checkpoint.
        let mut obsolete = std::mem::take(&mut self.upkeep.obsolete);
        if let Some(never_committed) = self.upkeep.uncommitted.take() {
            obsolete.extend(never_committed.obsolete);
        }
        self.upkeep.uncommitted = Some(Checkpoint { manifest, obsolete });
        self.start_compaction(&consumed)?;
        Ok(false)
    }

    pub(super) fn install_tables(&mut self, written: Written) -> Result<()> {
        let obsolete = &mut self.upkeep.obsolete;
        let known = written.known.map(|runs| self.sieve.runs.install(runs));
        let due = written.due.map(|runs| self.frontier.runs.install(runs));
        let hosts = written.hosts.map(|runs| self.hosts.runs.install(runs));
        obsolete.extend([known, due, hosts].into_iter().flatten().flatten());
        // Other filters let other URLs through.
        self.retry_pending()
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
        let Some(checkpoint) = self.upkeep.uncommitted.take() else {
            return Ok(());
        };
        let dir = self.dir.clone();
        let seq = checkpoint.manifest.seq;
        let done = self.upkeep.mergers.prompt.start_job(move || {
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
