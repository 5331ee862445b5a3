//! What the ship log comes to, as a fold of it: who has lived, and for each partition its
//! newest two checkpoints and the journal chunks that have entries which the older of them does not have. What no
//! partition needs may go from the log and from the store: `ground` says up to where.
//!
//! What is judged to be garbage here stays garbage, however much of the log comes later: an incarnation that is over writes
//! no record again, and a checkpoint names only objects of its own and of the one that its owner began with, which was
//! one of the newest two. So whoever throws away by an old reading of the log throws away too little.

use crate::checkpoint::{checkpoint_upload, journal_chunk};
use crate::records::{Checkpoint, Commit, Epoch, Incarnation, ShipRecord, Shipped};
use portolan_model::PartitionId;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet, HashSet, VecDeque};
use std::sync::Arc;

/// A partition can be taken over from so many checkpoints: the newest, and the one before it.
const CHECKPOINTS: usize = 2;

/// The ship log up to a message.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ledger {
    /// The last message that is accounted for.
    to: u64,
    /// In the order in which they joined.
    lives: Vec<Life>,
    /// By node: its last record.
    last: BTreeMap<String, u64>,
    partitions: BTreeMap<u16, Standing>,
    /// The commits that a partition needs, by their places in the log, without what they say of WARC files. A part that was
    /// trimmed has none.
    #[serde(skip)]
    commits: BTreeMap<u64, Arc<Commit>>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Life {
    node: String,
    incarnation: Incarnation,
    /// No record of it will ever come.
    over: bool,
    /// Its last commit, by its place in the log, and the last frame of its journal that it shipped.
    last_commit: u64,
    last_frame: u64,
    /// That it has settled against the fleet's budget.
    pages: u64,
    /// WARC files of this life have it in their numbers.
    number: usize,
    /// It has told of a WARC file.
    has_files: bool,
}

/// What the log says of a partition.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
struct Standing {
    /// Under which its entries were shipped last.
    epoch: Epoch,
    /// Its time under epochs up to this one is over.
    over: Epoch,
    /// How far its inbox was heard.
    cursor: u64,
    /// The newest one last.
    checkpoints: Vec<Checkpoint>,
    /// Commits with entries that its older checkpoint does not have: place in the log, and its last entry there.
    #[serde(skip)]
    since: VecDeque<(u64, u64)>,
}

impl Ledger {
    /// The last message that is accounted for.
    pub fn to(&self) -> u64 {
        self.to
    }

    /// Accounts for one more message.
    pub fn fold(&mut self, shipped: &Shipped) {
        let seq = shipped.seq;
        if seq <= self.to {
            return;
        }
        self.to = seq;
        self.last.insert(shipped.node.clone(), seq);
        match &shipped.record {
            ShipRecord::Joined { incarnation, .. } => self.joined(&shipped.node, *incarnation),
            ShipRecord::Sealed { incarnation, .. } => self.over(*incarnation),
            ShipRecord::Commit(commit) => self.commit(seq, commit),
            ShipRecord::Released {
                partition, epoch, ..
            } => {
                let standing = self.partitions.entry(*partition).or_default();
                standing.over = standing.over.max(*epoch);
            }
            ShipRecord::Checkpoint(checkpoint) => self.checkpoint(checkpoint),
        }
    }

    fn joined(&mut self, node: &str, incarnation: Incarnation) {
        let others = self.lives.iter_mut();
        others
            .filter(|life| life.node == node && life.incarnation != incarnation)
            .for_each(|life| life.over = true);
        if self.life(incarnation).is_none() {
            let number = self.free_number();
            self.lives.push(Life {
                node: node.to_owned(),
                incarnation,
                over: false,
                last_commit: 0,
                last_frame: 0,
                pages: 0,
                number,
                has_files: false,
            });
        }
    }

    /// A life that is over and told of no file has left nothing that bears its number. Numbers are few, and there may be lives
    /// without end: a machine that fails to begin is started again and again.
    fn free_number(&self) -> usize {
        let keeps = |life: &&Life| life.has_files || !life.over;
        let kept: BTreeSet<usize> = self
            .lives
            .iter()
            .filter(keeps)
            .map(|it| it.number)
            .collect();
        (0..)
            .find(|number| !kept.contains(number))
            .unwrap_or(usize::MAX)
    }

    fn over(&mut self, incarnation: Incarnation) {
        let lives = self.lives.iter_mut();
        lives
            .filter(|life| life.incarnation == incarnation)
            .for_each(|life| life.over = true);
    }

    fn life(&self, incarnation: Incarnation) -> Option<&Life> {
        self.lives
            .iter()
            .find(|life| life.incarnation == incarnation)
    }

