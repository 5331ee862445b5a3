//! Whose archive is it? A registry and an archive that do not belong together would each take the other for damaged;
//! so both carry the id of their crawl.

use crate::append_file::sync_dir;
use crate::error::ArchiveError;
use crate::open::create;
use crate::settings::Compression;
use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

/// In `archive/`: one line with the id.
const ID_FILE: &str = "crawl-id";

/// How many WARC files the archive in `root` holds, whatever they are called.
pub fn count_warcs(root: &Path) -> Result<usize, ArchiveError> {
    let dir = root.join("archive");
    let entries = match fs::read_dir(&dir) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(0),
        Err(error) => return Err(ArchiveError::io("list", &dir)(error)),
    };
    let mut warcs = 0;
    for entry in entries {
        let entry = entry.map_err(ArchiveError::io("list", &dir))?;
        let name = entry.file_name();
        warcs += usize::from(name.to_str().and_then(Compression::of_name).is_some());
    }
    Ok(warcs)
}

/// Makes sure that the archive in `root` is that of the crawl `id`. An archive without WARC files becomes it.
pub fn claim_archive(root: &Path, id: &str) -> Result<(), ArchiveError> {
    if !is_claimed(root, id)? {
        write(root, &id_path(root), id)?;
    }
    Ok(())
}

/// Is the archive in `root` that of the crawl `id`? False if it is nobody's yet.
pub fn is_claimed(root: &Path, id: &str) -> Result<bool, ArchiveError> {
    let path = id_path(root);
    let found = match fs::read_to_string(&path) {
        Ok(text) => Some(text.trim().to_owned()),
        Err(error)
            if matches!(
                error.kind(),
                io::ErrorKind::NotFound | io::ErrorKind::InvalidData
            ) =>
        {
            None
        }
        Err(error) => return Err(ArchiveError::io("read", &path)(error)),
    };
    if found.as_deref() == Some(id) {
        return Ok(true);
    }
    if count_warcs(root)? > 0 {
        return Err(match found {
            Some(found) => ArchiveError::OtherCrawl {
                dir: root.join("archive"),
                found,
                id: id.to_owned(),
            },
            None => ArchiveError::NoCrawlId {
                path,
                id: id.to_owned(),
            },
        });
    }
    Ok(false)
}

fn id_path(root: &Path) -> PathBuf {
    root.join("archive").join(ID_FILE)
}

fn write(root: &Path, path: &Path, id: &str) -> Result<(), ArchiveError> {
    let dir = root.join("archive");
    fs::create_dir_all(&dir).map_err(ArchiveError::io("create", &dir))?;
    sync_dir(root)?;
    let unfinished = path.with_extension("tmp");
    let replace = || -> io::Result<()> {
        let mut file = create(&unfinished)?;
        writeln!(file, "{id}")?;
        file.sync_all()?;
        fs::rename(&unfinished, path)
    };
    replace().map_err(ArchiveError::io("write", path))?;
    sync_dir(&dir)
}
