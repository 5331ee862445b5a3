//! What the ship log says of each partition: which journal chunks have entries of it.

use std::sync::Arc;

use portolan_fleet::{Commit, Epoch, Fleet, ShipLog, ShipRecord, Shipped};
use portolan_model::PartitionId;

/// The commit records of the ship log so far, in its order. Read once, and then on.
pub(super) struct LogIndex {
    log: ShipLog,
    /// The last message that was read.
    read: u64,
    commits: Vec<(u64, Arc<Commit>)>,
    /// Incarnations in the order in which they joined.
    lives: Vec<u64>,
}

impl LogIndex {
    pub(super) fn new(fleet: &Fleet) -> Self {
        Self {
            log: fleet.ship_log(1),
            read: 0,
            commits: Vec::new(),
            lives: Vec::new(),
        }
    }

    /// Reads on until message `end` is known.
    pub(super) async fn read_to(&mut self, end: u64) {
        while self.read < end {
            let Shipped { seq, record, .. } = self.log.next().await;
            self.read = seq;
            match record {
                ShipRecord::Commit(commit) => self.commits.push((seq, Arc::new(commit))),
                ShipRecord::Joined { incarnation, .. } if !self.lives.contains(&incarnation) => {
                    self.lives.push(incarnation);
                }
                _ => {}
            }
        }
    }

    /// The how-manieth life of all nodes of the fleet this is, from 0.
    pub(super) fn number_of(&self, incarnation: u64) -> Option<usize> {
        self.lives.iter().position(|known| *known == incarnation)
    }

    /// Under which epoch entries of a partition were shipped last, and how far its inbox was heard then.
    pub(super) fn last_of(&self, partition: PartitionId) -> (Epoch, u64) {
        let mut commits = self
            .commits
            .iter()
            .flat_map(|(_, commit)| &commit.partitions);
        let last = commits.rfind(|named| named.id() == partition);
        last.map_or((0, 0), |named| (named.epoch, named.inbox_cursor))
    }

    /// The commits up to message `end` that have entries of a partition, by their places in the log, and how far its inbox
    /// has been heard.
    pub(super) fn of(&self, partition: PartitionId, end: u64) -> (Vec<(u64, Arc<Commit>)>, u64) {
        let (mut commits, mut cursor) = (Vec::new(), 0);
        for (seq, commit) in self.commits.iter().take_while(|(seq, _)| *seq <= end) {
            let named = commit
                .partitions
                .iter()
                .find(|named| named.id() == partition);
            if let Some(named) = named {
                cursor = cursor.max(named.inbox_cursor);
                if named.from_seq <= named.to_seq {
                    commits.push((*seq, Arc::clone(commit)));
                }
            }
        }
        (commits, cursor)
    }
}
