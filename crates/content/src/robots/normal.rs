//! One spelling for equal paths (RFC 9309 2.2.2): octets outside of ASCII and those that a URL cannot
//! hold become `%XX`, escapes of unreserved characters are undone, hex digits are upper-case. Patterns
//! keep `*` and a final `$` as signs; the same characters in a path are escaped, so that `%2A` and
//! `%24` in a pattern match them.

use std::borrow::Cow;

use url::Url;

use super::lines::starts_with_http;

/// The normal form of a URL's path and query. A fragment is dropped.
pub(super) fn path(path_and_query: &str) -> Cow<'_, [u8]> {
    let bytes = path_and_query.as_bytes();
    if bytes.first() == Some(&b'/') && bytes.iter().all(|&b| is_kept(b)) {
        return Cow::Borrowed(bytes);
    }
    let bytes = match memchr::memchr(b'#', bytes) {
        Some(at) => &bytes[..at],
        None => bytes,
    };
    let mut out = Vec::with_capacity(bytes.len() + 16);
    if bytes.first() != Some(&b'/') {
        out.push(b'/');
    }
    push_normal(&mut out, bytes, false);
    Cow::Owned(out)
}

/// The same path with `%3A` and `%2F` undone in its query; `None` if it holds none there.
pub(super) fn with_query_unescaped(path: &[u8]) -> Option<Vec<u8>> {
    let query = memchr::memchr(b'?', path)? + 1;
    memchr::memchr(b'%', &path[query..])?;
    let mut out = path.to_vec();
    unescape_from(&mut out, query);
    (out.len() != path.len()).then_some(out)
}

/// Host and port; no port where it is the scheme's own.
#[derive(PartialEq, Eq)]
pub(super) struct Site {
    host: String,
    port: Option<u16>,
}

impl Site {
    /// The site that a whole http or https URL names; `None` for anything else.
    pub(super) fn of(url: &[u8]) -> Option<Site> {
        if !starts_with_http(url) {
            return None;
        }
        let start = memchr::memmem::find(url, b"//")? + 2;
        let ends = |b: &u8| matches!(b, b'/' | b'?' | b'#' | b'\\' | b'$');
        let length = url[start..].iter().position(ends);
        // The rest may hold signs of a pattern, which no URL has.
        let text = std::str::from_utf8(&url[..length.map_or(url.len(), |n| start + n)]).ok()?;
        let url = Url::parse(text).ok()?;
        let host = url.host_str()?;
        Some(Site {
            host: host.strip_suffix('.').unwrap_or(host).to_owned(),
            port: url.port(),
        })
    }

    /// Whether a rule can speak of this site: a whole URL must name it, and a path is always of it.
    pub(super) fn is_meant_by(&self, rule: &[u8]) -> bool {
        !starts_with_http(rule) || Site::of(rule).is_some_and(|named| named == *self)
    }
}

/// The normal form of a rule's path; `None` if the rule can match nothing or says nothing.
pub(super) fn pattern(value: &[u8]) -> Option<Vec<u8>> {
    let value = if starts_with_http(value) {
        // Somebody wrote a URL: what follows its host.
        let host = memchr::memmem::find(value, b"//").map_or(0, |at| at + 2);
        memchr::memchr(b'/', &value[host..]).map_or(&b"/"[..], |at| &value[host + at..])
    } else {
        value
    };
    let mut out = Vec::with_capacity(value.len() + 1);
    match value.first() {
        None | Some(b'$') => return None,
        Some(b'/' | b'*') => {}
        Some(_) => out.push(b'/'),
    }
    let (body, anchored) = match value.strip_suffix(b"$") {
        Some(body) => (body, true),
        None => (value, false),
    };
    for (i, literal) in body.split(|&b| b == b'*').enumerate() {
        if i > 0 {
            out.push(b'*');
        }
        push_normal(&mut out, literal, true);
    }
    if let Some(query) = memchr::memchr(b'?', &out) {
        unescape_from(&mut out, query + 1);
    }
    if anchored {
        out.push(b'$');
    }
    Some(out)
}

/// `of_pattern`: the bytes are a stretch of a pattern between its signs. There an escape cut off by
/// the end stays as it is, so that `/*/%` matches every escape as its author meant.
fn push_normal(out: &mut Vec<u8>, bytes: &[u8], of_pattern: bool) {
    let mut i = 0;
    while i < bytes.len() {
        let b = bytes[i];
        i += 1;
        if is_kept(b) {
            out.push(b);
        } else if b != b'%' {
            push_escaped(out, b);
        } else if let Some(value) = escape_value(&bytes[i..]) {
            i += 2;
            if is_unreserved(value) {
                out.push(value);
            } else {
                push_escaped(out, value);
            }
        } else if of_pattern && bytes.len() - i < 2 && bytes[i..].iter().all(u8::is_ascii_hexdigit)
        {
            out.push(b'%');
            out.extend(bytes[i..].iter().map(u8::to_ascii_uppercase));
            i = bytes.len();
        } else {
            // A bare percent sign is one: else undoing escapes after it could make a new escape.
            push_escaped(out, b'%');
        }
    }
}

fn unescape_from(out: &mut Vec<u8>, start: usize) {
    let mut read = start;
    let mut write = start;
    while read < out.len() {
        let (b, width) = match out.get(read..read + 3) {
            Some(b"%3A") => (b':', 3),
            Some(b"%2F") => (b'/', 3),
            _ => (out[read], 1),
        };
        out[write] = b;
        write += 1;
        read += width;
    }
    out.truncate(write);
}

fn escape_value(after_percent: &[u8]) -> Option<u8> {
    let high = char::from(*after_percent.first()?).to_digit(16)?;
    let low = char::from(*after_percent.get(1)?).to_digit(16)?;
    Some((high * 16 + low) as u8)
}

fn push_escaped(out: &mut Vec<u8>, b: u8) {
    const HEX: &[u8; 16] = b"0123456789ABCDEF";
    out.extend([b'%', HEX[usize::from(b >> 4)], HEX[usize::from(b & 15)]]);
}

fn is_unreserved(b: u8) -> bool {
    b.is_ascii_alphanumeric() || matches!(b, b'-' | b'.' | b'_' | b'~')
}

/// Characters that stand for themselves: unreserved ones and delimiters, but not the patterns' signs.
fn is_kept(b: u8) -> bool {
    KEPT[usize::from(b)]
}

const KEPT: [bool; 256] = {
    let mut kept = [false; 256];
    let mut b = 0;
    while b < 256 {
        kept[b] = (b as u8).is_ascii_alphanumeric();
        b += 1;
    }
    let others = b"-._~:/?[]@!&'()+,;=";
    let mut i = 0;
    while i < others.len() {
        kept[others[i] as usize] = true;
        i += 1;
    }
    kept
};
