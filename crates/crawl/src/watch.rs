//! The watcher: sees when a crawl has come to its end, or must, and closes the books.

use crate::directory;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use portolan_archive::ClosedArchive;
use portolan_model::Reason;
use portolan_registry::{Partition, Stats};
use tokio::time::Instant;

use crate::budget::StoppedBy;
use crate::commit::{Books, Recorder};
use crate::error::CrawlError;
use crate::hand::Hand;
use crate::hand_over::HandOvers;
use crate::metrics::{peak_rss_bytes, process_cpu_seconds};
use crate::outages::Left;
use crate::recovery::Recovered;
use crate::report::Report;
use crate::shared::Shared;
use crate::worker::Gauges;

/// How often the watcher looks.
const WATCH_EVERY: Duration = Duration::from_millis(10);

/// What is under way when a crawl is asked to stop may take this long; then it is given up.
const GRACE: Duration = Duration::from_secs(30);

pub(crate) struct Watcher {
    pub(crate) shared: Arc<Shared>,
    pub(crate) gauges: Vec<Arc<Gauges>>,
    pub(crate) workers: Vec<Hand<Vec<Partition>>>,
    pub(crate) archivist: Hand<Books>,
    /// When the threads began, ...
    pub(crate) begun: Instant,
    /// ... and how long the crawl had been starting then.
    pub(crate) started_in: Duration,
    /// CPU time of the process before this crawl began.
    pub(crate) cpu_before: f64,
    pub(crate) dir: PathBuf,
    pub(crate) recovered: Recovered,
}

/// The body of the watcher's thread.
pub(crate) fn run(watcher: Watcher) -> Result<Report, CrawlError> {
    match tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .build()
    {
        Ok(runtime) => runtime.block_on(watcher.live()),
        Err(error) => {
            let failure = CrawlError::Internal(format!("no runtime for the watcher: {error}"));
            watcher.shared.fail(failure);
            Err(CrawlError::Internal(format!(
                "the crawl cannot be watched: {error}"
            )))
        }
    }
}

impl Watcher {
    /// Watches the crawl to its end, and closes the books.
    pub(crate) async fn live(self) -> Result<Report, CrawlError> {
        self.watch().await;
        if let Some(granted) = &self.shared.granted {
            granted.note_ending();
        }
        self.shared.closing.notify_one();
        let Some(books) = self.archivist.join().await else {
            return Err(CrawlError::Internal("the archivist died".to_owned()));
        };
        let mut partitions = Vec::new();
        for worker in self.workers {
            match worker.join().await {
                Some(owned) => partitions.extend(owned),
                None => return Err(CrawlError::Internal("a worker died".to_owned())),
            }
        }
        if let Some(granted) = &self.shared.granted {
            granted.finish().await;
        }
        self.shared.modules.end();
        if let Some(failure) = self.shared.take_failure() {
            // What is on disk is consistent: the next start goes on from there.
            return Err(failure);
        }
        self.shared.pauses.sync()?;
        if let Some(membership) = &self.shared.membership {
            // What is not shipped may be in no checkpoint.
            membership.ship_the_rest().await?;
        }
        // What is recorded goes by the crawl's time; if the machine's clock was set meanwhile, the next run
        // can't tell how long ago it was.
        let in_order = !self.shared.pauses.clock_was_set();
        let (stats, left, archive) = close(partitions, books, self.shared.run_ms, in_order)?;
        let seconds = (self.started_in + self.begun.elapsed()).as_secs_f64();
        let cpu_seconds = process_cpu_seconds() - self.cpu_before;
        let report = Report {
            recovered: self.recovered,
            ..report(&self.shared, &stats, left, &archive, seconds, cpu_seconds)
        };
        save(&self.dir, &report)?;
        tracing::info!(
            stopped_by = report.stopped_by,
            pages = report.pages_this_run,
            requests = report.requests_this_run,
            "the crawl has ended"
        );
        Ok(report)
    }

