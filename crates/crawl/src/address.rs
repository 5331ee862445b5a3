//! The door of the address that is asked: held from before the connection is made until the answer is
//! read, and always that of the address really connected to, which may not be the first of a host's.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use portolan_net::{Connection, NetError, Origin, Resolved};
use tokio::time::{Instant, sleep, timeout};

use crate::gate::Door;
use crate::shared::Shared;

/// At most this many addresses of a host are tried.
const MAX_ADDRESSES_TRIED: usize = 4;

/// So long we wait, connected to nothing, for another address of the host to be free.
const OTHER_ADDRESS_WAIT_MS: u64 = 5_000;

/// Given back with a pause when it is dropped, also when the request is given up half-way.
pub(crate) struct AddressDoor {
    shared: Arc<Shared>,
    held: Option<IpAddr>,
}

impl AddressDoor {
    /// Take the door of `ip`, or learn when to come back. Without a delay by address there are no
    /// doors.
    pub(crate) fn enter(shared: &Arc<Shared>, ip: Option<IpAddr>) -> Result<Self, u64> {
        let mut door = Self {
            shared: Arc::clone(shared),
            held: None,
        };
        match ip {
            Some(ip) if shared.politeness.ip_delay_ms() > 0 => door.take(ip).map(|()| door),
            _ => Ok(door),
        }
    }

    /// A connection to one of the addresses, the first that takes one, with that one's door held.
    pub(crate) async fn connect(
        &mut self,
        origin: &Origin,
        resolved: &Resolved,
    ) -> Result<Connection, NetError> {
        let shared = Arc::clone(&self.shared);
        let addresses = self.in_order(resolved);
        if self.held.is_none() || (addresses.len() == 1 && self.held == Some(addresses[0])) {
            return shared.connector.connect(origin, resolved).await;
        }
        let limit_ms = shared.connector.settings().connect_timeout_ms;
        let too_slow = || NetError::Timeout {
            waiting_for: "a connection",
            after_ms: limit_ms,
        };
        let deadline = Instant::now() + Duration::from_millis(limit_ms);
        let mut failure = too_slow();
        for (tried, &ip) in addresses.iter().enumerate() {
            if !self.move_to(ip).await {
                continue;
            }
            let one = Resolved {
                addresses: vec![ip],
                ..resolved.clone()
            };
            // Each gets an equal share of the time that is left.
            let left = deadline.saturating_duration_since(Instant::now());
            let share = left / (addresses.len() - tried) as u32;
            failure = match timeout(share, shared.connector.connect(origin, &one)).await {
                Ok(Err(
                    error @ (NetError::Connect { .. }
                    | NetError::Timeout { .. }
                    | NetError::PrivateAddress(_)),
                )) => error,
                Ok(result) => return result,
                Err(_) => too_slow(),
            };
        }
        Err(failure)
    }

    /// The host's addresses, that of the held door first.
    fn in_order(&self, resolved: &Resolved) -> Vec<IpAddr> {
        let known = &resolved.addresses[..resolved.addresses.len().min(MAX_ADDRESSES_TRIED)];
        let held = known.iter().filter(|ip| self.held == Some(**ip));
        let others = known.iter().filter(|ip| self.held != Some(**ip));
        held.chain(others).copied().collect()
    }

    /// Leave the door that is held and take another; whether that was to be had.
    async fn move_to(&mut self, ip: IpAddr) -> bool {
        if self.held == Some(ip) {
            return true;
        }
        self.leave();
        let until_ms = self.shared.now_ms() + OTHER_ADDRESS_WAIT_MS;
        while let Err(at_ms) = self.take(ip) {
            if at_ms > until_ms {
                return false;
            }
            let wait_ms = at_ms.saturating_sub(self.shared.now_ms()).max(1);
            sleep(Duration::from_millis(wait_ms)).await;
        }
        true
    }

    fn take(&mut self, ip: IpAddr) -> Result<(), u64> {
        let now_ms = self.shared.now_ms();
        if let Some(membership) = &self.shared.membership {
            let pause_ms = self.shared.politeness.ip_delay_ms();
            let may_ask = membership.may_ask_address(ip, pause_ms);
            may_ask.map_err(|wait_ms| now_ms + wait_ms)?;
        }
        self.shared.gate.enter(Door::Address(ip), now_ms)?;
        self.held = Some(ip);
        Ok(())
    }

    fn leave(&mut self) {
        if let Some(ip) = self.held.take() {
            let now_ms = self.shared.now_ms();
            let not_before_ms = now_ms + self.shared.politeness.ip_delay_ms() + 1;
            self.shared
                .gate
                .leave(Door::Address(ip), not_before_ms, now_ms);
        }
    }
}

impl Drop for AddressDoor {
    fn drop(&mut self) {
        self.leave();
    }
}
