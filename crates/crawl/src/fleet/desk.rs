//! A seed-server's desk: crawl-clients ask here for work, workers give grants out, returns come in. What is granted and has not
//! come back is open; only the worker that granted decides when that is over.

use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use portolan_fleet::{Want, Work};
use portolan_model::PartitionId;
use portolan_registry::{Grant, GrantId, Return};
use tokio::sync::{Notify, oneshot};
use tokio::time::Instant;

use super::pace::Pacer;

/// A client that asks waits this long for something that is due.
const PATIENCE: Duration = Duration::from_millis(400);
/// Once there is a grant, others that can be had at once go along.
const GATHER: Duration = Duration::from_millis(15);
/// Who took a ticket reads the disk, perhaps, for this long at most: then its grant is nobody's.
const DISK: Duration = Duration::from_secs(2);
const LOOK_EVERY: Duration = Duration::from_millis(5);
/// Grants of one answer take about this many bytes before they are packed; one more may exceed it.
const ANSWER_BYTES: usize = 384 * 1024;

/// A return that came in, and who is told whether it counts.
pub(crate) struct Incoming {
    pub(crate) back: Return,
    /// The sender's clock.
    pub(crate) sent_ms: u64,
    pub(crate) taken: oneshot::Sender<bool>,
}

/// What becomes of a grant.
pub(crate) enum Came {
    Back(Incoming),
    /// It did not leave: nobody has it.
    NotGiven,
}

/// The right to give one grant to one client that asks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Ticket(u64);

pub(crate) struct Desk {
    inner: Mutex<Inner>,
    /// Workers, to be woken when a client asks.
    wakes: Mutex<Vec<Arc<Notify>>>,
    /// By partition: the client that its DSet is for; empty: any.
    reserved: Vec<String>,
    pub(crate) grant_ms: u64,
    /// Grants of whoever had a partition before may be for this long.
    hold_ms: u64,
    pub(crate) counts: Counts,
}

/// Since the process began.
#[derive(Debug, Default)]
pub(crate) struct Counts {
    pub(crate) grants: AtomicU64,
    pub(crate) returns: AtomicU64,
    pub(crate) expired: AtomicU64,
    /// Documents that clients brought.
    pub(crate) pages: AtomicU64,
    pub(crate) grant_bytes: AtomicU64,
    pub(crate) return_bytes: AtomicU64,
}

#[derive(Default)]
struct Inner {
    next: u64,
    asking: BTreeMap<u64, Asking>,
    open: HashMap<GrantId, oneshot::Sender<Came>>,
    held: BTreeMap<PartitionId, Hold>,
    pacer: Pacer,
}

/// A partition that grants nothing for a time: whoever had it may have granted.
struct Hold {
    until: Instant,
    /// Nor are its hosts asked from here: there are crawl-clients that may have such grants.
    for_all: bool,
}

impl Inner {
    /// Does the partition grant nothing now? And is it held for all?
    fn hold_of(&mut self, partition: PartitionId) -> Option<bool> {
        let hold = self.held.get(&partition)?;
        if hold.until > Instant::now() {
            return Some(hold.for_all);
        }
        self.held.remove(&partition);
        None
    }
}

/// A client that asks, and what it gets.
struct Asking {
    client: String,
    left: u32,
    /// Tickets that were taken and are not used yet.
    out: u32,
    grants: Vec<(GrantId, Bytes)>,
    bytes: usize,
    first_at: Option<Instant>,
}

impl Asking {
    /// It gets no more tickets.
    fn is_full(&self) -> bool {
        self.left == 0 || self.bytes >= ANSWER_BYTES
    }

    /// Nothing more comes for it.
    fn is_done(&self) -> bool {
        self.is_full() && self.out == 0
    }
}

