//! One process at a time in a registry's directory, and whether the last one left in order.

use crate::error::{At, RegistryError, Result};
use crate::files::no_links;
use std::fs::{self, File, TryLockError};
use std::io::{Read, Seek, Write};
use std::path::{Path, PathBuf};

/// Held while the registry is open, by all who write in it. The operating system frees it when the process dies; the file
/// stays behind then, which tells of the crash.
#[derive(Debug)]
pub(crate) struct DirLock {
    path: PathBuf,
    _file: File,
    after_crash: bool,
}

impl DirLock {
    pub(crate) fn take(dir: &Path) -> Result<Self> {
        let path = dir.join("lock");
        let after_crash = path.exists();
        let mut file = no_links()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .open(&path)
            .at(&path)?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                let mut pid = String::new();
                file.read_to_string(&mut pid).at(&path)?;
                return Err(RegistryError::Locked {
                    path: dir.to_path_buf(),
                    pid: pid.trim().to_owned(),
                });
            }
            Err(TryLockError::Error(source)) => return Err(source).at(&path),
        }
        file.set_len(0).at(&path)?;
        file.rewind().at(&path)?;
        writeln!(file, "{}", std::process::id()).at(&path)?;
        file.sync_all().at(&path)?;
        Ok(Self {
            path,
            _file: file,
            after_crash,
        })
    }

    /// Does a living process hold the lock? Looks without taking it.
    pub(crate) fn is_held(dir: &Path) -> bool {
        let Ok(file) = File::open(dir.join("lock")) else {
            return false;
        };
        matches!(file.try_lock_shared(), Err(TryLockError::WouldBlock))
    }

    /// Is the registry open, or was it not closed?
    pub(crate) fn is_left(dir: &Path) -> bool {
        dir.join("lock").exists()
    }

    pub(crate) fn after_crash(&self) -> bool {
        self.after_crash
    }

    /// The next opening is not one after a crash.
    pub(crate) fn release_clean(&self) -> Result<()> {
        fs::remove_file(&self.path).at(&self.path)
    }
}
