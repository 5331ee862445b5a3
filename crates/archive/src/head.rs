//! The HTTP head of a record: as it is stored, and as it is read back. Why the stored head differs
//! from the one received is told in docs/decisions/0002-warc-transfer-encoding.md.

use crate::field::push_decimal;
use memchr::memchr;
use std::borrow::Cow;

/// Names of headers that no longer describe the stored body get this in front.
const ASIDE: &[u8] = b"X-Crawler-";

/// Appends the head for a body of `body_bytes` bytes without transfer coding. Lines that are well
/// formed are kept byte for byte; the head ends with the only blank line in it.
pub(crate) fn push_stored_head(
    out: &mut Vec<u8>,
    received: &[u8],
    status: u16,
    body_bytes: Option<u64>,
) {
    let mut lines = Lines { rest: received }.peekable();
    while lines.next_if(|line| is_blank(line)).is_some() {}
    push_status_line(out, lines.next().unwrap_or_default(), status);
    let mut length_said = false;
    while let Some(line) = lines.next() {
        if is_blank(line) {
            continue;
        }
        let folded = line.starts_with(b" ") || line.starts_with(b"\t");
        if !folded && let Some(colon) = memchr(b':', line) {
            let name = line[..colon].trim_ascii_end();
            if name.eq_ignore_ascii_case(b"transfer-encoding") {
                out.extend_from_slice(ASIDE);
            } else if let Some(body_bytes) = body_bytes
                && name.eq_ignore_ascii_case(b"content-length")
            {
                let goes_on = lines
                    .peek()
                    .is_some_and(|next| next.starts_with(b" ") || next.starts_with(b"\t"));
                let right = !goes_on && decimal(&line[colon + 1..]) == Some(body_bytes);
                if right && !length_said {
                    length_said = true;
                } else {
                    out.extend_from_slice(ASIDE);
                }
            }
        }
        push_line(out, line);
    }
    if let (false, Some(body_bytes)) = (length_said, body_bytes) {
        out.extend_from_slice(b"Content-Length: ");
        push_decimal(out, body_bytes);
        out.extend_from_slice(b"\r\n");
    }
    out.extend_from_slice(b"\r\n");
}

/// What is needed of a stored head, ours or another crawler's.
pub(crate) struct HttpHead<'a> {
    /// Status of a response as text; the method of a request.
    pub status: Cow<'a, str>,
    /// Where the payload starts.
    pub end: usize,
    /// The head ended with a blank line.
    pub complete: bool,
    pub content_type: Option<String>,
    pub content_encoded: bool,
    pub chunked: bool,
}

impl<'a> HttpHead<'a> {
    pub fn parse(block: &'a [u8]) -> Self {
        let mut head = Self {
            status: Cow::Borrowed(""),
            end: block.len(),
            complete: false,
            content_type: None,
            content_encoded: false,
            chunked: false,
        };
        let mut at = 0;
        let mut first = true;
        let mut in_content_type = false;
        while at < block.len() {
            let newline = memchr(b'\n', &block[at..]);
            let line_end = newline.map_or(block.len(), |n| at + n + 1);
            let line = block[at..line_end].trim_ascii_end();
            at = line_end;
            if line.is_empty() {
                head.end = at;
                // The start of a block may end between a CR and its LF.
                head.complete = newline.is_some();
                break;
            }
            if first {
                first = false;
                let rest = memchr(b' ', line).map_or(&b""[..], |n| line[n..].trim_ascii_start());
                head.status = decode(rest.split(|&b| b == b' ').next().unwrap_or_default());
            } else if line[0] == b' ' || line[0] == b'\t' {
                if in_content_type && let Some(value) = &mut head.content_type {
                    value.push_str(&decode(line));
                }
            } else {
                in_content_type = head.take_header(line);
            }
        }
        head
    }

    /// The media type without parameters, spelled as in the head: what an index line says.
    pub fn media_type(&self) -> Option<&str> {
        let space = |c: char| c.is_whitespace() || ('\x1c'..='\x1f').contains(&c);
        let value = self.content_type.as_deref()?.trim_start_matches(space);
        value.split(|c| c == ';' || space(c)).next()
    }

    /// True if the line was the Content-Type that counts: the first.
    fn take_header(&mut self, line: &[u8]) -> bool {
        let Some(colon) = memchr(b':', line) else {
            return false;
        };
        let name = line[..colon].trim_ascii_end();
        let value = line[colon + 1..].trim_ascii_start();
        if name.eq_ignore_ascii_case(b"content-type") {
            if self.content_type.is_none() {
                self.content_type = Some(decode(value).into_owned());
                return true;
            }
        } else if name.eq_ignore_ascii_case(b"content-encoding") {
            self.content_encoded |= !value.is_empty() && !value.eq_ignore_ascii_case(b"identity");
        } else if name.eq_ignore_ascii_case(b"transfer-encoding") {
            self.chunked |= value.to_ascii_lowercase().ends_with(b"chunked");
        }
        false
    }
}

/// Keeps a status line of HTTP/1.0 or 1.1; writes one for everything else (HTTP/2, HTTP/0.9,
/// `ICY 200`), because readers of WARC know no other.
fn push_status_line(out: &mut Vec<u8>, line: &[u8], status: u16) {
    let known = line.len() >= 12
        && (line.starts_with(b"HTTP/1.1 ") || line.starts_with(b"HTTP/1.0 "))
        && line[9..12].iter().all(u8::is_ascii_digit)
        && matches!(line.get(12), None | Some(b' '));
    if known {
        return push_line(out, line);
    }
    let version: &[u8] = if line.is_empty() {
        b"HTTP/1.0 "
    } else {
        b"HTTP/1.1 "
    };
    out.extend_from_slice(version);
    push_decimal(out, u64::from(status.clamp(100, 999)));
    out.extend_from_slice(b"\r\n");
}

