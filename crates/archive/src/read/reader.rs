//! Finds the records in a source and hands out their headers and blocks.

use super::source::{GZIP_MAGIC, Source, Stop, read_at};
use super::{MAX_FAULTS, MAX_HEADER_BYTES, arc};
use crate::error::ArchiveError;
use crate::fault::{Fault, quoted};
use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// What a file is, by its first bytes; its name is not asked.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Format {
    Warc,
    WarcGz,
    Arc,
    ArcGz,
}

/// The header of a record.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct WarcRecord {
    /// Where it starts in the file; in a gzip file, where its member starts.
    pub offset: u64,
    /// `WARC/1.1`, or `ARC/1`.
    pub version: String,
    /// As written; folded lines are joined. Those of an ARC record are named as in WARC.
    pub headers: Vec<(String, String)>,
    /// Content-Length, if it is a length.
    pub block_length: Option<u64>,
    /// The header as it stands in the file, blank line included.
    pub header_bytes: Vec<u8>,
}

impl WarcRecord {
    /// The first header of that name, whatever its case.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers
            .iter()
            .find(|(found, _)| found.eq_ignore_ascii_case(name))
            .map(|(_, value)| value.as_str())
    }

    /// WARC-Type; empty if there is none.
    pub fn kind(&self) -> &str {
        self.header("WARC-Type").unwrap_or_default()
    }

    /// Does the block start with an HTTP head?
    pub fn is_http(&self) -> bool {
        let said = self.header("Content-Type").unwrap_or_default();
        let http = said
            .get(..16)
            .is_some_and(|start| start.eq_ignore_ascii_case("application/http"));
        let web = || {
            let url = self.header("WARC-Target-URI").unwrap_or_default();
            url.starts_with("http:") || url.starts_with("https:")
        };
        http || (self.version == "ARC/1" && self.kind() == "response" && web())
    }
}

pub struct WarcReader {
    path: PathBuf,
    format: Format,
    source: Source,
    current: Option<Current>,
    /// The bytes that follow belong to no record, and that was said.
    lost: bool,
    faults: Vec<(u64, Fault)>,
}

/// The record being read.
struct Current {
    offset: u64,
    /// Bytes of the block not yet handed out.
    remaining: u64,
    /// Its length is unknown: no end to be checked.
    unframed: bool,
    /// Header and block of a plain file.
    plain_length: u64,
}

impl WarcReader {
    pub fn open(path: &Path) -> Result<Self, ArchiveError> {
        Self::open_at(path, 0)
    }

    /// Starts at the record at `offset`.
    pub fn open_at(path: &Path, offset: u64) -> Result<Self, ArchiveError> {
        let file = File::open(path).map_err(ArchiveError::io("open", path))?;
        let file = Arc::new(file);
        let mut start = [0; 16];
        let filled = read_at(&file, &mut start, 0).map_err(ArchiveError::io("read", path))?;
        let start = &start[..filled];
        let (format, source) = if start.starts_with(&GZIP_MAGIC) {
            let mut source = Source::gzip(Arc::clone(&file), 0);
            let arc = matches!(source.next_member(), Ok(true))
                && matches!(source.fill(), Ok(text) if text.starts_with(arc::OPENING));
            let format = if arc { Format::ArcGz } else { Format::WarcGz };
            (format, Source::gzip(file, offset))
        } else if start.starts_with(b"WARC/") {
            (Format::Warc, Source::plain(file, offset))
        } else if start.starts_with(arc::OPENING) {
            (Format::Arc, Source::plain(file, offset))
        } else {
            let fault = match start {
                [] => Fault::Empty,
                _ => Fault::NotAnArchive(quoted(start)),
            };
            return Err(ArchiveError::NotReadable {
                path: path.to_owned(),
                fault,
            });
        };
        Ok(Self {
            path: path.to_owned(),
            format,
            source,
            current: None,
            lost: false,
            faults: Vec::new(),
        })
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    pub fn format(&self) -> Format {
        self.format
    }

    /// The next record's header; `None` at the end. Errors are the disk's; a damaged file gives
    /// faults instead.
    pub fn next_record(&mut self) -> Result<Option<WarcRecord>, ArchiveError> {
        self.finish_record()?;
        loop {
            match self.try_next() {
                Ok(Found::Record(record)) => return Ok(Some(record)),
                Ok(Found::Again) => {}
                Ok(Found::End) => return Ok(None),
                Err(stop) => self.go_on_after(stop)?,
            }
        }
    }

    /// The rest of the current record's block.
    pub fn block(&mut self) -> Block<'_> {
        Block { reader: self }
    }

