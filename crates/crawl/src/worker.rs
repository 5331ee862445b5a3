//! A worker: one thread that owns some partitions, their hosts and their connections, and shares
//! nothing on the hot path. It folds what the archivist delivers, gives hosts their turns, and
//! keeps as many turns under way as its share of connections allows.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use portolan_model::{HostId, PartitionId, Pulse};
use portolan_registry::{Delivery, Partition, RegistryError};
use tokio::sync::{Notify, mpsc};
use tokio::task::{JoinSet, LocalSet};

use crate::error::CrawlError;
use crate::metrics::Stage;
use crate::page::Workbench;
use crate::parking::Parking;
use crate::robots::RobotsCache;
use crate::shared::Shared;
use crate::turn;

/// The longest a worker sleeps when nothing wakes it.
const IDLE_MAX_MS: u64 = 200;

/// How often connections that have idled too long are closed.
const SWEEP_EVERY_MS: u64 = 250;

/// Deliveries folded before turns are looked after again.
const FOLD_AT_ONCE: usize = 256;
/// Entries are folded together until they have so many links.
const LINKS_TOGETHER: usize = 100;

pub(crate) struct Worker {
    pub(crate) shared: Arc<Shared>,
    partitions: RefCell<Vec<Partition>>,
    pub(crate) parking: RefCell<Parking>,
    pub(crate) bench: RefCell<Workbench>,
    pub(crate) robots: RefCell<RobotsCache>,
    max_turns: usize,
    turns: Cell<usize>,
    wake: Notify,
    /// When to look for connections that have idled too long.
    sweep_at_ms: Cell<u64>,
    gauges: Arc<Gauges>,
}

/// What a worker thread is made from.
pub(crate) struct WorkerPlan {
    pub(crate) shared: Arc<Shared>,
    pub(crate) partitions: Vec<Partition>,
    pub(crate) bench: Workbench,
    pub(crate) inbox: mpsc::Receiver<Delivery>,
    pub(crate) max_turns: usize,
    pub(crate) gauges: Arc<Gauges>,
}

/// What a worker shows of itself.
#[derive(Debug, Default)]
pub(crate) struct Gauges {
    pub(crate) known: AtomicU64,
    pub(crate) due: AtomicU64,
    pub(crate) turns: AtomicU64,
    /// Nothing is due and nothing under way here.
    pub(crate) idle: AtomicBool,
}

/// The body of a worker thread; gives its partitions back for the final checkpoint.
pub(crate) fn run(plan: WorkerPlan) -> Vec<Partition> {
    let shared = Arc::clone(&plan.shared);
    let runtime = match tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
    {
        Ok(runtime) => runtime,
        Err(error) => {
            shared.fail(CrawlError::Internal(format!(
                "no runtime for a worker: {error}"
            )));
            return plan.partitions;
        }
    };
    let tasks = LocalSet::new();
    tasks.block_on(&runtime, async move {
        let worker = Rc::new(Worker {
            parking: RefCell::new(Parking::with_bound(plan.max_turns)),
            bench: RefCell::new(plan.bench),
            robots: RefCell::new(RobotsCache::default()),
            partitions: RefCell::new(plan.partitions),
            max_turns: plan.max_turns,
            turns: Cell::new(0),
            wake: Notify::new(),
            sweep_at_ms: Cell::new(0),
            gauges: plan.gauges,
            shared: plan.shared,
        });
        let mut inbox = plan.inbox;
        if let Err(error) = work(&worker, &mut inbox).await {
            worker.shared.fail(error.into());
        }
        worker.partitions.take()
    })
}

async fn work(
    worker: &Rc<Worker>,
    inbox: &mut mpsc::Receiver<Delivery>,
) -> Result<(), RegistryError> {
    let mut turns = JoinSet::new();
    let mut next = None;
    loop {
        if worker.fold(next.take(), inbox)? {
            return Ok(());
        }
        while turns.try_join_next().is_some() {}
        if worker.shared.budget.is_stopping_now() && !turns.is_empty() {
            turns.abort_all();
            while turns.join_next().await.is_some() {}
            worker.turns.set(0);
        }
        let rest_ms = worker.begin_turns(&mut turns)?;
        worker.show();
        next = match worker.rest(inbox, rest_ms).await {
            Rested::Delivery(delivery) => Some(*delivery),
            Rested::Woken => None,
            Rested::Closed => return Ok(()),
        };
    }
}

enum Rested {
    Delivery(Box<Delivery>),
    Woken,
    /// The archivist has ended: nothing more will be delivered.
    Closed,
}

impl Worker {
    /// Run something on the partition in `slot`. Never held across an await.
    pub(crate) fn with<T>(&self, slot: usize, work: impl FnOnce(&mut Partition) -> T) -> T {
        work(&mut self.partitions.borrow_mut()[slot])
    }

    pub(crate) fn partition_id(&self, slot: usize) -> PartitionId {
        self.partitions.borrow()[slot].id()
    }

    /// The turn is over: the host is queued again.
    pub(crate) fn end_turn(&self, slot: usize, host: HostId, pulse: Pulse) {
        if let Err(error) = self.with(slot, |partition| partition.end_turn(host, pulse)) {
            self.shared.fail(error.into());
        }
        self.turns.set(self.turns.get().saturating_sub(1));
        self.wake.notify_one();
    }

