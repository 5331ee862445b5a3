//! Which page to fetch again: rates of change that are learned, what a fetch is worth, and a scheduler that always names the page that is
//! worth most. Pure: no IO, no clock, no other room; times come in as seconds, rates are changes a day.
//!
//! Layout: `value` (what a fetch is worth), `rate` (how often a page changes), `page` (24 bytes for each page), `scheduler` (the page that is worth
//! most now) with `queues`, `optimum` (what no schedule can beat, as a bound), `draw` (pages by seed), `policy` (what others do), `simulation` (all of
//! them side by side). `docs/freshness.md` has figures.
//!
//! # Example
//!
//! ```
//! use portolan_freshness::{Fetched, PageClass, Scheduler, Signals};
//!
//! let mut scheduler = Scheduler::new(1.0);
//! // Both matter as much; one changes twice a day, the other once in ten days. Both were fetched at second 0.
//! let news = scheduler.insert(PageClass::of(2.0, 1.0), 0);
//! let imprint = scheduler.insert(PageClass::of(0.1, 1.0), 0);
//! let hour_s = 3_600;
//! // Any host may be asked at any time.
//! assert_eq!(scheduler.pick(6 * hour_s, |_| 0), Some(news));
//! // What is found is learned from.
//! scheduler.fetched(news, 6 * hour_s, Fetched { changed: true, told: false, prior: 1.0 });
//! assert_eq!(scheduler.history(news).changes, 1);
//! # let _ = imprint;
//! ```

mod draw;
mod optimum;
mod page;
mod policy;
mod queues;
mod rate;
mod scheduler;
mod simulation;
mod value;

pub use draw::{Draw, Population, SimulatedPage};
pub use optimum::{lambda_crawl_rate, lambda_crawl_rates, lambda_crawl_worth, optimal_freshness};
pub use page::{PAGE_BYTES, PageClass};
pub use policy::Policy;
pub use rate::{History, PooledHistory};
pub use scheduler::{Fetched, PageId, Scheduler};
pub use simulation::{Outcome, World, simulate};
pub use value::{Signals, age_of_value, expected_freshness, value};

pub(crate) const DAY_S: f64 = 86_400.0;