    /// Reads the current record to its end and returns its length: of its gzip member, or of header
    /// and block in a plain file.
    pub fn finish_record(&mut self) -> Result<u64, ArchiveError> {
        let mut discarded = [0; 8 << 10];
        loop {
            match self.block().read(&mut discarded) {
                Ok(0) => break,
                Ok(_) => {}
                Err(error) => return Err(ArchiveError::io("read", &self.path)(error)),
            }
        }
        let Some(current) = self.current.take() else {
            return Ok(0);
        };
        if !current.unframed {
            let ended = self.take_record_end(current.offset);
            if let Err(stop) = ended {
                self.go_on_after(stop)?;
            }
        }
        Ok(if self.source.is_gzip() {
            self.source.used_up_to().saturating_sub(current.offset)
        } else {
            current.plain_length
        })
    }

    /// Faults found since the last call, each with the offset of its record.
    pub fn take_faults(&mut self) -> Vec<(u64, Fault)> {
        std::mem::take(&mut self.faults)
    }

    fn is_arc(&self) -> bool {
        matches!(self.format, Format::Arc | Format::ArcGz)
    }

    fn try_next(&mut self) -> Result<Found, Stop> {
        if self.source.is_gzip() && self.source.fill()?.is_empty() {
            self.lost = false;
            if !self.source.next_member()? {
                return self.end_of_members();
            }
            // An empty member is no record, and no fault either: some writers close files with one.
            if self.source.fill()?.is_empty() {
                return Ok(Found::Again);
            }
        }
        let offset = self.source.offset();
        let taken = self.source.taken();
        let Some(first) = self.read_line()? else {
            return Ok(Found::End);
        };
        let begins = if self.is_arc() {
            arc::parse_header(&first.text(), &first.bytes, offset)
        } else if first.bytes.starts_with(b"WARC/") {
            Some(self.read_header(&first, offset)?)
        } else {
            None
        };
        let Some(record) = begins else {
            return self.skip_to_record(first, offset);
        };
        if self.source.is_gzip() && taken > 0 && !self.lost {
            self.note(offset, Fault::NotOwnMember);
        }
        if self.is_arc() && record.block_length.is_none() {
            let said = record.header("Content-Length").unwrap_or_default();
            self.note(offset, Fault::BadContentLength(said.to_owned()));
        }
        let remaining = record.block_length.unwrap_or(0);
        self.lost = record.block_length.is_none();
        self.current = Some(Current {
            offset,
            remaining,
            unframed: record.block_length.is_none(),
            plain_length: self.source.taken() - taken + remaining,
        });
        Ok(Found::Record(record))
    }

    /// Nothing that looks like a member follows.
    fn end_of_members(&mut self) -> Result<Found, Stop> {
        let bytes = self.source.rest().map_err(Stop::Io)?;
        if bytes == 0 {
            return Ok(Found::End);
        }
        let offset = self.source.offset();
        self.resume_from(offset, |bytes, last| match last {
            true => Fault::TrailingGarbage { bytes },
            false => Fault::StrayBytes { bytes },
        })
    }

    /// Looks for the next member that holds a record, and notes what was skipped.
    fn resume_from(
        &mut self,
        offset: u64,
        fault: impl FnOnce(u64, bool) -> Fault,
    ) -> Result<Found, Stop> {
        let opening = if self.is_arc() {
            b"http"
        } else {
            &b"WARC/"[..]
        };
        let next = self
            .source
            .find_member(offset + 1, opening)
            .map_err(Stop::Io)?;
        self.source.go_to(offset);
        let rest = self.source.rest().map_err(Stop::Io)?;
        match next {
            Some(next) => {
                self.note(offset, fault(next - offset, false));
                self.source.go_to(next);
                Ok(Found::Again)
            }
            None => {
                self.note(offset, fault(rest, true));
                self.source.go_to(offset + rest);
                Ok(Found::End)
            }
        }
    }