    /// Fold what has been delivered. `true`: nothing more will come.
    fn fold(
        &self,
        first: Option<Delivery>,
        inbox: &mut mpsc::Receiver<Delivery>,
    ) -> Result<bool, RegistryError> {
        let mut together: Vec<Delivery> = first.into_iter().collect();
        let mut links: usize = together.iter().map(|one| one.entry.links().len()).sum();
        for _ in 0..FOLD_AT_ONCE {
            match inbox.try_recv() {
                Ok(delivery) => {
                    links += delivery.entry.links().len();
                    together.push(delivery);
                }
                Err(mpsc::error::TryRecvError::Empty) => break,
                Err(mpsc::error::TryRecvError::Disconnected) => {
                    self.apply(&together)?;
                    return Ok(true);
                }
            }
            // Entries with many links are large, and gain nothing by waiting for others.
            if links >= LINKS_TOGETHER {
                self.apply(&together)?;
                together.clear();
                links = 0;
            }
        }
        self.apply(&together)?;
        Ok(false)
    }

    fn apply(&self, deliveries: &[Delivery]) -> Result<(), RegistryError> {
        let mut folded = 0;
        for partition in self.partitions.borrow_mut().iter_mut() {
            let id = partition.id();
            let own = deliveries.iter().filter(|d| d.partition == id);
            let own = own.map(|delivery| (delivery.seq, &delivery.entry));
            let count = own.clone().count() as u64;
            if count > 0 {
                let fold = || partition.apply_all(own);
                self.shared.metrics.sampled(Stage::Fold, fold)?;
                self.shared.folded.fetch_add(count, Ordering::SeqCst);
                self.shared.outstanding.fetch_sub(count, Ordering::SeqCst);
                folded += count;
            }
        }
        assert_eq!(
            folded,
            deliveries.len() as u64,
            "entries are delivered to their partition's owner"
        );
        Ok(())
    }

    /// Give turns to hosts that are due, as far as connections allow. Returns how long nothing
    /// needs to be looked at again, if nobody wakes us.
    fn begin_turns(self: &Rc<Self>, turns: &mut JoinSet<()>) -> Result<u64, RegistryError> {
        let shared = &self.shared;
        let now_ms = shared.now_ms();
        let mut rest_ms = IDLE_MAX_MS;
        let slots = self.partitions.borrow().len();
        for slot in 0..slots {
            let open = !shared.budget.is_stopping() && self.turns.get() < self.max_turns;
            shared.metrics.sampled(Stage::Fold, || {
                self.with(slot, |partition| {
                    partition.tend(open && self.is_hungry(partition, now_ms))
                })
            })?;
            if !open {
                continue;
            }
            while self.turns.get() < self.max_turns {
                let turn = shared
                    .metrics
                    .sampled(Stage::Choose, || self.with(slot, |p| p.begin_turn(now_ms)))?;
                let Some(turn) = turn else { break };
                self.turns.set(self.turns.get() + 1);
                turns.spawn_local(turn::run(Rc::clone(self), slot, turn));
            }
            if let Some(due_ms) = self.with(slot, |p| p.next_due_ms()) {
                rest_ms = rest_ms.min(due_ms.saturating_sub(now_ms));
            }
        }
        if self.turns.get() == 0 && shared.outstanding.load(Ordering::Relaxed) > 0 {
            shared.commit_now.notify_one();
        }
        if now_ms >= self.sweep_at_ms.get() {
            self.sweep_at_ms.set(now_ms + SWEEP_EVERY_MS);
            self.parking.borrow_mut().sweep(now_ms);
        }
        // With all connections in use there is nothing to begin, however much is due.
        Ok(if self.turns.get() >= self.max_turns {
            IDLE_MAX_MS
        } else {
            rest_ms
        })
    }

    /// Links that wait to be merged are worth a merge now if nothing else can be fetched.
    fn is_hungry(&self, partition: &Partition, now_ms: u64) -> bool {
        partition.next_due_ms().is_none_or(|due_ms| due_ms > now_ms)
    }

    async fn rest(&self, inbox: &mut mpsc::Receiver<Delivery>, rest_ms: u64) -> Rested {
        if rest_ms == 0 {
            tokio::task::yield_now().await;
            return Rested::Woken;
        }
        tokio::select! {
            biased;
            delivery = inbox.recv() => delivery.map_or(Rested::Closed, |d| Rested::Delivery(Box::new(d))),
            () = self.wake.notified() => Rested::Woken,
            () = tokio::time::sleep(Duration::from_millis(rest_ms)) => Rested::Woken,
        }
    }

    /// Tell the watcher and the progress display how things stand.
    fn show(&self) {
        let partitions = self.partitions.borrow();
        let (mut known, mut due, mut exhausted) = (0, 0, true);
        for partition in partitions.iter() {
            let stats = partition.stats();
            known += stats.known;
            due += stats.due;
            exhausted &= partition.is_exhausted();
        }
        let turns = self.turns.get();
        self.gauges.known.store(known, Ordering::Relaxed);
        self.gauges.due.store(due, Ordering::Relaxed);
        self.gauges.turns.store(turns as u64, Ordering::Relaxed);
        let stopping = self.shared.budget.is_stopping();
        self.gauges
            .idle
            .store(turns == 0 && (exhausted || stopping), Ordering::SeqCst);
    }
}
