//! Turns: which host may be asked now, and for which of its URLs. A host is taken by one turn at a
//! time; a URL handed out is not handed out again until its visit is folded or it is put back.

use crate::error::Result;
use crate::partition::{LastCheck, Partition};
use crate::record::{Record, UrlState, class_at};
use portolan_model::{DocId, HostId, LinkKind, Pulse, RobotsRecord};

/// Hosts looked at in one call that turn out to have nothing due.
const LOOKS_PER_CALL: usize = 256;
/// Hosts outside of RAM looked at when none in RAM is due.
const SPILLED_LOOKS_PER_CALL: usize = 16;
/// Beyond this many, pulses whose time has passed are dropped.
const LIVE_HOSTS_BEFORE_SWEEP: usize = 4096;

/// A host to be asked now.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Turn {
    pub host: HostId,
    pub name: String,
    pub pulse: Pulse,
    pub robots: Vec<RobotsRecord>,
    /// Documents archived of it, as far as folded.
    pub pages: u64,
    /// Its URLs that were handed out and whose visits are not folded yet.
    pub in_flight: u64,
    /// The delay in force as far as recorded, for which the host would be left alone after a crash.
    pub recorded_delay_ms: Option<u32>,
}

/// How a host is to be left alone, for those who would ask it outside of its turns.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Rest {
    pub not_before_ms: u64,
    /// The delay in force, if a request was recorded.
    pub delay_ms: Option<u32>,
}

/// A URL to be asked for.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Due {
    pub doc: DocId,
    pub url: String,
    pub class: u8,
    pub depth: u16,
    pub hops: u8,
    pub kind: LinkKind,
    pub attempts: u8,
    /// The ranker's, for the votes of its links.
    pub score: u32,
    /// What is there, as far as known; `None` where nobody looked yet.
    pub last: Option<Box<LastCheck>>,
}

#[derive(Debug)]
pub(super) struct InFlight {
    pub(super) host: u64,
    /// Its place in the queue, were it there.
    pub(super) place: u64,
}

/// A host in turn or lately so. Its pulse here is newer than the folded one.
#[derive(Debug, Default)]
pub(super) struct Live {
    pulse: Option<Pulse>,
    in_flight: u32,
    taken: bool,
}

impl Partition {
    /// The host that is due first, with its time not after `now_ms` and at least one URL to ask
    /// for. It is taken until `end_turn`.
    pub fn begin_turn(&mut self, now_ms: u64) -> Result<Option<Turn>> {
        self.readmit_spilled(now_ms)?;
        for _ in 0..LOOKS_PER_CALL {
            let Some(host) = self.queue.pop(now_ms) else {
                break;
            };
            if let Some(turn) = self.try_turn(host, now_ms)? {
                return Ok(Some(turn));
            }
        }
        for _ in 0..SPILLED_LOOKS_PER_CALL {
            // With an empty heap or one full of hosts that must wait, others may be due.
            if self.queue.next_due_ms().is_some_and(|time| time <= now_ms) {
                break;
            }
            let Some(host) = self.queue.pop_spilled()? else {
                break;
            };
            if let Some(turn) = self.try_turn(host, now_ms)? {
                return Ok(Some(turn));
            }
        }
        Ok(None)
    }

    /// The best URL of a host in turn; `None` when it has no more. It is in flight until its visit
    /// is folded.
    pub fn next_url(&mut self, host: HostId) -> Result<Option<Due>> {
        let Some((doc, record)) = self.next_valid(host.0)? else {
            return Ok(None);
        };
        let (url, finding) = self.texts.read(record.text, doc)?;
        let place = record.place(self.order);
        self.in_flight.insert(
            doc,
            InFlight {
                host: host.0,
                place,
            },
        );
        self.live.entry(host.0).or_default().in_flight += 1;
        Ok(Some(Due {
            doc: DocId(doc),
            url,
            class: class_at(place),
            depth: finding.depth,
            hops: finding.hops,
            kind: finding.kind,
            attempts: record.attempts,
            score: record.score(),
            last: self.last_check(&record)?,
        }))
    }

    /// Back to its place in the queue: it was taken but never asked for.
    pub fn put_back(&mut self, host: HostId, due: Due) -> Result<()> {
        let Some(taken) = self.in_flight.get(&due.doc.0) else {
            return Ok(());
        };
        // Links may have moved it up meanwhile, and the entry for its new place been passed over
        // because it was in flight.
        let place = match self.sieve.peek(due.doc.0)? {
            Some(record) if record.state == UrlState::Due => record.place(self.order),
            _ => taken.place,
        };
        self.frontier.push(host.0, place, due.doc.0);
        self.landed(due.doc.0);
        self.queue_host(host.0)
    }

