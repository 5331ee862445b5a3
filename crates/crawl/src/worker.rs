//! A worker: one thread that owns some partitions and their hosts, with a client that has their connections (`client.rs`), and
//! shares nothing on the hot path. It folds what the archivist delivers, grants hosts their turns (`grants.rs`), and
//! keeps as many turns under way as its client has places. It does not wait for the disk with what
//! is delivered: that is left where it is until its partitions are ready for it. (Only an entry that brings more
//! than a partition has room for makes it wait.)

mod gauges;
mod grants;
mod guests;
mod held;
mod turns;

pub(crate) use gauges::Gauges;

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use portolan_model::{HostId, PartitionId};
use portolan_registry::{Partition, RegistryError, Rest};
use tokio::sync::{Notify, mpsc};
use tokio::task::{JoinSet, LocalSet};
use tokio::time::Instant;

use crate::client::{Client, Recall};
use crate::error::CrawlError;
use crate::fleet::Desk;
use crate::neighbour::{self, Question};
use crate::page::Workbench;
use crate::pools::PoolSizes;
use crate::routes::{Command, Ends, Parcel};
use crate::shared::Shared;
use held::{Folded, Partitions};

/// The longest a worker sleeps when nothing wakes it.
const IDLE_MAX_MS: u64 = 200;

/// Then connections are looked after, whatever else there is to do.
const BUSY_MAX: Duration = Duration::from_millis(3);

/// How soon partitions are looked at again that were not ready for what was delivered.
const NOT_READY_MS: u64 = 2;

pub(crate) struct Worker {
    pub(crate) shared: Arc<Shared>,
    partitions: Rc<RefCell<Partitions>>,
    client: Rc<Client>,
    /// Grants and returns go through their bytes, as between two processes.
    is_wired: bool,
    /// A seed-server's: where crawl-clients ask, and what wakes this worker when one does.
    desk: Option<(Arc<Desk>, Arc<Notify>)>,
    /// Its own client asks the Web. Without it, only crawl-clients do.
    fetches: bool,
    /// The tasks of turns.
    tasks: RefCell<JoinSet<()>>,
    /// Turns under way, whatever they wait for.
    turns: Cell<usize>,
    /// Those of them that ask hosts whose last request failed.
    failing_turns: Cell<usize>,
    /// URLs were to be judged again before any turn, and not all verdicts are in the queues yet.
    unjudged: Cell<bool>,
    /// The partition whose hosts get their turns first, the next time another one.
    first: Cell<usize>,
    wake: Notify,
    gauges: Arc<Gauges>,
    /// The last look of the node's reporter that was answered.
    shown: Cell<u64>,
}

/// What a worker thread is made from.
pub(crate) struct WorkerPlan {
    pub(crate) shared: Arc<Shared>,
    pub(crate) partitions: Vec<Partition>,
    pub(crate) bench: Workbench,
    pub(crate) ends: Ends,
    pub(crate) questions: mpsc::Receiver<Question>,
    pub(crate) pools: PoolSizes,
    pub(crate) max_idle: usize,
    pub(crate) gauges: Arc<Gauges>,
    /// See `Outside::wired`.
    pub(crate) is_wired: bool,
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
    LocalSet::new().block_on(&runtime, live(plan))
}

