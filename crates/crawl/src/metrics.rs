//! Counters that are always on: what the progress display, the report and the benchmark show.
//! Written by workers and the archivist, read by anyone. CPU time by stage comes from the thread's
//! CPU clock. To read it is a system call, so of what happens to every page a sample is timed.

use std::cell::Cell;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};
use serde::Serialize;

use crate::report::JudgedAgain;
use crate::worker::Gauges;

/// What a thread is doing. `Fetch` is everything that is not one of the others: sockets, TLS, the
/// kernel, and waiting loops.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(usize)]
pub(crate) enum Stage {
    /// Content decoding.
    Decode = 0,
    /// Charset and links from HTML, sitemaps and feeds; text for the simhash.
    Scan = 1,
    /// Raw links to canonical URLs with a verdict.
    Links = 2,
    /// Digests, WARC records and their compression.
    Record = 3,
    /// Writing the archive and the logs, and making them durable.
    Commit = 4,
    /// Folding the log into the registry.
    Fold = 5,
    /// Choosing hosts and URLs.
    Choose = 6,
}

/// One call in this many is timed where a stage runs for every page.
const SAMPLE_EVERY: u32 = 16;

thread_local! {
    /// Calls of each stage on this thread: a count for each, because stages follow each other in a
    /// fixed order, and one count for all would always meet the same ones.
    static CALLS: [Cell<u32>; STAGES.len()] = const { [const { Cell::new(0) }; STAGES.len()] };
}

pub(crate) const STAGES: [(Stage, &str); 7] = [
    (Stage::Decode, "decode"),
    (Stage::Scan, "scan"),
    (Stage::Links, "links"),
    (Stage::Record, "record"),
    (Stage::Commit, "commit"),
    (Stage::Fold, "fold"),
    (Stage::Choose, "choose"),
];

/// Counters of this run.
#[derive(Debug, Default)]
pub(crate) struct Metrics {
    pub(crate) pages: AtomicU64,
    pub(crate) requests: AtomicU64,
    /// Bytes received in answers, heads and framing included.
    pub(crate) wire_bytes: AtomicU64,
    /// URLs that were asked for and need not be asked for again.
    pub(crate) settled: AtomicU64,
    /// Tables of links that were asked for, and read; links that they told; and those that lied.
    pub(crate) tables_asked: AtomicU64,
    pub(crate) tables_read: AtomicU64,
    pub(crate) table_links: AtomicU64,
    pub(crate) tables_lied: AtomicU64,
    /// Tables of volatile parts that were asked for; documents that they refreshed, and bytes saved by that.
    pub(crate) parts_asked: AtomicU64,
    pub(crate) parts_refreshed: AtomicU64,
    pub(crate) parts_saved_bytes: AtomicU64,
    /// Links that left before their pages were there as a whole.
    pub(crate) early_links: AtomicU64,
    /// Requests that got no answer, or an error.
    pub(crate) errors: AtomicU64,
    pub(crate) duplicates: AtomicU64,
    /// URLs that had failed and were made due again.
    pub(crate) retried: AtomicU64,
    /// URLs made due again to keep pages fresh, new ones among them.
    pub(crate) refreshed: AtomicU64,
    /// URLs that were judged again because settings changed.
    pub(crate) judged: AtomicU64,
    /// Archived pages that were read again for that reason.
    pub(crate) reread: AtomicU64,
    /// URLs that judging made due, and took out, as the judge counts them.
    pub(crate) judged_due: AtomicU64,
    pub(crate) judged_out: AtomicU64,
    /// Requests that could not be made because this machine had no descriptor or port left.
    pub(crate) exhausted: AtomicU64,
    /// Turns that were put off because another host at the same address was asked.
    pub(crate) put_off: AtomicU64,
    /// A URL that was just fetched, for people to look at.
    pub(crate) glimpse: Glimpse,
    /// The longest that a worker did one thing (folding, upkeep and beginning turns, or a page) and did not look after its connections.
    longest_pause_us: AtomicU64,
    /// How long, over all workers, entries were left waiting until the registry could fold them.
    held_back_us: AtomicU64,
    stage_ns: [AtomicU64; STAGES.len()],
}

