//! One line a record, and the bytes of one record: what a person looks into an archive with.

use crate::error::ArchiveError;
use crate::head::HttpHead;
use crate::read::{MAX_HTTP_HEAD_BYTES, WarcReader, WarcRecord};
use std::io::{self, Read, Write};
use std::path::Path;

/// What a list shows of a record; empty where the record does not say.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Listed {
    pub offset: u64,
    /// Of its gzip member, or of header and block in a plain file.
    pub length: u64,
    pub kind: String,
    pub date: String,
    pub url: String,
    /// Of the HTTP head.
    pub status: String,
    /// Of the HTTP head, else of the record.
    pub mime: String,
    pub digest: String,
}

/// The records of a file in their order.
pub struct Listing {
    reader: WarcReader,
    failed: bool,
}

pub fn list(path: &Path) -> Result<Listing, ArchiveError> {
    Ok(Listing {
        reader: WarcReader::open(path)?,
        failed: false,
    })
}

impl Listing {
    /// Faults that were met; `verify` finds more.
    pub fn faults(&mut self) -> u64 {
        self.reader.take_faults().len() as u64
    }

    fn read_next(&mut self) -> Result<Option<Listed>, ArchiveError> {
        let Some(record) = self.reader.next_record()? else {
            return Ok(None);
        };
        let text = |name: &str| record.header(name).unwrap_or_default().to_owned();
        let (mut status, mut mime) = (String::new(), text("Content-Type"));
        if record.is_http() {
            let head = read_head(&mut self.reader)?;
            let http = HttpHead::parse(&head);
            if record.kind() != "request" {
                status = http.status.clone().into_owned();
            }
            mime = http.media_type().unwrap_or_default().to_owned();
        }
        Ok(Some(Listed {
            offset: record.offset,
            length: self.reader.finish_record()?,
            kind: record.kind().to_owned(),
            date: text("WARC-Date"),
            url: text("WARC-Target-URI"),
            status,
            mime,
            digest: text("WARC-Payload-Digest"),
        }))
    }
}

impl Iterator for Listing {
    type Item = Result<Listed, ArchiveError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.failed {
            return None;
        }
        let next = self.read_next();
        self.failed = next.is_err();
        next.transpose()
    }
}

/// Which record.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Cat<'a> {
    /// The one that starts there.
    Offset(u64),
    /// The first response, revisit, resource or conversion of that URL.
    Url(&'a str),
    /// The record whose payload this revisit stands for.
    Original(&'a WarcRecord),
}

/// How much of it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Part {
    /// Header, block and the line ends behind them.
    Record,
    Block,
    /// The block without its HTTP head. Content encoding stays.
    Payload,
}

/// Writes a record, or part of it, to `out`; returns its header, or `None` if there is none such.
pub fn cat(
    path: &Path,
    which: Cat<'_>,
    part: Part,
    out: &mut dyn Write,
) -> Result<Option<WarcRecord>, ArchiveError> {
    let Some((record, mut reader)) = find(path, which)? else {
        return Ok(None);
    };
    write_part(&record, &mut reader, part, out)
        .map_err(ArchiveError::io("copy a record of", path))?;
    Ok(Some(record))
}

/// The first record that `which` names, with a reader that stands at its block.
pub(crate) fn find(
    path: &Path,
    which: Cat<'_>,
) -> Result<Option<(WarcRecord, WarcReader)>, ArchiveError> {
    let offset = match which {
        Cat::Offset(offset) => offset,
        Cat::Url(_) | Cat::Original(_) => 0,
    };
    let mut reader = WarcReader::open_at(path, offset)?;
    while let Some(record) = reader.next_record()? {
        let found = match which {
            Cat::Offset(offset) if record.offset != offset => return Ok(None),
            Cat::Offset(_) => true,
            Cat::Url(url) => {
                record.header("WARC-Target-URI") == Some(url)
                    && matches!(
                        record.kind(),
                        "response" | "revisit" | "resource" | "conversion"
                    )
            }
            Cat::Original(revisit) => is_original(&record, revisit),
        };
        if found {
            return Ok(Some((record, reader)));
        }
    }
    Ok(None)
}

/// Does `revisit` refer to this record? By its id, or by URL and date, whichever it names.
fn is_original(record: &WarcRecord, revisit: &WarcRecord) -> bool {
    if !matches!(record.kind(), "response" | "resource") {
        return false;
    }
    let same = |of_revisit: &str, name: &str| {
        let wanted = revisit.header(of_revisit);
        wanted.is_some() && wanted == record.header(name)
    };
    same("WARC-Refers-To", "WARC-Record-ID")
        || (same("WARC-Refers-To-Target-URI", "WARC-Target-URI")
            && same("WARC-Refers-To-Date", "WARC-Date"))
}

fn write_part(
    record: &WarcRecord,
    reader: &mut WarcReader,
    part: Part,
    out: &mut dyn Write,
) -> io::Result<()> {
    match part {
        Part::Record => {
            out.write_all(&record.header_bytes)?;
            io::copy(&mut reader.block(), out)?;
            let end: &[u8] = if record.version == "ARC/1" {
                b"\n"
            } else {
                b"\r\n\r\n"
            };
            out.write_all(end)?;
        }
        Part::Payload if record.is_http() => {
            let mut start = Vec::new();
            reader
                .block()
                .take(MAX_HTTP_HEAD_BYTES)
                .read_to_end(&mut start)?;
            let head = HttpHead::parse(&start);
            // Without an end of the head there is nothing to cut off.
            let from = if head.complete { head.end } else { 0 };
            out.write_all(&start[from..])?;
            io::copy(&mut reader.block(), out)?;
        }
        Part::Block | Part::Payload => {
            io::copy(&mut reader.block(), out)?;
        }
    }
    out.flush()
}

fn read_head(reader: &mut WarcReader) -> Result<Vec<u8>, ArchiveError> {
    let mut head = Vec::new();
    let path = reader.path().to_owned();
    // Most heads are short: do not inflate a megabyte to list a record.
    let mut limit = 8 << 10;
    loop {
        let wanted = limit - head.len() as u64;
        let read = reader
            .block()
            .take(wanted)
            .read_to_end(&mut head)
            .map_err(ArchiveError::io("read", &path))?;
        if (read as u64) < wanted || limit >= MAX_HTTP_HEAD_BYTES || HttpHead::parse(&head).complete
        {
            return Ok(head);
        }
        limit *= 4;
    }
}
