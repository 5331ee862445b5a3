//! Builds the records of a visit: response or revisit, request, metadata. A builder belongs to one
//! worker and keeps its buffers; it touches no file.

use crate::capture::{Built, Capture, Conversion, MAX_CONVERSIONS};
use crate::cdxj;
use crate::date::{push_warc_date, timestamp14};
use crate::digest;
use crate::error::ArchiveError;
use crate::field::{one_word, push_field, push_number};
use crate::head::{HttpHead, push_stored_head};
use crate::member::{GzipMembers, Packing, RECORD_END};
use crate::seen::SeenRecord;
use crate::settings::ArchiveSettings;
use portolan_model::LinkKind;
use std::borrow::Cow;
use xxhash_rust::xxh3::xxh3_128_with_seed;

pub(crate) const VERSION_LINE: &[u8] = b"WARC/1.1\r\n";
/// The payload came once more.
const IDENTICAL_PAYLOAD: &str = "http://netpreserve.org/warc/1.1/revisit/identical-payload-digest";
/// The server said that nothing had changed, and sent no payload.
const NOT_MODIFIED: &str = "http://netpreserve.org/warc/1.1/revisit/server-not-modified";

/// Why a record has no payload, and which record has it.
#[derive(Clone, Copy)]
struct Revisit<'a> {
    profile: &'static str,
    first: &'a SeenRecord,
}

/// A larger plain record is not kept as a buffer for the next one.
const BUFFER_KEPT_BYTES: usize = 4 << 20;

pub struct RecordBuilder {
    members: GzipMembers,
    recompress_encoded: bool,
    ids: RecordIds,
    /// The plain record on its way to the compressor.
    plain: Vec<u8>,
    head: Vec<u8>,
    fields: Vec<u8>,
}

impl RecordBuilder {
    /// `seed` makes this builder's record ids differ from those of every other builder and every
    /// earlier run: take it from the machine's randomness.
    pub fn new(settings: &ArchiveSettings, seed: u64) -> Result<Self, ArchiveError> {
        Ok(Self {
            members: GzipMembers::new(settings)?,
            recompress_encoded: settings.recompress_encoded,
            ids: RecordIds::new(seed),
            plain: Vec::new(),
            head: Vec::new(),
            fields: Vec::new(),
        })
    }

    /// Response, request and metadata of one visit.
    pub fn build<'l>(
        &mut self,
        capture: &Capture<'_>,
        outlinks: impl IntoIterator<Item = (&'l str, LinkKind)>,
    ) -> Built {
        let payload_bytes = capture.body.len() as u64;
        self.build_records(capture, Some(payload_bytes), None, outlinks)
    }

    /// For an answer that says that what `first` holds is not modified (304). The record has no block: who replays it takes head and payload of
    /// the first, where the head of a 304 would be all that is shown. That head is in the metadata. The payload's SHA-1 is in `capture`.
    pub fn build_not_modified(&mut self, capture: &Capture<'_>, first: &SeenRecord) -> Built {
        let revisit = Revisit {
            profile: NOT_MODIFIED,
            first,
        };
        self.build_records(capture, None, Some(revisit), [])
    }

    /// The same for a payload that the archive already holds: the head is kept, the body is not,
    /// and need not be in `capture`. Its length has to be given nevertheless: who replays a revisit
    /// sends this head before the payload of the first.
    pub fn build_revisit<'l>(
        &mut self,
        capture: &Capture<'_>,
        payload_bytes: u64,
        first: &SeenRecord,
        outlinks: impl IntoIterator<Item = (&'l str, LinkKind)>,
    ) -> Built {
        let revisit = Revisit {
            profile: IDENTICAL_PAYLOAD,
            first,
        };
        self.build_records(capture, Some(payload_bytes), Some(revisit), outlinks)
    }

