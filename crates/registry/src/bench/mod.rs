//! What the registry costs. Observations: a stream of links with zipf-like repeats and a quarter new
//! URLs, folded by the real registry with its default bounds, and compared with a model where that
//! fits into RAM. Turns: see `frontier`.

mod adoption;
pub mod clock;
mod frontier;
mod web;

pub use adoption::{FilledNode, fill_node, node_settings};
pub use frontier::{Filling, TurnsRow, run_turns};

use crate::error::{At, Result};
use crate::log::{Delivery, Entry};
use crate::partition::Partition;
use crate::registry::{Opened, Registry};
use crate::settings::RegistrySettings;
use crate::snapshot::Snapshot;
use clock::{Waits, peak_rss_bytes, process_cpu_us, thread_cpu_us};
use portolan_model::{Identities, LinkBatch, Outcome, PartitionId, Pulse, Visit};
use std::collections::VecDeque;
use std::fs;
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};
use web::{Model, SyntheticWeb};

/// Pages committed together: a fifth of a second's at 2,500 pages/s.
const COMMIT_PAGES: usize = 500;
/// One page in this many comes from a turn, with a visit.
const VISIT_ONE_IN: usize = 10;
/// Between two visits of a host.
const DELAY_MS: u64 = 1_000;
/// Commits that wait for a partition to be ready; with more, nothing is committed meanwhile.
const MOST_HELD_BACK: usize = 4;
/// How soon a partition is looked at again that everything waits for.
const LOOK_AGAIN: Duration = Duration::from_millis(1);
/// Up to here the model is kept.
const CHECKED_OBSERVATIONS: u64 = 1_000_000;
/// Where a row is reported, beside the end.
const ROWS_AT: [u64; 4] = [1_000_000, 10_000_000, 100_000_000, 400_000_000];

/// What was measured at one size.
#[derive(Clone, Debug)]
pub struct Row {
    pub observations: u64,
    pub urls: u64,
    /// CPU of the whole process a folded observation: log, syncs, merges and turns included, making
    /// the links, freeing them and checking them left out.
    pub cpu_us_per_observation: f64,
    /// What was left out for making the links and freeing them.
    pub making_us_per_observation: f64,
    /// How many of them RAM had no answer for: their URLs were looked up on disk.
    pub looked_up_share: f64,
    pub longest_batch: LongestBatch,
    /// Seconds in which nothing was committed, because a partition was not ready for more.
    pub held_back_s: f64,
    pub rss_bytes: u64,
    /// The registry's own count.
    pub ram_bytes: u64,
    pub disk_bytes_per_url: f64,
    /// What was compared with the model, in words; empty where it did not fit.
    pub checks: Vec<String>,
}

/// The longest that one partition kept its owner with its share of a commit (some 2,500 observations), upkeep
/// included; each is of the batch that took most of it.
#[derive(Clone, Copy, Debug, Default)]
pub struct LongestBatch {
    pub wall_ms: f64,
    /// Without what the host of a virtual machine may have given to others meanwhile (see `Waits`).
    pub not_stolen_ms: f64,
    /// The owner's CPU time.
    pub cpu_ms: f64,
}

/// What to feed.
#[derive(Clone, Copy, Debug)]
pub struct Stream {
    pub observations: u64,
    pub seed: u64,
    /// So many a second at most; `None` is as many as there can be.
    pub per_second: Option<u64>,
}

