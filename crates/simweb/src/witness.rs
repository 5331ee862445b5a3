//! The server's own record of how it was treated: always on, independent of what any crawler says of itself.
//!
//! `begin` when a request's head has been read, `end` when its answer is out, `abort` when the client was gone before that. A
//! request's time runs from `begin` to just before the last write. Everything is kept for each host under a lock of its own.

mod copies;
mod lane;
mod report;
mod slot;

pub use copies::{FreshnessReport, Seen};
pub use report::{
    GapClass, HostReport, IpReport, Repeat, RequestRecord, UrlCount, Violation, ViolationKind,
    WitnessReport,
};

use crate::sick::{Figures, Ward};
use crate::web::{Resource, Web};
use copies::Copies;
use lane::Breach;
use slot::{HostSlot, IpSlot};
use std::collections::{BTreeMap, VecDeque};
use std::net::IpAddr;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::time::Instant;

/// Violations and repeats kept with their details; beyond, they are only counted.
const MAX_DETAILS: usize = 10_000;
/// Distinct user agents that are told apart.
const MAX_USER_AGENTS: usize = 64;
/// URLs outside the planned pages (traps, sitemaps, nonsense) that are counted one by one, for each host.
const MAX_OTHER_URLS: usize = 20_000;

pub struct Witness {
    web: Arc<Web>,
    start: Instant,
    /// When the first request came and the last answer was out; `u64::MAX` and 0 before.
    first_ns: AtomicU64,
    last_ns: AtomicU64,
    epoch: AtomicU32,
    next_id: AtomicU64,
    expect_delay_ns: AtomicU64,
    expect_ip_delay_ns: AtomicU64,
    hosts: Vec<Mutex<HostSlot>>,
    ips: Vec<(IpAddr, Mutex<IpSlot>)>,
    bad_requests: AtomicU64,
    connections: AtomicU64,
    sick: Ward,
    details: Mutex<Details>,
    agents: Mutex<Vec<(String, u64)>>,
    copies: Mutex<Copies>,
    log_on: AtomicBool,
    log: Mutex<(usize, VecDeque<RequestRecord>)>,
}

#[derive(Default)]
struct Details {
    violations: Vec<Violation>,
    repeats: Vec<Repeat>,
}

/// What the server knows of a request when its head has been read.
pub(crate) struct Arrival<'a> {
    pub(crate) host: u32,
    pub(crate) ip: usize,
    pub(crate) resource: Resource,
    pub(crate) target: &'a str,
    /// The target is not the canonical spelling of the page it means.
    pub(crate) alias: bool,
    pub(crate) head: bool,
    pub(crate) conditional: bool,
    /// It lay in the buffer before the answer to the one before was out.
    pub(crate) pipelined: bool,
}

/// A request in progress.
pub(crate) struct Ticket {
    id: u64,
    host: u32,
    ip: usize,
    resource: Resource,
    head: bool,
    begin_ns: u64,
    /// How often the resource has refused so far.
    pub(crate) refusals: u32,
}

/// How an answer went out.
pub(crate) struct Outcome {
    pub(crate) status: u16,
    pub(crate) is_final: bool,
    pub(crate) bytes: u64,
    pub(crate) retry_after_s: u32,
    /// Taken just before the write that finished the answer.
    pub(crate) end_ns: u64,
}

impl Witness {
    pub(crate) fn new(web: Arc<Web>, ips: &[IpAddr]) -> Self {
        Witness {
            start: Instant::now(),
            first_ns: AtomicU64::new(u64::MAX),
            last_ns: AtomicU64::new(0),
            epoch: AtomicU32::new(0),
            next_id: AtomicU64::new(1),
            expect_delay_ns: AtomicU64::new(0),
            expect_ip_delay_ns: AtomicU64::new(0),
            hosts: web
                .hosts
                .iter()
                .map(|h| Mutex::new(HostSlot::new(h.pages.len())))
                .collect(),
            ips: ips
                .iter()
                .map(|ip| (*ip, Mutex::new(IpSlot::default())))
                .collect(),
            bad_requests: AtomicU64::new(0),
            connections: AtomicU64::new(0),
            sick: Ward::new(&web.spec.sick),
            details: Mutex::default(),
            agents: Mutex::default(),
            copies: Mutex::default(),
            log_on: AtomicBool::new(false),
            log: Mutex::default(),
            web,
        }
    }

    /// How sick hosts were treated.
    pub(crate) fn sick(&self) -> &Ward {
        &self.sick
    }

