//! Names every fault of a WARC file: framing (from `read`), headers, dates, ids and digests. Reads
//! each byte once and holds none of a record's body.

use crate::cdxj::{line_start_of, push_position};
use crate::chunked::Dechunker;
use crate::date::{is_arc_date, timestamp_of_warc_date};
use crate::digest::{self, Parsed};
use crate::error::ArchiveError;
use crate::fault::{Fault, quoted};
use crate::head::HttpHead;
use crate::read::{Format, MAX_HTTP_HEAD_BYTES, WarcReader, WarcRecord};
use sha1::{Digest, Sha1};
use std::collections::{BTreeMap, HashSet};
use std::io::Read;
use std::path::{Path, PathBuf};
use xxhash_rust::xxh3::xxh3_64;

/// Findings kept in a report; beyond that they are only counted.
const MAX_FINDINGS: usize = 1_000;
/// Record ids remembered (some 100 MB at most); in a file with more, later repeats go unnoticed.
const MAX_IDS: usize = 4_000_000;

const KINDS: [&str; 8] = [
    "warcinfo",
    "response",
    "resource",
    "request",
    "metadata",
    "revisit",
    "conversion",
    "continuation",
];

/// A fault and where it is.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Flaw {
    /// Start of the record, or of its gzip member.
    pub offset: u64,
    pub record_id: Option<String>,
    pub fault: Fault,
}

/// A response or revisit.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Captured {
    /// Where it starts.
    pub offset: u64,
    /// Hash of the line that an index should have of it; `None` if nobody asked.
    pub(crate) line: Option<u64>,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct FileCheck {
    pub path: PathBuf,
    /// `None` if it is neither WARC nor ARC.
    pub format: Option<Format>,
    pub records: u64,
    /// Records by WARC-Type.
    pub kinds: BTreeMap<String, u64>,
    /// Responses and revisits: what an index names.
    pub captures: Vec<Captured>,
    /// Digests that were computed and agreed.
    pub digests_checked: u64,
    /// The first of them.
    pub findings: Vec<Flaw>,
    pub findings_total: u64,
    /// False if there were more records than ids can be remembered.
    pub ids_all_checked: bool,
}

impl FileCheck {
    pub fn is_sound(&self) -> bool {
        self.findings_total == 0
    }
}

/// Reads the whole file. An error is the disk's; everything wrong with the file is in the report.
pub fn verify(path: &Path) -> Result<FileCheck, ArchiveError> {
    verify_with(path, None)
}

/// The same, and notes which line an index should have of each response: `check_index` then compares whole lines.
/// `surt` is asked for the key of a URL.
pub fn verify_for_index(
    path: &Path,
    surt: &dyn Fn(&str) -> String,
) -> Result<FileCheck, ArchiveError> {
    verify_with(path, Some(surt))
}

fn verify_with(
    path: &Path,
    surt: Option<&dyn Fn(&str) -> String>,
) -> Result<FileCheck, ArchiveError> {
    let mut verifier = Verifier {
        surt,
        name: path
            .file_name()
            .map_or_else(String::new, |name| name.to_string_lossy().into_owned()),
        report: FileCheck {
            path: path.to_owned(),
            format: None,
            records: 0,
            kinds: BTreeMap::new(),
            captures: Vec::new(),
            digests_checked: 0,
            findings: Vec::new(),
            findings_total: 0,
            ids_all_checked: true,
        },
        ids: HashSet::new(),
    };
    let mut reader = match WarcReader::open(path) {
        Ok(reader) => reader,
        Err(ArchiveError::NotReadable { fault, .. }) => {
            verifier.find(0, None, fault);
            return Ok(verifier.report);
        }
        Err(error) => return Err(error),
    };
    verifier.report.format = Some(reader.format());
    while let Some(record) = reader.next_record()? {
        verifier.record(&record, &mut reader)?;
    }
    verifier.framing(&mut reader, None);
    Ok(verifier.report)
}

