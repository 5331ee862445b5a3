//! Does the index of a WARC file name what the file holds? A disk that loses the end of an index does so
//! without a word, and replay would miss pages.

use crate::cdxj::{position_of, read_line};
use crate::error::ArchiveError;
use crate::verify::Report;
use crate::writer::stem_of;
use std::collections::BTreeSet;
use std::fs::File;
use std::io::BufReader;
use std::path::{Path, PathBuf};

/// How an index differs from its file.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct IndexFaults {
    pub path: PathBuf,
    /// Responses and revisits that it does not name.
    pub missing: u64,
    /// Lines about records that are not there.
    pub surplus: u64,
    /// Lines that cannot be read.
    pub broken: u64,
    /// Lines that stand before the one before them.
    pub unsorted: u64,
}

impl IndexFaults {
    fn is_none(&self) -> bool {
        self.missing + self.surplus + self.broken + self.unsorted == 0
    }
}

/// Compares the index that a crawl keeps of a verified file; `None` if they agree, or there is none: the
/// file that is being written has no sorted one yet.
pub fn check_index(report: &Report) -> Result<Option<IndexFaults>, ArchiveError> {
    let Some(path) = index_of(&report.path).filter(|path| path.exists()) else {
        return Ok(None);
    };
    let mut faults = IndexFaults {
        path,
        missing: 0,
        surplus: 0,
        broken: 0,
        unsorted: 0,
    };
    let path = &faults.path;
    let file = File::open(path).map_err(ArchiveError::io("open", path))?;
    let mut source = BufReader::new(file);
    let mut left: BTreeSet<u64> = report.captures.iter().copied().collect();
    let (mut line, mut before) = (Vec::new(), Vec::new());
    loop {
        let read = read_line(&mut source, &mut line).map_err(ArchiveError::io("read", path))?;
        if read == 0 {
            break;
        }
        match position_of(&line) {
            None => faults.broken += 1,
            Some((offset, _)) if left.remove(&offset) => {}
            Some(_) => faults.surplus += 1,
        }
        faults.unsorted += u64::from(line < before);
        std::mem::swap(&mut line, &mut before);
    }
    faults.missing = left.len() as u64;
    Ok((!faults.is_none()).then_some(faults))
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
