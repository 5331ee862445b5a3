//! The records of the ship log: what each node has put where the loss of its disk cannot take it back. They are JSON, one
//! message each, on the subject of their node.

use crate::error::FleetError;
use portolan_model::PartitionId;
use serde::{Deserialize, Serialize};

/// Which life of a node: drawn anew whenever a node begins with an empty directory, or after it was fenced.
pub type Incarnation = u64;

/// Counts the owners of a partition: each owner has a higher one than the owner before.
pub type Epoch = u32;

/// One message of the ship log.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ShipRecord {
    /// The process `session` speaks for this node from now on; written by `Fleet::join`. Seals every other incarnation
    /// of the node, and every other process of this one.
    Joined {
        incarnation: Incarnation,
        session: u64,
    },
    Commit(Commit),
    Checkpoint(Checkpoint),
    /// The node has ended its turns for a partition and settles nothing for it any more. `seq` is the partition's last
    /// entry.
    Released {
        incarnation: Incarnation,
        partition: u16,
        epoch: Epoch,
        seq: u64,
    },
    /// Written by the coordinator for a node that was lost: nothing of `incarnation` comes after this.
    Sealed {
        incarnation: Incarnation,
        by: String,
    },
}

/// What a node has shipped since its last commit record.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Commit {
    pub incarnation: Incarnation,
    /// The first and the last frame of the node's journal in this chunk; frames go on from record to record without a
    /// hole.
    pub first_frame: u64,
    pub last_frame: u64,
    /// Key of the journal chunk in the store.
    pub journal: String,
    pub warc: Vec<WarcChunk>,
    /// Where the node's archive ends: the WARC file that is written, and its length.
    pub archive_end: Option<(String, u64)>,
    /// Pages that this incarnation has settled against the fleet's page budget, in all.
    pub pages: u64,
    pub partitions: Vec<PartitionCommit>,
}

/// A piece of a WARC file in the store. The pieces of a file joined in the order of their offsets are the file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct WarcChunk {
    pub file: String,
    pub offset: u64,
    pub bytes: u64,
    pub key: String,
}

/// The key of a piece of a WARC file. The pieces of a file sort by their offsets.
pub fn warc_key(file: &str, offset: u64) -> String {
    format!("warc/{file}/{offset:012}")
}

/// What a commit record says of one partition.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PartitionCommit {
    pub partition: u16,
    pub epoch: Epoch,
    /// Entries of the partition in this chunk: `from_seq` to `to_seq`, both included.
    pub from_seq: u64,
    pub to_seq: u64,
    /// The last message of the partition's link stream that was folded.
    pub inbox_cursor: u64,
}

/// A checkpoint of a partition is in the store whole.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Checkpoint {
    pub incarnation: Incarnation,
    pub partition: u16,
    pub epoch: Epoch,
    /// The last entry that is folded in it: everything up to it was shipped before.
    pub seq: u64,
    /// The key of the object that names its pieces.
    pub manifest: String,
    /// Of all its pieces.
    pub bytes: u64,
}

/// A record longer than this is packed.
const PACK_BYTES: usize = 512;

/// What zstd begins with; JSON never does.
const PACKED: [u8; 4] = [0x28, 0xb5, 0x2f, 0xfd];

/// A record that is larger than this when unpacked is none.
const MOST_UNPACKED: usize = 8 << 20;

impl ShipRecord {
    /// As a message: JSON, packed by zstd where it is long.
    pub(crate) fn to_message(&self) -> Vec<u8> {
        let json = serde_json::to_vec(self).unwrap_or_default();
        match zstd::bulk::compress(&json, 3) {
            Ok(packed) if json.len() > PACK_BYTES => packed,
            _ => json,
        }
    }

    /// The reverse of `to_message`.
    pub(crate) fn from_message(bytes: &[u8]) -> Result<Self, FleetError> {
        let damaged = |why: &dyn std::fmt::Display| {
            FleetError::Damaged(format!("a record of the ship log: {why}"))
        };
        if bytes.starts_with(&PACKED) {
            let json =
                zstd::bulk::decompress(bytes, MOST_UNPACKED).map_err(|error| damaged(&error))?;
            return serde_json::from_slice(&json).map_err(|error| damaged(&error));
        }
        serde_json::from_slice(bytes).map_err(|error| damaged(&error))
    }

    /// The incarnation that it is of.
    pub fn incarnation(&self) -> Incarnation {
        match self {
            Self::Joined { incarnation, .. }
            | Self::Released { incarnation, .. }
            | Self::Sealed { incarnation, .. } => *incarnation,
            Self::Commit(commit) => commit.incarnation,
            Self::Checkpoint(checkpoint) => checkpoint.incarnation,
        }
    }
}

impl PartitionCommit {
    pub fn id(&self) -> PartitionId {
        PartitionId(self.partition)
    }
}

/// A record and where it stands: the log has one order for all nodes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shipped {
    /// Its number in the ship log.
    pub seq: u64,
    pub node: String,
    pub record: ShipRecord,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_records_are_packed_and_come_back() {
        let of = |partition: u16| PartitionCommit {
            partition,
            epoch: 3,
            from_seq: 1_000_000 + u64::from(partition) * 977,
            to_seq: 1_000_900 + u64::from(partition) * 977,
            inbox_cursor: 5_000_000 + u64::from(partition) * 131,
        };
        let commit = ShipRecord::Commit(Commit {
            incarnation: 0x1234_5678_9abc_def0,
            first_frame: 1,
            last_frame: 900,
            journal: "journal/node1/1234567890abcdef/00000000000000000001".to_owned(),
            warc: Vec::new(),
            archive_end: None,
            pages: 17,
            partitions: (0..16).map(of).collect(),
        });
        let (message, json) = (
            commit.to_message(),
            serde_json::to_vec(&commit).expect("JSON"),
        );
        assert!(
            message.len() * 3 < json.len(),
            "{} of {}",
            message.len(),
            json.len()
        );
        assert_eq!(
            ShipRecord::from_message(&message).expect("a record"),
            commit
        );
        let short = ShipRecord::Sealed {
            incarnation: 7,
            by: "a".to_owned(),
        };
        assert!(short.to_message().starts_with(b"{"));
        assert_eq!(
            ShipRecord::from_message(&short.to_message()).expect("a record"),
            short
        );
        for cut in 0..message.len() {
            assert!(ShipRecord::from_message(&message[..cut]).is_err(), "{cut}");
        }
    }
}