struct Verifier<'a> {
    surt: Option<&'a dyn Fn(&str) -> String>,
    /// The file's, as its index spells it.
    name: String,
    report: FileCheck,
    /// Hashes of the record ids met so far.
    ids: HashSet<u64>,
}

impl Verifier<'_> {
    fn record(&mut self, record: &WarcRecord, reader: &mut WarcReader) -> Result<(), ArchiveError> {
        let report = &mut self.report;
        report.records += 1;
        // Types come from the file: do not let it fill the table.
        if KINDS.contains(&record.kind()) || record.kind() == "arc-header" {
            *report.kinds.entry(record.kind().to_owned()).or_default() += 1;
        }
        let mut faults = Vec::new();
        if record.version == "ARC/1" {
            check_arc_headers(record, &mut faults);
        } else {
            check_headers(record, &mut faults);
            self.check_id(record, &mut faults);
        }
        let digests = read_digests(record, reader)?;
        let length = reader.finish_record()?;
        if matches!(record.kind(), "response" | "revisit" | "resource") {
            let line = self.surt.map(|surt| {
                let http = HttpHead::parse(&digests.http_head);
                let mut line = line_start_of(record, &http, surt);
                push_position(&mut line, length, record.offset, &self.name);
                xxh3_64(line.as_bytes())
            });
            let offset = record.offset;
            self.report.captures.push(Captured { offset, line });
        }
        self.report.digests_checked += digests.agreed;
        faults.extend(digests.faults);
        let id = record.header("WARC-Record-ID");
        self.framing(reader, Some((record.offset, id)));
        for fault in faults {
            self.find(record.offset, id, fault);
        }
        Ok(())
    }

    /// What the reader noted. Faults at another offset are not this record's.
    fn framing(&mut self, reader: &mut WarcReader, record: Option<(u64, Option<&str>)>) {
        for (offset, fault) in reader.take_faults() {
            let id = record.and_then(|(of, id)| id.filter(|_| of == offset));
            self.find(offset, id, fault);
        }
    }

    fn check_id(&mut self, record: &WarcRecord, faults: &mut Vec<Fault>) {
        let Some(id) = record.header("WARC-Record-ID") else {
            return;
        };
        if self.ids.len() >= MAX_IDS {
            self.report.ids_all_checked = false;
        } else if !self.ids.insert(xxh3_64(id.as_bytes())) {
            faults.push(Fault::DuplicateRecordId(quoted(id.as_bytes())));
        }
    }

    fn find(&mut self, offset: u64, record_id: Option<&str>, fault: Fault) {
        self.report.findings_total += 1;
        if self.report.findings.len() < MAX_FINDINGS {
            self.report.findings.push(Flaw {
                offset,
                record_id: record_id.map(|id| quoted(id.as_bytes())),
                fault,
            });
        }
    }
}

fn check_headers(record: &WarcRecord, faults: &mut Vec<Fault>) {
    let kind = record.kind();
    let mut required = vec!["WARC-Type", "WARC-Record-ID", "WARC-Date", "Content-Length"];
    if !matches!(kind, "warcinfo" | "metadata" | "") {
        required.push("WARC-Target-URI");
    }
    if kind == "revisit" {
        required.push("WARC-Profile");
    }
    for &name in &required {
        let mut found = record
            .headers
            .iter()
            .filter(|(header, _)| header.eq_ignore_ascii_case(name));
        if found.next().is_none() {
            faults.push(Fault::MissingHeader(name));
        } else if found.next().is_some() {
            faults.push(Fault::RepeatedHeader(name));
        }
    }
    if !kind.is_empty() && !KINDS.contains(&kind) {
        faults.push(Fault::UnknownType(quoted(kind.as_bytes())));
    }
    for name in ["WARC-Date", "WARC-Refers-To-Date"] {
        if let Some(date) = record.header(name)
            && timestamp_of_warc_date(date).is_none()
        {
            faults.push(Fault::BadDate(quoted(date.as_bytes())));
        }
    }
    if let Some(id) = record.header("WARC-Record-ID")
        && !is_bracketed_uri(id)
    {
        faults.push(Fault::BadRecordId(quoted(id.as_bytes())));
    }
    for name in ["WARC-Target-URI", "WARC-Refers-To-Target-URI"] {
        if let Some(uri) = record.header(name)
            && !is_uri(uri)
        {
            faults.push(Fault::BadTargetUri(quoted(uri.as_bytes())));
        }
    }
}

