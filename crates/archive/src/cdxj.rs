//! CDXJ: one JSON line for each response and revisit, found by SURT and time. Lines are collected
//! in a `.part` file while their WARC is open, and sorted when it is closed.

use crate::append_file::AppendFile;
use crate::date::timestamp_of_warc_date;
use crate::digest;
use crate::error::ArchiveError;
use crate::head::HttpHead;
use crate::merge::{merge_sorted, publish};
use crate::open::create;
use crate::read::WarcRecord;
use std::fmt::Write as _;
use std::fs::{self, File};
use std::io::{self, BufRead, BufReader, BufWriter, Read, Write};
use std::path::{Path, PathBuf};

/// Lines sorted in RAM at once; a larger part file is sorted in runs. The index of a 1 GiB WARC
/// fits.
const SORT_BYTES: usize = 64 << 20;

/// What a line says before the position is known.
pub(crate) struct Entry<'a> {
    pub surt: &'a str,
    /// 14 digits.
    pub timestamp: &'a str,
    pub url: &'a str,
    pub mime: Option<&'a str>,
    pub status: Option<&'a str>,
    pub digest: &'a str,
}

pub(crate) fn line_start(entry: &Entry<'_>) -> String {
    let mut line = String::with_capacity(entry.surt.len() + entry.url.len() + 160);
    for c in entry.surt.chars() {
        // A key with a space in it would shift all fields.
        match c {
            ' ' => line.push_str("%20"),
            c if c.is_ascii_control() => line.push('?'),
            c => line.push(c),
        }
    }
    line.push(' ');
    line.push_str(entry.timestamp);
    line.push_str(" {\"url\": ");
    push_json_text(&mut line, entry.url);
    for (name, value) in [("mime", entry.mime), ("status", entry.status)] {
        if let Some(value) = value {
            line.push_str(", \"");
            line.push_str(name);
            line.push_str("\": ");
            push_json_text(&mut line, value);
        }
    }
    line.push_str(", \"digest\": ");
    push_json_text(&mut line, entry.digest);
    line
}

/// The same text as the builder's, from a record alone.
pub(crate) fn line_start_of(
    record: &WarcRecord,
    http: &HttpHead<'_>,
    surt: &dyn Fn(&str) -> String,
) -> String {
    let url = record.header("WARC-Target-URI").unwrap_or_default();
    let empty = digest::labelled(&digest::sha1(b""));
    line_start(&Entry {
        surt: &surt(url),
        timestamp: &record
            .header("WARC-Date")
            .and_then(timestamp_of_warc_date)
            .unwrap_or_else(|| "0".repeat(14)),
        url,
        mime: match record.kind() {
            "revisit" => Some("warc/revisit"),
            "resource" => record.header("Content-Type"),
            _ => http.media_type(),
        },
        status: Some(&*http.status)
            .filter(|status| record.kind() != "resource" && !status.is_empty()),
        digest: record.header("WARC-Payload-Digest").unwrap_or(&empty),
    })
}

/// Appends the rest of a line.
pub(crate) fn push_position(line: &mut String, length: u64, offset: u64, filename: &str) {
    let _ = write!(
        line,
        ", \"length\": \"{length}\", \"offset\": \"{offset}\", \"filename\": "
    );
    push_json_text(line, filename);
    line.push_str("}\n");
}

/// Reads a line with its end into `line`, which is emptied first; how many bytes it has. A hole in the file
/// reads as zeros without a line end: never holds more than a line's worth.
pub(crate) fn read_line(source: &mut impl BufRead, line: &mut Vec<u8>) -> io::Result<usize> {
    const MAX_LINE_BYTES: u64 = 1 << 20;
    line.clear();
    source.take(MAX_LINE_BYTES).read_until(b'\n', line)
}

/// Offset and length of a whole line of ours; `None` if it is torn.
pub(crate) fn position_of(line: &[u8]) -> Option<(u64, u64)> {
    let line = std::str::from_utf8(line).ok()?.strip_suffix("\"}\n")?;
    // The end of a line behind a hole of zeros is no line.
    if line.bytes().any(|byte| byte.is_ascii_control()) {
        return None;
    }
    let (rest, _filename) = line.rsplit_once(", \"filename\": \"")?;
    let (rest, offset) = rest.strip_suffix('"')?.rsplit_once(", \"offset\": \"")?;
    let (_, length) = rest.strip_suffix('"')?.rsplit_once(", \"length\": \"")?;
    Some((offset.parse().ok()?, length.parse().ok()?))
}

