//! Links that go from one partition to another, and how they are packed into messages.

mod pack;

pub(crate) use pack::{Keys, Message, key_of, pack, pack_key, pack_pieces, unpack};

use bytes::Bytes;
use portolan_model::PartitionId;

/// What one entry of a source's log says to one destination. The fields are those of the registry's `Origin`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Forward {
    pub source: PartitionId,
    pub number: u64,
    pub predecessor: u64,
    /// The links, as the registry writes them; nothing here looks into them.
    pub body: Bytes,
}

/// Forwards that stood in one message of a partition's link stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Delivery {
    /// The number of the message: once all of its forwards are folded and settled, the inbox goes on after it.
    pub cursor: u64,
    pub forwards: Vec<Forward>,
}
