//! What the agent of a fleet's node wants of the journal, which is the archivist's: links that other nodes have sent, and
//! partitions that come and go.

use portolan_model::PartitionId;
use portolan_registry::{Entry, Forwarded, Partition};
use tokio::sync::{mpsc, oneshot};

use super::{Archivist, Finished};
use crate::error::CrawlError;
use crate::routes::Command;
use std::sync::atomic::Ordering;

/// Entries of one commit that are made of links from other nodes, at most.
const HEARD_MAX: usize = 4096;

pub(crate) enum ToArchivist {
    /// Forwards to a partition that is held, as they stand in its inbox up to `cursor`.
    Hear {
        partition: PartitionId,
        cursor: u64,
        forwards: Vec<Forwarded>,
        heard: oneshot::Sender<Heard>,
    },
    /// Take a partition in, and log its seeds if nobody has had it before.
    Adopt {
        partition: Box<Partition>,
        seeds: Vec<Entry>,
        done: oneshot::Sender<()>,
    },
    /// A partition's turns have ended, and what they found has been handed over: commit it, and let the partition go.
    Release(PartitionId),
}

/// What became of forwards that were read from an inbox.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Heard {
    /// All of them are in the journal.
    All,
    /// Some wait for others that come before them.
    Held,
    /// Some found no room: the inbox is to be read again from the last cursor that was heard whole.
    Dropped,
}

/// What there is to do next.
pub(super) enum Gathered {
    /// Entries, or what was heard.
    Entries,
    Told(ToArchivist),
    /// No more will come.
    End,
}

/// Never, on a single machine.
pub(super) async fn told(from: &mut Option<mpsc::Receiver<ToArchivist>>) -> Option<ToArchivist> {
    match from {
        Some(from) => from.recv().await,
        None => std::future::pending().await,
    }
}

/// Links from other nodes that wait for the next commit.
#[derive(Default)]
pub(crate) struct Hearing {
    entries: Vec<(PartitionId, Entry)>,
    answers: Vec<(PartitionId, oneshot::Sender<Heard>)>,
    /// What follows them.
    next: Option<ToArchivist>,
}

impl Hearing {
    /// Is it time to commit what was heard?
    pub(super) fn is_full(&self) -> bool {
        self.next.is_some() || self.entries.len() >= HEARD_MAX
    }

    pub(super) fn take_entries(&mut self) -> Vec<(PartitionId, Entry)> {
        std::mem::take(&mut self.entries)
    }

    /// What comes after all that was heard, once that is committed.
    pub(super) fn take_next(&mut self) -> Option<ToArchivist> {
        match self.answers.is_empty() {
            true => self.next.take(),
            false => None,
        }
    }
}

impl Archivist {
    /// What was heard waits for the next commit; all else waits until that is done.
    pub(super) fn listen(&mut self, told: ToArchivist) {
        match told {
            ToArchivist::Hear {
                partition,
                cursor,
                forwards,
                heard,
            } => {
                self.journal.note_cursor(partition, cursor);
                let entries = forwards.into_iter().map(Forwarded::into_entry);
                self.hearing.entries.extend(entries);
                self.hearing.answers.push((partition, heard));
            }
            other => self.hearing.next = Some(other),
        }
    }

    /// What was heard is committed.
    pub(super) fn answer(&mut self) {
        for (partition, heard) in self.hearing.answers.drain(..) {
            // Who asked may be gone.
            let _ = heard.send(if self.journal.has_dropped(partition) {
                Heard::Dropped
            } else if self.journal.has_heard_all(partition) {
                Heard::All
            } else {
                Heard::Held
            });
        }
    }

    pub(super) async fn obey(&mut self, told: ToArchivist) -> Result<(), CrawlError> {
        match told {
            ToArchivist::Hear { .. } => {
                self.listen(told);
                Ok(())
            }
            ToArchivist::Adopt {
                partition,
                seeds,
                done,
            } => {
                self.adopt(partition, seeds).await?;
                // Who asked may be gone.
                let _ = done.send(());
                Ok(())
            }
            ToArchivist::Release(partition) => self.release(partition).await,
        }
    }

    async fn commit_entries(
        &mut self,
        entries: Vec<(PartitionId, Entry)>,
    ) -> Result<(), CrawlError> {
        let deliveries = self.journal.commit(entries)?;
        let count = deliveries.len() as u64;
        self.shared.outstanding.fetch_add(count, Ordering::SeqCst);
        self.deliver(deliveries).await;
        Ok(())
    }

    async fn adopt(
        &mut self,
        partition: Box<Partition>,
        seeds: Vec<Entry>,
    ) -> Result<(), CrawlError> {
        let id = partition.id();
        self.journal.adopt(&partition)?;
        let routes = &self.shared.routes;
        let worker = usize::from(id.0) % routes.workers();
        routes.set_owner(id, worker);
        self.shared.outstanding.fetch_add(1, Ordering::SeqCst);
        routes.command(worker, Command::Adopt(partition));
        self.commit_entries(seeds.into_iter().map(|entry| (id, entry)).collect())
            .await
    }

    /// Everything of the partition was handed over before this was told.
    async fn release(&mut self, id: PartitionId) -> Result<(), CrawlError> {
        let mut batch: Vec<Finished> = Vec::new();
        for _ in 0..self.inbox.len() {
            batch.extend(self.inbox.try_recv());
        }
        let deliveries = self.commit(&mut batch)?;
        self.deliver(deliveries).await;
        self.journal.release(id)?;
        self.shared.routes.end(id).await;
        Ok(())
    }
}
