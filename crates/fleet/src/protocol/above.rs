//! What several groups of one crawl agree on above them, in one value at the hub: what all of them are to do, and when the
//! crawl has ended. Any group's coordinator takes the next step, by compare-and-swap.
//!
//! The end is found as in one fleet (`ending`): two looks in a row at all groups see each of them at its end, equal sums of
//! what was sent and heard, and no difference between the looks. A look is one whose answers were all made after it was
//! called for. A group that the hub does not hear from does not answer, so no group ends while the hub is away.

use crate::status::Wish;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The value at the hub.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Above {
    pub wish: Wish,
    /// Counts the wishes: a group does what it has not been told before.
    pub ordinal: u64,
    /// The look that is to be answered.
    pub look: u64,
    /// The answers to the look before, if its sums were equal.
    pub before: Option<BTreeMap<String, Answer>>,
}

/// What a group says to a look: all of it is at its end, and settled.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Answer {
    pub look: u64,
    /// Forwards that left its partitions and that these heard since the crawl began, whatever group they went to or came
    /// from.
    pub sent: u64,
    pub heard: u64,
    /// The version of its assignment.
    pub assignment: u64,
}

impl Above {
    /// A person wants something of all groups.
    pub fn wished(&self, wish: Wish) -> Self {
        Self {
            wish,
            ordinal: self.ordinal + 1,
            before: None,
            ..self.clone()
        }
    }

    /// What is to be there next, given the groups' newest answers; `None`: nothing else yet.
    pub fn next(&self, groups: &[String], answers: &BTreeMap<String, Answer>) -> Option<Self> {
        if self.wish != Wish::Run {
            return None;
        }
        let of = |group: &String| Some((group.clone(), *answers.get(group)?));
        let all: Option<BTreeMap<_, _>> = groups.iter().map(of).collect();
        let all = all?;
        if all.values().any(|answer| answer.look != self.look) {
            return None;
        }
        let sum = |of: fn(&Answer) -> u64| all.values().map(of).sum::<u64>();
        if sum(|answer| answer.sent) != sum(|answer| answer.heard) {
            return None;
        }
        if self
            .before
            .as_ref()
            .is_some_and(|before| is_same(before, &all))
        {
            return Some(self.wished(Wish::Complete));
        }
        Some(Self {
            look: self.look + 1,
            before: Some(all),
            ..self.clone()
        })
    }
}

/// Has nothing happened from one look to the next?
fn is_same(before: &BTreeMap<String, Answer>, now: &BTreeMap<String, Answer>) -> bool {
    let pairs = || before.iter().zip(now);
    before.len() == now.len()
        && pairs().all(|((group, before), (other, now))| {
            let later = Answer {
                look: before.look + 1,
                ..*before
            };
            group == other && later == *now
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answers(look: u64, sums: [(u64, u64); 2]) -> BTreeMap<String, Answer> {
        let [a, b] = sums.map(|(sent, heard)| Answer {
            look,
            sent,
            heard,
            assignment: 3,
        });
        BTreeMap::from([("a".to_owned(), a), ("b".to_owned(), b)])
    }

    #[test]
    fn two_looks_without_a_difference_end_it() {
        let groups = ["a".to_owned(), "b".to_owned()];
        let begun = Above::default();
        let one = &answers(0, [(7, 2), (3, 8)]);
        let alone = BTreeMap::from([("a".to_owned(), one["a"])]);
        assert_eq!(begun.next(&groups, &alone), None, "b has not answered");
        assert_eq!(begun.next(&groups, &answers(0, [(7, 2), (3, 7)])), None);
        let second = begun.next(&groups, one).expect("a second look");
        assert_eq!((second.look, second.wish), (1, Wish::Run));
        assert_eq!(
            second.next(&groups, one),
            None,
            "answers to the look before"
        );
        // Links went to and fro between the looks, and the sums are equal all the same.
        let third = second.next(&groups, &answers(1, [(8, 2), (3, 9)]));
        let third = third.expect("a third look");
        assert_eq!((third.look, third.wish), (2, Wish::Run));
        let ended = third.next(&groups, &answers(2, [(8, 2), (3, 9)]));
        assert_eq!(ended.expect("an end").wish, Wish::Complete);
        let stopped = third.wished(Wish::Stop);
        assert_eq!(stopped.next(&groups, &answers(2, [(8, 2), (3, 9)])), None);
        assert_eq!(
            stopped.wished(Wish::Run).before,
            None,
            "it looks twice anew"
        );
    }
}
