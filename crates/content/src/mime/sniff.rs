//! What an unlabelled body is, from its first bytes, after WHATWG mimesniff's rules for an unknown type.

use std::borrow::Cow;

/// The standard's bound on what is looked at.
pub const SNIFF_BYTES: usize = 1445;

/// The essence of a body's type. Never fails: text that is nothing else is `text/plain`, the rest
/// `application/octet-stream`.
pub fn sniff(bytes: &[u8]) -> &'static str {
    let bytes = &bytes[..bytes.len().min(SNIFF_BYTES)];
    let text = bytes.strip_prefix(UTF8_BOM).unwrap_or(bytes);
    if is_html_start(text) {
        return "text/html";
    }
    if skip_whitespace(text).starts_with(b"<?xml") {
        return "text/xml";
    }
    let has_binary = bytes.iter().any(|&b| is_binary(b));
    let signature = SIGNATURES.iter().find(|(magic, _)| magic.matches(bytes));
    match signature {
        // Unlike the standard: a text that happens to start with `BM` is a text.
        Some((magic, _)) if !has_binary && magic.could_start_a_text() => "text/plain",
        Some((_, essence)) => essence,
        None if is_mp4(bytes) => "video/mp4",
        None if has_binary => "application/octet-stream",
        None => "text/plain",
    }
}

/// Whether a body is a gzip member. A sitemap named `.gz` often is one inside the transfer's own encoding,
/// and the caller has to inflate it.
pub fn is_gzip(bytes: &[u8]) -> bool {
    bytes.starts_with(b"\x1F\x8B\x08")
}

/// The bytes as UTF-8 as far as a byte order mark tells: without it, and with UTF-16 decoded. Bytes
/// without a mark come back as they are, valid UTF-8 or not.
pub(crate) fn utf8_by_bom(bytes: &[u8]) -> Cow<'_, [u8]> {
    if let Some(rest) = bytes.strip_prefix(UTF8_BOM) {
        return Cow::Borrowed(rest);
    }
    let read: fn([u8; 2]) -> u16 = match bytes {
        [0xFE, 0xFF, ..] => u16::from_be_bytes,
        [0xFF, 0xFE, ..] => u16::from_le_bytes,
        _ => return Cow::Borrowed(bytes),
    };
    let units = bytes[2..].as_chunks::<2>().0.iter().map(|&pair| read(pair));
    let text: String = char::decode_utf16(units)
        .map(|unit| unit.unwrap_or(char::REPLACEMENT_CHARACTER))
        .collect();
    Cow::Owned(text.into_bytes())
}

/// Whether text starts as an HTML page does: one of the standard's tags or a comment after white space.
/// Unlike the standard's, the tag may end its name with a line end too.
pub(super) fn is_html_start(bytes: &[u8]) -> bool {
    let bytes = skip_whitespace(bytes);
    if bytes.starts_with(b"<!--") {
        return true;
    }
    HTML_TAGS.iter().any(|tag| {
        bytes
            .get(..tag.len())
            .is_some_and(|head| head.eq_ignore_ascii_case(tag))
            && matches!(
                bytes.get(tag.len()),
                Some(b' ' | b'>' | b'\n' | b'\r' | b'\t')
            )
    })
}

/// Whether a byte cannot be text (the standard's "binary data byte").
pub(super) fn is_binary(b: u8) -> bool {
    matches!(b, 0x00..=0x08 | 0x0B | 0x0E..=0x1A | 0x1C..=0x1F)
}

pub(super) fn skip_whitespace(bytes: &[u8]) -> &[u8] {
    let start = bytes
        .iter()
        .position(|b| !matches!(b, b'\t' | b'\n' | 0x0C | b'\r' | b' '))
        .unwrap_or(bytes.len());
    &bytes[start..]
}

const UTF8_BOM: &[u8] = b"\xEF\xBB\xBF";

const HTML_TAGS: [&[u8]; 17] = [
    b"<!DOCTYPE HTML",
    b"<HTML",
    b"<HEAD",
    b"<SCRIPT",
    b"<IFRAME",
    b"<H1",
    b"<DIV",
    b"<FONT",
    b"<TABLE",
    b"<A",
    b"<STYLE",
    b"<TITLE",
    b"<B",
    b"<BODY",
    b"<BR",
    b"<P",
    b"<META",
];

