//! The archive: WARC 1.1 and CDXJ. Writes what was fetched, reads and verifies it, and knows which
//! payloads it already holds. It opens no sockets and decides nothing about the crawl.
//!
//! # Layout
//!
//! Writing, in the order of a page's way:
//! - `capture`: what is handed in for one visit, and what comes out of building its records.
//! - `record`: builds the records of a visit; owned by a worker, runs in parallel. Uses `head`
//!   (the HTTP head as it is stored), `field` (WARC header lines), `member` (gzip members),
//!   `date` and `digest`.
//! - `writer`: the single archivist that appends to WARC files and rotates them; `recover` makes
//!   files and index agree with what was logged, after a crash, and `set_aside` keeps what was not logged;
//!   `crawl_id` says whose archive it is; `append_file` is the file under all of them.
//! - `cdxj`: index lines, sorted index of a file; `merge`: many sorted files into one.
//!
//! Reading:
//! - `read`: records of `.warc`, `.warc.gz` and ARC files, damaged ones included.
//! - `verify`: names every fault of a file; `fault` is what they are called, `chunked` undoes the
//!   transfer coding that other crawlers keep. `check_index` compares a file's index with it, and the merged
//!   index with all of them; `check_files` the files' names and lengths with what was logged.
//! - `list`: one line a record, and one record's bytes; `message`: one record's HTTP head and payload.
//!
//! Beside them `seen`: fingerprint of a payload -> the first record that holds it.
//!
//! # Example
//!
//! ```no_run
//! use portolan_archive::{WarcReader, verify};
//! use std::path::Path;
//!
//! let path = Path::new("crawl/archive/portolan-20260101000000-00000.warc.gz");
//! let mut reader = WarcReader::open(path)?;
//! while let Some(record) = reader.next_record()? {
//!     let url = record.header("WARC-Target-URI").unwrap_or("-");
//!     println!("{} {url} at {}", record.kind(), record.offset);
//! }
//! assert!(verify(path)?.is_sound());
//! # Ok::<(), portolan_archive::ArchiveError>(())
//! ```

mod append_file;
mod capture;
mod cdxj;
mod check_files;
mod check_index;
mod chunked;
mod crawl_id;
mod date;
mod digest;
mod error;
mod fault;
mod field;
mod head;
mod list;
mod member;
mod merge;
mod message;
mod open;
mod read;
mod record;
mod recover;
mod seen;
mod set_aside;
mod settings;
mod verify;
mod writer;

pub use capture::{Built, Capture, Conversion, MAX_CONVERSIONS, PageFacts};
pub use check_files::{FileFault, check_files, warc_path};
pub use check_index::{IndexFaults, check_index, check_merged_index};
pub use crawl_id::{claim_archive, count_warcs, is_claimed};
pub use date::warc_date;
pub use error::ArchiveError;
pub use fault::Fault;
pub use list::{Cat, Listed, Listing, Part, cat, list};
pub use merge::merge_sorted;
pub use message::Message;
pub use read::{Block, Format, WarcReader, WarcRecord};
pub use record::RecordBuilder;
pub use recover::{Recovery, index_warc};
pub use seen::{ContentSeen, MergeJob, MergedRun, SeenCheck, SeenRecord, check_seen};
pub use settings::{
    ArchiveSettings, Compression, DurableEnd, FILES_A_NODE, MAX_NODE_NUMBER, file_prefix,
};
pub use verify::{Captured, FileCheck, Flaw, verify, verify_for_index};
pub use writer::{
    ClosedArchive, WarcWriter, check_node, check_prefix, number_of_warc, numbered_warcs,
};
