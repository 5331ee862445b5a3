//! What the crawl on a node knows of the fleet: may it ask the Web, which partitions are here, and what its agent is to
//! be told. Shared by workers, archivist, watcher and agent.

use std::collections::BTreeMap;
use std::fmt;
use std::net::IpAddr;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use portolan_fleet::Lease;
use portolan_model::{CanonicalUrl, HostId, Identities, PartitionId};
use tokio::sync::{mpsc, oneshot, watch};

use super::addresses::Addresses;
use super::booth::Booth;
use super::desk::Desk;
use super::guests::{Pass, Refused, Wish};
use super::role::Role;
use crate::commit::ToArchivist;
use crate::error::CrawlError;

/// What a crawl is told that is a node's part of a larger one.
#[derive(Clone)]
pub struct Part {
    pub(crate) secret: [u8; Identities::SECRET_BYTES],
    /// The same on all nodes.
    pub(crate) crawl_id: u64,
    /// Frames of the journal that this node has shipped.
    pub(crate) shipped_frames: u64,
    /// The fleet has a budget of pages: nothing is fetched before some of it is allotted.
    pub(crate) limited: bool,
    pub(crate) membership: Arc<Membership>,
}

impl fmt::Debug for Part {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Part({:016x})", self.crawl_id)
    }
}

/// What a worker shows of a partition.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PartitionLook {
    /// It is of after this look began.
    pub(crate) look: u64,
    pub(crate) partition: PartitionId,
    /// Forwards sent and heard.
    pub(crate) exchanged: (u64, u64),
    pub(crate) known: u64,
    pub(crate) due: u64,
    pub(crate) visited: u64,
    pub(crate) requests: u64,
    pub(crate) body_bytes: u64,
    /// Nothing is due here, or only in another run.
    pub(crate) exhausted: bool,
    /// Nothing is due here but URLs of hosts that fail.
    pub(crate) waits: bool,
    /// And none of them is asked just now.
    pub(crate) rests: bool,
}

/// How far the crawl on this node is on its way to its end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Phase {
    Working,
    /// Nothing is committed any more.
    Closed,
    /// And everything is shipped.
    Shipped,
    /// And what is not shipped never will be, for this reason.
    Lost(String),
}

pub(crate) struct Membership {
    lease: Arc<Lease>,
    /// A seed-server's: where crawl-clients ask for grants.
    desk: Option<Arc<Desk>>,
    /// Does this machine ask the Web for its own partitions?
    fetches: bool,
    /// A crawl-client's.
    booth: Option<Arc<Booth>>,
    /// A person has the fleet stand still.
    stopped: AtomicBool,
    /// More is unshipped than may be.
    crowded: AtomicBool,
    /// Only hosts that fail are left here, and were waited for.
    waiting: AtomicBool,
    /// Only such hosts seem to be left in the whole fleet: they are left alone until that is seen, or not true any more.
    quiet: AtomicBool,
    look: AtomicU64,
    looks: Mutex<BTreeMap<PartitionId, PartitionLook>>,
    archivist: mpsc::Sender<ToArchivist>,
    /// Until the archivist has it.
    told: Mutex<Option<mpsc::Receiver<ToArchivist>>>,
    roots: mpsc::UnboundedSender<CanonicalUrl>,
    /// Roots that were found here, and those that the agent has told of.
    roots_found: AtomicU64,
    roots_told: watch::Sender<u64>,
    phase: watch::Sender<Phase>,
    wishes: mpsc::UnboundedSender<Wish>,
    addresses: Addresses,
}

/// Orders that wait for the archivist.
const TOLD_MAX: usize = 64;

