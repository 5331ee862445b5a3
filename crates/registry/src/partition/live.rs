//! Which hosts wait for a turn, have one or had one lately, and how long each is to be left alone. Not which URLs are
//! asked for; that is `turns`, from the state.

use crate::by_id::IdMap;
use crate::error::Result;
use crate::hosts::{HostQueue, HostTable};
use crate::partition::AfterCrash;
use portolan_model::Pulse;
use std::path::PathBuf;

/// Hosts outside of RAM that come back in one call when there is room.
const READMITTED_PER_CALL: usize = 16;
/// Beyond this many, pulses whose time has passed are dropped.
const LIVE_HOSTS_BEFORE_SWEEP: usize = 4096;

/// Who waits for a turn, who has one, and which documents are out of the frontier meanwhile. All of it is of this run,
/// and found again from the state when a registry is opened.
#[derive(Debug)]
pub(super) struct Turns {
    pub(super) queue: HostQueue,
    /// Documents handed out whose visit is not folded yet.
    pub(super) in_flight: IdMap<InFlight>,
    /// Hosts in turn, or with documents in flight.
    pub(super) live: IdMap<Live>,
    live_sweep_at: usize,
    /// Turns begun since the registry was opened.
    begun: u64,
    /// When the registry was opened; tells this run from others.
    pub(super) opened_ms: u64,
    /// When the run began that the partition is in: it may have come later.
    pub(super) run_ms: u64,
    pub(super) crash: Option<AfterCrash>,
    /// The back-off of hosts that failed in an earlier run still holds.
    pub(super) keep_back_off: bool,
}

#[derive(Debug)]
pub(super) struct InFlight {
    pub(super) host: u64,
    /// Its place in the queue, were it there.
    pub(super) place: u64,
    /// The turn that it was handed out in.
    pub(super) grant: u64,
}

/// A host in turn or lately so. Its pulse here is newer than the folded one.
#[derive(Debug, Default)]
pub(super) struct Live {
    pub(super) pulse: Option<Pulse>,
    pub(super) in_flight: u32,
    /// The number of the turn that it has; 0 if it has none.
    pub(super) grant: u64,
    /// When that turn ends in any case.
    pub(super) expires_ms: u64,
}

impl Live {
    pub(super) fn is_taken(&self) -> bool {
        self.grant != 0
    }
}

impl Turns {
    pub(super) fn new(spill: PathBuf, hosts_in_ram: usize, opened_ms: u64) -> Self {
        Self {
            queue: HostQueue::new(spill, hosts_in_ram),
            in_flight: IdMap::default(),
            live: IdMap::default(),
            live_sweep_at: 0,
            begun: 0,
            opened_ms,
            run_ms: opened_ms,
            crash: None,
            keep_back_off: true,
        }
    }

    pub(super) fn ram_bytes(&self) -> usize {
        self.queue.ram_bytes() + self.in_flight.capacity() * 48 + self.live.capacity() * 72
    }

    /// Its class is another one now. True for a document in flight: it comes back to the frontier, if at all, at its
    /// new place.
    pub(super) fn takes_back_at(&mut self, doc: u64, place: u64) -> bool {
        match self.in_flight.get_mut(&doc) {
            Some(taken) => {
                taken.place = place;
                true
            }
            None => false,
        }
    }

    /// A URL of the host has become due.
    pub(super) fn queue_host(&mut self, host: u64) -> Result<()> {
        match self.live.get(&host) {
            // It is queued when its turn ends.
            Some(live) if live.is_taken() => Ok(()),
            Some(Live {
                pulse: Some(pulse), ..
            }) if self.is_given_up(pulse) => Ok(()),
            Some(Live {
                pulse: Some(pulse), ..
            }) => {
                let (not_before_ms, failing) = (pulse.not_before_ms, pulse.is_failing());
                self.queue.offer(host, not_before_ms, failing)
            }
            // Its time is looked up when its turn comes.
            _ => self.queue.offer(host, 0, false),
        }
    }

