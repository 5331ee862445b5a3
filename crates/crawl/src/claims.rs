//! The file in which claims are kept: which partition found a site that the part vector does not list.
//! Batches, each whole or not there; a claim is in it before any log relies on it.

use std::fs::File;
use std::io::{Read, Write};
use std::path::{Path, PathBuf};

use portolan_graph::Claim;
use portolan_model::PartitionId;
use xxhash_rust::xxh3::xxh3_64;

use crate::directory::no_links;
use crate::error::CrawlError;

/// Number of claims and a checksum of the number; claims of ten bytes; a checksum of all before it. A damaged number
/// would otherwise make sound batches look like the cut end of one.
const COUNT_BYTES: usize = 4;
const HEAD_BYTES: usize = COUNT_BYTES + 4;
const CLAIM_BYTES: usize = 10;
const CHECKSUM_BYTES: usize = 8;

#[derive(Debug)]
pub(crate) struct ClaimFile {
    path: PathBuf,
    file: File,
}

impl ClaimFile {
    /// Opens it, or makes it, and returns what it holds. What a crash cut off is dropped: nothing
    /// relied on it yet.
    pub(crate) fn open(path: PathBuf) -> Result<(Self, Vec<Claim>), CrawlError> {
        let at = |source| CrawlError::File {
            path: path.clone(),
            source,
        };
        let mut file = no_links()
            .read(true)
            .append(true)
            .create(true)
            .open(&path)
            .map_err(at)?;
        let mut bytes = Vec::new();
        file.read_to_end(&mut bytes).map_err(at)?;
        let (claims, sound_bytes) = read_batches(&bytes, &path)?;
        if sound_bytes < bytes.len() {
            file.set_len(sound_bytes as u64).map_err(at)?;
        }
        file.sync_all().map_err(at)?;
        if let Some(dir) = path.parent() {
            File::open(dir).and_then(|dir| dir.sync_all()).map_err(at)?;
        }
        Ok((Self { path, file }, claims))
    }

    /// Durable when this returns.
    pub(crate) fn append(&mut self, claims: &[Claim]) -> Result<(), CrawlError> {
        let mut batch = head(claims.len() as u32).to_vec();
        for (key, part) in claims {
            batch.extend_from_slice(&key.to_le_bytes());
            batch.extend_from_slice(&part.0.to_le_bytes());
        }
        batch.extend_from_slice(&xxh3_64(&batch).to_le_bytes());
        self.file
            .write_all(&batch)
            .and_then(|()| self.file.sync_data())
            .map_err(|source| CrawlError::File {
                path: self.path.clone(),
                source,
            })
    }
}

fn head(count: u32) -> [u8; HEAD_BYTES] {
    let count = count.to_le_bytes();
    let mut head = [0; HEAD_BYTES];
    head[..COUNT_BYTES].copy_from_slice(&count);
    head[COUNT_BYTES..].copy_from_slice(&(xxh3_64(&count) as u32).to_le_bytes());
    head
}

/// Is what the file holds whole? Changes nothing.
pub(crate) fn check(path: &Path) -> Result<(), CrawlError> {
    let bytes = std::fs::read(path).map_err(|source| CrawlError::File {
        path: path.to_owned(),
        source,
    })?;
    read_batches(&bytes, path).map(|_| ())
}

/// All claims of whole batches, and where those end.
fn read_batches(bytes: &[u8], path: &Path) -> Result<(Vec<Claim>, usize), CrawlError> {
    let mut claims = Vec::new();
    let mut at = 0;
    while let Some(length) = whole_batch(&bytes[at..]).map_err(|()| {
        CrawlError::Input(format!(
            "{} is damaged at byte {at}; restore the file from a copy",
            path.display()
        ))
    })? {
        let body = &bytes[at + HEAD_BYTES..at + length - CHECKSUM_BYTES];
        for claim in body.chunks_exact(CLAIM_BYTES) {
            let (key, part) = claim.split_at(8);
            let key = key.iter().rev().fold(0, |key, &b| key << 8 | u64::from(b));
            claims.push((key, PartitionId(u16::from_le_bytes([part[0], part[1]]))));
        }
        at += length;
    }
    Ok((claims, at))
}

