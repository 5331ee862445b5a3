//! A node of a fleet that knows many URLs, for who measures how it is taken over: its partitions' checkpoints on its disk,
//! and in chunks what it has logged since.

use super::web::SyntheticWeb;
use super::{Feed, LongestBatch, flush};
use crate::error::Result;
use crate::log::{Chunk, Exporter, Settler};
use crate::registry::{InFleet, Opened, Registry};
use crate::settings::RegistrySettings;
use portolan_model::PartitionId;
use std::collections::VecDeque;
use std::path::Path;
use std::time::Duration;

/// A chunk is about this long.
const CHUNK_BYTES: usize = 8 << 20;
/// What is fed between two looks at what is to be shipped.
const OBSERVATIONS: u64 = 200_000;

/// What `fill_node` made.
#[derive(Debug)]
pub struct FilledNode {
    pub urls: u64,
    /// What is not in the checkpoints, in order.
    pub tail: Vec<Chunk>,
}

/// Settings of a node's registry, as a fleet has them.
pub fn node_settings(partitions: u16) -> RegistrySettings {
    RegistrySettings {
        partitions,
        shipped_frames: Some(0),
        ..RegistrySettings::default()
    }
}

/// Makes a node's registry in `dir`, which must be empty, of about `urls` URLs in all its partitions. Then `tail` more links
/// are found, which no checkpoint has.
pub fn fill_node(dir: &Path, partitions: u16, urls: u64, tail: u64) -> Result<FilledNode> {
    let mut opened = Registry::open(dir, &node_settings(partitions), 0)?;
    let Some(InFleet {
        mut exporter,
        settler,
        adopter,
    }) = opened.in_fleet.take()
    else {
        return Ok(FilledNode {
            urls: 0,
            tail: Vec::new(),
        });
    };
    for id in (0..partitions).map(PartitionId) {
        adopter.prepare(id)?;
        let partition = adopter.begin(id, 1)?.finish()?;
        opened.journal.adopt(&partition)?;
        opened.partitions.push(partition);
    }
    let mut feed = Feed {
        web: SyntheticWeb::new(1, partitions),
        model: None,
        now_ms: 1,
        making_us: 0.0,
        longest_batch: LongestBatch::default(),
        waiting: opened.partitions.iter().map(|_| VecDeque::new()).collect(),
        held_back: Duration::ZERO,
    };
    while feed.web.known < urls {
        observe(&mut feed, &mut opened, OBSERVATIONS)?;
        ship(&mut exporter, &settler, None)?;
    }
    flush(&mut opened)?;
    let mut chunks = Vec::new();
    observe(&mut feed, &mut opened, tail)?;
    ship(&mut exporter, &settler, Some(&mut chunks))?;
    // Those that wait to be looked up are known afterwards.
    for partition in &mut opened.partitions {
        partition.join_all_inline()?;
    }
    Ok(FilledNode {
        urls: opened.partitions.iter().map(|p| p.stats().known).sum(),
        tail: chunks,
    })
}

fn observe(feed: &mut Feed, opened: &mut Opened, most: u64) -> Result<()> {
    let mut done = 0;
    while done < most {
        done += feed.commit(opened, most - done)?;
    }
    feed.fold_until(opened, 0)
}

/// Everything counts as shipped and acknowledged.
fn ship(
    exporter: &mut Exporter,
    settler: &Settler,
    mut keep: Option<&mut Vec<Chunk>>,
) -> Result<()> {
    while let Some(chunk) = exporter.next(CHUNK_BYTES)? {
        settler.note_shipped(chunk.frames.1);
        for (&partition, &(_, to)) in &chunk.entries {
            settler.settle(partition, to);
        }
        if let Some(kept) = keep.as_deref_mut() {
            kept.push(chunk);
        }
    }
    Ok(())
}
