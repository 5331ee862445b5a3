//! Policies side by side on the same pages: fetches at a constant rate, changes by seed, and freshness counted over time.

use crate::draw::{Draw, Population, SimulatedPage};
use crate::optimum::optimal_freshness;
use crate::policy::{Policy, Schedule};

/// The size of a simulation.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct World {
    pub pages: usize,
    /// Days that are simulated. Freshness is counted in the last three quarters, when rates have been learned in part.
    pub days: f64,
    /// Fetches a day, over all pages.
    pub per_day: f64,
}

/// What came of a policy.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Outcome {
    /// Importance-weighted share of the time in which pages were as they were when last fetched.
    pub freshness: f64,
    /// What no schedule with regular intervals can exceed on these pages, where changes come at constant rates.
    pub bound: f64,
}

impl Outcome {
    pub fn ratio(&self) -> f64 {
        self.freshness / self.bound
    }
}

/// Runs a policy on the pages that `population` and `seed` give. Every policy meets the same pages, each fetched once before the beginning, at times
/// spread over as many days as a round of all pages takes.
pub fn simulate(policy: Policy, population: Population, world: &World, seed: u64) -> Outcome {
    let pages = population.pages(world.pages, seed);
    let mut draw = Draw::new(!seed);
    // Times count from the beginning of the round before.
    let begin = world.pages as f64 / world.per_day;
    let mut state: Vec<PageTime> = pages
        .iter()
        .map(|page| {
            let fetched = begin * draw.share();
            let changes = population.first_change(page.rate, fetched, &mut draw);
            PageTime { fetched, changes }
        })
        .collect();
    let fetched: Vec<f64> = state.iter().map(|page| page.fetched).collect();
    let mut schedule = Schedule::new(policy, &pages, &fetched, world.per_day);
    let (from, until) = (begin + world.days / 4.0, begin + world.days);
    let mut fresh = 0.0;
    for i in 0..(world.days * world.per_day) as u64 {
        let now = begin + (i + 1) as f64 / world.per_day;
        let Some(page) = schedule.pick(now) else {
            break;
        };
        let SimulatedPage { rate, importance } = pages[page];
        fresh += importance * state[page].fresh_days(from, now.min(until));
        let PageTime { fetched, changes } = state[page];
        schedule.fetched(page, now, now - fetched, changes <= now);
        state[page] = PageTime {
            fetched: now,
            changes: population.first_change(rate, now, &mut draw),
        };
    }
    let rest = pages.iter().zip(&state);
    fresh += rest
        .map(|(page, state)| page.importance * state.fresh_days(from, until))
        .sum::<f64>();
    let all: f64 = pages.iter().map(|page| page.importance).sum();
    let known: Vec<(f64, f64)> = pages.iter().map(|p| (p.rate, p.importance)).collect();
    Outcome {
        freshness: fresh / (all * (until - from)),
        bound: optimal_freshness(&known, world.per_day),
    }
}

/// When a page was last fetched, and when it changes first after that.
#[derive(Clone, Copy)]
struct PageTime {
    fetched: f64,
    changes: f64,
}

impl PageTime {
    /// Days between `from` and `until` in which the page was as it was fetched.
    fn fresh_days(&self, from: f64, until: f64) -> f64 {
        (self.changes.min(until) - self.fetched.max(from)).max(0.0)
    }
}
