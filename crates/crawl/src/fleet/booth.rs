//! A crawl-client's booth: what seed-servers granted waits here for a worker, and what was found waits until it is archived.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use portolan_registry::{Entry, Grant, Return};
use tokio::sync::{Notify, oneshot};

use crate::commit::Stored;
use crate::haul::Hauls;

/// A grant for a worker, and who hears what came of it.
pub(crate) struct Job {
    pub(crate) grant: Grant,
    pub(crate) back: oneshot::Sender<Return>,
}

#[derive(Default)]
pub(crate) struct Booth {
    jobs: Mutex<VecDeque<Job>>,
    woken: Notify,
    pub(crate) hauls: Hauls,
    /// File and place up to which the archive is durable.
    archive_end: Mutex<Option<(u32, u64)>>,
    pub(crate) pages: AtomicU64,
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Booth {
    pub(crate) fn push(&self, job: Job) {
        locked(&self.jobs).push_back(job);
        self.woken.notify_one();
    }

    /// The next grant for whichever worker asks first.
    pub(crate) async fn next(&self) -> Job {
        loop {
            {
                let mut jobs = locked(&self.jobs);
                if let Some(job) = jobs.pop_front() {
                    if !jobs.is_empty() {
                        self.woken.notify_one();
                    }
                    return job;
                }
            }
            self.woken.notified().await;
        }
    }

    /// Records are durable: entries of grants wait for their turns to end.
    pub(crate) fn store(&self, stored: Vec<Stored>) {
        for Stored { entry, haul } in stored {
            if let Entry::Visit { visit, .. } = &entry {
                let pages = u64::from(visit.is_document());
                self.pages.fetch_add(pages, Ordering::Relaxed);
            }
            match haul {
                Some(haul) => haul.store(entry),
                // Links that left before their page: they come with the page again.
                None => debug_assert!(entry.links().is_early() || entry.links().is_empty()),
            }
        }
    }

    pub(crate) fn set_archive_end(&self, end: (u32, u64)) {
        *locked(&self.archive_end) = Some(end);
    }

    pub(super) fn archive_end(&self) -> Option<(u32, u64)> {
        *locked(&self.archive_end)
    }
}
