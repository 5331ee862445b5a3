//! What a turn costs: many hosts with due URLs, more than fit into RAM, and turns taken one after the
//! other as crawling threads do; also when many of their URLs have been visited before.

use super::clock::{peak_rss_bytes, thread_cpu_us};
use super::{DELAY_MS, take_turn as visit_one};
use crate::error::Result;
use crate::log::Entry;
use crate::partition::Partition;
use crate::registry::{Opened, Registry};
use crate::settings::RegistrySettings;
use portolan_model::{DocId, Identities, Link, LinkBatch, LinkKind, PartitionId, Pulse, Verdict};
use std::path::Path;

/// URLs committed together while the frontier is filled.
const COMMIT_URLS: u64 = 20_000;
/// Visits committed together.
const COMMIT_VISITS: usize = 500;

/// What to fill the frontier with.
#[derive(Clone, Copy, Debug)]
pub struct Filling {
    pub hosts: u64,
    pub urls_per_host: u64,
    /// So many URLs of each host are visited before anything is measured.
    pub visited_per_host: u64,
}

/// What was measured with one number of hosts.
#[derive(Clone, Debug)]
pub struct TurnsRow {
    pub hosts: u64,
    /// Due.
    pub urls: u64,
    pub visited: u64,
    pub turns: u64,
    /// CPU for picking the host that is due first and queueing it again.
    pub pick_us: f64,
    /// CPU for a whole turn without a URL: pick, read what is known of the host and whether it has a
    /// URL that is still due, end the turn.
    pub turn_us: f64,
    /// CPU for a whole turn with a URL and its text. Measured by itself: where reading the host dominates, the difference to a
    /// turn without one is noise.
    pub turn_with_url_us: f64,
    pub rss_bytes: u64,
}

/// Fills a registry in `dir` (which must be empty), and takes `turns` turns of each kind.
pub fn run_turns(dir: &Path, filling: Filling, turns: u64) -> Result<TurnsRow> {
    let settings = RegistrySettings::default();
    let mut opened = Registry::open(dir, &settings, 0)?;
    let hosts = filling.hosts;
    fill(&mut opened, hosts, filling.urls_per_host)?;
    let visited = hosts * filling.visited_per_host.min(filling.urls_per_host);
    let start_ms = visit(&mut opened, visited)? + 2 * DELAY_MS;
    let urls = opened.partitions.iter().map(|p| p.stats().due).sum();
    let partitions = &mut opened.partitions[..];
    // A turn a millisecond, and each host rests until half of the others have had theirs. Times only
    // grow, so that hosts of one measurement are due again in the next.
    let rest_ms = hosts / 2 + 1;
    let phase_ms = 2 * (turns + rest_ms);
    let pick_us = each(partitions, turns, start_ms, |partition, now_ms| {
        partition.pick_and_requeue(now_ms, now_ms + rest_ms)
    })?;
    let turn_us = each(
        partitions,
        turns,
        start_ms + phase_ms,
        |partition, now_ms| take_turn(partition, now_ms, rest_ms, false),
    )?;
    // Nothing comes back: half of the URLs may be handed out.
    let turns_with_url = turns.min(urls / 2).max(1);
    let turn_with_url_us = each(
        partitions,
        turns_with_url,
        start_ms + 2 * phase_ms,
        |partition, now_ms| take_turn(partition, now_ms, rest_ms, true),
    )?;
    Ok(TurnsRow {
        hosts,
        urls,
        visited,
        turns,
        pick_us,
        turn_us,
        turn_with_url_us,
        rss_bytes: peak_rss_bytes(),
    })
}

/// CPU time of `work`, which must find a host each time, over all partitions in turn.
fn each(
    partitions: &mut [Partition],
    turns: u64,
    start_ms: u64,
    mut work: impl FnMut(&mut Partition, u64) -> Result<bool>,
) -> Result<f64> {
    let before_us = thread_cpu_us();
    for turn in 0..turns {
        let index = turn as usize % partitions.len();
        let found = work(&mut partitions[index], start_ms + turn)?;
        assert!(found, "no host was due");
    }
    Ok((thread_cpu_us() - before_us) / turns as f64)
}

fn take_turn(partition: &mut Partition, now_ms: u64, rest_ms: u64, with_url: bool) -> Result<bool> {
    let Some(turn) = partition.begin_turn(now_ms)? else {
        return Ok(false);
    };
    if with_url {
        let due = partition.next_url(turn.host)?;
        assert!(due.is_some(), "a host in turn has no URL");
    }
    let pulse = Pulse {
        last_ms: now_ms,
        not_before_ms: now_ms + rest_ms,
        ..Pulse::default()
    };
    partition.end_turn(turn.host, pulse)?;
    Ok(true)
}

fn fill(opened: &mut Opened, hosts: u64, urls_per_host: u64) -> Result<()> {
    let partitions = opened.partitions.len() as u16;
    let mut batch: Vec<(PartitionId, Entry)> = Vec::new();
    let mut urls = 0;
    for host in 0..hosts {
        let name = format!("www.site-{host}.example");
        let at = PartitionId::of(Identities::PUBLIC.host(&name), partitions);
        let mut links = LinkBatch::new(Some(DocId(host)));
        for page in 0..urls_per_host {
            links.push(Link {
                url: &format!("https://{name}/article-{page}.html"),
                kind: LinkKind::Anchor,
                depth: 3,
                hops: 0,
                verdict: Verdict::Crawl { priority: 0 },
            });
        }
        let source = None;
        batch.push((at, Entry::Links { source, links }));
        urls += urls_per_host;
        if urls >= COMMIT_URLS || host + 1 == hosts {
            for delivery in opened.journal.commit(std::mem::take(&mut batch))? {
                opened.partitions[usize::from(delivery.partition.0)]
                    .apply(delivery.seq, &delivery.entry)?;
            }
            for partition in &mut opened.partitions {
                partition.tend(false)?;
            }
            urls = 0;
        }
    }
    for partition in &mut opened.partitions {
        partition.flush()?;
    }
    Ok(())
}

/// Visits `urls` URLs, one of a host at a time, and returns the time when that is done.
fn visit(opened: &mut Opened, urls: u64) -> Result<u64> {
    let mut batch: Vec<(PartitionId, Entry)> = Vec::new();
    let (mut visited, mut now_ms) = (0, 0);
    while visited < urls {
        let before = visited;
        for partition in &mut opened.partitions {
            now_ms += 1;
            if let Some(visit) = visit_one(partition, now_ms)? {
                batch.push((partition.id(), visit));
                visited += 1;
            }
        }
        let none_is_due = visited == before;
        if none_is_due {
            // Now all are, if anything is folded.
            now_ms += DELAY_MS;
        }
        if batch.len() >= COMMIT_VISITS || none_is_due || visited >= urls {
            for delivery in opened.journal.commit(std::mem::take(&mut batch))? {
                opened.partitions[usize::from(delivery.partition.0)]
                    .apply(delivery.seq, &delivery.entry)?;
            }
            for partition in &mut opened.partitions {
                partition.tend(none_is_due)?;
            }
        }
    }
    Ok(now_ms)
}
