//! The query of a link is sent in the page's charset, not in UTF-8, as browsers do.

use std::borrow::Cow;
use std::fmt::Write as _;

use encoding_rs::{Encoding, UTF_8};

/// `href` with the non-ASCII part of its query percent-encoded in `charset`. What the charset cannot
/// say becomes a decimal reference, as the URL standard has it. Everything else stays.
pub fn query_in_charset<'a>(href: &'a str, charset: &'static Encoding) -> Cow<'a, str> {
    let charset = charset.output_encoding();
    if href.is_ascii() || charset == UTF_8 {
        return Cow::Borrowed(href);
    }
    let end = href.find('#').unwrap_or(href.len());
    let Some(start) = href[..end].find('?') else {
        return Cow::Borrowed(href);
    };
    let query = &href[start..end];
    if query.is_ascii() {
        return Cow::Borrowed(href);
    }
    let mut out = String::with_capacity(href.len() + 2 * query.len());
    out.push_str(&href[..start]);
    let mut text = [0; 4];
    for c in query.chars() {
        if c.is_ascii() {
            out.push(c);
            continue;
        }
        let (bytes, _, unmappable) = charset.encode(c.encode_utf8(&mut text));
        if unmappable {
            // Writing to a String cannot fail.
            let _ = write!(out, "%26%23{}%3B", u32::from(c));
        } else {
            for byte in bytes.iter() {
                let _ = write!(out, "%{byte:02X}");
            }
        }
    }
    out.push_str(&href[end..]);
    Cow::Owned(out)
}

#[cfg(test)]
mod tests {
    use super::*;
    use encoding_rs::{EUC_JP, SHIFT_JIS, WINDOWS_1252};

    #[test]
    fn only_the_query_follows_the_charset() {
        let of = |href: &'static str, charset| query_in_charset(href, charset).into_owned();
        assert_eq!(of("/é?q=é#é", WINDOWS_1252), "/é?q=%E9#é");
        assert_eq!(of("s?q=日本&x=1", SHIFT_JIS), "s?q=%93%FA%96%7B&x=1");
        assert_eq!(of("s?q=日本", EUC_JP), "s?q=%C6%FC%CB%DC");
        assert_eq!(of("s?q=☃", WINDOWS_1252), "s?q=%26%239731%3B");
        assert_eq!(of("s?q=日本", UTF_8), "s?q=日本");
        assert_eq!(of("/日本", SHIFT_JIS), "/日本");
    }
}
