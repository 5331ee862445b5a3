//! The kinds of file a partition's state is made of: append-only files with a length, immutable
//! sorted tables, and one manifest. Knows bytes and keys, not URLs.

mod append;
mod block;
mod cursor;
mod filter;
mod kept;
mod merge;
mod paced;
mod pieces;
mod runs;
mod table;

pub(crate) use append::AppendFile;
pub(crate) use cursor::Cursor;
pub(crate) use merge::{Combining, MemorySource, MergeInput, Merged, number_of};
pub(crate) use pieces::{Scan, put_piece, read_piece};
pub(crate) use runs::{Kind, Run, Runs, RunsPlan, RunsWritten, look_up};
pub(crate) use table::{Key, Shape, Table, TableWriter};

use crate::error::{At, Result};
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

/// For files that are written: never through a symbolic link. Who can put a link into a registry's
/// directory could otherwise have another file overwritten in the crawler's name.
pub(crate) fn no_links() -> OpenOptions {
    let mut options = OpenOptions::new();
    options.custom_flags(libc::O_NOFOLLOW);
    options
}

/// As `File::create`.
pub(crate) fn create(path: &Path) -> io::Result<File> {
    let mut options = no_links();
    options.write(true).create(true).truncate(true);
    options.open(path)
}

/// Makes the names in a directory durable.
pub(crate) fn sync_dir(dir: &Path) -> Result<()> {
    File::open(dir).at(dir)?.sync_all().at(dir)
}

/// Makes a directory, and its name durable in its parent, before anything relies on it.
pub(crate) fn make_dir(dir: &Path) -> Result<()> {
    fs::create_dir_all(dir).at(dir)?;
    match dir.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => sync_dir(parent),
        _ => Ok(()),
    }
}

/// Replaces a small file as a whole: after a crash it is the old one or the new one.
pub(crate) fn replace_file(dir: &Path, name: &str, bytes: &[u8]) -> Result<()> {
    let (path, new) = (dir.join(name), dir.join(format!("{name}.new")));
    let mut file = create(&new).at(&new)?;
    file.write_all(bytes).at(&new)?;
    file.sync_all().at(&new)?;
    fs::rename(&new, &path).at(&path)?;
    sync_dir(dir)
}
