//! Which partitions a node of a fleet holds: a small file beside its journal. A registry without one holds all.

use crate::error::{At, RegistryError, Result};
use crate::files::replace_file;
use portolan_model::PartitionId;
use std::fs;
use std::io;
use std::path::Path;

const NAME: &str = "held";
const HEAD: &str = "portolan holds:";

/// Replaces the list in a journal's directory.
pub(crate) fn write_held(journal: &Path, ids: &[PartitionId]) -> Result<()> {
    let mut text = HEAD.to_owned();
    for id in ids {
        text.push_str(&format!(" {}", id.0));
    }
    let crc = crc32fast::hash(text.as_bytes());
    replace_file(
        journal,
        NAME,
        format!("{text} checksum {crc:08x}\n").as_bytes(),
    )
}

/// `None` where there is no list.
pub(crate) fn read_held(journal: &Path) -> Result<Option<Vec<PartitionId>>> {
    let path = journal.join(NAME);
    let text = match fs::read_to_string(&path) {
        Ok(text) => text,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error).at(&path),
    };
    let read = || {
        let (body, crc) = text.trim_end().split_once(" checksum ")?;
        if u32::from_str_radix(crc, 16).ok()? != crc32fast::hash(body.as_bytes()) {
            return None;
        }
        let ids = body.strip_prefix(HEAD)?.split_whitespace();
        ids.map(|id| id.parse().ok().map(PartitionId)).collect()
    };
    match read() {
        Some(ids) => Ok(Some(ids)),
        None => Err(RegistryError::corrupt(
            &path,
            0,
            "it is not a list of partitions",
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_list_comes_back() {
        let dir = tempfile::tempdir().unwrap();
        assert_eq!(read_held(dir.path()).unwrap(), None);
        for ids in [vec![], vec![PartitionId(0), PartitionId(300)]] {
            write_held(dir.path(), &ids).unwrap();
            assert_eq!(read_held(dir.path()).unwrap(), Some(ids));
        }
        let path = dir.path().join(NAME);
        let text = fs::read_to_string(&path).unwrap();
        fs::write(&path, text.replace("300", "301")).unwrap();
        assert!(read_held(dir.path()).is_err());
    }
}
