//! What it costs to keep checkpoints in the store, and to take partitions over from them: the code of nodes, over a store in
//! a directory, without NATS.

use std::path::Path;
use std::sync::Arc;

use futures_util::{StreamExt, TryStreamExt};
use portolan_fleet::{Blobs, Checkpoint, StoredCheckpoint, Upload, journal_key};
use portolan_model::PartitionId;
use portolan_registry::bench::{FilledNode, fill_node, node_settings};
use portolan_registry::{Adopter, Adoption, Chunk, Registry, checkpoint_files};
use tokio::time::Instant;

use super::adoption::{AT_ONCE, blocking};
use super::gather::{self, Gathered};
use super::upload::{Putting, upload};
use crate::error::CrawlError;

/// What was measured. Times are of a wall clock.
#[derive(Clone, Copy, Debug, Default)]
pub struct AdoptionCosts {
    pub partitions: u16,
    pub urls: u64,
    /// Of all checkpoints.
    pub bytes: u64,
    pub objects: u64,
    /// What is folded after the checkpoints.
    pub tail_bytes: u64,
    pub put_s: f64,
    /// With the checkpoints' files made durable.
    pub fetch_s: f64,
    pub open_s: f64,
    pub fold_s: f64,
    /// Until checkpoints are on the new disk.
    pub finish_s: f64,
}

/// Fills a node with about `urls` URLs in `partitions` partitions, puts their checkpoints into a store, finds `tail` more
/// links, and has another node take all of it over. `dir` must be empty.
pub fn bench_adoption(
    dir: &Path,
    partitions: u16,
    urls: u64,
    tail: u64,
) -> Result<AdoptionCosts, CrawlError> {
    let node = dir.join("node");
    std::fs::create_dir_all(dir).map_err(|source| CrawlError::File {
        path: dir.to_owned(),
        source,
    })?;
    let filled = fill_node(&node, partitions, urls, tail)?;
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .map_err(|e| CrawlError::Internal(format!("no runtime: {e}")))?;
    let store = dir.join("store").display().to_string();
    let blobs = Blobs::open(&store).map_err(|e| CrawlError::Fleet(e.to_string()))?;
    runtime.block_on(measure(&blobs, dir, partitions, filled))
}

async fn measure(
    blobs: &Blobs,
    dir: &Path,
    partitions: u16,
    filled: FilledNode,
) -> Result<AdoptionCosts, CrawlError> {
    let mut costs = AdoptionCosts {
        partitions,
        urls: filled.urls,
        ..AdoptionCosts::default()
    };
    let mut at = Instant::now();
    let mut lap = || {
        let seconds = at.elapsed().as_secs_f64();
        at = Instant::now();
        seconds
    };
    let mut told = Vec::new();
    for id in (0..partitions).map(PartitionId) {
        told.extend(put(blobs, &dir.join("node"), id, &mut costs).await?);
    }
    let mut keys = Vec::new();
    for chunk in filled.tail {
        let key = journal_key("node", 1, chunk.frames.0);
        costs.tail_bytes += chunk.bytes().len() as u64;
        blobs.put(&key, chunk.into_bytes().into()).await;
        keys.push(key);
    }
    costs.put_s = lap();
    let opened = Registry::open(&dir.join("adopter"), &node_settings(partitions), 1)?;
    let Some(in_fleet) = opened.in_fleet else {
        return Ok(costs);
    };
    let adopter = Arc::new(in_fleet.adopter);
    let mut journal = opened.journal;
    lap();
    let laid = futures_util::stream::iter(&told).map(|told| lay(blobs, &adopter, told));
    let laid: Vec<PartitionId> = laid.buffer_unordered(AT_ONCE).try_collect().await?;
    costs.fetch_s = lap();
    let begun = futures_util::stream::iter(laid).map(async |id| {
        let adopter = Arc::clone(&adopter);
        blocking(move || Ok(adopter.begin(id, 1)?)).await
    });
    let mut adoptions: Vec<Adoption> = begun.buffer_unordered(AT_ONCE).try_collect().await?;
    costs.open_s = lap();
    let chunks = futures_util::stream::iter(keys).map(async |key| blobs.get(&key).await);
    let mut chunks = std::pin::pin!(chunks.buffered(AT_ONCE));
    while let Some(bytes) = chunks.next().await {
        adoptions = blocking(move || fold(adoptions, bytes.unwrap_or_default().to_vec())).await?;
    }
    costs.fold_s = lap();
    let finished = futures_util::stream::iter(adoptions)
        .map(async |one| blocking(move || Ok(one.finish()?)).await);
    let finished: Vec<_> = finished.buffer_unordered(AT_ONCE).try_collect().await?;
    let mut urls = 0;
    for partition in &finished {
        journal.adopt(partition)?;
        urls += partition.stats().known;
    }
    costs.finish_s = lap();
    match urls == costs.urls {
        true => Ok(costs),
        false => Err(CrawlError::Internal(format!(
            "{urls} of {} URLs have come",
            costs.urls
        ))),
    }
}

async fn put(
    blobs: &Blobs,
    registry: &Path,
    id: PartitionId,
    costs: &mut AdoptionCosts,
) -> Result<Option<Checkpoint>, CrawlError> {
    let Some(opened) = checkpoint_files(registry, id)? else {
        return Ok(None);
    };
    let at =
        Upload::new(id, 1, 1, opened.seq).map_err(|error| CrawlError::Fleet(error.to_string()))?;
    let put = Default::default();
    let putting = Putting {
        blobs,
        rate: &|| 0,
        put: &put,
    };
    let stored = upload(&at, opened, &StoredCheckpoint::default(), &putting).await?;
    costs.bytes += put.0.into_inner();
    costs.objects += put.1.into_inner();
    Ok(Some(Checkpoint {
        incarnation: at.incarnation,
        partition: id.0,
        epoch: at.epoch,
        seq: at.seq,
        manifest: at.manifest_key(),
        bytes: stored.bytes(),
    }))
}

async fn lay(
    blobs: &Blobs,
    adopter: &Arc<Adopter>,
    told: &Checkpoint,
) -> Result<PartitionId, CrawlError> {
    let (mut gathered, id) = (Gathered::Nothing, PartitionId(told.partition));
    gather::gather(blobs, adopter, told, &mut gathered).await?;
    if let Gathered::Whole(stored) = &gathered {
        gather::take(adopter, id, stored).await?;
    }
    Ok(id)
}

fn fold(mut adoptions: Vec<Adoption>, bytes: Vec<u8>) -> Result<Vec<Adoption>, CrawlError> {
    let chunk = Chunk::read(bytes, Path::new("a chunk"))?;
    for adoption in &mut adoptions {
        adoption.fold(&chunk)?;
    }
    Ok(adoptions)
}