    /// Until nothing is left to do, or nothing more may be done.
    async fn watch(&self) {
        let shared = &self.shared;
        let limit_s = shared.settings.limits.time_limit_s;
        let mut still_since = None;
        let mut waiting_since: Option<Instant> = None;
        let mut settled_before = 0;
        let mut stopping_since: Option<Instant> = None;
        let mut hand_overs = HandOvers::wanted();
        loop {
            tokio::time::sleep(WATCH_EVERY).await;
            if let Some(hand_overs) = &mut hand_overs {
                hand_overs.look(shared);
            }
            let ran = self.started_in + self.begun.elapsed();
            if limit_s > 0.0 && ran.as_secs_f64() >= limit_s {
                shared.budget.stop(StoppedBy::TimeLimit);
            }
            if shared.membership.is_none()
                && shared
                    .budget
                    .is_spent(shared.metrics.pages.load(Ordering::Relaxed))
            {
                shared.budget.stop(StoppedBy::MaxPages);
            }
            if self.archivist.is_finished() || self.workers.iter().any(Hand::is_finished) {
                // One of them ended by itself: it has failed, or panicked without a word, and everything else ends too.
                shared.unfolded.close();
                shared.budget.stop_now(StoppedBy::Error);
                return;
            }
            if shared.budget.is_stopping() {
                if let Some(granted) = &shared.granted {
                    // The archivist may be waiting for a server that does not answer.
                    granted.note_ending();
                }
                if stopping_since.get_or_insert_with(Instant::now).elapsed() > GRACE {
                    shared.budget.stop_now(StoppedBy::Signal);
                }
            }
            let settled = shared.metrics.settled.load(Ordering::Relaxed);
            if !self.waits() || settled != std::mem::replace(&mut settled_before, settled) {
                waiting_since = None;
                if let Some(membership) = &shared.membership {
                    membership.note_waiting(false);
                }
            } else if waiting_since.get_or_insert_with(Instant::now).elapsed() >= self.patience()
                && all_looked_at(&shared.outstanding, &self.gauges)
            {
                match &shared.membership {
                    // Others may have something else left.
                    Some(membership) => membership.note_waiting(true),
                    None => shared.budget.stop(StoppedBy::Waiting),
                }
            }
            let folded = shared.folded.load(Ordering::SeqCst);
            if !self.is_still() {
                still_since = None;
            } else if shared.membership.is_some() && !shared.budget.is_stopping() {
                // Links may come from other nodes.
                still_since = None;
            } else if still_since == Some(folded) {
                shared.budget.stop(StoppedBy::Done);
                return;
            } else {
                // Only if nothing was folded until the next look was it really still.
                still_since = Some(folded);
            }
        }
    }

    /// Is nothing left but hosts that fail, or no network?
    fn waits(&self) -> bool {
        self.shared.network.down_since_ms().is_some() || only_failing_left(&self.gauges)
    }

    /// How long that may last. Without a network nothing is known of any host: that is waited for as
    /// long as for a host that is given up.
    fn patience(&self) -> Duration {
        let outages = &self.shared.settings.outages;
        Duration::from_millis(match self.shared.network.down_since_ms() {
            Some(_) => outages.give_up_ms,
            None => outages.wait_ms,
        })
    }

    fn is_still(&self) -> bool {
        is_still(&self.shared.outstanding, &self.gauges)
    }
}

/// Nothing is to be folded, and since the last entry was, every worker has found that it has nothing to do.
fn is_still(outstanding: &AtomicU64, gauges: &[Arc<Gauges>]) -> bool {
    outstanding.load(Ordering::SeqCst) == 0
        && gauges
            .iter()
            .all(|gauges| gauges.idle.load(Ordering::SeqCst))
        && outstanding.load(Ordering::SeqCst) == 0
}

/// Every worker has found that all its hosts fail, and one has such a host.
fn only_failing_left(gauges: &[Arc<Gauges>]) -> bool {
    gauges.iter().all(|g| g.waits.load(Ordering::SeqCst))
        && gauges.iter().any(|g| g.failing.load(Ordering::SeqCst) > 0)
}

/// Nothing is to be folded that might make a URL due, and what was folded is in the workers' gauges.
fn all_looked_at(outstanding: &AtomicU64, gauges: &[Arc<Gauges>]) -> bool {
    outstanding.load(Ordering::SeqCst) == 0
        && gauges.iter().all(|g| g.looked.load(Ordering::SeqCst))
        && outstanding.load(Ordering::SeqCst) == 0
}

/// Last checkpoints, and everything durable. If not `in_order`, hosts wait once more when the crawl goes on, as
/// after a crash.
fn close(
    mut partitions: Vec<Partition>,
    books: Books,
    run_ms: u64,
    in_order: bool,
) -> Result<(Stats, Left, ClosedArchive), CrawlError> {
    let Books {
        recorder: Recorder { warc, mut seen, .. },
        journal,
    } = books;
    let archive = warc.finish()?;
    match in_order {
        true => seen.close()?,
        false => seen.flush()?,
    }
    let mut stats = Stats::default();
    let mut left = Left::default();
    for partition in &mut partitions {
        partition.flush()?;
        stats.add(partition.stats());
        partition.for_each_host(|host| left.look_at(host, run_ms))?;
    }
    if in_order {
        journal.close(partitions)?;
    }
    Ok((stats, left.done(), archive))
}

