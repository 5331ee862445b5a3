//! The schedule from a registry: what was learned of each page is in its last visit. One pass over all that is known, in whatever order it is
//! stored; of more pages than there is memory for, those stay whose turn comes first.

use std::collections::HashMap;
use std::path::Path;

use portolan_freshness::{History, PageClass, PooledHistory, age_of_value};
use portolan_model::{Identities, Order, PartitionId, Reason, Visit};
use portolan_registry::{Snapshot, UrlRecord, UrlState};

use super::notes::{NewUrl, is_feed};
use super::schedule::{KnownPage, PAGE_RAM_BYTES, Schedule};
use super::weight_of;
use crate::error::CrawlError;
use crate::settings::Settings;

/// After this many changes of a page, what is known of it is scaled down to that: rates drift.
const MOST_CHANGES: u32 = 48;

/// Records that are read between two looks at whether to stop.
const LOOK_EVERY: u64 = 1_000;

/// Times in ticks since a moment in the past.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Ticks {
    base_ms: u64,
    tick_ms: u64,
}

impl Ticks {
    /// Half of what can be told lies in the past.
    pub(crate) fn from_now(now_ms: u64, tick_ms: u32) -> Self {
        let tick_ms = u64::from(tick_ms);
        Self {
            base_ms: now_ms.saturating_sub((1 << 31) * tick_ms),
            tick_ms,
        }
    }

    pub(crate) fn of(self, at_ms: u64) -> u32 {
        let ticks = at_ms.saturating_sub(self.base_ms) / self.tick_ms;
        u32::try_from(ticks).unwrap_or(u32::MAX)
    }

    /// Is it time to choose another moment?
    pub(crate) fn are_running_out(self, now_ms: u64) -> bool {
        self.of(now_ms) > u32::MAX - (1 << 28)
    }

    fn days(self, ms: u64) -> f32 {
        (ms as f64 / self.tick_ms as f64 / 86_400.0) as f32
    }
}

/// What a schedule is made from.
pub(crate) struct Source<'s> {
    pub(crate) registry: &'s Path,
    pub(crate) ids: Identities,
    pub(crate) settings: &'s Settings,
    pub(crate) ticks: Ticks,
}

/// Reads the registry. `go_on` is asked now and then; `None` if it said no.
pub(crate) fn scan(
    source: &Source<'_>,
    partitions: u16,
    go_on: &mut dyn FnMut() -> bool,
) -> Result<Option<Schedule>, CrawlError> {
    let settings = source.settings;
    let schedule = Schedule::new(&settings.freshness, settings.politeness.delay_ms);
    let max_pages = (settings.freshness.memory_mb << 20) / PAGE_RAM_BYTES;
    let mut gathered = Gathered {
        source,
        schedule,
        pages: Vec::new(),
        pool: PooledHistory::default(),
        max_pages: usize::try_from(max_pages).unwrap_or(usize::MAX),
        seen: 0,
    };
    for id in 0..partitions {
        let snapshot = Snapshot::open_one(source.registry, source.ids, id)?;
        let states = [
            UrlState::Visited,
            UrlState::Failed,
            UrlState::Due,
            UrlState::Excluded,
        ];
        for url in snapshot.scattered(&states) {
            let url = url?;
            gathered.seen += 1;
            if gathered.seen.is_multiple_of(LOOK_EVERY) && !go_on() {
                return Ok(None);
            }
            let visit = snapshot.visit(&url)?;
            gathered.take(&url, visit.as_ref());
        }
        for (id, state) in snapshot.hosts()? {
            if let (Some(host), Some(pulse)) = (gathered.schedule.hosts.find(id), state.pulse) {
                host.set_delay(u64::from(pulse.delay_ms));
            }
        }
    }
    Ok(Some(gathered.finish()))
}

struct Gathered<'s> {
    source: &'s Source<'s>,
    schedule: Schedule,
    pages: Vec<KnownPage>,
    /// Of all hosts.
    pool: PooledHistory,
    max_pages: usize,
    seen: u64,
}

impl Gathered<'_> {
    fn take(&mut self, url: &UrlRecord, visit: Option<&Visit>) {
        let partition = PartitionId(url.partition);
        let is_new =
            url.state == UrlState::Excluded && url.reason == Some(Reason::WaitsForItsShare);
        if is_new {
            self.schedule.add_new(&NewUrl {
                doc: url.doc,
                host: url.host,
                partition,
            });
        }
        let Some(visit) = visit.filter(|_| !is_new) else {
            return;
        };
        let ticks = self.source.ticks;
        let history = history_of(visit, ticks);
        let host = self.schedule.hosts.number(url.host, partition);
        let is_source = visit.is_source() || is_feed(&visit.mime);
        if !is_source {
            let untold = untold_history_of(visit, ticks);
            self.schedule.hosts.get(host).pool.add_page(&untold);
            self.pool.add_page(&untold);
        }
        let settings = &self.source.settings;
        let order: Order = settings.frontier.order;
        self.pages.push(KnownPage {
            doc: url.doc,
            host,
            weight: weight_of(&settings.freshness, order, url.class) as f32,
            fetched: ticks.of(visit.at_ms),
            history,
            is_source,
            in_flight: url.state == UrlState::Due,
        });
        if self.pages.len() > self.max_pages.saturating_add(self.max_pages / 4) {
            self.keep_the_first();
        }
    }

    /// Leaves out the pages whose turn comes last.
    fn keep_the_first(&mut self) {
        if self.pages.len() <= self.max_pages {
            return;
        }
        let settings = &self.source.settings.freshness;
        let first_guess = settings.first_guess_per_day * f64::from(settings.tick_ms) / 1e3;
        let prior = self.pool.rate(first_guess);
        let sum: f64 = self.pages.iter().map(|page| f64::from(page.weight)).sum();
        let mean = sum / self.pages.len() as f64;
        let class = |page: &KnownPage| {
            PageClass::of(page.history.rate(prior), f64::from(page.weight) / mean)
        };
        let mut counts: HashMap<PageClass, u64> = HashMap::new();
        for page in &self.pages {
            *counts.entry(class(page)).or_default() += 1;
        }
        let per_day = settings.fetches_per_s * 86_400.0 * f64::from(settings.tick_ms) / 1e3;
        let threshold = threshold_of(&counts, per_day);
        let due = |page: &KnownPage| {
            let class = class(page);
            let age = age_of_value(class.rate(), class.importance(), threshold);
            f64::from(page.fetched) / 86_400.0 + age
        };
        let keep = self.max_pages.max(1) - 1;
        self.pages
            .select_nth_unstable_by(keep, |a, b| due(a).total_cmp(&due(b)));
        self.pages.truncate(self.max_pages.max(1));
        self.schedule.left_some = true;
    }

    fn finish(mut self) -> Schedule {
        self.keep_the_first();
        self.pages.sort_unstable_by_key(|page| page.fetched);
        self.schedule.fill(&self.pages, self.pool);
        self.schedule
    }
}

