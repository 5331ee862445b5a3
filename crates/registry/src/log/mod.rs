//! The only way into a partition: entries in order, durable before they are folded. Not what they
//! come to; that is the partition's fold.

mod entry;
mod logs;
mod segment;
mod visit_codec;

pub use entry::{Entry, Renewed, Was};
pub use logs::{Delivery, Logs};

pub(crate) use entry::{put_pulse, put_robots, read_pulse, read_robots};
pub(crate) use logs::{Durable, one_per_destination};
pub(crate) use segment::{LogEnd, LogReader, MAX_PAYLOAD_BYTES, cut_short, list_segments};
pub(crate) use visit_codec::{put_visit, read_visit};
