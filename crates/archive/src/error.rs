//! What can go wrong with the archive's files, in sentences that name the file.

use crate::fault::Fault;
use std::io;
use std::path::{Path, PathBuf};
use thiserror::Error;

#[derive(Debug, Error)]
pub enum ArchiveError {
    /// Nothing was lost: what was to be written is still held, and the call may be made again once
    /// the cause (a full disk, say) is gone.
    #[error("cannot {action} {}: {source}", path.display())]
    Io {
        action: &'static str,
        path: PathBuf,
        source: io::Error,
    },
    /// What the disk holds is unknown. Stop, and recover from the log.
    #[error("the archive stopped after a failed sync of {}: {cause}; restart to recover", path.display())]
    Poisoned { path: PathBuf, cause: String },
    #[error(
        "{} holds {found} bytes but visits are logged up to byte {logged}: the file was cut or replaced; put it back from a copy",
        path.display()
    )]
    CutShort {
        path: PathBuf,
        found: u64,
        logged: u64,
    },
    #[error("visits are logged in WARC file number {number}, but {} has no such file; put it back from a copy", dir.display())]
    FileMissing { dir: PathBuf, number: u32 },
    #[error("{} has two WARC files with the number {number}", dir.display())]
    NumberTwice { dir: PathBuf, number: u32 },
    /// Registry and archive do not belong together: going on would set all of the archive aside.
    #[error(
        "{} is the archive of another crawl ({found}) than the registry beside it ({id}); put back the one that belongs to \
         the other, or use another directory",
        dir.display()
    )]
    OtherCrawl {
        dir: PathBuf,
        found: String,
        id: String,
    },
    #[error(
        "{} is missing, so it is not certain that the WARC files beside it are those of the registry's crawl; if they are, \
         write the line {id} into that file",
        path.display()
    )]
    NoCrawlId { path: PathBuf, id: String },
    #[error("bad setting: {0}")]
    Setting(String),
    #[error("{}: {fault}", path.display())]
    NotReadable { path: PathBuf, fault: Fault },
}

impl ArchiveError {
    /// For `map_err`: says what was being done to which file.
    pub(crate) fn io(action: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Self {
        let path = path.to_owned();
        move |source| Self::Io {
            action,
            path,
            source,
        }
    }
}