    fn build_records<'l>(
        &mut self,
        capture: &Capture<'_>,
        payload_bytes: Option<u64>,
        revisit: Option<Revisit<'_>>,
        outlinks: impl IntoIterator<Item = (&'l str, LinkKind)>,
    ) -> Built {
        let url = one_word(capture.url);
        let ids = self.ids.next(capture);
        let mut out = Vec::with_capacity(capture.body.len() / 2 + 4096);

        self.head.clear();
        let is_not_modified = revisit.is_some_and(|revisit| revisit.profile == NOT_MODIFIED);
        if capture.resource_type.is_none() && !is_not_modified {
            let (head, status) = (capture.response_head, capture.status);
            push_stored_head(&mut self.head, head, status, payload_bytes);
        }
        let (found_sha1, block_sha1) = match revisit {
            None => digest::payload_and_block(&self.head, capture.body),
            // The block of a revisit is its head alone.
            Some(_) => (digest::sha1(capture.body), digest::sha1(&self.head)),
        };
        let payload_sha1 = capture.sha1.unwrap_or(found_sha1);
        let digests = Digests {
            payload: &digest::labelled(&payload_sha1),
            block: &digest::labelled(&block_sha1),
        };
        let (response_length, index_start) =
            self.push_response(&mut out, capture, &url, revisit, ids, digests);
        let mut records = 2;
        if !capture.request_head.is_empty() {
            self.push_request(&mut out, capture, &url, ids);
            records += 1;
        }
        self.fields.clear();
        if is_not_modified {
            push_head(&mut self.fields, capture.response_head);
        }
        self.push_metadata(&mut out, capture, &url, ids, outlinks);
        let conversions = capture.conversions.iter().take(MAX_CONVERSIONS);
        for (number, conversion) in (0..).zip(conversions) {
            let id = ids.conversion(number);
            self.push_conversion(&mut out, capture, &url, (ids, id), conversion);
            records += 1;
        }
        self.release_large_buffers();
        Built {
            members: out,
            response_length: u32::try_from(response_length).unwrap_or(u32::MAX),
            index_start,
            records,
            payload_sha1,
            payload_bytes: payload_bytes.unwrap_or(0),
            revisit: revisit.is_some(),
        }
    }

    /// The record with `self.head` as its HTTP head.
    fn push_response(
        &mut self,
        out: &mut Vec<u8>,
        capture: &Capture<'_>,
        url: &str,
        revisit: Option<Revisit<'_>>,
        ids: VisitIds,
        digests: Digests<'_>,
    ) -> (usize, String) {
        let head = HttpHead::parse(&self.head);
        let body = if revisit.is_some() { &[] } else { capture.body };
        let record = &mut self.plain;
        let kind = match capture.resource_type {
            _ if revisit.is_some() => "revisit",
            Some(_) => "resource",
            None => "response",
        };
        begin_record(record, kind, ids.response, capture.at_ms);
        push_field(record, "WARC-Target-URI", url);
        push_address(record, capture);
        if let Some(protocol) = capture.protocol {
            push_field(record, "WARC-Protocol", protocol);
        }
        if let Some(Revisit { profile, first }) = revisit {
            push_field(record, "WARC-Profile", profile);
            push_field(record, "WARC-Refers-To-Target-URI", &one_word(&first.url));
            push_date(record, "WARC-Refers-To-Date", first.at_ms);
        }
        push_field(record, "WARC-Payload-Digest", digests.payload);
        push_field(record, "WARC-Block-Digest", digests.block);
        if let Some(truncation) = capture.truncated {
            push_field(record, "WARC-Truncated", truncation.name());
        }
        if let Some(found) = capture.identified_type
            && !head
                .media_type()
                .is_some_and(|said| said.eq_ignore_ascii_case(found))
        {
            push_field(record, "WARC-Identified-Payload-Type", found);
        }
        let of_http = "application/http;msgtype=response";
        let block_type = capture.resource_type.unwrap_or(of_http);
        push_field(record, "Content-Type", block_type);
        end_record(record, &[&self.head, body]);

        let index_start = cdxj::line_start(&cdxj::Entry {
            surt: capture.surt,
            timestamp: &timestamp14(capture.at_ms),
            url,
            mime: if revisit.is_some() {
                Some("warc/revisit")
            } else {
                capture.resource_type.or(head.media_type())
            },
            status: Some(&*head.status).filter(|status| !status.is_empty()),
            digest: digests.payload,
        });
        let packing = if !self.recompress_encoded && revisit.is_none() && is_packed(&head) {
            Packing::Store
        } else {
            Packing::Deflate
        };
        (self.members.append(out, record, packing), index_start)
    }