    /// Counts so far, cheap enough to be asked for again and again.
    pub fn figures(&self) -> Figures {
        let requests = self.hosts.iter().map(|host| lock(host).requests()).sum();
        Figures {
            requests,
            connections: self.connections.load(Relaxed),
            sick_requests: self.sick.requests(),
            sick_most_at_once: self.sick.most_at_once(),
            seconds: self.start.elapsed().as_secs_f64(),
        }
    }

    /// The delay between requests on a host that the crawler was told to keep; Crawl-delay and Retry-After count anyway.
    pub fn expect_delay_ms(&self, delay_ms: u64) {
        self.expect_delay_ns.store(delay_ms * 1_000_000, Relaxed);
    }

    /// The same for a server address.
    pub fn expect_ip_delay_ms(&self, delay_ms: u64) {
        self.expect_ip_delay_ns.store(delay_ms * 1_000_000, Relaxed);
    }

    /// Starts a new epoch, as when the crawler was killed, and gives its number. Counts go on; a repeat tells the epochs of both
    /// requests.
    pub fn mark(&self) -> u32 {
        self.epoch.fetch_add(1, Relaxed) + 1
    }

    /// Forgets everything seen, also how often pages have refused. Expected delays stay.
    pub fn reset(&self) {
        self.epoch.store(0, Relaxed);
        for slot in &self.hosts {
            let mut slot = lock(slot);
            let fresh = HostSlot::new(slot.page_count());
            let connected = slot.connected;
            *slot = fresh;
            slot.connected = connected;
            slot.most_connected = connected;
        }
        for (_, slot) in &self.ips {
            *lock(slot) = IpSlot::default();
        }
        self.first_ns.store(u64::MAX, Relaxed);
        self.last_ns.store(0, Relaxed);
        self.bad_requests.store(0, Relaxed);
        self.connections.store(0, Relaxed);
        *lock(&self.details) = Details::default();
        *lock(&self.copies) = Copies::default();
        lock(&self.agents).clear();
        lock(&self.log).1.clear();
    }

    /// Keeps the last `max` requests with their times; 0 stops it.
    pub fn record_requests(&self, max: usize) {
        let mut log = lock(&self.log);
        log.0 = max;
        log.1.clear();
        self.log_on.store(max > 0, Relaxed);
    }

    /// The recorded requests, oldest first.
    pub fn requests(&self) -> Vec<RequestRecord> {
        lock(&self.log).1.iter().cloned().collect()
    }

    /// How often each URL was requested, by canonical URL; URLs never requested are absent.
    pub fn per_url(&self) -> BTreeMap<String, UrlCount> {
        let mut urls = BTreeMap::new();
        for (host, slot) in self.hosts.iter().enumerate() {
            let host = host as u32;
            let slot = lock(slot);
            for (page, count) in slot.pages_seen() {
                urls.insert(self.web.page_url(host, page), count.into());
            }
            for (target, count) in slot.others() {
                urls.insert(self.web.origin(host) + target, (*count).into());
            }
        }
        urls
    }

    pub fn report(&self) -> WitnessReport {
        let mut report = WitnessReport {
            epoch: self.epoch.load(Relaxed),
            seconds: self
                .last_ns
                .load(Relaxed)
                .saturating_sub(self.first_ns.load(Relaxed)) as f64
                / 1e9,
            ..WitnessReport::default()
        };
        for (host, slot) in self.hosts.iter().enumerate() {
            lock(slot).add_to(&mut report, || self.web.host_name(host as u32));
        }
        report.ips = self
            .ips
            .iter()
            .map(|(ip, slot)| lock(slot).report(*ip))
            .collect();
        report.bad_requests = self.bad_requests.load(Relaxed);
        report.connections = self.connections.load(Relaxed);
        report.user_agents = lock(&self.agents).clone();
        let details = lock(&self.details);
        report.violations = details.violations.clone();
        report.repeated = details.repeats.clone();
        report.repeats_in_one_epoch = report
            .repeated
            .iter()
            .filter(|r| r.first_epoch == r.epoch)
            .count() as u64;
        report
    }

    /// How fresh the client's copies were from a time after the Web was set in motion until now.
    /// Changes after `until_ms` do not count.
    pub fn freshness(&self, from_ms: u64, until_ms: u64) -> FreshnessReport {
        let to_ms = self.web.motion_ms().unwrap_or(0);
        lock(&self.copies).report(&self.web, (from_ms, until_ms), to_ms)
    }

