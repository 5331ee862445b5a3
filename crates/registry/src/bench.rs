//! What an observation costs: a stream of links with zipf-like repeats and a quarter new URLs,
//! folded by the real registry with its default bounds, and checked against plain counts where
//! those fit into RAM.

use crate::error::{At, Result};
use crate::log::Entry;
use crate::record::{State, class_of};
use crate::registry::{Opened, Registry};
use crate::settings::RegistrySettings;
use crate::snapshot::{Snapshot, UrlFilter};
use portolan_model::{
    DocId, HostId, Link, LinkBatch, LinkKind, Outcome, PartitionId, Pulse, Verdict, Visit,
};
use std::collections::HashMap;
use std::fs;
use std::path::Path;

/// Links of one page.
const PAGE_LINKS: usize = 20;
/// Pages committed together: a fifth of a second's at 2,500 pages/s.
const COMMIT_PAGES: usize = 500;
/// URLs of a host.
const HOST_URLS: u64 = 200;
/// One observation in this many is of a new URL.
const NEW_ONE_IN: u64 = 4;
/// One page in this many comes from a turn, with a visit.
const VISIT_ONE_IN: usize = 10;
/// With more observations than this, counts are not kept to compare with.
const CHECKED_OBSERVATIONS: u64 = 2_000_000;

/// What was measured at one size.
#[derive(Clone, Debug)]
pub struct Row {
    pub observations: u64,
    pub urls: u64,
    /// CPU of the whole process a folded observation, log and merges included.
    pub cpu_us_per_observation: f64,
    pub rss_bytes: u64,
    /// The registry's own count.
    pub ram_bytes: u64,
    pub disk_bytes_per_url: f64,
    /// What was compared with the model, in words; empty where it did not fit.
    pub checks: Vec<String>,
}

/// Feeds `observations` links to a registry in `dir` (which must be empty) and reports at 1 M,
/// 10 M, … and at the end. A check that fails is a panic: the figures would be worth nothing.
pub fn run(
    dir: &Path,
    observations: u64,
    seed: u64,
    mut progress: impl FnMut(&Row),
) -> Result<Vec<Row>> {
    let settings = RegistrySettings::default();
    let mut opened = Registry::open(dir, &settings, 0)?;
    let mut web = SyntheticWeb::new(seed, settings.partitions);
    let mut counts = (observations <= CHECKED_OBSERVATIONS).then(Vec::<u32>::new);
    let (mut done, mut next_report) = (0, 1_000_000.min(observations));
    let started_us = cpu_time_us();
    // Making up the links and checking the result is not the registry's work.
    let mut other_us = 0.0;
    let mut rows = Vec::new();
    while done < observations {
        let making_us = thread_time_us();
        let mut batch = Vec::new();
        for _ in 0..COMMIT_PAGES {
            if done >= next_report {
                break;
            }
            let page = web.page(counts.as_mut());
            done += page
                .iter()
                .map(|(_, links)| links.len() as u64)
                .sum::<u64>();
            let source = None;
            batch.extend(
                page.into_iter()
                    .map(|(at, links)| (at, Entry::Links { source, links })),
            );
        }
        other_us += thread_time_us() - making_us;
        visit_some(&mut opened, &mut web, &mut batch)?;
        fold(&mut opened, batch)?;
        if done >= next_report {
            flush(&mut opened)?;
            let checking_us = thread_time_us();
            let cpu_us = cpu_time_us() - started_us - other_us;
            let mut row = measure(dir, &opened, done, cpu_us)?;
            if let Some(counts) = &counts {
                row.checks = check(dir, counts)?;
            }
            progress(&row);
            other_us += thread_time_us() - checking_us;
            rows.push(row);
            next_report = (next_report * 10).min(observations.max(next_report + 1));
        }
    }
    if counts.is_some() {
        // Stop without a word, open again: nothing may differ.
        drop(opened);
        let opened = Registry::open(dir, &settings, 0)?;
        let known: u64 = opened.partitions.iter().map(|p| p.stats().known).sum();
        assert_eq!(known, web.known, "URLs known after opening again");
        if let (Some(row), Some(counts)) = (rows.last_mut(), &counts) {
            check(dir, counts)?;
            row.checks
                .push("recovery: all of it again after a stop without closing".to_owned());
        }
    }
    Ok(rows)
}

fn fold(opened: &mut Opened, batch: Vec<(PartitionId, Entry)>) -> Result<()> {
    for delivery in opened.logs.commit(batch)? {
        opened.partitions[usize::from(delivery.partition.0)]
            .apply(delivery.seq, &delivery.entry)?;
    }
    for partition in &mut opened.partitions {
        partition.tend(false)?;
    }
    Ok(())
}

/// A few turns, as a crawl would take them.
fn visit_some(
    opened: &mut Opened,
    web: &mut SyntheticWeb,
    batch: &mut Vec<(PartitionId, Entry)>,
) -> Result<()> {
    let turns = COMMIT_PAGES / VISIT_ONE_IN / opened.partitions.len();
    for partition in &mut opened.partitions {
        for _ in 0..turns {
            web.now_ms += 1;
            let Some(turn) = partition.begin_turn(web.now_ms)? else {
                break;
            };
            let pulse = Pulse {
                last_ms: web.now_ms,
                not_before_ms: web.now_ms + 1_000,
                delay_ms: 1_000,
                failures: 0,
            };
            if let Some(due) = partition.next_url(turn.host)? {
                let mut visit = Visit::without_answer(web.now_ms, Outcome::Fetched);
                visit.status = 200;
                let entry = Entry::Visit {
                    url: due.url,
                    visit,
                    pulse,
                    links: LinkBatch::new(Some(due.doc)),
                    forwards: Vec::new(),
                    targets: Vec::new(),
                };
                batch.push((partition.id(), entry));
            }
            partition.end_turn(turn.host, pulse)?;
        }
    }
    Ok(())
}

