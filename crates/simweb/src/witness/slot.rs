//! The counts of one host, and of one server address. Under a lock held by the witness; no details, no names.

use super::lane::{GAP_CLASSES, Lane};
use super::report::{GapClass, HostReport, IpReport, UrlCount, WitnessReport};
use super::{Arrival, Outcome, Ticket, ms};
use crate::web::Resource;
use std::collections::HashMap;
use std::net::IpAddr;

#[derive(Default)]
pub(crate) struct HostSlot {
    pages: Vec<Count>,
    others: HashMap<String, Count>,
    requests: u64,
    served: u64,
    pub(crate) aborted: u64,
    bytes: u64,
    heads: u64,
    conditionals: u64,
    robots_fetches: u64,
    aliases: u64,
    traps: u64,
    repeats: u64,
    retries: u64,
    pub(crate) robots_settled: bool,
    pub(crate) robots_served: bool,
    pub(crate) before_robots: u64,
    pub(crate) forbidden: u64,
    pub(crate) decoys: u64,
    pub(crate) connected: u32,
    pub(crate) most_connected: u32,
    statuses: Vec<(u16, u64)>,
    pub(crate) lane: Lane,
}

/// One URL. Small, since every page of the Web has one.
#[derive(Clone, Copy, Default)]
pub(crate) struct Count {
    requests: u16,
    finals: u16,
    refusals: u16,
    first_epoch: u16,
    last_epoch: u16,
}

impl From<Count> for UrlCount {
    fn from(count: Count) -> UrlCount {
        UrlCount {
            requests: count.requests.into(),
            served: count.finals.into(),
            refused: count.refusals.into(),
            first_epoch: count.first_epoch.into(),
            last_epoch: count.last_epoch.into(),
        }
    }
}

impl HostSlot {
    pub(crate) fn new(pages: usize) -> Self {
        HostSlot {
            pages: vec![Count::default(); pages],
            ..HostSlot::default()
        }
    }

    pub(crate) fn page_count(&self) -> usize {
        self.pages.len()
    }

    pub(crate) fn requests(&self) -> u64 {
        self.requests
    }

    pub(crate) fn was_asked(&self) -> bool {
        self.requests > 0
    }

    pub(crate) fn pages_seen(&self) -> impl Iterator<Item = (u32, Count)> {
        self.pages
            .iter()
            .enumerate()
            .filter(|(_, c)| c.requests > 0)
            .map(|(n, c)| (n as u32, *c))
    }

    pub(crate) fn others(&self) -> impl Iterator<Item = (&String, &Count)> {
        self.others.iter()
    }

    pub(crate) fn arrives(&mut self, arrival: &Arrival, max_others: usize) {
        self.requests += 1;
        self.aliases += u64::from(arrival.alias);
        self.heads += u64::from(arrival.head);
        self.conditionals += u64::from(arrival.conditional);
        match arrival.resource {
            Resource::Robots => self.robots_fetches += 1,
            Resource::Calendar(_) | Resource::Growing(_) | Resource::Session(..) => self.traps += 1,
            _ => {}
        }
        let room = self.others.len() < max_others;
        if let Some(count) = self.count(arrival.resource, arrival.target, room) {
            count.requests = count.requests.saturating_add(1);
        }
    }

    pub(crate) fn refusals(&mut self, arrival: &Arrival) -> u32 {
        self.count(arrival.resource, arrival.target, false)
            .map_or(0, |c| c.refusals.into())
    }

    /// Counts a whole answer. Gives the epoch of the first one if this was a repeat.
    pub(crate) fn served(
        &mut self,
        ticket: &Ticket,
        target: &str,
        outcome: &Outcome,
        epoch: u32,
    ) -> Option<u32> {
        self.served += 1;
        self.bytes += outcome.bytes;
        match self
            .statuses
            .iter_mut()
            .find(|(status, _)| *status == outcome.status)
        {
            Some((_, count)) => *count += 1,
            None => self.statuses.push((outcome.status, 1)),
        }
        if ticket.head || outcome.status == 304 {
            return None;
        }
        let robots = matches!(ticket.resource, Resource::Robots | Resource::RobotsMoved);
        let count = self.count(ticket.resource, target, false)?;
        let earlier = *count;
        if !outcome.is_final {
            count.refusals = count.refusals.saturating_add(1);
            self.retries += u64::from(earlier.refusals > 0);
            return None;
        }
        let epoch = epoch.min(u16::MAX.into()) as u16;
        if earlier.finals == 0 {
            count.first_epoch = epoch;
        }
        count.finals = count.finals.saturating_add(1);
        count.last_epoch = epoch;
        self.retries += u64::from(earlier.refusals > 0 && earlier.finals == 0);
        if earlier.finals == 0 || robots {
            return None;
        }
        self.repeats += 1;
        Some(earlier.last_epoch.into())
    }

