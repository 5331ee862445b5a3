//! Getting the state to disk without stopping the crawl: writing what is in RAM to tables, committing
//! checkpoints. Long work is the merge threads'; a partition has at most one writing under way, beside a
//! lookup (`joins`) and a merge of tables (`compaction`).

use crate::error::{At, RegistryError, Result};
use crate::files::{RunsWritten, sync_dir};
use crate::frontier::frozen_source;
use crate::hosts::hosts_source;
use crate::log::Durable;
use crate::manifest::Manifest;
use crate::merger::{Mergers, Promise};
use crate::partition::Partition;
use crate::partition::joins::Joining;
use crate::partition::pressure::{Fill, Load, Pending, Pressure, Tables};
use crate::recent::{Recent, Slot};
use crate::sieve::records_source;
use std::fs;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;

/// So many records in RAM are looked at in a call, whether they may go: some quarter of a millisecond.
const SWEPT_SLOTS: usize = 1 << 15;

#[derive(Debug)]
pub(super) struct Upkeep {
    pub(super) durable: Arc<Durable>,
    pub(super) mergers: Mergers,
    pub(super) next_file: u64,
    /// Log folded since the last freeze.
    pub(super) log_bytes: u64,
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
        let slots = match self.pressure().is_crowded {
            true => usize::MAX,
            false => SWEPT_SLOTS,
        };
        self.state.sieve.sweep(slots);
        for file in self.state.growing_files() {
            file.settle()?;
        }
        self.see_to_room()?;
        // Each of these may take ten milliseconds, for which nothing is fetched: the next begins in the next call,
        // unless there is nothing to fetch.
        let mut installed = self.poll_work()? | self.poll_join()?;
        self.commit_if_allowed()?;
        if !self.upkeep.is_joining() {
            if hungry || !installed {
                installed = self.poll_compaction()?;
            }
            self.start_work(hungry, installed)?;
        }
        Ok(())
    }

    /// Can entries be folded without waiting for the disk? If not, they should be left where they are, and `tend` be
    /// called until they can: who folds them all the same waits in the end.
    pub fn is_ready(&self) -> bool {
        let pressure = self.pressure();
        let must_wait = self.upkeep.is_joining() && pressure.pending >= Pending::NearlyFull;
        !must_wait && pressure.ram < Fill::Tight && self.state.files_are_ready()
    }

    /// How near the partition is to its limits.
    fn pressure(&self) -> Pressure {
        Pressure::of(&self.load(), &self.state.limits)
    }

    /// How full its RAM is.
    fn fill(&self) -> Fill {
        Fill::of(&self.load(), &self.state.limits)
    }

    #[inline(always)]
    fn load(&self) -> Load {
        let Self { state, upkeep, .. } = self;
        let pending = &state.sieve.pending;
        let (known, due, hosts) = (&state.sieve.runs, &state.frontier.runs, &state.hosts.runs);
        let grown = upkeep.durable.journal_bytes();
        Load {
            records: state.sieve.recent(),
            changed: state.sieve.changed(),
            frontier_entries: state.frontier.recent(),
            bookmarks: state.frontier.bookmarks(),
            news_bytes: state.hosts.news_bytes(),
            pending_ops: pending.len(),
            pending_bytes: pending.bytes(),
            log_bytes: upkeep.log_bytes,
            journal_bytes: grown.saturating_sub(upkeep.journal_bytes),
            tables: known.len().max(due.len()).max(hosts.len()),
            is_asked_for: upkeep.durable.is_checkpoint_asked_for(),
            is_writing: !matches!(upkeep.work, Work::Idle),
            is_compacting: upkeep.is_compacting(),
        }
    }

    /// To be called before entries are folded. Whatever was pending has been sent to be looked up, and nothing has come
    /// since: if that is done, a checkpoint may begin without looking up here what comes with every entry.
    pub(super) fn write_if_clear(&mut self) -> Result<()> {
        if self.state.sieve.pending.is_empty() && self.pressure().wants_checkpoint {
            self.poll_join()?;
            if !self.upkeep.is_joining() {
                self.start_write()?;
            }
        }
        Ok(())
    }

    /// Has memory made ready before records fill what there is.
    fn see_to_room(&mut self) -> Result<()> {
        let Some(room) = &self.upkeep.room else {
            if let Some(slots) = self.state.sieve.wanted_room() {
                let make = move || Ok(Recent::make_room(slots));
                self.upkeep.room = Some(self.upkeep.mergers.reader(self.state.id).start_job(make)?);
            }
            return Ok(());
        };
        if let Some(room) = room.poll() {
            self.state.sieve.take_room(room?);
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
        if durable < self.state.applied {
            return Err(RegistryError::NotSynced {
                partition: self.state.id.0,
                applied: self.state.applied,
                durable,
            });
        }
        self.start_write()?;
        self.finish_work()?;
        if self.pressure().tables > Tables::Few {
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
        for file in self.state.growing_files() {
            if let Some(unsynced) = file.start_sync()? {
                unsynced.sync()?;
            }
        }
        fs::remove_dir_all(&self.state.dir).at(&self.state.dir)
    }

    /// Waits for a merge under way, for who counts what it costs.
    pub fn finish_merge(&mut self) -> Result<()> {
        self.finish_join()?;
        self.finish_compaction()
    }

    pub(super) fn is_merging(&self) -> bool {
        let idle = matches!(self.upkeep.work, Work::Idle);
        self.upkeep.is_joining() || !idle || self.upkeep.is_compacting()
    }

    pub(super) fn upkeep_ram_bytes(&self) -> usize {
        let joining = self.upkeep.joining.as_ref();
        let writing = match &self.upkeep.work {
            // A copy of what changed, a few blocks, the new index and filter.
            Work::Writing { .. } => self.state.limits.changed_records.min(1 << 24) * 34 + (1 << 20),
            _ => 0,
        };
        writing + joining.map_or(0, |joining| joining.bytes + joining.ops * 68)
    }

    /// An entry is folded: between entries is where a checkpoint may begin.
    pub(super) fn note_log(&mut self, bytes: u64) -> Result<()> {
        self.upkeep.log_bytes += bytes;
        if self.fill() < Fill::Full {
            return Ok(());
        }
        self.state.sieve.sweep(usize::MAX);
        if self.fill() < Fill::Full {
            return Ok(());
        }
        // RAM is at its limit: wait for the merge threads rather than grow.
        self.upkeep.blocked += 1;
        self.finish_work()?;
        self.join_all_inline()?;
        if self.fill() == Fill::Full {
            self.start_write()?;
        }
        if self.pressure().tables == Tables::TooMany {
            self.finish_compaction()?;
        }
        Ok(())
    }

    /// Nothing is being looked up. If something was `installed` in this call, nothing is begun that takes its time, unless
    /// that cannot wait.
    fn start_work(&mut self, hungry: bool, installed: bool) -> Result<()> {
        let pressure = self.pressure();
        let write = pressure.wants_checkpoint;
        if pressure.pending > Pending::Nothing {
            // Well before the limits, so that nobody has to wait. What is to be written is written afterwards: looked up
            // here, it would keep the owner waiting for the disk.
            if pressure.pending >= Pending::Many || write || hungry {
                self.upkeep.start_join(&mut self.state)?;
            }
        } else if write && (!installed || hungry || pressure.ram >= Fill::Tight) {
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
        debug_assert!(self.state.sieve.pending.is_empty() && !self.upkeep.is_joining());
        debug_assert!(matches!(self.upkeep.work, Work::Idle));
        self.upkeep.durable.note_checkpoint_begun();
        let mut unsynced = Vec::new();
        for file in self.state.growing_files() {
            unsynced.extend(file.start_sync()?);
        }
        let file_id = self.upkeep.next_file;
        self.upkeep.next_file += 1;
        let taken: Vec<_> = self.turns.taken_entries().collect();
        let frozen = self.state.frontier.freeze(taken.into_iter());
        let (records, news) = (self.state.sieve.freeze(), self.state.hosts.freeze());
        let known = self.state.sieve.runs.plan(records.len(), file_id);
        let due = self.state.frontier.runs.plan(frozen.hosts(), file_id);
        let hosts = self.state.hosts.runs.plan(news.len(), file_id);
        let dir = self.state.dir.clone();
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
        let manifest = Box::new(self.state.manifest());
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
        self.state.sieve.thaw(records);
        let thawed = (self.state.frontier.thaw(), self.state.hosts.thaw());
        let freed = move || {
            drop(thawed);
            Ok(())
        };
        self.upkeep.mergers.reader(self.state.id).start_job(freed)?;
        self.install_tables(written)?;
        manifest.known_runs = self.state.sieve.runs.ids();
        manifest.due_runs = self.state.frontier.runs.ids();
        manifest.host_runs = self.state.hosts.runs.ids();
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
        let known = written
            .known
            .map(|runs| self.state.sieve.runs.install(runs));
        let due = written
            .due
            .map(|runs| self.state.frontier.runs.install(runs));
        let hosts = written
            .hosts
            .map(|runs| self.state.hosts.runs.install(runs));
        for paths in [known, due, hosts].into_iter().flatten() {
            obsolete.extend(paths?);
        }
        // Other filters let other URLs through.
        let (state, mut listening) = self.parts();
        state.retry_pending(&mut listening)
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
        let dir = self.state.dir.clone();
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
        tracing::info!(
            partition = self.state.id.0,
            entry = seq,
            "checkpoint written"
        );
        self.upkeep.durable.note_checkpoint(seq);
    }
}
