//! After a crash: makes archive and log agree, and the index follow. Runs once, before the writer; never touches a
//! byte that a logged visit names, and cuts nothing but what the crash tore in half (see `set_aside`).

use crate::append_file::sync_dir;
use crate::cdxj::{PartIndex, close_index, line_start_of, position_of, read_line};
use crate::error::ArchiveError;
use crate::head::HttpHead;
use crate::member::RECORD_END;
use crate::open::no_links;
use crate::read::{MAX_HTTP_HEAD_BYTES, WarcReader};
use crate::set_aside::{set_file_aside, set_tail_aside};
use crate::settings::{Compression, DurableEnd};
use crate::writer::Places;
use std::fs::{self, File};
use std::io::{BufReader, Read};
use std::path::Path;

/// What recovery did. All zero after a clean stop.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Recovery {
    /// Bytes of torn records, which were cut off.
    pub cut_bytes: u64,
    /// Files in `archive/set-aside/` that this recovery has added,
    pub set_aside_files: u64,
    /// how many whole records they hold that no logged visit names,
    pub set_aside_records: u64,
    /// and how many bytes.
    pub set_aside_bytes: u64,
    /// Files whose index was closed or written again.
    pub indexes_written: usize,
    /// Index lines that were lost and taken from the WARC again.
    pub lines_rebuilt: u64,
    /// Faults met while doing so; `verify` names them.
    pub faults: u64,
}

pub(crate) fn recover_files(
    places: &Places,
    durable: Option<DurableEnd>,
    surt: &dyn Fn(&str) -> String,
) -> Result<Recovery, ArchiveError> {
    let mut recovery = Recovery::default();
    let warcs = places.warcs()?;
    let (kept, later): (Vec<_>, Vec<_>) = warcs
        .into_iter()
        .partition(|(number, _)| durable.is_some_and(|durable| *number <= durable.file));
    let cut = find_cut(places, &kept, durable)?;
    remove_unfinished(places)?;
    let surplus = cut.as_ref().map_or(0, |(_, surplus)| *surplus);
    if !later.is_empty() || surplus > 0 {
        // It may name records that are about to go elsewhere. It is merged again in the end.
        remove_if_there(&places.merged)?;
    }
    // Last file first, so that a crash in here leaves no gap in the numbers.
    for (at, (_, name)) in later.iter().enumerate().rev() {
        set_file_aside(places, name, at + 1 == later.len(), &mut recovery)?;
    }
    if let (Some((name, surplus)), Some(durable)) = (&cut, durable)
        && *surplus > 0
    {
        set_tail_aside(places, name, durable.end, &mut recovery)?;
    }
    sync_dir(&places.archive)?;
    for (_, name) in &kept {
        if places.sorted(name).exists() {
            // A crash between naming the sorted index and removing the part file.
            remove_if_there(&places.part(name))?;
        } else {
            write_index(places, name, surt, &mut recovery)?;
            recovery.indexes_written += 1;
        }
    }
    sync_dir(&places.index)?;
    Ok(recovery)
}

/// The file that visits were last logged in, and how many bytes it has beyond.
fn find_cut(
    places: &Places,
    kept: &[(u32, String)],
    durable: Option<DurableEnd>,
) -> Result<Option<(String, u64)>, ArchiveError> {
    let Some(durable) = durable else {
        return Ok(None);
    };
    let Some((_, name)) = kept.last().filter(|(number, _)| *number == durable.file) else {
        return Err(ArchiveError::FileMissing {
            dir: places.archive.clone(),
            number: durable.file,
        });
    };
    let path = places.archive.join(name);
    let found = file_length(&path)?;
    match found.checked_sub(durable.end) {
        Some(surplus) => Ok(Some((name.clone(), surplus))),
        None => Err(ArchiveError::CutShort {
            path,
            found,
            logged: durable.end,
        }),
    }
}

/// Keeps the whole lines of the part file, takes the rest from the WARC, and sorts them.
fn write_index(
    places: &Places,
    name: &str,
    surt: &dyn Fn(&str) -> String,
    recovery: &mut Recovery,
) -> Result<(), ArchiveError> {
    let warc = places.archive.join(name);
    let part = places.part(name);
    let between = match Compression::of_name(name) {
        Some(Compression::None) => RECORD_END.len() as u64,
        _ => 0,
    };
    let (lines_end, records_end) = whole_lines(&part, file_length(&warc)?, between)?;
    if part.exists() {
        cut_file(&part, lines_end)?;
    }
    let mut index = PartIndex::open_at(&part, lines_end)?;
    let mut reader = WarcReader::open_at(&warc, records_end)?;
    recovery.lines_rebuilt += add_lines(&mut index, &mut reader, &warc, name, surt)?;
    recovery.faults += reader.take_faults().len() as u64;
    index.flush()?;
    close_index(&part, &places.sorted(name))
}

