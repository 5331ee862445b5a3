//! One index over all WARC files of a fleet. The node that ends last merges it and puts it into the store; who looks into the
//! crawl earlier, or where that node was lost, has the same index merged on its own disk.
//!
//! In the store: `catalogue/LOG.json` says what the index is of, and names its pieces, which joined are the file. `LOG` is
//! the last record of the ship log that was accounted for.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

use bytes::Bytes;
use portolan_archive::{index_warc, merge_sorted};
use portolan_fleet::{Blobs, Fleet, Stored, WarcChunk, Wish};
use serde::{Deserialize, Serialize};
use tokio::time::Instant;

use super::adoption::blocking;
use crate::check::surt;
use crate::directory::make_dir;
use crate::error::CrawlError;

const DIR: &str = "catalogue/";
/// No object of an index is larger.
const PIECE_BYTES: usize = 32 << 20;
const LOOK_EVERY: Duration = Duration::from_millis(500);
/// The ship log is copied to the store in this time, or not at all by a node that ends.
const COPY: Duration = Duration::from_secs(60);

/// What an index in the store is of.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Catalogue {
    /// The last record of the ship log that is accounted for.
    log: u64,
    lines: u64,
    pieces: Vec<(String, u64)>,
}

/// A node has left. Where the crawl is over and this node is the last one, it merges the index.
pub(super) async fn close(fleet: &Fleet, node: &str, dir: &Path) -> Result<(), CrawlError> {
    let copied = tokio::time::timeout(COPY, fleet.copy_log()).await;
    if !matches!(copied, Ok(Ok(_))) {
        tracing::warn!("the store's copy of the ship log lacks its end");
        return Ok(());
    }
    if !is_last(fleet, node).await.unwrap_or(false) {
        return Ok(());
    }
    fleet.forget_links().await;
    let stored = Stored::of(fleet.clone()).await.map_err(unread)?;
    let lines = put(&stored, &dir.join("catalogue")).await?;
    tracing::info!(lines, "the index of all WARC files is in the store");
    Ok(())
}

/// Has the crawl ended, and have all others left? The node that coordinated waits until others have left, or are seen to be
/// gone.
async fn is_last(fleet: &Fleet, node: &str) -> Result<bool, portolan_fleet::FleetError> {
    let gone_after = Duration::from_millis(fleet.definition().lease_ms) + Duration::from_secs(5);
    let mut seen = (BTreeMap::new(), Instant::now());
    loop {
        let status = fleet.status().await?;
        if !matches!(status.wish, Wish::End | Wish::Complete) {
            return Ok(false);
        }
        let others = status.nodes.iter().filter(|(_, view)| view.alive);
        let number = |view: &portolan_fleet::NodeView| {
            view.reported.as_ref().map(|reported| reported.number)
        };
        let others: BTreeMap<_, _> = others
            .map(|(name, view)| (name.clone(), number(view)))
            .collect();
        if others.is_empty() {
            // Another one that was the last has done it.
            return Ok(seen.0.is_empty());
        }
        if status.coordinator.as_deref() != Some(node) {
            return Ok(false);
        }
        if seen.0 != others {
            seen = (others, Instant::now());
        } else if seen.1.elapsed() > gone_after {
            return Ok(true);
        }
        tokio::time::sleep(LOOK_EVERY).await;
    }
}

/// Merges the index in `dir`, which is removed afterwards, and puts it into the store.
async fn put(stored: &Stored, dir: &Path) -> Result<u64, CrawlError> {
    let (path, log, lines) = merge(stored, dir, &BTreeMap::new()).await?;
    let mut file = File::open(&path).map_err(at(&path))?;
    let (mut pieces, mut offset) = (Vec::new(), 0);
    loop {
        let mut piece = Vec::new();
        let mut next = Read::by_ref(&mut file).take(PIECE_BYTES as u64);
        let bytes = next.read_to_end(&mut piece).map_err(at(&path))? as u64;
        if bytes == 0 {
            break;
        }
        let key = format!("{DIR}{log:020}/{offset:012}");
        stored.blobs().put(&key, Bytes::from(piece)).await;
        pieces.push((key, bytes));
        offset += bytes;
    }
    let catalogue = Catalogue { log, lines, pieces };
    let json = serde_json::to_vec(&catalogue).map_err(|e| CrawlError::Internal(e.to_string()))?;
    stored
        .blobs()
        .put(&format!("{DIR}{log:020}.json"), json.into())
        .await;
    fs::remove_dir_all(dir).map_err(at(dir))?;
    Ok(lines)
}

