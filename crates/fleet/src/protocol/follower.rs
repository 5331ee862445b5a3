//! What a node is to do, read from the assignment: each order is told once.

use super::assignment::{Assignment, Holder};
use crate::instructions::Instruction;
use crate::records::Epoch;
use portolan_model::PartitionId;
use std::collections::{BTreeMap, BTreeSet};

/// What a node was told so far.
#[derive(Clone, Debug)]
pub struct Duties {
    me: Holder,
    /// The process's `Joined` in the ship log. An assignment that does not account for it may not account for what the
    /// process before has released, either.
    joined: u64,
    version: u64,
    held: BTreeMap<u16, Duty>,
    prepared: BTreeSet<u16>,
}

#[derive(Clone, Copy, Debug)]
struct Duty {
    epoch: Epoch,
    releasing: bool,
}

impl Duties {
    pub fn new(me: Holder, joined: u64) -> Self {
        Self {
            me,
            joined,
            version: 0,
            held: BTreeMap::new(),
            prepared: BTreeSet::new(),
        }
    }

    /// The epoch under which the node was told to have a partition.
    pub fn epoch(&self, partition: u16) -> Option<Epoch> {
        self.held.get(&partition).map(|duty| duty.epoch)
    }

    /// The assignment has changed. One that is older than what was seen is nothing new.
    pub fn read(&mut self, assignment: &Assignment) -> Vec<Instruction> {
        if assignment.version <= self.version || assignment.log < self.joined {
            return Vec::new();
        }
        self.version = assignment.version;
        let mut orders = Vec::new();
        for (number, share) in (0..).zip(&assignment.shares) {
            let partition = PartitionId(number);
            let mine = share.holder.as_ref() == Some(&self.me);
            let told = self.held.get(&number).copied();
            if !mine {
                match told {
                    Some(duty) if !duty.releasing => {
                        return vec![Instruction::Fenced(format!(
                            "partition {number} was given to another node"
                        ))];
                    }
                    _ => self.held.remove(&number),
                };
                let moving_to = share.moving.as_ref().and_then(|moving| moving.to.as_ref());
                match moving_to == Some(&self.me) {
                    true if self.prepared.insert(number) => {
                        orders.push(Instruction::Prepare { partition })
                    }
                    true => {}
                    false => drop(self.prepared.remove(&number)),
                }
                continue;
            }
            let epoch = share.epoch;
            if told.is_none_or(|duty| duty.epoch != epoch) {
                self.held.insert(
                    number,
                    Duty {
                        epoch,
                        releasing: false,
                    },
                );
                orders.push(Instruction::Adopt {
                    partition,
                    epoch,
                    log_end: share.since,
                });
            }
            let duty = self.held.get_mut(&number);
            if let Some(duty) = duty.filter(|duty| !duty.releasing)
                && let Some(moving) = &share.moving
            {
                duty.releasing = true;
                let to = moving.to.as_ref().map(|to| to.node.clone());
                orders.push(Instruction::Release {
                    partition,
                    epoch,
                    to,
                });
            }
        }
        orders
    }
}

#[cfg(test)]
mod tests {
    use super::super::assignment::{Moving, Share};
    use super::*;

    fn holder(node: &str) -> Holder {
        Holder {
            node: node.to_owned(),
            incarnation: 1,
        }
    }

    fn assignment(version: u64, shares: Vec<Share>) -> Assignment {
        Assignment {
            version,
            shares,
            ..Assignment::default()
        }
    }

    #[test]
    fn each_order_is_told_once() {
        let (a, b) = (holder("a"), holder("b"));
        let mut duties = Duties::new(a.clone(), 0);
        let held = Share {
            holder: Some(a.clone()),
            epoch: 3,
            since: 17,
            ..Share::default()
        };
        let partition = PartitionId(0);
        let adopt = Instruction::Adopt {
            partition,
            epoch: 3,
            log_end: 17,
        };
        assert_eq!(duties.read(&assignment(1, vec![held.clone()])), [adopt]);
        assert_eq!(duties.read(&assignment(2, vec![held.clone()])), []);
        let moving = Share {
            moving: Some(Moving {
                to: Some(b.clone()),
            }),
            ..held.clone()
        };
        let release = Instruction::Release {
            partition,
            epoch: 3,
            to: Some("b".to_owned()),
        };
        assert_eq!(duties.read(&assignment(3, vec![moving.clone()])), [release]);
        assert_eq!(duties.read(&assignment(4, vec![moving.clone()])), []);
        let mut other = Duties::new(b.clone(), 0);
        assert_eq!(
            other.read(&assignment(4, vec![moving])),
            [Instruction::Prepare { partition }]
        );
        let gone = Share {
            holder: Some(b),
            epoch: 4,
            since: 20,
            ..Share::default()
        };
        assert_eq!(duties.read(&assignment(5, vec![gone.clone()])), []);
        let adopt = Instruction::Adopt {
            partition,
            epoch: 4,
            log_end: 20,
        };
        assert_eq!(other.read(&assignment(5, vec![gone])), [adopt]);
        // What nobody told it to release was taken away.
        let orders = other.read(&assignment(6, vec![held]));
        assert!(
            matches!(&orders[..], [Instruction::Fenced(_)]),
            "{orders:?}"
        );
    }
}
