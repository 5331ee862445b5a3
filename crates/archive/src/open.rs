//! How the archive opens files to write: never through a symbolic link. Who can put a link into an archive's
//! directory could otherwise have another file overwritten in the crawler's name.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

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
