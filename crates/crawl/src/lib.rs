//! The pipeline: joins the rooms with bounded queues. The only room that sees them all.
//!
//! Layout, in the order of a URL's way: `crawl` (a crawl as its caller sees it) with `start` (its three steps), `directory` (what makes a
//! directory a crawl) with `sealed` (files with checksums), `recovery` (what a start did), and `division` (who fetches what) with `claims`, `worker` (a thread with its partitions, which grants turns) with `client` (the half that fetches), `mapper` (names resolved ahead),
//! `turn` (one host, a few URLs) with `asker` (the one way to ask), `address` and `body_watch`, `promise` and `pauses` (what outlives us), `robots` (settled before any page) with `neighbour` (what other hosts are owed), `page` (an answer becomes a
//! visit) with `modules` (who reads what) and `links`, `commit` (the archivist makes it durable), `watch` (sees the end).
//! `outages` (who is waited for), `retry` (what failed is asked for again), `session` (all of it is), `keep` (what is worth most is, without end) with `indexnow` (sites say what has changed).
//! `fleet`: a node's part of a crawl on many machines.
//! Beside them: `scope` (may a link be crawled), `access` (what is sent along, and what is particular to hosts), `politeness` (how long a host rests), `gate`
//! (addresses and hosts, shared by all workers), `network` (is it they or we?), `pools` (who may be at work, and who waits), `rate` (bytes a second), `parking` (idle
//! connections), `machine` (how many of them), `budget` (when to stop),
//! `metrics` and `report` (what is told), `settings` and `assembly` (what everything is made from),
//! `archived` (what is stored of a URL), `preview` (what would be done with one), `once` (one request outside of turns), `check` (is all as it was written), `bench` (parts of the way alone, to be measured; only with the feature of that name).
//!
//! # Example
//!
//! ```no_run
//! use portolan_crawl::{Crawl, CrawlError, Plan, Settings};
//!
//! let mut settings = Settings::default();
//! settings.identity.contact = "you@example.net".to_owned();
//! settings.limits.max_pages = 1000;
//! // Starts a crawl in the directory, or goes on with the one that is there.
//! let crawl = Crawl::start(Plan::new("crawl", ["https://example.org/"], settings));
//! match crawl.and_then(Crawl::join) {
//!     Ok(report) => println!("{} pages, {} URLs due", report.pages, report.urls_due),
//!     Err(CrawlError::Input(what)) => eprintln!("nothing was started: {what}"),
//!     Err(error) => eprintln!("the crawl stopped, and can go on later: {error}"),
//! }
//! ```

mod access;
mod address;
mod admission;
mod answered;
mod archived;
mod asker;
mod assembly;
mod away;
#[cfg(feature = "bench")]
#[doc(hidden)]
pub mod bench;
mod body_watch;
mod budget;
mod check;
mod claims;
mod client;
mod commit;
mod crawl;
mod directory;
mod division;
mod early;
mod error;
pub mod fleet;
mod fresh;
mod gate;
mod generations;
mod granted;
mod hand;
mod hand_over;
mod haul;
mod indexnow;
mod judging;
mod keep;
mod links;
mod machine;
mod mapper;
mod metrics;
mod modules;
mod named;
mod neighbour;
mod network;
mod once;
mod outages;
mod outside;
mod page;
mod parking;
mod pauses;
mod politeness;
mod pools;
mod preview;
mod promise;
mod rate;
mod recovery;
mod redivide;
mod refresh;
pub mod report;
mod retry;
mod retry_after;
mod revisit;
#[cfg(test)]
mod rig;
mod robots;
mod routes;
pub mod scope;
mod sealed;
mod secret;
mod session;
pub mod settings;
mod shared;
mod start;
mod stored;
mod tables;
mod turn;
mod watch;
mod worker;

pub use archived::{redirect_target, write_payload};
pub use budget::StoppedBy;
pub use check::{CheckedKind, Damaged, check, index_fault, surt};
pub use crawl::{ARCHIVE_DIR, Crawl, Plan, Prepared, REGISTRY_DIR, RunLimits, Seed};
pub use directory::snapshot;
pub use division::dsets;
pub use error::CrawlError;
pub use fresh::{Fresh, write_fresh};
pub use indexnow::{PingCounts, PingOptions, receive_pings};
pub use keep::{Forecast, HostFreshness, NextFetch, Survey, leave_signals, survey};
pub use machine::TooFewFiles;
pub use machine::{memory_bytes, raise_open_files};
pub use metrics::{Progress, peak_rss_bytes, process_cpu_seconds, thread_cpu_ns};
pub use modules::{Document, Extensions, Findings, FinishedPage, Module, ModuleCounts, PageHook};
pub use outside::{Outside, Step, Steps};
pub use preview::{
    AnswerPreview, LinkPreview, NotAnswered, Preview, RobotsDecision, RobotsPreview, preview,
};
pub use recovery::Recovered;
pub use redivide::{Divide, DivideBy, Divided};
pub use report::Report;
pub use retry::Retry;
pub use settings::Settings;
