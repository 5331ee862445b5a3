//! When a crawl has ended: two looks in a row at all partitions see equal sums of what was sent and heard, everything
//! exhausted and everything settled. A look is one whose answers were all read after it was called for.

use super::assignment::{Assignment, Share};
use crate::status::Reported;
use std::collections::BTreeMap;

/// What a look has seen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Seen {
    look: u64,
    sent: u64,
    assignment: u64,
}

/// What follows from a look.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Nothing yet.
    Wait,
    /// All is quiet: look again.
    LookAgain,
    /// It has ended.
    Ended,
}

/// The looks at a crawl.
#[derive(Clone, Debug, Default)]
pub struct Ending {
    quiet: Option<Seen>,
}

impl Ending {
    /// `look` is the one that was called for last; `nodes` what they reported last.
    pub fn look(
        &mut self,
        look: u64,
        assignment: &Assignment,
        nodes: &BTreeMap<String, Reported>,
    ) -> Verdict {
        if self.quiet.is_some_and(|seen| seen.look == look) {
            return Verdict::LookAgain;
        }
        let Some(sums) = sums(look, assignment, nodes) else {
            return Verdict::Wait;
        };
        let before = self.quiet.take();
        let (sent, heard) = match sums {
            Some(sums) => sums,
            None => return Verdict::Wait,
        };
        if sent != heard {
            return Verdict::Wait;
        }
        let seen = Seen {
            look,
            sent,
            assignment: assignment.version,
        };
        match before {
            Some(before)
                if before.look + 1 == look
                    && before.sent == sent
                    && before.assignment == seen.assignment =>
            {
                Verdict::Ended
            }
            _ => {
                self.quiet = Some(seen);
                Verdict::LookAgain
            }
        }
    }
}

/// `None` if answers are missing; `Some(None)` if some partition is not at its end; otherwise what was sent and heard
/// in all.
pub(super) fn sums(
    look: u64,
    assignment: &Assignment,
    nodes: &BTreeMap<String, Reported>,
) -> Option<Option<(u64, u64)>> {
    let (mut sent, mut heard) = (0_u64, 0_u64);
    for (number, share) in (0_u16..).zip(&assignment.shares) {
        if share.elsewhere {
            continue;
        }
        let (Some(holder), None) = (&share.holder, &share.moving) else {
            return Some(None);
        };
        let reported = nodes.get(&holder.node)?;
        if reported.incarnation != holder.incarnation || reported.status.look < look {
            return None;
        }
        let partitions = &reported.status.partitions;
        let of = partitions
            .iter()
            .find(|of| of.partition == number && of.epoch == share.epoch);
        match of {
            Some(of) if of.exhausted && of.settled => {
                sent += of.sent;
                heard += of.heard;
            }
            _ => return Some(None),
        }
    }
    Some(Some((sent, heard)))
}

/// Is nothing left anywhere but hosts that fail, and some of those? They may be asked so often that no look ever sees all
/// partitions at rest.
pub fn only_failing_left(assignment: &Assignment, nodes: &BTreeMap<String, Reported>) -> bool {
    let mut waits = false;
    let at_its_end = |(number, share): (u16, &Share)| {
        if share.elsewhere {
            return true;
        }
        let (Some(holder), None) = (&share.holder, &share.moving) else {
            return false;
        };
        let reported = nodes.get(&holder.node);
        let reported = reported.filter(|reported| reported.incarnation == holder.incarnation);
        let partitions = reported.map_or(&[][..], |reported| &reported.status.partitions);
        let mut partitions = partitions.iter();
        let of = partitions.find(|of| of.partition == number && of.epoch == share.epoch);
        waits |= of.is_some_and(|of| of.waits);
        of.is_some_and(|of| of.exhausted || of.waits)
    };
    (0_u16..).zip(&assignment.shares).all(at_its_end) && waits
}

#[cfg(test)]
mod tests {
    use super::super::assignment::Holder;
    use super::*;
    use crate::status::{NodeStatus, PartitionStatus};

    fn nodes(look: u64, sent: u64, heard: u64) -> BTreeMap<String, Reported> {
        let of = |partition, sent, heard| PartitionStatus {
            partition,
            epoch: 1,
            sent,
            heard,
            exhausted: true,
            settled: true,
            ..PartitionStatus::default()
        };
        let reported = |of| Reported {
            incarnation: 1,
            status: NodeStatus {
                look,
                partitions: vec![of],
                ..NodeStatus::default()
            },
            ..Reported::default()
        };
        let (a, b) = (of(0, sent, 2), of(1, 3, heard - 2));
        BTreeMap::from([("a".to_owned(), reported(a)), ("b".to_owned(), reported(b))])
    }

    fn assignment() -> Assignment {
        let share = |node: &str| Share {
            holder: Some(Holder {
                node: node.to_owned(),
                incarnation: 1,
            }),
            epoch: 1,
            ..Share::default()
        };
        Assignment {
            version: 1,
            shares: vec![share("a"), share("b")],
            ..Assignment::default()
        }
    }

    #[test]
    fn two_looks_with_equal_sums_end_it() {
        let mut ending = Ending::default();
        let assignment = assignment();
        assert_eq!(ending.look(1, &assignment, &nodes(0, 7, 10)), Verdict::Wait);
        assert_eq!(ending.look(1, &assignment, &nodes(1, 7, 9)), Verdict::Wait);
        assert_eq!(
            ending.look(1, &assignment, &nodes(1, 7, 10)),
            Verdict::LookAgain
        );
        // Answers to the look before are no answers.
        assert_eq!(ending.look(2, &assignment, &nodes(1, 7, 10)), Verdict::Wait);
        assert_eq!(
            ending.look(2, &assignment, &nodes(2, 8, 11)),
            Verdict::LookAgain
        );
        assert_eq!(
            ending.look(3, &assignment, &nodes(3, 8, 11)),
            Verdict::Ended
        );
    }

    #[test]
    fn hosts_that_fail_are_left_alone_once_nothing_else_is_left() {
        let assignment = assignment();
        let mut nodes = nodes(1, 7, 10);
        assert!(!only_failing_left(&assignment, &nodes), "none fails");
        let mut set = |name: &str, exhausted, waits| {
            let of = nodes.get_mut(name).map(|node| &mut node.status.partitions);
            let of = of.and_then(|partitions| partitions.first_mut());
            let of = of.expect("its partition");
            (of.exhausted, of.waits) = (exhausted, waits);
            only_failing_left(&assignment, &nodes)
        };
        assert!(set("a", false, true));
        assert!(!set("b", false, false), "the other has something to do");
        assert!(set("b", false, true));
        assert!(set("b", true, false));
        assert!(set("a", true, true), "as long as it is left alone");
        nodes.remove("b");
        assert!(!only_failing_left(&assignment, &nodes), "who knows");
    }

    #[test]
    fn a_partition_that_moves_has_not_ended() {
        let mut ending = Ending::default();
        let mut moved = assignment();
        assert_eq!(ending.look(1, &moved, &nodes(1, 7, 10)), Verdict::LookAgain);
        moved.version = 2;
        assert_eq!(ending.look(2, &moved, &nodes(2, 7, 10)), Verdict::LookAgain);
        moved.shares[0].epoch = 2;
        moved.version = 3;
        assert_eq!(ending.look(3, &moved, &nodes(3, 7, 10)), Verdict::Wait);
    }
}
