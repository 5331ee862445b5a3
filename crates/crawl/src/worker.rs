//! A worker: one thread that owns some partitions, their hosts and their connections, and shares
//! nothing on the hot path. It folds what the archivist delivers, gives hosts their turns, and
//! keeps as many turns under way as its pools have places. It does not wait for the disk with what
//! is delivered: that is left where it is until its partitions are ready for it. (Only an entry that brings more
//! than a partition has room for makes it wait.)

mod gauges;
mod turns;

pub(crate) use gauges::Gauges;

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use portolan_model::{HostId, PartitionId};
use portolan_registry::{Delivery, Partition, RegistryError, Rest};
use tokio::sync::{Notify, mpsc};
use tokio::task::{JoinSet, LocalSet};

use crate::error::CrawlError;
use crate::metrics::Stage;
use crate::neighbour::{self, Question};
use crate::page::Workbench;
use crate::parking::Parking;
use crate::pools::{PoolSizes, Pools};
use crate::robots::RobotsCache;
use crate::shared::{Shared, UNFOLDED_KIB, kib};
use gauges::PutOff;

/// The longest a worker sleeps when nothing wakes it.
const IDLE_MAX_MS: u64 = 200;

/// Then connections are looked after, whatever else there is to do.
const BUSY_MAX: Duration = Duration::from_millis(3);

/// How soon partitions are looked at again that were not ready for what was delivered.
const NOT_READY_MS: u64 = 2;

/// Deliveries are folded for this long before connections are looked after again.
const FOLD_MAX: Duration = Duration::from_millis(3);
/// Entries are folded together until they have this many links.
const LINKS_TOGETHER: usize = 100;
/// At most this many entries are folded in one batch.
const ENTRIES_TOGETHER: usize = 256;

pub(crate) struct Worker {
    pub(crate) shared: Arc<Shared>,
    partitions: RefCell<Vec<Partition>>,
    pub(crate) parking: RefCell<Parking>,
    pub(crate) bench: RefCell<Workbench>,
    pub(crate) robots: RefCell<RobotsCache>,
    pub(crate) pools: Rc<Pools>,
    /// The tasks of turns.
    tasks: RefCell<JoinSet<()>>,
    /// Turns under way, whatever they wait for.
    turns: Cell<usize>,
    /// Those of them that ask hosts whose last request failed.
    failing_turns: Cell<usize>,
    /// No turn begins before: this machine had run out of something.
    hold_until_ms: Cell<u64>,
    /// URLs were to be judged again before any turn, and not all verdicts are in the queues yet.
    unjudged: Cell<bool>,
    /// The partition whose hosts get their turns first, the next time another one.
    first: Cell<usize>,
    wake: Notify,
    /// When to look for connections that have idled too long.
    sweep_at_ms: Cell<u64>,
    /// Turns that read a robots.txt.
    reading_robots: Rc<Cell<u64>>,
    put_off: RefCell<PutOff>,
    gauges: Arc<Gauges>,
}

/// What a worker thread is made from.
pub(crate) struct WorkerPlan {
    pub(crate) shared: Arc<Shared>,
    pub(crate) partitions: Vec<Partition>,
    pub(crate) bench: Workbench,
    pub(crate) inbox: mpsc::Receiver<Delivery>,
    pub(crate) questions: mpsc::Receiver<Question>,
    pub(crate) pools: PoolSizes,
    pub(crate) max_idle: usize,
    pub(crate) gauges: Arc<Gauges>,
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
            parking: RefCell::new(Parking::with_bound(plan.max_idle)),
            bench: RefCell::new(plan.bench),
            robots: RefCell::new(RobotsCache::default()),
            partitions: RefCell::new(plan.partitions),
            pools: Pools::new(plan.pools),
            tasks: RefCell::default(),
            turns: Cell::new(0),
            failing_turns: Cell::new(0),
            hold_until_ms: Cell::new(0),
            unjudged: Cell::new(plan.shared.judging.load(Ordering::SeqCst)),
            first: Cell::new(0),
            wake: Notify::new(),
            reading_robots: Rc::default(),
            put_off: RefCell::default(),
            sweep_at_ms: Cell::new(0),
            gauges: plan.gauges,
            shared: plan.shared,
        });
        let mut inbox = plan.inbox;
        let answering = neighbour::answer(Rc::clone(&worker), plan.questions);
        let answering = tokio::task::spawn_local(answering);
        if let Err(error) = work(&worker, &mut inbox).await {
            worker.shared.fail(error.into());
        }
        answering.abort();
        worker.partitions.take()
    })
}