fn report(
    shared: &Shared,
    stats: &Stats,
    left: Left,
    archive: &ClosedArchive,
    seconds: f64,
    cpu_seconds: f64,
) -> Report {
    let metrics = &shared.metrics;
    let counted = || {
        Reason::ALL
            .iter()
            .filter(|reason| stats.by_reason(**reason) > 0)
    };
    let mut stages: BTreeMap<String, f64> = metrics
        .stage_seconds()
        .into_iter()
        .map(|(name, s)| (name.to_owned(), s))
        .collect();
    let staged: f64 = stages.values().sum();
    stages.insert("fetch".to_owned(), (cpu_seconds - staged).max(0.0));
    let (network_outages, gone_ms) = shared.network.outages(shared.now_ms());
    Report {
        session: shared.session,
        pages: stats.pages,
        requests: stats.requests,
        wire_bytes: stats.wire_bytes,
        body_bytes: stats.body_bytes,
        urls_known: stats.known,
        urls_due: stats.due,
        failed: stats.failed,
        excluded: stats.excluded,
        duplicates: stats.duplicates,
        redirects: stats.redirects(),
        sitemaps: stats.sitemaps,
        pages_over_links: stats.pages_over_links,
        links_left_out: stats.links_left_out,
        hosts: left.hosts,
        waiting: left.waiting,
        given_up: left.given_up,
        network_outages,
        network_gone_seconds: gone_ms as f64 / 1e3,
        judged: metrics.judged.load(Ordering::Relaxed),
        reread: metrics.reread.load(Ordering::Relaxed),
        tables_asked: metrics.tables_asked.load(Ordering::Relaxed),
        tables_read: metrics.tables_read.load(Ordering::Relaxed),
        table_links: metrics.table_links.load(Ordering::Relaxed),
        tables_lied: metrics.tables_lied.load(Ordering::Relaxed),
        parts_asked: metrics.parts_asked.load(Ordering::Relaxed),
        parts_refreshed: metrics.parts_refreshed.load(Ordering::Relaxed),
        parts_saved_bytes: metrics.parts_saved_bytes.load(Ordering::Relaxed),
        exchanged: shared.division.exchanged(),
        early_links: metrics.early_links.load(Ordering::Relaxed),
        judged_due: stats.judged_due - shared.judged_before.0,
        judged_out: stats.judged_out - shared.judged_before.1,
        retried: metrics.retried.load(Ordering::Relaxed),
        refreshed: metrics.refreshed.load(Ordering::Relaxed),
        seconds,
        cpu_seconds,
        peak_rss_bytes: peak_rss_bytes(),
        longest_pause_ms: metrics.longest_pause_ms(),
        held_back_seconds: metrics.held_back_seconds(),
        stopped_by: shared.budget.stopped_by().unwrap_or(StoppedBy::Done).name(),
        pages_this_run: metrics.pages.load(Ordering::Relaxed),
        requests_this_run: metrics.requests.load(Ordering::Relaxed),
        wire_bytes_this_run: metrics.wire_bytes.load(Ordering::Relaxed),
        archive_files: archive.files as u64,
        stored_bytes: archive.bytes,
        reasons: counted()
            .map(|r| (r.name().to_owned(), stats.by_reason(*r)))
            .collect(),
        sentences: counted()
            .map(|r| (r.name().to_owned(), r.sentence()))
            .collect(),
        stages,
        recovered: Recovered::default(),
        modules: shared.modules.counts(),
    }
}

