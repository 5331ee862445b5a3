//! Which charset a style sheet is in, and its text as UTF-8: the byte order mark, the Content-Type's charset, then
//! `@charset`, else UTF-8 (CSS Syntax Level 3, 3.2).

use std::borrow::Cow;

use encoding_rs::{Encoding, UTF_8, UTF_16BE, UTF_16LE};

/// An `@charset` counts only within this many bytes from the start.
const CHARSET_BYTES: usize = 1024;

/// The style sheet's text. Bytes that are wrong in its charset become U+FFFD. Borrowed where it is UTF-8 already.
pub fn style_sheet_text<'a>(body: &'a [u8], header_charset: Option<&str>) -> Cow<'a, str> {
    let named = header_charset.and_then(|label| Encoding::for_label(label.as_bytes()));
    let encoding = named.or_else(|| by_rule(body)).unwrap_or(UTF_8);
    // A byte order mark has the last word.
    encoding.decode(body).0
}

/// `@charset "name";`, letter by letter. Who writes that in UTF-16 would not be read, so it means UTF-8.
fn by_rule(body: &[u8]) -> Option<&'static Encoding> {
    let first = &body[..body.len().min(CHARSET_BYTES)];
    let label = first.strip_prefix(b"@charset \"")?;
    let end = memchr::memchr(b'"', label)?;
    if label.get(end + 1) != Some(&b';') {
        return None;
    }
    let encoding = Encoding::for_label(&label[..end])?;
    let is_wide = encoding == UTF_16BE || encoding == UTF_16LE;
    Some(if is_wide { UTF_8 } else { encoding })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_mark_then_the_header_then_the_rule() {
        let rule = b"@charset \"windows-1252\";\xe9";
        assert!(style_sheet_text(rule, None).ends_with('é'));
        assert!(style_sheet_text(rule, Some("iso-8859-5")).ends_with('щ'));
        assert_eq!(
            style_sheet_text(b"\xef\xbb\xbf\xc3\xa9", Some("iso-8859-5")),
            "é"
        );
        assert_eq!(style_sheet_text(b"\xff\xfea\0", None), "a");
        assert_eq!(
            style_sheet_text("@charset \"utf-16\";é".as_bytes(), None).len(),
            20
        );
        assert_eq!(style_sheet_text(b"\xe9", None), "\u{fffd}");
        assert!(style_sheet_text(b"@charset 'windows-1252';\xe9", None).ends_with('\u{fffd}'));
    }
}