/// What the agent keeps of a membership.
pub(super) struct AgentEnds {
    /// Redirects of seeds, which widen the scope of all nodes.
    pub(super) roots: mpsc::UnboundedReceiver<CanonicalUrl>,
    /// Addresses that a slice is wanted of.
    pub(super) wanted: mpsc::UnboundedReceiver<IpAddr>,
    /// Hosts of other nodes that are to be asked something.
    pub(super) wishes: mpsc::UnboundedReceiver<Wish>,
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Membership {
    /// `desk` is given where partitions are held, `booth` on a crawl-client.
    pub(super) fn new(
        lease: Arc<Lease>,
        role: Role,
        desk: Option<Arc<Desk>>,
        booth: Option<Arc<Booth>>,
    ) -> (Arc<Self>, AgentEnds) {
        let (archivist, told) = mpsc::channel(TOLD_MAX);
        let (roots, found) = mpsc::unbounded_channel();
        let (addresses, wanted) = Addresses::new();
        let (wishes, wished) = mpsc::unbounded_channel();
        let membership = Self {
            lease,
            desk,
            fetches: role.fetches(),
            booth,
            stopped: AtomicBool::new(false),
            crowded: AtomicBool::new(false),
            waiting: AtomicBool::new(false),
            quiet: AtomicBool::new(false),
            look: AtomicU64::new(0),
            looks: Mutex::default(),
            archivist,
            told: Mutex::new(Some(told)),
            roots,
            roots_found: AtomicU64::new(0),
            roots_told: watch::Sender::new(0),
            phase: watch::Sender::new(Phase::Working),
            wishes,
            addresses,
        };
        let ends = AgentEnds {
            roots: found,
            wanted,
            wishes: wished,
        };
        (Arc::new(membership), ends)
    }

    pub(crate) fn desk(&self) -> Option<&Arc<Desk>> {
        self.desk.as_ref()
    }

    pub(crate) fn booth(&self) -> Option<&Arc<Booth>> {
        self.booth.as_ref()
    }

    /// Does this machine ask the Web for its own partitions?
    pub(crate) fn fetches(&self) -> bool {
        self.fetches
    }

    /// May a request to an address begin that is left alone for `pause_ms` after it?
    /// `Err`: the milliseconds after which to look again.
    pub(crate) fn may_ask_address(&self, address: IpAddr, pause_ms: u64) -> Result<(), u64> {
        self.addresses.may_ask(address, pause_ms)
    }

    /// Leave to send one request to a host that another node looks after.
    pub(crate) async fn pass_for(
        &self,
        partition: PartitionId,
        host: HostId,
    ) -> Result<Pass, Refused> {
        let (answer, answered) = oneshot::channel();
        let wish = Wish {
            partition,
            host,
            answer,
        };
        // Without an agent the crawl ends.
        let _ = self.wishes.send(wish);
        answered.await.unwrap_or(Err(Refused::For(0)))
    }

    pub(super) fn addresses(&self) -> &Addresses {
        &self.addresses
    }

    /// The archivist's end, for the archivist.
    pub(crate) fn take_told(&self) -> Option<mpsc::Receiver<ToArchivist>> {
        locked(&self.told).take()
    }

    /// May a request be sent to the Web now?
    pub(crate) fn may_ask(&self) -> bool {
        !self.stopped.load(Ordering::Relaxed)
            && !self.crowded.load(Ordering::Relaxed)
            && self.lease.may_ask()
    }

    pub(super) fn set_stopped(&self, stopped: bool) {
        self.stopped.store(stopped, Ordering::Relaxed);
    }

    pub(super) fn is_stopped(&self) -> bool {
        self.stopped.load(Ordering::Relaxed)
    }

    pub(super) fn set_crowded(&self, crowded: bool) {
        self.crowded.store(crowded, Ordering::Relaxed);
    }

    /// Why nothing is asked although hosts may be due; empty if it is.
    pub(super) fn why_still(&self) -> &'static str {
        if self.crowded.load(Ordering::Relaxed) {
            "nothing is fetched, because too much is not shipped yet"
        } else if !self.lease.may_ask() {
            "nothing is fetched without a lease"
        } else {
            ""
        }
    }