/// A bare CR or NUL inside a line is what RFC 9110 calls dangerous, and replaces by a space.
fn push_line(out: &mut Vec<u8>, line: &[u8]) {
    if memchr::memchr2(b'\r', 0, line).is_none() {
        out.extend_from_slice(line);
    } else {
        out.extend(line.iter().map(|&byte| {
            if matches!(byte, b'\r' | 0) {
                b' '
            } else {
                byte
            }
        }));
    }
    out.extend_from_slice(b"\r\n");
}

/// Nothing that can be seen: some reader would take it for the end of the head.
fn is_blank(line: &[u8]) -> bool {
    !line.iter().any(u8::is_ascii_graphic)
}

fn decimal(value: &[u8]) -> Option<u64> {
    let value = value.trim_ascii();
    if value.is_empty() || !value.iter().all(u8::is_ascii_digit) {
        return None;
    }
    std::str::from_utf8(value).ok()?.parse().ok()
}

/// UTF-8 if it is that, else Latin-1: headers say nothing about it.
fn decode(bytes: &[u8]) -> Cow<'_, str> {
    match std::str::from_utf8(bytes) {
        Ok(text) => Cow::Borrowed(text),
        Err(_) => Cow::Owned(bytes.iter().map(|&byte| char::from(byte)).collect()),
    }
}

/// Lines without their CRLF or LF.
struct Lines<'a> {
    rest: &'a [u8],
}

impl<'a> Iterator for Lines<'a> {
    type Item = &'a [u8];

    fn next(&mut self) -> Option<&'a [u8]> {
        if self.rest.is_empty() {
            return None;
        }
        let (line, rest) = match memchr(b'\n', self.rest) {
            Some(n) => (&self.rest[..n], &self.rest[n + 1..]),
            None => (self.rest, &b""[..]),
        };
        self.rest = rest;
        Some(line.strip_suffix(b"\r").unwrap_or(line))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stored(received: &str, body_bytes: u64) -> String {
        let mut out = Vec::new();
        push_stored_head(&mut out, received.as_bytes(), 200, Some(body_bytes));
        String::from_utf8(out).expect("test heads are UTF-8")
    }

    #[test]
    fn a_plain_head_is_kept_byte_for_byte() {
        let head = "HTTP/1.1 200 OK\r\nContent-Type:  text/html ; charset=x\r\nContent-Length: 5\r\nSet-Cookie: a\r\n\r\n";
        assert_eq!(stored(head, 5), head);
    }

    #[test]
    fn headers_that_no_longer_hold_are_set_aside() {
        for (received, kept) in [
            (
                "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n",
                "HTTP/1.1 200 OK\r\nX-Crawler-Transfer-Encoding: chunked\r\nContent-Length: 5\r\n\r\n",
            ),
            (
                "HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\n",
                "HTTP/1.1 200 OK\r\nX-Crawler-content-length: 9\r\nContent-Length: 5\r\n\r\n",
            ),
            (
                "HTTP/1.1 200 OK\r\nContent-Length: 5\r\nContent-Length: 5\r\n\r\n",
                "HTTP/1.1 200 OK\r\nContent-Length: 5\r\nX-Crawler-Content-Length: 5\r\n\r\n",
            ),
            (
                "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n 6\r\nA: b\r\n\r\n",
                "HTTP/1.1 200 OK\r\nX-Crawler-Content-Length: 5\r\n 6\r\nA: b\r\nContent-Length: 5\r\n\r\n",
            ),
        ] {
            assert_eq!(stored(received, 5), kept);
        }
    }

    #[test]
    fn odd_heads_become_sound_ones() {
        for (received, kept) in [
            // Bare LF, no end, a blank folded line, a bare CR.
            (
                "HTTP/1.0 200 OK\nA: b\n \t\n c\rd\nE",
                "HTTP/1.0 200 OK\r\nA: b\r\n c d\r\nE\r\nContent-Length: 0\r\n\r\n",
            ),
            ("", "HTTP/1.0 200\r\nContent-Length: 0\r\n\r\n"),
            ("\r\n\r\n", "HTTP/1.0 200\r\nContent-Length: 0\r\n\r\n"),
            (
                "HTTP/2 200\r\na: b\r\n\r\n",
                "HTTP/1.1 200\r\na: b\r\nContent-Length: 0\r\n\r\n",
            ),
            (
                "ICY 200 OK\r\n\r\n",
                "HTTP/1.1 200\r\nContent-Length: 0\r\n\r\n",
            ),
        ] {
            assert_eq!(stored(received, 0), kept);
        }
    }

    #[test]
    fn reads_what_an_index_needs() {
        let block = b"HTTP/1.1 404 Not\r\nX: y\r\nContent-Type: Text/HTML\r\n ;q=1\r\nContent-Type: b\r\nContent-Encoding: br\r\nTransfer-Encoding: gzip, Chunked\r\n\r\nbody";
        let head = HttpHead::parse(block);
        assert_eq!(head.status, "404");
        assert_eq!(head.media_type(), Some("Text/HTML"));
        assert!(head.content_encoded && head.chunked && head.complete);
        assert_eq!(&block[head.end..], b"body");
        assert!((0..head.end).all(|cut| !HttpHead::parse(&block[..cut]).complete));
        let cut = HttpHead::parse(b"HTTP/1.1 200 OK\r\nA: ");
        assert!(!cut.complete);
        assert_eq!(cut.media_type(), None);
    }
}
