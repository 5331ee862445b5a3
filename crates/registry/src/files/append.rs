//! A file that only grows: its length is in the manifest, and what lies beyond is cut at opening.

use crate::error::{At, RegistryError, Result};
use std::fs::{File, OpenOptions};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Written out when this much has gathered.
const BUFFER_BYTES: usize = 256 << 10;

#[derive(Debug)]
pub(crate) struct AppendFile {
    path: PathBuf,
    file: Option<Arc<File>>,
    file_bytes: u64,
    buffer: Vec<u8>,
    /// A reader's copy keeps what it appends in RAM.
    read_only: bool,
}

impl AppendFile {
    pub(crate) fn open(path: PathBuf, length: u64, read_only: bool) -> Result<Self> {
        let file = if read_only {
            match File::open(&path) {
                Ok(file) => Some(Arc::new(file)),
                Err(_) if length == 0 => None,
                Err(source) => return Err(source).at(&path),
            }
        } else {
            let file = OpenOptions::new()
                .read(true)
                .write(true)
                .create(true)
                .truncate(false)
                .open(&path)
                .at(&path)?;
            Some(Arc::new(file))
        };
        if let Some(file) = &file {
            let found = file.metadata().at(&path)?.len();
            if found < length {
                return Err(RegistryError::corrupt(
                    &path,
                    found,
                    format!("it ends {} bytes early", length - found),
                ));
            }
            if !read_only {
                file.set_len(length).at(&path)?;
            }
        }
        Ok(Self {
            path,
            file,
            file_bytes: length,
            buffer: Vec::new(),
            read_only,
        })
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    pub(crate) fn len(&self) -> u64 {
        self.file_bytes + self.buffer.len() as u64
    }

    pub(crate) fn ram_bytes(&self) -> usize {
        self.buffer.capacity()
    }

    /// Appends one piece, written by `write`, and returns where it starts. A piece is never split
    /// between buffer and file.
    pub(crate) fn append(&mut self, write: impl FnOnce(&mut Vec<u8>)) -> Result<u64> {
        if self.buffer.len() >= BUFFER_BYTES && !self.read_only {
            self.write_out()?;
        }
        let offset = self.len();
        write(&mut self.buffer);
        Ok(offset)
    }

    /// Hands the buffer to the operating system.
    pub(crate) fn write_out(&mut self) -> Result<()> {
        if let Some(file) = &self.file
            && !self.read_only
        {
            file.write_all_at(&self.buffer, self.file_bytes)
                .at(&self.path)?;
            self.file_bytes += self.buffer.len() as u64;
            self.buffer.clear();
        }
        Ok(())
    }

    /// For syncing on another thread.
    pub(crate) fn handle(&self) -> Option<(PathBuf, Arc<File>)> {
        Some((self.path.clone(), self.file.clone()?))
    }

    /// Up to `length` bytes from `offset` on; fewer at the end of a piece's home.
    pub(crate) fn read(&self, offset: u64, length: usize, into: &mut Vec<u8>) -> Result<()> {
        into.clear();
        if offset >= self.file_bytes {
            let start = ((offset - self.file_bytes) as usize).min(self.buffer.len());
            let end = start.saturating_add(length).min(self.buffer.len());
            into.extend_from_slice(&self.buffer[start..end]);
            return Ok(());
        }
        let length = (self.file_bytes - offset).min(length as u64) as usize;
        into.resize(length, 0);
        match &self.file {
            Some(file) => file.read_exact_at(into, offset).at(&self.path),
            None => {
                into.clear();
                Ok(())
            }
        }
    }
}