    /// Does a worker of this node have the partition?
    pub(crate) fn holds(&self, partition: PartitionId) -> bool {
        locked(&self.looks).contains_key(&partition)
    }

    /// The look that is to be answered by `show`.
    pub(crate) fn look(&self) -> u64 {
        self.look.load(Ordering::Acquire)
    }

    pub(crate) fn show(&self, shown: PartitionLook) {
        if let Some(look) = locked(&self.looks).get_mut(&shown.partition) {
            *look = shown;
        }
    }

    /// A new look begins.
    pub(super) fn begin_look(&self) -> u64 {
        self.look.fetch_add(1, Ordering::AcqRel) + 1
    }

    /// The partitions as they were shown last.
    pub(super) fn looks(&self) -> Vec<PartitionLook> {
        locked(&self.looks).values().copied().collect()
    }

    /// A partition has come; until a worker shows it, it counts as busy.
    pub(super) fn add(&self, partition: PartitionId) {
        let unseen = PartitionLook {
            look: 0,
            partition,
            exchanged: (0, 0),
            known: 0,
            due: 0,
            visited: 0,
            requests: 0,
            body_bytes: 0,
            exhausted: false,
            waits: false,
            rests: false,
        };
        locked(&self.looks).insert(partition, unseen);
    }

    pub(super) fn remove(&self, partition: PartitionId) {
        locked(&self.looks).remove(&partition);
    }

    pub(crate) fn note_waiting(&self, waiting: bool) {
        self.waiting.store(waiting, Ordering::Relaxed);
    }

    pub(super) fn has_waited(&self) -> bool {
        self.waiting.load(Ordering::Relaxed)
    }

    pub(super) fn set_quiet(&self, quiet: bool) {
        self.quiet.store(quiet, Ordering::Relaxed);
    }

    /// Are hosts that fail to be left alone?
    pub(crate) fn is_quiet(&self) -> bool {
        self.quiet.load(Ordering::Relaxed)
    }

    /// A seed has redirected here: the scope of all nodes begins here, too.
    pub(crate) fn note_root(&self, root: &CanonicalUrl) {
        self.roots_found.fetch_add(1, Ordering::SeqCst);
        let _ = self.roots.send(root.clone());
    }

    /// The next of those that were noted is known to all nodes.
    pub(super) fn note_root_told(&self) {
        self.roots_told.send_modify(|told| *told += 1);
    }

    /// Waits until all nodes know the roots that were found up to now: nobody is to have links that lie under them sooner.
    pub(super) async fn roots_are_told(&self) {
        let found = self.roots_found.load(Ordering::SeqCst);
        // The sender is here.
        let _ = self
            .roots_told
            .subscribe()
            .wait_for(|told| *told >= found)
            .await;
    }

    /// False if the crawl has ended.
    pub(crate) async fn tell_archivist(&self, told: ToArchivist) -> bool {
        self.archivist.send(told).await.is_ok()
    }

    /// Nothing is committed any more: waits until everything is shipped. An error if it never will be.
    pub(crate) async fn ship_the_rest(&self) -> Result<(), CrawlError> {
        self.phase.send_if_modified(|phase| {
            let working = *phase == Phase::Working;
            if working {
                *phase = Phase::Closed;
            }
            working
        });
        let mut phase = self.phase.subscribe();
        let is_done = |phase: &Phase| matches!(phase, Phase::Shipped | Phase::Lost(_));
        match phase.wait_for(is_done).await.as_deref() {
            Ok(Phase::Lost(why)) => Err(CrawlError::Fenced(why.clone())),
            Ok(_) => Ok(()),
            Err(_) => Err(CrawlError::Internal("the node's agent died".to_owned())),
        }
    }

    pub(super) fn set_phase(&self, phase: Phase) {
        self.phase.send_replace(phase);
    }

    pub(super) fn phases(&self) -> watch::Receiver<Phase> {
        self.phase.subscribe()
    }
}
