//! Looking up the records of pending operations, a batch at a time, beside whatever else goes on. Not when that is
//! wanted, which `upkeep` says; not what the operations do, which is the state's.

use crate::error::Result;
use crate::merger::Promise;
use crate::partition::Partition;
use crate::partition::upkeep::Upkeep;
use crate::sieve::{Joined, join};
use crate::state::State;

/// Finding the records of pending operations.
#[derive(Debug)]
pub(super) struct Joining {
    pub(super) ops: usize,
    pub(super) bytes: usize,
    joined: Promise<Joined>,
}

impl Upkeep {
    /// Has what is pending looked up.
    pub(super) fn start_join(&mut self, state: &mut State) -> Result<()> {
        let batch = std::mem::take(&mut state.sieve.pending);
        let (ops, bytes) = (batch.len(), batch.bytes());
        self.looked_up += ops as u64;
        let tables = state.sieve.runs.tables();
        let reader = self.mergers.reader(state.id);
        let joined = reader.start_job(move || join(&tables, batch))?;
        self.joining = Some(Joining { ops, bytes, joined });
        Ok(())
    }

    /// Waits for the lookup under way.
    pub(super) fn wait_for_join(&mut self) -> Result<Option<Joined>> {
        let joining = self.joining.take();
        joining.map(|joining| joining.joined.wait()).transpose()
    }

    pub(super) fn is_joining(&self) -> bool {
        self.joining.is_some()
    }
}

impl Partition {
    /// Carries out what has been looked up.
    pub(super) fn poll_join(&mut self) -> Result<bool> {
        let joining = self.upkeep.joining.as_ref();
        let Some(joined) = joining.and_then(|joining| joining.joined.poll()) else {
            return Ok(false);
        };
        self.upkeep.joining = None;
        let (state, mut listening) = self.parts();
        state.carry_out(joined?, &mut listening)?;
        Ok(true)
    }

    /// Waits for the lookup under way and carries out what it was for.
    pub(super) fn finish_join(&mut self) -> Result<()> {
        if let Some(joined) = self.upkeep.wait_for_join()? {
            let (state, mut listening) = self.parts();
            state.carry_out(joined, &mut listening)?;
        }
        Ok(())
    }

    /// Looks pending operations up and carries them out.
    pub(crate) fn join_all_inline(&mut self) -> Result<()> {
        self.finish_join()?;
        let (state, mut listening) = self.parts();
        let looked_up = state.look_up_pending(&mut listening)?;
        self.upkeep.looked_up += looked_up as u64;
        Ok(())
    }

    pub(super) fn pending_ops(&self) -> usize {
        let joining = self.upkeep.joining.as_ref();
        joining.map_or(0, |joining| joining.ops) + self.state.sieve.pending.len()
    }

    /// Operations on URLs that RAM could not answer for, since the registry was opened.
    #[cfg(feature = "bench")]
    pub(crate) fn looked_up(&self) -> u64 {
        self.upkeep.looked_up
    }
}