impl Metrics {
    pub(crate) fn judged_again(&self) -> JudgedAgain {
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        JudgedAgain {
            urls: read(&self.judged),
            due: read(&self.judged_due),
            out: read(&self.judged_out),
        }
    }

    pub(crate) fn add(&self, counter: &AtomicU64, by: u64) {
        counter.fetch_add(by, Ordering::Relaxed);
    }

    pub(crate) fn note_pause(&self, pause: Duration) {
        self.longest_pause_us
            .fetch_max(pause.as_micros() as u64, Ordering::Relaxed);
    }

    pub(crate) fn longest_pause_ms(&self) -> f64 {
        self.longest_pause_us.load(Ordering::Relaxed) as f64 / 1e3
    }

    pub(crate) fn note_held_back(&self, time: Duration) {
        self.add(&self.held_back_us, time.as_micros() as u64);
    }

    pub(crate) fn held_back_seconds(&self) -> f64 {
        self.held_back_us.load(Ordering::Relaxed) as f64 / 1e6
    }

    /// Run `work` and put its CPU time down to `stage`. For what runs a few hundred times a second at
    /// most.
    pub(crate) fn timed<T>(&self, stage: Stage, work: impl FnOnce() -> T) -> T {
        let before_ns = thread_cpu_ns();
        let result = work();
        self.stage_ns[stage as usize]
            .fetch_add(thread_cpu_ns().saturating_sub(before_ns), Ordering::Relaxed);
        result
    }

    /// The same for what runs for every page: some calls are timed and stand for the others.
    pub(crate) fn sampled<T>(&self, stage: Stage, work: impl FnOnce() -> T) -> T {
        let calls = CALLS.with(|calls| {
            let calls = &calls[stage as usize];
            calls.set(calls.get().wrapping_add(1));
            calls.get()
        });
        // Not the first: it meets cold caches, and would count for many.
        if calls % SAMPLE_EVERY != SAMPLE_EVERY / 2 {
            return work();
        }
        let before_ns = thread_cpu_ns();
        let result = work();
        let spent_ns = thread_cpu_ns().saturating_sub(before_ns);
        self.stage_ns[stage as usize]
            .fetch_add(spent_ns * u64::from(SAMPLE_EVERY), Ordering::Relaxed);
        result
    }

    pub(crate) fn progress(&self, gauges: &[Arc<Gauges>], seconds: f64) -> Progress {
        let sum = |gauge: fn(&Gauges) -> &AtomicU64| -> u64 {
            gauges
                .iter()
                .map(|g| gauge(g).load(Ordering::Relaxed))
                .sum()
        };
        Progress {
            pages: self.pages.load(Ordering::Relaxed),
            requests: self.requests.load(Ordering::Relaxed),
            wire_bytes: self.wire_bytes.load(Ordering::Relaxed),
            errors: self.errors.load(Ordering::Relaxed),
            urls_known: sum(|g| &g.known),
            urls_due: sum(|g| &g.due),
            hosts_active: sum(|g| &g.turns),
            hosts_reading_robots: sum(|g| &g.robots),
            hosts_queued: sum(|g| &g.queued),
            hosts_waiting_for_address: sum(|g| &g.by_address),
            hosts_failing: sum(|g| &g.failing),
            turns_put_off: self.put_off.load(Ordering::Relaxed),
            exhausted: self.exhausted.load(Ordering::Relaxed),
            no_network_since_ms: None,
            waits: gauges.iter().all(|g| g.waits.load(Ordering::SeqCst)) && sum(|g| &g.failing) > 0,
            patience_ms: 0,
            pages_left: None,
            seconds_left: None,
            ip_delay_rules_ms: None,
            url: self.glimpse.take(),
            longest_pause_ms: self.longest_pause_ms(),
            seconds,
        }
    }