    /// Figures for each host that was asked anything.
    pub fn per_host(&self) -> Vec<HostReport> {
        let reports = self.hosts.iter().enumerate().filter_map(|(host, slot)| {
            let slot = lock(slot);
            slot.was_asked()
                .then(|| slot.host_report(self.web.host_name(host as u32)))
        });
        reports.collect()
    }

    pub(crate) fn now_ns(&self) -> u64 {
        self.start.elapsed().as_nanos() as u64
    }

    pub(crate) fn ip_slot(&self, ip: IpAddr) -> usize {
        self.ips
            .iter()
            .position(|(known, _)| *known == ip)
            .unwrap_or(0)
    }

    pub(crate) fn connected(&self) {
        self.connections.fetch_add(1, Relaxed);
    }

    /// A connection turned to a host, or (`None`) away from it.
    pub(crate) fn connection_turns(&self, from: Option<u32>, to: Option<u32>) {
        if let Some(host) = from {
            let mut slot = lock(&self.hosts[host as usize]);
            slot.connected = slot.connected.saturating_sub(1);
        }
        if let Some(host) = to {
            let mut slot = lock(&self.hosts[host as usize]);
            slot.connected += 1;
            slot.most_connected = slot.most_connected.max(slot.connected);
        }
    }

    pub(crate) fn bad_request(&self) {
        self.bad_requests.fetch_add(1, Relaxed);
    }

    pub(crate) fn user_agent(&self, name: &str) {
        let mut agents = lock(&self.agents);
        if let Some((_, count)) = agents.iter_mut().find(|(known, _)| known == name) {
            *count += 1;
        } else if agents.len() < MAX_USER_AGENTS {
            agents.push((name.to_owned(), 1));
        }
    }

    pub(crate) fn begin(&self, arrival: &Arrival) -> Ticket {
        let begin_ns = self.now_ns();
        self.first_ns.fetch_min(begin_ns, Relaxed);
        let id = self.next_id.fetch_add(1, Relaxed);
        let is_robots = matches!(arrival.resource, Resource::Robots | Resource::RobotsMoved);
        let required_ns = self.required_ns(arrival.host);
        let mut broken: Vec<ViolationKind> = Vec::new();
        let (finding, refusals) = {
            let mut slot = lock(&self.hosts[arrival.host as usize]);
            slot.arrives(arrival, MAX_OTHER_URLS);
            // Settled from here on: its answer may reach the client before this thread can note that it is out.
            slot.robots_settled |= arrival.resource == Resource::Robots;
            if !is_robots && !slot.robots_settled {
                slot.before_robots += 1;
                broken.push(ViolationKind::BeforeRobots);
            }
            if !is_robots && !self.allows(arrival) {
                slot.forbidden += 1;
                broken.push(ViolationKind::Forbidden);
            }
            if arrival.target.starts_with("/decoy/") {
                slot.decoys += 1;
                broken.push(ViolationKind::Decoy);
            }
            if arrival.pipelined {
                slot.lane.overlaps += 1;
                broken.push(ViolationKind::Overlap);
            }
            (
                slot.lane.begin(id, begin_ns, required_ns),
                slot.refusals(arrival),
            )
        };
        if let Some((_, ip)) = self.ips.get(arrival.ip) {
            lock(ip).begin(begin_ns, self.expect_ip_delay_ns.load(Relaxed));
        }
        for kind in broken {
            self.note(kind, arrival.host, arrival.target, begin_ns, String::new());
        }
        if let Some(finding) = finding {
            self.note_finding(finding, arrival.host, arrival.target);
        }
        let (host, ip, resource, head) = (arrival.host, arrival.ip, arrival.resource, arrival.head);
        Ticket {
            id,
            host,
            ip,
            resource,
            head,
            begin_ns,
            refusals,
        }
    }