fn flush(opened: &mut Opened) -> Result<()> {
    opened.logs.sync()?;
    for partition in &mut opened.partitions {
        partition.flush()?;
    }
    opened.logs.sync()
}

fn measure(dir: &Path, opened: &Opened, observations: u64, cpu_us: f64) -> Result<Row> {
    let urls: u64 = opened.partitions.iter().map(|p| p.stats().known).sum();
    let ram_bytes: usize = opened.partitions.iter().map(|p| p.ram_bytes()).sum();
    Ok(Row {
        observations,
        urls,
        cpu_us_per_observation: cpu_us / observations as f64,
        rss_bytes: peak_rss_bytes(),
        ram_bytes: ram_bytes as u64,
        disk_bytes_per_url: state_bytes(dir)? as f64 / urls as f64,
        checks: Vec::new(),
    })
}

/// Every URL, its count, class and place, as counted beside the registry.
fn check(dir: &Path, counts: &[u32]) -> Result<Vec<String>> {
    let snapshot = Snapshot::open(dir)?;
    let mut hosts: HashMap<HostId, Vec<_>> = HashMap::new();
    let mut found = 0;
    for url in snapshot.urls(UrlFilter::default()) {
        let url = url?;
        let number = SyntheticWeb::number_of(&url.url).unwrap_or(usize::MAX);
        assert_eq!(Some(&url.count), counts.get(number), "count of {}", url.url);
        assert_eq!(url.class, class_of(url.count, 0), "class of {}", url.url);
        found += 1;
        // Every hundredth host's queue is compared as a whole.
        if url.state == State::Due && url.host.0.is_multiple_of(100) {
            let place = (u8::MAX - url.class, url.arrival, url.doc);
            hosts.entry(url.host).or_default().push(place);
        }
    }
    assert_eq!(found, counts.len(), "URLs known");
    for (host, queue) in &mut hosts {
        queue.sort();
        let order: Vec<DocId> = queue.iter().map(|(_, _, doc)| *doc).collect();
        assert_eq!(snapshot.queue(*host)?, order, "queue of {host:?}");
    }
    Ok(vec![
        format!("counts and classes of {found} URLs"),
        format!("order of {} queues", hosts.len()),
    ])
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

/// User and system time of this process; 0 where the system does not tell.
fn cpu_time_us() -> f64 {
    /// The unit of /proc's times on Linux, for all architectures.
    const TICK_US: f64 = 10_000.0;
    let stat = fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let fields = stat.rsplit(')').next().unwrap_or_default();
    let times = fields.split_whitespace().skip(11).take(2);
    times
        .filter_map(|time| time.parse::<f64>().ok())
        .sum::<f64>()
        * TICK_US
}

/// Time of this thread.
fn thread_time_us() -> f64 {
    let stat = fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    let nanoseconds = stat.split_whitespace().next();
    nanoseconds
        .and_then(|n| n.parse::<f64>().ok())
        .unwrap_or(0.0)
        / 1_000.0
}

fn peak_rss_bytes() -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find(|line| line.starts_with("VmHWM:"));
    let kilobytes = line.and_then(|line| line.split_whitespace().nth(1)?.parse::<u64>().ok());
    kilobytes.unwrap_or(0) * 1024
}

/// URLs by number: host and text follow from it, so nothing need be remembered.
struct SyntheticWeb {
    random: u64,
    known: u64,
    now_ms: u64,
    partitions: u16,
}

impl SyntheticWeb {
    fn new(seed: u64, partitions: u16) -> Self {
        Self {
            random: seed,
            known: 0,
            now_ms: 1,
            partitions,
        }
    }

    fn next(&mut self) -> u64 {
        self.random = self.random.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.random ^ (self.random >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// Numbers near 0 come often, as a zipf law with exponent 1 has it.
    fn zipf(&mut self, bound: u64) -> u64 {
        let uniform = (self.next() >> 11) as f64 / (1u64 << 53) as f64;
        (((bound + 1) as f64).powf(uniform) as u64 - 1).min(bound - 1)
    }

    /// Links of one page, by partition. New URLs of a page are of one host; known ones are
    /// anywhere.
    fn page(&mut self, mut counts: Option<&mut Vec<u32>>) -> Vec<(PartitionId, LinkBatch)> {
        let from = DocId(self.next());
        let mut batches: Vec<(PartitionId, LinkBatch)> = Vec::new();
        for _ in 0..PAGE_LINKS {
            let number = if self.known == 0 || self.next().is_multiple_of(NEW_ONE_IN) {
                self.known += 1;
                self.known - 1
            } else {
                self.zipf(self.known)
            };
            if let Some(counts) = counts.as_deref_mut() {
                counts.resize(self.known as usize, 0);
                counts[number as usize] += 1;
            }
            let host = format!("www.site-{}.example", number / HOST_URLS);
            let url = format!(
                "https://{host}/section-{}/article-{number}.html",
                number % 7
            );
            let at = PartitionId::of(HostId::of(&host), self.partitions);
            let index = batches
                .iter()
                .position(|(partition, _)| *partition == at)
                .unwrap_or_else(|| {
                    batches.push((at, LinkBatch::new(Some(from))));
                    batches.len() - 1
                });
            batches[index].1.push(Link {
                url: &url,
                kind: LinkKind::Anchor,
                depth: 3,
                hops: 0,
                verdict: Verdict::Crawl { priority: 0 },
            });
        }
        batches
    }

    fn number_of(url: &str) -> Option<usize> {
        let tail = url.rsplit("article-").next()?;
        tail.strip_suffix(".html")?.parse().ok()
    }
}