    fn commit(&mut self, seq: u64, commit: &Commit) {
        let lives = self.lives.iter_mut();
        for life in lives.filter(|life| life.incarnation == commit.incarnation) {
            life.last_commit = seq;
            life.last_frame = commit.last_frame;
            life.pages = life.pages.max(commit.pages);
            life.has_files |= !commit.warc.is_empty();
        }
        let mut is_needed = false;
        for named in &commit.partitions {
            let standing = self.partitions.entry(named.partition).or_default();
            standing.epoch = standing.epoch.max(named.epoch);
            standing.over = standing.over.max(named.epoch.saturating_sub(1));
            standing.cursor = standing.cursor.max(named.inbox_cursor);
            if named.from_seq <= named.to_seq {
                standing.since.push_back((seq, named.to_seq));
                is_needed = true;
            }
        }
        if is_needed {
            let commit = Commit {
                warc: Vec::new(),
                ..commit.clone()
            };
            self.commits.insert(seq, Arc::new(commit));
        }
    }

    fn checkpoint(&mut self, checkpoint: &Checkpoint) {
        let standing = self.partitions.entry(checkpoint.partition).or_default();
        standing.over = standing.over.max(checkpoint.epoch.saturating_sub(1));
        standing.checkpoints.push(checkpoint.clone());
        let many = standing.checkpoints.len().saturating_sub(CHECKPOINTS);
        standing.checkpoints.drain(..many);
        if let [older, newest] = &standing.checkpoints[..] {
            let both = older.seq.min(newest.seq);
            while standing.since.front().is_some_and(|(_, to)| *to <= both) {
                standing.since.pop_front();
            }
            let ground = self.ground();
            self.commits = self.commits.split_off(&ground);
        }
    }

    /// No partition needs a commit before this message.
    pub fn ground(&self) -> u64 {
        let first = |standing: &Standing| standing.since.front().map(|(seq, _)| *seq);
        let needed = self.partitions.values().filter_map(first).min();
        needed.unwrap_or(self.to + 1)
    }

    /// What a life's WARC files are numbered by. No two lives with files have the same.
    pub fn number_of(&self, incarnation: Incarnation) -> Option<usize> {
        self.life(incarnation).map(|life| life.number)
    }

    /// Lives that are over, and the pages that each has settled.
    pub fn settled_pages(&self) -> impl Iterator<Item = (Incarnation, u64)> {
        let over = self.lives.iter().filter(|life| life.over);
        over.map(|life| (life.incarnation, life.pages))
    }

    /// Under which epoch entries of a partition were shipped last, and how far its inbox was heard then.
    pub fn last_of(&self, partition: PartitionId) -> (Epoch, u64) {
        let standing = self.partitions.get(&partition.0);
        standing.map_or((0, 0), |standing| (standing.epoch, standing.cursor))
    }

    /// The checkpoints that a partition can be taken over from, the newest first.
    pub fn checkpoints_of(&self, partition: PartitionId) -> impl Iterator<Item = &Checkpoint> {
        let standing = self.partitions.get(&partition.0);
        standing
            .into_iter()
            .flat_map(|standing| standing.checkpoints.iter().rev())
    }

    /// The commits that have entries of a partition after `seq`, by their places in the log.
    pub fn commits_after(&self, partition: PartitionId, seq: u64) -> Vec<(u64, Arc<Commit>)> {
        let standing = self.partitions.get(&partition.0);
        let since = standing.into_iter().flat_map(|standing| &standing.since);
        since
            .filter(|(_, to)| *to > seq)
            .filter_map(|(place, _)| Some((*place, self.commits.get(place)?.clone())))
            .collect()
    }

    /// The newest checkpoints of all partitions: what they name is needed.
    pub fn checkpoints(&self) -> impl Iterator<Item = &Checkpoint> {
        self.partitions
            .values()
            .flat_map(|standing| &standing.checkpoints)
    }

    /// Up to which message a node's own records may go once everything up to message `to` is accounted for elsewhere. The node
    /// expects its last record to be there, and reads its last commit when it starts again.
    pub fn trimmed_by(&self, to: u64) -> Vec<(&str, u64)> {
        let trimmed = |(node, last): (&String, &u64)| {
            let mut lives = self.lives.iter();
            let speaks = lives.rfind(|life| life.node == *node && !life.over);
            let kept = match speaks.map_or(0, |life| life.last_commit) {
                0 => *last,
                commit => commit.min(*last),
            };
            (to + 1).min(kept)
        };
        let last = self.last.iter();
        last.map(|last| (last.0.as_str(), trimmed(last))).collect()
    }