impl Desk {
    pub(crate) fn new(reserved: Vec<String>, grant_ms: u64, hold_ms: u64) -> Self {
        Self {
            inner: Mutex::default(),
            wakes: Mutex::default(),
            reserved,
            grant_ms,
            hold_ms,
            counts: Counts::default(),
        }
    }

    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What wakes a worker when a client asks.
    pub(crate) fn wake(&self) -> Arc<Notify> {
        let wake = Arc::default();
        let mut wakes = self.wakes.lock().unwrap_or_else(PoisonError::into_inner);
        wakes.push(Arc::clone(&wake));
        wake
    }

    fn wake_workers(&self) {
        let wakes = self.wakes.lock().unwrap_or_else(PoisonError::into_inner);
        wakes.iter().for_each(|worker| worker.notify_one());
    }

    /// Somebody else may have granted hosts of the partition lately: those grants must have expired before others are given.
    /// `has_clients`: there are crawl-clients that may work through them now, so that nobody may ask these hosts. Among
    /// peers alone nobody does, and the partition is not to stand still for it.
    pub(crate) fn hold(&self, partition: PartitionId, has_clients: bool) {
        let hold = Hold {
            until: Instant::now() + Duration::from_millis(self.hold_ms + MARGIN_MS),
            for_all: has_clients,
        };
        self.inner().held.insert(partition, hold);
    }

    /// May hosts of the partition be asked from here?
    pub(crate) fn lets_ask(&self, partition: PartitionId) -> bool {
        self.inner().hold_of(partition) != Some(true)
    }

    /// Does any client ask?
    pub(crate) fn has_askers(&self) -> bool {
        let inner = self.inner();
        inner.asking.values().any(|asking| !asking.is_full())
    }

    /// Does a client ask that may have grants of the partition?
    pub(crate) fn is_wanted(&self, partition: PartitionId) -> bool {
        let mut inner = self.inner();
        let is_free = inner.hold_of(partition).is_none();
        let mut asking = inner.asking.values();
        is_free && asking.any(|asking| self.suits(asking, partition))
    }

    /// Takes one of the places that clients ask work for.
    pub(crate) fn ticket(&self, partition: PartitionId) -> Option<Ticket> {
        let mut inner = self.inner();
        if inner.hold_of(partition).is_some() {
            return None;
        }
        // Whoever has got least so far comes first.
        let asking = inner.asking.iter_mut();
        let fitting = asking.filter(|(_, asking)| self.suits(asking, partition));
        let (&number, asking) = fitting.min_by_key(|(_, asking)| asking.grants.len())?;
        asking.left -= 1;
        asking.out += 1;
        Some(Ticket(number))
    }

    /// A client that a DSet is for gets nothing else; DSets that are for nobody are for all others.
    fn suits(&self, asking: &Asking, partition: PartitionId) -> bool {
        !asking.is_full() && self.may_have(&asking.client, partition)
    }

    /// Gives a grant out. `None`: its client has gone meanwhile.
    pub(crate) fn give(&self, ticket: Ticket, grant: &Grant) -> Option<oneshot::Receiver<Came>> {
        let bytes = grant.encode();
        let mut inner = self.inner();
        let asking = inner.asking.get_mut(&ticket.0)?;
        asking.out -= 1;
        asking.bytes += bytes.len();
        asking.grants.push((grant.id, bytes.into()));
        asking.first_at.get_or_insert_with(Instant::now);
        let (comes, coming) = oneshot::channel();
        inner.open.insert(grant.id, comes);
        self.counts.grants.fetch_add(1, Ordering::Relaxed);
        Some(coming)
    }

    /// The place of a ticket that was not used.
    pub(crate) fn put_back(&self, ticket: Ticket) {
        if let Some(asking) = self.inner().asking.get_mut(&ticket.0) {
            asking.left += 1;
            asking.out -= 1;
        }
    }

    /// It has expired: what comes of it from now on does not count. False if a return is being taken already.
    pub(crate) fn expire(&self, grant: GrantId) -> bool {
        let was_open = self.inner().open.remove(&grant).is_some();
        if was_open {
            self.counts.expired.fetch_add(1, Ordering::Relaxed);
        }
        was_open
    }