/// Feeds links to a registry in `dir` (which must be empty) and reports at 1 M, 10 M, … and at the
/// end. A check that fails is a panic: the figures would be worth nothing.
pub fn run(dir: &Path, stream: Stream, mut progress: impl FnMut(&Row)) -> Result<Vec<Row>> {
    let Stream {
        observations, seed, ..
    } = stream;
    let settings = RegistrySettings::default();
    let mut opened = Registry::open(dir, &settings, 0)?;
    let mut feed = Feed {
        web: SyntheticWeb::new(seed, settings.partitions),
        model: Some(Model::default()),
        now_ms: 1,
        making_us: 0.0,
        longest_batch: LongestBatch::default(),
        waiting: opened.partitions.iter().map(|_| VecDeque::new()).collect(),
        held_back: Duration::ZERO,
    };
    let mut done = 0;
    let (started, started_us) = (Instant::now(), process_cpu_us());
    let mut checking_us = 0.0;
    let mut rows = Vec::new();
    let stops = ROWS_AT.iter().filter(|&&row| row < observations);
    for &stop in stops.chain([&observations]) {
        while done < stop {
            done += feed.commit(&mut opened, stop - done)?;
            if let Some(per_second) = stream.per_second {
                let due = Duration::from_secs_f64(done as f64 / per_second as f64);
                thread::sleep(due.saturating_sub(started.elapsed()));
            }
        }
        feed.fold_until(&mut opened, 0)?;
        flush(&mut opened)?;
        let cpu_us = process_cpu_us() - started_us - feed.making_us - checking_us;
        let before_us = process_cpu_us();
        let mut row = measure(dir, &opened, done)?;
        row.cpu_us_per_observation = cpu_us / done as f64;
        row.making_us_per_observation = feed.making_us / done as f64;
        row.longest_batch = feed.longest_batch;
        row.held_back_s = feed.held_back.as_secs_f64();
        if let Some(model) = &feed.model {
            row.checks = model.check(&Snapshot::open(dir, Identities::PUBLIC)?)?;
            if stop == observations {
                // Stop without a word, open again: nothing may differ.
                drop(opened);
                opened = Registry::open(dir, &settings, 0)?;
                model.check(&Snapshot::open(dir, Identities::PUBLIC)?)?;
                row.checks
                    .push("all of it again after a stop without closing".to_owned());
            }
        }
        if done >= CHECKED_OBSERVATIONS {
            feed.model = None;
        }
        progress(&row);
        checking_us += process_cpu_us() - before_us;
        rows.push(row);
    }
    Ok(rows)
}

/// How long it takes to open a registry, as it is.
#[derive(Clone, Copy, Debug)]
pub struct Reopened {
    pub after_crash: bool,
    pub urls: u64,
    pub wall_s: f64,
    pub cpu_s: f64,
    /// Log since the checkpoints, which was folded again.
    pub log_bytes: u64,
    pub rss_bytes: u64,
}

pub fn reopen(dir: &Path) -> Result<Reopened> {
    let (started, started_us) = (Instant::now(), process_cpu_us());
    let opened = Registry::open(dir, &RegistrySettings::default(), 0)?;
    let partitions = &opened.partitions;
    Ok(Reopened {
        after_crash: opened.after_crash,
        urls: partitions.iter().map(|p| p.stats().known).sum(),
        wall_s: started.elapsed().as_secs_f64(),
        cpu_s: (process_cpu_us() - started_us) / 1e6,
        log_bytes: partitions.iter().map(|p| p.backlog().log_bytes).sum(),
        rss_bytes: peak_rss_bytes(),
    })
}

/// Whoever makes links up, commits and folds them, and takes a few turns.
struct Feed {
    web: SyntheticWeb,
    model: Option<Model>,
    now_ms: u64,
    /// CPU for making links up and freeing them.
    making_us: f64,
    longest_batch: LongestBatch,
    /// By partition: what each commit brought it and is not folded yet.
    waiting: Vec<VecDeque<Vec<Delivery>>>,
    held_back: Duration,
}

impl Feed {
    /// Commits and folds up to `most` observations, and some visits.
    fn commit(&mut self, opened: &mut Opened, most: u64) -> Result<u64> {
        let before_us = thread_cpu_us();
        let mut batch = Vec::with_capacity(COMMIT_PAGES * opened.partitions.len());
        let mut done = 0;
        for _ in 0..COMMIT_PAGES {
            if done >= most {
                break;
            }
            let source = None;
            for (at, links) in self.web.page(self.model.as_mut()) {
                done += links.len() as u64;
                batch.push((at, Entry::Links { source, links }));
            }
        }
        self.making_us += thread_cpu_us() - before_us;
        self.visit_some(opened, &mut batch)?;
        // As owners get them: each its own, in order.
        let mut by_owner: Vec<Vec<Delivery>> = Vec::new();
        by_owner.resize_with(opened.partitions.len(), Vec::new);
        for delivery in opened.journal.commit(batch)? {
            by_owner[usize::from(delivery.partition.0)].push(delivery);
        }
        for (waiting, mine) in self.waiting.iter_mut().zip(by_owner) {
            waiting.push_back(mine);
        }
        self.fold(opened)?;
        self.fold_until(opened, MOST_HELD_BACK)?;
        Ok(done)
    }

    /// Folds on, with nothing committed meanwhile, until no more than `most` commits wait for any partition.
    fn fold_until(&mut self, opened: &mut Opened, most: usize) -> Result<()> {
        let started = Instant::now();
        while self.waiting.iter().any(|waiting| waiting.len() > most) {
            thread::sleep(LOOK_AGAIN);
            self.fold(opened)?;
        }
        self.held_back += started.elapsed();
        Ok(())
    }

