//! The texts of all known URLs, in the order in which they became known, with how each was first
//! found. A record points at its text.

use crate::error::{RegistryError, Result};
use crate::files::{AppendFile, Scan};
use crate::wire::{Reader, put_bytes, put_u64, put_varint};
use portolan_model::{DocId, Identities, LinkKind};
use std::path::Path;

/// Most texts are read with one call.
const FIRST_READ_BYTES: usize = 256;
/// No text is longer than this and its header.
const MAX_READ_BYTES: usize = 16 << 20;
/// How far back the page that a text was found on may be named.
const MAX_BACK_BYTES: u64 = 1 << 20;

const FROM_NONE: u8 = 0;
const FROM_HERE: u8 = 1 << 4;
const FROM_BACK: u8 = 2 << 4;
/// No text: a checksum of all that follows the one before.
const SEAL: u8 = 3 << 4;
/// Which of these four it is.
const FROM: u8 = 3 << 4;
/// The link was found before its page was there as a whole.
const EARLY: u8 = 1 << 6;
const KIND: u8 = 0x0f;

#[derive(Debug)]
pub(crate) struct Texts {
    file: AppendFile,
    ids: Identities,
    /// Where the page that links are coming from was last spelled out.
    last_from: Option<(DocId, u64)>,
}

/// How a URL was found.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Finding {
    pub(crate) kind: LinkKind,
    pub(crate) depth: u16,
    pub(crate) hops: u8,
    pub(crate) from: Option<DocId>,
    /// See `LinkBatch::is_early`.
    pub(crate) early: bool,
}

impl Texts {
    pub(crate) fn new(file: AppendFile, ids: Identities) -> Self {
        Self {
            file: file.sealed_by(seal),
            ids,
            last_from: None,
        }
    }

    pub(crate) fn file(&mut self) -> &mut AppendFile {
        &mut self.file
    }

    pub(crate) fn file_ref(&self) -> &AppendFile {
        &self.file
    }

    pub(crate) fn len(&self) -> u64 {
        self.file.len()
    }

    pub(crate) fn ram_bytes(&self) -> usize {
        self.file.ram_bytes()
    }

    pub(crate) fn append(&mut self, url: &str, finding: Finding) -> Result<u64> {
        self.file.make_room()?;
        let last = self.last_from;
        let here = self.file.len();
        let (mode, back) = match (finding.from, last) {
            (None, _) => (FROM_NONE, 0),
            (Some(from), Some((known, at))) if from == known && here - at < MAX_BACK_BYTES => {
                (FROM_BACK, here - at)
            }
            (Some(_), _) => (FROM_HERE, 0),
        };
        let offset = self.file.append(|out| {
            let early = if finding.early { EARLY } else { 0 };
            out.push(finding.kind as u8 | mode | early);
            match (mode, finding.from) {
                (FROM_HERE, Some(from)) => put_u64(out, from.0),
                (FROM_BACK, _) => put_varint(out, back),
                _ => {}
            }
            out.push(finding.hops);
            put_varint(out, u64::from(finding.depth));
            put_bytes(out, url.as_bytes());
        })?;
        if mode == FROM_HERE {
            self.last_from = finding.from.map(|from| (from, offset));
        }
        Ok(offset)
    }

    /// The text at `offset`, which must be that of `doc`, and how it was found. Which page it was
    /// found on is told by `read_from`.
    pub(crate) fn read(&self, offset: u64, doc: u64) -> Result<(String, Finding)> {
        let mut bytes = Vec::new();
        let mut length = FIRST_READ_BYTES;
        loop {
            self.file.read(offset, length, &mut bytes)?;
            if let Some((url, finding, _)) = parse(&bytes)
                && self.ids.doc(url).0 == doc
            {
                return Ok((url.to_owned(), finding));
            }
            if bytes.len() < length || length >= MAX_READ_BYTES {
                return Err(RegistryError::corrupt(
                    self.file.path(),
                    offset,
                    format!("the URL of {:?} is not there", DocId(doc)),
                ));
            }
            length *= 16;
        }
    }

