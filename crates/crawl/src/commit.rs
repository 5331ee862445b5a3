//! The archivist: one thread that makes pages durable. Each cycle it takes what the workers have
//! finished, appends the records to the archive, makes the archive durable, and only then writes
//! the visits to their partitions' logs. What is in a log is therefore in the archive, and the
//! owners fold nothing that a crash could take back.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use portolan_archive::{Built, ContentSeen, RecordBuilder, SeenRecord, WarcWriter};
use portolan_model::PartitionId;
use portolan_registry::{Delivery, Entry, Logs};
use tokio::sync::{OwnedSemaphorePermit, mpsc};

use crate::answered::{Answered, Record};
use crate::error::CrawlError;
use crate::metrics::Stage;
use crate::shared::{Shared, UNFOLDED_KIB, kib, owner};

/// Finished pages that wait for the archivist; more make the workers wait.
pub(crate) const FINISHED_QUEUE: usize = 1024;

/// Entries are committed together until they take this much, records not counted: twice as much is written to the logs,
/// and all of it is to be folded.
const COMMITTED_BYTES: u64 = 4 << 20;

/// Entries that wait to be folded by a worker.
pub(crate) const DELIVERY_QUEUE: usize = 4096;

/// What a worker hands over: an entry for a partition's log, and the record that must be durable
/// before it.
pub(crate) struct Finished {
    pub(crate) partition: PartitionId,
    pub(crate) entry: Entry,
    pub(crate) record: Option<Record>,
    /// Room in the buffers between workers and archivist, given back once the record is written.
    pub(crate) room: Option<OwnedSemaphorePermit>,
}

pub(crate) struct Archivist {
    pub(crate) shared: Arc<Shared>,
    pub(crate) warc: WarcWriter,
    pub(crate) seen: ContentSeen,
    pub(crate) builder: RecordBuilder,
    pub(crate) logs: Logs,
    pub(crate) inbox: mpsc::Receiver<Finished>,
    /// The last batch was as large as may be, so that most of what comes next has waited already.
    pub(crate) left_some: bool,
    /// By worker.
    pub(crate) owners: Vec<mpsc::Sender<Delivery>>,
}

/// What is left to close once the workers have ended.
pub(crate) struct Books {
    pub(crate) warc: WarcWriter,
    pub(crate) seen: ContentSeen,
    pub(crate) logs: Logs,
}

/// The body of the archivist's thread: works until told to close, or until something cannot be
/// written.
pub(crate) fn run(mut archivist: Archivist) -> Books {
    let worked = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .build()
        .map_err(|e| CrawlError::Internal(format!("no runtime for the archivist: {e}")))
        .and_then(|runtime| runtime.block_on(archivist.work()));
    if let Err(error) = worked {
        archivist.shared.fail(error);
    }
    Books {
        warc: archivist.warc,
        seen: archivist.seen,
        logs: archivist.logs,
    }
}

impl Archivist {
    async fn work(&mut self) -> Result<(), CrawlError> {
        let shared = Arc::clone(&self.shared);
        let mut batch = Vec::new();
        while self.gather(&mut batch).await {
            let deliveries = shared
                .metrics
                .timed(Stage::Commit, || self.commit(&mut batch))?;
            for delivery in deliveries {
                self.deliver(delivery).await;
            }
        }
        Ok(())
    }

    /// Waits while workers have too much to fold. A worker that is gone has failed and said so.
    async fn deliver(&self, delivery: Delivery) {
        let kib = kib(delivery.entry.ram_bytes(), UNFOLDED_KIB);
        if let Ok(room) = self.shared.unfolded.acquire_many(kib).await {
            room.forget();
        }
        let owner = owner(delivery.partition, self.owners.len());
        let _ = self.owners[owner].send(delivery).await;
    }

    /// Wait for the first finished entry, then for more: until the batch is old, or somebody waits for
    /// it. Entries that come meanwhile wake nobody. `false`: no more will come.
    async fn gather(&mut self, batch: &mut Vec<Finished>) -> bool {
        let shared = Arc::clone(&self.shared);
        let first = tokio::select! {
            biased;
            first = self.inbox.recv() => first,
            () = shared.closing.notified() => None,
        };
        let Some(first) = first else { return false };
        let mut bytes = first.entry.ram_bytes();
        batch.push(first);
        if !std::mem::take(&mut self.left_some) {
            let patience = Duration::from_millis(shared.settings.archive.commit_ms);
            tokio::select! {
                biased;
                () = shared.commit_now.notified() => {}
                () = tokio::time::sleep(patience) => {}
            }
        }
        while let Ok(next) = self.inbox.try_recv() {
            bytes += next.entry.ram_bytes();
            batch.push(next);
            if batch.len() >= FINISHED_QUEUE || bytes >= COMMITTED_BYTES {
                self.left_some = true;
                break;
            }
        }
        true
    }