    fn count(&mut self, resource: Resource, target: &str, add: bool) -> Option<&mut Count> {
        match resource {
            Resource::Page(page) => self.pages.get_mut(page as usize),
            _ if add && !self.others.contains_key(target) => {
                Some(self.others.entry(target.to_owned()).or_default())
            }
            _ => self.others.get_mut(target),
        }
    }

    pub(crate) fn add_to(&self, report: &mut WitnessReport, name: impl Fn() -> String) {
        if !self.was_asked() {
            return;
        }
        report.hosts_asked += 1;
        report.requests += self.requests;
        report.served += self.served;
        report.aborted += self.aborted;
        report.bytes += self.bytes;
        report.heads += self.heads;
        report.conditionals += self.conditionals;
        report.robots_fetches += self.robots_fetches;
        report.aliases += self.aliases;
        report.traps += self.traps;
        report.repeats += self.repeats;
        report.retries += self.retries;
        report.distinct_urls += self.pages_seen().count() as u64 + self.others.len() as u64;
        report.before_robots += self.before_robots;
        report.forbidden += self.forbidden;
        report.decoys += self.decoys;
        report.overlaps += self.lane.overlaps;
        report.short_gaps += self.lane.short_gaps;
        report.short_gaps_after_robots += self.lane.short_gaps_after_robots;
        report.most_at_once = report.most_at_once.max(self.lane.most_at_once);
        report.most_connections_on_a_host =
            report.most_connections_on_a_host.max(self.most_connected);
        for (status, count) in &self.statuses {
            *report.statuses.entry(*status).or_default() += count;
        }
        if let Some(gap_ns) = self.lane.min_gap_ns
            && report.min_gap_ms.is_none_or(|least| ms(gap_ns) < least)
        {
            report.min_gap_ms = Some(ms(gap_ns));
            report.min_gap_host = name();
        }
        if report.gaps.is_empty() {
            report.gaps = (0..GAP_CLASSES)
                .map(|n| GapClass {
                    below_ms: 1 << n,
                    count: 0,
                })
                .collect();
        }
        for (class, count) in report.gaps.iter_mut().zip(self.lane.gap_classes) {
            class.count += count;
        }
    }

    pub(crate) fn host_report(&self, host: String) -> HostReport {
        HostReport {
            host,
            requests: self.requests,
            robots_fetches: self.robots_fetches,
            repeats: self.repeats,
            forbidden: self.forbidden,
            before_robots: self.before_robots,
            overlaps: self.lane.overlaps,
            most_at_once: self.lane.most_at_once,
            short_gaps: self.lane.short_gaps,
            min_gap_ms: self.lane.min_gap_ns.map(ms),
            most_connections: self.most_connected,
            aborted: self.aborted,
        }
    }
}

/// A server address. Many hosts share one, so overlap is usual here and only the gaps are judged.
#[derive(Default)]
pub(crate) struct IpSlot {
    requests: u64,
    active: u32,
    most_at_once: u32,
    last_end_ns: Option<u64>,
    min_gap_ns: Option<u64>,
    short_gaps: u64,
}

impl IpSlot {
    pub(crate) fn begin(&mut self, at_ns: u64, required_ns: u64) {
        self.requests += 1;
        let gap_ns = if self.active > 0 {
            Some(0)
        } else {
            self.last_end_ns.map(|end| at_ns.saturating_sub(end))
        };
        self.active += 1;
        self.most_at_once = self.most_at_once.max(self.active);
        if let Some(gap_ns) = gap_ns {
            self.min_gap_ns = Some(self.min_gap_ns.map_or(gap_ns, |m| m.min(gap_ns)));
            self.short_gaps += u64::from(gap_ns + 1_000_000 < required_ns);
        }
    }

    pub(crate) fn end(&mut self, end_ns: u64) {
        self.active = self.active.saturating_sub(1);
        self.last_end_ns = self.last_end_ns.max(Some(end_ns));
    }

    pub(crate) fn report(&self, ip: IpAddr) -> IpReport {
        IpReport {
            ip: ip.to_string(),
            requests: self.requests,
            most_at_once: self.most_at_once,
            min_gap_ms: self.min_gap_ns.map(ms),
            short_gaps: self.short_gaps,
        }
    }
}