/// The newest index in the store, where it is of record `log`, written to `to`. Gives its number of lines.
pub(super) async fn fetch(blobs: &Blobs, log: u64, to: &Path) -> Result<Option<u64>, CrawlError> {
    let Some(json) = blobs.get(&format!("{DIR}{log:020}.json")).await else {
        return Ok(None);
    };
    let lost = |key: &str| {
        CrawlError::Fleet(format!(
            "{key} is damaged in {}; put it back from a copy",
            blobs.place()
        ))
    };
    let catalogue: Catalogue = serde_json::from_slice(&json).map_err(|_| lost(DIR))?;
    let unfinished = to.with_extension("new");
    let mut file = File::create(&unfinished).map_err(at(&unfinished))?;
    for (key, bytes) in &catalogue.pieces {
        let piece = blobs
            .get(key)
            .await
            .filter(|piece| piece.len() as u64 == *bytes);
        let piece = piece.ok_or_else(|| lost(key))?;
        file.write_all(&piece).map_err(at(&unfinished))?;
    }
    fs::rename(&unfinished, to).map_err(at(to))?;
    Ok(Some(catalogue.lines))
}

/// Merges the index of all WARC files on this disk, in `dir`. Files that are `here` are not fetched. Gives where it is, the
/// last record of the ship log that it accounts for, and its number of lines.
pub(super) async fn merge(
    stored: &Stored,
    dir: &Path,
    here: &BTreeMap<String, PathBuf>,
) -> Result<(PathBuf, u64, u64), CrawlError> {
    make_dir(dir).map_err(at(dir))?;
    let (chunks, log) = stored.warc_chunks().await.map_err(unread)?;
    let mut parts = Vec::new();
    for (name, chunks) in &chunks {
        parts.push(index_of(stored, dir, name, chunks, here.get(name)).await?);
    }
    let path = dir.join("index.cdxj");
    let merged = path.clone();
    let lines = blocking(move || Ok(merge_sorted(&parts, &merged)?)).await?;
    Ok((path, log, lines))
}

/// The index of one WARC file, in `dir`: from the store, where its node has left; else from the file itself. What is there of
/// the same length stays.
async fn index_of(
    stored: &Stored,
    dir: &Path,
    name: &str,
    chunks: &BTreeMap<u64, WarcChunk>,
    here: Option<&PathBuf>,
) -> Result<PathBuf, CrawlError> {
    let bytes: u64 = chunks.values().map(|chunk| chunk.bytes).sum();
    let stem = name.trim_end_matches(".gz").trim_end_matches(".warc");
    let path = dir.join(format!("{stem}.{bytes}.cdxj"));
    if path.exists() {
        return Ok(path);
    }
    if let Some(index) = stored.blobs().get(&format!("index/{stem}.cdxj")).await {
        let unfinished = path.with_extension("new");
        fs::write(&unfinished, &index).map_err(at(&unfinished))?;
        fs::rename(&unfinished, &path).map_err(at(&path))?;
        return Ok(path);
    }
    let fetched = match here {
        Some(here) => here.clone(),
        None => dir.join(name),
    };
    if here.is_none() {
        stored
            .assemble_file(&fetched, chunks.values())
            .await
            .map_err(unread)?;
    }
    let (from, to) = (fetched.clone(), path.clone());
    blocking(move || Ok(index_warc(&from, &to, &surt)?)).await?;
    if here.is_none() {
        fs::remove_file(&fetched).map_err(at(&fetched))?;
    }
    Ok(path)
}

fn unread(error: portolan_fleet::FleetError) -> CrawlError {
    CrawlError::Fleet(error.to_string())
}

fn at(path: &Path) -> impl Fn(std::io::Error) -> CrawlError {
    move |source| CrawlError::File {
        path: path.to_owned(),
        source,
    }
}
