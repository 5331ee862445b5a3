//! What a partition of a fleet has sent to each of the others: a fold of its log, so that it moves with the partition.

use crate::wire::{Reader, put_varint};
use portolan_model::PartitionId;
use std::collections::BTreeMap;

/// Forwards of one partition. Over all partitions of a fleet, what was sent and what was heard come to the same once
/// nothing is on its way.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Exchanged {
    /// By destination: the number of the last forward.
    last: BTreeMap<u16, u64>,
    /// Forwards sent since the crawl began.
    pub sent: u64,
    /// Forwards heard since the crawl began.
    pub heard: u64,
}

impl Exchanged {
    /// The number of the last forward to `destination`; 0 for none.
    pub fn last(&self, destination: PartitionId) -> u64 {
        self.last.get(&destination.0).copied().unwrap_or(0)
    }

    /// Notes a forward to `destination`.
    pub(crate) fn send(&mut self, destination: PartitionId, number: u64) {
        self.last.insert(destination.0, number);
        self.sent += 1;
    }

    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        put_varint(out, self.sent);
        put_varint(out, self.heard);
        put_varint(out, self.last.len() as u64);
        for (&id, &number) in &self.last {
            put_varint(out, u64::from(id));
            put_varint(out, number);
        }
    }

    pub(crate) fn decode(reader: &mut Reader<'_>) -> Option<Self> {
        let (sent, heard) = (reader.varint()?, reader.varint()?);
        let count: usize = reader.narrow()?;
        let last = (0..count).map(|_| Some((reader.narrow()?, reader.varint()?)));
        Some(Self {
            last: last.collect::<Option<_>>()?,
            sent,
            heard,
        })
    }
}
