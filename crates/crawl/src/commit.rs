//! The archivist: one thread that makes pages durable. Each cycle it takes what the workers have
//! finished, has the recorder append the records and make them durable, and only then commits
//! the visits to the journal, with the links that leave for other partitions. What is in the journal is therefore in the
//! archive, and the owners, to whom it is delivered, fold nothing that a crash could take back.

mod recorder;
mod told;

pub(crate) use recorder::Recorder;
use told::{Gathered, told};
pub(crate) use told::{Heard, Hearing, ToArchivist};

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use portolan_model::PartitionId;
use portolan_registry::{Delivery, Entry, Journal};
use tokio::sync::{OwnedSemaphorePermit, mpsc};

use crate::answered::VisitRecords;
use crate::error::CrawlError;
use crate::granted::Committed;
use crate::haul::Haul;
use crate::metrics::Stage;
use crate::outside::{Step, Steps};
use crate::shared::{Shared, UNFOLDED_KIB, kib};

/// Finished pages that wait for the archivist; more make the workers wait.
pub(crate) const FINISHED_QUEUE: usize = 1024;

/// Entries are committed together until they take this much, records not counted: twice as much is written to the journal,
/// and all of it is to be folded.
const COMMITTED_BYTES: u64 = 4 << 20;

/// Links from other nodes wait up to this time for others to be committed with them, where no page waits to be committed.
const HEARD_TOGETHER: Duration = Duration::from_millis(20);

/// What a worker hands over: an entry for a partition, and the record that must be durable
/// before it.
pub(crate) struct Finished {
    pub(crate) partition: PartitionId,
    pub(crate) entry: Entry,
    pub(crate) record: Option<VisitRecords>,
    /// On a crawl-client: where it goes once its records are durable, instead of a journal.
    pub(crate) haul: Option<Arc<Haul>>,
    /// Room in the buffers between workers and archivist, given back once the record is written.
    pub(crate) room: Option<OwnedSemaphorePermit>,
}

/// An entry whose records are durable, on a crawl-client.
pub(crate) struct Stored {
    pub(crate) entry: Entry,
    pub(crate) haul: Option<Arc<Haul>>,
}

pub(crate) struct Archivist {
    pub(crate) shared: Arc<Shared>,
    pub(crate) recorder: Recorder,
    pub(crate) journal: Journal,
    pub(crate) steps: Option<Arc<dyn Steps>>,
    pub(crate) inbox: mpsc::Receiver<Finished>,
    /// In a fleet: what the node's agent wants of the journal.
    pub(crate) told: Option<mpsc::Receiver<ToArchivist>>,
    /// What the commit has for the server that grants what is fetched.
    pub(crate) granted: Vec<Committed>,
    /// What other nodes have sent, until the next commit.
    pub(crate) hearing: Hearing,
    /// The last thing it did was something that the agent wanted.
    pub(crate) has_obeyed: bool,
    /// The last batch was as large as may be, so that most of what comes next has waited already.
    pub(crate) left_some: bool,
}

/// What is left to close once the workers have ended.
pub(crate) struct Books {
    pub(crate) recorder: Recorder,
    pub(crate) journal: Journal,
}

/// The body of the archivist's thread: works until told to close, or until something cannot be
/// written.
pub(crate) fn run(archivist: Archivist) -> Books {
    match tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .build()
    {
        Ok(runtime) => runtime.block_on(live(archivist)),
        Err(error) => {
            archivist.shared.fail(CrawlError::Internal(format!(
                "no runtime for the archivist: {error}"
            )));
            archivist.shared.routes.close_blocking();
            archivist.books()
        }
    }
}

/// The archivist's work, from its beginning to its end.
pub(crate) async fn live(mut archivist: Archivist) -> Books {
    if let Err(error) = archivist.work().await {
        archivist.shared.fail(error);
    }
    archivist.shared.routes.close().await;
    archivist.books()
}

impl Archivist {
    fn books(self) -> Books {
        Books {
            recorder: self.recorder,
            journal: self.journal,
        }
    }

    async fn work(&mut self) -> Result<(), CrawlError> {
        let shared = Arc::clone(&self.shared);
        let mut batch = Vec::new();
        loop {
            match self.gather(&mut batch).await {
                Gathered::Entries => {}
                Gathered::Told(told) => {
                    self.obey(told).await?;
                    continue;
                }
                Gathered::End => break,
            }
            let deliveries = shared
                .metrics
                .timed(Stage::Commit, || self.commit(&mut batch))?;
            self.deliver(deliveries).await;
            self.answer();
            if let Some(granted) = &shared.granted {
                granted.tell_all(std::mem::take(&mut self.granted)).await;
            }
        }
        Ok(())
    }

    /// To the owners of their partitions; waits while workers have too much to fold.
    async fn deliver(&self, deliveries: Vec<Delivery>) {
        let unfolded = &self.shared.unfolded;
        let room = async |delivery: &Delivery| {
            let kib = kib(delivery.entry.ram_bytes(), UNFOLDED_KIB);
            if let Ok(room) = unfolded.acquire_many(kib).await {
                room.forget();
            }
        };
        self.shared.routes.deliver(deliveries, room).await;
    }

