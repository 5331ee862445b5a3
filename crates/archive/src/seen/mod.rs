//! Which payloads the archive holds: fingerprint -> the first record with that payload. On disk,
//! with bounded RAM. It is a help, not a record of truth: what it forgets is stored in full once
//! more, and it never names a record that the archive does not hold.
//!
//! - `text`: append-only entries (digest, URL, time, archive position), each with its checksum.
//! - `run`: sorted, immutable files of (fingerprint, offset in the text), searched on disk.
//! - `manifest`: which runs there are and how much of the text they cover.
//! - `table`: the newest entries in RAM, and the three together. `check`: looking for damage.

mod check;
mod manifest;
mod merge;
mod run;
mod table;
mod text;

pub use check::{SeenCheck, check_seen};
pub use merge::{MergeJob, MergedRun};
pub use table::ContentSeen;

/// The first record of a payload.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SeenRecord {
    pub url: String,
    pub at_ms: u64,
}
