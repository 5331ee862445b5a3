//! The only way into a partition: entries in order, durable before they are folded. Not what they
//! come to; that is the partition's fold. One journal holds the entries of all partitions.

mod chunk;
mod entry;
mod exchange;
mod frame;
mod homes;
mod journal;
mod moved;
mod outgoing;
mod reader;
mod segment;
mod segments;
mod sent;
mod stream;
#[cfg(test)]
mod tests;
mod visit_codec;

pub use chunk::{Chunk, Forwarded, Outbound};
pub use entry::{Entry, Forward, Renewed, Was};
pub use homes::{Claim, Homes, Sorted};
pub use journal::{Delivery, Journal};
pub use moved::{Moved, MovedUrl};
pub use outgoing::{Behind, Exporter, Settler};
pub use sent::Exchanged;
pub use stream::{Arrival, Ask, Heard, Inbox, Origin, Received};

pub(crate) use entry::{
    put_claims, put_docs, put_pulse, put_robots, read_claims, read_docs, read_pulse, read_robots,
};
pub(crate) use exchange::Streams;
pub(crate) use frame::MAX_PAYLOAD_BYTES;
pub(crate) use journal::{Durable, JournalPlan};
pub(crate) use outgoing::Outgoing;
pub(crate) use reader::{Commit, JournalEnd, JournalReader};
pub(crate) use segment::{Positions, list_segments};
pub(crate) use visit_codec::{put_visit, read_visit};
