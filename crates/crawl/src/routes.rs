//! Which worker has which partition, and the ways to the workers: deliveries, in order, and commands beside them. A
//! partition changes hands in the midst of a crawl: its worker ends its turns, has what follows delivered elsewhere, folds
//! what was delivered before, and sends it on.

use std::collections::BTreeMap;
use std::sync::{PoisonError, RwLock};

use portolan_model::PartitionId;
use portolan_registry::{Delivery, Partition};
use tokio::sync::{Mutex, mpsc, oneshot};

/// Entries that wait to be folded by a worker.
const DELIVERY_QUEUE: usize = 4096;

/// What comes to a worker in order.
#[expect(
    clippy::large_enum_variant,
    reason = "nearly all are deliveries, and a box would be made for each"
)]
pub(crate) enum Parcel {
    Delivery(Delivery),
    /// Nothing more is delivered here for this partition.
    Last(PartitionId),
}

/// What a worker is told to do beside its work. Whoever sends one has counted it as outstanding.
pub(crate) enum Command {
    /// Let a partition go.
    Release {
        partition: PartitionId,
        to: Destination,
    },
    /// Take it.
    Adopt(Box<Partition>),
}

/// Where a partition goes that a worker lets go.
pub(crate) enum Destination {
    Worker(usize),
    /// Another node of the fleet: the one who is told here sees to that.
    Node(oneshot::Sender<Partition>),
}

/// A worker's ends of the ways to it.
pub(crate) struct Ends {
    pub(crate) inbox: mpsc::Receiver<Parcel>,
    pub(crate) commands: mpsc::UnboundedReceiver<Command>,
}

#[derive(Default)]
pub(crate) struct Routes {
    owners: RwLock<BTreeMap<PartitionId, usize>>,
    /// By worker; none once the archivist has ended. Locked by who delivers, or changes where to.
    inboxes: Mutex<Vec<mpsc::Sender<Parcel>>>,
    /// By worker.
    commands: Vec<mpsc::UnboundedSender<Command>>,
}

impl Routes {
    /// Deals the partitions out to the workers, one after the other.
    pub(crate) fn deal(
        partitions: impl Iterator<Item = PartitionId>,
        workers: usize,
    ) -> (Self, Vec<Ends>) {
        let (mut inboxes, mut commands, mut ends) = (Vec::new(), Vec::new(), Vec::new());
        for _ in 0..workers {
            let (deliveries, inbox) = mpsc::channel(DELIVERY_QUEUE);
            let (orders, received) = mpsc::unbounded_channel();
            inboxes.push(deliveries);
            commands.push(orders);
            ends.push(Ends {
                inbox,
                commands: received,
            });
        }
        let owners = partitions.zip((0..workers).cycle()).collect();
        let routes = Self {
            owners: RwLock::new(owners),
            inboxes: Mutex::new(inboxes),
            commands,
        };
        (routes, ends)
    }

    pub(crate) fn workers(&self) -> usize {
        self.commands.len()
    }

    /// The worker that has a partition, or gets it next.
    pub(crate) fn owner(&self, partition: PartitionId) -> usize {
        let owners = self.owners.read().unwrap_or_else(PoisonError::into_inner);
        owners.get(&partition).copied().unwrap_or(0)
    }

    /// To their partitions' owners. A worker that is gone has failed and said so.
    pub(crate) async fn deliver(
        &self,
        deliveries: Vec<Delivery>,
        mut room: impl AsyncFnMut(&Delivery),
    ) {
        let inboxes = self.inboxes.lock().await;
        for delivery in deliveries {
            room(&delivery).await;
            if let Some(inbox) = inboxes.get(self.owner(delivery.partition)) {
                let _ = inbox.send(Parcel::Delivery(delivery)).await;
            }
        }
    }

    /// From now on a partition's entries go to the worker `to`, and its owner is told that there are no more for it.
    /// False if nothing is delivered any longer.
    pub(crate) async fn redirect(&self, partition: PartitionId, to: usize) -> bool {
        let inboxes = self.inboxes.lock().await;
        let Some(inbox) = inboxes.get(self.owner(partition)) else {
            return false;
        };
        self.set_owner(partition, to);
        inbox.send(Parcel::Last(partition)).await.is_ok()
    }

    /// Tells a partition's owner that nothing more is delivered for it: the journal does not hold it any longer.
    pub(crate) async fn end(&self, partition: PartitionId) {
        let inboxes = self.inboxes.lock().await;
        if let Some(inbox) = inboxes.get(self.owner(partition)) {
            let _ = inbox.send(Parcel::Last(partition)).await;
        }
    }

    pub(crate) fn set_owner(&self, partition: PartitionId, worker: usize) {
        let mut owners = self.owners.write().unwrap_or_else(PoisonError::into_inner);
        owners.insert(partition, worker);
    }

    /// A worker that is gone does nothing.
    pub(crate) fn command(&self, worker: usize, command: Command) {
        if let Some(orders) = self.commands.get(worker) {
            let _ = orders.send(command);
        }
    }

    /// Nothing more will be delivered.
    pub(crate) async fn close(&self) {
        self.inboxes.lock().await.clear();
    }

    /// The same where there is no runtime. Not to be called from async code.
    pub(crate) fn close_blocking(&self) {
        self.inboxes.blocking_lock().clear();
    }
}
