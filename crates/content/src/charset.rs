//! Which charset a page is in, and its bytes as UTF-8. Knows nothing of tags beyond the
//! standard's look at the first kilobyte.

mod japanese;
mod prescan;
mod query;
mod segment;

use chardetng::{EncodingDetector, Iso2022JpDetection, Utf8Detection};
use encoding_rs::{Encoding, UTF_8, UTF_16BE, UTF_16LE, WINDOWS_1252, X_USER_DEFINED};

pub(crate) use japanese::{ESC, EscapeMask};
pub(crate) use prescan::charset_of_content;
pub use prescan::{PRESCAN_BYTES, prescan};
pub use query::query_in_charset;
pub use segment::decode_segment;

/// How many bytes, from the first non-ASCII byte on, are looked at when nothing is declared.
pub const DETECTION_BYTES: usize = 8 * 1024;

/// A charset and how it was found out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Charset {
    pub encoding: &'static Encoding,
    pub source: CharsetSource,
}

/// What told the charset, strongest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum CharsetSource {
    ByteOrderMark,
    Header,
    Meta,
    /// Nothing was declared; the bytes looked like it.
    Detected,
    /// Nothing was declared and every byte was ASCII.
    Ascii,
}

/// The charset of a page whose first bytes are `prefix`.
///
/// A byte order mark wins over the `Content-Type` header, the header over the page's own META,
/// as in browsers. `whole` says that `prefix` is all there is to see.
pub fn determine(prefix: &[u8], header: Option<&str>, tld: Option<&str>, whole: bool) -> Charset {
    declared(prefix, header).unwrap_or_else(|| detect(prefix, tld, whole))
}

/// The charset that the byte order mark, the header or the first kilobyte declares.
pub fn declared(prefix: &[u8], header: Option<&str>) -> Option<Charset> {
    declared_by(prefix, header.and_then(from_header_label))
}

pub(crate) fn declared_by(prefix: &[u8], header: Option<&'static Encoding>) -> Option<Charset> {
    if let Some((encoding, _)) = Encoding::for_bom(prefix) {
        return Some(Charset {
            encoding,
            source: CharsetSource::ByteOrderMark,
        });
    }
    if let Some(encoding) = header {
        return Some(Charset {
            encoding,
            source: CharsetSource::Header,
        });
    }
    let head = &prefix[..prefix.len().min(PRESCAN_BYTES)];
    prescan(head).map(|encoding| Charset {
        encoding,
        source: CharsetSource::Meta,
    })
}

/// The charset that `bytes` look like. `tld` (`jp`, `ru`) tips the scale between look-alikes.
pub fn detect(bytes: &[u8], tld: Option<&str>, whole: bool) -> Charset {
    detect_after(b"", bytes, tld, whole)
}

/// As [`detect`], for `bytes` that follow the ASCII text `before`. Of that its last two bytes matter: what
/// a word begins with tells whether a byte can be one of its letters.
pub(crate) fn detect_after(before: &[u8], bytes: &[u8], tld: Option<&str>, whole: bool) -> Charset {
    let found = |encoding| Charset {
        encoding,
        source: CharsetSource::Detected,
    };
    let first = Encoding::ascii_valid_up_to(bytes);
    if first == bytes.len() {
        return Charset {
            encoding: UTF_8,
            source: CharsetSource::Ascii,
        };
    }
    let window = &bytes[first..];
    let whole = whole && window.len() < DETECTION_BYTES;
    let window = &window[..window.len().min(DETECTION_BYTES)];
    if is_utf8(window, whole) {
        return found(UTF_8);
    }
    // ISO-2022-JP is recognised by its escapes, whatever else the page holds.
    let mut detector = EncodingDetector::new(Iso2022JpDetection::Deny);
    detector.feed(before, false);
    detector.feed(&bytes[..first], false);
    detector.feed(window, whole);
    let tld = tld.filter(|tld| tld.bytes().all(|b| b.is_ascii_lowercase()) && !tld.is_empty());
    found(detector.guess(tld.map(str::as_bytes), Utf8Detection::Deny))
}

/// The encoding a META may name: one that could not have been read as ASCII is not believed.
pub(crate) fn from_meta_label(label: &[u8]) -> Option<&'static Encoding> {
    let encoding = Encoding::for_label_no_replacement(label)?;
    Some(if encoding == UTF_16LE || encoding == UTF_16BE {
        UTF_8
    } else if encoding == X_USER_DEFINED {
        WINDOWS_1252
    } else {
        encoding
    })
}

/// Labels of encodings that browsers refuse to decode are taken as no label.
pub(crate) fn from_header_label(label: &str) -> Option<&'static Encoding> {
    let label = label.trim_matches(|c: char| c == '"' || c == '\'' || c.is_ascii_whitespace());
    Encoding::for_label_no_replacement(label.as_bytes())
}

/// Valid UTF-8; a last character that the end of the window cut is forgiven unless it is `whole`.
fn is_utf8(window: &[u8], whole: bool) -> bool {
    match std::str::from_utf8(window) {
        Ok(_) => true,
        Err(error) => !whole && error.error_len().is_none() && error.valid_up_to() > 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use encoding_rs::{EUC_JP, SHIFT_JIS, WINDOWS_1251};

    fn of(bytes: &[u8], header: Option<&str>) -> (&'static str, CharsetSource) {
        let charset = determine(bytes, header, None, true);
        (charset.encoding.name(), charset.source)
    }

    #[test]
    fn the_strongest_declaration_wins() {
        let meta = b"<meta charset=euc-jp>";
        assert_eq!(of(meta, None), ("EUC-JP", CharsetSource::Meta));
        assert_eq!(
            of(meta, Some("\"Shift_JIS\"")),
            ("Shift_JIS", CharsetSource::Header)
        );
        assert_eq!(of(meta, Some("no-such")), ("EUC-JP", CharsetSource::Meta));
        assert_eq!(
            of(b"\xef\xbb\xbf<meta charset=euc-jp>", Some("gbk")),
            ("UTF-8", CharsetSource::ByteOrderMark)
        );
        assert_eq!(
            of(b"\xff\xfe<\0", None),
            ("UTF-16LE", CharsetSource::ByteOrderMark)
        );
        assert_eq!(of(b"<p>plain", None), ("UTF-8", CharsetSource::Ascii));
    }

    #[test]
    fn undeclared_pages_are_detected() {
        let japanese = "これは日本語の文書です。文字コードは宣言されていません。";
        for encoding in [SHIFT_JIS, EUC_JP] {
            let (bytes, _, _) = encoding.encode(japanese);
            assert_eq!(of(&bytes, None), (encoding.name(), CharsetSource::Detected));
        }
        let (russian, _, _) = WINDOWS_1251.encode("Это русский текст без объявленной кодировки.");
        assert_eq!(of(&russian, None).0, "windows-1251");
        assert_eq!(of("naïve café".as_bytes(), None).0, "UTF-8");
    }

    #[test]
    fn the_ascii_before_the_first_other_byte_counts() {
        assert_eq!(of(b"gar\xe7on", None).0, "windows-1252");
        // Without the letters before it, the same byte begins a word.
        assert_eq!(of(b"\xe7on", None).0, "ISO-8859-4");
    }

    #[test]
    fn a_character_cut_by_the_window_is_still_utf8() {
        let text = "é".repeat(DETECTION_BYTES);
        let odd = format!("x{text}");
        assert_eq!(of(odd.as_bytes(), None).0, "UTF-8");
        assert_eq!(
            detect("aéあ".as_bytes().split_last().unwrap().1, None, false).encoding,
            UTF_8
        );
    }
}
