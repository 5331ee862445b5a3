//! The mapping stage: host names are resolved as soon as a link to them is found, ahead of the
//! host's first turn, several at once, on a thread of its own. It fills the cache that turns ask; a
//! name that it has no time for is resolved by the turn itself.

use std::sync::Arc;

use portolan_model::HostId;
use portolan_net::Mapping;
use tokio::sync::mpsc;
use tokio::task::JoinSet;

use crate::generations::Generations;

/// Names that wait to be resolved; more are left to their turns.
const NAMES_QUEUE: usize = 4_096;

/// Hosts that a worker remembers having sent here, twice over.
const HOSTS_REMEMBERED: usize = 16_384;

/// Where names are dropped off; one for each worker.
#[derive(Debug)]
pub(crate) struct NameDrop {
    /// `None` where names are for a proxy to resolve.
    names: Option<mpsc::Sender<String>>,
    sent: Generations<HostId, ()>,
}

impl NameDrop {
    pub(crate) fn new(names: mpsc::Sender<String>) -> Self {
        Self {
            names: Some(names),
            sent: Generations::with_bound(HOSTS_REMEMBERED),
        }
    }

    /// Nobody but a proxy is to hear of names.
    pub(crate) fn shut() -> Self {
        Self {
            names: None,
            sent: Generations::with_bound(1),
        }
    }

    /// A link leads to `host`: have it resolved, unless that was asked for lately.
    pub(crate) fn offer(&mut self, host: HostId, name: &str) {
        let Some(names) = &self.names else { return };
        if self.sent.get(&host).is_none() && names.try_send(name.to_owned()).is_ok() {
            self.sent.insert(host, ());
        }
    }
}

pub(crate) fn queue() -> (mpsc::Sender<String>, mpsc::Receiver<String>) {
    mpsc::channel(NAMES_QUEUE)
}

/// The body of the mapping thread: until no worker is left to drop names off.
pub(crate) fn run(mapping: Arc<Mapping>, at_once: usize, names: mpsc::Receiver<String>) {
    let Ok(runtime) = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
    else {
        // Turns resolve what they need; nothing depends on this thread.
        return;
    };
    runtime.block_on(live(mapping, at_once, names));
}

/// Resolves names until no worker is left to drop them off.
pub(crate) async fn live(mapping: Arc<Mapping>, at_once: usize, mut names: mpsc::Receiver<String>) {
    let mut lookups = JoinSet::new();
    while let Some(name) = names.recv().await {
        while lookups.len() >= at_once.max(1) {
            lookups.join_next().await;
        }
        let mapping = Arc::clone(&mapping);
        // The answer is in the cache, or its absence is; both are for the turn to find.
        lookups.spawn(async move { mapping.resolve(&name).await.is_ok() });
    }
}