    /// Is this an object of the journal that nobody will ever need? `false` for what is none.
    pub fn is_spent_chunk(&self, key: &str) -> bool {
        let Some((incarnation, first_frame)) = journal_chunk(key) else {
            return false;
        };
        let Some(life) = self.life(incarnation) else {
            return false;
        };
        let is_told_of = life.over || first_frame <= life.last_frame;
        is_told_of && !self.commits.values().any(|commit| commit.journal == key)
    }

    /// Is this an object of a checkpoint that nobody will ever need? `named`: what the newest checkpoints name. `false`
    /// for what is none.
    pub fn is_spent_piece(&self, key: &str, named: &HashSet<String>) -> bool {
        let Some(upload) = checkpoint_upload(key) else {
            return false;
        };
        if named.contains(key) {
            return false;
        }
        let Some(life) = self.life(upload.incarnation) else {
            return false;
        };
        let Some(standing) = self.partitions.get(&upload.partition) else {
            return life.over;
        };
        // Uploads of a partition come one after the other. One of a number that was told of may be on its way again.
        let is_followed = standing.checkpoints.iter().any(|told| {
            told.incarnation == upload.incarnation
                && (told.epoch, told.seq) > (upload.epoch, upload.seq)
        });
        life.over || is_followed || upload.epoch <= standing.over
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::checkpoint::Upload;
    use crate::records::PartitionCommit;

    const INCARNATION: Incarnation = 7;

    fn upload(epoch: Epoch, seq: u64, drawn: u64) -> Upload {
        Upload {
            partition: 0,
            incarnation: INCARNATION,
            epoch,
            seq,
            drawn,
        }
    }

    fn told(upload: &Upload) -> ShipRecord {
        ShipRecord::Checkpoint(Checkpoint {
            incarnation: upload.incarnation,
            partition: upload.partition,
            epoch: upload.epoch,
            seq: upload.seq,
            manifest: upload.manifest_key(),
            bytes: 1,
        })
    }

    fn commit(incarnation: Incarnation, epoch: Epoch, to_seq: u64) -> Commit {
        Commit {
            incarnation,
            first_frame: 1,
            last_frame: 1,
            journal: "j".to_owned(),
            warc: Vec::new(),
            archive_end: None,
            pages: 0,
            partitions: vec![PartitionCommit {
                partition: 0,
                epoch,
                from_seq: 1,
                to_seq,
                inbox_cursor: 0,
            }],
        }
    }

    fn joins(ledger: &mut Ledger, incarnation: Incarnation) -> Option<usize> {
        let record = ShipRecord::Joined {
            incarnation,
            session: 1,
        };
        fold(ledger, record);
        ledger.number_of(incarnation)
    }

    fn fold(ledger: &mut Ledger, record: ShipRecord) {
        let (seq, node) = (ledger.to() + 1, "a".to_owned());
        ledger.fold(&Shipped { seq, node, record });
    }

    #[test]
    fn a_life_that_left_no_file_gives_its_number_to_the_next() {
        let mut ledger = Ledger::default();
        assert_eq!(joins(&mut ledger, 1), Some(0));
        assert_eq!(joins(&mut ledger, 2), Some(0));
        let chunk = crate::records::WarcChunk {
            file: "f".to_owned(),
            offset: 0,
            bytes: 1,
            key: "k".to_owned(),
        };
        let commit = Commit {
            warc: vec![chunk],
            ..commit(2, 1, 9)
        };
        fold(&mut ledger, ShipRecord::Commit(commit));
        assert_eq!(joins(&mut ledger, 3), Some(1));
        assert_eq!(joins(&mut ledger, 4), Some(1));
        assert_eq!(ledger.number_of(2), Some(0));
    }

    /// A node that begins again may put a checkpoint there once more under a number that it told of before.
    #[test]
    fn a_checkpoint_that_is_put_there_again_is_nobodys_garbage() {
        let mut ledger = Ledger::default();
        joins(&mut ledger, INCARNATION);
        fold(&mut ledger, ShipRecord::Commit(commit(INCARNATION, 1, 9)));
        let first = upload(2, 9, 1);
        fold(&mut ledger, told(&first));
        let again = upload(2, 9, 2).piece_key("urls", 0);
        assert_ne!(again, first.piece_key("urls", 0));
        assert!(!ledger.is_spent_piece(&again, &HashSet::new()));
        // What came before it is.
        assert!(ledger.is_spent_piece(&upload(2, 8, 3).piece_key("urls", 0), &HashSet::new()));
    }
}