    /// The reading of a member failed: says so and goes on behind it.
    fn go_on_after(&mut self, stop: Stop) -> Result<(), ArchiveError> {
        let fault = match stop {
            Stop::Io(error) => return Err(ArchiveError::io("read", &self.path)(error)),
            Stop::Corrupt(problem) => Fault::BadGzip(problem),
            Stop::Truncated => Fault::TruncatedMember,
        };
        let offset = self.source.offset();
        self.lost = false;
        match self.resume_from(offset, |_, _| fault) {
            Ok(_) => Ok(()),
            Err(Stop::Io(error)) => Err(ArchiveError::io("read", &self.path)(error)),
            // Looking for a member reads none: there is no other way to stop.
            Err(Stop::Corrupt(_) | Stop::Truncated) => Ok(()),
        }
    }

    /// Skips from a line that starts no record to one that does, or to the end of the member.
    fn skip_to_record(&mut self, first: Line, offset: u64) -> Result<Found, Stop> {
        let mut blank = first.bytes.trim_ascii().is_empty();
        let mut skipped = first.length;
        let mut last = true;
        let mut at_line_start = first.complete;
        loop {
            let starts = match self.source.fill()? {
                [] => break,
                _ if !at_line_start => false,
                text if self.format == Format::Warc || self.format == Format::WarcGz => {
                    // A start that the buffer cut is seen as one: the header parser decides.
                    let seen = &text[..text.len().min(5)];
                    b"WARC/".starts_with(seen)
                }
                text => text.starts_with(b"http"),
            };
            if starts {
                last = false;
                break;
            }
            let Some(line) = self.read_line()? else {
                break;
            };
            at_line_start = line.complete;
            blank &= line.bytes.trim_ascii().is_empty();
            skipped += line.length;
        }
        // Between ARC records line ends are custom, not garbage; after a fault it was said.
        let custom = blank && self.is_arc();
        if !self.lost && !custom {
            let fault = match last && !self.source.is_gzip() {
                true => Fault::TrailingGarbage { bytes: skipped },
                false => Fault::StrayBytes { bytes: skipped },
            };
            self.note(offset, fault);
        }
        self.lost |= !custom;
        Ok(Found::Again)
    }

    /// The header after its version line.
    fn read_header(&mut self, first: &Line, offset: u64) -> Result<WarcRecord, Stop> {
        let version = first.text().trim_end().to_owned();
        let mut record = WarcRecord {
            offset,
            version,
            headers: Vec::new(),
            block_length: None,
            header_bytes: first.bytes.clone(),
        };
        if !matches!(
            record.version.as_str(),
            "WARC/1.1" | "WARC/1.0" | "WARC/0.18" | "WARC/0.17"
        ) {
            let version = quoted(record.version.as_bytes());
            self.note(offset, Fault::BadVersion(version));
        }
        let mut bytes = first.length;
        loop {
            let Some(line) = self.read_line()? else {
                // The file or member ended here.
                self.note(offset, Fault::TruncatedRecord { missing: 0 });
                return Ok(record);
            };
            bytes += line.length;
            record.header_bytes.extend_from_slice(&line.bytes);
            let text = line.text();
            let text = text.trim_end_matches(['\r', '\n']);
            if text.is_empty() && line.complete {
                break;
            }
            if bytes as usize > MAX_HEADER_BYTES || !line.complete {
                let limit = MAX_HEADER_BYTES;
                self.note(offset, Fault::HeaderTooLong { limit });
                return Ok(record);
            }
            if text.starts_with([' ', '\t'])
                && let Some((_, value)) = record.headers.last_mut()
            {
                value.push(' ');
                value.push_str(text.trim());
            } else if let Some((name, value)) = text.split_once(':') {
                let header = (name.trim_end().to_owned(), value.trim().to_owned());
                record.headers.push(header);
            } else {
                self.note(offset, Fault::BadHeaderLine(quoted(text.as_bytes())));
            }
        }
        match record.header("Content-Length") {
            // `verify` says that it is missing.
            None => {}
            Some(text)
                if text.bytes().all(|b| b.is_ascii_digit()) && text.parse::<u64>().is_ok() =>
            {
                record.block_length = text.parse().ok();
            }
            Some(text) => {
                let text = quoted(text.as_bytes());
                self.note(offset, Fault::BadContentLength(text));
            }
        }
        Ok(record)
    }

