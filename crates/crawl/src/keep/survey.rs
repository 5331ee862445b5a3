//! How fresh the copies of a crawl are by now, and what would be fetched next: what `portolan freshness` shows. Made from the registry as the
//! keeper's schedule is, and by the same schedule.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};
use std::path::Path;

use portolan_model::{Clock, DocId, HostId, SystemClock};
use portolan_registry::Snapshot;

use super::notes::Found;
use super::scan::{Source, Ticks, scan};
use super::schedule::{Pick, Schedule, Settled, Why};
use crate::crawl::{Crawl, REGISTRY_DIR};
use crate::directory;
use crate::error::CrawlError;

/// How far the forecast looks ahead, ...
const HOUR_S: f64 = 3_600.0;
/// ... and how many fetches it counts at most.
const MOST_FETCHES: f64 = 200_000.0;

/// What is known of a crawl's freshness.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Survey {
    /// Pages that were fetched and are in the schedule.
    pub pages: u64,
    /// New URLs that wait for their share of the rate.
    pub new_waiting: u64,
    /// How likely a copy is to be as its page is now, on average over all pages.
    pub fresh: f64,
    /// The same, where important pages count more.
    pub fresh_by_importance: f64,
    /// Most pages first.
    pub hosts: Vec<HostFreshness>,
    pub forecast: Forecast,
}

/// The pages of one host.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct HostFreshness {
    pub host: String,
    pub pages: u64,
    /// Changes a day of a page, on average.
    pub changes_per_day: f64,
    pub fresh: f64,
    /// Fetches within the forecast.
    pub fetches: u64,
}

/// What would become due if nothing new were found.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Forecast {
    pub fetches_per_s: f64,
    pub seconds: f64,
    pub fetches: u64,
    pub new: u64,
    pub sources: u64,
    /// The first of them.
    pub next: Vec<NextFetch>,
}

/// A page that is to be fetched, and why.
#[derive(Debug, Clone, PartialEq)]
pub struct NextFetch {
    pub url: String,
    /// Seconds from now until it is due.
    pub in_s: f64,
    /// `worth`, `signal`, `told`, `source` or `new`.
    pub why: &'static str,
    pub changes_per_day: f64,
    pub age_s: f64,
    /// Of a mean page it is 1.
    pub importance: f64,
    /// What a fetch is worth: freshness that is won, by importance, in days.
    pub worth: f64,
}

/// Reads the crawl in `dir`, which may be running. `rate`: as if that many URLs became due a second. The first `top` fetches are
/// told one by one.
pub fn survey(dir: &Path, rate: Option<f64>, top: usize) -> Result<Survey, CrawlError> {
    let snapshot = directory::snapshot(dir)?;
    let mut settings = Crawl::saved_settings(dir)?;
    settings.freshness.fetches_per_s = rate.unwrap_or(settings.freshness.fetches_per_s);
    settings
        .check()
        .map_err(|e| CrawlError::Input(e.to_string()))?;
    let now_ms = SystemClock::start().wall_ms();
    let ticks = Ticks::from_now(now_ms, settings.freshness.tick_ms);
    let registry = dir.join(REGISTRY_DIR);
    let source = Source {
        registry: &registry,
        ids: *snapshot.ids(),
        settings: &settings,
        ticks,
    };
    let partitions = snapshot.partitions();
    let Some(schedule) = scan(&source, partitions, &mut || true)? else {
        return Err(CrawlError::Internal("the registry was not read".to_owned()));
    };
    let mut look = Look {
        schedule,
        tick_s: f64::from(settings.freshness.tick_ms) / 1e3,
        now: ticks.of(now_ms),
        fetches: HashMap::new(),
    };
    let mut survey = look.by_now();
    let names: HashMap<HostId, String> = (snapshot.hosts()?.into_iter())
        .map(|(id, state)| (id, state.name))
        .collect();
    let by_host = look.hosts();
    survey.forecast = look.ahead(&snapshot, settings.freshness.fetches_per_s, top)?;
    survey.hosts = by_host
        .into_iter()
        .map(|(id, host)| HostFreshness {
            host: names.get(&id).cloned().unwrap_or_default(),
            fetches: look.fetches.get(&id).copied().unwrap_or(0),
            ..host
        })
        .collect();
    survey
        .hosts
        .sort_by(|a, b| b.pages.cmp(&a.pages).then_with(|| a.host.cmp(&b.host)));
    Ok(survey)
}

struct Look {
    schedule: Schedule,
    tick_s: f64,
    now: u32,
    /// Within the forecast.
    fetches: HashMap<HostId, u64>,
}

impl Look {
    /// From changes in 86,400 ticks to changes a day.
    fn per_day(&self, rate: f64) -> f64 {
        rate / self.tick_s
    }

