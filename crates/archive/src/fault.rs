//! What can be wrong with a WARC file, each with its name. Found by `read` (the framing) and
//! `verify` (what the records say).

use thiserror::Error;

#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum Fault {
    #[error("bad gzip data: {0}")]
    BadGzip(String),
    #[error("the file ends in the middle of a gzip member")]
    TruncatedMember,
    #[error("the record is not a gzip member of its own")]
    NotOwnMember,
    #[error("the record goes on in the next gzip member")]
    SpansMembers,
    #[error("{bytes} bytes before a record belong to none")]
    StrayBytes { bytes: u64 },
    #[error("{bytes} bytes after the last record belong to none")]
    TrailingGarbage { bytes: u64 },
    #[error("the file ends in the middle of a record: {missing} bytes are missing")]
    TruncatedRecord { missing: u64 },
    #[error("the record is {missing} bytes shorter than its Content-Length")]
    ShortRecord { missing: u64 },
    #[error("no two line ends follow the record: its Content-Length is wrong, or it was cut")]
    BadRecordEnd,
    #[error("the header is longer than {limit} bytes")]
    HeaderTooLong { limit: usize },
    #[error("not a version of WARC: '{0}'")]
    BadVersion(String),
    #[error("not a header line: '{0}'")]
    BadHeaderLine(String),
    #[error("not the header line of an ARC record: '{0}'")]
    BadArcHeader(String),
    #[error("Content-Length is not a length: '{0}'")]
    BadContentLength(String),
    #[error("{0} is missing")]
    MissingHeader(&'static str),
    #[error("{0} occurs twice")]
    RepeatedHeader(&'static str),
    #[error("WARC-Type is unknown: '{0}'")]
    UnknownType(String),
    #[error("the date is not one: '{0}'")]
    BadDate(String),
    #[error("WARC-Record-ID is not a URI in angle brackets: '{0}'")]
    BadRecordId(String),
    #[error("another record has the same WARC-Record-ID: {0}")]
    DuplicateRecordId(String),
    #[error("WARC-Target-URI is not a URI: '{0}'")]
    BadTargetUri(String),
    #[error("{header} is not a digest: '{value}'")]
    BadDigest { header: &'static str, value: String },
    #[error("WARC-Block-Digest says {said}, but the block's is {found}")]
    BlockDigest { said: String, found: String },
    #[error("WARC-Payload-Digest says {said}, but the payload's is {found}")]
    PayloadDigest { said: String, found: String },
    #[error("the block is not an HTTP message")]
    BadHttpHead,
    #[error("the payload's chunked coding is broken")]
    BadChunks,
    #[error("neither WARC nor ARC: it starts with '{0}'")]
    NotAnArchive(String),
    #[error("the file is empty")]
    Empty,
}

impl Fault {
    /// A short name for tables and JSON.
    pub fn name(&self) -> &'static str {
        match self {
            Fault::BadGzip(_) => "bad-gzip",
            Fault::TruncatedMember => "truncated-member",
            Fault::NotOwnMember => "not-own-member",
            Fault::SpansMembers => "spans-members",
            Fault::StrayBytes { .. } => "stray-bytes",
            Fault::TrailingGarbage { .. } => "trailing-garbage",
            Fault::TruncatedRecord { .. } => "truncated-record",
            Fault::ShortRecord { .. } => "short-record",
            Fault::BadRecordEnd => "bad-record-end",
            Fault::HeaderTooLong { .. } => "header-too-long",
            Fault::BadVersion(_) => "bad-version",
            Fault::BadHeaderLine(_) => "bad-header-line",
            Fault::BadArcHeader(_) => "bad-arc-header",
            Fault::BadContentLength(_) => "bad-content-length",
            Fault::MissingHeader(_) => "missing-header",
            Fault::RepeatedHeader(_) => "repeated-header",
            Fault::UnknownType(_) => "unknown-type",
            Fault::BadDate(_) => "bad-date",
            Fault::BadRecordId(_) => "bad-record-id",
            Fault::DuplicateRecordId(_) => "duplicate-record-id",
            Fault::BadTargetUri(_) => "bad-target-uri",
            Fault::BadDigest { .. } => "bad-digest",
            Fault::BlockDigest { .. } => "block-digest",
            Fault::PayloadDigest { .. } => "payload-digest",
            Fault::BadHttpHead => "bad-http-head",
            Fault::BadChunks => "bad-chunks",
            Fault::NotAnArchive(_) => "not-an-archive",
            Fault::Empty => "empty",
        }
    }
}

/// Text of a file for a message: one line, not long.
pub(crate) fn quoted(bytes: &[u8]) -> String {
    const SHOWN_BYTES: usize = 80;
    let shown = &bytes[..bytes.len().min(SHOWN_BYTES)];
    String::from_utf8_lossy(shown)
        .chars()
        .flat_map(char::escape_default)
        .collect()
}
