//! What recovery finds beyond the last logged visit: whole records are moved to `archive/set-aside/`, and only what a
//! crash tore in half is cut. The log may be the one that is wrong: an older copy, say.

use crate::append_file::sync_dir;
use crate::error::ArchiveError;
use crate::member::RECORD_END;
use crate::open::create;
use crate::read::WarcReader;
use crate::recover::{Recovery, cut_file, file_length, remove_if_there};
use crate::settings::Compression;
use crate::writer::{Places, stem_of};
use std::fs::{self, File};
use std::io::{self, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};

/// In `archive/`.
const SET_ASIDE_DIR: &str = "set-aside";

/// What a file holds from some place on.
struct Beyond {
    /// Whole records of what was fetched: `warcinfo` is the file's own and does not count.
    records: u64,
    /// What follows is torn, and holds no whole record.
    torn_from: u64,
}

/// Moves a file that the log does not know of out of the way, with its index. The last one ends where a crash
/// tore it; if no record in it is whole, it goes.
pub(crate) fn set_file_aside(
    places: &Places,
    name: &str,
    is_last: bool,
    recovery: &mut Recovery,
) -> Result<(), ArchiveError> {
    let path = places.archive.join(name);
    let length = file_length(&path)?;
    let beyond = whole_records(&path, 0, length)?;
    remove_if_there(&places.part(name))?;
    if is_last && beyond.records == 0 {
        remove_if_there(&places.sorted(name))?;
        recovery.cut_bytes += length;
        return remove_if_there(&path);
    }
    let dir = make_dir(places)?;
    let home = free_name(&dir, name);
    if is_last && beyond.torn_from < length {
        cut_file(&path, beyond.torn_from)?;
        recovery.cut_bytes += length - beyond.torn_from;
    }
    let sorted = places.sorted(name);
    if sorted.exists() {
        let beside = index_beside(&home);
        fs::rename(&sorted, &beside).map_err(ArchiveError::io("move to", &beside))?;
    }
    fs::rename(&path, &home).map_err(ArchiveError::io("move to", &home))?;
    sync_dir(&dir)?;
    recovery.set_aside_files += 1;
    recovery.set_aside_records += beyond.records;
    recovery.set_aside_bytes += file_length(&home)?;
    Ok(())
}

/// Cuts a file back to `end`, and sets the whole records beyond aside first.
pub(crate) fn set_tail_aside(
    places: &Places,
    name: &str,
    end: u64,
    recovery: &mut Recovery,
) -> Result<(), ArchiveError> {
    let path = places.archive.join(name);
    let length = file_length(&path)?;
    let beyond = whole_records(&path, end, length)?;
    if beyond.records > 0 {
        let dir = make_dir(places)?;
        let suffix = Compression::of_name(name).map_or("", Compression::suffix);
        let stem = stem_of(name).unwrap_or(name);
        // The same tail again, where a crash came between copying and cutting.
        let home = dir.join(format!("{stem}-from-{end}{suffix}"));
        copy_piece(&path, end, beyond.torn_from, &home)?;
        sync_dir(&dir)?;
        recovery.set_aside_files += 1;
        recovery.set_aside_records += beyond.records;
        recovery.set_aside_bytes += beyond.torn_from - end;
    }
    recovery.cut_bytes += length - beyond.torn_from;
    // Written again from the file, without what is cut.
    remove_if_there(&places.sorted(name))?;
    cut_file(&path, end)
}

/// Reads the file from `from` on.
fn whole_records(path: &Path, from: u64, length: u64) -> Result<Beyond, ArchiveError> {
    let mut beyond = Beyond {
        records: 0,
        torn_from: from,
    };
    let mut reader = match WarcReader::open_at(path, from) {
        Ok(reader) => reader,
        Err(ArchiveError::NotReadable { .. }) => return Ok(beyond),
        Err(error) => return Err(error),
    };
    let between = match path.to_str().and_then(Compression::of_name) {
        Some(Compression::None) => RECORD_END.len() as u64,
        _ => 0,
    };
    while let Some(record) = reader.next_record()? {
        // What was wrong before it is not this record's.
        reader.take_faults();
        let record_length = reader.finish_record()?;
        let end = record.offset + record_length + between;
        if reader.take_faults().is_empty() && end <= length {
            beyond.records += u64::from(record.kind() != "warcinfo");
            beyond.torn_from = end;
        }
    }
    Ok(beyond)
}

fn make_dir(places: &Places) -> Result<PathBuf, ArchiveError> {
    let dir = places.archive.join(SET_ASIDE_DIR);
    fs::create_dir_all(&dir).map_err(ArchiveError::io("create", &dir))?;
    sync_dir(&places.archive)?;
    Ok(dir)
}

/// The file's own name; with a number where an earlier recovery has used it.
fn free_name(dir: &Path, name: &str) -> PathBuf {
    let suffix = Compression::of_name(name).map_or("", Compression::suffix);
    let stem = stem_of(name).unwrap_or(name);
    let numbered = (2..).map(|number: u64| dir.join(format!("{stem}.{number}{suffix}")));
    std::iter::once(dir.join(name))
        .chain(numbered)
        .find(|path| !path.exists())
        .unwrap_or_else(|| dir.join(name))
}

/// `NAME.warc.gz` has its index in `NAME.cdxj`.
fn index_beside(warc: &Path) -> PathBuf {
    let name = warc.file_name().and_then(|name| name.to_str());
    let stem = name.and_then(stem_of).unwrap_or_default();
    warc.with_file_name(format!("{stem}.cdxj"))
}

/// Copies bytes of a file to another one, which appears whole or not at all.
fn copy_piece(from: &Path, start: u64, end: u64, to: &Path) -> Result<(), ArchiveError> {
    let unfinished = to.with_extension("tmp");
    let copy = || -> io::Result<()> {
        let mut source = File::open(from)?;
        source.seek(SeekFrom::Start(start))?;
        let mut target = create(&unfinished)?;
        io::copy(&mut source.take(end - start), &mut target)?;
        target.sync_all()?;
        fs::rename(&unfinished, to)
    };
    copy().map_err(ArchiveError::io("write", to))
}
