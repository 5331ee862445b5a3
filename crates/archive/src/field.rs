//! Named fields of WARC headers and `application/warc-fields` blocks: one line each, whatever the
//! value brings along.

use std::borrow::Cow;

/// Appends `name: value CRLF`. Control characters become spaces, so that no value can end its line.
pub(crate) fn push_field(out: &mut Vec<u8>, name: &str, value: &str) {
    out.extend_from_slice(name.as_bytes());
    out.extend_from_slice(b": ");
    if value.bytes().any(|byte| byte.is_ascii_control()) {
        out.extend(
            value
                .bytes()
                .map(|byte| if byte.is_ascii_control() { b' ' } else { byte }),
        );
    } else {
        out.extend_from_slice(value.as_bytes());
    }
    out.extend_from_slice(b"\r\n");
}

pub(crate) fn push_number(out: &mut Vec<u8>, name: &str, value: u64) {
    out.extend_from_slice(name.as_bytes());
    out.extend_from_slice(b": ");
    push_decimal(out, value);
    out.extend_from_slice(b"\r\n");
}

pub(crate) fn push_decimal(out: &mut Vec<u8>, mut value: u64) {
    let mut digits = [0u8; 20];
    let mut at = digits.len();
    loop {
        at -= 1;
        digits[at] = b'0' + (value % 10) as u8;
        value /= 10;
        if value == 0 {
            break;
        }
    }
    out.extend_from_slice(&digits[at..]);
}

/// A URL that can stand in a header line and an index line. Canonical URLs pass unchanged; this is
/// the net under callers whose URL is not.
pub(crate) fn one_word(url: &str) -> Cow<'_, str> {
    let fits = |byte: u8| byte > b' ' && byte != 0x7f;
    if url.bytes().all(fits) {
        return Cow::Borrowed(url);
    }
    let mut out = String::with_capacity(url.len() + 8);
    for c in url.chars() {
        if c.is_ascii() && !fits(c as u8) {
            out.push_str(&format!("%{:02X}", c as u8));
        } else {
            out.push(c);
        }
    }
    Cow::Owned(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_cannot_end_its_line() {
        let mut out = Vec::new();
        push_field(&mut out, "title", "a\r\nWARC-Type: x\0é");
        push_number(&mut out, "n", u64::MAX);
        push_number(&mut out, "n", 0);
        assert_eq!(
            out,
            "title: a  WARC-Type: x é\r\nn: 18446744073709551615\r\nn: 0\r\n".as_bytes()
        );
        assert_eq!(one_word("http://a/b c\n"), "http://a/b%20c%0A");
    }
}
