//! What can go wrong in the registry, and what to do about it.

use std::io;
use std::path::{Path, PathBuf};
use thiserror::Error;

pub type Result<T, E = RegistryError> = std::result::Result<T, E>;

#[derive(Debug, Error)]
pub enum RegistryError {
    /// The disk refused. Nothing that was committed is lost: stop, make room or repair, open again.
    #[error("{}: {source}", path.display())]
    Io { path: PathBuf, source: io::Error },
    /// A file does not hold what was written to it. Restore it from a copy.
    #[error("{} is damaged at byte {offset}: {what}; restore the file from a copy", path.display())]
    Corrupt {
        path: PathBuf,
        offset: u64,
        what: String,
    },
    #[error("{} is in use by process {pid}; stop that crawl first", path.display())]
    Locked { path: PathBuf, pid: String },
    #[error("{}: {what}", path.display())]
    Settings { path: PathBuf, what: String },
    /// Made by another version of the program, which can go on with it.
    #[error(
        "{} is a registry of format {found}, and this version of Portolan reads format {} alone: go on with the version \
         that began the crawl, or crawl anew into another directory",
        path.display(), crate::meta::FORMAT
    )]
    Format { path: PathBuf, found: u32 },
    /// The caller's division does not fit this registry.
    #[error("the registry has no partition {0}")]
    NoPartition(u16),
    /// Links from another partition were lost on their way, or numbered twice. Nothing was dropped: what came is in the
    /// journal.
    #[error(
        "partition {partition}: links of entry {number} of partition {from} do not follow those of entry {heard}"
    )]
    Stream {
        partition: u16,
        from: u16,
        number: u64,
        heard: u64,
    },
    /// More than a trillion observations, or a terabyte of texts or visits.
    #[error("{} is full: spread the crawl over more partitions", path.display())]
    Full { path: PathBuf },
    /// The caller broke the order of the log.
    #[error("partition {partition}: entry {seq} was applied after {applied}")]
    OutOfOrder {
        partition: u16,
        seq: u64,
        applied: u64,
    },
    /// A checkpoint was asked for while entries were not yet on disk.
    #[error(
        "partition {partition}: entries up to {applied} are applied but only those up to {durable} are synced"
    )]
    NotSynced {
        partition: u16,
        applied: u64,
        durable: u64,
    },
    #[error("the merge thread has died; open the registry again")]
    MergerDied,
}

impl RegistryError {
    pub(crate) fn corrupt(path: &Path, offset: u64, what: impl Into<String>) -> Self {
        RegistryError::Corrupt {
            path: path.to_path_buf(),
            offset,
            what: what.into(),
        }
    }
}

/// Names the file in an IO error.
pub(crate) trait At<T> {
    fn at(self, path: &Path) -> Result<T>;
}

impl<T> At<T> for io::Result<T> {
    fn at(self, path: &Path) -> Result<T> {
        self.map_err(|source| RegistryError::Io {
            path: path.to_path_buf(),
            source,
        })
    }
}
