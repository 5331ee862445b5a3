//! Links of a page that are more than a message are an object of the store, which a message names. This says when nobody
//! needs such an object any more.
//!
//! A name is used once, and a message that names it counts only where the servers had it within `named_within_ms` of when its
//! sender began to put the object; otherwise the sender puts the links again, under another name. So an object that was
//! seen that long ago is named by no message after the last one that its destination has now. Once the destination's holder
//! has shipped that it heard that one, it reads none of them again.

use portolan_model::PartitionId;
use std::collections::{BTreeMap, BTreeSet};

/// In leases.
const NAMED_WITHIN: u64 = 10;
/// Clocks of two machines may differ in pace by this many percent, and whoever counts may be late.
const SLACK_PERCENT: u64 = 110;

/// A message must name an object within this time of when its sender began to put it there, or somebody else may have thrown
/// it away.
pub fn named_within_ms(lease_ms: u64) -> u64 {
    NAMED_WITHIN * lease_ms
}

/// The objects of links that whoever throws away has seen.
#[derive(Debug)]
pub struct LinkObjects {
    rest_ms: u64,
    seen: BTreeMap<String, Seen>,
}

#[derive(Debug)]
struct Seen {
    partition: PartitionId,
    at_ms: u64,
    /// No message after this one names it.
    last: Option<u64>,
}

impl LinkObjects {
    pub fn new(lease_ms: u64) -> Self {
        Self {
            rest_ms: named_within_ms(lease_ms) * SLACK_PERCENT / 100,
            seen: BTreeMap::new(),
        }
    }

    /// Those that are there now, with their destinations.
    pub fn list(&mut self, listed: impl IntoIterator<Item = (String, PartitionId)>, now_ms: u64) {
        let mut before = std::mem::take(&mut self.seen);
        let seen = |(key, partition): (String, PartitionId)| {
            let seen = before.remove(&key).unwrap_or(Seen {
                partition,
                at_ms: now_ms,
                last: None,
            });
            (key, seen)
        };
        self.seen = listed.into_iter().map(seen).collect();
    }

    /// Destinations whose last messages are to be told.
    pub fn wanted(&self, now_ms: u64) -> BTreeSet<PartitionId> {
        let seen = self.seen.values();
        seen.filter(|seen| self.is_wanted(seen, now_ms))
            .map(|seen| seen.partition)
            .collect()
    }

    /// The last message of a destination as it was some time after `now_ms`; 0 if there is none.
    pub fn note_last(&mut self, partition: PartitionId, last: u64, now_ms: u64) {
        let rest_ms = self.rest_ms;
        let of_it = |seen: &&mut Seen| {
            seen.partition == partition && seen.last.is_none() && seen.has_rested(rest_ms, now_ms)
        };
        for seen in self.seen.values_mut().filter(of_it) {
            seen.last = Some(last);
        }
    }

    /// Those that nobody needs. `heard`: up to which message the holders of a destination have shipped that they heard.
    pub fn spent(&self, heard: impl Fn(PartitionId) -> u64) -> Vec<String> {
        let is_spent = |seen: &Seen| seen.last.is_some_and(|last| last <= heard(seen.partition));
        let seen = self.seen.iter();
        seen.filter(|(_, seen)| is_spent(seen))
            .map(|(key, _)| key.clone())
            .collect()
    }

    fn is_wanted(&self, seen: &Seen, now_ms: u64) -> bool {
        seen.last.is_none() && seen.has_rested(self.rest_ms, now_ms)
    }
}

impl Seen {
    fn has_rested(&self, rest_ms: u64, now_ms: u64) -> bool {
        now_ms > self.at_ms + rest_ms
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LEASE_MS: u64 = 1_000;

    #[test]
    fn an_object_rests_and_is_heard_of_before_it_goes() {
        let to = PartitionId(3);
        let mut objects = LinkObjects::new(LEASE_MS);
        let listed = || [("a".to_owned(), to)];
        objects.list(listed(), 5);
        let rested_ms = 6 + named_within_ms(LEASE_MS) * SLACK_PERCENT / 100;
        assert!(objects.wanted(rested_ms - 1).is_empty());
        // Told too early, it says nothing.
        objects.note_last(to, 7, rested_ms - 1);
        assert!(objects.spent(|_| u64::MAX).is_empty());
        objects.list(listed(), rested_ms);
        assert_eq!(objects.wanted(rested_ms), BTreeSet::from([to]));
        objects.note_last(to, 7, rested_ms);
        assert!(objects.wanted(rested_ms).is_empty());
        assert!(objects.spent(|_| 6).is_empty());
        assert_eq!(objects.spent(|_| 7), ["a"]);
        // Gone, it is forgotten.
        objects.list([], rested_ms);
        assert!(objects.spent(|_| 7).is_empty());
    }
}