    /// Has each partition fold what one commit brought it, if it is ready for that.
    fn fold(&mut self, opened: &mut Opened) -> Result<()> {
        let mut folded = Vec::new();
        let mut waits = Waits::so_far();
        for (partition, waiting) in opened.partitions.iter_mut().zip(&mut self.waiting) {
            let (started, before_us) = (Instant::now(), thread_cpu_us());
            if partition.is_ready()
                && let Some(mine) = waiting.pop_front()
            {
                let entries = mine.iter().map(|delivery| (delivery.seq, &delivery.entry));
                partition.apply_all(entries)?;
                folded.push(mine);
            }
            partition.tend(false)?;
            let wall_ms = started.elapsed().as_secs_f64() * 1e3;
            let cpu_ms = (thread_cpu_us() - before_us) / 1e3;
            let longest = &mut self.longest_batch;
            if wall_ms > longest.not_stolen_ms {
                let before = std::mem::replace(&mut waits, Waits::so_far());
                let stolen_ms = waits.stolen_since(&before, wall_ms, cpu_ms);
                longest.not_stolen_ms = longest.not_stolen_ms.max(wall_ms - stolen_ms);
            }
            longest.wall_ms = longest.wall_ms.max(wall_ms);
            longest.cpu_ms = longest.cpu_ms.max(cpu_ms);
        }
        let before_us = thread_cpu_us();
        drop(folded);
        self.making_us += thread_cpu_us() - before_us;
        Ok(())
    }

    /// A few turns, as a crawl would take them.
    fn visit_some(
        &mut self,
        opened: &mut Opened,
        batch: &mut Vec<(PartitionId, Entry)>,
    ) -> Result<()> {
        let turns = COMMIT_PAGES / VISIT_ONE_IN / opened.partitions.len();
        for partition in &mut opened.partitions {
            for _ in 0..turns {
                self.now_ms += 1;
                let Some(visit) = take_turn(partition, self.now_ms)? else {
                    break;
                };
                if let (Some(model), Entry::Visit { url, .. }) = (&mut self.model, &visit) {
                    model.visit(url);
                }
                batch.push((partition.id(), visit));
            }
        }
        Ok(())
    }
}

/// One turn of a partition, whose URL is fetched at once; `None` if no host is due.
pub fn take_turn(partition: &mut Partition, now_ms: u64) -> Result<Option<Entry>> {
    let Some(turn) = partition.begin_turn(now_ms)? else {
        return Ok(None);
    };
    let pulse = Pulse {
        last_ms: now_ms,
        not_before_ms: now_ms + DELAY_MS,
        delay_ms: DELAY_MS as u32,
        failures: 0,
        ..Pulse::default()
    };
    let visit = partition.next_url(turn.host)?.map(|due| Entry::Visit {
        url: due.url,
        visit: Visit {
            status: 200,
            ..Visit::without_answer(now_ms, Outcome::Fetched)
        },
        pulse,
        links: LinkBatch::new(Some(due.doc)),
        forwards: Vec::new(),
        targets: Vec::new(),
    });
    partition.end_turn(turn.host, pulse)?;
    Ok(visit)
}

fn flush(opened: &mut Opened) -> Result<()> {
    for partition in &mut opened.partitions {
        partition.flush()?;
    }
    opened.journal.trim()
}

fn measure(dir: &Path, opened: &Opened, observations: u64) -> Result<Row> {
    let urls: u64 = opened.partitions.iter().map(|p| p.stats().known).sum();
    let ram_bytes: usize = opened.partitions.iter().map(|p| p.ram_bytes()).sum();
    let looked_up: u64 = opened.partitions.iter().map(|p| p.looked_up()).sum();
    Ok(Row {
        observations,
        urls,
        cpu_us_per_observation: 0.0,
        making_us_per_observation: 0.0,
        looked_up_share: looked_up as f64 / observations as f64,
        longest_batch: LongestBatch::default(),
        held_back_s: 0.0,
        rss_bytes: peak_rss_bytes(),
        ram_bytes: ram_bytes as u64,
        disk_bytes_per_url: state_bytes(dir)? as f64 / urls as f64,
        checks: Vec::new(),
    })
}

/// Everything but the log, which a checkpoint makes superfluous.
fn state_bytes(dir: &Path) -> Result<u64> {
    let mut sum = 0;
    for item in fs::read_dir(dir).at(dir)? {
        let path = item.at(dir)?.path();
        if path.is_dir() && !path.ends_with("log") {
            sum += state_bytes(&path)?;
        } else if path.is_file() {
            sum += fs::metadata(&path).at(&path)?.len();
        }
    }
    Ok(sum)
}
