//! One index over many WARC files that have none.

use std::path::{Path, PathBuf};

use portolan_archive::{index_warc, merge_sorted};
use portolan_crawl::surt;

use crate::failure::Failure;

/// Writes the index of each file, merges them into `index`, and gives its number of lines.
pub(super) fn write(files: &[PathBuf], index: &Path) -> Result<u64, Failure> {
    let dir =
        tempfile::tempdir_in(index.parent().unwrap_or(Path::new("."))).map_err(Failure::failed)?;
    let mut parts = Vec::new();
    for (number, file) in files.iter().enumerate() {
        let part = dir.path().join(format!("{number}.cdxj"));
        index_warc(file, &part, &surt).map_err(Failure::failed)?;
        parts.push(part);
    }
    merge_sorted(&parts, index).map_err(Failure::failed)
}