/// The length of the batch at the start of `rest`; `None` if there is none, or one that a crash cut off: it is too
/// short, or its head or its end was never written and reads as zeros. An error is damage.
fn whole_batch(rest: &[u8]) -> Result<Option<usize>, ()> {
    let is_unwritten = |bytes: &[u8]| bytes.iter().all(|&byte| byte == 0);
    let Some((found, _)) = rest.split_first_chunk::<HEAD_BYTES>() else {
        return Ok(None);
    };
    let count = u32::from_le_bytes([found[0], found[1], found[2], found[3]]);
    if *found != head(count) {
        return if is_unwritten(found) {
            Ok(None)
        } else {
            Err(())
        };
    }
    let body = HEAD_BYTES + count as usize * CLAIM_BYTES;
    match rest.get(body..body + CHECKSUM_BYTES) {
        None => Ok(None),
        Some(sum) if sum == xxh3_64(&rest[..body]).to_le_bytes() => Ok(Some(body + CHECKSUM_BYTES)),
        Some(sum) if is_unwritten(sum) => Ok(None),
        Some(_) => Err(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn claim(number: u64) -> Claim {
        (number << 40 | number, PartitionId(number as u16 % 5))
    }

    #[test]
    fn claims_survive_and_what_was_cut_off_is_dropped() {
        let dir = std::env::temp_dir().join(format!("claims-{}", std::process::id()));
        std::fs::create_dir_all(&dir).expect("a directory");
        let path = dir.join("claims");
        let (first, second) = ([claim(1), claim(2)], [claim(3), claim(4), claim(5)]);
        let (mut file, none) = ClaimFile::open(path.clone()).expect("new");
        assert!(none.is_empty());
        file.append(&first).expect("written");
        file.append(&second).expect("written");
        drop(file);
        let whole = std::fs::read(&path).expect("bytes");
        let both = [&first[..], &second[..]].concat();
        assert_eq!(ClaimFile::open(path.clone()).expect("again").1, both);
        let first_bytes = HEAD_BYTES + 2 * CLAIM_BYTES + CHECKSUM_BYTES;
        for length in first_bytes..whole.len() {
            std::fs::write(&path, &whole[..length]).expect("cut");
            let (mut file, found) = ClaimFile::open(path.clone()).expect("cut");
            assert_eq!(found, first, "{length}");
            // And it can be gone on with.
            file.append(&[claim(9)]).expect("written");
            let (_, found) = ClaimFile::open(path.clone()).expect("again");
            assert_eq!(found.last(), Some(&claim(9)));
        }
        // What was never written reads as zeros.
        for zeros in [first_bytes, whole.len() - CHECKSUM_BYTES] {
            let mut unwritten = whole.clone();
            unwritten[zeros..].fill(0);
            std::fs::write(&path, &unwritten).expect("zeros");
            assert_eq!(ClaimFile::open(path.clone()).expect("zeros").1, first);
        }
        // A flipped bit is no crash, wherever it is: in a number, in a claim, in a checksum.
        for at in 0..whole.len() {
            let mut damaged = whole.clone();
            damaged[at] ^= 1 << (at % 8);
            std::fs::write(&path, &damaged).expect("damage");
            let error = ClaimFile::open(path.clone()).expect_err("damage");
            let batch = if at < first_bytes { 0 } else { first_bytes };
            let said = format!("is damaged at byte {batch};");
            assert!(error.to_string().contains(&said), "{at}: {error}");
            assert_eq!(std::fs::read(&path).expect("bytes"), damaged, "it is left");
        }
        std::fs::remove_dir_all(&dir).expect("removed");
    }
}
