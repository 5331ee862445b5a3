//! One process that has joined a fleet.

mod address;
mod ascend;
mod coordinate;
mod ferry;
mod guests;
mod join;
mod keep;
mod leaving;
mod publish;
mod roots;
mod trim;
mod watch;
mod work;

pub use guests::{Guest, GuestSays, HostSays};
pub use leaving::Leaving;
pub use work::{Asked, HandedIn, PackedReturn};

use crate::error::{FleetError, PublishError, ShipError};
use crate::fleet::Fleet;
use crate::links::Forward;
use crate::protocol::{Answer, Holder, Homes};
use crate::records::{Commit, Epoch, Incarnation, ShipRecord};
use crate::ship::Ship;
use crate::status::{NodeStatus, Reported};
use crate::{Lease, names};
use portolan_model::PartitionId;
use std::collections::{BTreeMap, HashMap};
use std::net::IpAddr;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

/// Who wants to join.
#[derive(Clone, Debug)]
pub struct Joining {
    /// Letters, digits and '-'; no other node of the fleet may have it.
    pub node: String,
    /// Drawn at random when the node's directory was made, or after it was fenced, and kept in it.
    pub incarnation: Incarnation,
    /// Has this incarnation never joined before? Otherwise its last record is looked for in the ship log.
    pub fresh: bool,
    /// Which directory of which machine: `Joining::place_of`. A process of the same place takes the lease over at once,
    /// since the directory's lock says that the process before is gone.
    pub place: String,
    /// `Definition::checksum`, as the node's directory remembers it.
    pub checksum: String,
    /// Its share of the work beside the others': 1 for a common machine; 0 for one that gets no partitions, as crawl-clients.
    pub weight: f64,
}

impl Joining {
    /// Names a directory on this machine as it runs now.
    pub fn place_of(dir: &Path) -> std::io::Result<String> {
        let boot = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
        let dir = std::fs::canonicalize(dir)?;
        Ok(format!("{} {}", boot.trim(), dir.display()))
    }
}

/// A node: this process, as the fleet knows it. Cheap to clone; when the last clone is dropped, its tasks end and the
/// lease runs out.
#[derive(Clone)]
pub struct Node {
    inner: Arc<Inner>,
    /// Ends the tasks when the last `Node` is dropped; they hold `inner` themselves.
    _end: Arc<EndOnDrop>,
}

struct EndOnDrop(CancellationToken);

impl Drop for EndOnDrop {
    fn drop(&mut self) {
        self.0.cancel();
    }
}

/// What the tasks of a node share.
struct Inner {
    fleet: Fleet,
    me: Holder,
    session: u64,
    lease: Arc<Lease>,
    ship: Ship,
    /// The number of this process's `Joined`.
    joined: u64,
    last_commit: Option<Commit>,
    /// Revision of the lease as this process wrote it last.
    revision: AtomicU64,
    look: AtomicU64,
    quiet: AtomicBool,
    reports: AtomicU64,
    /// Messages and bytes of links that were sent.
    link_messages: AtomicU64,
    link_bytes: AtomicU64,
    homes: Mutex<Homes>,
    /// What was granted to this node, until when.
    slices: Mutex<HashMap<IpAddr, u64>>,
    destinations: Mutex<BTreeMap<PartitionId, Arc<tokio::sync::Mutex<()>>>>,
    /// A group's: what its coordinator answers to the hub's look.
    answer: Mutex<Option<Answer>>,
    /// Why other groups' servers do not take links.
    not_taken: Mutex<BTreeMap<String, String>>,
    orders: mpsc::Sender<crate::Instruction>,
    fenced: AtomicBool,
    end: CancellationToken,
}

impl Node {
    pub fn name(&self) -> &str {
        &self.inner.me.node
    }

    pub fn incarnation(&self) -> Incarnation {
        self.inner.me.incarnation
    }

    /// Until when requests may be sent to the Web.
    pub fn lease(&self) -> Arc<Lease> {
        self.inner.lease.clone()
    }

    /// The last commit record of this incarnation as it was found when joining: what comes after it in the node's
    /// journal was not shipped.
    pub fn last_commit(&self) -> Option<&Commit> {
        self.inner.last_commit.as_ref()
    }

    /// Writes a record of this incarnation into the ship log and gives its number. Records are written one after the
    /// other. After `Unavailable`, call again with **the same** record.
    pub async fn ship(&self, record: ShipRecord) -> Result<u64, ShipError> {
        let shipped = self.inner.ship.ship(&record).await;
        if let Err(ShipError::Fenced(why)) = &shipped {
            self.inner.fence(why).await;
        }
        shipped
    }

    /// The node works for a partition that it was told to adopt.
    pub fn adopted(&self, partition: PartitionId, epoch: Epoch) {
        tracing::info!(partition = partition.0, epoch, "adopted");
    }

