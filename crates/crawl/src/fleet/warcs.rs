//! Which bytes of a node's WARC files are in the store, and which are to be put there next.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;
use portolan_archive::numbered_warcs;
use portolan_fleet::{Blobs, WarcChunk, warc_key};

use crate::crawl::ARCHIVE_DIR;
use crate::error::CrawlError;

/// No object of a WARC file is larger.
const CHUNK_BYTES: u64 = 32 << 20;

/// The WARC files of a node, and how far they are shipped. Clones know the same.
#[derive(Clone)]
pub(super) struct Warcs {
    dir: PathBuf,
    /// What this node's files begin with.
    prefix: String,
    /// The file that was shipped last, and how far. All before it are shipped whole.
    shipped: Arc<Mutex<Option<(String, u64)>>>,
}

impl Warcs {
    pub(super) fn new(dir: &Path, prefix: String, shipped: Option<(String, u64)>) -> Self {
        Self {
            dir: dir.to_owned(),
            prefix,
            shipped: Arc::new(Mutex::new(shipped)),
        }
    }

    /// Puts what is there up to `end`, a file's number and a place in it, into the store.
    pub(super) async fn ship(
        &self,
        blobs: &Blobs,
        end: (u32, u64),
    ) -> Result<Vec<WarcChunk>, CrawlError> {
        let mut chunks = Vec::new();
        for (number, name, from) in self.unshipped()? {
            if number > end.0 {
                continue;
            }
            let path = self.dir.join(ARCHIVE_DIR).join(&name);
            let at = |source| CrawlError::File {
                path: path.clone(),
                source,
            };
            let file = File::open(&path).map_err(at)?;
            let to = match number == end.0 {
                true => end.1,
                false => file.metadata().map_err(at)?.len(),
            };
            let mut offset = from;
            while offset < to {
                let bytes = CHUNK_BYTES.min(to - offset);
                let mut read = vec![0; bytes as usize];
                file.read_exact_at(&mut read, offset).map_err(at)?;
                let key = warc_key(&name, offset);
                blobs.put(&key, Bytes::from(read)).await;
                chunks.push(WarcChunk {
                    file: name.clone(),
                    offset,
                    bytes,
                    key,
                });
                offset += bytes;
                *self.shipped.lock().unwrap_or_else(PoisonError::into_inner) =
                    Some((name.clone(), offset));
            }
        }
        Ok(chunks)
    }

    /// Removes files that are in the store whole, with their indexes, and that nothing is added to any longer.
    pub(super) async fn let_go(&self, blobs: &Blobs) -> Result<(), CrawlError> {
        let Some((current, _)) = self.end() else {
            return Ok(());
        };
        let all = numbered_warcs(&self.dir, &self.prefix)?;
        for (_, name) in all.into_iter().take_while(|(_, name)| *name != current) {
            let index = index_of(&name);
            let path = self.dir.join(&index);
            // A file is closed once its index is written.
            let Ok(read) = std::fs::read(&path) else {
                continue;
            };
            blobs.put(&index, Bytes::from(read)).await;
            let path = self.dir.join(ARCHIVE_DIR).join(&name);
            std::fs::remove_file(&path).map_err(|source| CrawlError::File { path, source })?;
        }
        Ok(())
    }

    /// Where the shipped bytes end.
    pub(super) fn end(&self) -> Option<(String, u64)> {
        let shipped = self.shipped.lock().unwrap_or_else(PoisonError::into_inner);
        shipped.clone()
    }

    /// Bytes that are on this node's disk only.
    pub(super) fn unshipped_bytes(&self) -> Result<u64, CrawlError> {
        let mut bytes = 0;
        for (_, name, from) in self.unshipped()? {
            let path = self.dir.join(ARCHIVE_DIR).join(&name);
            let length = std::fs::metadata(&path).map_or(0, |found| found.len());
            bytes += length.saturating_sub(from);
        }
        Ok(bytes)
    }

    /// The files that are not shipped whole: number, name, and how far they are.
    fn unshipped(&self) -> Result<Vec<(u32, String, u64)>, CrawlError> {
        let all = numbered_warcs(&self.dir, &self.prefix)?;
        let (name, offset) = self.end().unwrap_or_default();
        let last = all.iter().position(|(_, known)| *known == name);
        let left = all.into_iter().skip(last.unwrap_or(0));
        let from = |known: &str| if known == name { offset } else { 0 };
        Ok(left
            .map(|(number, known)| {
                let from = from(&known);
                (number, known, from)
            })
            .collect())
    }

    /// Puts the indexes of the closed files into the store.
    pub(super) async fn ship_indexes(&self, blobs: &Blobs) -> Result<(), CrawlError> {
        for (_, name) in numbered_warcs(&self.dir, &self.prefix)? {
            let index = index_of(&name);
            let path = self.dir.join(&index);
            match std::fs::read(&path) {
                Ok(read) => blobs.put(&index, Bytes::from(read)).await,
                Err(source) if source.kind() == std::io::ErrorKind::NotFound => {}
                Err(source) => return Err(CrawlError::File { path, source }),
            }
        }
        Ok(())
    }
}

fn index_of(name: &str) -> String {
    let stem = name.trim_end_matches(".gz").trim_end_matches(".warc");
    format!("index/{stem}.cdxj")
}
