//! Looking up the records of pending operations, a batch at a time, beside whatever else goes on, and carrying the
//! operations out when they are there. Not when that is wanted; that is `upkeep`'s.

use crate::error::Result;
use crate::merger::Promise;
use crate::partition::Partition;
use crate::sieve::{Joined, join};

/// Operations whose records are fetched from RAM together.
const OPS_TOGETHER: usize = 8;

/// Finding the records of pending operations.
#[derive(Debug)]
pub(super) struct Joining {
    pub(super) ops: usize,
    pub(super) bytes: usize,
    joined: Promise<Joined>,
}

impl Partition {
    /// Pending operations have reached their limit.
    pub(super) fn relieve(&mut self) -> Result<()> {
        if self.read_only {
            return self.join_all_inline();
        }
        self.upkeep.blocked += u64::from(self.is_joining());
        self.finish_join()?;
        if !self.sieve.pending.is_empty() {
            self.start_join()?;
        }
        Ok(())
    }

    pub(super) fn start_join(&mut self) -> Result<()> {
        let batch = std::mem::take(&mut self.sieve.pending);
        let (ops, bytes) = (batch.len(), batch.bytes());
        self.upkeep.looked_up += ops as u64;
        let tables = self.sieve.runs.tables();
        let reader = &self.upkeep.mergers.reader(self.id);
        let joined = reader.start_job(move || join(&tables, batch))?;
        self.upkeep.joining = Some(Joining { ops, bytes, joined });
        Ok(())
    }

    /// Carries out what has been looked up.
    pub(super) fn poll_join(&mut self) -> Result<bool> {
        let joining = self.upkeep.joining.as_ref();
        let Some(joined) = joining.and_then(|joining| joining.joined.poll()) else {
            return Ok(false);
        };
        self.upkeep.joining = None;
        self.install_join(joined?)?;
        Ok(true)
    }

    /// Waits for the lookup under way and carries out what it was for.
    pub(super) fn finish_join(&mut self) -> Result<()> {
        if let Some(joining) = self.upkeep.joining.take() {
            let joined = joining.joined.wait()?;
            self.install_join(joined)?;
        }
        Ok(())
    }

    /// Looks pending operations up and carries them out.
    pub(crate) fn join_all_inline(&mut self) -> Result<()> {
        self.finish_join()?;
        if self.sieve.pending.is_empty() {
            return Ok(());
        }
        let batch = std::mem::take(&mut self.sieve.pending);
        self.upkeep.looked_up += batch.len() as u64;
        let joined = join(&self.sieve.runs.tables(), batch)?;
        self.install_join(joined)
    }

    /// By document, so that records in RAM are gone through in order.
    fn install_join(&mut self, joined: Joined) -> Result<()> {
        let Joined {
            batch,
            by_doc,
            found,
        } = joined;
        let mut found = found.iter().peekable();
        for together in by_doc.chunks(OPS_TOGETHER) {
            let docs = together.iter().map(|&op| batch.doc(op));
            self.sieve.warm_homes(docs);
            for &number in together {
                let op = batch.op(number);
                if let Some((doc, record)) = found.next_if(|(doc, _)| *doc <= op.doc) {
                    self.sieve.insert_found(*doc, record);
                }
                self.act(&op, false)?;
            }
        }
        // Operations that came meanwhile on the same URLs need not wait any longer.
        self.retry_pending()
    }

    /// What operations wait for has changed. Those that need not wait any longer must not be
    /// overtaken by later ones on the same URL, which would not wait either.
    pub(super) fn retry_pending(&mut self) -> Result<()> {
        let later = std::mem::take(&mut self.sieve.pending);
        for op in later.iter() {
            if !self.act(&op, true)? {
                self.sieve.pending.push(&op);
            }
        }
        Ok(())
    }

    pub(super) fn pending_ops(&self) -> usize {
        let joining = self.upkeep.joining.as_ref();
        joining.map_or(0, |joining| joining.ops) + self.sieve.pending.len()
    }

    pub(super) fn is_joining(&self) -> bool {
        self.upkeep.joining.is_some()
    }

    /// Operations on URLs that RAM could not answer for, since the registry was opened.
    pub(crate) fn looked_up(&self) -> u64 {
        self.upkeep.looked_up
    }
}
