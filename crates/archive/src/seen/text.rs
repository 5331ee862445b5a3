//! Entries of the table in the order of the archive: fixed fields, then the URL, under a checksum.

use super::SeenRecord;
use crate::append_file::AppendFile;
use crate::error::ArchiveError;
use crate::settings::DurableEnd;

/// Longer URLs are not remembered; their copies are stored in full.
pub(super) const MAX_URL_BYTES: usize = 64 << 10;
pub(super) const FIXED_BYTES: usize = 56;
/// Read at once in the hope that the URL is short.
const GUESSED_BYTES: usize = 256;

pub(super) struct Entry {
    pub fingerprint: u64,
    pub sha1: [u8; 20],
    /// End of the visit's records in the archive.
    pub position: DurableEnd,
    pub record: SeenRecord,
}

impl Entry {
    /// checksum (4), URL length (4), fingerprint (8), SHA-1 (20), time (8), file (4), end (8), URL.
    pub fn encode(&self) -> Vec<u8> {
        let url = self.record.url.as_bytes();
        let mut out = Vec::with_capacity(FIXED_BYTES + url.len());
        out.extend_from_slice(&[0; 4]);
        out.extend_from_slice(&(url.len() as u32).to_le_bytes());
        out.extend_from_slice(&self.fingerprint.to_le_bytes());
        out.extend_from_slice(&self.sha1);
        out.extend_from_slice(&self.record.at_ms.to_le_bytes());
        out.extend_from_slice(&self.position.file.to_le_bytes());
        out.extend_from_slice(&self.position.end.to_le_bytes());
        out.extend_from_slice(url);
        let checksum = crc32fast::hash(&out[4..]);
        out[..4].copy_from_slice(&checksum.to_le_bytes());
        out
    }

    /// The entry at `offset` and its length; `None` if there is none, or a damaged one.
    pub fn read(text: &AppendFile, offset: u64) -> Result<Option<(Self, u64)>, ArchiveError> {
        let failed = |error| ArchiveError::io("read", text.path())(error);
        let there = text.len().saturating_sub(offset);
        if there < FIXED_BYTES as u64 {
            return Ok(None);
        }
        let mut bytes = vec![0; there.min(GUESSED_BYTES as u64) as usize];
        if !text.read_at(&mut bytes, offset).map_err(failed)? {
            return Ok(None);
        }
        let url_bytes = url_bytes(&bytes);
        let length = FIXED_BYTES + url_bytes;
        if url_bytes > MAX_URL_BYTES || length as u64 > there {
            return Ok(None);
        }
        if length > bytes.len() {
            bytes.resize(length, 0);
            if !text.read_at(&mut bytes, offset).map_err(failed)? {
                return Ok(None);
            }
        }
        bytes.truncate(length);
        Ok(Self::decode(&bytes).map(|entry| (entry, length as u64)))
    }

    /// `bytes` are those of one entry, at least its fixed fields.
    pub(super) fn decode(bytes: &[u8]) -> Option<Self> {
        if crc32fast::hash(&bytes[4..]) != u32::from_le_bytes(array(bytes, 0)) {
            return None;
        }
        Some(Self {
            fingerprint: u64::from_le_bytes(array(bytes, 8)),
            sha1: array(bytes, 16),
            position: DurableEnd {
                file: u32::from_le_bytes(array(bytes, 44)),
                end: u64::from_le_bytes(array(bytes, 48)),
            },
            record: SeenRecord {
                at_ms: u64::from_le_bytes(array(bytes, 36)),
                url: String::from_utf8(bytes[FIXED_BYTES..].to_vec()).ok()?,
            },
        })
    }
}

/// What the fixed fields of an entry say of its URL.
pub(super) fn url_bytes(fixed: &[u8]) -> usize {
    u32::from_le_bytes(array(fixed, 4)) as usize
}

/// `N` bytes from `at`; the caller has seen to it that there are as many.
fn array<const N: usize>(bytes: &[u8], at: usize) -> [u8; N] {
    let mut out = [0; N];
    out.copy_from_slice(&bytes[at..at + N]);
    out
}
