//! The archive of a fleet as files: the chunks that commit records name, joined.

use crate::error::FleetError;
use crate::fleet::Fleet;
use crate::records::WarcChunk;
use crate::stored::Stored;
use std::fs::{File, OpenOptions};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

/// What was fetched.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Assembled {
    /// The WARC files in `dir`, sorted by name.
    pub files: Vec<PathBuf>,
    /// Bytes of all of them, and those that were fetched this time.
    pub bytes: u64,
    pub fetched_bytes: u64,
}

impl Stored {
    /// Writes the fleet's WARC files into `dir`. What is there already is not fetched again: call it again to fetch what
    /// was shipped meanwhile.
    pub async fn fetch_archive(&self, dir: &Path) -> Result<Assembled, FleetError> {
        std::fs::create_dir_all(dir).map_err(|error| not_written(dir, &error))?;
        let mut assembled = Assembled::default();
        for (name, chunks) in self.warc_chunks().await?.0 {
            let path = dir.join(&name);
            let (bytes, fetched) = self.assemble_file(&path, chunks.values()).await?;
            assembled.bytes += bytes;
            assembled.fetched_bytes += fetched;
            assembled.files.push(path);
        }
        Ok(assembled)
    }

    /// Writes one file from its chunks to `path`; what is there already stays. Gives its length, and how much of it was
    /// fetched.
    pub async fn assemble_file<'a>(
        &self,
        path: &Path,
        chunks: impl Iterator<Item = &'a WarcChunk>,
    ) -> Result<(u64, u64), FleetError> {
        let wrong = |error: &std::io::Error| not_written(path, error);
        let mut options = OpenOptions::new();
        let file: File = options
            .create(true)
            .append(false)
            .write(true)
            .read(true)
            .truncate(false)
            .open(path)
            .map_err(|e| wrong(&e))?;
        let there = file.metadata().map_err(|error| wrong(&error))?.len();
        let (mut end, mut fetched) = (0, 0);
        for chunk in chunks {
            if chunk.offset != end {
                let what = format!(
                    "{} has no bytes from {end} to {}",
                    path.display(),
                    chunk.offset
                );
                return Err(FleetError::Damaged(what));
            }
            end += chunk.bytes;
            if end <= there {
                continue;
            }
            let bytes = self.blobs().get(&chunk.key).await;
            let bytes = bytes.filter(|bytes| bytes.len() as u64 == chunk.bytes);
            let missing = || FleetError::Damaged(format!("the store has lost {}", chunk.key));
            file.write_all_at(&bytes.ok_or_else(missing)?, chunk.offset)
                .map_err(|error| wrong(&error))?;
            fetched += chunk.bytes;
        }
        file.sync_all().map_err(|error| wrong(&error))?;
        Ok((end, fetched))
    }
}

impl Fleet {
    /// See `Stored::fetch_archive`.
    pub async fn fetch_archive(&self, dir: &Path) -> Result<Assembled, FleetError> {
        Stored::of(self.clone()).await?.fetch_archive(dir).await
    }
}

fn not_written(path: &Path, error: &std::io::Error) -> FleetError {
    FleetError::Refused(format!("{} cannot be written: {error}", path.display()))
}
