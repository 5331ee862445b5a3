//! A file that is only appended to, through a bounded buffer. A failed write loses nothing and may
//! be tried again: bytes are written at known offsets and leave the buffer only afterwards.

use crate::error::ArchiveError;
use crate::open::no_links;
use std::fs::{File, OpenOptions};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

/// The buffer is written out when it would pass this; a single larger piece is taken whole.
const BUFFER_BYTES: usize = 256 << 10;

pub(crate) struct AppendFile {
    file: File,
    path: PathBuf,
    /// Bytes already written to the file.
    flushed: u64,
    buffer: Vec<u8>,
    /// After a failed sync the kernel may have dropped pages and forgotten about it.
    poisoned: Option<String>,
}

impl AppendFile {
    pub fn create(path: &Path) -> Result<Self, ArchiveError> {
        let file = OpenOptions::new()
            .read(true)
            .write(true)
            .create_new(true)
            .open(path)
            .map_err(ArchiveError::io("create", path))?;
        Ok(Self::over(file, path, 0))
    }

    /// Goes on at `length`; whatever the file holds beyond is overwritten.
    pub fn open_at(path: &Path, length: u64) -> Result<Self, ArchiveError> {
        let file = no_links()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .open(path)
            .map_err(ArchiveError::io("open", path))?;
        Ok(Self::over(file, path, length))
    }

    fn over(file: File, path: &Path, flushed: u64) -> Self {
        Self {
            file,
            path: path.to_owned(),
            flushed,
            buffer: Vec::with_capacity(BUFFER_BYTES),
            poisoned: None,
        }
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Bytes appended so far, written or not.
    pub fn len(&self) -> u64 {
        self.flushed + self.buffer.len() as u64
    }

    /// Makes room for a piece of `length` bytes. An error means that nothing was taken.
    pub fn make_room(&mut self, length: usize) -> Result<(), ArchiveError> {
        self.check()?;
        if !self.buffer.is_empty() && self.buffer.len() + length > BUFFER_BYTES {
            self.flush()?;
        }
        Ok(())
    }

    /// Cannot fail: room was made before.
    pub fn push(&mut self, bytes: &[u8]) {
        self.buffer.extend_from_slice(bytes);
    }

    pub fn flush(&mut self) -> Result<(), ArchiveError> {
        self.check()?;
        if self.buffer.is_empty() {
            return Ok(());
        }
        self.file
            .write_all_at(&self.buffer, self.flushed)
            .map_err(ArchiveError::io("write to", &self.path))?;
        self.flushed += self.buffer.len() as u64;
        self.buffer.clear();
        if self.buffer.capacity() > 2 * BUFFER_BYTES {
            self.buffer = Vec::with_capacity(BUFFER_BYTES);
        }
        Ok(())
    }

    /// Everything appended so far survives a power cut once this returns.
    pub fn sync(&mut self) -> Result<(), ArchiveError> {
        self.flush()?;
        if let Err(error) = self.file.sync_data() {
            self.poisoned = Some(error.to_string());
        }
        self.check()
    }

    /// Reads appended bytes, wherever they are; `false` if there are not as many.
    pub fn read_at(&self, buffer: &mut [u8], offset: u64) -> std::io::Result<bool> {
        let end = offset.saturating_add(buffer.len() as u64);
        if end > self.len() {
            return Ok(false);
        }
        // The part before `flushed` is in the file, the part from there on in the buffer.
        let in_file = self.flushed.saturating_sub(offset).min(buffer.len() as u64) as usize;
        let (from_file, from_buffer) = buffer.split_at_mut(in_file);
        self.file.read_exact_at(from_file, offset)?;
        let start = offset.saturating_sub(self.flushed) as usize;
        from_buffer.copy_from_slice(&self.buffer[start..start + from_buffer.len()]);
        Ok(true)
    }

    fn check(&self) -> Result<(), ArchiveError> {
        match &self.poisoned {
            None => Ok(()),
            Some(cause) => Err(ArchiveError::Poisoned {
                path: self.path.clone(),
                cause: cause.clone(),
            }),
        }
    }
}

/// Makes creations, removals and renames in a directory survive a power cut.
pub(crate) fn sync_dir(dir: &Path) -> Result<(), ArchiveError> {
    File::open(dir)
        .and_then(|dir| dir.sync_all())
        .map_err(ArchiveError::io("sync", dir))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_across_file_and_buffer() {
        let dir = tempfile::tempdir().expect("a temporary directory");
        let mut file = AppendFile::create(&dir.path().join("f")).expect("create");
        file.push(b"hello ");
        file.flush().expect("flush");
        file.push(b"world");
        let mut all = [0; 11];
        assert!(file.read_at(&mut all, 0).expect("read"));
        assert_eq!(&all, b"hello world");
        let mut end = [0; 5];
        assert!(file.read_at(&mut end, 6).expect("read"));
        assert_eq!(&end, b"world");
        assert!(!file.read_at(&mut end, 7).expect("read"));
        assert!(!file.read_at(&mut end, u64::MAX).expect("read"));
    }

    #[test]
    fn a_full_disk_is_an_error_and_loses_nothing() {
        let Ok(mut full) = AppendFile::open_at(Path::new("/dev/full"), 0) else {
            return println!("not run: no /dev/full");
        };
        full.push(b"kept");
        assert!(matches!(full.flush(), Err(ArchiveError::Io { .. })));
        assert!(matches!(
            full.make_room(1 << 20),
            Err(ArchiveError::Io { .. })
        ));
        assert_eq!(full.len(), 4);
        assert_eq!(full.buffer, b"kept");
    }
}
