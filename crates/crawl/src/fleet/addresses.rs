//! Addresses that hosts of several nodes share: a node asks one only while it has a slice of its time.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, PoisonError};

use portolan_fleet::{Slice, boottime_ms};
use tokio::sync::mpsc;

use super::agent::Agent;

/// A request that begins later than this before a slice ends, and before the pause that is to follow it, might end
/// after it.
const REQUEST_MS: u64 = 1_000;
/// How soon a host is looked at again whose address is being asked for.
const PENDING_MS: u64 = 20;
/// With more addresses than this, those that are of no use any longer are forgotten.
const MANY: usize = 10_000;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Known {
    /// It is being asked for.
    Pending,
    Granted {
        until_ms: u64,
    },
    NotBefore {
        at_ms: u64,
    },
}

/// What the node knows of the addresses that it wants to ask. Times are those of `boottime_ms`.
pub(super) struct Addresses {
    known: Mutex<HashMap<IpAddr, Known>>,
    wanted: mpsc::UnboundedSender<IpAddr>,
}

impl Addresses {
    /// And what hears which addresses are wanted.
    pub(super) fn new() -> (Self, mpsc::UnboundedReceiver<IpAddr>) {
        let (wanted, hears) = mpsc::unbounded_channel();
        let known = Mutex::default();
        (Self { known, wanted }, hears)
    }

    /// May a request to the address begin, if it is left alone for `pause_ms` after it?
    /// `Err`: the milliseconds after which to look again.
    pub(super) fn may_ask(&self, address: IpAddr, pause_ms: u64) -> Result<(), u64> {
        let now_ms = boottime_ms();
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        match known.get(&address) {
            Some(Known::Granted { until_ms }) if now_ms + REQUEST_MS + pause_ms < *until_ms => {
                return Ok(());
            }
            Some(Known::NotBefore { at_ms }) if now_ms < *at_ms => return Err(at_ms - now_ms),
            Some(Known::Pending) => return Err(PENDING_MS),
            _ => {}
        }
        if known.len() >= MANY {
            known.retain(|_, known| match known {
                Known::Pending => true,
                Known::Granted { until_ms } => *until_ms > now_ms,
                Known::NotBefore { at_ms } => *at_ms > now_ms,
            });
        }
        known.insert(address, Known::Pending);
        // Without an agent nothing is granted.
        let _ = self.wanted.send(address);
        Err(PENDING_MS)
    }

    fn note(&self, address: IpAddr, slice: Slice) {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let noted = match slice {
            Slice::Granted { until_ms } => Known::Granted { until_ms },
            Slice::Wait { ms } => Known::NotBefore {
                at_ms: boottime_ms() + ms.max(1),
            },
        };
        known.insert(address, noted);
    }
}

/// Asks the addresses' homes for what workers want.
pub(super) async fn ask(agent: Arc<Agent>, mut wanted: mpsc::UnboundedReceiver<IpAddr>) {
    while let Some(address) = wanted.recv().await {
        let agent = Arc::clone(&agent);
        // One for each address at most.
        tokio::spawn(async move {
            let slice = agent.node.address_slice(address).await;
            agent.membership.addresses().note(address, slice);
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_asked_only_within_a_slice() {
        let (addresses, mut wanted) = Addresses::new();
        let address: IpAddr = "192.0.2.1".parse().expect("an address");
        assert_eq!(addresses.may_ask(address, 100), Err(PENDING_MS));
        assert_eq!(addresses.may_ask(address, 100), Err(PENDING_MS));
        assert_eq!(wanted.try_recv(), Ok(address));
        assert!(wanted.try_recv().is_err(), "it is asked for once");
        addresses.note(address, Slice::Wait { ms: 5_000 });
        assert!(addresses.may_ask(address, 100).is_err_and(|ms| ms > 4_000));
        let until_ms = boottime_ms() + REQUEST_MS + 60_000;
        addresses.note(address, Slice::Granted { until_ms });
        assert_eq!(addresses.may_ask(address, 100), Ok(()));
        assert!(
            addresses.may_ask(address, 60_001).is_err(),
            "its pause would be another node's time"
        );
        assert_eq!(
            wanted.try_recv(),
            Ok(address),
            "a slice that is nearly over is asked for anew"
        );
    }
}