/// The worth at which pages of these classes ask for as many fetches a day as there are, by bisection.
fn threshold_of(counts: &HashMap<PageClass, u64>, per_day: f64) -> f64 {
    let wanted = |threshold: f64| -> f64 {
        let of = |(class, count): (&PageClass, &u64)| {
            *count as f64 / age_of_value(class.rate(), class.importance(), threshold).max(1e-9)
        };
        counts.iter().map(of).sum()
    };
    let (mut low, mut high) = (-40.0, 40.0);
    for _ in 0..60 {
        let middle: f64 = (low + high) / 2.0;
        match wanted(middle.exp2()) > per_day {
            true => low = middle,
            false => high = middle,
        }
    }
    f64::exp2(high)
}

/// What the checks up to this visit found, with `ticks` as seconds. What somebody told of had not changed until then
/// ([`History::add_told`]).
pub(crate) fn history_of(visit: &Visit, ticks: Ticks) -> History {
    let known = &visit.history;
    let quiet_ms = known.quiet_ms.saturating_add(known.told_after_ms);
    history(known.news, (quiet_ms, known.news_after_ms), ticks)
}

/// The same without the checks that were made because somebody had told of a change: they say nothing of other pages, which would have
/// been checked, too, if they had changed.
fn untold_history_of(visit: &Visit, ticks: Ticks) -> History {
    let known = &visit.history;
    let news = known.news.saturating_sub(known.told);
    history(news, (known.quiet_ms, known.news_after_ms), ticks)
}

fn history(news: u32, (quiet_ms, news_after_ms): (u64, u64), ticks: Ticks) -> History {
    let share = match news > MOST_CHANGES {
        true => MOST_CHANGES as f32 / news as f32,
        false => 1.0,
    };
    History {
        unchanged_days: ticks.days(quiet_ms) * share,
        changed_days: ticks.days(news_after_ms) * share,
        changes: news.min(MOST_CHANGES) as u16,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_moment_in_the_past_leaves_as_much_time_as_has_been() {
        for tick_ms in [1, 1_000, 60_000] {
            let now_ms = 1_800_000_000_000;
            let ticks = Ticks::from_now(now_ms, tick_ms);
            assert!(ticks.of(now_ms) <= 1 << 31);
            assert_eq!(
                ticks.of(now_ms + 5 * u64::from(tick_ms)) - ticks.of(now_ms),
                5
            );
            assert!(!ticks.are_running_out(now_ms));
        }
        let fine = Ticks::from_now(1_800_000_000_000, 1);
        assert!(fine.are_running_out(1_800_000_000_000 + (1 << 31)));
    }

    #[test]
    fn what_somebody_told_of_says_nothing_of_other_pages() {
        let mut visit = Visit::without_answer(0, portolan_model::Outcome::Fetched);
        let day_ms = 86_400_000;
        visit.history.news = 10;
        visit.history.told = 8;
        visit.history.news_after_ms = 2 * day_ms;
        visit.history.told_after_ms = 4 * day_ms;
        visit.history.quiet_ms = 3 * day_ms;
        let ticks = Ticks::from_now(1_800_000_000_000, 1_000);
        let (all, untold) = (history_of(&visit, ticks), untold_history_of(&visit, ticks));
        let days = |history: History| {
            (
                history.changes,
                history.changed_days,
                history.unchanged_days,
            )
        };
        assert_eq!(days(all), (10, 2.0, 7.0));
        assert_eq!(days(untold), (2, 2.0, 3.0));
    }

    #[test]
    fn at_the_threshold_as_many_fetches_are_wanted_as_there_are() {
        let counts = HashMap::from([
            (PageClass::of(0.1, 1.0), 1_000),
            (PageClass::of(5.0, 2.0), 200),
        ]);
        let threshold = threshold_of(&counts, 100.0);
        let fetches: f64 = counts
            .iter()
            .map(|(class, n)| *n as f64 / age_of_value(class.rate(), class.importance(), threshold))
            .sum();
        assert!((fetches - 100.0).abs() < 1.0, "{fetches}");
    }
}
