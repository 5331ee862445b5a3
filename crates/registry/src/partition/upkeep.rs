//! Getting the state to disk without stopping the crawl: writing what is in RAM to tables, committing
//! checkpoints. Long work is the merge threads'; a partition has at most one writing under way, beside a
//! lookup (`joins`) and a merge of tables (`compaction`).

use crate::error::{At, RegistryError, Result};
use crate::files::{AppendFile, RunsWritten, sync_dir};
use crate::frontier::frozen_source;
use crate::hosts::hosts_source;
use crate::log::Durable;
use crate::manifest::Manifest;
use crate::merger::{Mergers, Promise};
use crate::partition::Partition;
use crate::partition::joins::Joining;
use crate::recent::{Recent, Slot};
use crate::sieve::records_source;
use std::fs;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;

/// So many records in RAM are looked at in a call, whether they may go: some quarter of a millisecond.
const SWEPT_SLOTS: usize = 1 << 15;
/// With more tables of a kind than this, none is written before RAM is full, and whoever applies entries then waits
/// for them to be merged.
const MAX_TABLES: usize = 32;
/// With more than this, a clean stop waits for them to be merged.
const TABLES_AT_REST: usize = 8;

#[derive(Debug)]
pub(super) struct Upkeep {
    pub(super) durable: Arc<Durable>,
    pub(super) mergers: Mergers,
    pub(super) next_file: u64,
    /// Log folded since the last freeze.
    log_bytes: u64,
    /// How long the journal was then.
    journal_bytes: u64,
    /// Memory for records to come.
    room: Option<Promise<Vec<Slot>>>,
    pub(super) joining: Option<Joining>,
    /// Operations looked up since the registry was opened.
    pub(super) looked_up: u64,
    /// How often whoever applied entries waited for the disk since then.
    pub(super) blocked: u64,
    work: Work,
    /// A merge of tables.
    pub(super) compaction: Option<Promise<Written>>,
    /// A checkpoint whose files are written but which may not be committed yet.
    uncommitted: Option<Checkpoint>,
    /// Tables that no checkpoint will name again.
    obsolete: Vec<PathBuf>,
}

