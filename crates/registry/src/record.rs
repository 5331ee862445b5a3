//! What is kept of a known URL, beside its text: a small record, found by DocId.

use crate::wire::{Reader, put_varint};
use portolan_model::{Outcome, Reason};

/// Where a URL stands.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash, PartialOrd, Ord)]
#[repr(u8)]
pub enum State {
    Due = 0,
    Visited = 1,
    Failed = 2,
    Excluded = 3,
}

impl State {
    pub const ALL: [State; 4] = [State::Due, State::Visited, State::Failed, State::Excluded];

    pub fn name(self) -> &'static str {
        match self {
            State::Due => "due",
            State::Visited => "visited",
            State::Failed => "failed",
            State::Excluded => "excluded",
        }
    }
}

/// Reasons below this number are access conditions, which a later link may lift.
const FIRST_LASTING_REASON: u8 = 32;

/// The highest class.
pub const MAX_CLASS: u8 = 63;

/// The place of a URL among those of its host: the logarithm of its back-links, moved by its
/// priority.
pub fn class_of(count: u32, priority: i8) -> u8 {
    let links = count.checked_ilog2().unwrap_or(0) as i32;
    (links + i32::from(priority)).clamp(0, i32::from(MAX_CLASS)) as u8
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Record {
    /// Number of the observation (or retry) that put it where it is in its queue.
    pub(crate) arrival: u64,
    /// Where its text starts.
    pub(crate) text: u64,
    /// Where its last visit starts, plus one; 0 for none.
    pub(crate) visit: u64,
    pub(crate) count: u32,
    pub(crate) state: State,
    /// 0 for none.
    pub(crate) reason: u8,
    pub(crate) priority: i8,
    pub(crate) attempts: u8,
    /// Some bits of its host's identity, to tell most URLs of other hosts without their texts.
    pub(crate) host_tag: u8,
}

impl Record {
    pub(crate) fn class(&self) -> u8 {
        class_of(self.count, self.priority)
    }

    /// Its place in its host's queue: better classes first, then in order of arrival.
    pub(crate) fn place(&self) -> u64 {
        place(self.class(), self.arrival)
    }

    pub(crate) fn reason(&self) -> Option<Reason> {
        Reason::from_u8(self.reason)
    }

    /// Would a link that may be crawled make it due?
    pub(crate) fn is_liftable(&self) -> bool {
        self.state == State::Excluded && self.reason < FIRST_LASTING_REASON
    }

    /// What an outcome makes of it.
    pub(crate) fn after(outcome: Outcome) -> (State, u8) {
        match outcome {
            Outcome::Fetched => (State::Visited, 0),
            Outcome::Retry(_) => (State::Due, 0),
            Outcome::Failed(reason) => (State::Failed, reason as u8),
            Outcome::Excluded(reason) => (State::Excluded, reason as u8),
        }
    }

    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        let flags = self.state as u8
            | u8::from(self.reason != 0) << 2
            | u8::from(self.priority != 0) << 3
            | u8::from(self.attempts != 0) << 4
            | u8::from(self.visit != 0) << 5;
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
        if self.visit != 0 {
            put_varint(out, self.visit);
        }
    }

    pub(crate) fn decode(bytes: &[u8]) -> Option<Self> {
        let reader = &mut Reader::new(bytes);
        let flags = reader.byte()?;
        let mut record = Record {
            host_tag: reader.byte()?,
            arrival: reader.varint()?,
            text: reader.varint()?,
            visit: 0,
            count: reader.narrow()?,
            state: State::ALL[(flags & 3) as usize],
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
            record.visit = reader.varint()?;
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
        assert_eq!(class_of(0, 0), 0);
        assert_eq!(class_of(1, -3), 0);
        assert_eq!(class_of(9, 2), 5);
        assert_eq!(class_of(u32::MAX, i8::MAX), MAX_CLASS);
    }

    #[test]
    fn records_round_trip() {
        let record = Record {
            host_tag: 0xfe,
            arrival: 1 << 40,
            text: 77,
            visit: 5,
            count: 300,
            state: State::Failed,
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
