//! Becoming a node: the lease, then the first record, then the tasks.

use super::{EndOnDrop, Inner, Joining, Node};
use crate::error::FleetError;
use crate::fleet::Fleet;
use crate::nats::Swap;
use crate::protocol::{Holder, Homes, LeaseRecord, Patience};
use crate::ship::Ship;
use crate::{Instruction, Lease, boottime_ms, definition, names};
use bytes::Bytes;
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

/// Orders that nobody has taken yet.
const WAITING_ORDERS: usize = 1_024;

/// How often a lease is looked at that may be another's.
const LOOK: Duration = Duration::from_millis(500);

impl Fleet {
    /// Becomes a node of the fleet: takes the lease, and writes `ShipRecord::Joined`. Spawns tasks on the current tokio
    /// runtime that renew the lease, listen for orders, answer for addresses and, where it is this node's turn,
    /// coordinate.
    ///
    /// Waits a little longer than a lease where a process went by this name that is not there any more; refuses where it
    /// still is.
    pub async fn join(
        &self,
        joining: Joining,
    ) -> Result<(Node, mpsc::Receiver<Instruction>), FleetError> {
        crate::check_name("a node", &joining.node)?;
        let theirs = self.definition().checksum();
        if joining.checksum != theirs {
            let (node, ours) = (joining.node, joining.checksum);
            return Err(FleetError::OtherSettings { node, ours, theirs });
        }
        let session = u64::from_le_bytes(definition::random()?);
        let record = LeaseRecord {
            incarnation: joining.incarnation,
            session,
            place: joining.place.clone(),
            weight: joining.weight,
            renewed: 0,
            program: env!("CARGO_PKG_VERSION").to_owned(),
        };
        let (sent_ms, revision) = self.take_lease(&joining.node, &record).await?;
        let ship = Ship::open(self.bus(), &joining.node).await?;
        let joined = ship.join(joining.incarnation, session, joining.fresh).await;
        let (joined, last_commit) = match joined {
            Ok(joined) => joined,
            Err(error) => {
                let _ = self
                    .leases()
                    .swap(&names::lease_key(&joining.node), None, revision)
                    .await;
                return Err(error);
            }
        };
        let (orders, receiver) = mpsc::channel(WAITING_ORDERS);
        let end = CancellationToken::new();
        let inner = Arc::new(Inner {
            fleet: self.clone(),
            me: Holder {
                node: joining.node.clone(),
                incarnation: joining.incarnation,
            },
            session,
            lease: Arc::new(Lease::none()),
            ship,
            joined,
            last_commit,
            revision: AtomicU64::new(revision),
            look: AtomicU64::new(0),
            quiet: AtomicBool::new(false),
            reports: AtomicU64::new(0),
            link_messages: AtomicU64::new(0),
            link_bytes: AtomicU64::new(0),
            homes: Mutex::new(Homes::new(&joining.node)),
            slices: Mutex::default(),
            destinations: Mutex::default(),
            answer: Mutex::default(),
            not_taken: Mutex::default(),
            orders,
            fenced: AtomicBool::new(false),
            end: end.clone(),
        });
        self.set_draining(&joining.node, false).await?;
        inner.clone().spawn_tasks(record, sent_ms, revision);
        Ok((
            Node {
                inner,
                _end: Arc::new(EndOnDrop(end)),
            },
            receiver,
        ))
    }

    /// When the write that took the lease was sent, and its revision.
    async fn take_lease(&self, node: &str, record: &LeaseRecord) -> Result<(u64, u64), FleetError> {
        let key = names::lease_key(node);
        let json = Bytes::from(serde_json::to_vec(record).unwrap_or_default());
        let patience = Patience::of(self.definition().lease_ms);
        let mut watched: Option<(u64, u64)> = None;
        loop {
            let entry = self.leases().get(&key).await?;
            let held = entry
                .value
                .as_deref()
                .and_then(|json| serde_json::from_slice::<LeaseRecord>(json).ok());
            if let Some(held) = held.filter(|held| held.place != record.place) {
                let (revision, since_ms) = *watched.get_or_insert((entry.revision, boottime_ms()));
                if revision != entry.revision {
                    return Err(FleetError::NodeInUse(node.to_owned()));
                }
                if boottime_ms() <= since_ms + patience.lease_ms + patience.margin_ms {
                    tracing::debug!(session = held.session, "another process went by this name");
                    tokio::time::sleep(LOOK).await;
                    continue;
                }
            }
            let sent_ms = boottime_ms();
            if let Swap::Done(revision) = self
                .leases()
                .swap(&key, Some(json.clone()), entry.revision)
                .await?
            {
                return Ok((sent_ms, revision));
            }
        }
    }
}

impl Inner {
    fn spawn_tasks(self: Arc<Self>, record: LeaseRecord, sent_ms: u64, revision: u64) {
        let until = |end: CancellationToken,
                     task: std::pin::Pin<Box<dyn Future<Output = ()> + Send>>| async move {
            tokio::select! {
                () = end.cancelled() => {}
                () = task => {}
            }
        };
        let end = self.end.clone();
        tokio::spawn(until(
            end.clone(),
            Box::pin(self.clone().keep_lease(record, sent_ms, revision)),
        ));
        tokio::spawn(until(end.clone(), Box::pin(self.clone().watch_orders())));
        tokio::spawn(until(end.clone(), Box::pin(self.clone().serve_addresses())));
        if self.fleet.group().is_some() {
            let addresses = self.clone().serve_other_groups();
            tokio::spawn(until(end.clone(), Box::pin(addresses)));
            tokio::spawn(until(end.clone(), Box::pin(self.clone().serve_pieces())));
        }
        tokio::spawn(until(end, Box::pin(self.coordinate())));
    }
}
