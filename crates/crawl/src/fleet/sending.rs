//! Sends what has been shipped: forwards leave for other partitions, and once they are acknowledged their chunk is settled.
//! The journal is the outbox. It is read a second time, so that shipping never waits for links to leave: what this
//! node has heard is purged only once it is shipped, and others may be waiting for that room.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use futures_util::future::try_join_all;
use portolan_fleet::{Forward, PublishError};
use portolan_model::PartitionId;
use portolan_registry::{Behind, Chunk, Exporter, Outbound};
use tokio::sync::watch;

use super::agent::{Agent, Matter};
use super::shipper::CHUNK_BYTES;
use super::warcs::Warcs;
use crate::error::CrawlError;

/// After NATS did not answer.
const TRY_AGAIN: Duration = Duration::from_millis(500);
/// How often it is looked how much waits on this disk.
const LOOK_EVERY: Duration = Duration::from_millis(100);

/// Sends what is shipped until the shipper has gone and all of it is acknowledged.
pub(super) async fn send(
    agent: Arc<Agent>,
    mut exporter: Exporter,
    mut progress: watch::Receiver<u64>,
) -> Result<(), CrawlError> {
    loop {
        let is_last = progress.changed().await.is_err();
        while let Some(chunk) = exporter.next(CHUNK_BYTES)? {
            send_chunk(&agent, &chunk).await?;
        }
        if is_last {
            return Ok(());
        }
    }
}

/// A chunk that was shipped before the node began may not have been heard, and is sent, too.
async fn send_chunk(agent: &Agent, chunk: &Chunk) -> Result<(), CrawlError> {
    publish(agent, chunk.forwards(|_| Some(0))?).await?;
    for (&partition, &(_, to)) in &chunk.entries {
        agent.settler.settle(partition, to);
    }
    agent.acknowledged.store(chunk.frames.1, Ordering::Release);
    Ok(())
}

/// What waits on this node's disk.
pub(super) struct Room {
    pub(super) warcs: Warcs,
    pub(super) not_shipped: Behind,
    pub(super) not_sent: Behind,
}

impl Room {
    /// Nothing is fetched while more than a bound waits to be shipped or sent. And nothing is heard while that much waits to
    /// be shipped; what waits to be sent is no reason not to hear, or two nodes could wait for each other.
    pub(super) async fn watch(self, agent: Arc<Agent>) -> Result<(), CrawlError> {
        let bound = agent.shared.settings.fleet.max_unshipped_mb << 20;
        loop {
            let archived = self.warcs.unshipped_bytes()?;
            let waiting = archived + self.not_sent.bytes();
            agent.unshipped_bytes.store(waiting, Ordering::Relaxed);
            agent.membership.set_crowded(waiting > bound);
            agent.set_deaf(archived + self.not_shipped.bytes() > bound);
            tokio::time::sleep(LOOK_EVERY).await;
        }
    }
}

/// Sends forwards to their destinations, and waits until all of them are acknowledged.
pub(super) async fn publish(agent: &Agent, outbound: Vec<Outbound>) -> Result<(), CrawlError> {
    let mut by_destination: BTreeMap<PartitionId, Vec<Forward>> = BTreeMap::new();
    agent.note_sent(outbound.len());
    let url_bytes = outbound.iter().map(|it| it.url_bytes as u64).sum();
    agent.link_url_bytes.fetch_add(url_bytes, Ordering::Relaxed);
    for Outbound {
        to, origin, pages, ..
    } in outbound
    {
        by_destination.entry(to).or_default().push(Forward {
            source: origin.source,
            number: origin.number,
            predecessor: origin.predecessor,
            body: pages.into(),
        });
    }
    let sent = by_destination.into_iter().map(async |(to, forwards)| {
        loop {
            match agent.node.publish(to, forwards.clone()).await {
                Ok(()) => return Ok::<_, CrawlError>(()),
                Err(PublishError::Unavailable(why)) => {
                    agent.set_trouble(Matter::Links, why);
                    tokio::time::sleep(TRY_AGAIN).await;
                }
            }
        }
    });
    try_join_all(sent).await?;
    agent.clear_trouble(Matter::Links);
    Ok(())
}
