//! What a crawl came to: one JSON object for programs, words and figures for people (`told`), with numbers as they read them
//! (`words`).

mod told;
mod words;

use std::collections::BTreeMap;
use std::fmt;

use serde::Serialize;

pub use crate::division::Exchanged;
use crate::modules::ModuleCounts;
pub use crate::outages::{Waiting, WaitingHost};
use crate::recovery::Recovered;

pub use told::LONG_PAUSE_MS;
pub use words::{bytes, copies, counted, date, duration, sitemaps, thousands};

/// Totals over all runs of a crawl directory, unless said otherwise. The parts add up: `urls_known` is `pages`,
/// `redirects`, `sitemaps`, `urls_due`, `failed` and `excluded` together, and `reasons` are `failed` and `excluded` together.
///
/// There are three kinds of bytes. `wire_bytes` came from the network, with heads, framing and encodings. `body_bytes`
/// are what bodies hold once they are unpacked. `stored_bytes` are in WARC files, compressed.
#[derive(Debug, Clone, Default, Serialize)]
pub struct Report {
    /// The number of the session; the first is 1. What follows is of all sessions, but for what is of this run.
    pub session: u32,
    /// Documents archived (answers 2xx), copies included.
    pub pages: u64,
    /// Requests for URLs of the queue that were answered or given up; robots.txt not counted.
    pub requests: u64,
    /// Bytes on the wire of the answers to these requests.
    pub wire_bytes: u64,
    /// Bytes of their bodies, unpacked.
    pub body_bytes: u64,
    pub urls_known: u64,
    pub urls_due: u64,
    pub failed: u64,
    pub excluded: u64,
    /// Documents whose payload was archived before, under another URL.
    pub duplicates: u64,
    /// URLs that redirect to another one. Those that redirect to nowhere count as failed.
    pub redirects: u64,
    /// Sitemaps read for their links. They are archived, and are no documents.
    pub sitemaps: u64,
    /// Documents with more links than `content.max_links`, and how many links of theirs were left out.
    pub pages_over_links: u64,
    pub links_left_out: u64,
    pub hosts: u64,
    /// Of this run.
    pub seconds: f64,
    /// Of this run, user and system.
    pub cpu_seconds: f64,
    /// Of this run.
    pub peak_rss_bytes: u64,
    /// Of this run: the longest that a worker did one thing, entries or a page, and did not look after its connections.
    pub longest_pause_ms: f64,
    /// Of this run, over all workers: how long entries waited until the registry could fold them.
    pub held_back_seconds: f64,
    pub stopped_by: &'static str,
    /// Due URLs whose hosts fail: the crawl is not complete.
    pub waiting: Waiting,
    /// Due URLs whose hosts failed for so long that this run gave them up. The next run asks again.
    pub given_up: Waiting,
    /// Of this run: how often our own network was gone, and for how many seconds in all.
    pub network_outages: u64,
    pub network_gone_seconds: f64,
    /// Of this run: URLs that failed before and were made due again.
    pub retried: u64,
    /// Of this run: URLs that became due to keep pages fresh, and new ones that had their share of the rate.
    pub refreshed: u64,
    /// Of this run: URLs that were judged again because settings or seeds changed, those that became due by that, and
    /// those that were taken out of the queue.
    pub judged: u64,
    pub judged_due: u64,
    pub judged_out: u64,
    /// Of this run: archived documents that were read again for links that were not looked for before.
    pub reread: u64,
    /// Of this run: links that left before their pages were there as a whole.
    pub early_links: u64,
    /// Of this run: what partitions told each other.
    pub exchanged: Exchanged,
    /// Of this run: tables of links (`.tol`) that were asked for and read before their documents, links to be crawled in them, and tables that lied.
    /// The site of such a one is not believed any longer.
    pub tables_asked: u64,
    pub tables_read: u64,
    pub table_links: u64,
    pub tables_lied: u64,
    /// Of this run: tables of volatile parts (`.tvi`) that were asked for, documents that they refreshed, and bytes that fetching those documents
    /// again would have taken more.
    pub parts_asked: u64,
    pub parts_refreshed: u64,
    pub parts_saved_bytes: u64,
    /// Documents archived in this run.
    pub pages_this_run: u64,
    /// Requests sent in this run, robots.txt included.
    pub requests_this_run: u64,
    /// Bytes on the wire in this run, robots.txt included.
    pub wire_bytes_this_run: u64,
    pub archive_files: u64,
    pub stored_bytes: u64,
    /// Why URLs failed or were excluded, by reason.
    pub reasons: BTreeMap<String, u64>,
    /// CPU seconds of this run by stage.
    pub stages: BTreeMap<String, f64>,
    /// Of this run: what modules did that were added, by name.
    pub modules: BTreeMap<String, ModuleCounts>,
    /// What this run found and did before it went on.
    pub recovered: Recovered,
    /// Reasons in words, for people.
    #[serde(skip)]
    pub sentences: BTreeMap<String, &'static str>,
}

/// What came of judging URLs by settings that changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct JudgedAgain {
    /// Those that were looked at.
    pub urls: u64,
    /// Those that became due.
    pub due: u64,
    /// Those that left the queue.
    pub out: u64,
}

impl fmt::Display for JudgedAgain {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "Settings changed: {} judged again, {} became due, {} left the queue.",
            counted(self.urls, "URL"),
            thousands(self.due),
            thousands(self.out),
        )
    }
}
