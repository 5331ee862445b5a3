//! What became of a request.

use crate::{DocId, Reason};

/// The end of a URL's way through the crawl, or of one attempt at it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Outcome {
    /// The server answered and the answer is archived: a document, a redirect, or an error page
    /// that counts as an answer. `Visit::status` says which.
    Fetched,
    /// It did not work this time; the URL stays due and goes back in its queue, a class lower.
    Retry(Reason),
    /// It did not work and is given up.
    Failed(Reason),
    /// It may not or need not be fetched.
    Excluded(Reason),
}

/// Why a body is shorter than what the server meant to send.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum Truncation {
    /// Over the configured size.
    Length = 1,
    /// Over the configured time.
    Time = 2,
    /// The connection ended early, or the framing broke.
    Disconnect = 3,
}

impl Truncation {
    pub fn from_u8(value: u8) -> Option<Self> {
        [Truncation::Length, Truncation::Time, Truncation::Disconnect]
            .into_iter()
            .find(|t| *t as u8 == value)
    }

    /// The word of WARC-Truncated.
    pub fn name(self) -> &'static str {
        match self {
            Truncation::Length => "length",
            Truncation::Time => "time",
            Truncation::Disconnect => "disconnect",
        }
    }
}

/// Where a response (or revisit) record starts, and how long the visit's records are together.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct ArchivePosition {
    /// Number of the WARC file within the crawl.
    pub file: u32,
    pub offset: u64,
    /// Compressed length of the response record.
    pub length: u32,
    /// End of the last record of this visit: the archive is whole up to here.
    pub end: u64,
}

/// One request and what came of it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Visit {
    pub at_ms: u64,
    pub outcome: Outcome,
    /// HTTP status; 0 where no answer came.
    pub status: u16,
    /// How many attempts it took, this one included.
    pub attempt: u8,
    pub depth: u16,
    /// From sending the request to the end of the body.
    pub fetch_ms: u32,
    /// Bytes on the wire: all that was received for this answer, head, framing and encodings included.
    pub wire_bytes: u64,
    /// Bytes of the body without content and transfer encoding.
    pub body_bytes: u64,
    pub truncated: Option<Truncation>,
    /// Media type without parameters, lower case.
    pub mime: String,
    pub charset: String,
    pub title: String,
    pub etag: String,
    pub last_modified: String,
    /// SHA-1 of the payload as archived.
    pub sha1: [u8; 20],
    /// 64-bit document fingerprint (xxh3 of the payload); 0 for an empty body.
    pub fingerprint: u64,
    /// Simhash of the text, for near-duplicates; 0 where there is no text.
    pub simhash: u64,
    /// The first document with the same payload, if this is a copy.
    pub duplicate_of: Option<DocId>,
    /// Distinct links found.
    pub links: u32,
    /// Links beyond `content.max_links`, which were not taken. Those that the page repeats may count more
    /// than once.
    pub links_left_out: u32,
    /// It was asked for as a sitemap: a source of links, and no document.
    pub is_sitemap: bool,
    pub archive: Option<ArchivePosition>,
}

impl Visit {
    /// A visit in which nothing was received.
    pub fn without_answer(at_ms: u64, outcome: Outcome) -> Self {
        Self {
            at_ms,
            outcome,
            status: 0,
            attempt: 1,
            depth: 0,
            fetch_ms: 0,
            wire_bytes: 0,
            body_bytes: 0,
            truncated: None,
            mime: String::new(),
            charset: String::new(),
            title: String::new(),
            etag: String::new(),
            last_modified: String::new(),
            sha1: [0; 20],
            fingerprint: 0,
            simhash: 0,
            duplicate_of: None,
            links: 0,
            links_left_out: 0,
            is_sitemap: false,
            archive: None,
        }
    }

    /// Is this a document: a page or file that the crawl was after?
    pub fn is_document(&self) -> bool {
        self.has_content() && !self.is_sitemap
    }

    /// Is this a sitemap that was read for its links?
    pub fn is_source(&self) -> bool {
        self.has_content() && self.is_sitemap
    }

    fn has_content(&self) -> bool {
        self.outcome == Outcome::Fetched && (200..300).contains(&self.status)
    }
}