    fn push_request(&mut self, out: &mut Vec<u8>, capture: &Capture<'_>, url: &str, ids: VisitIds) {
        let end: &[u8] = if capture.request_head.ends_with(b"\r\n\r\n") {
            b""
        } else if capture.request_head.ends_with(b"\r\n") {
            b"\r\n"
        } else {
            b"\r\n\r\n"
        };
        let block_sha1 = {
            let mut block_digest = sha1::Sha1::default();
            sha1::Digest::update(&mut block_digest, capture.request_head);
            sha1::Digest::update(&mut block_digest, end);
            sha1::Digest::finalize(block_digest).into()
        };
        let record = &mut self.plain;
        begin_record(record, "request", ids.request, capture.at_ms);
        push_field(record, "WARC-Target-URI", url);
        push_address(record, capture);
        push_id(record, "WARC-Concurrent-To", ids.response);
        push_field(record, "WARC-Block-Digest", &digest::labelled(&block_sha1));
        push_field(record, "Content-Type", "application/http;msgtype=request");
        end_record(record, &[capture.request_head, end]);
        // A few hundred bytes: deflate's fixed cost a call is not worth what it would save.
        self.members.append(out, record, Packing::Store);
    }

    /// Behind what `self.fields` has already.
    fn push_metadata<'l>(
        &mut self,
        out: &mut Vec<u8>,
        capture: &Capture<'_>,
        url: &str,
        ids: VisitIds,
        outlinks: impl IntoIterator<Item = (&'l str, LinkKind)>,
    ) {
        push_facts(&mut self.fields, capture);
        for (link, kind) in outlinks {
            push_outlink(&mut self.fields, link, kind);
        }
        let block_sha1 = digest::sha1(&self.fields);
        let record = &mut self.plain;
        begin_record(record, "metadata", ids.metadata, capture.at_ms);
        push_field(record, "WARC-Target-URI", url);
        push_id(record, "WARC-Concurrent-To", ids.response);
        if let Some((document, _)) = capture.facts.refreshes {
            push_field(record, "WARC-Refers-To", &one_word(document));
        }
        push_field(record, "WARC-Block-Digest", &digest::labelled(&block_sha1));
        push_field(record, "Content-Type", "application/warc-fields");
        end_record(record, &[&self.fields]);
        self.members.append(out, record, Packing::Deflate);
    }

    /// What a module made of the payload, as the standard has it for conversions.
    fn push_conversion(
        &mut self,
        out: &mut Vec<u8>,
        capture: &Capture<'_>,
        url: &str,
        (ids, id): (VisitIds, u128),
        conversion: &Conversion,
    ) {
        let text = conversion.text.as_bytes();
        let sha1 = digest::labelled(&digest::sha1(text));
        let record = &mut self.plain;
        begin_record(record, "conversion", id, capture.at_ms);
        push_field(record, "WARC-Target-URI", url);
        push_id(record, "WARC-Refers-To", ids.response);
        push_field(record, "WARC-Block-Digest", &sha1);
        push_field(record, "Portolan-Module", &conversion.by);
        push_field(record, "Content-Type", "text/plain; charset=utf-8");
        end_record(record, &[text]);
        self.members.append(out, record, Packing::Deflate);
    }

    fn release_large_buffers(&mut self) {
        for buffer in [&mut self.plain, &mut self.head, &mut self.fields] {
            if buffer.capacity() > BUFFER_KEPT_BYTES {
                *buffer = Vec::new();
            }
        }
    }
}

