//! Ships what the archivist has committed, and only then tells it: WARC bytes and the journal's chunk into the store, a
//! commit record into the ship log. What has been shipped may be sent (`sending`).

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use bytes::Bytes;
use portolan_fleet::{Commit, ShipError, ShipRecord, journal_key};
use portolan_registry::{Chunk, Entry, Exporter};
use tokio::sync::watch;
use tokio::time::Instant;

use super::agent::{Agent, Matter};
use super::membership::Phase;
use super::warcs::Warcs;
use crate::error::CrawlError;

/// A chunk of the journal is about this long, or one commit.
pub(super) const CHUNK_BYTES: usize = 8 << 20;
/// How often it is looked whether there is something to ship.
const LOOK_EVERY: Duration = Duration::from_millis(50);
/// Who has nothing else to do ships after this time, so that others hear of links soon.
const SHORTEST_PAUSE: Duration = Duration::from_millis(100);
/// After the ship log did not answer.
const TRY_AGAIN: Duration = Duration::from_millis(500);

pub(super) struct Shipper {
    pub(super) agent: Arc<Agent>,
    pub(super) exporter: Exporter,
    pub(super) warcs: Warcs,
    /// Frames up to here were shipped when the node began.
    pub(super) shipped: u64,
    /// Pages that this incarnation has settled.
    pub(super) pages: u64,
    /// Tells the sender that there is something. Goes with the shipper.
    pub(super) progress: watch::Sender<u64>,
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
            if closed {
                return Ok(self.warcs);
            }
            tokio::time::sleep(LOOK_EVERY).await;
        }
    }

    async fn ship(&mut self, chunk: Chunk) -> Result<(), CrawlError> {
        let agent = Arc::clone(&self.agent);
        agent.membership.roots_are_told().await;
        let last_frame = chunk.frames.1;
        if last_frame > self.shipped {
            let record = self.put(&chunk).await?;
            self.tell(record).await?;
            agent.settler.note_shipped(last_frame);
            self.shipped = last_frame;
        }
        self.progress.send_replace(last_frame);
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
        let journal = journal_key(node, incarnation, first_frame);
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
                Ok(_) => {
                    self.agent.clear_trouble(Matter::ShipLog);
                    return Ok(());
                }
                Err(ShipError::Fenced(why)) => return Err(CrawlError::Fenced(why)),
                Err(ShipError::Unavailable(why)) => {
                    self.agent.set_trouble(Matter::ShipLog, why);
                    tokio::time::sleep(TRY_AGAIN).await;
                }
            }
        }
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