    /// These did not leave.
    pub(super) fn take_again(&self, grants: &[GrantId]) {
        let mut inner = self.inner();
        for comes in grants.iter().filter_map(|grant| inner.open.remove(grant)) {
            // Who waits is there, unless the crawl has ended.
            let _ = comes.send(Came::NotGiven);
        }
    }

    /// A client asks: what there is for it, as soon as there is something, and which grants these are. `due` are URLs that are
    /// due and that it may have.
    pub(super) async fn serve(
        &self,
        want: &Want,
        due: u64,
        now_ms: impl Fn() -> u64,
    ) -> (Work, Vec<GrantId>) {
        let (number, target, pace) = {
            let mut inner = self.inner();
            let (target, pace) = inner.pacer.look(want, due);
            inner.next += 1;
            let number = inner.next;
            let room = target.saturating_sub(want.running).min(want.slots);
            let asking = Asking {
                client: want.client.clone(),
                left: room,
                out: 0,
                grants: Vec::new(),
                bytes: 0,
                first_at: None,
            };
            inner.asking.insert(number, asking);
            (number, target, pace)
        };
        self.wake_workers();
        let until = Instant::now() + PATIENCE;
        loop {
            tokio::time::sleep(LOOK_EVERY).await;
            let mut inner = self.inner();
            let Some(asking) = inner.asking.get(&number) else {
                break;
            };
            let gathered = asking.first_at.is_some_and(|at| at.elapsed() >= GATHER);
            let (is_done, now) = (asking.is_done(), Instant::now());
            let is_over = (gathered || now >= until) && asking.out == 0;
            if !is_done && !is_over && now < until + DISK {
                continue;
            }
            let grants = inner.asking.remove(&number).map(|asking| asking.grants);
            let (ids, grants) = grants.unwrap_or_default().into_iter().unzip();
            let work = Work {
                now_ms: now_ms(),
                target,
                pace,
                grants,
            };
            return (work, ids);
        }
        (Work::default(), Vec::new())
    }

    /// What a client brings; true if it counts.
    pub(super) async fn take(&self, back: Return, sent_ms: u64) -> bool {
        let Some(waits) = self.inner().open.remove(&back.id) else {
            self.counts.expired.fetch_add(1, Ordering::Relaxed);
            return false;
        };
        let (taken, answer) = oneshot::channel();
        let incoming = Incoming {
            back,
            sent_ms,
            taken,
        };
        if waits.send(Came::Back(incoming)).is_err() {
            return false;
        }
        let taken = answer.await.unwrap_or(false);
        if taken {
            self.counts.returns.fetch_add(1, Ordering::Relaxed);
        }
        taken
    }

    /// The clients that this server may give a partition's grants to.
    pub(super) fn may_have(&self, client: &str, partition: PartitionId) -> bool {
        let wanted = self.reserved.get(usize::from(partition.0));
        let wanted = wanted.map_or("", String::as_str);
        let is_bound = self.reserved.iter().any(|bound| bound == client);
        wanted == client || (wanted.is_empty() && !is_bound)
    }
}

/// A grant counts as expired this long after its client may ask nothing more.
pub(crate) const MARGIN_MS: u64 = 2_000;

#[cfg(test)]
mod tests {
    use super::*;
    use portolan_model::{HostId, Pulse};
    use portolan_registry::Turn;