async fn work(
    worker: &Rc<Worker>,
    inbox: &mut mpsc::Receiver<Delivery>,
) -> Result<(), RegistryError> {
    let mut next = None;
    // Since it was seen to that others of this thread could work; they may have since.
    let mut busy = Duration::ZERO;
    loop {
        if worker.shared.budget.is_stopping_now() {
            worker.end_turns_now().await;
        }
        let begun = Instant::now();
        let folded = worker.fold(&mut next, inbox)?;
        if folded == Folded::Ended {
            return Ok(());
        }
        while worker.tasks.borrow_mut().try_join_next().is_some() {}
        let rest_ms = worker.begin_turns()?;
        worker.show();
        busy += begun.elapsed();
        worker.shared.metrics.note_pause(busy);
        if busy >= BUSY_MAX {
            // With deliveries waiting, `rest` might not let anybody else work.
            tokio::task::yield_now().await;
            busy = Duration::ZERO;
        }
        match folded {
            Folded::NotReady => {
                worker.wait_for_disk(rest_ms).await;
                busy = Duration::ZERO;
            }
            Folded::Some | Folded::Ended => match worker.rest(inbox, rest_ms).await {
                Rested::Delivery(delivery) => next = Some(*delivery),
                Rested::Woken => {}
                Rested::Closed => return Ok(()),
            },
        }
    }
}

#[derive(Debug, PartialEq, Eq)]
enum Folded {
    /// All there was, or much of it; at least what was received last.
    Some,
    /// A partition would have to wait for the disk; the rest is left where it is.
    NotReady,
    /// The archivist has ended: nothing more will be delivered.
    Ended,
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

    /// What a host of one of its partitions is owed outside of its turns.
    pub(crate) fn rest_of(&self, id: PartitionId, host: HostId) -> Result<Rest, RegistryError> {
        let partitions = self.partitions.borrow();
        let partition = partitions.iter().find(|partition| partition.id() == id);
        partition.map_or(Ok(Rest::default()), |partition| partition.rest_of(host))
    }

    pub(crate) fn partition_id(&self, slot: usize) -> PartitionId {
        self.partitions.borrow()[slot].id()
    }

    /// Fold what has been delivered, `next` first, as far as partitions are ready for it.
    fn fold(
        &self,
        next: &mut Option<Delivery>,
        inbox: &mut mpsc::Receiver<Delivery>,
    ) -> Result<Folded, RegistryError> {
        let begun = Instant::now();
        let mut together = Vec::new();
        loop {
            if !self.is_ready() && (next.is_some() || !inbox.is_empty()) {
                return Ok(Folded::NotReady);
            }
            let mut links = 0;
            let mut missing = None;
            // Entries with many links are large, and gain nothing by waiting for others.
            while links < LINKS_TOGETHER && together.len() < ENTRIES_TOGETHER {
                let received = next.take().map_or_else(|| inbox.try_recv(), Ok);
                match received {
                    Ok(delivery) => {
                        links += delivery.entry.links().len();
                        together.push(delivery);
                    }
                    Err(error) => {
                        missing = Some(error);
                        break;
                    }
                }
            }
            self.apply(&together)?;
            together.clear();
            match missing {
                Some(mpsc::error::TryRecvError::Disconnected) => return Ok(Folded::Ended),
                None if begun.elapsed() < FOLD_MAX => {}
                _ => return Ok(Folded::Some),
            }
        }
    }

    /// Could all partitions fold something now without waiting for the disk?
    fn is_ready(&self) -> bool {
        self.partitions.borrow().iter().all(Partition::is_ready)
    }

    fn apply(&self, deliveries: &[Delivery]) -> Result<(), RegistryError> {
        let mut folded = 0;
        let room = deliveries
            .iter()
            .map(|delivery| kib(delivery.entry.ram_bytes(), UNFOLDED_KIB) as usize)
            .sum();
        for partition in self.partitions.borrow_mut().iter_mut() {
            let id = partition.id();
            let own = deliveries.iter().filter(|d| d.partition == id);
            let own = own.map(|delivery| (delivery.seq, &delivery.entry));
            let count = own.clone().count() as u64;
            if count > 0 {
                let fold = || partition.apply_all(own);
                self.shared.metrics.sampled(Stage::Fold, fold)?;
                self.gauges
                    .note_folded(&self.shared.folded, &self.shared.outstanding, count);
                folded += count;
            }
        }
        assert_eq!(
            folded,
            deliveries.len() as u64,
            "entries are delivered to their partition's owner"
        );
        self.shared.unfolded.add_permits(room);
        Ok(())
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

    /// Connections are looked after meanwhile, and nothing else is folded.
    async fn wait_for_disk(&self, rest_ms: u64) {
        let before = Instant::now();
        tokio::time::sleep(Duration::from_millis(rest_ms.clamp(1, NOT_READY_MS))).await;
        self.shared.metrics.note_held_back(before.elapsed());
    }
}