    /// Wait for the first finished entry, or for links from another node, then for more: until the batch is old, or somebody
    /// waits for it. Entries that come meanwhile wake nobody.
    async fn gather(&mut self, batch: &mut Vec<Finished>) -> Gathered {
        if let Some(told) = self.next_told() {
            return Gathered::Told(told);
        }
        let shared = Arc::clone(&self.shared);
        // What the agent wants and what workers have finished take turns.
        let finished = match std::mem::take(&mut self.has_obeyed) {
            true => self.inbox.try_recv().ok(),
            false => None,
        };
        let first = tokio::select! {
            biased;
            first = std::future::ready(finished), if finished.is_some() => first,
            Some(told) = told(&mut self.told) => {
                self.listen(told);
                None
            }
            first = self.inbox.recv() => match first {
                None => return Gathered::End,
                first => first,
            },
            () = shared.closing.notified() => return Gathered::End,
        };
        if let Some(told) = self.next_told() {
            return Gathered::Told(told);
        }
        let mut bytes = first.as_ref().map_or(0, |first| first.entry.ram_bytes());
        let patience = match &first {
            Some(_) => Duration::from_millis(shared.settings.archive.commit_ms),
            None => HEARD_TOGETHER,
        };
        batch.extend(first);
        if !std::mem::take(&mut self.left_some) {
            self.wait_for_more(patience).await;
        }
        while let Ok(next) = self.inbox.try_recv() {
            bytes += next.entry.ram_bytes();
            batch.push(next);
            if batch.len() >= FINISHED_QUEUE || bytes >= COMMITTED_BYTES {
                self.left_some = true;
                break;
            }
        }
        Gathered::Entries
    }

    async fn wait_for_more(&mut self, patience: Duration) {
        let shared = Arc::clone(&self.shared);
        let mut waited = std::pin::pin!(tokio::time::sleep(patience));
        while !self.hearing.is_full() {
            tokio::select! {
                biased;
                () = shared.commit_now.notified() => return,
                () = &mut waited => return,
                Some(told) = told(&mut self.told) => self.listen(told),
            }
        }
    }

    /// What the agent wants beside links being heard, once all that was heard before is committed.
    fn next_told(&mut self) -> Option<ToArchivist> {
        let told = self.hearing.take_next()?;
        self.has_obeyed = true;
        Some(told)
    }

    /// Somebody may hear of the step, and say that the disk refuses it.
    fn before(&self, step: Step) -> Result<(), CrawlError> {
        let Some(steps) = &self.steps else {
            return Ok(());
        };
        let refused = |source| CrawlError::File {
            path: PathBuf::from(format!("{step:?}")),
            source,
        };
        steps.before(step).map_err(refused)
    }

    /// Records first, then the journal that names them and says where they end: what a crash leaves beyond that end is
    /// nobody's.
    fn commit(&mut self, batch: &mut Vec<Finished>) -> Result<Vec<Delivery>, CrawlError> {
        let mut entries = Vec::with_capacity(batch.len());
        let mut rooms = Vec::with_capacity(batch.len());
        let mut hauls = Vec::with_capacity(batch.len());
        let (mut pages, mut copies) = (0, 0);
        for finished in batch.drain(..) {
            let Finished {
                partition,
                mut entry,
                record,
                haul,
                room,
            } = finished;
            if let Some(record) = record {
                self.before(Step::Record)?;
                self.recorder.store(&mut entry, record)?;
            }
            if let Entry::Visit { visit, .. } = &entry {
                pages += u64::from(visit.is_document());
                copies += u64::from(visit.duplicate_of.is_some());
            }
            entries.push((partition, entry));
            hauls.push(haul);
            rooms.push(room);
        }
        self.before(Step::Archive)?;
        let end = self.recorder.sync()?;
        if let Some(booth) = self.shared.booth() {
            if let Some(last) = end {
                booth.set_archive_end((last.file, last.end));
            }
            self.note_pages(pages, copies);
            let finished = entries.len() as u64;
            let stored = entries.into_iter().zip(hauls);
            let stored = stored.map(|((_, entry), haul)| Stored { entry, haul });
            booth.store(stored.collect());
            self.shared
                .outstanding
                .fetch_sub(finished, Ordering::SeqCst);
            return Ok(Vec::new());
        }
        if let Some(last) = end {
            self.journal.note_archive_end(last.file, last.end);
        }
        self.before(Step::Promises)?;
        self.shared.pauses.sync()?;
        if let Some(cookies) = &self.shared.access.cookies {
            cookies.save(self.shared.wall_ms())?;
        }
        // Whoever is in the journal by a claim: the claim comes first.
        self.shared.division.make_durable()?;
        let finished = entries.len() as u64;
        self.shared.division.note_commit(&entries);
        self.before(Step::Journal)?;
        let granted = match &self.shared.granted {
            Some(_) => entries
                .iter()
                .filter_map(|(_, entry)| Committed::of(entry))
                .collect(),
            None => Vec::new(),
        };
        entries.extend(self.hearing.take_entries());
        let deliveries = self.journal.commit(entries)?;
        self.granted = granted;
        self.before(Step::Payloads)?;
        self.recorder.seen.maintain()?;
        self.before(Step::Delivery)?;
        self.note_pages(pages, copies);
        // The forwards are entries of their own now.
        self.shared.outstanding.fetch_add(
            (deliveries.len() as u64).wrapping_sub(finished),
            Ordering::SeqCst,
        );
        Ok(deliveries)
    }

    fn note_pages(&self, pages: u64, copies: u64) {
        let metrics = &self.shared.metrics;
        metrics.add(&metrics.pages, pages);
        metrics.add(&metrics.duplicates, copies);
    }
}

#[cfg(test)]
mod tests;