    fn grant(number: u64) -> Grant {
        Grant {
            id: GrantId {
                partition: PartitionId(0),
                epoch: 0,
                number,
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

    fn want(client: &str, slots: u32) -> Want {
        Want {
            client: client.to_owned(),
            slots,
            running: 0,
            most: slots,
            first: slots,
        }
    }

    #[tokio::test]
    async fn who_asks_gets_tickets_of_its_dsets_alone() {
        let reserved = vec!["one".to_owned(), String::new()];
        let desk = Arc::new(Desk::new(reserved, 60_000, 60_000));
        let (bound, free) = (PartitionId(0), PartitionId(1));
        assert!(!desk.is_wanted(free));
        let asks = |name: &'static str| {
            let desk = Arc::clone(&desk);
            tokio::spawn(async move { desk.serve(&want(name, 1), 10, || 5).await })
        };
        let other = asks("other");
        tokio::task::yield_now().await;
        assert!(!desk.is_wanted(bound), "it is another client's");
        assert!(desk.is_wanted(free));
        let one = asks("one");
        tokio::task::yield_now().await;
        assert!(desk.is_wanted(bound));
        assert!(desk.ticket(bound).is_some());
        assert!(desk.ticket(bound).is_none(), "it asked for one");
        assert!(desk.ticket(free).is_some(), "the other client's");
        assert!(desk.ticket(free).is_none(), "the bound client gets no more");
        assert!(one.await.expect("an answer").1.is_empty());
        assert!(other.await.expect("an answer").1.is_empty());
    }

    #[tokio::test(start_paused = true)]
    async fn a_grant_that_takes_its_time_is_waited_for() {
        let desk = Arc::new(Desk::new(Vec::new(), 60_000, 60_000));
        let asks = Arc::clone(&desk);
        let asks = tokio::spawn(async move { asks.serve(&want("one", 1), 10, || 5).await });
        tokio::task::yield_now().await;
        let grant = grant(7);
        let ticket = desk.ticket(grant.id.partition).expect("it is wanted");
        tokio::time::sleep(PATIENCE + LOOK_EVERY).await;
        assert!(desk.give(ticket, &grant).is_some());
        assert_eq!(asks.await.expect("an answer").1, [grant.id]);
    }

    #[tokio::test]
    async fn grants_that_did_not_leave_are_told_to_who_gave_them() {
        let desk = Arc::new(Desk::new(Vec::new(), 60_000, 60_000));
        let asks = Arc::clone(&desk);
        let asks = tokio::spawn(async move { asks.serve(&want("one", 1), 10, || 5).await });
        tokio::task::yield_now().await;
        let grant = grant(7);
        let ticket = desk.ticket(grant.id.partition).expect("it is wanted");
        let coming = desk.give(ticket, &grant).expect("its client is there");
        let (work, given) = asks.await.expect("an answer");
        assert_eq!((work.grants.len(), &given[..]), (1, &[grant.id][..]));
        desk.take_again(&given);
        assert!(matches!(coming.await, Ok(Came::NotGiven)));
        assert!(!desk.expire(grant.id), "it is over");
    }

    #[tokio::test(start_paused = true)]
    async fn who_may_have_been_granted_a_host_is_waited_for() {
        let desk = Arc::new(Desk::new(Vec::new(), 60_000, 60_000));
        let (among_peers, with_clients) = (PartitionId(0), PartitionId(1));
        desk.hold(among_peers, false);
        desk.hold(with_clients, true);
        let asks = Arc::clone(&desk);
        let asks = tokio::spawn(async move { asks.serve(&want("one", 2), 10, || 5).await });
        tokio::task::yield_now().await;
        for held in [among_peers, with_clients] {
            assert!(!desk.is_wanted(held));
            assert_eq!(desk.ticket(held), None);
        }
        assert!(desk.lets_ask(among_peers));
        assert!(!desk.lets_ask(with_clients));
        assert!(asks.await.expect("an answer").1.is_empty());
        tokio::time::sleep(Duration::from_millis(60_000 + MARGIN_MS)).await;
        assert!(desk.lets_ask(with_clients), "such grants have expired");
        let asks = Arc::clone(&desk);
        tokio::spawn(async move { asks.serve(&want("one", 2), 10, || 5).await });
        tokio::task::yield_now().await;
        assert!(desk.is_wanted(with_clients));
        assert!(desk.ticket(among_peers).is_some());
    }
}
