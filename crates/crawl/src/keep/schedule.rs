//! Which page is to be fetched next, and for what reason. Pure: time comes in as ticks, and what is picked goes out as documents.

mod picks;

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap, HashSet, VecDeque};

use portolan_freshness::{Fetched, History, PageClass, PageId, PooledHistory, Scheduler};
use portolan_model::{DocId, HostId, PartitionId};

use super::hosts::Hosts;
use super::notes::{Found, NewUrl, Signal};
use super::rival::{Fetch, Rival};
use crate::links::NoHash;
use crate::settings::FreshnessSettings;

/// RAM of a page: its state, its document, its host, its place in the table of documents.
pub(crate) const PAGE_RAM_BYTES: u64 = 80;

/// New URLs that wait in RAM. Others are found in the registry when it is read again.
const MAX_NEW: usize = 1 << 20;

/// URLs that a person said have changed, and that wait.
pub(crate) const MAX_URGENT: usize = 100_000;

/// A signal is taken for as good as this many changes: ln(γ/ν) · Δ/α with nine in ten signals right and a quarter of all
/// changes without one.
const SIGNAL_CHANGES: f64 = 9.2;

/// What a page that was never there is worth beside one of mean importance.
const ABSENT_WEIGHT: f64 = 1.0 / 64.0;

const IN_FLIGHT: u8 = 1;
const SOURCE: u8 = 2;
const URGENT: u8 = 4;
/// A signal says that it has changed.
const SIGNALLED: u8 = 8;
/// A person, or a signal, said that it has changed while it was being fetched: what is fetched may be of the time before.
const URGENT_AGAIN: u8 = 16;
const SIGNALLED_AGAIN: u8 = 32;

/// Why a page is next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Why {
    /// A person said that it has changed.
    Told,
    /// It is a sitemap or a feed.
    Source,
    New,
    /// A sitemap or a feed says that it has changed.
    Signal,
    /// It is worth most.
    Worth,
}

/// A URL that is to become due.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Pick {
    pub(crate) doc: DocId,
    pub(crate) partition: PartitionId,
    pub(crate) host: HostId,
    pub(crate) why: Why,
    /// `None` for a URL that is new.
    pub(crate) page: Option<PageId>,
}

/// A page as the registry knows it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct KnownPage {
    pub(crate) doc: DocId,
    pub(crate) host: u32,
    /// Its importance; the mean of all is set afterwards.
    pub(crate) weight: f32,
    pub(crate) fetched: u32,
    pub(crate) history: History,
    pub(crate) is_source: bool,
    /// It is due already.
    pub(crate) in_flight: bool,
}

/// What became of a URL, as the schedule sees it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Settled {
    pub(crate) doc: DocId,
    pub(crate) host: u32,
    pub(crate) weight: f64,
    pub(crate) found: Found,
    pub(crate) is_source: bool,
    pub(crate) is_there: bool,
}

pub(crate) struct Schedule {
    scheduler: Scheduler,
    docs: Vec<DocId>,
    host_of: Vec<u32>,
    /// What the page's sitemap said last; 0 for nothing.
    marks: Vec<u16>,
    flags: Vec<u8>,
    by_doc: HashMap<u64, u32, NoHash>,
    pub(crate) hosts: Hosts,
    /// Of all hosts.
    pool: PooledHistory,
    sources: BinaryHeap<Reverse<(u32, u32)>>,
    urgent: VecDeque<u32>,
    new: VecDeque<(DocId, u32)>,
    new_in_flight: HashSet<u64, NoHash>,
    /// Picks that new pages have a right to.
    new_credit: f64,
    first_guess: f64,
    new_share: f64,
    sources_every: u32,
    tick_ms: u32,
    mean_weight: f64,
    max_pages: usize,
    /// Another policy than ours.
    rival: Option<Rival>,
    /// URLs were left out for want of memory; the registry knows them.
    pub(crate) left_some: bool,
}

impl Schedule {
    /// `usual_delay_ms` is that of a host of which nothing is known.
    pub(crate) fn new(settings: &FreshnessSettings, usual_delay_ms: u64) -> Self {
        let tick_ms = settings.tick_ms;
        let ticks = settings.sources_every_s.saturating_mul(1000) / u64::from(tick_ms);
        Self {
            scheduler: Scheduler::new(SIGNAL_CHANGES),
            docs: Vec::new(),
            host_of: Vec::new(),
            marks: Vec::new(),
            flags: Vec::new(),
            by_doc: HashMap::default(),
            hosts: Hosts::new(usual_delay_ms),
            pool: PooledHistory::default(),
            sources: BinaryHeap::new(),
            urgent: VecDeque::new(),
            new: VecDeque::new(),
            new_in_flight: HashSet::default(),
            new_credit: 0.0,
            first_guess: settings.first_guess_per_day * f64::from(tick_ms) / 1e3,
            new_share: settings.new_share,
            sources_every: u32::try_from(ticks).unwrap_or(u32::MAX / 2),
            tick_ms,
            mean_weight: 1.0,
            max_pages: usize::try_from((settings.memory_mb << 20) / PAGE_RAM_BYTES)
                .unwrap_or(usize::MAX)
                .min(u32::MAX as usize - 1),
            rival: Rival::of(
                settings.policy,
                settings.fetches_per_s * 86_400.0 * f64::from(tick_ms) / 1e3,
            ),
            left_some: false,
        }
    }

