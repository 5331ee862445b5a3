//! Whole crawls in one thread, on a clock that jumps, of a Web without sockets, with faults drawn from a seed.
//!
//! [`simulate`] runs one: the crawler's own code, from the plan to the report, against the simulated Web. The seed says
//! what the Web is like, which hosts are out and when, when names are not resolved, when the time of day is set, and
//! when the crawl is killed. A killed crawl goes on from what its directory held at that moment. At the end the Web's
//! witness, the Web's truth and the registry say whether the invariants of ARCHITECTURE.md held. The same seed gives the
//! same requests at the same times: what fails can be repeated.
//!
//! Layout: `chance` (numbers from the seed), `time` (the clock), `weather` (what fails when), `world` (the Web behind a
//! dialer and a resolver), `disk` (steps of commits), `lives` (runs and kills), `verdict` (the invariants).
//!
//! Kills come at a time, between two looks at the clock, and before each step of a commit, where the disk may also refuse.
//!
//! ```
//! let simulated = portolan_simulate::simulate(7).expect("a folder to write in");
//! assert!(simulated.broken.is_empty(), "{:?}", simulated.broken);
//! ```
//!
//! Not simulated: a disk that refuses what the registry's own files are written with, one that loses what was synced, and TLS.

mod chance;
mod disk;
mod lives;
mod time;
mod verdict;
mod weather;
mod world;

pub use lives::{Simulated, simulate};
pub use verdict::Broken;