fn check_arc_headers(record: &WarcRecord, faults: &mut Vec<Fault>) {
    let date = record.header("WARC-Date").unwrap_or_default();
    if !is_arc_date(date) {
        faults.push(Fault::BadDate(quoted(date.as_bytes())));
    }
    let uri = record.header("WARC-Target-URI").unwrap_or_default();
    if !is_uri(uri) {
        faults.push(Fault::BadTargetUri(quoted(uri.as_bytes())));
    }
}

fn is_bracketed_uri(text: &str) -> bool {
    text.strip_prefix('<')
        .and_then(|text| text.strip_suffix('>'))
        .is_some_and(is_uri)
}

/// A scheme, and nothing that may not stand in a URI unescaped. Others than ASCII letters are let
/// pass: WARC headers are UTF-8.
fn is_uri(text: &str) -> bool {
    let Some((scheme, rest)) = text.split_once(':') else {
        return false;
    };
    let scheme_right = scheme.starts_with(|c: char| c.is_ascii_alphabetic())
        && scheme
            .chars()
            .all(|c| c.is_ascii_alphanumeric() || matches!(c, '+' | '-' | '.'));
    scheme_right
        && !rest.is_empty()
        && !rest
            .chars()
            .any(|c| c.is_ascii_control() || c.is_whitespace() || matches!(c, '<' | '>' | '"'))
}

#[derive(Default)]
struct DigestCheck {
    /// The head of an HTTP block.
    http_head: Vec<u8>,
    agreed: u64,
    faults: Vec<Fault>,
}

/// Reads the block and compares its digests with what the header says.
fn read_digests(record: &WarcRecord, reader: &mut WarcReader) -> Result<DigestCheck, ArchiveError> {
    let mut check = DigestCheck::default();
    let revisit = record.kind() == "revisit";
    // Before 1.1 it was left open which block a revisit's digest is of.
    let block_said = match revisit && record.version != "WARC/1.1" {
        true => None,
        false => said(record, "WARC-Block-Digest", &mut check.faults),
    };
    let payload_said = said(record, "WARC-Payload-Digest", &mut check.faults)
        .filter(|_| !revisit && record.header("WARC-Segment-Number").is_none());

    let mut digests = BlockDigests::new(record.is_http());
    let path = reader.path().to_owned();
    let mut piece = vec![0; 32 << 10];
    loop {
        let read = reader
            .block()
            .read(&mut piece)
            .map_err(ArchiveError::io("read", &path))?;
        if read == 0 {
            break;
        }
        digests.feed(&piece[..read]);
    }
    let found = digests.finish();
    if record.is_http() && record.block_length.is_some_and(|length| length > 0) && !found.head_whole
    {
        check.faults.push(Fault::BadHttpHead);
    }
    if found.chunks_broken && record.header("WARC-Truncated").is_none() {
        check.faults.push(Fault::BadChunks);
    }
    check.http_head = found.http_head;
    if let Some(said) = block_said {
        if said == found.block {
            check.agreed += 1;
        } else {
            check.faults.push(Fault::BlockDigest {
                said: digest::labelled(&said),
                found: digest::labelled(&found.block),
            });
        }
    }
    if let Some(said) = payload_said {
        if said == found.payload || found.dechunked == Some(said) {
            check.agreed += 1;
        } else {
            check.faults.push(Fault::PayloadDigest {
                said: digest::labelled(&said),
                found: digest::labelled(&found.payload),
            });
        }
    }
    Ok(check)
}

