//! The scanner of one page: settles the charset, then runs the tokenizer over bytes it can trust to
//! be ASCII-compatible. What tags mean is the reader's business.

use encoding_rs::{CoderResult, Decoder, Encoding, ISO_2022_JP, UTF_16BE, UTF_16LE};
use std::sync::Arc;

use super::links::Found;
use super::reader::{Page, Reader};
use super::tokenizer::Tokenizer;
use crate::Directives;
use crate::charset::{
    self, Charset, CharsetSource, DETECTION_BYTES, EscapeMask, PRESCAN_BYTES, from_header_label,
};

/// What to look for, and how much of it at most.
#[derive(Clone, Debug)]
pub struct ScanOptions {
    /// Also what the page needs to be shown: images, scripts, style sheets and what they name, media, fonts.
    pub embeds: bool,
    /// Also the visible text.
    pub text: bool,
    /// A META of this name counts like one named `robots`.
    pub product_token: Option<Arc<str>>,
    /// Links beyond this many are counted, not told.
    pub max_links: u32,
    /// The attributes of longer tags do not count. Bounds what is kept between two chunks.
    pub max_tag_bytes: usize,
    /// Longer attributes hold no link.
    pub max_attribute_bytes: usize,
    /// What is longer of a title is cut.
    pub max_title_bytes: usize,
}

impl Default for ScanOptions {
    fn default() -> ScanOptions {
        ScanOptions {
            embeds: false,
            text: false,
            product_token: None,
            max_links: 20_000,
            max_tag_bytes: 64 * 1024,
            max_attribute_bytes: 16 * 1024,
            max_title_bytes: 4 * 1024,
        }
    }
}

/// What is known of a page at its end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PageSummary {
    /// Also what the query part of a link is to be encoded in when it is resolved.
    pub charset: Charset,
    /// White space collapsed.
    pub title: Option<String>,
    /// The first BASE's `href`, itself relative to the page's URL.
    pub base: Option<String>,
    pub robots: Directives,
    /// Links told, embeds among them.
    pub links: u32,
    pub embeds: u32,
    /// Links beyond `max_links`.
    pub links_over_limit: u32,
    /// Links in attributes or tags that were too long.
    pub oversize: u32,
    /// Links in a TEMPLATE, which belong to no page until a script puts them there.
    pub inert: u32,
}

/// Scans one page, given in chunks of any size; how it is cut changes nothing in what is found.
pub struct PageScanner {
    tokenizer: Tokenizer,
    page: Page,
    phase: Phase,
    /// Bytes that wait for the charset: at most `PRESCAN_BYTES` or `DETECTION_BYTES`.
    held: Vec<u8>,
    /// The last bytes of the ASCII text that a page without a declared charset begins with.
    ascii_end: [u8; ASCII_END_BYTES],
    header: Option<&'static Encoding>,
    tld: Option<String>,
    mask: EscapeMask,
    utf16: Option<Decoder>,
    /// Bytes that had to be changed before they are scanned.
    changed: Vec<u8>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Phase {
    /// The first bytes are not all here.
    Start,
    /// Nothing is declared and all was ASCII: the charset does not matter yet.
    Ascii,
    /// Nothing is declared and bytes are gathered to tell.
    Detecting,
    Settled,
}

impl PageScanner {
    /// `header_charset` is the `charset` parameter of the page's Content-Type, if any.
    pub fn new(options: &ScanOptions, header_charset: Option<&str>) -> PageScanner {
        PageScanner {
            tokenizer: Tokenizer::new(options.max_tag_bytes),
            page: Page::new(options.clone()),
            phase: Phase::Start,
            held: Vec::new(),
            ascii_end: [b'\n'; ASCII_END_BYTES],
            header: header_charset.and_then(from_header_label),
            tld: None,
            mask: EscapeMask::default(),
            utf16: None,
            changed: Vec::new(),
        }
    }

    /// The top-level domain of the page's host (`jp`): a hint for pages that declare no charset.
    pub fn with_top_level_domain(mut self, tld: &str) -> PageScanner {
        self.tld = Some(tld.to_ascii_lowercase());
        self
    }

    /// What is known of the charset so far.
    pub fn charset(&self) -> Charset {
        self.page.charset
    }

    /// Scans the next bytes.
    pub fn feed<S: FnMut(Found<'_>)>(&mut self, bytes: &[u8], sink: &mut S) {
        self.push(bytes, false, sink);
    }

    /// The page has ended.
    pub fn finish<S: FnMut(Found<'_>)>(self, sink: &mut S) -> PageSummary {
        self.finish_with(b"", sink)
    }

