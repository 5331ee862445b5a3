//! Turns: which host may be asked now, and for which of its URLs. A host is taken by one turn at a
//! time; a URL handed out is not handed out again until its visit is folded or it is put back.

use crate::error::Result;
use crate::partition::Partition;
use crate::partition::live::{InFlight, Live};
use crate::record::{Record, UrlState, class_at};
use crate::state::LastCheck;
use portolan_model::{DocId, HostId, LinkKind, Pulse, RobotsRecord};

/// Hosts looked at in one call that turn out to have nothing due.
const LOOKS_PER_CALL: usize = 256;
/// Hosts outside of RAM looked at when none in RAM is due.
const SPILLED_LOOKS_PER_CALL: usize = 16;

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

impl Partition {
    /// The host that is due first, with its time not after `now_ms` and at least one URL to ask
    /// for. It is taken until `end_turn`.
    pub fn begin_turn(&mut self, now_ms: u64) -> Result<Option<Turn>> {
        self.turns.readmit_spilled(now_ms)?;
        for _ in 0..LOOKS_PER_CALL {
            let Some(host) = self.turns.queue.pop(now_ms) else {
                break;
            };
            if let Some(turn) = self.try_turn(host, now_ms)? {
                return Ok(Some(turn));
            }
        }
        for _ in 0..SPILLED_LOOKS_PER_CALL {
            // With an empty heap or one full of hosts that must wait, others may be due.
            if self
                .turns
                .queue
                .next_due_ms()
                .is_some_and(|time| time <= now_ms)
            {
                break;
            }
            let Some(host) = self.turns.queue.pop_spilled()? else {
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
        let (url, finding) = self.state.texts.read(record.text, doc)?;
        let place = record.place(self.state.order);
        let live = self.turns.live.entry(host.0).or_default();
        live.in_flight += 1;
        let grant = live.grant;
        self.turns.in_flight.insert(
            doc,
            InFlight {
                host: host.0,
                place,
                grant,
            },
        );
        Ok(Some(Due {
            doc: DocId(doc),
            url,
            class: class_at(place),
            depth: finding.depth,
            hops: finding.hops,
            kind: finding.kind,
            attempts: record.attempts,
            score: record.score(),
            last: self.state.last_check(&record)?,
        }))
    }

    /// Back to its place in the queue: it was taken but never asked for.
    pub fn put_back(&mut self, host: HostId, doc: DocId) -> Result<()> {
        let Some(taken) = self.turns.in_flight.get(&doc.0) else {
            return Ok(());
        };
        // Links may have moved it up meanwhile, and the entry for its new place been passed over
        // because it was in flight.
        let place = match self.state.sieve.peek(doc.0)? {
            Some(record) if record.state == UrlState::Due => record.place(self.state.order),
            _ => taken.place,
        };
        self.state.frontier.push(host.0, place, doc.0);
        self.turns.landed(doc.0, &self.state.hosts);
        self.turns.queue_host(host.0)
    }

    /// Frees the host, to be asked again from `pulse.not_before_ms` on if it may have more. Until
    /// everything in flight is folded, this pulse holds rather than folded ones.
    pub fn end_turn(&mut self, host: HostId, pulse: Pulse) -> Result<()> {
        let live = self.turns.live.entry(host.0).or_default();
        live.grant = 0;
        live.pulse = Some(pulse);
        self.state.frontier.rest(host.0);
        if self.state.frontier.may_have(host.0) && !self.turns.is_given_up(&pulse) {
            self.turns
                .queue
                .offer(host.0, pulse.not_before_ms, pulse.is_failing())?;
        }
        self.turns.forget_folded(host.0, &self.state.hosts);
        Ok(())
    }

    /// What a host that may never have a turn is owed all the same. It may read the disk.
    pub fn rest_of(&self, host: HostId) -> Result<Rest> {
        let folded = self.state.hosts.load(host.0)?.and_then(|state| state.pulse);
        let live = self.turns.live.get(&host.0).and_then(|live| live.pulse);
        Ok(Rest {
            not_before_ms: self.turns.not_before_ms(host.0, folded),
            delay_ms: [folded, live]
                .into_iter()
                .flatten()
                .map(|pulse| pulse.delay_ms)
                .max(),
        })
    }

    /// When `begin_turn` may have something; `None` if no host waits.
    pub fn next_due_ms(&self) -> Option<u64> {
        self.turns.queue.next_due_ms()
    }

    /// What choosing a host costs by itself, for the benchmark: takes the one that is due first and
    /// queues it again. False if none is due.
    #[cfg(feature = "bench")]
    pub(crate) fn pick_and_requeue(&mut self, now_ms: u64, again_ms: u64) -> Result<bool> {
        self.turns.readmit_spilled(now_ms)?;
        let Some(host) = self.turns.queue.pop(now_ms) else {
            return Ok(false);
        };
        self.turns.queue.offer(host, again_ms, false)?;
        Ok(true)
    }

    /// Hosts with due URLs, from the host table: one sequential read, at opening.
    pub(super) fn queue_known_hosts(&mut self) -> Result<()> {
        let mut hosts = self.state.hosts.scan()?;
        while let Some((host, state)) = hosts.next()? {
            let pulse = self.state.hosts.capped(state.pulse);
            self.state.latest_ms = self
                .state
                .latest_ms
                .max(pulse.map_or(0, |pulse| pulse.last_ms));
            if state.counts.due > 0 {
                let not_before_ms = self.turns.not_before_ms(host, pulse);
                let failing = pulse.is_some_and(|pulse| pulse.is_failing());
                self.turns.queue.offer(host, not_before_ms, failing)?;
            }
        }
        Ok(())
    }

    /// Nothing pending, nothing in flight, and all hosts that wait for a turn rest because they
    /// failed (or there are none).
    pub fn is_resting(&self) -> bool {
        self.pending_ops() == 0
            && self.turns.in_flight.is_empty()
            && self.turns.queue.len() == self.turns.queue.failing()
    }

    fn try_turn(&mut self, host: u64, now_ms: u64) -> Result<Option<Turn>> {
        if self.turns.live.get(&host).is_some_and(Live::is_taken) {
            return Ok(None);
        }
        let state = self.state.hosts.load(host)?.unwrap_or_default();
        let folded = state.pulse.unwrap_or_default();
        let live = self.turns.live.get(&host);
        let pulse = live
            .and_then(|live| {
                live.pulse
                    .filter(|pulse| live.in_flight > 0 || pulse.last_ms >= folded.last_ms)
            })
            .unwrap_or(folded);
        if self.turns.is_given_up(&pulse) {
            self.state.frontier.close_window(host);
            self.turns.forget_quiet(host);
            return Ok(None);
        }
        let not_before_ms = self.turns.not_before_ms(host, state.pulse);
        if not_before_ms > now_ms {
            self.turns
                .queue
                .offer(host, not_before_ms, pulse.is_failing())?;
            return Ok(None);
        }
        let Some((doc, record)) = self.next_valid(host)? else {
            // New URLs of the host queue it again.
            self.state.frontier.close_window(host);
            self.turns.forget_quiet(host);
            return Ok(None);
        };
        self.state
            .frontier
            .push(host, record.place(self.state.order), doc);
        self.turns.sweep_live(now_ms);
        let number = self.turns.next_number();
        let live = self.turns.live.entry(host).or_default();
        (live.grant, live.expires_ms) = (number, u64::MAX);
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
        while let Some(candidate) = self.state.frontier.pop(host)? {
            if self.turns.in_flight.contains_key(&candidate.doc) {
                continue;
            }
            if let Some(record) = self.state.sieve.peek_twice(candidate.doc)?
                && record.state == UrlState::Due
                && record.place(self.state.order) == candidate.place
            {
                return Ok(Some((candidate.doc, record)));
            }
        }
        Ok(None)
    }
}
