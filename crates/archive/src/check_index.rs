//! Does the index of a WARC file name what the file holds? A disk that loses the end of an index does so
//! without a word, and replay would miss pages.

use crate::cdxj::{position_of, read_line};
use crate::error::ArchiveError;
use crate::verify::FileCheck;
use crate::writer::stem_of;
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, BufReader};
use std::path::{Path, PathBuf};
use xxhash_rust::xxh3::xxh3_64;

/// How an index differs from its file.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct IndexFaults {
    pub path: PathBuf,
    /// The file is not there at all.
    pub absent: bool,
    /// Responses and revisits that it does not name.
    pub missing: u64,
    /// Lines about records that are not there.
    pub surplus: u64,
    /// Lines that cannot be read, or that say something else than the record.
    pub broken: u64,
    /// Lines that stand before the one before them.
    pub unsorted: u64,
}

impl IndexFaults {
    fn none(path: PathBuf) -> Self {
        Self {
            path,
            absent: false,
            missing: 0,
            surplus: 0,
            broken: 0,
            unsorted: 0,
        }
    }

    fn is_none(&self) -> bool {
        !self.absent && self.missing + self.surplus + self.broken + self.unsorted == 0
    }
}

/// Compares the index that a crawl keeps of a verified file; `None` if they agree, or there is none to be: the
/// file is not in a crawl's archive, or it is being written and has no sorted one yet.
pub fn check_index(report: &FileCheck) -> Result<Option<IndexFaults>, ArchiveError> {
    let Some(path) = index_of(&report.path) else {
        return Ok(None);
    };
    if path.with_extension("cdxj.part").exists() && !path.exists() {
        return Ok(None);
    }
    let mut faults = IndexFaults::none(path);
    let path = &faults.path;
    let mut left: BTreeMap<u64, Option<u64>> = report
        .captures
        .iter()
        .map(|captured| (captured.offset, captured.line))
        .collect();
    match File::open(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => faults.absent = true,
        Err(error) => return Err(ArchiveError::io("open", path)(error)),
        Ok(file) => {
            let mut source = BufReader::new(file);
            let (mut line, mut before) = (Vec::new(), Vec::new());
            while read_line(&mut source, &mut line).map_err(ArchiveError::io("read", path))? > 0 {
                match position_of(&line).map(|(offset, _)| left.remove(&offset)) {
                    None => faults.broken += 1,
                    Some(None) => faults.surplus += 1,
                    Some(Some(hash)) => {
                        let differs = hash.is_some_and(|hash| hash != xxh3_64(&line));
                        faults.broken += u64::from(differs);
                    }
                }
                faults.unsorted += u64::from(line < before);
                std::mem::swap(&mut line, &mut before);
            }
        }
    }
    faults.missing = left.len() as u64;
    Ok((!faults.is_none()).then_some(faults))
}

/// Compares the merged index of the archive in `root` with the indexes of its files: the same lines, and sorted. One file
/// after the other, so that however many there are, few are open. `None` if they agree. The merged index is
/// written when a crawl ends: do not ask while one is under way or was cut off.
pub fn check_merged_index(root: &Path) -> Result<Option<IndexFaults>, ArchiveError> {
    let (dir, path) = (root.join("index"), root.join("index.cdxj"));
    let (mut expected, mut files) = (Lines::default(), 0);
    for entry in fs::read_dir(&dir).map_err(ArchiveError::io("list", &dir))? {
        let input = entry.map_err(ArchiveError::io("list", &dir))?.path();
        if input
            .extension()
            .is_some_and(|extension| extension == "cdxj")
        {
            expected.read(&input)?;
            files += 1;
        }
    }
    let mut faults = IndexFaults::none(path.clone());
    if !path.exists() {
        faults.absent = files > 0;
        return Ok(faults.absent.then_some(faults));
    }
    let mut found = Lines::default();
    found.read(&path)?;
    faults.missing = expected.count.saturating_sub(found.count);
    faults.surplus = found.count.saturating_sub(expected.count);
    faults.unsorted = found.unsorted;
    faults.broken = found.broken;
    if faults.is_none() && found.sum != expected.sum {
        // As many lines, but not the same.
        faults.broken = 1;
    }
    Ok((!faults.is_none()).then_some(faults))
}

/// What two sets of lines are compared by.
#[derive(Default)]
struct Lines {
    count: u64,
    /// Of the lines' hashes: the same for the same lines in any order.
    sum: u64,
    broken: u64,
    unsorted: u64,
}

impl Lines {
    fn read(&mut self, path: &Path) -> Result<(), ArchiveError> {
        let file = File::open(path).map_err(ArchiveError::io("open", path))?;
        let mut source = BufReader::with_capacity(1 << 18, file);
        let (mut line, mut before) = (Vec::new(), Vec::new());
        while read_line(&mut source, &mut line).map_err(ArchiveError::io("read", path))? > 0 {
            self.count += 1;
            self.sum = self.sum.wrapping_add(xxh3_64(&line));
            self.broken += u64::from(position_of(&line).is_none());
            self.unsorted += u64::from(line < before);
            std::mem::swap(&mut line, &mut before);
        }
        Ok(())
    }
}

/// `archive/NAME.warc.gz` has its index in `index/NAME.cdxj`.
fn index_of(warc: &Path) -> Option<PathBuf> {
    let archive = warc.parent()?;
    if archive.file_name()? != "archive" {
        return None;
    }
    let name = warc.file_name()?.to_str()?;
    let index = format!("{}.cdxj", stem_of(name)?);
    Some(archive.parent()?.join("index").join(index))
}