    /// Records first, then the logs that name them. Records go into the archive in the order in which
    /// the logs are synced, by partition: a crash between two logs leaves the records of those that
    /// were not synced at the archive's end, where recovery cuts them off.
    fn commit(&mut self, batch: &mut Vec<Finished>) -> Result<Vec<Delivery>, CrawlError> {
        let mut entries = Vec::with_capacity(batch.len());
        let mut rooms = Vec::with_capacity(batch.len());
        let (mut pages, mut copies, mut recorded) = (0, 0, false);
        batch.sort_by_key(|finished| finished.partition.0);
        for finished in batch.drain(..) {
            let Finished {
                partition,
                mut entry,
                record,
                room,
            } = finished;
            if let Some(record) = record {
                self.store(&mut entry, record)?;
                recorded = true;
            }
            if let Entry::Visit { visit, .. } = &entry {
                pages += u64::from(visit.is_document());
                copies += u64::from(visit.duplicate_of.is_some());
            }
            entries.push((partition, entry));
            rooms.push(room);
        }
        if recorded {
            self.warc.sync()?;
            // Whatever a log says is archived is known as a copy after a kill. A power cut may take what is known since
            // the table was last synced: those payloads are stored in full once more.
            self.seen.flush()?;
        }
        self.shared.pauses.sync()?;
        if let Some(cookies) = &self.shared.access.cookies {
            cookies.save(self.shared.wall_ms())?;
        }
        // Whoever is in a log by a claim: the claim comes first.
        self.shared.division.make_durable()?;
        let finished = entries.len() as u64;
        let deliveries = self.logs.commit(entries)?;
        self.seen.maintain()?;
        let metrics = &self.shared.metrics;
        metrics.add(&metrics.pages, pages);
        metrics.add(&metrics.duplicates, copies);
        // The forwards are entries of their own now.
        self.shared
            .outstanding
            .fetch_add(deliveries.len() as u64 - finished, Ordering::SeqCst);
        Ok(deliveries)
    }

    fn store(&mut self, entry: &mut Entry, record: Record) -> Result<(), CrawlError> {
        match (entry, record) {
            (entry @ Entry::Visit { .. }, Record::Answer { built, copy }) => {
                self.store_answer(entry, built, copy.as_deref())
            }
            (Entry::Visit { url, visit, .. }, Record::NotModified { answered, since_ms }) => {
                let known = self.seen.lookup(visit.fingerprint, &visit.sha1)?;
                let first = known.unwrap_or_else(|| SeenRecord {
                    url: url.clone(),
                    at_ms: since_ms,
                });
                let capture = answered.capture(url, visit, None);
                let built = self.builder.build_not_modified(&capture, &first);
                visit.archive = Some(self.warc.append(&built)?);
                Ok(())
            }
            (Entry::Host { archive, .. }, Record::Answer { built, .. }) => {
                *archive = Some(self.warc.append(&built)?);
                Ok(())
            }
            _ => Ok(()),
        }
    }

    /// The payload is stored once. A page that is what it was in an earlier session refers to what is stored of it.
    fn store_answer(
        &mut self,
        entry: &mut Entry,
        mut built: Built,
        copy: Option<&Answered>,
    ) -> Result<(), CrawlError> {
        let Entry::Visit {
            url,
            visit,
            links,
            forwards,
            ..
        } = entry
        else {
            return Ok(());
        };
        visit.sha1 = built.payload_sha1();
        let first = match copy {
            Some(_) => self.seen.lookup(visit.fingerprint, &visit.sha1)?,
            None => None,
        };
        if let (Some(first), Some(copy)) = (&first, copy)
            && (first.url != *url || visit.history.before != 0)
        {
            let capture = copy.capture(url, visit, None);
            let outlinks = links
                .iter()
                .chain(forwards.iter().flat_map(|(_, batch)| batch.iter()))
                .map(|link| (link.url, link.kind));
            let payload_bytes = built.payload_bytes();
            built = self
                .builder
                .build_revisit(&capture, payload_bytes, first, outlinks);
            if first.url != *url {
                visit.duplicate_of = Some(self.shared.ids.doc(&first.url));
            }
        }
        let position = self.warc.append(&built)?;
        if first.is_none() && copy.is_some() {
            let (fingerprint, sha1) = (visit.fingerprint, &visit.sha1);
            self.seen
                .insert(fingerprint, sha1, url, visit.at_ms, &position)?;
        }
        visit.archive = Some(position);
        Ok(())
    }
}
