//! The simulated clock: the runtime's paused time, which jumps to the next timer whenever nothing else is to be done. The
//! time of day may be set. Each look at the clock is a step, and a kill may wait for a certain one.

use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};

use portolan_model::Clock;
use tokio::sync::Notify;
use tokio::time::Instant;

/// When simulated crawls begin: 2026-01-01, in milliseconds since the Unix epoch.
const BEGINNING_MS: u64 = 1_767_225_600_000;

#[derive(Debug)]
pub(crate) struct SimulatedClock {
    begun: Instant,
    /// The crawl's time is ahead of the runtime's by this.
    ahead_ms: AtomicU64,
    /// The time of day, less the runtime's time.
    set_by_ms: AtomicI64,
    steps: AtomicU64,
    /// At this step, whoever waits for `fatal` is told.
    fatal_step: AtomicU64,
    pub(crate) fatal: Notify,
}

impl SimulatedClock {
    /// To be called in the runtime whose time it tells.
    pub(crate) fn new() -> Self {
        Self {
            begun: Instant::now(),
            ahead_ms: AtomicU64::new(0),
            set_by_ms: AtomicI64::new(0),
            steps: AtomicU64::new(0),
            fatal_step: AtomicU64::new(u64::MAX),
            fatal: Notify::new(),
        }
    }

    /// Milliseconds since the simulation began.
    pub(crate) fn ran_ms(&self) -> u64 {
        self.begun.elapsed().as_millis() as u64
    }

    /// Somebody sets the time of day.
    pub(crate) fn set_by(&self, by_ms: i64) {
        self.set_by_ms.fetch_add(by_ms, Ordering::Relaxed);
    }

    /// A kill after this many more steps.
    pub(crate) fn die_in(&self, steps: u64) {
        let at = self.steps.load(Ordering::Relaxed).saturating_add(steps);
        self.fatal_step.store(at, Ordering::Relaxed);
    }

    /// Another process begins: its crawl's time begins as the time of day.
    pub(crate) fn reborn(&self) {
        self.ahead_ms.store(0, Ordering::Relaxed);
        self.fatal_step.store(u64::MAX, Ordering::Relaxed);
    }
}

impl Clock for SimulatedClock {
    fn now_ms(&self) -> u64 {
        let step = self.steps.fetch_add(1, Ordering::Relaxed);
        if step == self.fatal_step.load(Ordering::Relaxed) {
            self.fatal.notify_one();
        }
        BEGINNING_MS + self.ran_ms() + self.ahead_ms.load(Ordering::Relaxed)
    }

    fn wall_ms(&self) -> u64 {
        (BEGINNING_MS + self.ran_ms()).saturating_add_signed(self.set_by_ms.load(Ordering::Relaxed))
    }

    fn go_on_from(&self, then_ms: u64) {
        let now_ms = BEGINNING_MS + self.ran_ms();
        self.ahead_ms
            .fetch_max(then_ms.saturating_sub(now_ms), Ordering::Relaxed);
    }
}
