//! Who owns which partition. One value, written by the coordinator alone, each time by compare-and-swap; each node
//! reads from it what it is to do.

use crate::records::{Epoch, Incarnation};
use serde::{Deserialize, Serialize};

/// One life of one node.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Holder {
    pub node: String,
    pub incarnation: Incarnation,
}

/// What is decided about one partition.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Share {
    /// `None`: nobody's, and not moving.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub holder: Option<Holder>,
    /// How many owners it has had.
    pub epoch: Epoch,
    /// The record of the ship log that ended the time of the owner before: a new owner reads the log up to it. 0 for
    /// the first owner.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub since: u64,
    /// Is the holder to release it?
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub moving: Option<Moving>,
    /// When it was last assigned, in the coordinator's seconds since 1970. Only keeps partitions from moving often.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub at_s: u64,
}

/// Where a partition goes once its holder has released it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Moving {
    /// `None`: to nobody, since no other node is there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub to: Option<Holder>,
}

/// The map of all partitions.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Assignment {
    /// Counts its changes.
    pub version: u64,
    /// How much of the ship log it accounts for.
    pub log: u64,
    /// The live nodes, sorted: addresses are shared out by it.
    pub members: Vec<Holder>,
    /// By partition.
    pub shares: Vec<Share>,
}

fn is_zero(value: &u64) -> bool {
    *value == 0
}

impl Assignment {
    pub fn new(partitions: u16) -> Self {
        Self {
            shares: vec![Share::default(); usize::from(partitions)],
            ..Self::default()
        }
    }

    /// The partitions that a node's life holds, with their epochs.
    pub fn held_by<'a>(&'a self, holder: &'a Holder) -> impl Iterator<Item = (u16, &'a Share)> {
        let shares = (0..).zip(&self.shares);
        shares.filter(move |(_, share)| share.holder.as_ref() == Some(holder))
    }

    /// Partitions that nobody holds.
    pub fn free(&self) -> usize {
        self.shares
            .iter()
            .filter(|share| share.holder.is_none())
            .count()
    }
}