    /// The node has done with a partition that it was told to release: everything of it is shipped, and `seq` is its
    /// last entry. Ships `ShipRecord::Released`.
    pub async fn released(
        &self,
        partition: PartitionId,
        epoch: Epoch,
        seq: u64,
    ) -> Result<u64, ShipError> {
        let incarnation = self.incarnation();
        self.ship(ShipRecord::Released {
            incarnation,
            partition: partition.0,
            epoch,
            seq,
        })
        .await
    }

    /// Sends forwards to a partition, in order, and waits until the servers have them. Several calls for one destination
    /// wait for each other, so that the order holds; calls for different ones go on at once.
    pub async fn publish(
        &self,
        destination: PartitionId,
        forwards: Vec<Forward>,
    ) -> Result<(), PublishError> {
        self.inner.publish(destination, &forwards).await
    }

    /// Messages of links that this process has sent, and their bytes as they went over the wire. What went through the store counts
    /// by its key alone.
    pub fn links_sent(&self) -> (u64, u64) {
        let inner = &self.inner;
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        (read(&inner.link_messages), read(&inner.link_bytes))
    }

    /// Says how the node is; to be called each second. The end of the crawl is found by it.
    pub async fn report(&self, status: NodeStatus) {
        let inner = &self.inner;
        let reported = Reported {
            incarnation: inner.me.incarnation,
            session: inner.session,
            number: inner.reports.fetch_add(1, Ordering::Relaxed),
            program: env!("CARGO_PKG_VERSION").to_owned(),
            status,
        };
        let Ok(json) = serde_json::to_vec(&reported) else {
            return;
        };
        let key = names::status_key(&inner.me.node);
        if let Err(error) = inner.fleet.main().put(&key, json.into()).await {
            tracing::debug!(%error, "the status was not taken");
        }
    }

    /// Which look at the fleet is under way. To be read **before** the counters of a `NodeStatus` are, and put into it.
    pub fn look(&self) -> u64 {
        self.inner.look.load(Ordering::Acquire)
    }

    /// Are hosts that fail to be left alone for now? See `Control::quiet`.
    pub fn is_quiet(&self) -> bool {
        self.inner.quiet.load(Ordering::Relaxed)
    }

    /// Asks for an address, for a short time; see `Slice`. Answered at once while a slice lasts.
    pub async fn address_slice(&self, address: IpAddr) -> Slice {
        self.inner.address_slice(address).await
    }

    /// Takes up to `pages` from what the fleet may still fetch. 0 if nothing is left, or if that cannot be found out now.
    pub async fn take_pages(&self, pages: u64) -> u64 {
        let taken = crate::budget::take(self.inner.fleet.main(), self.incarnation(), pages).await;
        taken.unwrap_or_else(|error| {
            tracing::debug!(%error, "the page budget was not read");
            0
        })
    }

    /// Of what this life of the node took before, only what it has settled counts from now on: to be called before
    /// anything is taken.
    pub async fn begin_budget(&self) -> Result<(), FleetError> {
        let settled = self.last_commit().map_or(0, |commit| commit.pages);
        let lives = [(self.incarnation(), settled)];
        crate::budget::settle(self.inner.fleet.main(), lives).await
    }

    /// Every address is left alone for `ms` after a request: slices of its time are to have room for that.
    pub fn leave_addresses_alone(&self, ms: u64) {
        self.inner.homes().leave_alone(ms);
    }

    /// Gives back what was taken and not used.
    pub async fn give_back(&self, pages: u64) {
        if let Err(error) =
            crate::budget::give_back(self.inner.fleet.main(), self.incarnation(), pages).await
        {
            tracing::debug!(%error, "pages were not given back");
        }
    }

    /// Gives up the lease. What is still held goes to other nodes at once, from what was shipped.
    pub async fn leave(&self) {
        self.inner.leave().await;
    }
}

impl Inner {
    /// This life of the node is over.
    async fn fence(&self, why: &str) {
        self.lease.set_deadline(0);
        if !self.fenced.swap(true, Ordering::AcqRel) {
            tracing::warn!(why, "fenced");
            // Nobody may listen any more.
            let _ = self
                .orders
                .send(crate::Instruction::Fenced(why.to_owned()))
                .await;
            self.end.cancel();
        }
    }

    fn homes(&self) -> std::sync::MutexGuard<'_, Homes> {
        self.homes.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What a node may do with an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Slice {
    /// Requests to it may be sent until then, by `boottime_ms`; the pauses between them are the node's to keep. Another
    /// node may be granted it right afterwards: the last request must have been answered, and the address's pause
    /// kept, by then.
    Granted { until_ms: u64 },
    /// It is another node's turn, or nobody can say: ask again after this time.
    Wait { ms: u64 },
}
