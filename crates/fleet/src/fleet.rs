//! What all nodes of a fleet have in common, and what a person does to a fleet from outside.

use crate::{
    Blobs, Definition, Delivery, FleetError, FleetStatus, Joining, NewFleet, Node, Order, Servers,
    Shipped, Wish,
};
use portolan_model::PartitionId;
use tokio::sync::mpsc;

/// A fleet, opened. Cheap to clone.
#[derive(Clone)]
pub struct Fleet {
    definition: std::sync::Arc<Definition>,
    blobs: Blobs,
}

fn unfinished<T>() -> Result<T, FleetError> {
    Err(FleetError::Unavailable(
        "this version has no connection to NATS yet".to_owned(),
    ))
}

impl Fleet {
    /// Makes a fleet: writes its definition, and makes its streams. Checks that the store can be written.
    pub async fn create(_servers: &Servers, new: NewFleet) -> Result<Self, FleetError> {
        let blobs = Blobs::open(&new.blobs)?;
        blobs.check_writable().await?;
        let _ = Definition::new(new)?;
        unfinished()
    }

    /// Finds a fleet that was made.
    pub async fn open(_servers: &Servers, name: &str) -> Result<Self, FleetError> {
        crate::check_name("a fleet", name)?;
        unfinished()
    }

    pub fn definition(&self) -> &Definition {
        &self.definition
    }

    /// The fleet's store.
    pub fn blobs(&self) -> &Blobs {
        &self.blobs
    }

    /// Becomes a node of the fleet: takes the lease, and writes `ShipRecord::Joined`. Spawns tasks on the current tokio
    /// runtime that renew the lease, listen for orders, answer for addresses and, where it is this node's turn,
    /// coordinate.
    ///
    /// Waits up to the lease's length where another process went by this name and place before.
    pub async fn join(
        &self,
        _joining: Joining,
    ) -> Result<(Node, mpsc::Receiver<Order>), FleetError> {
        unfinished()
    }

    /// The records of the ship log from message `from` on, in the log's order, as they come.
    pub fn ship_log(&self, _from: u64) -> ShipLog {
        ShipLog {}
    }

    /// The last record that a node wrote.
    pub async fn last_shipped(&self, _node: &str) -> Result<Option<Shipped>, FleetError> {
        unfinished()
    }

    /// The number of the ship log's last message; 0 if there is none.
    pub async fn ship_log_end(&self) -> Result<u64, FleetError> {
        unfinished()
    }

    /// A partition's links from the message after `cursor` on, in order, as they come. A stream that ends before
    /// `cursor` is refused: the servers have lost what they had acknowledged.
    pub async fn inbox(&self, _partition: PartitionId, _cursor: u64) -> Result<Inbox, FleetError> {
        unfinished()
    }

    /// Throws away a partition's links up to and with message `cursor`: they are settled.
    pub async fn purge(&self, _partition: PartitionId, _cursor: u64) -> Result<(), FleetError> {
        unfinished()
    }

    pub async fn status(&self) -> Result<FleetStatus, FleetError> {
        unfinished()
    }

    /// What everybody is to do from now on.
    pub async fn wish(&self, _wish: Wish) -> Result<(), FleetError> {
        unfinished()
    }

    /// Has a node's partitions go to others, or takes that back.
    pub async fn set_draining(&self, _node: &str, _draining: bool) -> Result<(), FleetError> {
        unfinished()
    }
}

/// See `Fleet::ship_log`.
pub struct ShipLog {}

impl ShipLog {
    /// The next record; waits until there is one, however long that takes. Drop the future to give up: nothing is lost.
    pub async fn next(&mut self) -> Shipped {
        std::future::pending().await
    }
}

/// See `Fleet::inbox`.
pub struct Inbox {}

impl Inbox {
    /// The next message; waits until there is one, however long that takes. Drop the future to give up: nothing is
    /// lost.
    pub async fn next(&mut self) -> Delivery {
        std::future::pending().await
    }
}