/// The lines of a WARC that is being written.
pub(crate) struct PartIndex {
    file: AppendFile,
    line: String,
}

impl PartIndex {
    pub fn open_at(path: &Path, length: u64) -> Result<Self, ArchiveError> {
        Ok(Self {
            file: AppendFile::open_at(path, length)?,
            line: String::new(),
        })
    }

    pub fn make_room(&mut self, start: &str) -> Result<(), ArchiveError> {
        const REST_BYTES: usize = 512;
        self.file.make_room(start.len() + REST_BYTES)
    }

    pub fn push(&mut self, start: &str, length: u64, offset: u64, filename: &str) {
        self.line.clear();
        self.line.push_str(start);
        push_position(&mut self.line, length, offset, filename);
        self.file.push(self.line.as_bytes());
    }

    /// No sync: what a power cut takes is written again from the WARC.
    pub fn flush(&mut self) -> Result<(), ArchiveError> {
        self.file.flush()
    }
}

/// Sorts the lines of `part` into `index`, and removes `part`.
pub(crate) fn close_index(part: &Path, index: &Path) -> Result<(), ArchiveError> {
    let runs = sort_into_runs(part, index)?;
    match &runs[..] {
        [only] => publish(only, index)?,
        _ => {
            merge_sorted(&runs, index)?;
            for run in &runs {
                fs::remove_file(run).map_err(ArchiveError::io("remove", run))?;
            }
        }
    }
    fs::remove_file(part).map_err(ArchiveError::io("remove", part))
}

fn sort_into_runs(part: &Path, index: &Path) -> Result<Vec<PathBuf>, ArchiveError> {
    let file = File::open(part).map_err(ArchiveError::io("open", part))?;
    let mut source = BufReader::with_capacity(256 << 10, file);
    let mut runs = Vec::new();
    let mut text = Vec::new();
    loop {
        let mut ends = Vec::new();
        text.clear();
        while text.len() < SORT_BYTES {
            let read = source
                .read_until(b'\n', &mut text)
                .map_err(ArchiveError::io("read", part))?;
            if read == 0 {
                break;
            }
            ends.push(text.len());
        }
        if ends.is_empty() && !runs.is_empty() {
            return Ok(runs);
        }
        let mut start = 0;
        let mut lines: Vec<&[u8]> = ends
            .iter()
            .map(|&end| &text[std::mem::replace(&mut start, end)..end])
            .collect();
        lines.sort_unstable();
        let run = index.with_extension(format!("run{}.tmp", runs.len()));
        let written = (|| {
            let mut out = BufWriter::with_capacity(256 << 10, create(&run)?);
            for line in lines {
                out.write_all(line)?;
            }
            out.into_inner()
                .map_err(std::io::IntoInnerError::into_error)?
                .sync_all()
        })();
        written.map_err(ArchiveError::io("write", &run))?;
        runs.push(run);
    }
}

/// ASCII only, as the other indexers write it.
fn push_json_text(out: &mut String, text: &str) {
    out.push('"');
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            '\u{8}' => out.push_str("\\b"),
            '\u{c}' => out.push_str("\\f"),
            ' '..='\u{7f}' => out.push(c),
            _ => {
                for unit in c.encode_utf16(&mut [0; 2]) {
                    let _ = write!(out, "\\u{unit:04x}");
                }
            }
        }
    }
    out.push('"');
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_json_and_gives_its_position_back() {
        let mut line = line_start(&Entry {
            surt: "org,example)/a b",
            timestamp: "20170306040206",
            url: "http://example.org/a%20b",
            mime: Some("text/\"ht\u{1}ml\u{e9}\u{1f600}"),
            status: None,
            digest: "sha1:X",
        });
        push_position(&mut line, 12, 345, "a-00001.warc.gz");
        assert_eq!(
            line,
            "org,example)/a%20b 20170306040206 {\"url\": \"http://example.org/a%20b\", \"mime\": \"text/\\\"ht\\u0001ml\\u00e9\\ud83d\\ude00\", \"digest\": \"sha1:X\", \"length\": \"12\", \"offset\": \"345\", \"filename\": \"a-00001.warc.gz\"}\n"
        );
        let json: serde_json::Value =
            serde_json::from_str(&line[line.find('{').expect("an object")..]).expect("JSON");
        assert_eq!(json["mime"], "text/\"ht\u{1}ml\u{e9}\u{1f600}");
        assert_eq!(position_of(line.as_bytes()), Some((345, 12)));
        for cut in 0..line.len() {
            assert_eq!(position_of(&line.as_bytes()[..cut]), None);
        }
    }
}
