//! What is handed in for one visit, and what comes out of building its records. Plain data.

use portolan_model::{Fact, Truncation};
use std::net::IpAddr;

/// One request and its answer, borrowed from whoever fetched it.
#[derive(Clone, Copy, Debug)]
pub struct Capture<'a> {
    /// Canonical URL.
    pub url: &'a str,
    /// SURT form of `url`, the key of the index.
    pub surt: &'a str,
    pub at_ms: u64,
    /// The address that answered.
    pub ip: Option<IpAddr>,
    /// The request as sent; empty where it is not known, and then there is no request record.
    pub request_head: &'a [u8],
    /// Status line and headers as received, folded lines, bare LF and all; empty for HTTP/0.9.
    pub response_head: &'a [u8],
    /// Without transfer coding, with content encoding as received.
    pub body: &'a [u8],
    /// SHA-1 of `body`, if it is already known.
    pub sha1: Option<[u8; 20]>,
    /// Taken where `response_head` has no readable status line.
    pub status: u16,
    /// What spoke, where it was not HTTP/1.x: `h2`, `http/0.9`. Written as WARC-Protocol.
    pub protocol: Option<&'a str>,
    /// It is no HTTP: the body alone is archived, as a resource record of this media type.
    pub resource_type: Option<&'a str>,
    /// Media type found by looking at the body; written where the head says otherwise.
    pub identified_type: Option<&'a str>,
    pub truncated: Option<Truncation>,
    pub facts: PageFacts<'a>,
    /// What was made of the body, as conversion records. Those past [`MAX_CONVERSIONS`] are left out.
    pub conversions: &'a [Conversion],
}

/// At most this many conversion records belong to one visit.
pub const MAX_CONVERSIONS: usize = 12;

/// The text of a document, made by a processing module.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Conversion {
    /// The module's name.
    pub by: String,
    pub text: String,
}

/// What the crawl found out about the page; lines of the metadata record.
#[derive(Clone, Copy, Debug, Default)]
pub struct PageFacts<'a> {
    pub fetch_ms: u32,
    /// Links from the nearest seed.
    pub depth: u16,
    /// The page on which the URL was first found.
    pub via: Option<&'a str>,
    pub charset: &'a str,
    pub title: &'a str,
    /// 0 where there is no text.
    pub simhash: u64,
    /// It holds new parts of a document that is stored: the id of that one's record, and its URL.
    pub refreshes: Option<(&'a str, &'a str)>,
    /// What was odd about the answer: bad chunking, bare LF, a body after HEAD …
    pub oddities: &'a [&'a str],
    /// What processing modules say. Their names hold a dot, so none is taken for a field above.
    pub said: &'a [Fact],
}

/// The records of one visit, ready to be appended. The response (or revisit) comes first.
#[derive(Clone, Debug)]
pub struct Built {
    /// Gzip members, one a record.
    pub(crate) members: Vec<u8>,
    /// Length of the first member.
    pub(crate) response_length: u32,
    /// The index line up to where only the writer knows on.
    pub(crate) index_start: String,
    pub(crate) records: u32,
    pub(crate) payload_sha1: [u8; 20],
    pub(crate) payload_bytes: u64,
    pub(crate) revisit: bool,
}

impl Built {
    /// Compressed bytes of all records.
    pub fn bytes(&self) -> u64 {
        self.members.len() as u64
    }

    pub fn records(&self) -> u32 {
        self.records
    }

    /// SHA-1 of the payload, as in WARC-Payload-Digest.
    pub fn payload_sha1(&self) -> [u8; 20] {
        self.payload_sha1
    }

    /// Length of the payload, also where a revisit record leaves it out.
    pub fn payload_bytes(&self) -> u64 {
        self.payload_bytes
    }

    pub fn is_revisit(&self) -> bool {
        self.revisit
    }
}
