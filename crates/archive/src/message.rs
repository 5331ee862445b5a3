//! One stored record, opened for reading: its HTTP head, and its payload without the chunked transfer coding in which
//! some crawlers keep it. Content encodings are left to whoever knows them.

use crate::chunked::Dechunker;
use crate::error::ArchiveError;
use crate::head::HttpHead;
use crate::list::{Cat, find};
use crate::read::{MAX_HTTP_HEAD_BYTES, WarcReader, WarcRecord};
use std::io::{self, Read};
use std::path::Path;

/// Bytes of a payload that are handed over at once.
const PIECE_BYTES: usize = 64 << 10;

/// A record whose payload has not been read yet.
pub struct Message {
    pub record: WarcRecord,
    reader: WarcReader,
    /// The HTTP head with the line ends behind it; empty where the record has none.
    head: Vec<u8>,
    /// The payload's first bytes, which were read with the head.
    start: Vec<u8>,
}

impl Message {
    /// The first record of the file that `which` names; `None` if there is none such.
    pub fn open(path: &Path, which: Cat<'_>) -> Result<Option<Self>, ArchiveError> {
        let Some((record, mut reader)) = find(path, which)? else {
            return Ok(None);
        };
        let mut start = Vec::new();
        let mut head = Vec::new();
        if record.is_http() {
            let most = reader.block().take(MAX_HTTP_HEAD_BYTES);
            read_all(most, &mut start).map_err(ArchiveError::io("read", path))?;
            let parsed = HttpHead::parse(&start);
            // Without an end of the head there is nothing to cut off.
            let end = if parsed.complete { parsed.end } else { 0 };
            head = start.drain(..end).collect();
        }
        Ok(Some(Self {
            record,
            reader,
            head,
            start,
        }))
    }

    /// The values of all headers of that name in the HTTP head, as bytes; folded lines are joined by a space.
    pub fn values(&self, name: &str) -> Vec<Vec<u8>> {
        let mut values: Vec<Vec<u8>> = Vec::new();
        let mut goes_on = false;
        for line in self.head.split(|&byte| byte == b'\n').skip(1) {
            let line = line.trim_ascii_end();
            if let Some(b' ' | b'\t') = line.first() {
                if let Some(value) = values.last_mut().filter(|_| goes_on) {
                    value.push(b' ');
                    value.extend_from_slice(line.trim_ascii_start());
                }
                continue;
            }
            let mut parts = line.splitn(2, |&byte| byte == b':');
            let found = parts.next().unwrap_or_default().trim_ascii_end();
            goes_on = found.eq_ignore_ascii_case(name.as_bytes());
            if let Some(value) = parts.next().filter(|_| goes_on) {
                values.push(value.trim_ascii().to_vec());
            }
        }
        values
    }

    /// The codings that Transfer-Encoding names besides `chunked`, in the order in which they were applied.
    pub fn transfer_encodings(&self) -> Vec<String> {
        self.values("transfer-encoding")
            .iter()
            .flat_map(|value| value.split(|&byte| byte == b','))
            .map(|name| String::from_utf8_lossy(name.trim_ascii()).to_ascii_lowercase())
            .filter(|name| !["", "chunked", "identity"].contains(&name.as_str()))
            .collect()
    }

    /// Hands the payload to `take`, piece by piece. Chunks are undone if `unchunked` says so, the head names the coding
    /// and the bytes really have it: many crawlers undo it and keep the header.
    pub fn read_payload(
        mut self,
        unchunked: bool,
        take: &mut dyn FnMut(&[u8]) -> io::Result<()>,
    ) -> Result<(), ArchiveError> {
        let path = self.reader.path().to_owned();
        let failed = ArchiveError::io("copy a record of", &path);
        let mut piece = std::mem::take(&mut self.start);
        let mut chunks = (unchunked && HttpHead::parse(&self.head).chunked)
            .then(Dechunker::default)
            .filter(|_| {
                let mut trial = Dechunker::default();
                trial.feed(&piece, |_| {});
                !trial.is_broken()
            });
        let mut copy = || -> io::Result<()> {
            loop {
                match &mut chunks {
                    None => take(&piece)?,
                    Some(chunks) => {
                        let mut taken = Ok(());
                        chunks.feed(&piece, |bytes| {
                            if taken.is_ok() {
                                taken = take(bytes);
                            }
                        });
                        taken?;
                    }
                }
                piece.resize(PIECE_BYTES, 0);
                let read = self.reader.block().read(&mut piece)?;
                if read == 0 {
                    return Ok(());
                }
                piece.truncate(read);
            }
        };
        copy().map_err(failed)
    }
}

fn read_all(mut from: impl Read, into: &mut Vec<u8>) -> io::Result<()> {
    from.read_to_end(into).map(|_| ())
}