/// The warcinfo record that opens a file.
pub(crate) fn warcinfo(
    settings: &ArchiveSettings,
    filename: &str,
    at_ms: u64,
    seed: u64,
) -> Vec<u8> {
    let mut fields = Vec::new();
    let software = concat!("Portolan/", env!("CARGO_PKG_VERSION"));
    push_field(&mut fields, "software", software);
    push_field(&mut fields, "format", "WARC File Format 1.1");
    push_field(
        &mut fields,
        "conformsTo",
        "http://iipc.github.io/warc-specifications/specifications/warc-format/warc-1.1/",
    );
    for (name, value) in &settings.info {
        push_field(&mut fields, &one_word(name), value);
    }
    let mut record = Vec::new();
    let id = xxh3_128_with_seed(filename.as_bytes(), seed ^ at_ms);
    begin_record(&mut record, "warcinfo", id, at_ms);
    push_field(&mut record, "WARC-Filename", filename);
    let block_digest = digest::labelled(&digest::sha1(&fields));
    push_field(&mut record, "WARC-Block-Digest", &block_digest);
    push_field(&mut record, "Content-Type", "application/warc-fields");
    end_record(&mut record, &[&fields]);
    record
}

/// Digests of a response, labelled.
struct Digests<'a> {
    payload: &'a str,
    block: &'a str,
}

/// The bits in which the ids of a visit's records differ.
const ID_BITS: u128 = 0b1111;

/// Ids of the records of one visit: the same number but for its last bits.
#[derive(Clone, Copy)]
struct VisitIds {
    response: u128,
    request: u128,
    metadata: u128,
}

impl VisitIds {
    /// Ids from 3 on are free: see [`MAX_CONVERSIONS`].
    fn conversion(self, number: u128) -> u128 {
        self.response | (3 + number)
    }
}

struct RecordIds {
    seed: u64,
    built: u64,
    text: Vec<u8>,
}

impl RecordIds {
    fn new(seed: u64) -> Self {
        Self {
            seed,
            built: 0,
            text: Vec::new(),
        }
    }

    /// URL and time are in the hash, so that even two builders with one seed give distinct ids.
    fn next(&mut self, capture: &Capture<'_>) -> VisitIds {
        self.built += 1;
        self.text.clear();
        self.text.extend_from_slice(&self.built.to_le_bytes());
        self.text.extend_from_slice(&capture.at_ms.to_le_bytes());
        self.text.extend_from_slice(capture.url.as_bytes());
        let id = xxh3_128_with_seed(&self.text, self.seed) & !ID_BITS;
        const { assert!(3 + MAX_CONVERSIONS as u128 <= ID_BITS + 1) };
        VisitIds {
            response: id,
            request: id | 1,
            metadata: id | 2,
        }
    }
}

/// Clears `record` and writes the fields that every record has.
fn begin_record(record: &mut Vec<u8>, kind: &str, id: u128, at_ms: u64) {
    record.clear();
    record.extend_from_slice(VERSION_LINE);
    push_field(record, "WARC-Type", kind);
    push_id(record, "WARC-Record-ID", id);
    push_date(record, "WARC-Date", at_ms);
}

/// Content-Length, the block, and the two line ends that close a record.
fn end_record(record: &mut Vec<u8>, block: &[&[u8]]) {
    let length: usize = block.iter().map(|part| part.len()).sum();
    push_number(record, "Content-Length", length as u64);
    record.reserve(length + 2 + RECORD_END.len());
    record.extend_from_slice(b"\r\n");
    for part in block {
        record.extend_from_slice(part);
    }
    record.extend_from_slice(RECORD_END);
}

fn push_date(record: &mut Vec<u8>, name: &str, at_ms: u64) {
    record.extend_from_slice(name.as_bytes());
    record.extend_from_slice(b": ");
    push_warc_date(record, at_ms);
    record.extend_from_slice(b"\r\n");
}

/// `<urn:uuid:…>`, with the bits of a version 4 UUID.
fn push_id(record: &mut Vec<u8>, name: &str, id: u128) {
    const HEX: &[u8; 16] = b"0123456789abcdef";
    record.extend_from_slice(name.as_bytes());
    record.extend_from_slice(b": <urn:uuid:");
    let mut bytes = id.to_be_bytes();
    bytes[6] = bytes[6] & 0x0f | 0x40;
    bytes[8] = bytes[8] & 0x3f | 0x80;
    for (n, byte) in bytes.into_iter().enumerate() {
        if matches!(n, 4 | 6 | 8 | 10) {
            record.push(b'-');
        }
        record.push(HEX[usize::from(byte >> 4)]);
        record.push(HEX[usize::from(byte & 15)]);
    }
    record.extend_from_slice(b">\r\n");
}