enum Magic {
    Start(&'static [u8]),
    /// Two stretches with unimportant bytes between: first, offset of the second, second.
    Pair(&'static [u8], usize, &'static [u8]),
}

impl Magic {
    fn matches(&self, bytes: &[u8]) -> bool {
        let has = |at: usize, part: &[u8]| bytes.get(at..).is_some_and(|b| b.starts_with(part));
        match *self {
            Magic::Start(magic) => has(0, magic),
            Magic::Pair(first, at, second) => has(0, first) && has(at, second),
        }
    }
}

impl Magic {
    fn could_start_a_text(&self) -> bool {
        let (Magic::Start(magic) | Magic::Pair(magic, ..)) = *self;
        magic[0] != b'%' && magic.iter().all(u8::is_ascii_graphic)
    }
}

const SIGNATURES: [(Magic, &str); 32] = [
    (Magic::Start(b"%PDF-"), "application/pdf"),
    (Magic::Start(b"%!PS-Adobe-"), "application/postscript"),
    (Magic::Start(b"\xFE\xFF"), "text/plain"),
    (Magic::Start(b"\xFF\xFE"), "text/plain"),
    (Magic::Start(UTF8_BOM), "text/plain"),
    (Magic::Start(b"\0\0\x01\0"), "image/x-icon"),
    (Magic::Start(b"\0\0\x02\0"), "image/x-icon"),
    (Magic::Start(b"BM"), "image/bmp"),
    (Magic::Start(b"GIF87a"), "image/gif"),
    (Magic::Start(b"GIF89a"), "image/gif"),
    (Magic::Pair(b"RIFF", 8, b"WEBPVP"), "image/webp"),
    (Magic::Start(b"\x89PNG\r\n\x1A\n"), "image/png"),
    (Magic::Start(b"\xFF\xD8\xFF"), "image/jpeg"),
    (Magic::Pair(b"FORM", 8, b"AIFF"), "audio/aiff"),
    (Magic::Start(b"ID3"), "audio/mpeg"),
    (Magic::Start(b"OggS\0"), "application/ogg"),
    (Magic::Start(b"MThd\0\0\0\x06"), "audio/midi"),
    (Magic::Pair(b"RIFF", 8, b"AVI "), "video/avi"),
    (Magic::Pair(b"RIFF", 8, b"WAVE"), "audio/wave"),
    (Magic::Start(b"\x1A\x45\xDF\xA3"), "video/webm"),
    (Magic::Start(b"\x1F\x8B\x08"), "application/x-gzip"),
    (Magic::Start(b"PK\x03\x04"), "application/zip"),
    (
        Magic::Start(b"Rar!\x1A\x07\0"),
        "application/x-rar-compressed",
    ),
    (
        Magic::Start(b"Rar!\x1A\x07\x01\0"),
        "application/x-rar-compressed",
    ),
    (Magic::Start(b"\0\x01\0\0"), "font/ttf"),
    (Magic::Start(b"OTTO"), "font/otf"),
    (Magic::Start(b"ttcf"), "font/collection"),
    (Magic::Start(b"wOFF"), "font/woff"),
    (Magic::Start(b"wOF2"), "font/woff2"),
    (Magic::Start(b"\x28\xB5\x2F\xFD"), "application/zstd"),
    (Magic::Start(b"BZh"), "application/x-bzip2"),
    (Magic::Start(b"\0asm"), "application/wasm"),
];

/// The standard's signature for MP4: an `ftyp` box whose brands include one that starts with `mp4`.
fn is_mp4(bytes: &[u8]) -> bool {
    let Some(size) = bytes.first_chunk::<4>() else {
        return false;
    };
    let size = u32::from_be_bytes(*size) as usize;
    if bytes.len() < 12 || bytes.len() < size || !size.is_multiple_of(4) || &bytes[4..8] != b"ftyp"
    {
        return false;
    }
    if &bytes[8..11] == b"mp4" {
        return true;
    }
    bytes[..size]
        .as_chunks::<4>()
        .0
        .iter()
        .skip(4)
        .any(|brand| brand.starts_with(b"mp4"))
}