    /// All that is known, sorted by `fetched`. The histories of hosts are in `hosts` already.
    pub(crate) fn fill(&mut self, pages: &[KnownPage], pool: PooledHistory) {
        self.pool = pool;
        let sum: f64 = pages.iter().map(|page| f64::from(page.weight)).sum();
        if sum > 0.0 {
            self.mean_weight = sum / pages.len() as f64;
        }
        for page in pages {
            let prior = self.prior(page.host);
            let rate = page.history.rate(prior);
            let class = PageClass::of(rate, f64::from(page.weight) / self.mean_weight);
            let id = self
                .scheduler
                .insert_known(class, page.fetched, page.history);
            self.add(id, page.doc, page.host);
            if page.is_source {
                self.become_source(id, page.fetched);
            }
            if page.in_flight {
                self.leave(id);
            }
        }
    }

    /// A URL that is new, or may be, and waits for its share.
    pub(crate) fn add_new(&mut self, new: &NewUrl) {
        if self.by_doc.contains_key(&new.doc.0) || self.new_in_flight.contains(&new.doc.0) {
            return;
        }
        if self.new.len() >= MAX_NEW {
            self.left_some = true;
            return;
        }
        let host = self.hosts.number(new.host, new.partition);
        self.new.push_back((new.doc, host));
    }

    /// What a visit says of the URL, which is settled by it.
    pub(crate) fn settled(&mut self, now: u32, settled: &Settled) {
        let Settled { doc, host, .. } = *settled;
        if self.new_in_flight.remove(&doc.0) {
            self.hosts.get(host).settled();
        }
        let Some(&page) = self.by_doc.get(&doc.0) else {
            return self.add_settled(now, settled);
        };
        let (id, at) = (PageId(page), page as usize);
        if self.flags[at] & IN_FLIGHT != 0 {
            self.hosts.get(host).settled();
        }
        let was = self.flags[at];
        self.flags[at] &= !(IN_FLIGHT | URGENT | SIGNALLED | URGENT_AGAIN | SIGNALLED_AGAIN);
        // What was not picked is out of its queue all the same.
        self.scheduler.take(id);
        match settled.found {
            Found::News | Found::Quiet => {
                let changed = settled.found == Found::News;
                let ticks = now.saturating_sub(self.scheduler.fetched_s(id));
                let days = f64::from(ticks) / 86_400.0;
                let known = self.hosts.get(host);
                let (signalled, told) = (self.scheduler.signals(id) > 0, was & URGENT != 0);
                if signalled {
                    known.judge_signal(changed);
                }
                // Sitemaps are asked for because they change, and tell nothing of pages. What was chosen because it had changed tells
                // nothing of the host's other pages, either.
                if !settled.is_source && !signalled && !told {
                    self.pool.add(days, changed);
                    known.pool.add(days, changed);
                }
                let prior = self.prior(host);
                let told = signalled || told;
                let fetched = Fetched {
                    changed,
                    told,
                    prior,
                };
                self.scheduler.fetched(id, now, fetched);
                self.tell_rival(id, now, changed);
            }
            Found::Unclear | Found::Retry => {
                let class = self.scheduler.class(id);
                self.scheduler.fetched_as(id, now, class);
                self.tell_rival(id, now, false);
            }
        }
        self.flags[at] &= !SOURCE;
        if settled.is_source {
            self.become_source(id, now);
        } else if was & SIGNALLED_AGAIN != 0 {
            self.flags[at] |= SIGNALLED;
            self.scheduler.signal_waiting(id);
        }
        if was & URGENT_AGAIN != 0 {
            self.tell(doc);
        }
    }

    fn tell_rival(&mut self, id: PageId, now: u32, changed: bool) {
        let class = self.scheduler.class(id);
        if let Some(rival) = &mut self.rival {
            rival.fetched(Fetch {
                page: id.0,
                now,
                changed,
                rate: class.rate(),
                importance: class.importance(),
            });
        }
    }

