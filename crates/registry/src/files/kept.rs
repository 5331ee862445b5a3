//! Files that stay open while there are descriptors to spare, and are opened for each use else. So a
//! registry of many partitions works under a low limit of open files, only slower.

use super::no_links;
use rustix::process::{Resource, getrlimit};
use std::fs::File;
use std::io;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{LazyLock, OnceLock};

/// The registry keeps at most one in `SHARE` of the descriptors that the process may have.
const SHARE: u64 = 2;
/// Assumed where there is no limit.
const UNLIMITED: u64 = 1 << 20;

/// How many more files may stay open, over all registries of the process.
static TO_SPARE: LazyLock<AtomicU64> = LazyLock::new(|| {
    let limit = getrlimit(Resource::Nofile).current.unwrap_or(UNLIMITED);
    AtomicU64::new(limit / SHARE)
});

/// A place among the files that stay open.
#[derive(Debug)]
pub(crate) struct Permit(());

impl Permit {
    pub(crate) fn take() -> Option<Self> {
        let taken = TO_SPARE.try_update(Ordering::Relaxed, Ordering::Relaxed, |left| {
            left.checked_sub(1)
        });
        taken.is_ok().then_some(Self(()))
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        TO_SPARE.fetch_add(1, Ordering::Relaxed);
    }
}

#[derive(Debug)]
pub(crate) struct KeptFile {
    path: PathBuf,
    writable: bool,
    held: OnceLock<File>,
    /// Given back with the file.
    _permit: Option<Permit>,
}

impl KeptFile {
    /// `file` is what is at `path`; it stays open if there is a place.
    pub(crate) fn new(path: PathBuf, file: File, writable: bool) -> Self {
        let permit = Permit::take();
        let held = OnceLock::new();
        if permit.is_some() {
            let _ = held.set(file);
        }
        Self {
            path,
            writable,
            held,
            _permit: permit,
        }
    }

    /// Stays open whatever there is to spare: for files that are only written for a while.
    pub(crate) fn held(file: File) -> Self {
        Self {
            path: PathBuf::new(),
            writable: true,
            held: OnceLock::from(file),
            _permit: None,
        }
    }

    /// Does something with the file.
    pub(crate) fn with<T>(&self, work: impl FnOnce(&File) -> io::Result<T>) -> io::Result<T> {
        match self.held.get() {
            Some(file) => work(file),
            None => work(&self.open()?),
        }
    }

    /// The file is about to lose its name: who still uses it needs it open.
    pub(crate) fn hold(&self) -> io::Result<()> {
        if self.held.get().is_none() {
            let _ = self.held.set(self.open()?);
        }
        Ok(())
    }

    fn open(&self) -> io::Result<File> {
        no_links().read(true).write(self.writable).open(&self.path)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::FileExt;

    /// As it is where nothing is to spare.
    fn unkept(path: PathBuf) -> KeptFile {
        KeptFile {
            path,
            writable: true,
            held: OnceLock::new(),
            _permit: None,
        }
    }

    #[test]
    fn a_file_that_is_not_kept_open_is_the_same_file() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("f");
        std::fs::write(&path, b"abcdef").unwrap();
        let file = unkept(path.clone());
        file.with(|file| file.write_all_at(b"XY", 2)).unwrap();
        file.with(File::sync_data).unwrap();
        let mut read = [0; 6];
        file.with(|file| file.read_exact_at(&mut read, 0)).unwrap();
        assert_eq!(&read, b"abXYef");
        // Without its name it can be read only if it was held.
        file.hold().unwrap();
        std::fs::remove_file(&path).unwrap();
        file.with(|file| file.read_exact_at(&mut read, 0)).unwrap();
        assert!(unkept(path).with(File::sync_data).is_err());
    }
}
