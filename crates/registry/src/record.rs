//! What is kept of a known URL, beside its text: a small record, found by DocId.

use crate::wire::{Reader, put_varint};
use portolan_model::{HostId, MAX_CLASS, Order, Outcome, Ranker, Reason};

/// Where a URL stands.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash, PartialOrd, Ord)]
#[repr(u8)]
pub enum UrlState {
    Due = 0,
    Visited = 1,
    Failed = 2,
    Excluded = 3,
}

impl UrlState {
    pub const ALL: [UrlState; 4] = [
        UrlState::Due,
        UrlState::Visited,
        UrlState::Failed,
        UrlState::Excluded,
    ];

    pub(crate) fn from_u8(number: u8) -> Option<Self> {
        Self::ALL.get(usize::from(number)).copied()
    }

    pub fn name(self) -> &'static str {
        match self {
            UrlState::Due => "due",
            UrlState::Visited => "visited",
            UrlState::Failed => "failed",
            UrlState::Excluded => "excluded",
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Record {
    /// Number of the observation (or retry) that put it where it is in its queue.
    pub(crate) arrival: u64,
    /// Where its text starts.
    pub(crate) text: u64,
    pub(crate) mark: Mark,
    pub(crate) count: u32,
    pub(crate) state: UrlState,
    /// 0 for none.
    pub(crate) reason: u8,
    pub(crate) priority: i8,
    pub(crate) attempts: u8,
    /// Some bits of its host's identity, to tell most URLs of other hosts without their texts.
    pub(crate) host_tag: u8,
}

/// What a record has room for one of: before a visit the ranker's score matters, afterwards the visit. A URL
/// that is due again after a failure goes on with its score, where its order keeps one.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Mark {
    /// Where its last visit starts, plus one; 0 for none.
    Visit(u64),
    Score(u32),
}

impl Record {
    /// Due, without a visit; `host`, `arrival` and `text` say which and since when.
    pub(crate) fn new(host: u64, arrival: u64, text: u64) -> Self {
        Self {
            arrival,
            text,
            mark: Mark::Visit(0),
            count: 0,
            state: UrlState::Due,
            reason: 0,
            priority: 0,
            attempts: 0,
            host_tag: host_tag(host),
        }
    }

    /// What failed before waits behind what was not tried yet: every attempt costs a class. A page
    /// on which its server breaks can so never hold up the rest of its host.
    #[inline]
    pub(crate) fn class(&self, order: Order) -> u8 {
        let class = order.class_of(self.count, self.score(), self.priority);
        class.saturating_sub(self.attempts)
    }

    /// Its place in its host's queue: better classes first, then in order of arrival.
    #[inline]
    pub(crate) fn place(&self, order: Order) -> u64 {
        place(self.class(order), self.arrival)
    }

    /// Counts a link to it. Has its class changed?
    pub(crate) fn observe(&mut self, order: Order, host: u64, vote: u32) -> bool {
        let before = self.class(order);
        self.count = self.count.saturating_add(1);
        if order.keeps_score() && self.visit() == 0 {
            let score = order.credit(HostId(host), self.score(), vote);
            self.mark = Mark::Score(score);
        }
        before != self.class(order)
    }

    /// It was visited; the visit starts at `at`. `self.state` is what came of it.
    pub(crate) fn set_visit(&mut self, order: Order, at: u64) {
        if self.state != UrlState::Due || !order.keeps_score() {
            self.mark = Mark::Visit(at + 1);
        }
    }

    /// Where its last visit starts, plus one; 0 for none.
    pub(crate) fn visit(&self) -> u64 {
        match self.mark {
            Mark::Visit(visit) => visit,
            Mark::Score(_) => 0,
        }
    }

    /// The ranker's.
    #[inline]
    pub(crate) fn score(&self) -> u32 {
        match self.mark {
            Mark::Visit(_) => 0,
            Mark::Score(score) => score,
        }
    }

    pub(crate) fn reason(&self) -> Option<Reason> {
        Reason::from_u8(self.reason)
    }

    /// Would a link that may be crawled make it due?
    pub(crate) fn is_liftable(&self) -> bool {
        let reason = self.reason();
        self.state == UrlState::Excluded && reason.is_some_and(Reason::is_liftable)
    }

