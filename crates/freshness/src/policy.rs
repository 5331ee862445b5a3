//! Schedules side by side: ours, and what others do. All of them may fetch at each moment that the rate allows, and all do.

use std::cmp::{Ordering, Reverse};
use std::collections::BinaryHeap;

use crate::DAY_S;
use crate::draw::SimulatedPage;
use crate::optimum::lambda_crawl_rates;
use crate::page::PageClass;
use crate::rate::PooledHistory;
use crate::scheduler::{Fetched, PageId, Scheduler};

/// Who decides which page is fetched next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Policy {
    /// The page that is worth most, with rates learned from what fetches found.
    Ours,
    /// The same with the true rates.
    OursTrueRates,
    /// LambdaCrawl with the true rates; it is the best for another measure.
    LambdaCrawl,
    /// The interval × 1.5 if nothing changed, × 0.5 if something did.
    StormCrawler,
    /// Nutch's AdaptiveFetchSchedule: the interval × 1.2 if nothing changed, × 0.8 if something did.
    Nutch,
    /// All pages in turn.
    Uniform,
    /// As often as a page changes, by the true rates.
    Proportional,
}

impl Policy {
    pub const ALL: [Policy; 7] = [
        Policy::Ours,
        Policy::OursTrueRates,
        Policy::LambdaCrawl,
        Policy::StormCrawler,
        Policy::Nutch,
        Policy::Uniform,
        Policy::Proportional,
    ];

    pub fn name(self) -> &'static str {
        match self {
            Policy::Ours => "ours",
            Policy::OursTrueRates => "ours-true-rates",
            Policy::LambdaCrawl => "lambda-crawl",
            Policy::StormCrawler => "storm-crawler",
            Policy::Nutch => "nutch",
            Policy::Uniform => "uniform",
            Policy::Proportional => "proportional",
        }
    }

    /// Is it told the true rates?
    pub fn knows_rates(self) -> bool {
        matches!(
            self,
            Policy::OursTrueRates | Policy::LambdaCrawl | Policy::Proportional
        )
    }
}

/// A schedule that a simulation asks; `fetched` holds when each page was last fetched, in days.
pub(crate) enum Schedule<'a> {
    Ours(Box<Greedy<'a>>),
    Intervals(Intervals),
}

impl<'a> Schedule<'a> {
    pub(crate) fn new(
        policy: Policy,
        pages: &'a [SimulatedPage],
        fetched: &[f64],
        per_day: f64,
    ) -> Schedule<'a> {
        let known: Vec<(f64, f64)> = pages.iter().map(|p| (p.rate, p.importance)).collect();
        let even = pages.len() as f64 / per_day;
        let all: f64 = pages.iter().map(|page| page.rate).sum();
        let (days, factors) = match policy {
            Policy::Ours => return Schedule::Ours(Box::new(Greedy::new(pages, fetched, true))),
            Policy::OursTrueRates => {
                return Schedule::Ours(Box::new(Greedy::new(pages, fetched, false)));
            }
            Policy::LambdaCrawl => {
                let rates = lambda_crawl_rates(&known, per_day);
                (rates.iter().map(|rate| 1.0 / rate).collect(), (1.0, 1.0))
            }
            Policy::Proportional => {
                let days = known.iter().map(|(rate, _)| all / (rate * per_day));
                (days.collect(), (1.0, 1.0))
            }
            Policy::StormCrawler => (vec![even; pages.len()], (1.5, 0.5)),
            Policy::Nutch => (vec![even; pages.len()], (1.2, 0.8)),
            Policy::Uniform => (vec![even; pages.len()], (1.0, 1.0)),
        };
        Schedule::Intervals(Intervals::new(days, factors, fetched))
    }

    /// The page to fetch at `now`, in days.
    pub(crate) fn pick(&mut self, now: f64) -> Option<usize> {
        match self {
            Schedule::Ours(greedy) => greedy.pick(now),
            Schedule::Intervals(intervals) => intervals.due.pop().map(|Reverse(due)| due.page),
        }
    }

    pub(crate) fn fetched(&mut self, page: usize, now: f64, days: f64, changed: bool) {
        match self {
            Schedule::Ours(greedy) => greedy.fetched(page, now, days, changed),
            Schedule::Intervals(intervals) => intervals.fetched(page, now, changed),
        }
    }
}