    pub(crate) fn stage_seconds(&self) -> Vec<(&'static str, f64)> {
        STAGES
            .iter()
            .map(|&(stage, name)| {
                (
                    name,
                    self.stage_ns[stage as usize].load(Ordering::Relaxed) as f64 / 1e9,
                )
            })
            .collect()
    }
}

/// One URL of those that are fetched, for whoever asks now and then. Nobody pays for it who is not asked.
#[derive(Debug, Default)]
pub(crate) struct Glimpse {
    wanted: AtomicBool,
    url: Mutex<Option<String>>,
}

impl Glimpse {
    /// `url` was fetched.
    pub(crate) fn offer(&self, url: &str) {
        if self.wanted.load(Ordering::Relaxed) && self.wanted.swap(false, Ordering::Relaxed) {
            *self.url() = Some(url.to_owned());
        }
    }

    /// One that was fetched since the last call.
    fn take(&self) -> Option<String> {
        self.wanted.store(true, Ordering::Relaxed);
        self.url().take()
    }

    fn url(&self) -> MutexGuard<'_, Option<String>> {
        self.url
            .lock()
            .unwrap_or_else(|poisoned| poisoned.into_inner())
    }
}

/// The state of a running crawl at one moment.
#[derive(Debug, Clone, Default, Serialize)]
pub struct Progress {
    pub pages: u64,
    pub requests: u64,
    /// Bytes on the wire so far, in this run.
    pub wire_bytes: u64,
    pub errors: u64,
    pub urls_known: u64,
    pub urls_due: u64,
    /// Hosts that have their turn.
    pub hosts_active: u64,
    /// Those of them whose robots.txt is being read.
    pub hosts_reading_robots: u64,
    /// Hosts that wait for their next turn, whatever for: their pause, their address, or because they failed.
    pub hosts_queued: u64,
    /// Those of them that wait because another host at their address was asked.
    pub hosts_waiting_for_address: u64,
    /// Hosts that rest because their last request failed.
    pub hosts_failing: u64,
    /// How often a turn was put off because another host at the same address was asked.
    pub turns_put_off: u64,
    /// The pause by address, where it is longer than the pause by host that the settings name.
    pub ip_delay_rules_ms: Option<u64>,
    /// Documents that may still be archived, where the settings limit them.
    pub pages_left: Option<u64>,
    /// What is left of the time limit, where there is one.
    pub seconds_left: Option<f64>,
    /// A URL that was fetched since the last look.
    pub url: Option<String>,
    /// Requests that could not be made because this machine had no descriptor or port left.
    pub exhausted: u64,
    /// Our own network is down since then.
    pub no_network_since_ms: Option<u64>,
    /// Nothing is left but URLs of hosts that fail; the crawl waits for them at most `patience_ms`.
    pub waits: bool,
    pub patience_ms: u64,
    /// The longest that a worker did one thing, entries or a page, and did not look after its connections.
    pub longest_pause_ms: f64,
    pub seconds: f64,
}

/// CPU time of the calling thread.
pub fn thread_cpu_ns() -> u64 {
    let t = clock_gettime(ClockId::ThreadCPUTime);
    t.tv_sec as u64 * 1_000_000_000 + t.tv_nsec as u64
}

/// CPU time of the whole process, user and system.
pub fn process_cpu_seconds() -> f64 {
    let t = clock_gettime(ClockId::ProcessCPUTime);
    t.tv_sec as f64 + t.tv_nsec as f64 / 1e9
}

/// The most memory that the process ever had resident; 0 where the system doesn't say.
pub fn peak_rss_bytes() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    status
        .lines()
        .find_map(|line| line.strip_prefix("VmHWM:"))
        .and_then(|rest| {
            rest.trim()
                .trim_end_matches("kB")
                .trim()
                .parse::<u64>()
                .ok()
        })
        .map_or(0, |kb| kb * 1024)
}
