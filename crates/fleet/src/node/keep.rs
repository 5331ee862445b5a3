//! Renews the node's lease.

use super::Inner;
use crate::nats::Swap;
use crate::protocol::{Keeper, KeeperAction, LeaseRecord, Renewal};
use crate::{boottime_ms, names};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

/// Without an outcome for this long, another server is tried. What was under way over the old connection is lost, and has timed
/// out by then.
const ANOTHER_SERVER: Duration = Duration::from_secs(6);

impl Inner {
    pub(super) async fn keep_lease(
        self: Arc<Self>,
        mut record: LeaseRecord,
        sent_ms: u64,
        revision: u64,
    ) {
        let key = names::lease_key(&self.me.node);
        let mut keeper = Keeper::new(self.fleet.definition().lease_ms, revision, sent_ms);
        self.lease.set_deadline(keeper.first_deadline_ms());
        loop {
            let now_ms = boottime_ms();
            let Some(KeeperAction::Renew { revision }) = keeper.tick(now_ms) else {
                // The machine may sleep: short naps.
                let wait_ms = keeper.next_ms().saturating_sub(now_ms).clamp(10, 500);
                tokio::time::sleep(Duration::from_millis(wait_ms)).await;
                continue;
            };
            // What nobody knows the outcome of is sent again as it was.
            let json = serde_json::to_vec(&record).unwrap_or_default();
            let swap = self.fleet.leases().swap(&key, Some(json.into()), revision);
            let renewal = match self.by_any_server(swap).await {
                Ok(Swap::Done(revision)) => {
                    record.renewed += 1;
                    Renewal::Done { revision }
                }
                Ok(Swap::Lost(_)) => Renewal::Refused,
                Err(error) => {
                    tracing::debug!(%error, "the lease was not renewed");
                    Renewal::Unknown
                }
            };
            match keeper.renewed(renewal, boottime_ms()) {
                Some(KeeperAction::Holds { until_ms }) => {
                    self.revision.store(keeper.revision(), Ordering::Release);
                    self.lease.set_deadline(until_ms);
                }
                Some(KeeperAction::Lost) => {
                    self.fence("its lease was taken away").await;
                    return;
                }
                Some(KeeperAction::Renew { .. }) | None => {}
            }
        }
    }

    /// Goes on with a request over other connections while there is no outcome: the server that this node is connected to
    /// may be cut off from the others.
    async fn by_any_server<T>(&self, request: impl Future<Output = T>) -> T {
        let mut request = std::pin::pin!(request);
        loop {
            match tokio::time::timeout(ANOTHER_SERVER, &mut request).await {
                Ok(outcome) => return outcome,
                Err(_) => {
                    tracing::warn!("NATS does not answer, and is connected to anew");
                    // It fails only where the client has ended.
                    let _ = self.fleet.bus().client.force_reconnect().await;
                }
            }
        }
    }

    /// Gives the lease up, and ends the node's tasks.
    pub(super) async fn leave(&self) {
        self.end.cancel();
        self.lease.set_deadline(0);
        let key = names::lease_key(&self.me.node);
        let mut revision = self.revision.load(Ordering::Acquire);
        loop {
            match self.fleet.leases().swap(&key, None, revision).await {
                // A renewal was still on its way.
                Ok(Swap::Lost(entry)) if self.is_own(entry.value.as_deref()) => {
                    revision = entry.revision
                }
                Ok(_) => return,
                Err(error) => {
                    tracing::debug!(%error, "the lease runs out instead of being given up");
                    return;
                }
            }
        }
    }

    fn is_own(&self, json: Option<&[u8]>) -> bool {
        let record = json.and_then(|json| serde_json::from_slice::<LeaseRecord>(json).ok());
        record.is_some_and(|record| record.session == self.session)
    }
}