    /// Frees the host, to be asked again from `pulse.not_before_ms` on if it may have more. Until
    /// everything in flight is folded, this pulse holds rather than folded ones.
    pub fn end_turn(&mut self, host: HostId, pulse: Pulse) -> Result<()> {
        let live = self.live.entry(host.0).or_default();
        live.taken = false;
        live.pulse = Some(pulse);
        self.frontier.rest(host.0);
        if self.frontier.may_have(host.0) && !self.is_given_up(&pulse) {
            self.queue
                .offer(host.0, pulse.not_before_ms, pulse.is_failing())?;
        }
        self.forget_folded(host.0);
        Ok(())
    }

    /// What a host that may never have a turn is owed all the same. It may read the disk.
    pub fn rest_of(&self, host: HostId) -> Result<Rest> {
        let folded = self.hosts.load(host.0)?.and_then(|state| state.pulse);
        let live = self.live.get(&host.0).and_then(|live| live.pulse);
        Ok(Rest {
            not_before_ms: self.not_before_ms(host.0, folded),
            delay_ms: [folded, live]
                .into_iter()
                .flatten()
                .map(|pulse| pulse.delay_ms)
                .max(),
        })
    }

    /// When `begin_turn` may have something; `None` if no host waits.
    pub fn next_due_ms(&self) -> Option<u64> {
        self.queue.next_due_ms()
    }

    /// What choosing a host costs by itself, for the benchmark: takes the one that is due first and
    /// queues it again. False if none is due.
    pub(crate) fn pick_and_requeue(&mut self, now_ms: u64, again_ms: u64) -> Result<bool> {
        self.readmit_spilled(now_ms)?;
        let Some(host) = self.queue.pop(now_ms) else {
            return Ok(false);
        };
        self.queue.offer(host, again_ms, false)?;
        Ok(true)
    }

    /// Hosts with due URLs, from the host table: one sequential read, at opening.
    pub(super) fn queue_known_hosts(&mut self) -> Result<()> {
        let mut hosts = self.hosts.scan()?;
        while let Some((host, state)) = hosts.next()? {
            let pulse = self.hosts.cut(state.pulse);
            self.latest_ms = self.latest_ms.max(pulse.map_or(0, |pulse| pulse.last_ms));
            if state.counts.due > 0 {
                let not_before_ms = self.not_before_ms(host, pulse);
                let failing = pulse.is_some_and(|pulse| pulse.is_failing());
                self.queue.offer(host, not_before_ms, failing)?;
            }
        }
        Ok(())
    }

    /// Has this run given the host up? Its URLs stay due, for the next run.
    fn is_given_up(&self, pulse: &Pulse) -> bool {
        pulse.given_up_by != 0 && pulse.given_up_by == self.opened_ms
    }

    /// Nothing pending, nothing in flight, and all hosts that wait for a turn rest because they
    /// failed (or there are none).
    pub fn is_resting(&self) -> bool {
        self.pending_ops() == 0
            && self.in_flight.is_empty()
            && self.queue.len() == self.queue.failing()
    }

