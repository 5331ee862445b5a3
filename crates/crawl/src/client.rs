//! The half of a worker that fetches: connections, what is remembered of robots.txt and of tables of links, the bench
//! where answers are processed, and the places of turns. It sees no partition: what a turn needs is in its `Grant`, and what
//! comes of it goes to the archivist and into a `Return` (`portolan_registry::Grant` says what a second process must do).

use std::cell::{Cell, RefCell};
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::rc::Rc;
use std::sync::Arc;

use portolan_model::{DocId, PartitionId, Visit};
use portolan_registry::RegistryError;

use crate::page::Workbench;
use crate::parking::Parking;
use crate::pools::{PoolSizes, Pools};
use crate::robots::RobotsCache;
use crate::shared::Shared;
use crate::tables::TableMemory;

/// How often connections that have idled too long are closed.
const SWEEP_EVERY_MS: u64 = 250;
/// For this long no turn begins after this machine had run out of descriptors or ports.
const EXHAUSTED_HOLD_MS: u64 = 250;

pub(crate) struct Client {
    pub(crate) shared: Arc<Shared>,
    pub(crate) parking: RefCell<Parking>,
    pub(crate) bench: RefCell<Workbench>,
    pub(crate) robots: RefCell<RobotsCache>,
    pub(crate) tables: RefCell<TableMemory>,
    pub(crate) pools: Rc<Pools>,
    /// No turn begins before: this machine had run out of something.
    hold_until_ms: Cell<u64>,
    /// When to look for connections that have idled too long.
    sweep_at_ms: Cell<u64>,
    /// Turns that read a robots.txt.
    reading_robots: Rc<Cell<u64>>,
    put_off: RefCell<PutOff>,
    recall: Option<Rc<dyn Recall>>,
}

/// What a client can look up of earlier checks while the registry is in the same process. Without it, grants have the links of
/// the last check, and earlier checks count as unknown.
pub(crate) trait Recall {
    /// Where the links of a check led.
    fn links_of(&self, at: PartitionId, check: &Visit) -> Result<Vec<DocId>, RegistryError>;
    /// The visit that is recorded at a place that a history names.
    fn visit_at(&self, at: PartitionId, place: u64) -> Result<Visit, RegistryError>;
}

/// Counts a turn as one that reads a robots.txt.
pub(crate) struct ReadingRobots(Rc<Cell<u64>>);

impl Drop for ReadingRobots {
    fn drop(&mut self) {
        self.0.set(self.0.get().saturating_sub(1));
    }
}

impl Client {
    pub(crate) fn new(
        shared: Arc<Shared>,
        bench: Workbench,
        pools: PoolSizes,
        max_idle: usize,
        recall: Option<Rc<dyn Recall>>,
    ) -> Self {
        Self {
            parking: RefCell::new(Parking::with_bound(max_idle)),
            bench: RefCell::new(bench),
            robots: RefCell::default(),
            tables: RefCell::default(),
            pools: Pools::new(pools),
            hold_until_ms: Cell::new(0),
            sweep_at_ms: Cell::new(0),
            reading_robots: Rc::default(),
            put_off: RefCell::default(),
            recall,
            shared,
        }
    }

    /// `None`: only what is in grants is known.
    pub(crate) fn recall(&self) -> Option<&dyn Recall> {
        self.recall.as_deref()
    }

    /// Until when no turn begins.
    pub(crate) fn hold_until_ms(&self) -> u64 {
        self.hold_until_ms.get()
    }

    /// This machine has no descriptor or port left: idle connections are closed, and no turn begins for
    /// a moment, until others have ended.
    pub(crate) fn exhausted(&self, now_ms: u64) {
        self.hold_until_ms.set(now_ms + EXHAUSTED_HOLD_MS);
        self.parking.borrow_mut().clear();
        self.shared.metrics.add(&self.shared.metrics.exhausted, 1);
    }

    /// Now and then, idle connections that have stayed too long are closed.
    pub(crate) fn sweep(&self, now_ms: u64) {
        if now_ms >= self.sweep_at_ms.get() {
            self.sweep_at_ms.set(now_ms + SWEEP_EVERY_MS);
            self.parking.borrow_mut().sweep(now_ms);
        }
    }

    /// A host waits until `at_ms` because another host at its address was asked.
    pub(crate) fn put_off_by_address(&self, at_ms: u64) {
        self.put_off.borrow_mut().note(at_ms);
        self.shared.metrics.add(&self.shared.metrics.put_off, 1);
    }

    /// How many hosts wait for their address now.
    pub(crate) fn waiting_for_address(&self, now_ms: u64) -> u64 {
        self.put_off.borrow_mut().count(now_ms)
    }

    /// A turn that reads a robots.txt is counted while the guard lives.
    pub(crate) fn reading_robots(&self) -> ReadingRobots {
        let count = Rc::clone(&self.reading_robots);
        count.set(count.get() + 1);
        ReadingRobots(count)
    }

    /// Turns that read a robots.txt now.
    pub(crate) fn robots_being_read(&self) -> u64 {
        self.reading_robots.get()
    }
}

/// Until when hosts wait for their address. A host is in it once at most: it has no turn meanwhile.
#[derive(Debug, Default)]
struct PutOff {
    until_ms: BinaryHeap<Reverse<u64>>,
}

impl PutOff {
    fn note(&mut self, until_ms: u64) {
        self.until_ms.push(Reverse(until_ms));
    }

    /// Hosts that wait at `now_ms`.
    fn count(&mut self, now_ms: u64) -> u64 {
        while let Some(&Reverse(until_ms)) = self.until_ms.peek()
            && until_ms <= now_ms
        {
            self.until_ms.pop();
        }
        self.until_ms.len() as u64
    }
}
