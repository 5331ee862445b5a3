//! Which URL of the schedule is next, among those whose hosts may be asked.

use std::cmp::Reverse;

use portolan_freshness::PageId;

use super::{IN_FLIGHT, Pick, SIGNALLED, SOURCE, Schedule, Why};
use crate::keep::hosts::Host;

/// Hosts that are tried for a new page or an urgent one before another kind of page has its turn.
const TRIES: usize = 16;

impl Schedule {
    /// The URL that is to become due next.
    pub(crate) fn pick(&mut self, now: u32) -> Option<Pick> {
        let picked = self
            .pick_urgent(now)
            .or_else(|| self.pick_source(now))
            .or_else(|| match self.new_credit >= 1.0 {
                true => self.pick_new(now),
                false => None,
            })
            .or_else(|| self.pick_known(now))
            .or_else(|| self.pick_new(now))?;
        self.new_credit += self.new_share - f64::from(u8::from(picked.why == Why::New));
        // What new pages did not use when there were none is not owed to them later.
        self.new_credit = self.new_credit.clamp(0.0, 1.0 + self.new_share);
        Some(picked)
    }

    pub(super) fn leave(&mut self, id: PageId) {
        let at = id.0 as usize;
        self.scheduler.take(id);
        self.flags[at] |= IN_FLIGHT;
        self.hosts.get(self.host_of[at]).asked();
    }

    fn picked(&mut self, page: u32, why: Why) -> Pick {
        let at = page as usize;
        self.leave(PageId(page));
        let host: &Host = self.hosts.get(self.host_of[at]);
        Pick {
            doc: self.docs[at],
            partition: host.partition,
            host: host.id,
            why,
            page: Some(PageId(page)),
        }
    }

    fn may_ask(&mut self, host: u32, now: u32, is_pressing: bool) -> bool {
        let tick_ms = self.tick_ms;
        self.hosts.get(host).not_before(now, tick_ms, is_pressing) <= now
    }

    fn pick_urgent(&mut self, now: u32) -> Option<Pick> {
        for _ in 0..TRIES.min(self.urgent.len()) {
            let page = self.urgent.pop_front()?;
            if self.flags[page as usize] & IN_FLIGHT != 0 {
                continue;
            }
            if self.may_ask(self.host_of[page as usize], now, true) {
                return Some(self.picked(page, Why::Told));
            }
            self.urgent.push_back(page);
        }
        None
    }

    fn pick_source(&mut self, now: u32) -> Option<Pick> {
        while let Some(&Reverse((due, page))) = self.sources.peek()
            && due <= now
        {
            self.sources.pop();
            let at = page as usize;
            let fetched = self.scheduler.fetched_s(PageId(page));
            let is_due = fetched.saturating_add(self.sources_every) <= now;
            // What was fetched since for another reason has a later place, too.
            if self.flags[at] & IN_FLIGHT != 0 || self.flags[at] & SOURCE == 0 || !is_due {
                continue;
            }
            let tick_ms = self.tick_ms;
            match self
                .hosts
                .get(self.host_of[at])
                .not_before(now, tick_ms, true)
            {
                later if later > now => self.sources.push(Reverse((later, page))),
                _ => return Some(self.picked(page, Why::Source)),
            }
        }
        None
    }

    fn pick_new(&mut self, now: u32) -> Option<Pick> {
        for _ in 0..TRIES.min(self.new.len()) {
            let (doc, host) = self.new.pop_front()?;
            if self.by_doc.contains_key(&doc.0) || self.new_in_flight.contains(&doc.0) {
                continue;
            }
            if !self.may_ask(host, now, false) {
                self.new.push_back((doc, host));
                continue;
            }
            self.new_in_flight.insert(doc.0);
            let host = self.hosts.get(host);
            host.asked();
            return Some(Pick {
                doc,
                partition: host.partition,
                host: host.id,
                why: Why::New,
                page: None,
            });
        }
        None
    }

    fn pick_known(&mut self, now: u32) -> Option<Pick> {
        /// The scheduler puts some hundred pages aside before it gives up.
        const ROUNDS: usize = 4;
        if self.rival.is_some() {
            return self.pick_of_rival(now);
        }
        for _ in 0..ROUNDS {
            let (hosts, host_of, flags) = (&mut self.hosts, &self.host_of, &self.flags);
            let tick_ms = self.tick_ms;
            let not_before = |id: PageId| {
                let is_pressing = flags[id.0 as usize] & SIGNALLED != 0;
                let host = hosts.get(host_of[id.0 as usize]);
                host.not_before(now, tick_ms, is_pressing)
            };
            let Some(id) = self.scheduler.pick(now, not_before) else {
                continue;
            };
            // It may have been taken while it was put aside.
            if self.flags[id.0 as usize] & (IN_FLIGHT | SOURCE) != 0 {
                continue;
            }
            let why = match self.scheduler.signals(id) {
                0 => Why::Worth,
                _ => Why::Signal,
            };
            return Some(self.picked(id.0, why));
        }
        None
    }

    fn pick_of_rival(&mut self, now: u32) -> Option<Pick> {
        let (hosts, host_of, flags) = (&mut self.hosts, &self.host_of, &self.flags);
        let tick_ms = self.tick_ms;
        let page = self.rival.as_mut()?.pick(
            now,
            |page| flags[page as usize] & (IN_FLIGHT | SOURCE) == 0,
            |page| {
                let host = hosts.get(host_of[page as usize]);
                host.not_before(now, tick_ms, false)
            },
        )?;
        Some(self.picked(page, Why::Worth))
    }
}