    fn by_now(&self) -> Survey {
        let scheduler = self.schedule.scheduler();
        let (mut fresh, mut weighted, mut weights) = (0.0, 0.0, 0.0);
        for (id, ..) in self.schedule.pages() {
            let class = scheduler.class(id);
            let age = f64::from(self.now.saturating_sub(scheduler.fetched_s(id))) / 86_400.0;
            let likely = (-class.rate() * age).exp();
            fresh += likely;
            weighted += class.importance() * likely;
            weights += class.importance();
        }
        let pages = self.schedule.len();
        Survey {
            pages: pages as u64,
            new_waiting: self.schedule.new_waiting() as u64,
            fresh: fresh / pages.max(1) as f64,
            fresh_by_importance: weighted / f64::max(weights, f64::MIN_POSITIVE),
            ..Survey::default()
        }
    }

    fn hosts(&self) -> HashMap<HostId, HostFreshness> {
        let ids: Vec<HostId> = self.schedule.hosts.iter().map(|host| host.id).collect();
        let scheduler = self.schedule.scheduler();
        let mut hosts: HashMap<HostId, HostFreshness> = HashMap::new();
        for (id, _, host) in self.schedule.pages() {
            let rate = scheduler.class(id).rate();
            let age = f64::from(self.now.saturating_sub(scheduler.fetched_s(id))) / 86_400.0;
            let sums = hosts.entry(ids[host as usize]).or_default();
            sums.pages += 1;
            sums.changes_per_day += self.per_day(rate);
            sums.fresh += (-rate * age).exp();
        }
        for host in hosts.values_mut() {
            let pages = host.pages.max(1) as f64;
            host.changes_per_day /= pages;
            host.fresh /= pages;
        }
        hosts
    }

    /// Lets the schedule run, as if every fetch took no time and found nothing. A host that was asked rests for its delay.
    fn ahead(
        &mut self,
        snapshot: &Snapshot,
        rate: f64,
        top: usize,
    ) -> Result<Forecast, CrawlError> {
        let seconds = f64::min(HOUR_S, MOST_FETCHES / rate);
        let mut forecast = Forecast {
            fetches_per_s: rate,
            seconds,
            ..Forecast::default()
        };
        let mut resting: BinaryHeap<Reverse<(u32, DocId)>> = BinaryHeap::new();
        let mut asked: HashMap<DocId, Pick> = HashMap::new();
        for number in 0..(seconds * rate) as u64 {
            let in_s = number as f64 / rate;
            let now = self.now.saturating_add((in_s / self.tick_s) as u32);
            while let Some(&Reverse((free, doc))) = resting.peek()
                && free <= now
            {
                resting.pop();
                if let Some(pick) = asked.remove(&doc) {
                    self.settle(free, &pick);
                }
            }
            let Some(pick) = self.schedule.pick(now) else {
                continue;
            };
            forecast.fetches += 1;
            forecast.new += u64::from(pick.why == Why::New);
            forecast.sources += u64::from(pick.why == Why::Source);
            *self.fetches.entry(pick.host).or_default() += 1;
            if forecast.next.len() < top
                && let Some(url) = snapshot.url_of(pick.doc)?
            {
                forecast.next.push(self.told(url, in_s, now, &pick));
            }
            let delay_ms = self
                .schedule
                .hosts
                .find(pick.host)
                .map_or(0, |h| h.delay_ms());
            let delay = (delay_ms as f64 / 1e3 / self.tick_s) as u32;
            resting.push(Reverse((now.saturating_add(delay), pick.doc)));
            asked.insert(pick.doc, pick);
        }
        Ok(forecast)
    }

    fn settle(&mut self, now: u32, pick: &Pick) {
        let host = self.schedule.hosts.number(pick.host, pick.partition);
        let settled = Settled {
            doc: pick.doc,
            host,
            weight: 1.0,
            found: Found::Unclear,
            is_source: pick.why == Why::Source,
            is_there: true,
        };
        self.schedule.settled(now, &settled);
    }

    fn told(&self, url: String, in_s: f64, now: u32, pick: &Pick) -> NextFetch {
        let why = match pick.why {
            Why::Told => "told",
            Why::Source => "source",
            Why::New => "new",
            Why::Signal => "signal",
            Why::Worth => "worth",
        };
        let next = NextFetch {
            url,
            in_s,
            why,
            changes_per_day: 0.0,
            age_s: 0.0,
            importance: 1.0,
            worth: 0.0,
        };
        let Some(id) = pick.page else {
            return next;
        };
        let scheduler = self.schedule.scheduler();
        let class = scheduler.class(id);
        NextFetch {
            changes_per_day: self.per_day(class.rate()),
            age_s: f64::from(now.saturating_sub(scheduler.fetched_s(id))) * self.tick_s,
            importance: class.importance(),
            worth: scheduler.value(id, now) * self.tick_s,
            ..next
        }
    }
}
