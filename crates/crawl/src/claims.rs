//! The file in which claims are kept: which partition found a site that the part vector does not list.
//! Batches, each whole or not there; a claim is in it before any log relies on it.

use std::fs::{File, OpenOptions};
use std::io::{Read, Write};
use std::path::{Path, PathBuf};

use portolan_model::PartitionId;
use portolan_partition::Claim;
use xxhash_rust::xxh3::xxh3_64;

use crate::error::CrawlError;

/// Number of claims, claims of ten bytes, checksum of both.
const COUNT_BYTES: usize = 4;
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
        let mut file = OpenOptions::new()
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
        let mut batch = (claims.len() as u32).to_le_bytes().to_vec();
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

/// All claims of whole batches, and where those end.
fn read_batches(bytes: &[u8], path: &Path) -> Result<(Vec<Claim>, usize), CrawlError> {
    let mut claims = Vec::new();
    let mut at = 0;
    while at < bytes.len() {
        let rest = &bytes[at..];
        let Some((count, _)) = rest.split_first_chunk::<COUNT_BYTES>() else {
            break;
        };
        let count = u32::from_le_bytes(*count) as usize;
        let body = COUNT_BYTES + count * CLAIM_BYTES;
        let sound = rest
            .get(body..body + CHECKSUM_BYTES)
            .is_some_and(|sum| sum == xxh3_64(&rest[..body]).to_le_bytes());
        if !sound {
            // Only the last batch can be cut off; earlier ones were synced.
            let is_last = body + CHECKSUM_BYTES >= rest.len();
            if is_last || rest.iter().all(|&byte| byte == 0) {
                break;
            }
            return Err(CrawlError::Input(format!(
                "{} is damaged at byte {at}; restore the file from a copy",
                path.display()
            )));
        }
        for claim in rest[COUNT_BYTES..body].chunks_exact(CLAIM_BYTES) {
            let (key, part) = claim.split_at(8);
            let key = key.iter().rev().fold(0, |key, &b| key << 8 | u64::from(b));
            claims.push((key, PartitionId(u16::from_le_bytes([part[0], part[1]]))));
        }
        at += body + CHECKSUM_BYTES;
    }
    Ok((claims, at))
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
        let first_bytes = COUNT_BYTES + 2 * CLAIM_BYTES + CHECKSUM_BYTES;
        for length in first_bytes..whole.len() {
            std::fs::write(&path, &whole[..length]).expect("cut");
            let (mut file, found) = ClaimFile::open(path.clone()).expect("cut");
            assert_eq!(found, first, "{length}");
            // And it can be gone on with.
            file.append(&[claim(9)]).expect("written");
            let (_, found) = ClaimFile::open(path.clone()).expect("again");
            assert_eq!(found.last(), Some(&claim(9)));
        }
        // Damage before the last batch is no crash.
        let mut damaged = whole;
        damaged[COUNT_BYTES] ^= 1;
        std::fs::write(&path, &damaged).expect("damage");
        let error = ClaimFile::open(path).expect_err("damage").to_string();
        assert!(error.contains("is damaged at byte 0"), "{error}");
        std::fs::remove_dir_all(&dir).expect("removed");
    }
}
