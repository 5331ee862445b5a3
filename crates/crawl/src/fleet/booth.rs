//! A crawl-client's booth: what seed-servers granted waits here for a worker, and what was found waits until it is archived.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use portolan_registry::{Entry, Grant, Return};
use tokio::sync::{Notify, oneshot};

use crate::commit::Stored;
use crate::haul::Hauls;

/// Grants that wait for a worker, until there is none any more.
enum Jobs {
    Open(VecDeque<Job>),
    Closed,
}

impl Default for Jobs {
    fn default() -> Self {
        Self::Open(VecDeque::new())
    }
}

/// A grant for a worker, and who hears what came of it.
pub(crate) struct Job {
    pub(crate) grant: Grant,
    pub(crate) back: oneshot::Sender<Return>,
}

impl Job {
    /// Nobody asked for anything of it.
    fn give_back(self) {
        let Self { grant, back } = self;
        let pulse = grant.turn.pulse;
        // Its server may have gone.
        let _ = back.send(grant.unused(pulse));
    }
}

#[derive(Default)]
pub(crate) struct Booth {
    jobs: Mutex<Jobs>,
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
    /// Once it is closed, nothing of the grant is used.
    pub(crate) fn push(&self, job: Job) {
        match &mut *locked(&self.jobs) {
            Jobs::Open(jobs) => jobs.push_back(job),
            Jobs::Closed => return job.give_back(),
        }
        self.woken.notify_one();
    }

    /// The workers have ended: what they did not come to goes back unused.
    pub(crate) fn close(&self) {
        let jobs = std::mem::replace(&mut *locked(&self.jobs), Jobs::Closed);
        if let Jobs::Open(jobs) = jobs {
            jobs.into_iter().for_each(Job::give_back);
        }
    }

    /// The next grant for whichever worker asks first.
    pub(crate) async fn next(&self) -> Job {
        loop {
            {
                let mut jobs = locked(&self.jobs);
                if let Jobs::Open(jobs) = &mut *jobs
                    && let Some(job) = jobs.pop_front()
                {
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

#[cfg(test)]
mod tests {
    use super::*;
    use portolan_model::{HostId, PartitionId, Pulse};
    use portolan_registry::{GrantId, Turn};

    fn grant() -> Grant {
        Grant {
            id: GrantId {
                partition: PartitionId(0),
                epoch: 1,
                number: 7,
            },
            expires_ms: 60_000,
            turn: Turn {
                host: HostId(1),
                name: "http://a.test".to_owned(),
                pulse: Pulse::default(),
                robots: Vec::new(),
                pages: 0,
                in_flight: 0,
                recorded_delay_ms: None,
            },
            urls: Vec::new(),
        }
    }

    #[tokio::test]
    async fn what_no_worker_came_to_goes_back_whenever_it_came() {
        let booth = Booth::default();
        let push = || {
            let (back, comes) = oneshot::channel();
            let grant = grant();
            booth.push(Job { grant, back });
            comes
        };
        let before = push();
        booth.close();
        let after = push();
        for comes in [before, after] {
            let back = comes.await.expect("it comes back");
            assert_eq!(back.id, grant().id);
        }
    }
}
