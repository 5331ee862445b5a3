//! A worker: one thread that owns some partitions, their hosts and their connections, and shares
//! nothing on the hot path. It folds what the archivist delivers, gives hosts their turns, and
//! keeps as many turns under way as its pools have places. It does not wait for the disk with what
//! is delivered: that is left where it is until its partitions are ready for it. (Only an entry that brings more
//! than a partition has room for makes it wait.)

use std::cell::{Cell, RefCell};
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use portolan_model::{HostId, PartitionId, Pulse};
use portolan_registry::{Delivery, Partition, RegistryError, Rest};
use tokio::sync::{Notify, mpsc};
use tokio::task::{JoinSet, LocalSet};
use tokio::time::Instant;

use crate::error::CrawlError;
use crate::metrics::Stage;
use crate::neighbour::{self, Question};
use crate::page::Workbench;
use crate::parking::Parking;
use crate::pools::{LOOK_EVERY, PoolSizes, Pools};
use crate::robots::RobotsCache;
use crate::shared::{Shared, UNFOLDED_KIB, kib};
use crate::turn;

/// The longest a worker sleeps when nothing wakes it.
const IDLE_MAX_MS: u64 = 200;

/// How often connections that have idled too long are closed.
const SWEEP_EVERY_MS: u64 = 250;

/// Turns are begun for this long before connections are looked after again: with many hosts, each may have to
/// read the disk.
const BEGIN_TURNS_MAX: Duration = Duration::from_millis(3);

/// When a turn ends, a host that is due is looked for in at most this many partitions. The worker looks at the others
/// a moment later.
const NEXT_SLOTS: usize = 4;

/// Then connections are looked after, whatever else there is to do.
const BUSY_MAX: Duration = Duration::from_millis(3);

/// How soon partitions are looked at again that look URLs up, if there is nothing else to do.
const LOOKING_UP_MS: u64 = 2;

/// How soon partitions are looked at again that were not ready for what was delivered.
const NOT_READY_MS: u64 = 2;

/// For this long no turn begins after this machine had run out of descriptors or ports.
const EXHAUSTED_HOLD_MS: u64 = 250;

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

/// What a worker shows of itself.
#[derive(Debug, Default)]
pub(crate) struct Gauges {
    pub(crate) known: AtomicU64,
    pub(crate) due: AtomicU64,
    pub(crate) turns: AtomicU64,
    /// Hosts that wait for their next turn, for whatever reason.
    pub(crate) queued: AtomicU64,
    /// Those of them whose address is asked for another host, or rests after that.
    pub(crate) by_address: AtomicU64,
    /// Turns that read a robots.txt.
    pub(crate) robots: AtomicU64,
    /// Hosts that rest because they failed, or are asked again after that.
    pub(crate) failing: AtomicU64,
    /// Nothing is due and nothing under way here.
    pub(crate) idle: AtomicBool,
    /// Nothing is due here but URLs of hosts that fail.
    pub(crate) waits: AtomicBool,
    /// The gauges are of after the last entry that was folded.
    pub(crate) looked: AtomicBool,
}

