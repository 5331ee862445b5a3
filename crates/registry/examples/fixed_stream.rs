//! The registry on a fixed stream of links and visits, for counting instructions (`bench/instructions`):
//! no checks, no clock, nothing random. With `only-make` the stream is made and thrown away; the
//! difference of both counts is the registry's.
//!
//! `fixed_stream DIR OBSERVATIONS [only-make]`

use portolan_model::{DocId, Identities, Link, LinkBatch, LinkKind, PartitionId, Verdict};
use portolan_registry::bench::take_turn;
use portolan_registry::{Entry, Opened, Registry, RegistrySettings};
use std::path::Path;

const PAGE_LINKS: u64 = 20;
const COMMIT_PAGES: u64 = 100;
const HOST_URLS: u64 = 200;
/// One observation in this many is of a new URL.
const NEW_ONE_IN: u64 = 4;
/// Turns of each partition between two commits.
const TURNS: usize = 3;
/// Commits after which what is new is written, and merges are waited for. Left to itself the registry merges beside the fold, when
/// the threads happen to be ready for it, and counts would differ by 3 %.
const MERGE_COMMITS: u64 = 20;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let (dir, observations, only_make) = match &arguments[..] {
        [dir, number] => (dir, number.parse::<u64>()?, false),
        [dir, number, word] if word == "only-make" => (dir, number.parse()?, true),
        _ => {
            return Err(
                "give a directory, a number of observations, and perhaps 'only-make'".into(),
            );
        }
    };
    let settings = RegistrySettings::default();
    let mut opened = Registry::open(Path::new(dir), &settings, 0)?;
    let mut stream = Stream {
        known: 0,
        step: 0,
        partitions: settings.partitions,
    };
    let mut now_ms = 1;
    for commit in 1..=observations / (PAGE_LINKS * COMMIT_PAGES) {
        let mut batch = Vec::new();
        for _ in 0..COMMIT_PAGES {
            stream.page(&mut batch);
        }
        if only_make {
            std::hint::black_box(&batch);
            continue;
        }
        visit(&mut opened, &mut now_ms, &mut batch)?;
        for delivery in opened.journal.commit(batch)? {
            opened.partitions[usize::from(delivery.partition.0)]
                .apply(delivery.seq, &delivery.entry)?;
        }
        for partition in &mut opened.partitions {
            partition.tend(false)?;
        }
        if commit.is_multiple_of(MERGE_COMMITS) {
            for partition in &mut opened.partitions {
                partition.flush()?;
                partition.finish_merge()?;
            }
        }
    }
    let known: u64 = opened.partitions.iter().map(|p| p.stats().known).sum();
    let expected = if only_make { 0 } else { stream.known };
    if known != expected {
        return Err(format!("{known} URLs are known, not {expected}").into());
    }
    println!("{known} URLs");
    Ok(())
}

struct Stream {
    known: u64,
    step: u64,
    partitions: u16,
}

impl Stream {
    /// The links of one page, by partition.
    fn page(&mut self, batch: &mut Vec<(PartitionId, Entry)>) {
        let from = DocId(self.next());
        let mut batches: Vec<Option<LinkBatch>> = vec![None; usize::from(self.partitions)];
        for _ in 0..PAGE_LINKS {
            let number = if self.known == 0 || self.next().is_multiple_of(NEW_ONE_IN) {
                self.known += 1;
                self.known - 1
            } else {
                // The product of two: few URLs are linked often, most seldom.
                let (a, b) = (self.next() % self.known, self.next() % self.known);
                a * b / self.known
            };
            let host = format!("www.site-{}.example", number / HOST_URLS);
            let url = format!(
                "https://{host}/section-{}/article-{number}.html",
                number % 7
            );
            let at = PartitionId::of(Identities::PUBLIC.host(&host), self.partitions);
            batches[usize::from(at.0)]
                .get_or_insert_with(|| LinkBatch::new(Some(from)))
                .push_known(
                    Identities::PUBLIC.doc(&url),
                    Link {
                        url: &url,
                        kind: LinkKind::Anchor,
                        depth: 3,
                        hops: 0,
                        verdict: Verdict::Crawl { priority: 0 },
                    },
                );
        }
        for (number, links) in batches.into_iter().enumerate() {
            if let Some(links) = links {
                let source = None;
                batch.push((PartitionId(number as u16), Entry::Links { source, links }));
            }
        }
    }

    fn next(&mut self) -> u64 {
        self.step += 1;
        let z = self.step.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z ^ (z >> 31)
    }
}

/// A few turns of each partition, as a crawl takes them.
fn visit(
    opened: &mut Opened,
    now_ms: &mut u64,
    batch: &mut Vec<(PartitionId, Entry)>,
) -> portolan_registry::Result<()> {
    for partition in &mut opened.partitions {
        for _ in 0..TURNS {
            *now_ms += 1;
            let Some(visit) = take_turn(partition, *now_ms)? else {
                break;
            };
            batch.push((partition.id(), visit));
        }
    }
    Ok(())
}
