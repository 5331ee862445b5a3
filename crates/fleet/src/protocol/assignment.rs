//! Who owns which partition. One value, written by the coordinator alone, each time by compare-and-swap; each node
//! reads from it what it is to do.

use crate::records::{Epoch, Incarnation, ShipRecord};
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
    /// Is the holder to release it? Stays as a wish once it was released.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub moving: Option<Moving>,
    /// Another group's: none of this fleet's nodes ever gets it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub elsewhere: bool,
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

    /// Of a group: the partitions of which `is_mine` is false are others'.
    pub fn of_group(partitions: u16, is_mine: impl Fn(u16) -> bool) -> Self {
        let mut assignment = Self::new(partitions);
        for (partition, share) in (0..partitions).zip(&mut assignment.shares) {
            share.elsewhere = !is_mine(partition);
        }
        assignment
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
            .filter(|share| share.holder.is_none() && !share.elsewhere)
            .count()
    }
}

impl Share {
    /// Its holder's time is over, as message `seq` of the ship log says.
    fn free(&mut self, seq: u64) {
        self.holder = None;
        self.since = seq;
    }
}

impl Assignment {
    /// Accounts for one more message of the ship log.
    pub(super) fn account(&mut self, seq: u64, node: &str, record: &LogEvent) {
        self.log = seq;
        let is_of = |share: &Share, is: &dyn Fn(Incarnation) -> bool| {
            share
                .holder
                .as_ref()
                .is_some_and(|holder| holder.node == node && is(holder.incarnation))
        };
        match *record {
            LogEvent::Joined { incarnation } => {
                let of_others = |share: &&mut Share| is_of(share, &|other| other != incarnation);
                self.shares
                    .iter_mut()
                    .filter(of_others)
                    .for_each(|share| share.free(seq));
            }
            LogEvent::Sealed { incarnation } => {
                let of_it = |share: &&mut Share| is_of(share, &|other| other == incarnation);
                self.shares
                    .iter_mut()
                    .filter(of_it)
                    .for_each(|share| share.free(seq));
            }
            LogEvent::Released {
                incarnation,
                partition,
                epoch,
            } => {
                let share = self.shares.get_mut(usize::from(partition));
                let its = |share: &&mut Share| {
                    is_of(share, &|other| other == incarnation) && share.epoch == epoch
                };
                share
                    .filter(its)
                    .into_iter()
                    .for_each(|share| share.free(seq));
            }
            LogEvent::Other => {}
        }
    }
}

/// What the coordinator needs to know of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogEvent {
    Joined {
        incarnation: Incarnation,
    },
    Released {
        incarnation: Incarnation,
        partition: u16,
        epoch: Epoch,
    },
    Sealed {
        incarnation: Incarnation,
    },
    Other,
}

impl From<&ShipRecord> for LogEvent {
    fn from(record: &ShipRecord) -> Self {
        match *record {
            ShipRecord::Joined { incarnation, .. } => Self::Joined { incarnation },
            ShipRecord::Sealed { incarnation, .. } => Self::Sealed { incarnation },
            ShipRecord::Released {
                incarnation,
                partition,
                epoch,
                ..
            } => Self::Released {
                incarnation,
                partition,
                epoch,
            },
            ShipRecord::Commit(_) | ShipRecord::Checkpoint(_) => Self::Other,
        }
    }
}
