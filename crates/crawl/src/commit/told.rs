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

impl Archivist {
    pub(super) async fn obey(&mut self, told: ToArchivist) -> Result<(), CrawlError> {
        match told {
            ToArchivist::Hear { .. } => self.hear(told).await,
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

    /// Commits what has come from other nodes, with whatever else has come meanwhile for the journal.
    async fn hear(&mut self, first: ToArchivist) -> Result<(), CrawlError> {
        let (mut entries, mut answers, mut next) = (Vec::new(), Vec::new(), Some(first));
        while let Some(told) = next.take() {
            let ToArchivist::Hear {
                partition,
                cursor,
                forwards,
                heard,
            } = told
            else {
                self.commit_heard(&mut entries, &mut answers).await?;
                // Boxed: it may come back here.
                Box::pin(self.obey(told)).await?;
                return Ok(());
            };
            self.journal.note_cursor(partition, cursor);
            entries.extend(forwards.into_iter().map(Forwarded::into_entry));
            answers.push((partition, heard));
            if entries.len() < HEARD_MAX {
                next = self.told.as_mut().and_then(|told| told.try_recv().ok());
            }
        }
        self.commit_heard(&mut entries, &mut answers).await
    }

    async fn commit_heard(
        &mut self,
        entries: &mut Vec<(PartitionId, Entry)>,
        answers: &mut Vec<(PartitionId, oneshot::Sender<Heard>)>,
    ) -> Result<(), CrawlError> {
        self.commit_entries(std::mem::take(entries)).await?;
        for (partition, heard) in answers.drain(..) {
            let _ = heard.send(if self.journal.has_dropped(partition) {
                Heard::Dropped
            } else if self.journal.has_heard_all(partition) {
                Heard::All
            } else {
                Heard::Held
            });
        }
        Ok(())
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