    /// A document is no longer in flight.
    pub(super) fn landed(&mut self, doc: u64, hosts: &HostTable) {
        if let Some(taken) = self.in_flight.remove(&doc)
            && let Some(live) = self.live.get_mut(&taken.host)
        {
            live.in_flight = live.in_flight.saturating_sub(1);
            self.forget_folded(taken.host, hosts);
        }
    }

    /// Documents in flight, as entries of the frontier.
    pub(super) fn taken_entries(&self) -> impl Iterator<Item = (u64, u64, u64)> {
        self.in_flight
            .iter()
            .map(|(&doc, taken)| (taken.host, taken.place, doc))
    }

    /// Hosts that did not fit into RAM come back when there is room.
    pub(super) fn readmit_spilled(&mut self, now_ms: u64) -> Result<()> {
        for _ in 0..READMITTED_PER_CALL {
            if !self.queue.has_spilled() || !self.queue.has_room() {
                break;
            }
            if let Some(host) = self.queue.pop_spilled()? {
                let taken = self.live.get(&host).is_some_and(Live::is_taken);
                if !taken {
                    self.queue.offer(host, now_ms, false)?;
                }
            }
        }
        Ok(())
    }

    /// Once all in flight is folded, the folded pulse says what the live one did.
    pub(super) fn forget_folded(&mut self, host: u64, hosts: &HostTable) {
        if let Some(live) = self.live.get(&host)
            && !live.is_taken()
            && live.in_flight == 0
            && let Some(folded) = hosts.recent_pulse(host)
            && live
                .pulse
                .is_none_or(|pulse| pulse.not_before_ms <= folded.not_before_ms)
        {
            self.live.remove(&host);
        }
    }

    /// A host with nothing due and nothing in flight leaves RAM; its time has passed.
    pub(super) fn forget_quiet(&mut self, host: u64) {
        if self
            .live
            .get(&host)
            .is_some_and(|live| live.in_flight == 0 && !live.is_taken())
        {
            self.live.remove(&host);
        }
    }

    /// Drops pulses whose time has passed, now and then: twice as many must have gathered.
    pub(super) fn sweep_live(&mut self, now_ms: u64) {
        if self.live.len() < self.live_sweep_at.max(LIVE_HOSTS_BEFORE_SWEEP) {
            return;
        }
        self.live.retain(|_, live| {
            let waits = live.pulse.is_some_and(|pulse| pulse.not_before_ms > now_ms);
            live.is_taken() || live.in_flight > 0 || waits
        });
        self.live_sweep_at = 2 * self.live.len();
    }

    /// The number of the next turn. Those of a registry that is opened later are greater, unless more than a million turns a
    /// millisecond were begun before.
    pub(super) fn next_number(&mut self) -> u64 {
        self.begun += 1;
        (self.opened_ms << 20) + self.begun
    }

    /// Has this run given the host up? Its URLs stay due, for the next run.
    pub(super) fn is_given_up(&self, pulse: &Pulse) -> bool {
        pulse.given_up_by != 0 && pulse.given_up_by == self.run_ms
    }

    pub(super) fn not_before_ms(&self, host: u64, folded: Option<Pulse>) -> u64 {
        let live = self.live.get(&host).and_then(|live| live.pulse);
        let mut time = live.map_or(0, |pulse| pulse.not_before_ms);
        if live.is_none() || self.live.get(&host).is_some_and(|live| live.in_flight == 0) {
            time = time.max(folded.map_or(0, |pulse| self.rests_until_ms(&pulse)));
        }
        if let Some(crash) = self.crash {
            let delay_ms = folded.map_or(crash.unknown_delay_ms, |pulse| pulse.delay_ms);
            time = time.max(self.opened_ms.saturating_add(u64::from(delay_ms)));
        }
        time
    }

    /// A back-off of our own ends with the run that began it, unless that run crashed: who starts a
    /// crawl again wants failed hosts to be asked again. What the server asked for holds.
    pub(super) fn rests_until_ms(&self, folded: &Pulse) -> u64 {
        let earlier_run = folded.last_ms < self.opened_ms;
        if earlier_run && folded.is_failing() && !folded.demanded && !self.keep_back_off {
            return folded
                .last_ms
                .saturating_add(u64::from(folded.delay_ms) + 1);
        }
        folded.not_before_ms
    }
}
