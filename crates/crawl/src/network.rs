//! Whose fault is it? When hosts that answered before stop answering one after the other and nobody
//! else answers in between, it is our own network that is gone, not they. Then no host is blamed:
//! turns pause, one host is asked from time to time, and the first answer ends the pause.

use std::collections::HashSet;
use std::sync::Mutex;

use portolan_model::HostId;

/// At least this many hosts must have stopped answering.
const LEAST_HOSTS: usize = 3;
/// This many are enough, however many hosts there are.
const ENOUGH_HOSTS: usize = 20;
/// Hosts that answered are counted up to this many.
const COUNTED_HOSTS: usize = 2 * ENOUGH_HOSTS;
/// The first pause between two looks whether the network is back; it doubles up to the longest.
const FIRST_LOOK_MS: u64 = 1_000;
const LONGEST_LOOK_MS: u64 = 15_000;

#[derive(Debug, Default)]
pub(crate) struct Network {
    state: Mutex<Signs>,
}

#[derive(Debug, Default)]
struct Signs {
    /// Hosts that answered in this run, up to `COUNTED_HOSTS` of them.
    answered: HashSet<HostId>,
    /// Hosts that failed since the last answer of anybody: those that had answered before, or any
    /// while nobody has answered in this run.
    silent: HashSet<HostId>,
    down: Option<Down>,
    /// How often the network went, and how long it was gone in all.
    outages: u64,
    gone_ms: u64,
}

#[derive(Debug, Clone, Copy)]
struct Down {
    since_ms: u64,
    look_at_ms: u64,
    pause_ms: u64,
}

impl Network {
    /// `host` sent something that is HTTP.
    pub(crate) fn answered(&self, host: HostId, now_ms: u64) {
        let mut state = self.lock();
        if state.answered.len() < COUNTED_HOSTS {
            state.answered.insert(host);
        }
        state.silent.clear();
        if let Some(down) = state.down.take() {
            let gone_ms = now_ms.saturating_sub(down.since_ms);
            tracing::warn!(gone_ms, "the network is back");
            state.gone_ms += now_ms.saturating_sub(down.since_ms);
        }
    }

    /// `host` could not be reached or did not answer; `was_well`: it had answered when it was asked
    /// before. Is it our network that is down?
    pub(crate) fn failed(&self, host: HostId, was_well: bool, now_ms: u64) -> bool {
        let mut state = self.lock();
        if state.down.is_some() {
            return true;
        }
        if (was_well || state.answered.is_empty()) && state.silent.len() < ENOUGH_HOSTS {
            state.silent.insert(host);
        }
        let most = (state.answered.len() / 2).clamp(LEAST_HOSTS, ENOUGH_HOSTS);
        if state.silent.len() < most {
            return false;
        }
        tracing::warn!(
            hosts = state.silent.len(),
            "no network: these hosts stopped answering, and no other answered since"
        );
        state.outages += 1;
        state.down = Some(Down {
            since_ms: now_ms,
            look_at_ms: now_ms + FIRST_LOOK_MS,
            pause_ms: FIRST_LOOK_MS,
        });
        true
    }

    /// Since when the network is down.
    pub(crate) fn down_since_ms(&self) -> Option<u64> {
        self.lock().down.map(|down| down.since_ms)
    }

    /// May a turn begin? While the network is down, one may now and then: it is the look whether it
    /// is back. `Err`: when to come back.
    pub(crate) fn may_begin(&self, now_ms: u64) -> Result<(), u64> {
        let mut state = self.lock();
        match &mut state.down {
            None => Ok(()),
            Some(down) if down.look_at_ms <= now_ms => {
                down.pause_ms = (2 * down.pause_ms).min(LONGEST_LOOK_MS);
                down.look_at_ms = now_ms + down.pause_ms;
                Ok(())
            }
            Some(down) => Err(down.look_at_ms),
        }
    }

    /// How often the network went in this run, and for how long in all.
    pub(crate) fn outages(&self, now_ms: u64) -> (u64, u64) {
        let state = self.lock();
        let open = state
            .down
            .map_or(0, |down| now_ms - down.since_ms.min(now_ms));
        (state.outages, state.gone_ms + open)
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Signs> {
        self.state
            .lock()
            .unwrap_or_else(|poisoned| poisoned.into_inner())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hosts(numbers: std::ops::Range<u64>) -> impl Iterator<Item = HostId> {
        numbers.map(HostId)
    }

    #[test]
    fn when_most_hosts_stop_answering_it_is_us_and_the_first_answer_ends_it() {
        let network = Network::default();
        hosts(0..60).for_each(|host| network.answered(host, 1));
        let told: Vec<bool> = hosts(0..20).map(|h| network.failed(h, true, 5)).collect();
        assert!(told[..19].iter().all(|down| !down) && told[19], "{told:?}");
        assert_eq!(network.down_since_ms(), Some(5));
        assert!(network.may_begin(5).is_err());
        assert_eq!(network.may_begin(1_005), Ok(()));
        assert_eq!(network.may_begin(1_005), Err(3_005));
        network.answered(HostId(7), 4_005);
        assert_eq!(network.down_since_ms(), None);
        assert_eq!(network.may_begin(4_005), Ok(()));
        assert_eq!(network.outages(9_000), (1, 4_000));
    }

    #[test]
    fn hosts_that_were_dead_before_or_fail_beside_healthy_ones_are_not_us() {
        let network = Network::default();
        network.answered(HostId(1), 1);
        assert!(!hosts(100..1_000).any(|host| network.failed(host, false, 2)));
        for round in 0..100 {
            assert!(!network.failed(HostId(200 + round), true, 3));
            assert!(!network.failed(HostId(400 + round), true, 3));
            network.answered(HostId(1), 4);
        }
    }

    #[test]
    fn a_crawl_that_begins_without_a_network_notices() {
        let network = Network::default();
        assert!(!network.failed(HostId(1), false, 1));
        assert!(!network.failed(HostId(1), false, 2));
        assert!(!network.failed(HostId(2), false, 3));
        assert!(network.failed(HostId(3), false, 4));
    }
}
