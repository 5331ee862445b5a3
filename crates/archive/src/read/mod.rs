//! Records of WARC and ARC files, one after the other, damaged files included: a fault is noted,
//! and reading goes on at the next record that can be found. Judges framing only; `verify` judges
//! what the records say.

mod arc;
mod reader;
mod source;

pub use reader::{Block, Format, WarcReader, WarcRecord};

/// A record's header fields may take this much together; a hostile file gets no more RAM.
pub(crate) const MAX_HEADER_BYTES: usize = 256 << 10;
/// Of a block this much is held to find the HTTP head in it.
pub(crate) const MAX_HTTP_HEAD_BYTES: u64 = 1 << 20;
/// Faults remembered between two calls of `take_faults`.
pub(crate) const MAX_FAULTS: usize = 10_000;
