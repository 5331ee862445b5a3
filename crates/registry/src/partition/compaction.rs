//! Merging tables in the background, one merge of a partition at a time, while its owner goes on.

use crate::error::Result;
use crate::files::{RunsPlan, sync_dir};
use crate::merger::Promise;
use crate::partition::Partition;
use crate::partition::upkeep::{Upkeep, Written};

impl Upkeep {
    pub(super) fn is_compacting(&self) -> bool {
        self.compaction.is_some()
    }
}

impl Partition {
    /// Has tables merged that have become too many.
    pub(super) fn start_compaction(&mut self) -> Result<()> {
        if self.upkeep.is_compacting() {
            return Ok(());
        }
        let id = self.upkeep.next_file;
        let known = self.state.sieve.runs.plan_compaction(id);
        let due = self.state.frontier.runs.plan_compaction(id);
        let hosts = self.state.hosts.runs.plan_compaction(id);
        if known.is_none() && due.is_none() && hosts.is_none() {
            return Ok(());
        }
        self.upkeep.next_file += 1;
        let dir = self.state.dir.clone();
        let stopping = self.upkeep.mergers.stopping();
        let written = self.upkeep.mergers.patient.start_job(move || {
            let merge = |plan: RunsPlan| plan.merge(&stopping);
            let written = Written {
                known: known.map(merge).transpose()?,
                due: due.map(merge).transpose()?,
                hosts: hosts.map(merge).transpose()?,
            };
            sync_dir(&dir)?;
            Ok(written)
        })?;
        self.upkeep.compaction = Some(written);
        Ok(())
    }

    /// Nothing may be being looked up: operations that are must not be overtaken by those that other
    /// filters would let through.
    pub(super) fn poll_compaction(&mut self) -> Result<bool> {
        match self.upkeep.compaction.as_ref().and_then(Promise::poll) {
            None => Ok(false),
            Some(written) => self.install_compaction(written?).map(|()| true),
        }
    }

    pub(super) fn finish_compaction(&mut self) -> Result<()> {
        match self.upkeep.compaction.as_ref().map(Promise::wait) {
            None => Ok(()),
            Some(written) => self.install_compaction(written?),
        }
    }

    fn install_compaction(&mut self, written: Written) -> Result<()> {
        debug_assert!(!self.upkeep.is_joining());
        self.upkeep.compaction = None;
        self.install_tables(written)
    }
}