    /// What an outcome makes of it.
    pub(crate) fn after(outcome: Outcome) -> (UrlState, u8) {
        match outcome {
            Outcome::Fetched => (UrlState::Visited, 0),
            Outcome::Retry(_) => (UrlState::Due, 0),
            Outcome::Failed(reason) => (UrlState::Failed, reason as u8),
            Outcome::Excluded(reason) => (UrlState::Excluded, reason as u8),
        }
    }

    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        let flags = self.state as u8
            | u8::from(self.reason != 0) << 2
            | u8::from(self.priority != 0) << 3
            | u8::from(self.attempts != 0) << 4
            | u8::from(self.visit() != 0) << 5
            | u8::from(self.score() != 0) << 6;
        out.push(flags);
        out.push(self.host_tag);
        put_varint(out, self.arrival);
        put_varint(out, self.text);
        put_varint(out, u64::from(self.count));
        if self.reason != 0 {
            out.push(self.reason);
        }
        if self.priority != 0 {
            out.push(self.priority as u8);
        }
        if self.attempts != 0 {
            out.push(self.attempts);
        }
        match self.mark {
            Mark::Visit(0) | Mark::Score(0) => {}
            Mark::Visit(visit) => put_varint(out, visit),
            Mark::Score(score) => put_varint(out, u64::from(score)),
        }
    }

    pub(crate) fn decode(bytes: &[u8]) -> Option<Self> {
        let reader = &mut Reader::new(bytes);
        let flags = reader.byte()?;
        let mut record = Record {
            host_tag: reader.byte()?,
            arrival: reader.varint()?,
            text: reader.varint()?,
            mark: Mark::Visit(0),
            count: reader.narrow()?,
            state: UrlState::ALL[(flags & 3) as usize],
            reason: 0,
            priority: 0,
            attempts: 0,
        };
        if flags & 4 != 0 {
            record.reason = reader.byte()?;
        }
        if flags & 8 != 0 {
            record.priority = reader.byte()? as i8;
        }
        if flags & 16 != 0 {
            record.attempts = reader.byte()?;
        }
        if flags & 32 != 0 {
            record.mark = Mark::Visit(reader.varint()?);
        }
        if flags & 64 != 0 {
            record.mark = Mark::Score(reader.narrow()?);
        }
        reader.is_empty().then_some(record)
    }
}

/// What a record keeps of its host's identity.
pub(crate) fn host_tag(host: u64) -> u8 {
    // Not the top bits, which are alike for all hosts of a partition.
    host as u8
}

/// Sorts as a queue does.
pub(crate) fn place(class: u8, arrival: u64) -> u64 {
    u64::from(MAX_CLASS - class) << 56 | arrival
}

pub(crate) fn class_at(place: u64) -> u8 {
    MAX_CLASS - (place >> 56) as u8
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn better_classes_stand_before_earlier_arrivals() {
        assert!(place(3, 900) < place(2, 1));
        assert!(place(2, 1) < place(2, 2));
        assert_eq!(class_at(place(5, 77)), 5);
        let class_of = |count, priority| Order::Backlinks.class_of(count, 0, priority);
        assert_eq!(class_of(0, 0), 0);
        assert_eq!(class_of(1, -3), 0);
        assert_eq!(class_of(9, 2), 5);
        assert_eq!(class_of(u32::MAX, i8::MAX), MAX_CLASS);
    }

    #[test]
    fn a_link_says_whether_it_moved_its_target() {
        for order in Order::ALL {
            let mut record = Record::new(7, 1, 0);
            for link in 0..200_u32 {
                let before = record.class(order);
                let vote = order.vote(None, 1).max(link << 20);
                let moved = record.observe(order, 7, vote);
                assert_eq!(moved, record.class(order) != before, "{order:?} {link}");
            }
            assert_eq!((record.visit(), record.count), (0, 200));
            assert_eq!(record.score() != 0, order.keeps_score());
            // At the highest class there is nowhere to go.
            record.priority = 63;
            assert!(!record.observe(order, 7, 0));
        }
    }

    #[test]
    fn a_visit_takes_the_place_of_the_score_unless_the_url_is_due_again() {
        for order in Order::ALL {
            let mut record = Record::new(7, 1, 0);
            let vote = order.vote(None, 1).max(1 << 20);
            record.observe(order, 7, vote);
            let score = record.score();
            record.set_visit(order, 8);
            let again = if order.keeps_score() { 0 } else { 9 };
            assert_eq!((record.visit(), record.score()), (again, score));
            record.state = UrlState::Visited;
            record.set_visit(order, 10);
            record.observe(order, 7, vote);
            assert_eq!((record.visit(), record.score()), (11, 0));
        }
    }

    #[test]
    fn records_round_trip() {
        for mark in [Mark::Visit(0), Mark::Visit(5), Mark::Score(77)] {
            let record = Record {
                host_tag: 0xfe,
                arrival: 1 << 40,
                text: 77,
                mark,
                count: 300,
                state: UrlState::Failed,
                reason: 67,
                priority: -4,
                attempts: 3,
            };
            let mut bytes = Vec::new();
            record.encode(&mut bytes);
            assert_eq!(Record::decode(&bytes), Some(record));
            assert_eq!(Record::decode(&bytes[..bytes.len() - 1]), None);
        }
    }
}