/// A worker's work, from its beginning to its end, as a task of a `LocalSet`.
pub(crate) async fn live(plan: WorkerPlan) -> Vec<Partition> {
    let partitions = Rc::new(RefCell::new(Partitions::of(plan.partitions)));
    let recall = (!plan.is_wired).then(|| Rc::clone(&partitions) as Rc<dyn Recall>);
    let shared = Arc::clone(&plan.shared);
    let client = Client::new(shared, plan.bench, plan.pools, plan.max_idle, recall);
    let membership = plan.shared.membership.as_ref();
    let worker = Rc::new(Worker {
        partitions,
        client: Rc::new(client),
        is_wired: plan.is_wired,
        desk: membership
            .and_then(|m| m.desk())
            .map(|desk| (Arc::clone(desk), desk.wake())),
        fetches: membership.is_none_or(|m| m.fetches()),
        tasks: RefCell::default(),
        turns: Cell::new(0),
        failing_turns: Cell::new(0),
        unjudged: Cell::new(plan.shared.judging.load(Ordering::SeqCst)),
        first: Cell::new(0),
        wake: Notify::new(),
        shown: Cell::new(0),
        gauges: plan.gauges,
        shared: plan.shared,
    });
    let mut ends = plan.ends;
    let answering = neighbour::answer(Rc::clone(&worker), plan.questions);
    let answering = tokio::task::spawn_local(answering);
    if let Err(error) = work(&worker, &mut ends).await {
        worker.shared.fail(error.into());
    }
    answering.abort();
    // Where something failed, turns may still be under way, and their partitions go now.
    worker.end_turns_now().await;
    let mut partitions = worker.partitions.take();
    // One that was on its way here when the crawl ended.
    while let Ok(command) = ends.commands.try_recv() {
        if let Command::Adopt(partition) = command {
            partitions.add(*partition);
        }
    }
    partitions.take_all()
}

async fn work(worker: &Rc<Worker>, ends: &mut Ends) -> Result<(), RegistryError> {
    let (mut next, mut command) = (None, None);
    // Since it was seen to that others of this thread could work; they may have since.
    let mut busy = Duration::ZERO;
    loop {
        if worker.shared.budget.is_stopping_now() {
            worker.end_turns_now().await;
        }
        let begun = Instant::now();
        let folded = worker.fold(&mut next, &mut ends.inbox)?;
        if folded == Folded::Ended {
            return Ok(());
        }
        worker.obey(command.take(), ends);
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
        let before = Instant::now();
        let waits = folded == Folded::NotReady;
        let rest_ms = match waits {
            true => rest_ms.clamp(1, NOT_READY_MS),
            false => rest_ms,
        };
        match worker.rest(ends, rest_ms).await {
            Rested::Parcel(parcel) => next = Some(*parcel),
            Rested::Command(told) => command = Some(told),
            Rested::Woken => {}
            Rested::Closed => return Ok(()),
        }
        if waits {
            worker.shared.metrics.note_held_back(before.elapsed());
            busy = Duration::ZERO;
        }
    }
}

enum Rested {
    Parcel(Box<Parcel>),
    Command(Command),
    Woken,
    /// The archivist has ended: nothing more will be delivered.
    Closed,
}

impl Worker {
    /// Run something on one of its partitions. Never held across an await. `id`: of a turn, which ends before its
    /// partition goes, or of a list that was made since.
    pub(crate) fn with<T>(&self, id: PartitionId, work: impl FnOnce(&mut Partition) -> T) -> T {
        let mut partitions = self.partitions.borrow_mut();
        let held = partitions.held.get_mut(&id);
        work(&mut held.expect("a partition stays while it is used").partition)
    }

    /// What a host of one of its partitions is owed outside of its turns; `None` if the partition is not here.
    pub(crate) fn rest_of(
        &self,
        id: PartitionId,
        host: HostId,
    ) -> Result<Option<Rest>, RegistryError> {
        let partitions = self.partitions.borrow();
        let held = partitions.held.get(&id);
        held.map(|held| held.partition.rest_of(host)).transpose()
    }

    /// A crawl-client asks; never where there are none.
    async fn asked_for_work(&self) {
        match &self.desk {
            Some((_, asked)) => asked.notified().await,
            None => std::future::pending().await,
        }
    }

    async fn rest(&self, ends: &mut Ends, rest_ms: u64) -> Rested {
        if rest_ms == 0 {
            tokio::task::yield_now().await;
            return Rested::Woken;
        }
        tokio::select! {
            biased;
            parcel = ends.inbox.recv() => parcel.map_or(Rested::Closed, |p| Rested::Parcel(Box::new(p))),
            Some(command) = ends.commands.recv() => Rested::Command(command),
            () = self.wake.notified() => Rested::Woken,
            () = self.asked_for_work() => Rested::Woken,
            () = tokio::time::sleep(Duration::from_millis(rest_ms)) => Rested::Woken,
        }
    }
}

#[cfg(test)]
mod tests;