/// Writes the lines of the records from where the reader stands, and says how many they are.
fn add_lines(
    index: &mut PartIndex,
    reader: &mut WarcReader,
    warc: &Path,
    name: &str,
    surt: &dyn Fn(&str) -> String,
) -> Result<u64, ArchiveError> {
    let mut lines = 0;
    let mut head = Vec::new();
    while let Some(record) = reader.next_record()? {
        if !matches!(record.kind(), "response" | "revisit" | "resource") {
            continue;
        }
        head.clear();
        reader
            .block()
            .take(MAX_HTTP_HEAD_BYTES)
            .read_to_end(&mut head)
            .map_err(ArchiveError::io("read", warc))?;
        let start = line_start_of(&record, &HttpHead::parse(&head), surt);
        let length = reader.finish_record()?;
        index.make_room(&start)?;
        index.push(&start, length, record.offset, name);
        lines += 1;
    }
    Ok(lines)
}

/// Writes the sorted index of one WARC file, as a crawl keeps it, and gives its number of lines. `surt` is asked for the key
/// of a URL.
pub fn index_warc(
    warc: &Path,
    index: &Path,
    surt: &dyn Fn(&str) -> String,
) -> Result<u64, ArchiveError> {
    let name = warc.file_name().unwrap_or_default().to_string_lossy();
    let part = index.with_extension("part");
    let mut lines = PartIndex::open_at(&part, 0)?;
    let mut reader = WarcReader::open(warc)?;
    let written = add_lines(&mut lines, &mut reader, warc, &name, surt)?;
    lines.flush()?;
    close_index(&part, index)?;
    Ok(written)
}

/// Bytes of the part file that are whole lines about records before `warc_length`, in order; and
/// where the last of these records ends. `between` bytes lie behind each that its length leaves out.
fn whole_lines(part: &Path, warc_length: u64, between: u64) -> Result<(u64, u64), ArchiveError> {
    let file = match File::open(part) {
        Ok(file) => file,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok((0, 0)),
        Err(error) => return Err(ArchiveError::io("open", part)(error)),
    };
    let mut source = BufReader::new(file);
    let (mut lines_end, mut records_end) = (0, 0);
    let mut line = Vec::new();
    loop {
        let read = read_line(&mut source, &mut line).map_err(ArchiveError::io("read", part))?;
        let Some((offset, length)) = position_of(&line) else {
            return Ok((lines_end, records_end));
        };
        let end = offset.saturating_add(length).saturating_add(between);
        if offset < records_end || end > warc_length {
            return Ok((lines_end, records_end));
        }
        lines_end += read as u64;
        records_end = end;
    }
}

/// What a sort or merge left behind when it was interrupted.
fn remove_unfinished(places: &Places) -> Result<(), ArchiveError> {
    let mut dirs = vec![places.index.as_path()];
    dirs.extend(places.merged.parent());
    for dir in dirs {
        for entry in fs::read_dir(dir).map_err(ArchiveError::io("list", dir))? {
            let path = entry.map_err(ArchiveError::io("list", dir))?.path();
            let ours = path
                .file_name()
                .and_then(|name| name.to_str())
                .is_some_and(|name| {
                    (name.starts_with(&places.prefix) || name.starts_with("index."))
                        && name.ends_with(".tmp")
                });
            if ours {
                remove_if_there(&path)?;
            }
        }
    }
    Ok(())
}

pub(crate) fn cut_file(path: &Path, length: u64) -> Result<(), ArchiveError> {
    no_links()
        .write(true)
        .open(path)
        .and_then(|file| {
            file.set_len(length)?;
            file.sync_all()
        })
        .map_err(ArchiveError::io("cut", path))
}

pub(crate) fn file_length(path: &Path) -> Result<u64, ArchiveError> {
    fs::metadata(path)
        .map(|metadata| metadata.len())
        .map_err(ArchiveError::io("look at", path))
}

pub(crate) fn remove_if_there(path: &Path) -> Result<(), ArchiveError> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            Err(ArchiveError::io("remove", path)(error))
        }
        _ => Ok(()),
    }
}
