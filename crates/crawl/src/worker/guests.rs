//! Another node asks a host of this worker's partitions, once: as long as it does, nobody else does.

use std::rc::Rc;
use std::time::Duration;

use portolan_model::{HostId, PartitionId};
use portolan_registry::RegistryError;
use tokio::sync::oneshot;

use super::Worker;
use crate::fleet::longest_ms;
use crate::gate::Door;
use crate::neighbour::Admitted;

/// How soon to ask again for a host of a partition that is about to leave.
const LEAVING_MS: u64 = 500;

impl Worker {
    /// Holds the host's door until `done` says for how long the host is to be left alone, or for as long as a visit may take. The
    /// partition stays meanwhile. `None` if it is not here.
    pub(crate) fn admit(
        self: &Rc<Self>,
        id: PartitionId,
        host: HostId,
        done: oneshot::Receiver<u64>,
    ) -> Result<Option<Admitted>, RegistryError> {
        let Some(rest) = self.rest_of(id, host)? else {
            return Ok(None);
        };
        let shared = &self.shared;
        let now_ms = shared.now_ms();
        if self.is_leaving(id) {
            return Ok(Some(Err(now_ms + LEAVING_MS)));
        }
        let door = Door::Host(host);
        if let Err(at_ms) = shared.gate.enter_as_guest(door, now_ms) {
            return Ok(Some(Err(at_ms)));
        }
        if rest.not_before_ms > now_ms {
            shared.gate.leave(door, rest.not_before_ms, now_ms);
            return Ok(Some(Err(rest.not_before_ms)));
        }
        self.note_turn(id, false);
        let longest = Duration::from_millis(longest_ms(shared.settings.http.request_timeout_ms));
        let unknown_ms = shared.politeness.unknown_delay_ms();
        let delay_ms = rest.delay_ms.unwrap_or(unknown_ms);
        let worker = Rc::clone(self);
        self.tasks.borrow_mut().spawn_local(async move {
            // A sender that is dropped says nothing: the guest may be asking still.
            let says = async {
                match done.await {
                    Ok(rest_ms) => rest_ms,
                    Err(_) => std::future::pending().await,
                }
            };
            let told = tokio::time::timeout(longest, says).await;
            worker.see_guest_off(id, host, told.unwrap_or(u64::from(delay_ms)));
        });
        Ok(Some(Ok(rest.delay_ms)))
    }

    fn see_guest_off(&self, id: PartitionId, host: HostId, rest_ms: u64) {
        let shared = &self.shared;
        let now_ms = shared.now_ms();
        if rest_ms > 0 {
            // No entry tells of the request.
            shared.note_pause(host, rest_ms);
        }
        shared
            .gate
            .leave(Door::Host(host), now_ms + rest_ms, now_ms);
        self.note_turn_over(id);
    }
}
