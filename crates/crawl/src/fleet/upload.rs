//! Puts the files of a checkpoint into the store, piece by piece: those that are not there yet.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use portolan_fleet::{Blobs, PIECE_BYTES, Piece, StoredCheckpoint, StoredFile, Upload};
use portolan_registry::CheckpointFiles;
use tokio::time::Instant;

use super::adoption::blocking;
use crate::error::CrawlError;

/// Where pieces are put.
pub(super) struct Putting<'a> {
    pub(super) blobs: &'a Blobs,
    /// Bytes a second that are not exceeded; 0 for as many as there can be.
    pub(super) rate: &'a (dyn Fn() -> u64 + Send + Sync),
    /// Counts bytes and objects.
    pub(super) put: &'a (AtomicU64, AtomicU64),
}

impl Putting<'_> {
    async fn put(&self, key: &str, bytes: Vec<u8>) {
        let (begun, length, rate) = (Instant::now(), bytes.len() as u64, (self.rate)());
        self.blobs.put(key, bytes.into()).await;
        self.put.0.fetch_add(length, Ordering::Relaxed);
        self.put.1.fetch_add(1, Ordering::Relaxed);
        if rate > 0 {
            let least = Duration::from_secs_f64(length as f64 / rate as f64);
            tokio::time::sleep(least.saturating_sub(begun.elapsed())).await;
        }
    }
}

/// Puts those pieces of a checkpoint into the store that are not of `known`, and then the object that names them all.
pub(super) async fn upload(
    upload: &Upload,
    opened: CheckpointFiles,
    known: &StoredCheckpoint,
    putting: &Putting<'_>,
) -> Result<StoredCheckpoint, CrawlError> {
    let opened = Arc::new(opened);
    let mut stored = StoredCheckpoint {
        seq: opened.seq,
        manifest: opened.manifest.clone(),
        files: Vec::new(),
    };
    for (number, file) in opened.files.iter().enumerate() {
        let mut pieces = known_pieces(known, &file.name, file.bytes).to_vec();
        let mut offset: u64 = pieces.iter().map(|piece| piece.bytes).sum();
        while offset < file.bytes {
            let bytes = PIECE_BYTES.min(file.bytes - offset);
            let key = upload.piece_key(&file.name, offset);
            let reading = Arc::clone(&opened);
            let read = blocking(move || Ok(reading.files[number].read(offset, bytes as usize)?));
            putting.put(&key, read.await?).await;
            pieces.push(Piece { key, bytes });
            offset += bytes;
        }
        stored.files.push(StoredFile {
            name: file.name.clone(),
            pieces,
        });
    }
    putting
        .put(&upload.manifest_key(), stored.to_object())
        .await;
    Ok(stored)
}

/// The pieces of a file in the store that stay. Files that grow get a piece with each checkpoint; small ones at the end are
/// put there again with what is new, so that they stay few.
fn known_pieces<'a>(known: &'a StoredCheckpoint, name: &str, bytes: u64) -> &'a [Piece] {
    let Some(file) = known.files.iter().find(|file| file.name == name) else {
        return &[];
    };
    let there = file.bytes();
    if there == bytes {
        return &file.pieces;
    }
    // Only files that grow change.
    if there > bytes || name.ends_with(".tbl") {
        return &[];
    }
    let (mut kept, mut new) = (file.pieces.len(), bytes - there);
    while let Some(last) = file.pieces[..kept].last()
        && last.bytes <= new
        && last.bytes < PIECE_BYTES
    {
        new += last.bytes;
        kept -= 1;
    }
    &file.pieces[..kept]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_grows_has_few_pieces_and_is_put_a_few_times() {
        let mut known = StoredCheckpoint::default();
        let (mut bytes, mut put) = (0, 0);
        for checkpoint in 0..1_000_u64 {
            bytes += 10_000;
            let kept = known_pieces(&known, "urls", bytes);
            let mut pieces = kept.to_vec();
            let mut offset: u64 = pieces.iter().map(|piece| piece.bytes).sum();
            while offset < bytes {
                let new = PIECE_BYTES.min(bytes - offset);
                pieces.push(Piece {
                    key: format!("{checkpoint} {offset}"),
                    bytes: new,
                });
                offset += new;
                put += new;
            }
            assert!(pieces.len() < 14, "{}", pieces.len());
            known.files = vec![StoredFile {
                name: "urls".to_owned(),
                pieces,
            }];
            assert_eq!(known.bytes(), bytes);
        }
        assert!(put < 10 * bytes, "{put} of {bytes}");
    }

    #[test]
    fn a_table_is_put_once_and_whole() {
        let piece = Piece {
            key: "k".to_owned(),
            bytes: 7,
        };
        let known = StoredCheckpoint {
            files: vec![StoredFile {
                name: "due-00000001.tbl".to_owned(),
                pieces: vec![piece.clone()],
            }],
            ..StoredCheckpoint::default()
        };
        assert_eq!(known_pieces(&known, "due-00000001.tbl", 7), [piece]);
        assert!(known_pieces(&known, "due-00000001.tbl", 8).is_empty());
        assert!(known_pieces(&known, "due-00000002.tbl", 7).is_empty());
    }
}
