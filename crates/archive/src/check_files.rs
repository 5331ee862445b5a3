//! Are the WARC files there that visits were logged in, and as long as they were? Looks at names and lengths only, so
//! that every start can afford it; `verify` reads the files.

use crate::error::ArchiveError;
use crate::writer::Places;
use std::collections::BTreeMap;
use std::fmt;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// How a WARC file differs from what was logged.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct FileFault {
    /// The file, or the directory that it is missing from.
    pub path: PathBuf,
    pub number: u32,
    /// Bytes that it has; `None`: it is not there.
    pub found: Option<u64>,
    /// Bytes that visits were logged in.
    pub logged: u64,
}

impl FileFault {
    /// In words, without the path.
    pub fn what(&self) -> String {
        let (number, logged) = (self.number, self.logged);
        match self.found {
            None => format!(
                "WARC file number {number} is missing, in which visits are logged up to byte {logged}"
            ),
            Some(found) if found < logged => format!(
                "it has {found} bytes, but visits are logged up to byte {logged}: its end is missing"
            ),
            Some(found) => {
                format!("it has {found} bytes, but visits are logged up to byte {logged} only")
            }
        }
    }
}

impl fmt::Display for FileFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.path.display(), self.what())
    }
}

/// The WARC file of that number in the archive of the crawl in `root`; `None` if it is not there.
pub fn warc_path(root: &Path, prefix: &str, number: u32) -> Result<Option<PathBuf>, ArchiveError> {
    let places = Places::new(root, prefix)?;
    let warcs = places.warcs()?;
    let found = warcs.into_iter().find(|(found, _)| *found == number);
    Ok(found.map(|(_, name)| places.archive.join(name)))
}

/// Compares the archive in `root` with `logged`: how far visits were logged in each file, by its number. Beyond
/// the last of them a running crawl writes, and a crash may have left something.
pub fn check_files(
    root: &Path,
    prefix: &str,
    logged: &[(u32, u64)],
) -> Result<Vec<FileFault>, ArchiveError> {
    let places = Places::new(root, prefix)?;
    let warcs: BTreeMap<u32, String> = if places.archive.is_dir() {
        places.warcs()?.into_iter().collect()
    } else {
        BTreeMap::new()
    };
    let last = logged.iter().map(|(number, _)| *number).max();
    let mut faults = Vec::new();
    for &(number, logged) in logged {
        let name = warcs.get(&number);
        let path = name.map_or(places.archive.clone(), |name| places.archive.join(name));
        let found = match name.map(|_| fs::metadata(&path)) {
            None => None,
            Some(Ok(metadata)) => Some(metadata.len()),
            Some(Err(error)) if error.kind() == io::ErrorKind::NotFound => None,
            Some(Err(error)) => return Err(ArchiveError::io("look at", &path)(error)),
        };
        let fits = match found {
            Some(found) if Some(number) == last => found >= logged,
            found => found == Some(logged),
        };
        if !fits {
            faults.push(FileFault {
                path,
                number,
                found,
                logged,
            });
        }
    }
    Ok(faults)
}
