//! Checkpoints of partitions as objects of the store: pieces of their files, and one object that names them. Files that
//! two checkpoints share are the same pieces.

use crate::definition::random;
use crate::error::FleetError;
use crate::records::{Epoch, Incarnation};
use portolan_model::PartitionId;
use serde::{Deserialize, Serialize};

/// No piece is larger.
pub const PIECE_BYTES: u64 = 8 << 20;

/// Where objects of checkpoints are.
pub(crate) const CHECKPOINTS: &str = "checkpoint/";
/// Where chunks of journals are.
pub(crate) const JOURNALS: &str = "journal/";

/// An object that is larger than this when unpacked names no checkpoint.
const MOST_UNPACKED: usize = 256 << 20;

/// A checkpoint in the store.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct StoredCheckpoint {
    /// The last entry that is folded in it.
    pub seq: u64,
    /// What the registry says of the files.
    pub manifest: Vec<u8>,
    pub files: Vec<StoredFile>,
}

/// A file of a checkpoint: its pieces joined.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct StoredFile {
    pub name: String,
    pub pieces: Vec<Piece>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Piece {
    pub key: String,
    pub bytes: u64,
}

impl StoredFile {
    pub fn bytes(&self) -> u64 {
        self.pieces.iter().map(|piece| piece.bytes).sum()
    }
}

impl StoredCheckpoint {
    pub fn bytes(&self) -> u64 {
        self.files.iter().map(StoredFile::bytes).sum()
    }

    /// As an object: JSON, packed by zstd.
    pub fn to_object(&self) -> Vec<u8> {
        let json = serde_json::to_vec(self).unwrap_or_default();
        zstd::bulk::compress(&json, 3).unwrap_or(json)
    }

    /// The reverse of `to_object`.
    pub fn from_object(bytes: &[u8]) -> Result<Self, FleetError> {
        let damaged =
            |why: &dyn std::fmt::Display| FleetError::Damaged(format!("a checkpoint: {why}"));
        let json = zstd::bulk::decompress(bytes, MOST_UNPACKED).map_err(|error| damaged(&error))?;
        let stored: Self = serde_json::from_slice(&json).map_err(|error| damaged(&error))?;
        // Names come from other machines.
        let is_file = |file: &StoredFile| {
            !file.name.is_empty() && !file.name.contains(['/', '\\', '\0']) && file.name != ".."
        };
        match stored.files.iter().all(is_file) {
            true => Ok(stored),
            false => Err(damaged(&"a name in it is none of a file")),
        }
    }
}

/// One upload of a checkpoint: keys of its objects begin with it, and are of no other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Upload {
    pub partition: u16,
    pub incarnation: Incarnation,
    pub epoch: Epoch,
    pub seq: u64,
    /// Drawn by lot: a checkpoint that is put there again, under the same epoch and number, has objects of its own.
    pub drawn: u64,
}

impl Upload {
    /// # Errors
    ///
    /// If the machine has no random bytes.
    pub fn new(
        partition: PartitionId,
        incarnation: Incarnation,
        epoch: Epoch,
        seq: u64,
    ) -> Result<Self, FleetError> {
        Ok(Self {
            partition: partition.0,
            incarnation,
            epoch,
            seq,
            drawn: u64::from_le_bytes(random()?),
        })
    }

    /// The object that names all others.
    pub fn manifest_key(&self) -> String {
        format!("{}manifest", self.prefix())
    }

    /// The piece of a file that begins at `offset`.
    pub fn piece_key(&self, file: &str, offset: u64) -> String {
        format!("{}{file}.{offset:012}", self.prefix())
    }

    fn prefix(&self) -> String {
        let Self {
            partition,
            incarnation,
            epoch,
            seq,
            drawn,
        } = self;
        format!(
            "{CHECKPOINTS}p{partition:05}/{incarnation:016x}/{epoch:010}.{seq:020}.{drawn:016x}."
        )
    }
}

/// Which upload an object is of; `None` if it is of none.
pub(crate) fn checkpoint_upload(key: &str) -> Option<Upload> {
    let mut parts = key.strip_prefix(CHECKPOINTS)?.splitn(3, '/');
    let partition = parts.next()?.strip_prefix('p')?.parse().ok()?;
    let incarnation = Incarnation::from_str_radix(parts.next()?, 16).ok()?;
    let mut name = parts.next()?.splitn(4, '.');
    Some(Upload {
        partition,
        incarnation,
        epoch: name.next()?.parse().ok()?,
        seq: name.next()?.parse().ok()?,
        drawn: u64::from_str_radix(name.next()?, 16).ok()?,
    })
}

/// The key of a chunk of a node's journal.
pub fn journal_key(node: &str, incarnation: Incarnation, first_frame: u64) -> String {
    format!("{JOURNALS}{node}/{incarnation:016x}/{first_frame:020}")
}

/// Whose chunk an object is, and its first frame; `None` if it is none.
pub(crate) fn journal_chunk(key: &str) -> Option<(Incarnation, u64)> {
    let mut parts = key.strip_prefix(JOURNALS)?.splitn(3, '/');
    parts.next()?;
    let incarnation = Incarnation::from_str_radix(parts.next()?, 16).ok()?;
    Some((incarnation, parts.next()?.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_say_what_they_are_of() {
        let upload = Upload::new(PartitionId(12), 0xfeed, 3, 77).expect("random bytes");
        for key in [
            upload.manifest_key(),
            upload.piece_key("known-00000001.tbl", 8),
        ] {
            assert_eq!(checkpoint_upload(&key), Some(upload), "{key}");
        }
        assert_eq!(
            journal_chunk(&journal_key("a", 0xfeed, 9)),
            Some((0xfeed, 9))
        );
        for key in [
            "warc/a/0",
            "checkpoint/p1",
            "checkpoint/x/1/2.3.4.m",
            "checkpoint/p1/1/2.3.manifest",
            "journal/a/xyz/1",
        ] {
            assert!(checkpoint_upload(key).is_none() && journal_chunk(key).is_none());
        }
    }

    #[test]
    fn a_checkpoint_comes_back_as_it_went() {
        let mut stored = StoredCheckpoint {
            seq: 9,
            manifest: vec![1, 2, 255],
            files: vec![StoredFile {
                name: "urls".to_owned(),
                pieces: vec![Piece {
                    key: "k".to_owned(),
                    bytes: 5,
                }],
            }],
        };
        let object = stored.to_object();
        assert_eq!(StoredCheckpoint::from_object(&object).unwrap(), stored);
        for cut in 0..object.len() {
            assert!(StoredCheckpoint::from_object(&object[..cut]).is_err());
        }
        stored.files[0].name = "../urls".to_owned();
        assert!(StoredCheckpoint::from_object(&stored.to_object()).is_err());
    }
}