fn save(dir: &std::path::Path, report: &Report) -> Result<(), CrawlError> {
    let text =
        serde_json::to_string_pretty(report).map_err(|e| CrawlError::Internal(e.to_string()))?;
    directory::replace(dir, "report.json", (text + "\n").as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rig::{Rig, Says, links_to};

    fn endless(path: &str) -> Says {
        match path {
            "/robots.txt" => Says::status(404),
            path => links_to(&[&format!("{path}x"), &format!("{path}y")]),
        }
    }

    #[test]
    fn a_crawl_without_end_ends_by_its_time_and_goes_on_later() {
        let mut rig = Rig::new(|seen| endless(&seen.path));
        rig.settings.politeness.delay_ms = 1_000;
        rig.settings.limits.time_limit_s = 30.0;
        let first = rig.crawl(&["http://a.test/"]);
        assert_eq!(first.stopped_by, StoppedBy::TimeLimit.name());
        assert!((25..=30).contains(&first.pages), "{}", first.pages);
        assert!(first.urls_due > 0);
        let second = rig.crawl(&[]);
        assert!(
            (25..=30).contains(&second.pages_this_run),
            "{}",
            second.pages_this_run
        );
        assert!(rig.pages().iter().all(|seen| seen.before == 0));
    }

    #[test]
    fn a_crawl_without_end_ends_by_its_pages() {
        let mut rig = Rig::new(|seen| endless(&seen.path));
        rig.settings.politeness.delay_ms = 0;
        rig.settings.limits.max_pages = 17;
        let report = rig.crawl(&["http://a.test/"]);
        assert_eq!(
            (report.pages, report.stopped_by),
            (17, StoppedBy::MaxPages.name())
        );
        assert_eq!(rig.pages().len(), 17);
    }

    #[test]
    fn a_host_that_is_gone_is_waited_for_and_then_left_due() {
        let mut rig = Rig::new(|seen| match &seen.host[..] {
            "b.test" => Says::Nothing,
            _ if seen.path == "/" => links_to(&["http://b.test/"]),
            _ => Says::status(404),
        });
        rig.settings.politeness.delay_ms = 10;
        rig.settings.outages.wait_ms = 60_000;
        let report = rig.crawl(&["http://a.test/"]);
        assert_eq!((report.pages, report.urls_due), (1, 1));
        assert_eq!(report.waiting.urls, 1);
        let last = rig.seen().last().expect("requests").at_ms;
        assert!(last >= 30_000, "it was not asked again: {last} ms");
    }

    #[test]
    fn when_our_own_network_is_gone_no_host_is_blamed() {
        let mut rig = Rig::new(|seen| match (&seen.host[..], &seen.path[..]) {
            (_, "/robots.txt") => Says::status(404),
            ("a.test", "/") => {
                let hosts: Vec<String> = (0..24).map(|n| format!("http://h{n}.test/")).collect();
                links_to(&hosts.iter().map(String::as_str).collect::<Vec<_>>())
            }
            _ => links_to(&["/1", "/2", "/3"]),
        });
        rig.settings.politeness.delay_ms = 2_000;
        rig.network_gone(5_000, 100_000);
        let report = rig.crawl(&["http://a.test/"]);
        assert_eq!((report.pages, report.failed), (97, 0));
        assert_eq!(report.network_outages, 1);
        assert!(report.network_gone_seconds > 80.0);
    }

    /// A worker that was idle folds an entry, which makes a URL due, and is held up before it looks at that.
    #[test]
    fn what_was_just_folded_ends_the_stillness() {
        let (folded, outstanding) = (AtomicU64::new(0), AtomicU64::new(1));
        let gauges = [Arc::new(Gauges::default()), Arc::new(Gauges::default())];
        for worker in &gauges {
            worker.idle.store(true, Ordering::SeqCst);
        }
        assert!(!is_still(&outstanding, &gauges));
        gauges[0].note_folded(&folded, &outstanding, 1);
        assert_eq!(outstanding.load(Ordering::SeqCst), 0);
        assert!(!is_still(&outstanding, &gauges), "a URL is due");
        gauges[0].idle.store(true, Ordering::SeqCst);
        assert!(is_still(&outstanding, &gauges));
    }

    #[test]
    fn a_wait_ends_only_when_everything_folded_was_looked_at() {
        let (folded, outstanding) = (AtomicU64::new(0), AtomicU64::new(1));
        let gauges = [Arc::new(Gauges::default()), Arc::new(Gauges::default())];
        for worker in &gauges {
            worker.waits.store(true, Ordering::SeqCst);
            worker.looked.store(true, Ordering::SeqCst);
        }
        assert!(!only_failing_left(&gauges), "no host fails");
        gauges[1].failing.store(1, Ordering::SeqCst);
        assert!(only_failing_left(&gauges));
        assert!(!all_looked_at(&outstanding, &gauges), "one is not folded");
        gauges[0].note_folded(&folded, &outstanding, 1);
        assert!(!all_looked_at(&outstanding, &gauges), "a URL is due");
        gauges[0].looked.store(true, Ordering::SeqCst);
        assert!(all_looked_at(&outstanding, &gauges));
    }

    /// However the two threads meet: from the folding until the worker has looked, nobody takes it for idle.
    #[test]
    fn no_moment_of_folding_looks_still() {
        const ROUNDS: u64 = 200_000;
        let (folded, outstanding) = (AtomicU64::new(0), AtomicU64::new(0));
        let gauges = [Arc::new(Gauges::default())];
        gauges[0].idle.store(true, Ordering::SeqCst);
        // Odd while something is due that the worker has not looked at.
        let phase = AtomicU64::new(0);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                for _ in 0..ROUNDS {
                    outstanding.fetch_add(1, Ordering::SeqCst);
                    phase.fetch_add(1, Ordering::SeqCst);
                    gauges[0].note_folded(&folded, &outstanding, 1);
                    phase.fetch_add(1, Ordering::SeqCst);
                    gauges[0].idle.store(true, Ordering::SeqCst);
                }
            });
            loop {
                let before = phase.load(Ordering::SeqCst);
                let still = is_still(&outstanding, &gauges);
                let due = before % 2 == 1 && phase.load(Ordering::SeqCst) == before;
                assert!(!(still && due), "it looked still in phase {before}");
                if before == 2 * ROUNDS {
                    break;
                }
            }
        });
    }
}
