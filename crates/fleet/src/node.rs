//! One process that has joined a fleet.

use crate::records::{Commit, Epoch, Incarnation, ShipRecord};
use crate::{FleetError, Forward, Lease, NodeStatus, PublishError, ShipError};
use portolan_model::PartitionId;
use std::net::IpAddr;
use std::path::Path;
use std::sync::Arc;

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
    /// Its share of the work beside the others': 1 for a common machine.
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
    lease: Arc<Lease>,
    name: String,
}

impl Node {
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Until when requests may be sent to the Web.
    pub fn lease(&self) -> Arc<Lease> {
        self.lease.clone()
    }

    /// The last commit record of this incarnation as it was found when joining: what comes after it in the node's
    /// journal was not shipped.
    pub fn last_commit(&self) -> Option<&Commit> {
        None
    }

    /// Writes a record of this incarnation into the ship log and gives its number. Records are written one after the other. After
    /// `Unavailable`, call again with **the same** record.
    pub async fn ship(&self, _record: ShipRecord) -> Result<u64, ShipError> {
        Err(ShipError::Unavailable(
            "this version has no connection to NATS yet".to_owned(),
        ))
    }

    /// The node works for a partition that it was told to adopt.
    pub fn adopted(&self, _partition: PartitionId, _epoch: Epoch) {}

    /// The node has done with a partition that it was told to release: everything of it is shipped, and `seq` is its last
    /// entry. Ships `ShipRecord::Released`.
    pub async fn released(
        &self,
        _partition: PartitionId,
        _epoch: Epoch,
        _seq: u64,
    ) -> Result<u64, ShipError> {
        Err(ShipError::Unavailable(
            "this version has no connection to NATS yet".to_owned(),
        ))
    }

    /// Sends forwards to a partition, in order, and waits until the servers have them. Several calls for one destination
    /// wait for each other, so that the order holds; calls for different ones go on at once.
    pub async fn publish(
        &self,
        _destination: PartitionId,
        _forwards: Vec<Forward>,
    ) -> Result<(), PublishError> {
        Err(PublishError::Unavailable(
            "this version has no connection to NATS yet".to_owned(),
        ))
    }

    /// Says how the node is; to be called each second. The end of the crawl is found by it.
    pub async fn report(&self, _status: NodeStatus) {}

    /// Which look at the fleet is under way. To be read **before** the counters of a `NodeStatus` are, and put into it.
    pub fn look(&self) -> u64 {
        0
    }

    /// Asks for an address, for a short time; see `Slice`. `now` may be answered from what was granted before.
    pub async fn address_slice(&self, _address: IpAddr) -> Slice {
        Slice::Wait { ms: 1_000 }
    }

    /// Takes up to `pages` from what the fleet may still fetch. 0 if nothing is left, or if that cannot be found out now.
    pub async fn take_pages(&self, _pages: u64) -> u64 {
        0
    }

    /// Gives back what was taken and not used.
    pub async fn give_back(&self, _pages: u64) {}

    /// Has this node's partitions go to others: `Order::Release` comes for each of them, then call `leave`.
    pub async fn drain(&self) -> Result<(), FleetError> {
        Ok(())
    }

    /// Gives up the lease. What is still held goes to other nodes at once, from what was shipped.
    pub async fn leave(&self) {}
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