#[derive(Debug)]
enum Work {
    Idle,
    Writing {
        /// All but the tables' ids.
        manifest: Box<Manifest>,
        /// And the records, whose memory is used again.
        written: Promise<(Written, Vec<Slot>)>,
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
            journal_bytes: 0,
            room: None,
            joining: None,
            looked_up: 0,
            blocked: 0,
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
    pub fn tend(&mut self, hungry: bool) -> Result<()> {
        // A checkpoint that has only just begun makes room at once where that is short.
        let crowded = self.has_records(self.records_to_spare());
        let slots = if crowded { usize::MAX } else { SWEPT_SLOTS };
        self.sieve.sweep(slots);
        for file in self.growing_files() {
            file.settle()?;
        }
        self.see_to_room()?;
        // Each of these may take ten milliseconds, for which nothing is fetched: the next begins in the next call,
        // unless there is nothing to fetch.
        let mut installed = self.poll_work()? | self.poll_join()?;
        self.commit_if_allowed()?;
        if !self.is_joining() {
            if hungry || !installed {
                installed = self.poll_compaction()?;
            }
            self.start_work(hungry, installed)?;
        }
        Ok(())
    }

    /// `tend` for who replays the journal.
    pub(crate) fn tend_replay(&mut self) -> Result<()> {
        self.tend(false)
    }

    /// Can entries be folded without waiting for the disk? If not, they should be left where they are, and `tend` be
    /// called until they can: who folds them all the same waits in the end.
    pub fn is_ready(&self) -> bool {
        let crowded = self.is_joining() && self.pends(3, 4);
        let files = [
            self.texts.file_ref(),
            &self.visits,
            &self.graph,
            &self.seeds,
        ];
        !crowded && !self.is_tight() && files.iter().all(|file| file.is_ready())
    }

    fn growing_files(&mut self) -> [&mut AppendFile; 4] {
        [
            self.texts.file(),
            &mut self.visits,
            &mut self.graph,
            &mut self.seeds,
        ]
    }

    /// To be called before entries are folded. Whatever was pending has been sent to be looked up, and nothing has come
    /// since: if that is done, a checkpoint may begin without looking up here what comes with every entry.
    pub(super) fn write_if_clear(&mut self) -> Result<()> {
        if self.sieve.pending.is_empty() && self.wants_write() {
            self.poll_join()?;
            if !self.is_joining() {
                self.start_write()?;
            }
        }
        Ok(())
    }

    /// Has memory made ready before records fill what there is.
    fn see_to_room(&mut self) -> Result<()> {
        let Some(room) = &self.upkeep.room else {
            if let Some(slots) = self.sieve.wanted_room() {
                let make = move || Ok(Recent::make_room(slots));
                self.upkeep.room = Some(self.upkeep.mergers.reader(self.id).start_job(make)?);
            }
            return Ok(());
        };
        if let Some(room) = room.poll() {
            self.sieve.take_room(room?);
            self.upkeep.room = None;
        }
        Ok(())
    }

    /// Writes what is in RAM and commits a checkpoint: a clean stop. A merge under way is not waited for, unless tables have become
    /// many: short runs in a row would never see one end.
    pub fn flush(&mut self) -> Result<()> {
        self.finish_work()?;
        self.join_all_inline()?;
        let durable = self.upkeep.durable.settled();
        if durable < self.applied {
            return Err(RegistryError::NotSynced {
                partition: self.id.0,
                applied: self.applied,
                durable,
            });
        }
        self.start_write()?;
        self.finish_work()?;
        if self.has_tables_beyond(TABLES_AT_REST) {
            self.finish_compaction()?;
            self.start_write()?;
            self.finish_work()?;
        }
        self.start_commit()?;
        self.finish_work()
    }

    /// The partition goes to another registry, which has all of it: its files are deleted here, once nobody writes any more.
    pub fn delete(mut self) -> Result<()> {
        self.finish_work()?;
        self.finish_merge()?;
        for file in self.growing_files() {
            if let Some(unsynced) = file.start_sync()? {
                unsynced.sync()?;
            }
        }
        fs::remove_dir_all(&self.dir).at(&self.dir)
    }

    /// Waits for a merge under way, for who counts what it costs.
    pub fn finish_merge(&mut self) -> Result<()> {
        self.finish_join()?;
        self.finish_compaction()
    }

    fn has_tables_beyond(&self, number: usize) -> bool {
        let tables = [&self.sieve.runs, &self.frontier.runs, &self.hosts.runs];
        tables.iter().any(|runs| runs.len() > number)
    }

    pub(super) fn is_merging(&self) -> bool {
        let idle = matches!(self.upkeep.work, Work::Idle);
        self.is_joining() || !idle || self.is_compacting()
    }

    pub(super) fn log_bytes(&self) -> u64 {
        self.upkeep.log_bytes
    }

    pub(super) fn upkeep_ram_bytes(&self) -> usize {
        let joining = self.upkeep.joining.as_ref();
        let writing = match &self.upkeep.work {
            // A copy of what changed, a few blocks, the new index and filter.
            Work::Writing { .. } => self.limits.changed_records.min(1 << 24) * 34 + (1 << 20),
            _ => 0,
        };
        writing + joining.map_or(0, |joining| joining.bytes + joining.ops * 68)
    }

    /// An entry is folded: between entries is where a checkpoint may begin.
    pub(super) fn note_log(&mut self, bytes: u64) -> Result<()> {
        self.upkeep.log_bytes += bytes;
        if self.read_only || !self.is_full() {
            return Ok(());
        }
        self.sieve.sweep(usize::MAX);
        if self.is_full() {
            // RAM is at its limit: wait for the merge threads rather than grow.
            self.upkeep.blocked += 1;
            self.finish_work()?;
            self.join_all_inline()?;
            if self.is_full() {
                self.start_write()?;
            }
            if self.has_tables_beyond(MAX_TABLES) {
                self.finish_compaction()?;
            }
        }
        Ok(())
    }

    /// No room: whoever applies entries has to wait.
    fn is_full(&self) -> bool {
        self.has_records(self.limits.pending_ops) || self.fills(9)
    }

    /// Room for a few entries more, and no longer for what comes while something is written.
    fn is_tight(&self) -> bool {
        self.has_records(self.records_to_spare()) || self.fills(8) || self.is_late()
    }

    /// A checkpoint should have begun long ago, but something was pending whenever it might have.
    fn is_late(&self) -> bool {
        let log_bytes = self.limits.checkpoint_log_bytes;
        self.upkeep.log_bytes >= log_bytes.saturating_add(log_bytes / 4)
            && matches!(self.upkeep.work, Work::Idle)
            && !self.waits_for_merge()
    }

    /// With too many tables the next one is written when RAM is full, and merges are waited for.
    fn waits_for_merge(&self) -> bool {
        self.has_tables_beyond(MAX_TABLES) && self.is_compacting()
    }

    fn records_to_spare(&self) -> usize {
        let pending = self.limits.pending_ops;
        pending.saturating_add(pending / 4)
    }

    /// Time to write, early enough that it is done before RAM is full.
    fn is_nearly_full(&self) -> bool {
        self.fills(7) || self.is_tight()
    }

    /// Is the record table within `but_for` records of its limit?
    fn has_records(&self, but_for: usize) -> bool {
        self.sieve.recent().saturating_add(but_for) >= self.limits.recent_records
    }

    /// Has what is pending reached `part` of `of` parts of its limit?
    fn pends(&self, part: usize, of: usize) -> bool {
        let pending = &self.sieve.pending;
        pending.len() >= self.limits.pending_ops / of * part
            || pending.bytes() >= self.limits.pending_bytes / of * part
    }

    /// Has anything in RAM reached `eighths` eighths of its limit?
    fn fills(&self, eighths: usize) -> bool {
        // A snapshot has no limits, which are as large as numbers get.
        let of = |limit: usize| (limit / 8).saturating_mul(eighths);
        let pending = self.limits.pending_ops;
        self.sieve.changed().saturating_add(pending) >= of(self.limits.changed_records)
            || self.frontier.recent() >= of(self.limits.frontier_entries)
            || self.frontier.cuts() >= of(self.limits.cuts)
            || self.hosts.news_bytes() >= of(self.limits.news_bytes)
    }

    /// Time to write, and nothing is being written.
    fn wants_write(&self) -> bool {
        matches!(self.upkeep.work, Work::Idle)
            && (self.is_nearly_full()
                || self.upkeep.log_bytes >= self.limits.checkpoint_log_bytes
                || self.holds_up_journal())
            && !self.waits_for_merge()
    }

    /// Others have made the journal long, and what it holds for this partition keeps it from being cut.
    fn holds_up_journal(&self) -> bool {
        let grown = self.upkeep.durable.journal_bytes();
        self.upkeep.log_bytes > 0
            && grown - self.upkeep.journal_bytes.min(grown) >= self.limits.checkpoint_journal_bytes
    }

    /// Nothing is being looked up. If something was `installed` in this call, nothing is begun that takes its time, unless
    /// that cannot wait.
    fn start_work(&mut self, hungry: bool, installed: bool) -> Result<()> {
        let write = self.wants_write();
        if !self.sieve.pending.is_empty() {
            // Well before the limits, so that nobody has to wait. What is to be written is written afterwards: looked up
            // here, it would keep the owner waiting for the disk.
            if self.pends(1, 3) || write || hungry {
                self.start_join()?;
            }
        } else if write && (!installed || hungry || self.is_tight()) {
            self.start_write()?;
        }
        Ok(())
    }

    /// Installs what is finished; true if that were tables.
    fn poll_work(&mut self) -> Result<bool> {
        match std::mem::replace(&mut self.upkeep.work, Work::Idle) {
            Work::Idle => {}
            Work::Writing { manifest, written } => match written.poll() {
                Some(written) => {
                    self.install_write(manifest, written?)?;
                    return Ok(true);
                }
                None => {
                    self.upkeep.work = Work::Writing { manifest, written };
                }
            },
            Work::Committing { seq, done } => match done.poll() {
                Some(done) => done.map(|()| self.install_commit(seq))?,
                None => self.upkeep.work = Work::Committing { seq, done },
            },
        }
        Ok(false)
    }

    /// Waits for the writing under way and installs it.
    fn finish_work(&mut self) -> Result<()> {
        match std::mem::replace(&mut self.upkeep.work, Work::Idle) {
            Work::Idle => {}
            Work::Writing { manifest, written } => {
                let written = written.wait()?;
                self.install_write(manifest, written)?;
            }
            Work::Committing { seq, done } => {
                done.wait()?;
                self.install_commit(seq);
            }
        }
        Ok(())
    }

    /// Freezes the state as of the last entry and has it written. Nothing may be pending.
    fn start_write(&mut self) -> Result<()> {
        debug_assert!(self.sieve.pending.is_empty() && !self.is_joining());
        debug_assert!(matches!(self.upkeep.work, Work::Idle));
        let mut unsynced = Vec::new();
        for file in self.growing_files() {
            unsynced.extend(file.start_sync()?);
        }
        let file_id = self.upkeep.next_file;
        self.upkeep.next_file += 1;
        let taken: Vec<_> = self.taken_entries().collect();
        let frozen = self.frontier.freeze(taken.into_iter());
        let (records, news) = (self.sieve.freeze(), self.hosts.freeze());
        let known = self.sieve.runs.plan(records.len(), file_id);
        let due = self.frontier.runs.plan(frozen.hosts(), file_id);
        let hosts = self.hosts.runs.plan(news.len(), file_id);
        let dir = self.dir.clone();
        let written = self.upkeep.mergers.writer.start_job(move || {
            let written = Written {
                known: Some(known.write(records_source(records.iter().copied()))?),
                due: Some(due.write(frozen_source(frozen))?),
                hosts: Some(hosts.write(hosts_source(news))?),
            };
            for file in unsynced {
                file.sync()?;
            }
            sync_dir(&dir)?;
            Ok((written, records))
        })?;
        let manifest = Box::new(Manifest {
            seq: self.applied,
            arrivals: self.arrivals,
            heard: self.heard.clone(),
            texts_bytes: self.texts.len(),
            visits_bytes: self.visits.len(),
            graph_bytes: self.graph.len(),
            seeds_bytes: self.seeds.len(),
            session: self.session,
            session_from: self.session_from,
            stats: self.stats.clone(),
            exchanged: self.in_fleet.then(|| self.exchanged.clone()),
            ..Manifest::default()
        });
        self.upkeep.log_bytes = 0;
        self.upkeep.journal_bytes = self.upkeep.durable.journal_bytes();
        self.upkeep.work = Work::Writing { manifest, written };
        Ok(())
    }

    fn install_write(
        &mut self,
        mut manifest: Box<Manifest>,
        (written, records): (Written, Vec<Slot>),
    ) -> Result<()> {
        self.sieve.thaw(records);
        let thawed = (self.frontier.thaw(), self.hosts.thaw());
        let freed = move || {
            drop(thawed);
            Ok(())
        };
        self.upkeep.mergers.reader(self.id).start_job(freed)?;
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
        self.start_compaction()
    }

    pub(super) fn install_tables(&mut self, written: Written) -> Result<()> {
        let obsolete = &mut self.upkeep.obsolete;
        let known = written.known.map(|runs| self.sieve.runs.install(runs));
        let due = written.due.map(|runs| self.frontier.runs.install(runs));
        let hosts = written.hosts.map(|runs| self.hosts.runs.install(runs));
        for paths in [known, due, hosts].into_iter().flatten() {
            obsolete.extend(paths?);
        }
        // Other filters let other URLs through.
        self.retry_pending()
    }

    /// Is the log safe up to the checkpoint's position, and all that was forwarded from there?
    fn may_commit(&self) -> bool {
        let durable = self.upkeep.durable.settled();
        self.upkeep
            .uncommitted
            .as_ref()
            .is_some_and(|checkpoint| checkpoint.manifest.seq <= durable)
    }

    fn commit_if_allowed(&mut self) -> Result<()> {
        match self.upkeep.work {
            Work::Idle if self.may_commit() => self.start_commit(),
            _ => Ok(()),
        }
    }

    fn start_commit(&mut self) -> Result<()> {
        let Some(checkpoint) = self.upkeep.uncommitted.take() else {
            return Ok(());
        };
        let dir = self.dir.clone();
        let seq = checkpoint.manifest.seq;
        let done = self.upkeep.mergers.writer.start_job(move || {
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

    fn install_commit(&mut self, seq: u64) {
        tracing::info!(partition = self.id.0, entry = seq, "checkpoint written");
        self.upkeep.durable.note_checkpoint(seq);
    }
}
