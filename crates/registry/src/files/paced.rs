//! A file that is written by and by, and made durable a part at a time. What the system still has to write stays little:
//! under a limit of memory it may make anybody wait who needs a page (decision 3).

use super::kept::KeptFile;
use std::fs::File;
use std::io::{self, Write};
use std::os::unix::fs::FileExt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

/// So much may be written and not be on disk.
const PART_BYTES: u64 = 8 << 20;

#[derive(Debug)]
pub(crate) struct PacedFile {
    file: KeptFile,
    unsynced: AtomicU64,
    /// What a sync failed with. The system tells it once, to whichever thread asks first; here it holds for all.
    failed: Mutex<Option<io::ErrorKind>>,
}

impl PacedFile {
    pub(crate) fn new(file: KeptFile) -> Self {
        Self {
            file,
            unsynced: AtomicU64::new(0),
            failed: Mutex::new(None),
        }
    }

    pub(crate) fn file(&self) -> &KeptFile {
        &self.file
    }

    pub(crate) fn write_all_at(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        self.file.with(|file| file.write_all_at(bytes, offset))?;
        self.note(bytes.len())
    }

    /// Everything written so far is on disk.
    pub(crate) fn sync(&self) -> io::Result<()> {
        let mut failed = self.failed.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(kind) = *failed {
            return Err(kind.into());
        }
        self.unsynced.store(0, Ordering::Relaxed);
        self.file
            .with(File::sync_data)
            .inspect_err(|error| *failed = Some(error.kind()))
    }

    fn note(&self, bytes: usize) -> io::Result<()> {
        let before = self.unsynced.fetch_add(bytes as u64, Ordering::Relaxed);
        if before + bytes as u64 >= PART_BYTES {
            self.sync()?;
        }
        Ok(())
    }
}

impl Write for PacedFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = self.file.with(|mut file| file.write(bytes))?;
        self.note(written)?;
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.with(|mut file| file.flush())
    }
}