    /// From now on it comes at its interval, whatever it is worth.
    fn become_source(&mut self, id: PageId, fetched: u32) {
        if self.sources_every == 0 {
            return;
        }
        self.scheduler.take(id);
        self.flags[id.0 as usize] |= SOURCE;
        let due = fetched.saturating_add(self.sources_every);
        self.sources.push(Reverse((due, id.0)));
    }

    /// A URL that was not in the schedule.
    fn add_settled(&mut self, now: u32, settled: &Settled) {
        if self.docs.len() >= self.max_pages {
            self.left_some = true;
            return;
        }
        let weight = match settled.is_there {
            true => settled.weight / self.mean_weight,
            false => ABSENT_WEIGHT,
        };
        let class = PageClass::of(self.prior(settled.host), weight);
        let id = self.scheduler.insert(class, now);
        self.add(id, settled.doc, settled.host);
        if settled.is_source {
            self.become_source(id, now);
        }
    }

    /// A sitemap or a feed says that a page has changed: it counts once until the page is fetched, if the host is believed. `changed` is the
    /// tick of the change, where it is said.
    pub(crate) fn signal(&mut self, signal: &Signal, changed: Option<u32>) {
        let Some(&page) = self.by_doc.get(&signal.doc.0) else {
            return;
        };
        let (id, at) = (PageId(page), page as usize);
        let before = std::mem::replace(&mut self.marks[at], signal.mark);
        let is_news = match (signal.mark, before) {
            (0, _) => true,
            // Said for the first time since the start.
            (_, 0) => changed.is_some_and(|tick| tick > self.scheduler.fetched_s(id)),
            (now, before) => now != before,
        };
        let said_already = self.flags[at] & (SOURCE | SIGNALLED | SIGNALLED_AGAIN) != 0;
        if !is_news || said_already || !self.hosts.get(self.host_of[at]).believes_signal() {
            return;
        }
        if self.flags[at] & IN_FLIGHT != 0 {
            self.flags[at] |= SIGNALLED_AGAIN;
        } else {
            self.flags[at] |= SIGNALLED;
            self.scheduler.signal_waiting(id);
        }
    }

    /// Has somebody said that the page has changed, and was it not fetched since?
    pub(crate) fn is_said_to_have_changed(&self, doc: DocId) -> bool {
        let page = self.by_doc.get(&doc.0);
        page.is_some_and(|&page| {
            self.flags[page as usize] & (URGENT | SIGNALLED | URGENT_AGAIN | SIGNALLED_AGAIN) != 0
        })
    }

    /// The page's own host says so by a ping. False if it is not known here.
    pub(crate) fn ping(&mut self, doc: DocId) -> bool {
        let signal = Signal {
            doc,
            mark: 0,
            changed_ms: None,
        };
        self.signal(&signal, None);
        self.by_doc.contains_key(&doc.0)
    }

    /// A person says that a page has changed: it is next. False if it is not known here.
    pub(crate) fn tell(&mut self, doc: DocId) -> bool {
        let Some(&page) = self.by_doc.get(&doc.0) else {
            return false;
        };
        let flags = &mut self.flags[page as usize];
        if *flags & IN_FLIGHT != 0 {
            *flags |= URGENT_AGAIN;
        } else if *flags & URGENT == 0 {
            *flags |= URGENT;
            self.urgent.push_back(page);
        }
        true
    }

    /// Pages that wait because a person said that they have changed.
    pub(crate) fn urgent(&self) -> usize {
        self.urgent.len()
    }

    pub(crate) fn new_waiting(&self) -> usize {
        self.new.len()
    }

    pub(crate) fn len(&self) -> usize {
        self.docs.len()
    }

    pub(crate) fn scheduler(&self) -> &Scheduler {
        &self.scheduler
    }

    pub(crate) fn pages(&self) -> impl Iterator<Item = (PageId, DocId, u32)> {
        let ids = (0..).map(PageId);
        let pages = ids.zip(&self.docs).zip(&self.host_of);
        pages.map(|((id, doc), host)| (id, *doc, *host))
    }

    /// Changes a tick-day of a page of this host of which nothing is known.
    fn prior(&mut self, host: u32) -> f64 {
        let all = self.pool.rate(self.first_guess);
        self.hosts.get(host).pool.rate(all)
    }

    fn add(&mut self, id: PageId, doc: DocId, host: u32) {
        self.docs.push(doc);
        self.host_of.push(host);
        self.marks.push(0);
        self.flags.push(0);
        self.by_doc.insert(doc.0, id.0);
        self.hosts.get(host).pages += 1;
        let class = self.scheduler.class(id);
        if let Some(rival) = &mut self.rival {
            let fetched = self.scheduler.fetched_s(id);
            rival.add(fetched, (class.rate(), class.importance()));
        }
    }
}

#[cfg(test)]
mod tests;