/// The scheduler of this crate.
pub(crate) struct Greedy<'a> {
    pages: &'a [SimulatedPage],
    scheduler: Scheduler,
    /// The page behind each id, and the other way round.
    page_of: Vec<usize>,
    id_of: Vec<PageId>,
    learned: Option<PooledHistory>,
}

/// The rate of a page of which nothing is known, not even its host's.
const FIRST_GUESS: f64 = 0.1;

impl<'a> Greedy<'a> {
    fn new(pages: &'a [SimulatedPage], fetched: &[f64], learns: bool) -> Greedy<'a> {
        let mut scheduler = Scheduler::with_capacity(0.0, pages.len());
        let mut page_of: Vec<usize> = (0..pages.len()).collect();
        page_of.sort_by(|&a, &b| fetched[a].total_cmp(&fetched[b]));
        let mut id_of = vec![PageId(0); pages.len()];
        for &page in &page_of {
            let SimulatedPage { rate, importance } = pages[page];
            let rate = if learns { FIRST_GUESS } else { rate };
            id_of[page] = scheduler.insert(PageClass::of(rate, importance), seconds(fetched[page]));
        }
        Greedy {
            pages,
            scheduler,
            page_of,
            id_of,
            learned: learns.then(PooledHistory::default),
        }
    }

    fn pick(&mut self, now: f64) -> Option<usize> {
        let id = self.scheduler.pick(seconds(now), |_| 0)?;
        Some(self.page_of[id.0 as usize])
    }

    fn fetched(&mut self, page: usize, now: f64, days: f64, changed: bool) {
        let id = self.id_of[page];
        if let Some(pooled) = &mut self.learned {
            pooled.add(days, changed);
            let prior = pooled.rate(FIRST_GUESS);
            let found = Fetched {
                changed,
                told: false,
                prior,
            };
            self.scheduler.fetched(id, seconds(now), found);
        } else {
            let SimulatedPage { rate, importance } = self.pages[page];
            let class = PageClass::of(rate, importance);
            self.scheduler.fetched_as(id, seconds(now), class);
        }
    }
}

fn seconds(days: f64) -> u32 {
    (days * DAY_S) as u32
}

/// Each page has an interval; the page whose time came first is next.
pub(crate) struct Intervals {
    days: Vec<f64>,
    /// What an interval is multiplied with when nothing changed, and when something did.
    factors: (f64, f64),
    due: BinaryHeap<Reverse<Due>>,
}

impl Intervals {
    fn new(days: Vec<f64>, factors: (f64, f64), fetched: &[f64]) -> Intervals {
        let due = days.iter().zip(fetched).enumerate();
        let due = due.map(|(page, (days, fetched))| {
            let day = fetched + days;
            Reverse(Due { day, page })
        });
        Intervals {
            due: due.collect(),
            days,
            factors,
        }
    }

    fn fetched(&mut self, page: usize, now: f64, changed: bool) {
        let factor = if changed {
            self.factors.1
        } else {
            self.factors.0
        };
        // A minute and a year are the bounds of Nutch.
        let days = (self.days[page] * factor).clamp(1.0 / 1440.0, 365.0);
        if factor != 1.0 {
            self.days[page] = days;
        }
        let day = now + self.days[page];
        self.due.push(Reverse(Due { day, page }));
    }
}

#[derive(PartialEq)]
struct Due {
    day: f64,
    page: usize,
}

impl Eq for Due {}

impl PartialOrd for Due {
    fn partial_cmp(&self, other: &Due) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Due {
    fn cmp(&self, other: &Due) -> Ordering {
        self.day
            .total_cmp(&other.day)
            .then(self.page.cmp(&other.page))
    }
}