    /// A line with its end; cut where it passes the limit. `None` at the end of member or file.
    fn read_line(&mut self) -> Result<Option<Line>, Stop> {
        let mut line = Line {
            bytes: Vec::new(),
            length: 0,
            complete: false,
        };
        while !line.complete && line.bytes.len() < MAX_HEADER_BYTES {
            let text = self.source.fill()?;
            if text.is_empty() {
                break;
            }
            let room = &text[..text.len().min(MAX_HEADER_BYTES - line.bytes.len())];
            let end = memchr::memchr(b'\n', room);
            line.complete = end.is_some();
            let used = end.map_or(room.len(), |end| end + 1);
            line.bytes.extend_from_slice(&room[..used]);
            self.source.consume(used);
        }
        line.length = line.bytes.len() as u64;
        Ok((line.length > 0).then_some(line))
    }

    /// The two line ends behind a block.
    fn take_record_end(&mut self, offset: u64) -> Result<(), Stop> {
        let arc = self.is_arc();
        let expected: &[u8] = if arc { b"\n" } else { b"\r\n\r\n" };
        let mut matched = 0;
        while matched < expected.len() {
            let text = self.source.fill()?;
            match text.first() {
                Some(&byte) if byte == expected[matched] => {
                    self.source.consume(1);
                    matched += 1;
                }
                // ARC writers differ about line ends, at the end of a file most of all.
                _ if arc => return Ok(()),
                _ => {
                    self.note(offset, Fault::BadRecordEnd);
                    self.lost = true;
                    return Ok(());
                }
            }
        }
        // In a gzip file the checksum comes behind the last byte: have it checked now.
        self.source.fill()?;
        Ok(())
    }

    fn read_block(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        loop {
            let Some(current) = &mut self.current else {
                return Ok(0);
            };
            if current.remaining == 0 || buffer.is_empty() {
                return Ok(0);
            }
            match self.source.fill() {
                Ok([]) => {}
                Ok(text) => {
                    let left = usize::try_from(current.remaining).unwrap_or(usize::MAX);
                    let read = text.len().min(buffer.len()).min(left);
                    buffer[..read].copy_from_slice(&text[..read]);
                    self.source.consume(read);
                    current.remaining -= read as u64;
                    return Ok(read);
                }
                Err(stop) => return self.end_block(stop),
            }
            match self.cross_member() {
                Ok(true) => {}
                Ok(false) => return Ok(0),
                Err(stop) => return self.end_block(stop),
            }
        }
    }

    /// The block goes on but its member (or file) does not. Enters the next member unless that
    /// starts a record of its own.
    fn cross_member(&mut self) -> Result<bool, Stop> {
        let Some(current) = &mut self.current else {
            return Ok(false);
        };
        let (offset, missing) = (current.offset, current.remaining);
        let plain = !self.source.is_gzip();
        let next = self.source.used_up_to();
        let entered = !plain && self.source.next_member()?;
        if entered && !self.source.fill()?.starts_with(b"WARC/") {
            self.note(offset, Fault::SpansMembers);
            return Ok(true);
        }
        if entered {
            self.source.go_to(next);
        }
        let fault = match plain {
            true => Fault::TruncatedRecord { missing },
            false => Fault::ShortRecord { missing },
        };
        self.note(offset, fault);
        if let Some(current) = &mut self.current {
            current.plain_length -= missing;
            current.remaining = 0;
            current.unframed = true;
        }
        Ok(false)
    }

    /// Damaged gzip data inside a block: the block ends here.
    fn end_block(&mut self, stop: Stop) -> io::Result<usize> {
        if let Stop::Io(error) = stop {
            return Err(error);
        }
        if let Some(current) = &mut self.current {
            current.remaining = 0;
            current.unframed = true;
        }
        self.go_on_after(stop)
            .map(|()| 0)
            .map_err(|error| io::Error::other(error.to_string()))
    }

    fn note(&mut self, offset: u64, fault: Fault) {
        if self.faults.len() < MAX_FAULTS {
            self.faults.push((offset, fault));
        }
    }
}

/// A record's block, or what is left of it. Ends early where the file is damaged.
pub struct Block<'a> {
    reader: &'a mut WarcReader,
}

impl Read for Block<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.reader.read_block(buffer)
    }
}

enum Found {
    Record(WarcRecord),
    /// Something was skipped; look again.
    Again,
    End,
}

struct Line {
    bytes: Vec<u8>,
    length: u64,
    /// It has its line end.
    complete: bool,
}

impl Line {
    fn text(&self) -> String {
        String::from_utf8_lossy(&self.bytes)
            .trim_end_matches(['\r', '\n'])
            .to_owned()
    }
}
