//! A clock that goes on while the machine sleeps and that nobody can set: leases are measured by it.

use std::sync::atomic::{AtomicU64, Ordering};

/// Milliseconds since this machine was started, the time that it slept included.
pub fn now_ms() -> u64 {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Boottime);
    now.tv_sec as u64 * 1_000 + now.tv_nsec as u64 / 1_000_000
}

/// Until when a node may ask the Web. Shared by all that ask; reading it costs one look at the clock.
#[derive(Debug, Default)]
pub struct Lease {
    /// By `now_ms`; 0 once it is lost for good.
    deadline_ms: AtomicU64,
}

impl Lease {
    /// A lease that never ran: nothing may be asked.
    pub(crate) fn none() -> Self {
        Self::default()
    }

    /// May a request be sent to the Web now? To be asked before **every** one.
    pub fn may_ask(&self) -> bool {
        now_ms() < self.deadline_ms.load(Ordering::Acquire)
    }

    /// Milliseconds until it ends; 0 if it has ended.
    pub fn left_ms(&self) -> u64 {
        self.deadline_ms
            .load(Ordering::Acquire)
            .saturating_sub(now_ms())
    }

    pub(crate) fn set_deadline(&self, deadline_ms: u64) {
        self.deadline_ms.store(deadline_ms, Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lease_ends_at_its_deadline() {
        let lease = Lease::none();
        assert!(!lease.may_ask());
        lease.set_deadline(now_ms() + 60_000);
        assert!(lease.may_ask() && lease.left_ms() > 50_000);
        lease.set_deadline(now_ms());
        assert!(!lease.may_ask() && lease.left_ms() == 0);
    }
}