fn said(record: &WarcRecord, header: &'static str, faults: &mut Vec<Fault>) -> Option<[u8; 20]> {
    let value = record.header(header)?;
    match digest::parse(value) {
        Parsed::Sha1(sha1) => Some(sha1),
        Parsed::OtherAlgorithm => None,
        Parsed::Malformed => {
            let value = quoted(value.as_bytes());
            faults.push(Fault::BadDigest { header, value });
            None
        }
    }
}

/// Digests of a block and of the payload in it, computed as it passes.
struct BlockDigests {
    block: Sha1,
    payload: Sha1,
    /// The start of an HTTP block, until its head has ended.
    head: Option<Vec<u8>>,
    head_whole: bool,
    /// The head, once it has ended.
    http_head: Vec<u8>,
    chunked: Option<(Dechunker, Sha1)>,
}

struct FoundDigests {
    http_head: Vec<u8>,
    block: [u8; 20],
    payload: [u8; 20],
    /// Of the payload without its transfer coding, where it has one.
    dechunked: Option<[u8; 20]>,
    head_whole: bool,
    chunks_broken: bool,
}

impl BlockDigests {
    fn new(http: bool) -> Self {
        Self {
            block: Sha1::new(),
            payload: Sha1::new(),
            head: http.then(Vec::new),
            head_whole: !http,
            http_head: Vec::new(),
            chunked: None,
        }
    }

    fn feed(&mut self, piece: &[u8]) {
        self.block.update(piece);
        let Some(mut head) = self.head.take() else {
            return self.feed_payload(piece);
        };
        head.extend_from_slice(piece);
        let parsed = HttpHead::parse(&head);
        if parsed.complete {
            self.head_whole = true;
            if parsed.chunked {
                self.chunked = Some((Dechunker::default(), Sha1::new()));
            }
            let payload = head.split_off(parsed.end);
            self.http_head = head;
            self.feed_payload(&payload);
        } else if (head.len() as u64) < MAX_HTTP_HEAD_BYTES {
            self.head = Some(head);
        }
    }

    fn feed_payload(&mut self, piece: &[u8]) {
        self.payload.update(piece);
        if let Some((dechunker, digest)) = &mut self.chunked {
            dechunker.feed(piece, |bytes| digest.update(bytes));
        }
    }

    fn finish(self) -> FoundDigests {
        let (dechunked, chunks_broken) = match self.chunked {
            Some((dechunker, digest)) => (Some(digest.finalize().into()), !dechunker.is_whole()),
            None => (None, false),
        };
        FoundDigests {
            // One that never ended is whatever there is of it.
            http_head: self.head.unwrap_or(self.http_head),
            block: self.block.finalize().into(),
            payload: self.payload.finalize().into(),
            dechunked,
            head_whole: self.head_whole,
            chunks_broken,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digests_do_not_depend_on_where_a_read_ends() {
        let block = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nbody\r\n0\r\n\r\n";
        let payload_start = HttpHead::parse(block).end;
        for cut in 0..=block.len() {
            let mut digests = BlockDigests::new(true);
            digests.feed(&block[..cut]);
            digests.feed(&block[cut..]);
            let found = digests.finish();
            assert!(found.head_whole && !found.chunks_broken, "cut at {cut}");
            assert_eq!(found.block, <[u8; 20]>::from(Sha1::digest(block)));
            let payload = Sha1::digest(&block[payload_start..]);
            assert_eq!(found.payload, <[u8; 20]>::from(payload), "cut at {cut}");
            let body = <[u8; 20]>::from(Sha1::digest(b"body"));
            assert_eq!(found.dechunked, Some(body), "cut at {cut}");
        }
    }
}
