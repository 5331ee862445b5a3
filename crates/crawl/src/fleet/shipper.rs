//! Ships what the archivist has committed, and only then tells it: WARC bytes and the journal's chunk into the store, a
//! commit record into the ship log; then forwards leave, and once they are acknowledged the chunk is settled.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use bytes::Bytes;
use futures_util::future::try_join_all;
use portolan_fleet::{Commit, Forward, PublishError, ShipError, ShipRecord};
use portolan_model::PartitionId;
use portolan_registry::{Chunk, Entry, Exporter, Forwarded};
use tokio::time::Instant;

use super::agent::Agent;
use super::membership::Phase;
use super::warcs::Warcs;
use crate::error::CrawlError;

/// A chunk of the journal is about this long, or one commit.
const CHUNK_BYTES: usize = 8 << 20;
/// How often it is looked whether there is something to ship.
const LOOK_EVERY: Duration = Duration::from_millis(50);
/// Who has nothing else to do ships after this time, so that others hear of links soon.
const SHORTEST_PAUSE: Duration = Duration::from_millis(100);
/// After NATS did not answer.
const TRY_AGAIN: Duration = Duration::from_millis(500);

pub(super) struct Shipper {
    pub(super) agent: Arc<Agent>,
    pub(super) exporter: Exporter,
    pub(super) warcs: Warcs,
    /// Frames up to here were shipped when the node began.
    pub(super) shipped: u64,
    /// Pages that this incarnation has settled.
    pub(super) pages: u64,
}

impl Shipper {
    /// Until the crawl has closed and everything is shipped.
    pub(super) async fn run(mut self) -> Result<Warcs, CrawlError> {
        let pause = Duration::from_millis(self.agent.shared.settings.fleet.ship_ms);
        let mut last = Instant::now();
        loop {
            // Read before what there is to ship: nothing is committed after it.
            let closed = *self.agent.membership.phases().borrow() == Phase::Closed;
            let hurries = last.elapsed() >= SHORTEST_PAUSE && self.agent.is_idle();
            if closed || last.elapsed() >= pause || hurries {
                while let Some(chunk) = self.exporter.next(CHUNK_BYTES)? {
                    self.ship(chunk).await?;
                }
                last = Instant::now();
            }
            self.look_at_room()?;
            if closed {
                return Ok(self.warcs);
            }
            tokio::time::sleep(LOOK_EVERY).await;
        }
    }

    async fn ship(&mut self, chunk: Chunk) -> Result<(), CrawlError> {
        let agent = Arc::clone(&self.agent);
        let last_frame = chunk.frames.1;
        if last_frame > self.shipped {
            let record = self.put(&chunk).await?;
            self.tell(record).await?;
            agent.settler.note_shipped(last_frame);
            self.shipped = last_frame;
        }
        // A chunk that was shipped before the node began may not have been heard.
        publish(&agent, chunk.forwards(|_| Some(0))?).await?;
        for (&partition, &(_, to)) in &chunk.entries {
            agent.settler.settle(partition, to);
        }
        agent.acknowledged.store(last_frame, Ordering::Release);
        for (&partition, &cursor) in &chunk.cursors {
            if let Err(error) = agent.fleet.purge(partition, cursor).await {
                tracing::debug!(partition = partition.0, %error, "an inbox is not purged");
            }
        }
        Ok(())
    }

    /// Puts a chunk, and the records that its visits name, into the store. Returns what is to be said of it.
    async fn put(&mut self, chunk: &Chunk) -> Result<ShipRecord, CrawlError> {
        let agent = Arc::clone(&self.agent);
        let blobs = agent.fleet.blobs();
        let warc = match chunk.archive_end {
            Some(end) => self.warcs.ship(blobs, end).await?,
            None => Vec::new(),
        };
        let (first_frame, last_frame) = chunk.frames;
        let (node, incarnation) = (agent.node.name(), agent.incarnation);
        let journal = format!("journal/{node}/{incarnation:016x}/{first_frame:020}");
        let bytes = Bytes::copy_from_slice(chunk.bytes());
        agent
            .shipped_bytes
            .fetch_add(bytes.len() as u64, Ordering::Relaxed);
        blobs.put(&journal, bytes).await;
        if agent.fleet.definition().max_pages.is_some() {
            self.pages += pages_in(chunk)?;
        }
        agent.shipped_bytes.fetch_add(
            warc.iter().map(|chunk| chunk.bytes).sum(),
            Ordering::Relaxed,
        );
        Ok(ShipRecord::Commit(Commit {
            incarnation,
            first_frame,
            last_frame,
            journal,
            warc,
            archive_end: self.warcs.end(),
            pages: self.pages,
            partitions: agent.partitions_of(chunk),
        }))
    }

    async fn tell(&self, record: ShipRecord) -> Result<(), CrawlError> {
        loop {
            match self.agent.node.ship(record.clone()).await {
                Ok(_) => return Ok(()),
                Err(ShipError::Fenced(why)) => return Err(CrawlError::Fenced(why)),
                Err(ShipError::Unavailable(why)) => {
                    self.agent
                        .set_trouble(format!("the ship log does not answer: {why}"));
                    tokio::time::sleep(TRY_AGAIN).await;
                }
            }
        }
    }

    /// Nothing is fetched while more than a bound is on this disk alone.
    fn look_at_room(&self) -> Result<(), CrawlError> {
        let unshipped = self.warcs.unshipped_bytes()?;
        self.agent
            .unshipped_bytes
            .store(unshipped, Ordering::Relaxed);
        let bound = self.agent.shared.settings.fleet.max_unshipped_mb << 20;
        self.agent.membership.set_crowded(unshipped > bound);
        Ok(())
    }
}

/// Pages that count against the fleet's budget.
fn pages_in(chunk: &Chunk) -> Result<u64, CrawlError> {
    let mut pages = 0;
    for &partition in chunk.entries.keys() {
        for item in chunk.entries_of(partition, 0) {
            if let (_, Entry::Visit { visit, .. }) = item? {
                pages += u64::from(visit.is_document());
            }
        }
    }
    Ok(pages)
}

/// Sends forwards to their destinations, and waits until all of them are acknowledged.
pub(super) async fn publish(agent: &Agent, forwards: Vec<Forwarded>) -> Result<(), CrawlError> {
    let mut by_destination: BTreeMap<PartitionId, Vec<Forward>> = BTreeMap::new();
    agent.note_sent(forwards.len());
    for forwarded in forwards {
        let mut body = Vec::with_capacity(forwarded.links.bytes() + 32);
        forwarded.encode_links(&mut body);
        let origin = forwarded.origin;
        by_destination
            .entry(forwarded.to)
            .or_default()
            .push(Forward {
                source: origin.source,
                number: origin.number,
                predecessor: origin.predecessor,
                body: body.into(),
            });
    }
    let sent = by_destination.into_iter().map(async |(to, forwards)| {
        loop {
            match agent.node.publish(to, forwards.clone()).await {
                Ok(()) => return Ok::<_, CrawlError>(()),
                Err(PublishError::Unavailable(why)) => {
                    agent.set_trouble(format!("links do not leave: {why}"));
                    tokio::time::sleep(TRY_AGAIN).await;
                }
            }
        }
    });
    try_join_all(sent).await.map(|_| ())
}
