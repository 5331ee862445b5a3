//! After a crash: cuts the archive to what was logged and makes the index follow it. Runs once,
//! before the writer; never touches a byte that a logged visit names.

use crate::append_file::sync_dir;
use crate::cdxj::{self, PartIndex, close_index, position_of, read_line};
use crate::date::timestamp_of_warc_date;
use crate::digest;
use crate::error::ArchiveError;
use crate::head::HttpHead;
use crate::member::RECORD_END;
use crate::read::{MAX_HTTP_HEAD_BYTES, Record, WarcReader};
use crate::settings::{ArchiveSettings, Compression, DurableEnd};
use crate::writer::Places;
use std::fs::{self, File, OpenOptions};
use std::io::{BufReader, Read};
use std::path::Path;

/// What recovery did. All zero after a clean stop.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Recovery {
    /// Bytes cut off the last file.
    pub cut_bytes: u64,
    /// Later files that were removed.
    pub files_removed: usize,
    pub removed_bytes: u64,
    /// Files whose index was closed or written again.
    pub indexes_written: usize,
    /// Index lines that were lost and taken from the WARC again.
    pub lines_rebuilt: u64,
    /// Faults met while doing so; `verify` names them.
    pub faults: u64,
}

pub(crate) fn recover_files(
    places: &Places,
    settings: &ArchiveSettings,
    durable: Option<DurableEnd>,
    surt: &dyn Fn(&str) -> String,
) -> Result<Recovery, ArchiveError> {
    let mut recovery = Recovery::default();
    let warcs = places.warcs()?;
    let (kept, later): (Vec<_>, Vec<_>) = warcs
        .into_iter()
        .partition(|(number, _)| durable.is_some_and(|durable| *number <= durable.file));
    let cut = find_cut(places, &kept, durable)?;

    for (_, name) in &later {
        recovery.removed_bytes += file_length(&places.archive.join(name))?;
        recovery.files_removed += 1;
    }
    recovery.cut_bytes = cut.as_ref().map_or(0, |(_, surplus)| *surplus);
    let discarded = recovery.removed_bytes + recovery.cut_bytes;
    if discarded > settings.discard_limit_bytes {
        return Err(ArchiveError::TooMuchToDiscard {
            dir: places.archive.clone(),
            bytes: discarded,
        });
    }

    remove_unfinished(places)?;
    if discarded > 0 {
        // It may name records that are about to go.
        remove_if_there(&places.merged)?;
    }
    // Last file first, so that a crash in here leaves no gap in the numbers.
    for (_, name) in later.iter().rev() {
        remove_if_there(&places.sorted(name))?;
        remove_if_there(&places.part(name))?;
        remove_if_there(&places.archive.join(name))?;
    }
    if let (Some((name, surplus)), Some(durable)) = (&cut, durable)
        && *surplus > 0
    {
        remove_if_there(&places.sorted(name))?;
        cut_file(&places.archive.join(name), durable.end)?;
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
    let mut head = Vec::new();
    while let Some(record) = reader.next_record()? {
        if !matches!(record.kind(), "response" | "revisit") {
            continue;
        }
        head.clear();
        reader
            .block()
            .take(MAX_HTTP_HEAD_BYTES)
            .read_to_end(&mut head)
            .map_err(ArchiveError::io("read", &warc))?;
        let start = index_line_start(&record, &head, surt);
        let length = reader.finish_record()?;
        index.make_room(&start)?;
        index.push(&start, length, record.offset, name);
        recovery.lines_rebuilt += 1;
    }
    recovery.faults += reader.take_faults().len() as u64;
    index.flush()?;
    close_index(&part, &places.sorted(name))
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

/// The same text as the builder's, from the record alone.
fn index_line_start(record: &Record, head: &[u8], surt: &dyn Fn(&str) -> String) -> String {
    let http = HttpHead::parse(head);
    let url = record.header("WARC-Target-URI").unwrap_or_default();
    let empty = digest::labelled(&digest::sha1(b""));
    cdxj::line_start(&cdxj::Entry {
        surt: &surt(url),
        timestamp: &record
            .header("WARC-Date")
            .and_then(timestamp_of_warc_date)
            .unwrap_or_else(|| "0".repeat(14)),
        url,
        mime: if record.kind() == "revisit" {
            Some("warc/revisit")
        } else {
            http.media_type()
        },
        status: Some(&http.status),
        digest: record.header("WARC-Payload-Digest").unwrap_or(&empty),
    })
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

fn cut_file(path: &Path, length: u64) -> Result<(), ArchiveError> {
    OpenOptions::new()
        .write(true)
        .open(path)
        .and_then(|file| {
            file.set_len(length)?;
            file.sync_all()
        })
        .map_err(ArchiveError::io("cut", path))
}

fn file_length(path: &Path) -> Result<u64, ArchiveError> {
    fs::metadata(path)
        .map(|metadata| metadata.len())
        .map_err(ArchiveError::io("look at", path))
}

fn remove_if_there(path: &Path) -> Result<(), ArchiveError> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            Err(ArchiveError::io("remove", path)(error))
        }
        _ => Ok(()),
    }
}