    /// The page that the text at `offset` was found on.
    pub(crate) fn read_from(&self, offset: u64) -> Result<Option<DocId>> {
        let mut bytes = Vec::new();
        let mut at = offset;
        // A text either names the page or points at one that does.
        for _ in 0..2 {
            self.file.read(at, 16, &mut bytes)?;
            let reader = &mut Reader::new(&bytes);
            let found = match reader.byte().map(|byte| byte & FROM) {
                Some(FROM_NONE) => return Ok(None),
                Some(FROM_HERE) => reader.u64().map(Some),
                Some(FROM_BACK) => {
                    let back = reader.varint().filter(|&back| back <= at && back > 0);
                    at -= back.unwrap_or(0);
                    back.map(|_| None)
                }
                _ => None,
            };
            match found {
                Some(Some(from)) => return Ok(Some(DocId(from))),
                Some(None) => {}
                None => break,
            }
        }
        Err(RegistryError::corrupt(
            self.file.path(),
            offset,
            "a URL's origin cannot be read",
        ))
    }
}

fn seal(buffer: &mut Vec<u8>) {
    let crc = crc32fast::hash(buffer);
    buffer.push(SEAL);
    buffer.extend_from_slice(&crc.to_le_bytes());
}

/// Reads the texts from end to end; how many there are.
pub(crate) fn scrub_texts(path: &Path, length: u64) -> Result<u64> {
    let Some(mut scan) = Scan::open(path, length)? else {
        return Ok(0);
    };
    let mut texts = 0;
    let mut sealed_up_to = 0;
    while !scan.is_at_end() {
        let sum = scan.checksum();
        let at = scan.offset();
        match scan.byte()? & !(KIND | EARLY) {
            SEAL => {
                if scan.word()? != sum {
                    return Err(
                        scan.damaged(sealed_up_to, "texts from here on have a bad checksum")
                    );
                }
                sealed_up_to = scan.offset();
                scan.restart();
                continue;
            }
            FROM_NONE => {}
            FROM_HERE => scan.skip(8)?,
            FROM_BACK => scan.varint().map(|_| ())?,
            _ => return Err(scan.damaged(at, "there is no text")),
        }
        scan.byte()?;
        scan.varint()?;
        let url_bytes = scan.varint()?;
        scan.skip(url_bytes)?;
        texts += 1;
    }
    if sealed_up_to != scan.offset() {
        return Err(scan.damaged(sealed_up_to, "texts from here on have no checksum"));
    }
    Ok(texts)
}

fn parse(bytes: &[u8]) -> Option<(&str, Finding, usize)> {
    let reader = &mut Reader::new(bytes);
    let head = reader.byte()?;
    match head & !(KIND | EARLY) {
        FROM_NONE => {}
        FROM_HERE => {
            reader.u64()?;
        }
        FROM_BACK => {
            reader.varint()?;
        }
        _ => return None,
    }
    let hops = reader.byte()?;
    let depth = reader.narrow()?;
    let url = std::str::from_utf8(reader.bytes()?).ok()?;
    let finding = Finding {
        kind: LinkKind::from_u8(head & KIND)?,
        depth,
        hops,
        from: None,
        early: head & EARLY != 0,
    };
    Some((url, finding, bytes.len() - reader.left()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::merger::Mergers;

    #[test]
    fn texts_say_where_they_were_found() {
        let dir = tempfile::tempdir().unwrap();
        let mergers = Mergers::start(1, None).unwrap();
        let file = AppendFile::open(dir.path().join("urls"), 0, Some(mergers)).unwrap();
        let mut texts = Texts::new(file, Identities::PUBLIC);
        let finding = |from| Finding {
            kind: LinkKind::Feed,
            depth: 300,
            hops: 2,
            from,
            early: from == Some(DocId(6)),
        };
        let cases = [None, Some(DocId(5)), Some(DocId(5)), Some(DocId(6)), None];
        let mut offsets = Vec::new();
        for (n, from) in cases.into_iter().enumerate() {
            let url = format!("http://a.test/{}", "x".repeat(n * 300));
            offsets.push((texts.append(&url, finding(from)).unwrap(), url, from));
        }
        for flushed in [false, true] {
            if flushed {
                let unsynced = texts.file().start_sync().unwrap();
                unsynced.unwrap().sync().unwrap();
                // What has reached the file is known to be there from the next time on.
                texts.file().start_sync().unwrap();
            }
            for (offset, url, from) in &offsets {
                let (read, found) = texts.read(*offset, Identities::PUBLIC.doc(url).0).unwrap();
                let early = *from == Some(DocId(6));
                let expected = Finding {
                    early,
                    ..finding(None)
                };
                assert_eq!((&read, found), (url, expected));
                assert_eq!(texts.read_from(*offset).unwrap(), *from);
                assert!(texts.read(*offset, 1).is_err());
            }
        }
    }
}