    /// The page ends with `bytes`. With all of the page in `bytes` nothing of it is copied.
    pub fn finish_with<S: FnMut(Found<'_>)>(mut self, bytes: &[u8], sink: &mut S) -> PageSummary {
        self.push(bytes, true, sink);
        let mut reader = Reader {
            page: &mut self.page,
            sink,
        };
        self.tokenizer.finish(&mut reader);
        reader.end_style();
        if self.mask.seen && self.page.charset.source == CharsetSource::Ascii {
            let source = CharsetSource::Detected;
            self.page.charset = Charset {
                encoding: ISO_2022_JP,
                source,
            };
        }
        self.page.finish(sink)
    }

    fn push<S: FnMut(Found<'_>)>(&mut self, bytes: &[u8], last: bool, sink: &mut S) {
        let mut rest = bytes;
        while self.phase != Phase::Settled {
            let wanted = match self.phase {
                Phase::Start if self.header.is_some() => BOM_BYTES,
                Phase::Start => PRESCAN_BYTES,
                Phase::Ascii => {
                    let ascii = Encoding::ascii_valid_up_to(rest);
                    self.keep_end(&rest[..ascii]);
                    self.scan(&rest[..ascii], false, sink);
                    rest = &rest[ascii..];
                    if self.page.charset.source != CharsetSource::Ascii {
                        self.phase = Phase::Settled;
                    } else if rest.is_empty() {
                        return;
                    } else {
                        self.phase = Phase::Detecting;
                    }
                    continue;
                }
                Phase::Detecting => DETECTION_BYTES,
                Phase::Settled => break,
            };
            if self.held.is_empty() && (last || rest.len() >= wanted) {
                let skip = self.settle(rest);
                rest = &rest[skip..];
                continue;
            }
            let taken = rest.len().min(wanted - self.held.len());
            self.held.extend_from_slice(&rest[..taken]);
            rest = &rest[taken..];
            if self.held.len() < wanted && !last {
                return;
            }
            let held = std::mem::take(&mut self.held);
            let skip = self.settle(&held);
            self.push(&held[skip..], false, sink);
        }
        self.scan(rest, last, sink);
    }

    /// Keeps the end of the ASCII text so far, of which `ascii` is the next piece.
    fn keep_end(&mut self, ascii: &[u8]) {
        match ascii.last_chunk() {
            Some(end) => self.ascii_end = *end,
            None => {
                self.ascii_end.rotate_left(ascii.len());
                self.ascii_end[ASCII_END_BYTES - ascii.len()..].copy_from_slice(ascii);
            }
        }
    }

    /// Tells the charset, as far as `bytes` can; how many bytes the byte order mark takes.
    fn settle(&mut self, bytes: &[u8]) -> usize {
        if self.phase == Phase::Detecting {
            let tld = self.tld.as_deref();
            self.page.charset = charset::detect_after(&self.ascii_end, bytes, tld, true);
            self.phase = Phase::Settled;
            return 0;
        }
        let Some(charset) = charset::declared_by(bytes, self.header) else {
            self.phase = Phase::Ascii;
            return 0;
        };
        self.phase = Phase::Settled;
        self.page.charset = charset;
        if charset.encoding == UTF_16LE || charset.encoding == UTF_16BE {
            self.utf16 = Some(charset.encoding.new_decoder_without_bom_handling());
            // What the reader sees is the decoder's UTF-8.
            self.page.is_decoded = true;
        }
        match Encoding::for_bom(bytes) {
            Some((_, bom_bytes)) => bom_bytes,
            None => 0,
        }
    }

    /// Runs the tokenizer over `bytes`, in place where nothing in them has to be changed.
    fn scan<S: FnMut(Found<'_>)>(&mut self, bytes: &[u8], last: bool, sink: &mut S) {
        let mut reader = Reader {
            page: &mut self.page,
            sink,
        };
        if let Some(decoder) = &mut self.utf16 {
            self.changed.resize(DECODED_BYTES, 0);
            let mut rest = bytes;
            loop {
                let (result, read, written, _) =
                    decoder.decode_to_utf8(rest, &mut self.changed, last);
                self.tokenizer.feed(&self.changed[..written], &mut reader);
                rest = &rest[read..];
                if result == CoderResult::InputEmpty {
                    return;
                }
            }
        }
        if self.mask.leaves(bytes) {
            return self.tokenizer.feed(bytes, &mut reader);
        }
        // In pieces, so that no page makes this buffer large.
        for piece in bytes.chunks(DECODED_BYTES) {
            self.changed.clear();
            self.changed.extend_from_slice(piece);
            self.mask.apply(&mut self.changed);
            self.tokenizer.feed(&self.changed, &mut reader);
        }
    }
}

const BOM_BYTES: usize = 3;

/// So much of what stands before the first other byte is looked at when a charset is detected.
const ASCII_END_BYTES: usize = 2;

/// How much is decoded or masked at a time.
const DECODED_BYTES: usize = 16 * 1024;
