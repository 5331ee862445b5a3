//! Delivery: what is in the journal goes to the workers that own its partitions, as far as these have room for it.

use std::sync::Arc;

use portolan_registry::Delivery;
use tokio::sync::mpsc;

use crate::shared::{Shared, UNFOLDED_KIB, kib, owner};

/// The workers' inboxes.
pub(crate) struct Owners {
    shared: Arc<Shared>,
    /// By worker.
    inboxes: Vec<mpsc::Sender<Delivery>>,
}

impl Owners {
    pub(crate) fn new(shared: Arc<Shared>, inboxes: Vec<mpsc::Sender<Delivery>>) -> Self {
        Self { shared, inboxes }
    }

    /// Waits while workers have too much to fold. A worker that is gone has failed and said so.
    pub(crate) async fn deliver(&self, delivery: Delivery) {
        let kib = kib(delivery.entry.ram_bytes(), UNFOLDED_KIB);
        if let Ok(room) = self.shared.unfolded.acquire_many(kib).await {
            room.forget();
        }
        let owner = owner(delivery.partition, self.inboxes.len());
        let _ = self.inboxes[owner].send(delivery).await;
    }
}
