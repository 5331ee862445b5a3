//! A URL as a server wrote it into a header: bytes of any charset, as text that a URL parser takes.

use std::borrow::Cow;
use std::fmt::Write as _;

/// UTF-8 stays. Of anything else each byte beyond ASCII becomes `%XX`: the server knows its resource by
/// these bytes, whatever charset they are in.
///
/// The second byte of a Shift_JIS character may be a backslash (`表` is `95 5C`), which would end a path
/// segment: it is escaped as well.
pub fn url_text(bytes: &[u8]) -> Cow<'_, str> {
    if let Ok(text) = std::str::from_utf8(bytes) {
        return Cow::Borrowed(text);
    }
    let mut text = String::with_capacity(bytes.len() * 2);
    let mut in_pair = false;
    for &byte in bytes {
        if byte.is_ascii() && !(in_pair && byte == b'\\') {
            text.push(char::from(byte));
        } else {
            // Writing to a String cannot fail.
            let _ = write!(text, "%{byte:02X}");
        }
        in_pair = !in_pair && matches!(byte, 0x81..=0x9f | 0xe0..=0xfc);
    }
    Cow::Owned(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_of_any_charset() {
        let cases: &[(&[u8], &str)] = &[
            (b"/a?b=c d", "/a?b=c d"),
            ("/日本".as_bytes(), "/日本"),
            (b"/caf\xe9", "/caf%E9"),
            // The second byte of 本 is a brace, which is left to the URL parser.
            (b"/\x93\xfa\x96\x7b/x", "/%93%FA%96{/x"),
            (b"/\xc6\xfc\xcb\xdc", "/%C6%FC%CB%DC"),
            (b"/\x95\x5c\\x", "/%95%5C\\x"),
            (b"\xff", "%FF"),
        ];
        for (bytes, expected) in cases {
            assert_eq!(url_text(bytes), *expected, "{}", bytes.escape_ascii());
        }
    }
}