fn push_address(record: &mut Vec<u8>, capture: &Capture<'_>) {
    if let Some(ip) = capture.ip {
        push_field(record, "WARC-IP-Address", &ip.to_string());
    }
}

/// The head of an answer that no other record has, a field for each line.
fn push_head(fields: &mut Vec<u8>, head: &[u8]) {
    for line in String::from_utf8_lossy(head).lines() {
        if !line.trim().is_empty() {
            push_field(fields, "responseHead", line);
        }
    }
}

fn push_facts(fields: &mut Vec<u8>, capture: &Capture<'_>) {
    let facts = &capture.facts;
    if let Some(via) = facts.via {
        push_field(fields, "via", &one_word(via));
    }
    if let Some((_, document)) = facts.refreshes {
        push_field(fields, "refreshes", &one_word(document));
    }
    push_number(fields, "depth", u64::from(facts.depth));
    push_number(fields, "fetchTimeMs", u64::from(facts.fetch_ms));
    for (name, value) in [("charset", facts.charset), ("title", facts.title)] {
        if !value.is_empty() {
            push_field(fields, name, value);
        }
    }
    if facts.simhash != 0 {
        push_field(fields, "simhash", &format!("{:016x}", facts.simhash));
    }
    for oddity in facts.oddities {
        push_field(fields, "oddity", oddity);
    }
    for fact in facts.said {
        push_field(fields, &one_word(&fact.name), &fact.value);
    }
}

/// `outlink: URL HOP CONTEXT`, as Heritrix writes them: L for a link, E for an embed, R for a
/// redirect, M for what a manifest lists.
fn push_outlink(fields: &mut Vec<u8>, url: &str, kind: LinkKind) {
    let context = match kind {
        LinkKind::Seed => "L seed",
        LinkKind::Anchor | LinkKind::Tol => "L a/@href",
        LinkKind::Area => "L area/@href",
        LinkKind::LinkElement => "L link/@href",
        LinkKind::Frame => "E frame/@src",
        LinkKind::Iframe => "E iframe/@src",
        LinkKind::Refresh => "R meta/@content",
        LinkKind::Redirect | LinkKind::SeedRedirect => "R Location:",
        LinkKind::Sitemap | LinkKind::SitemapPage => "M sitemap",
        LinkKind::Feed => "M feed",
        LinkKind::Embed => "E embed",
        LinkKind::Module => "L module",
    };
    let url: Cow<'_, str> = one_word(url);
    fields.extend_from_slice(b"outlink: ");
    fields.extend_from_slice(url.as_bytes());
    fields.push(b' ');
    fields.extend_from_slice(context.as_bytes());
    fields.extend_from_slice(b"\r\n");
}

/// Is the body compressed already, so that deflating it again would cost much and save little?
fn is_packed(head: &HttpHead<'_>) -> bool {
    if head.content_encoded {
        return true;
    }
    let Some(mime) = head.media_type() else {
        return false;
    };
    let mime = mime.to_ascii_lowercase();
    let Some((top, sub)) = mime.split_once('/') else {
        return false;
    };
    match top {
        "image" => !matches!(sub, "svg+xml" | "bmp" | "x-ms-bmp" | "tiff" | "x-icon"),
        "video" => true,
        "audio" => !matches!(sub, "wav" | "x-wav" | "midi"),
        "font" => matches!(sub, "woff" | "woff2"),
        "application" => matches!(
            sub,
            "zip"
                | "gzip"
                | "x-gzip"
                | "x-bzip2"
                | "x-xz"
                | "x-7z-compressed"
                | "x-rar-compressed"
                | "vnd.rar"
                | "zstd"
                | "java-archive"
                | "epub+zip"
                | "font-woff"
                | "font-woff2"
        ),
        _ => false,
    }
}
