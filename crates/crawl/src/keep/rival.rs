//! Other schedules than ours, to compare with in a real crawl: each page has an interval, and the page whose time came first is
//! next, early or late, so that all fetches are used. None of them knows signals. Those that go by rates are told those that
//! are learned.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use portolan_freshness::{lambda_crawl_rate, lambda_crawl_worth};

use crate::settings::FreshnessPolicy;

const DAY: f64 = 86_400.0;
/// Bounds of an interval, in ticks.
const SHORTEST: f64 = 60.0;
const LONGEST: f64 = 365.0 * DAY;
/// Pages whose hosts may not be asked are put aside while one page is picked, up to this many.
const MAX_PUT_ASIDE: usize = 256;

/// What a rival hears of a fetch.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Fetch {
    pub(crate) page: u32,
    pub(crate) now: u32,
    pub(crate) changed: bool,
    /// Changes a tick-day, as learned; and the page's importance.
    pub(crate) rate: f64,
    pub(crate) importance: f64,
}

#[derive(Debug)]
pub(crate) struct Rival {
    policy: FreshnessPolicy,
    /// Fetches a tick-day of all pages.
    per_day: f64,
    /// Of each page: its interval in ticks, its rate and its importance.
    pages: Vec<(f64, f64, f64)>,
    due: BinaryHeap<Reverse<(u64, u32)>>,
    /// The time of each page that counts; others in `due` are void.
    due_of: Vec<u64>,
    /// Pages whose hosts may not be asked before a tick, with the time at which they are due.
    aside: BinaryHeap<Reverse<(u32, u64, u32)>>,
    /// The sum of all rates.
    rates: f64,
    /// LambdaCrawl's λ, and fetches since it was computed.
    lambda: f64,
    since_lambda: usize,
}

impl Rival {
    /// `None`: the schedule is ours.
    pub(crate) fn of(policy: FreshnessPolicy, per_day: f64) -> Option<Self> {
        (policy != FreshnessPolicy::Worth).then(|| Self {
            policy,
            per_day,
            pages: Vec::new(),
            due: BinaryHeap::new(),
            due_of: Vec::new(),
            aside: BinaryHeap::new(),
            rates: 0.0,
            lambda: 1.0,
            since_lambda: usize::MAX,
        })
    }

    /// A page that was not known; pages come in the order of their numbers.
    pub(crate) fn add(&mut self, fetched: u32, (rate, importance): (f64, f64)) {
        let even = (self.pages.len() + 1) as f64 / self.per_day * DAY;
        let page = self.pages.len() as u32;
        self.pages.push((even, rate, importance));
        self.rates += rate;
        self.due_of.push(0);
        self.wait(page, u64::from(fetched) + even as u64);
    }

    fn wait(&mut self, page: u32, due: u64) {
        self.due_of[page as usize] = due;
        self.due.push(Reverse((due, page)));
    }

    pub(crate) fn fetched(&mut self, fetch: Fetch) {
        let Fetch {
            page, now, rate, ..
        } = fetch;
        let (interval, rate_before, _) = self.pages[page as usize];
        self.rates += rate - rate_before;
        self.pages[page as usize] = (interval, rate, fetch.importance);
        let even = self.pages.len() as f64 / self.per_day * DAY;
        let adapted = |quiet: f64, news: f64| interval * if fetch.changed { news } else { quiet };
        let next = match self.policy {
            FreshnessPolicy::Worth | FreshnessPolicy::Uniform => even,
            FreshnessPolicy::Proportional => self.rates / (rate * self.per_day) * DAY,
            FreshnessPolicy::Nutch => adapted(1.2, 0.8),
            FreshnessPolicy::StormCrawler => adapted(1.5, 0.5),
            FreshnessPolicy::LambdaCrawl => {
                self.see_to_lambda();
                DAY / lambda_crawl_rate(rate, fetch.importance, self.lambda)
            }
        };
        let next = next.clamp(SHORTEST, LONGEST);
        self.pages[page as usize].0 = next;
        self.wait(page, u64::from(now) + next as u64);
    }

    /// λ is computed anew after a tenth of all pages was fetched.
    fn see_to_lambda(&mut self) {
        self.since_lambda = self.since_lambda.saturating_add(1);
        if self.since_lambda > self.pages.len() / 10 {
            let known: Vec<(f64, f64)> = self.pages.iter().map(|&(_, r, i)| (r, i)).collect();
            self.lambda = lambda_crawl_worth(&known, self.per_day);
            self.since_lambda = 0;
        }
    }

    /// The page that is next among those that `may_be` and whose hosts may be asked now, as `not_before` tells. A page that may
    /// not be, because it is being fetched, comes back when it has been.
    pub(crate) fn pick(
        &mut self,
        now: u32,
        may_be: impl Fn(u32) -> bool,
        mut not_before: impl FnMut(u32) -> u32,
    ) -> Option<u32> {
        while let Some(&Reverse((tick, due, page))) = self.aside.peek()
            && tick <= now
        {
            self.aside.pop();
            self.due.push(Reverse((due, page)));
        }
        for _ in 0..MAX_PUT_ASIDE {
            let Reverse((due, page)) = self.due.pop()?;
            if !may_be(page) || self.due_of[page as usize] != due {
                continue;
            }
            match not_before(page) {
                tick if tick > now => self.aside.push(Reverse((tick, due, page))),
                _ => return Some(page),
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(_: u32) -> bool {
        true
    }

    #[test]
    fn intervals_follow_what_each_policy_says() {
        let fetch = |changed| Fetch {
            page: 0,
            now: 1_000_000,
            changed,
            rate: 2.0,
            importance: 1.0,
        };
        let interval = |policy, changed| {
            let mut rival = Rival::of(policy, 1.0).expect("another policy");
            rival.add(0, (1.0, 1.0));
            assert_eq!(
                rival.pick(5, all, |_| 0),
                Some(0),
                "early, but the only one"
            );
            rival.fetched(fetch(changed));
            rival.pages[0].0 / DAY
        };
        let near = |found: f64, expected: f64| assert!((found - expected).abs() < 1e-6, "{found}");
        near(interval(FreshnessPolicy::Uniform, true), 1.0);
        near(interval(FreshnessPolicy::Nutch, true), 0.8);
        near(interval(FreshnessPolicy::Nutch, false), 1.2);
        near(interval(FreshnessPolicy::StormCrawler, true), 0.5);
        near(interval(FreshnessPolicy::StormCrawler, false), 1.5);
        // One page has all fetches, whatever its rate.
        near(interval(FreshnessPolicy::Proportional, true), 1.0);
        near(interval(FreshnessPolicy::LambdaCrawl, true), 1.0);
        assert!(Rival::of(FreshnessPolicy::Worth, 1.0).is_none());
    }

    #[test]
    fn a_page_of_a_busy_host_waits_and_the_next_is_taken() {
        let mut rival = Rival::of(FreshnessPolicy::Uniform, 1.0).expect("another policy");
        (0..3).for_each(|page| rival.add(page, (1.0, 1.0)));
        let busy = |page| if page == 0 { 50 } else { 0 };
        assert_eq!(rival.pick(10, all, busy), Some(1));
        // What is being fetched is not taken.
        assert_eq!(rival.pick(10, |page| page != 2, busy), None);
        assert_eq!(rival.pick(50, all, busy), Some(0));
        assert_eq!(rival.pick(60, all, busy), None);
    }
}