impl Gauges {
    /// Entries are folded, and what they made due is not looked at yet. `idle` and the other gauges are from before them: that
    /// is noted before the entries stop being outstanding, or for a moment nobody would seem to have anything to do.
    pub(crate) fn note_folded(&self, folded: &AtomicU64, outstanding: &AtomicU64, count: u64) {
        self.idle.store(false, Ordering::SeqCst);
        self.looked.store(false, Ordering::SeqCst);
        folded.fetch_add(count, Ordering::SeqCst);
        outstanding.fetch_sub(count, Ordering::SeqCst);
    }
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

/// Counts a turn as one that reads a robots.txt.
pub(crate) struct ReadingRobots(Rc<Cell<u64>>);

impl Drop for ReadingRobots {
    fn drop(&mut self) {
        self.0.set(self.0.get().saturating_sub(1));
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

/// The same pulse, but not before a time.
fn later(pulse: Pulse, at_ms: u64) -> Pulse {
    Pulse {
        not_before_ms: pulse.not_before_ms.max(at_ms),
        ..pulse
    }
}

/// What became of a partition's next turn.
enum Begun {
    Turn,
    /// No host is due.
    Nothing,
    /// Turns may not begin before this time, in milliseconds.
    NotBefore(u64),
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

    /// The turn is over: the host is queued again.
    pub(crate) fn end_turn(&self, slot: usize, host: HostId, pulse: Pulse, was_failing: bool) {
        let failing = self.failing_turns.get();
        self.failing_turns
            .set(failing.saturating_sub(usize::from(was_failing)));
        if let Err(error) = self.with(slot, |partition| partition.end_turn(host, pulse)) {
            self.shared.fail(error.into());
        }
        self.turns.set(self.turns.get().saturating_sub(1));
        self.wake.notify_one();
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

    /// Give turns to hosts that are due, as far as connections allow. Returns how long nothing
    /// needs to be looked at again, if nobody wakes us.
    fn begin_turns(self: &Rc<Self>) -> Result<u64, RegistryError> {
        let shared = &self.shared;
        let now_ms = shared.now_ms();
        let begun = Instant::now();
        let mut rest_ms = IDLE_MAX_MS;
        self.look_for_verdicts();
        let unjudged = self.unjudged.get();
        for slot in self.slots_in_turn() {
            let open = !shared.budget.is_stopping() && self.pools.has_room() && !unjudged;
            shared.metrics.sampled(Stage::Fold, || {
                self.with(slot, |partition| {
                    partition.tend(unjudged || (open && self.is_hungry(partition, now_ms)))
                })
            })?;
            if self.with(slot, |partition| partition.is_looking_up()) {
                rest_ms = rest_ms.min(LOOKING_UP_MS);
            }
            if !open {
                continue;
            }
            while self.pools.has_room() && begun.elapsed() < BEGIN_TURNS_MAX {
                match self.begin_turn(slot, now_ms)? {
                    Begun::Turn => {}
                    Begun::Nothing => break,
                    Begun::NotBefore(at_ms) => {
                        rest_ms = rest_ms.min(at_ms.saturating_sub(now_ms));
                        break;
                    }
                }
            }
            if let Some(due_ms) = self.with(slot, |p| p.next_due_ms()) {
                rest_ms = rest_ms.min(due_ms.saturating_sub(now_ms));
            }
        }
        if self.is_held(now_ms) {
            rest_ms = IDLE_MAX_MS;
        }
        if self.turns.get() == 0 && shared.outstanding.load(Ordering::Relaxed) > 0 {
            shared.commit_now.notify_one();
        }
        if now_ms >= self.sweep_at_ms.get() {
            self.sweep_at_ms.set(now_ms + SWEEP_EVERY_MS);
            self.parking.borrow_mut().sweep(now_ms);
        }
        // With all places taken there is nothing to begin, however much is due, until one is given back or freed.
        Ok(if !self.pools.has_room() {
            LOOK_EVERY.as_millis() as u64
        } else {
            rest_ms
        })
    }

    /// Are all URLs judged by the settings that changed? A verdict that waits to be looked up would come too late for
    /// a URL whose turn is now.
    fn look_for_verdicts(&self) {
        if self.unjudged.get() && !self.shared.judging.load(Ordering::SeqCst) {
            let partitions = self.partitions.borrow();
            let waiting = partitions.iter().any(|p| p.backlog().pending > 0);
            self.unjudged.set(waiting);
        }
    }

    /// Give the next host of the partition in `slot` its turn, or its place in the queue again if it is slow and
    /// finds no place. To be called when there is room.
    fn begin_turn(self: &Rc<Self>, slot: usize, now_ms: u64) -> Result<Begun, RegistryError> {
        if let Err(at_ms) = self.may_begin(slot, now_ms) {
            return Ok(Begun::NotBefore(at_ms));
        }
        let metrics = &self.shared.metrics;
        let turn = metrics.sampled(Stage::Choose, || self.with(slot, |p| p.begin_turn(now_ms)))?;
        let Some(turn) = turn else {
            return Ok(Begun::Nothing);
        };
        match self.pools.seat(turn.host, turn.pulse.failures, now_ms) {
            Ok(seat) => {
                self.turns.set(self.turns.get() + 1);
                let failing = usize::from(turn.pulse.is_failing());
                self.failing_turns.set(self.failing_turns.get() + failing);
                let turn = turn::run(Rc::clone(self), slot, turn, seat);
                self.tasks.borrow_mut().spawn_local(turn);
            }
            Err(at_ms) => self.with(slot, |p| p.end_turn(turn.host, later(turn.pulse, at_ms)))?,
        }
        Ok(Begun::Turn)
    }

    /// A turn has ended: its place is for the next host at once, of whichever partition's turn it is. If places waited
    /// until all answers that have come are worked through, turns would begin in bunches, their answers would come in
    /// bunches, and each would wait for the others of its bunch.
    pub(crate) fn begin_next(self: &Rc<Self>) {
        if self.shared.budget.is_stopping() || self.unjudged.get() || !self.pools.has_room() {
            return;
        }
        let now_ms = self.shared.now_ms();
        let is_due = |slot| {
            let due_ms = self.with(slot, |partition| partition.next_due_ms());
            due_ms.is_some_and(|due_ms| due_ms <= now_ms)
        };
        let Some(slot) = self.slots_in_turn().take(NEXT_SLOTS).find(|&s| is_due(s)) else {
            return;
        };
        if let Err(error) = self.begin_turn(slot, now_ms) {
            self.shared.fail(error.into());
        }
    }

    /// All partitions, beginning with another one each time.
    fn slots_in_turn(&self) -> impl Iterator<Item = usize> + use<> {
        let slots = self.partitions.borrow().len();
        let first = self.first.replace((self.first.get() + 1) % slots.max(1));
        (first..slots).chain(0..first)
    }

    async fn end_turns_now(&self) {
        let mut tasks = self.tasks.take();
        if tasks.is_empty() {
            return;
        }
        tasks.abort_all();
        while tasks.join_next().await.is_some() {}
        self.turns.set(0);
        self.failing_turns.set(0);
    }

    /// May the next host of the partition in `slot` have its turn? `Err`: when to look again.
    fn may_begin(&self, slot: usize, now_ms: u64) -> Result<(), u64> {
        if self.hold_until_ms.get() > now_ms {
            return Err(self.hold_until_ms.get());
        }
        if self.shared.network.down_since_ms().is_none() {
            return Ok(());
        }
        match self.with(slot, |partition| partition.next_due_ms()) {
            Some(due_ms) if due_ms <= now_ms => self.shared.network.may_begin(now_ms),
            Some(due_ms) => Err(due_ms),
            None => Err(now_ms + IDLE_MAX_MS),
        }
    }

    /// Turns may not begin although hosts are due.
    fn is_held(&self, now_ms: u64) -> bool {
        self.hold_until_ms.get() > now_ms || self.shared.network.down_since_ms().is_some()
    }

    /// A host waits until `at_ms` because another host at its address was asked.
    pub(crate) fn put_off_by_address(&self, at_ms: u64) {
        self.put_off.borrow_mut().note(at_ms);
        self.shared.metrics.add(&self.shared.metrics.put_off, 1);
    }

    /// A turn that reads a robots.txt is counted while the guard lives.
    pub(crate) fn reading_robots(&self) -> ReadingRobots {
        let count = Rc::clone(&self.reading_robots);
        count.set(count.get() + 1);
        ReadingRobots(count)
    }

    /// This machine has no descriptor or port left: idle connections are closed, and no turn begins for
    /// a moment, until others have ended.
    pub(crate) fn exhausted(&self, now_ms: u64) {
        self.hold_until_ms.set(now_ms + EXHAUSTED_HOLD_MS);
        self.parking.borrow_mut().clear();
        self.shared.metrics.add(&self.shared.metrics.exhausted, 1);
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

    /// Connections are looked after meanwhile, and nothing else is folded.
    async fn wait_for_disk(&self, rest_ms: u64) {
        let before = Instant::now();
        tokio::time::sleep(Duration::from_millis(rest_ms.clamp(1, NOT_READY_MS))).await;
        self.shared.metrics.note_held_back(before.elapsed());
    }

    /// Tell the watcher and the progress display how things stand.
    fn show(&self) {
        let partitions = self.partitions.borrow();
        let (mut known, mut due, mut queued, mut failing) = (0, 0, 0, 0);
        let (mut exhausted, mut waits) = (true, !self.unjudged.get());
        for partition in partitions.iter() {
            let (stats, backlog) = (partition.stats(), partition.backlog());
            known += stats.known;
            due += stats.due;
            queued += backlog.hosts_queued as u64;
            failing += backlog.hosts_failing as u64;
            waits &= backlog.hosts_queued == backlog.hosts_failing;
            // URLs of hosts that were given up are due, but not in this run.
            exhausted &=
                partition.is_exhausted() || (partition.is_resting() && backlog.hosts_queued == 0);
        }
        let by_address = self.put_off.borrow_mut().count(self.shared.now_ms());
        self.gauges.queued.store(queued, Ordering::Relaxed);
        self.gauges.by_address.store(by_address, Ordering::Relaxed);
        let robots = self.reading_robots.get();
        self.gauges.robots.store(robots, Ordering::Relaxed);
        let turns = self.turns.get();
        let failing = failing + self.failing_turns.get() as u64;
        self.gauges.failing.store(failing, Ordering::SeqCst);
        waits &= turns == self.failing_turns.get();
        self.gauges.waits.store(waits, Ordering::SeqCst);
        self.gauges.known.store(known, Ordering::Relaxed);
        self.gauges.due.store(due, Ordering::Relaxed);
        self.gauges.turns.store(turns as u64, Ordering::Relaxed);
        let stopping = self.shared.budget.is_stopping();
        self.gauges
            .idle
            .store(turns == 0 && (exhausted || stopping), Ordering::SeqCst);
        self.gauges.looked.store(true, Ordering::SeqCst);
    }
}
