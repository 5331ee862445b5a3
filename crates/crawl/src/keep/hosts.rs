//! What the schedule knows of hosts: how often their pages change, whether they may be asked, and whether their signals are believed.

use std::collections::HashMap;

use portolan_freshness::PooledHistory;
use portolan_model::{HostId, PartitionId};

use crate::links::NoHash;

/// URLs of a host that are due by this schedule: as many as the host can answer in this time, ...
const WINDOW_MS: u64 = 2_000;
/// ... and within these bounds.
const MIN_WINDOW: u64 = 2;
const MAX_WINDOW: u64 = 64;

/// A page whose host has enough to do is looked at again within this many ticks.
const LATEST_LOOK: u32 = 3_600;

/// Signals of a host that were wrong more often than this are not believed ...
const BELIEVED_FROM: f64 = 0.25;
/// ... but for one in this many, so that a host that mends its ways is believed again.
const BELIEVED_ALL_THE_SAME: u32 = 16;

#[derive(Debug)]
pub(crate) struct Host {
    pub(crate) id: HostId,
    pub(crate) partition: PartitionId,
    pub(crate) pool: PooledHistory,
    /// Its pages in the schedule.
    pub(crate) pages: u32,
    delay_ms: u64,
    /// URLs that are due by this schedule and not settled yet.
    outstanding: u64,
    /// It failed, and rests until this tick.
    rests_until: u32,
    /// Pages that wait for it were told to look again up to this tick, ...
    slot: f64,
    /// ... and those of which it is known that they have changed, and its sitemaps, up to this one.
    pressing_slot: f64,
    right_signals: f64,
    wrong_signals: f64,
    unbelieved: u32,
}

impl Host {
    fn new(id: HostId, partition: PartitionId, delay_ms: u64) -> Self {
        Self {
            id,
            partition,
            pool: PooledHistory::default(),
            pages: 0,
            delay_ms,
            outstanding: 0,
            rests_until: 0,
            slot: 0.0,
            pressing_slot: 0.0,
            right_signals: 0.0,
            wrong_signals: 0.0,
            unbelieved: 0,
        }
    }

    pub(crate) fn set_delay(&mut self, delay_ms: u64) {
        self.delay_ms = delay_ms;
    }

    pub(crate) fn delay_ms(&self) -> u64 {
        self.delay_ms
    }

    pub(crate) fn rest_until(&mut self, tick: u32) {
        self.rests_until = tick;
    }

    pub(crate) fn asked(&mut self) {
        self.outstanding += 1;
    }

    pub(crate) fn settled(&mut self) {
        self.outstanding = self.outstanding.saturating_sub(1);
    }

    /// The tick from which on another of its URLs may become due. One that may not is given a place behind those that were
    /// told before, so that each is looked at once and not again and again. What is pressing waits only for what is
    /// pressing, too: there may be thousands of other pages.
    pub(crate) fn not_before(&mut self, now: u32, tick_ms: u32, is_pressing: bool) -> u32 {
        let window = (WINDOW_MS / self.delay_ms.max(1)).clamp(MIN_WINDOW, MAX_WINDOW);
        if self.outstanding < window && self.rests_until <= now {
            return now;
        }
        let slot = match is_pressing {
            true => &mut self.pressing_slot,
            false => &mut self.slot,
        };
        let earliest = self.rests_until.max(now).saturating_add(1);
        let at = slot.max(f64::from(earliest));
        let latest = now.saturating_add(LATEST_LOOK);
        if at > f64::from(latest) {
            return latest;
        }
        *slot = at + self.delay_ms as f64 / f64::from(tick_ms);
        at as u32
    }

    /// Is a signal of this host worth anything?
    pub(crate) fn believes_signal(&mut self) -> bool {
        let share = (self.right_signals + 1.0) / (self.right_signals + self.wrong_signals + 2.0);
        if share >= BELIEVED_FROM {
            return true;
        }
        self.unbelieved += 1;
        self.unbelieved.is_multiple_of(BELIEVED_ALL_THE_SAME)
    }

    /// A page with a signal was fetched. What is long past counts less and less.
    pub(crate) fn judge_signal(&mut self, right: bool) {
        const KEPT: f64 = 0.98;
        self.right_signals = self.right_signals * KEPT + f64::from(u8::from(right));
        self.wrong_signals = self.wrong_signals * KEPT + f64::from(u8::from(!right));
    }
}

/// Hosts by number and by identity.
#[derive(Debug, Default)]
pub(crate) struct Hosts {
    all: Vec<Host>,
    numbers: HashMap<u64, u32, NoHash>,
    /// Of a host of which nothing is known.
    usual_delay_ms: u64,
}

impl Hosts {
    pub(crate) fn new(usual_delay_ms: u64) -> Self {
        Self {
            usual_delay_ms,
            ..Self::default()
        }
    }

    pub(crate) fn number(&mut self, id: HostId, partition: PartitionId) -> u32 {
        let (all, delay_ms) = (&mut self.all, self.usual_delay_ms);
        *self.numbers.entry(id.0).or_insert_with(|| {
            all.push(Host::new(id, partition, delay_ms));
            all.len() as u32 - 1
        })
    }

    pub(crate) fn get(&mut self, number: u32) -> &mut Host {
        &mut self.all[number as usize]
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &Host> {
        self.all.iter()
    }

    pub(crate) fn find(&mut self, id: HostId) -> Option<&mut Host> {
        let number = *self.numbers.get(&id.0)?;
        self.all.get_mut(number as usize)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_host_that_has_enough_to_do_gives_each_page_its_own_time() {
        let mut host = Host::new(HostId(1), PartitionId(0), 1_000);
        for _ in 0..2 {
            assert_eq!(host.not_before(100, 1_000, false), 100);
            host.asked();
        }
        let told: Vec<u32> = (0..3).map(|_| host.not_before(100, 1_000, false)).collect();
        assert_eq!(told, [101, 102, 103]);
        // However many there are, none waits longer than the latest look.
        let last = (0..10_000)
            .map(|_| host.not_before(100, 1_000, false))
            .max();
        assert!(last.is_some_and(|tick| tick <= 100 + LATEST_LOOK + 1));
        // What is known to have changed does not wait behind them.
        assert_eq!(host.not_before(100, 1_000, true), 101);
        assert_eq!(host.not_before(100, 1_000, true), 102);
        host.settled();
        assert_eq!(host.not_before(101, 1_000, false), 101);
        host.rest_until(500);
        assert!(host.not_before(102, 1_000, true) > 500);
    }

    #[test]
    fn a_host_whose_signals_are_wrong_is_believed_now_and_then() {
        let mut host = Host::new(HostId(1), PartitionId(0), 1_000);
        assert!(host.believes_signal());
        (0..20).for_each(|_| host.judge_signal(false));
        let believed = (0..64).filter(|_| host.believes_signal()).count();
        assert_eq!(believed, 4);
        (0..20).for_each(|_| host.judge_signal(true));
        assert!((0..64).all(|_| host.believes_signal()));
    }
}
