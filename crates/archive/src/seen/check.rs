//! Reading the table from end to end, for who looks for damage. Changes nothing.

use super::manifest::Manifest;
use super::text::{Entry, FIXED_BYTES, MAX_URL_BYTES, url_bytes};
use crate::error::ArchiveError;
use std::fs::File;
use std::io::{self, BufReader, Read};
use std::path::{Path, PathBuf};

/// What a look at the table came to.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct SeenCheck {
    pub files: u64,
    pub bytes: u64,
    /// File, byte and what is wrong there.
    pub damage: Vec<(PathBuf, u64, String)>,
    /// Bytes of an entry that a crash cut off, at the end.
    pub torn_bytes: u64,
}

/// Looks at the table in `dir`.
pub fn check_seen(dir: &Path) -> Result<SeenCheck, ArchiveError> {
    let mut check = SeenCheck::default();
    let text = dir.join("text");
    let text_bytes = check.file(&text)?;
    let manifest = match Manifest::stored(dir)? {
        None => Manifest::default(),
        Some(Ok(manifest)) => {
            check.file(&dir.join("MANIFEST"))?;
            manifest
        }
        Some(Err(())) => {
            let path = dir.join("MANIFEST");
            check.file(&path)?;
            check.find(&path, 0, "it has a bad checksum");
            Manifest::default()
        }
    };
    for run in &manifest.runs {
        let path = dir.join(&run.name);
        if check.file(&path)?.is_some() {
            let found = checksum(&path).map_err(ArchiveError::io("read", &path))?;
            if found != run.checksum {
                check.find(&path, 0, "it has a bad checksum");
            }
        }
    }
    if let Some(length) = text_bytes {
        let wanted = manifest.text_length.max(manifest.closed_length);
        if length < wanted {
            let what = format!("it ends {} bytes early", wanted - length);
            check.find(&text, length, &what);
        } else {
            check.text(&text, length)?;
        }
    }
    Ok(check)
}

impl SeenCheck {
    /// The length of a file that should be there.
    fn file(&mut self, path: &Path) -> Result<Option<u64>, ArchiveError> {
        match std::fs::metadata(path) {
            Ok(metadata) => {
                self.files += 1;
                self.bytes += metadata.len();
                Ok(Some(metadata.len()))
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                self.find(path, 0, "the file is missing");
                Ok(None)
            }
            Err(error) => Err(ArchiveError::io("look at", path)(error)),
        }
    }

    fn find(&mut self, path: &Path, offset: u64, what: &str) {
        self.damage.push((path.to_owned(), offset, what.to_owned()));
    }

    /// Stops at the first entry that is damaged: where the next one starts is not certain then.
    fn text(&mut self, path: &Path, length: u64) -> Result<(), ArchiveError> {
        let file = File::open(path).map_err(ArchiveError::io("open", path))?;
        let mut source = BufReader::with_capacity(1 << 18, file);
        let mut entry = Vec::new();
        let mut at = 0;
        while at < length {
            entry.resize(FIXED_BYTES, 0);
            let left = length - at;
            if left < FIXED_BYTES as u64 {
                self.torn_bytes = left;
                return Ok(());
            }
            source
                .read_exact(&mut entry)
                .map_err(ArchiveError::io("read", path))?;
            let url_bytes = url_bytes(&entry);
            if url_bytes <= MAX_URL_BYTES && (FIXED_BYTES + url_bytes) as u64 > left {
                self.torn_bytes = left;
                return Ok(());
            }
            if url_bytes > MAX_URL_BYTES {
                self.find(path, at, "an entry has a bad length");
                return Ok(());
            }
            entry.resize(FIXED_BYTES + url_bytes, 0);
            source
                .read_exact(&mut entry[FIXED_BYTES..])
                .map_err(ArchiveError::io("read", path))?;
            if Entry::decode(&entry).is_none() {
                self.find(path, at, "an entry has a bad checksum");
                return Ok(());
            }
            at += entry.len() as u64;
        }
        Ok(())
    }
}

fn checksum(path: &Path) -> io::Result<u32> {
    let mut file = File::open(path)?;
    let mut hasher = crc32fast::Hasher::new();
    let mut piece = vec![0; 1 << 18];
    loop {
        match file.read(&mut piece)? {
            0 => return Ok(hasher.finalize()),
            read => hasher.update(&piece[..read]),
        }
    }
}