    pub(crate) fn end(&self, ticket: Ticket, target: &str, outcome: &Outcome) {
        let epoch = self.epoch.load(Relaxed);
        let is_robots = matches!(ticket.resource, Resource::Robots | Resource::RobotsMoved);
        let required_ns = self.required_ns(ticket.host);
        let retry_after_ns = u64::from(outcome.retry_after_s) * 1_000_000_000;
        let (findings, repeated) = {
            let mut slot = lock(&self.hosts[ticket.host as usize]);
            slot.robots_served |= ticket.resource == Resource::Robots;
            let repeated = slot.served(&ticket, target, outcome, epoch);
            (
                slot.lane.end(
                    ticket.id,
                    outcome.end_ns,
                    required_ns,
                    retry_after_ns,
                    is_robots,
                ),
                repeated,
            )
        };
        self.leave_ip(&ticket, outcome.end_ns);
        if let (Resource::Page(page), 200 | 304, false) =
            (ticket.resource, outcome.status, ticket.head)
            && let Some(now_ms) = self.web.motion_ms()
        {
            let sent = outcome.status == 200;
            lock(&self.copies).note(ticket.host, page, now_ms, sent);
        }
        for finding in findings {
            self.note_finding(finding, ticket.host, target);
        }
        if let Some(first_epoch) = repeated {
            let url = self.url(ticket.host, target);
            let mut details = lock(&self.details);
            if details.repeats.len() < MAX_DETAILS {
                details.repeats.push(Repeat {
                    url,
                    first_epoch,
                    epoch,
                    at_ms: ticket.begin_ns / 1_000_000,
                });
            }
        }
        self.record(&ticket, target, outcome.status, outcome.end_ns);
    }

    /// The client was gone before its answer was out.
    pub(crate) fn abort(&self, ticket: Ticket, target: &str) {
        let now_ns = self.now_ns();
        let findings = {
            let mut slot = lock(&self.hosts[ticket.host as usize]);
            slot.aborted += 1;
            if ticket.resource == Resource::Robots {
                slot.robots_settled = slot.robots_served;
            }
            slot.lane
                .end(ticket.id, now_ns, self.required_ns(ticket.host), 0, false)
        };
        self.leave_ip(&ticket, now_ns);
        for finding in findings {
            self.note_finding(finding, ticket.host, target);
        }
        self.record(&ticket, target, 0, now_ns);
    }

    fn leave_ip(&self, ticket: &Ticket, end_ns: u64) {
        self.last_ns.fetch_max(end_ns, Relaxed);
        if let Some((_, ip)) = self.ips.get(ticket.ip) {
            lock(ip).end(end_ns);
        }
    }

    fn allows(&self, arrival: &Arrival) -> bool {
        match arrival.resource {
            // An alias of a page is as forbidden as the page.
            Resource::Page(page) if arrival.alias => self
                .web
                .allowed(arrival.host, &self.web.path(arrival.host, page)),
            _ => self.web.allowed(arrival.host, arrival.target),
        }
    }

    fn required_ns(&self, host: u32) -> u64 {
        let crawl_delay_ns = u64::from(self.web.hosts[host as usize].crawl_delay_ms) * 1_000_000;
        crawl_delay_ns.max(self.expect_delay_ns.load(Relaxed))
    }

    fn url(&self, host: u32, target: &str) -> String {
        self.web.origin(host) + target
    }

    fn note_finding(&self, finding: Breach, host: u32, target: &str) {
        match finding {
            Breach::Overlap { at_ns } => {
                self.note(ViolationKind::Overlap, host, target, at_ns, String::new())
            }
            Breach::TooSoon {
                at_ns,
                gap_ns,
                required_ns,
            } => {
                let detail = format!(
                    "{} ms after the last answer, {} ms asked for",
                    ms(gap_ns),
                    ms(required_ns)
                );
                self.note(ViolationKind::TooSoon, host, target, at_ns, detail);
            }
        }
    }

    fn note(&self, kind: ViolationKind, host: u32, target: &str, at_ns: u64, detail: String) {
        let epoch = self.epoch.load(Relaxed);
        let mut details = lock(&self.details);
        if details.violations.len() < MAX_DETAILS {
            let url = self.url(host, target);
            details.violations.push(Violation {
                kind,
                url,
                at_ms: at_ns / 1_000_000,
                epoch,
                detail,
            });
        }
    }

    fn record(&self, ticket: &Ticket, target: &str, status: u16, end_ns: u64) {
        if !self.log_on.load(Relaxed) {
            return;
        }
        let mut log = lock(&self.log);
        while log.1.len() >= log.0.max(1) {
            log.1.pop_front();
        }
        log.1.push_back(RequestRecord {
            url: self.url(ticket.host, target),
            head: ticket.head,
            status,
            begin_us: ticket.begin_ns / 1_000,
            end_us: end_ns / 1_000,
            epoch: self.epoch.load(Relaxed),
        });
    }
}

/// Counts stay usable even if a thread died while counting.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn ms(ns: u64) -> f64 {
    (ns / 1_000) as f64 / 1_000.0
}
