//! Takes messages of links from a group's `up` stream to the streams of another group. For one partition only one message is
//! under way at a time, so that each comes after the ones before it, and a message stays in the stream until it and all
//! before it have arrived. Two ferries at once do no harm: each begins with what is still there, so that whatever one brings
//! comes after what stood before it, or was brought before; who hears it knows.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// What is on its way to one group. Messages are named by their numbers in the stream.
#[derive(Clone, Debug, Default)]
pub struct Ferry {
    /// By partition: the first one is under way, the others wait.
    queues: BTreeMap<u16, VecDeque<u64>>,
    /// All that have not arrived.
    outstanding: BTreeSet<u64>,
    last: u64,
}

impl Ferry {
    /// Messages that have come and not arrived.
    pub fn outstanding(&self) -> usize {
        self.outstanding.len()
    }

    /// The next message of the stream. True if it is to be sent now; otherwise `arrived` names it later.
    pub fn came(&mut self, seq: u64, partition: u16) -> bool {
        self.last = self.last.max(seq);
        self.outstanding.insert(seq);
        let queue = self.queues.entry(partition).or_default();
        queue.push_back(seq);
        queue.len() == 1
    }

    /// The message that was under way to a partition has arrived; gives the one that is to be sent now.
    pub fn arrived(&mut self, seq: u64, partition: u16) -> Option<u64> {
        self.outstanding.remove(&seq);
        let queue = self.queues.get_mut(&partition)?;
        if queue.front() == Some(&seq) {
            queue.pop_front();
        }
        let next = queue.front().copied();
        if next.is_none() {
            self.queues.remove(&partition);
        }
        next
    }

    /// Up to and with this message, the stream's messages for the group are not needed any more; 0: none.
    pub fn done(&self) -> u64 {
        let first = self.outstanding.first();
        first.map_or(self.last, |first| first - 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_message_a_partition_is_under_way_and_none_goes_before_it_has_arrived() {
        let mut ferry = Ferry::default();
        assert_eq!(ferry.done(), 0);
        assert!(ferry.came(3, 1) && ferry.came(4, 2));
        assert!(!ferry.came(7, 1) && !ferry.came(8, 1));
        assert_eq!((ferry.done(), ferry.outstanding()), (2, 4));
        assert_eq!(ferry.arrived(4, 2), None);
        assert_eq!(ferry.done(), 2, "3 has not arrived");
        assert_eq!(ferry.arrived(3, 1), Some(7));
        assert_eq!(ferry.done(), 6);
        assert_eq!(ferry.arrived(7, 1), Some(8));
        assert_eq!(ferry.arrived(8, 1), None);
        assert_eq!((ferry.done(), ferry.outstanding()), (8, 0));
        assert!(ferry.came(9, 1));
    }
}