    /// A URL of the host has become due.
    pub(super) fn queue_host(&mut self, host: u64) -> Result<()> {
        match self.live.get(&host) {
            // It is queued when its turn ends.
            Some(Live { taken: true, .. }) => Ok(()),
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
    pub(super) fn landed(&mut self, doc: u64) {
        if let Some(taken) = self.in_flight.remove(&doc)
            && let Some(live) = self.live.get_mut(&taken.host)
        {
            live.in_flight = live.in_flight.saturating_sub(1);
            self.forget_folded(taken.host);
        }
    }

    /// Once all in flight is folded, the folded pulse says what the live one did.
    fn forget_folded(&mut self, host: u64) {
        if let Some(live) = self.live.get(&host)
            && !live.taken
            && live.in_flight == 0
            && let Some(folded) = self.hosts.recent_pulse(host)
            && live
                .pulse
                .is_none_or(|pulse| pulse.not_before_ms <= folded.not_before_ms)
        {
            self.live.remove(&host);
        }
    }

    /// Documents in flight, as entries of the frontier.
    pub(super) fn taken_entries(&self) -> impl Iterator<Item = (u64, u64, u64)> {
        self.in_flight
            .iter()
            .map(|(&doc, taken)| (taken.host, taken.place, doc))
    }

    fn try_turn(&mut self, host: u64, now_ms: u64) -> Result<Option<Turn>> {
        if self.live.get(&host).is_some_and(|live| live.taken) {
            return Ok(None);
        }
        let state = self.hosts.load(host)?.unwrap_or_default();
        let folded = state.pulse.unwrap_or_default();
        let live = self.live.get(&host);
        let pulse = live
            .and_then(|live| {
                live.pulse
                    .filter(|pulse| live.in_flight > 0 || pulse.last_ms >= folded.last_ms)
            })
            .unwrap_or(folded);
        if self.is_given_up(&pulse) {
            self.frontier.close_window(host);
            self.forget_quiet(host);
            return Ok(None);
        }
        let not_before_ms = self.not_before_ms(host, state.pulse);
        if not_before_ms > now_ms {
            self.queue.offer(host, not_before_ms, pulse.is_failing())?;
            return Ok(None);
        }
        let Some((doc, record)) = self.next_valid(host)? else {
            // New URLs of the host queue it again.
            self.frontier.close_window(host);
            self.forget_quiet(host);
            return Ok(None);
        };
        self.frontier.push(host, record.place(self.order), doc);
        self.sweep_live(now_ms);
        let live = self.live.entry(host).or_default();
        live.taken = true;
        Ok(Some(Turn {
            host: HostId(host),
            name: state.name,
            pulse: Pulse {
                // Of a back-off that was cut short, too, the time has come.
                not_before_ms: pulse.not_before_ms.min(now_ms),
                ..pulse
            },
            robots: state.robots,
            pages: u64::try_from(state.counts.pages).unwrap_or(0),
            in_flight: u64::from(live.in_flight),
            recorded_delay_ms: state.pulse.map(|pulse| pulse.delay_ms),
        }))
    }

    /// The host's best entry that still holds. Stale ones are passed over.
    fn next_valid(&mut self, host: u64) -> Result<Option<(u64, Record)>> {
        while let Some(candidate) = self.frontier.pop(host)? {
            if self.in_flight.contains_key(&candidate.doc) {
                continue;
            }
            if let Some(record) = self.sieve.peek_twice(candidate.doc)?
                && record.state == UrlState::Due
                && record.place(self.order) == candidate.place
            {
                return Ok(Some((candidate.doc, record)));
            }
        }
        Ok(None)
    }

    fn not_before_ms(&self, host: u64, folded: Option<Pulse>) -> u64 {
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
    fn rests_until_ms(&self, folded: &Pulse) -> u64 {
        let earlier_run = folded.last_ms < self.opened_ms;
        if earlier_run && folded.is_failing() && !folded.demanded && !self.keep_back_off {
            return folded
                .last_ms
                .saturating_add(u64::from(folded.delay_ms) + 1);
        }
        folded.not_before_ms
    }

    /// A host with nothing due and nothing in flight leaves RAM; its time has passed.
    fn forget_quiet(&mut self, host: u64) {
        if self
            .live
            .get(&host)
            .is_some_and(|live| live.in_flight == 0 && !live.taken)
        {
            self.live.remove(&host);
        }
    }

    /// Drops pulses whose time has passed, now and then: twice as many must have gathered.
    fn sweep_live(&mut self, now_ms: u64) {
        if self.live.len() < self.live_sweep_at.max(LIVE_HOSTS_BEFORE_SWEEP) {
            return;
        }
        self.live.retain(|_, live| {
            let waits = live.pulse.is_some_and(|pulse| pulse.not_before_ms > now_ms);
            live.taken || live.in_flight > 0 || waits
        });
        self.live_sweep_at = 2 * self.live.len();
    }

    /// Hosts that did not fit into RAM come back when there is room.
    fn readmit_spilled(&mut self, now_ms: u64) -> Result<()> {
        for _ in 0..SPILLED_LOOKS_PER_CALL {
            if !self.queue.has_spilled() || !self.queue.has_room() {
                break;
            }
            if let Some(host) = self.queue.pop_spilled()? {
                let taken = self.live.get(&host).is_some_and(|live| live.taken);
                if !taken {
                    self.queue.offer(host, now_ms, false)?;
                }
            }
        }
        Ok(())
    }
}
