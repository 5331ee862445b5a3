//! A hook for tests: while a crawl runs, its partitions go from worker to worker, one after the other.

use std::sync::atomic::Ordering;
use std::time::Duration;

use portolan_model::PartitionId;
use tokio::time::Instant;

use crate::routes::{Command, Destination};
use crate::shared::Shared;

/// Milliseconds between two; without it, partitions stay where they are.
const EVERY_MS: &str = "PORTOLAN_TEST_HAND_OVER_MS";

/// Then they stay, or the crawl would never be still.
const MOST: u32 = 200;

pub(crate) struct HandOvers {
    done: u32,
    every: Duration,
    last: Instant,
    next: u16,
}

impl HandOvers {
    pub(crate) fn wanted() -> Option<Self> {
        let every = std::env::var(EVERY_MS).ok()?.parse().ok()?;
        Some(Self {
            done: 0,
            every: Duration::from_millis(every),
            last: Instant::now(),
            next: 0,
        })
    }

    /// If it is time: the next partition goes to the next worker.
    pub(crate) fn look(&mut self, shared: &Shared) {
        let workers = shared.routes.workers();
        let busy = shared.judging.load(Ordering::SeqCst) || shared.budget.is_stopping();
        let moves_by_itself = shared.membership.is_some();
        if self.done >= MOST
            || workers < 2
            || busy
            || moves_by_itself
            || self.last.elapsed() < self.every
        {
            return;
        }
        self.last = Instant::now();
        self.done += 1;
        let partition = PartitionId(self.next);
        self.next = (self.next + 1) % shared.division.partitions().max(1);
        let owner = shared.routes.owner(partition);
        // The crawl does not end while a partition is between two workers.
        shared.outstanding.fetch_add(1, Ordering::SeqCst);
        let to = (owner + 1) % workers;
        let to = Destination::Worker(to);
        let release = Command::Release { partition, to };
        shared.routes.command(owner, release);
    }
}
