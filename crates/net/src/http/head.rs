//! The head of an answer, byte for byte as received, and its fields, read as a browser would:
//! nothing that a server writes there is refused, except what has no status at all.

use super::oddity::{Oddities, Oddity};
use super::raw_url::url_text;
use memchr::{memchr, memchr_iter};
use portolan_model::url::Scheme;
use std::borrow::Cow;

/// Header lines beyond this many are kept as bytes but not read.
const MAX_FIELDS: usize = 4_096;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Version {
    Http09,
    Http10,
    Http11,
    Http2,
    /// No HTTP at all, but FTP, Gopher or a file: the head was written here.
    Other(Scheme),
}

/// An answer's head. For HTTP/2 it is written in HTTP/1.1 form.
#[derive(Debug, Clone)]
pub struct Head {
    bytes: Vec<u8>,
    status: u16,
    version: Version,
    fields: Vec<Field>,
    /// Values of folded headers, joined.
    joined: Vec<u8>,
}

/// Where a field lies: name in `bytes`, value in `bytes` or in `joined`.
#[derive(Debug, Clone, Copy)]
struct Field {
    name: (u32, u32),
    value: (u32, u32),
    folded: bool,
}

impl Head {
    /// Byte for byte as received, with the blank line that ends it, if it came; empty for HTTP/0.9.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    pub fn into_bytes(self) -> Vec<u8> {
        self.bytes
    }

    pub fn status(&self) -> u16 {
        self.status
    }

    pub fn version(&self) -> Version {
        self.version
    }

    /// The first field of that name, in any case.
    pub fn get(&self, name: &str) -> Option<&[u8]> {
        self.fields()
            .find(|(n, _)| n.eq_ignore_ascii_case(name.as_bytes()))
            .map(|(_, value)| value)
    }

    /// The first field of that name, if it is UTF-8.
    pub fn get_str(&self, name: &str) -> Option<&str> {
        self.get(name).and_then(|v| std::str::from_utf8(v).ok())
    }

    /// The first field of that name as text for a URL parser. Bytes that are not UTF-8, such as those of
    /// Shift_JIS or Latin-1, are percent-encoded as they are.
    pub fn get_url(&self, name: &str) -> Option<Cow<'_, str>> {
        self.get(name).map(url_text)
    }

    pub fn get_all<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a [u8]> {
        self.fields()
            .filter(|(n, _)| n.eq_ignore_ascii_case(name.as_bytes()))
            .map(|(_, value)| value)
    }

    /// All fields in the order received: name, value.
    pub fn fields(&self) -> impl Iterator<Item = (&[u8], &[u8])> {
        self.fields.iter().map(|field| {
            let values = if field.folded {
                &self.joined
            } else {
                &self.bytes
            };
            (slice(&self.bytes, field.name), slice(values, field.value))
        })
    }

    /// Do these bytes begin as HTTP/1.x does? `None`: too few of them to say.
    pub(crate) fn looks_like_http(bytes: &[u8]) -> Option<bool> {
        const STARTS: [&[u8]; 2] = [b"HTTP", b"ICY "];
        let mut short = false;
        for start in STARTS {
            let common = start.len().min(bytes.len());
            if bytes[..common].eq_ignore_ascii_case(&start[..common]) {
                if common == start.len() {
                    return Some(true);
                }
                short = true;
            }
        }
        if short { None } else { Some(false) }
    }

    /// Where the head ends in `bytes` (after its blank line), looking only for ends past `from`.
    pub(crate) fn end(bytes: &[u8], from: usize) -> Option<usize> {
        // A blank line may have begun up to two bytes before.
        let from = from.saturating_sub(2);
        memchr_iter(b'\n', &bytes[from..])
            .map(|at| from + at + 1)
            .find_map(|next| match bytes[next..] {
                [b'\n', ..] => Some(next + 1),
                [b'\r', b'\n', ..] => Some(next + 2),
                _ => None,
            })
    }

    /// `bytes` from the status line to the blank line. `None` if there is no status in it.
    pub(crate) fn parse(bytes: &[u8], oddities: &mut Oddities) -> Option<Head> {
        let mut lines = Lines { bytes, at: 0 };
        let (start, end) = lines.next(oddities)?;
        let (version, status) = status_line(&bytes[start..end], oddities)?;
        let mut head = Head {
            bytes: bytes.to_vec(),
            status,
            version,
            fields: Vec::with_capacity(24),
            joined: Vec::new(),
        };
        while let Some(line) = lines.next(oddities) {
            if line.0 == line.1 {
                break;
            }
            head.add_line(line, oddities);
        }
        if bytes.contains(&0) {
            oddities.add(Oddity::NulInHead);
        }
        if !bytes.is_ascii() {
            oddities.add(Oddity::EightBitHead);
        }
        Some(head)
    }

    /// The head of an answer that has none.
    pub(crate) fn http09() -> Head {
        Head {
            bytes: Vec::new(),
            status: 200,
            version: Version::Http09,
            fields: Vec::new(),
            joined: Vec::new(),
        }
    }

    /// What an answer of another protocol would have said, were it HTTP.
    pub(crate) fn of_other(scheme: Scheme, status: u16, fields: &[(&str, &str)]) -> Head {
        let mut text = format!("HTTP/1.0 {status}\r\n");
        for (name, value) in fields {
            text.push_str(&format!("{name}: {value}\r\n"));
        }
        text.push_str("\r\n");
        let mut head =
            Head::parse(text.as_bytes(), &mut Oddities::default()).unwrap_or_else(Head::http09);
        head.version = Version::Other(scheme);
        head
    }

    pub(crate) fn set_version(&mut self, version: Version) {
        self.version = version;
    }

    fn add_line(&mut self, (start, end): (usize, usize), oddities: &mut Oddities) {
        let line = &self.bytes[start..end];
        if matches!(line[0], b' ' | b'\t') {
            oddities.add(Oddity::FoldedHeader);
            let (from, to) = trimmed(line, 0, line.len());
            if let Some(last) = self.fields.last_mut() {
                if !last.folded {
                    let at = self.joined.len();
                    self.joined
                        .extend_from_slice(slice(&self.bytes, last.value));
                    last.value = (at as u32, self.joined.len() as u32);
                    last.folded = true;
                }
                if from < to {
                    self.joined.push(b' ');
                    self.joined
                        .extend_from_slice(&self.bytes[start + from..start + to]);
                    last.value.1 = self.joined.len() as u32;
                }
            }
            return;
        }
        if self.fields.len() == MAX_FIELDS {
            oddities.add(Oddity::TooManyHeaders);
            return;
        }
        let Some(colon) = memchr(b':', line) else {
            oddities.add(Oddity::HeaderWithoutColon);
            return;
        };
        let (name_from, name_to) = trimmed(line, 0, colon);
        if name_to != colon {
            oddities.add(Oddity::SpaceBeforeColon);
        }
        let (value_from, value_to) = trimmed(line, colon + 1, line.len());
        self.fields.push(Field {
            name: ((start + name_from) as u32, (start + name_to) as u32),
            value: ((start + value_from) as u32, (start + value_to) as u32),
            folded: false,
        });
    }
}

fn slice(bytes: &[u8], (from, to): (u32, u32)) -> &[u8] {
    &bytes[from as usize..to as usize]
}

/// `line[from..to]` without white space at its ends, as positions.
fn trimmed(line: &[u8], mut from: usize, mut to: usize) -> (usize, usize) {
    let blank = |b: u8| matches!(b, b' ' | b'\t' | b'\r');
    while from < to && blank(line[from]) {
        from += 1;
    }
    while to > from && blank(line[to - 1]) {
        to -= 1;
    }
    (from, to)
}

struct Lines<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl Lines<'_> {
    /// The next line as positions, without its end.
    fn next(&mut self, oddities: &mut Oddities) -> Option<(usize, usize)> {
        let start = self.at;
        let length = memchr(b'\n', &self.bytes[start..])?;
        self.at = start + length + 1;
        if length > 0 && self.bytes[start + length - 1] == b'\r' {
            Some((start, start + length - 1))
        } else {
            oddities.add(Oddity::BareLf);
            Some((start, start + length))
        }
    }
}

/// Version and status of a line such as `HTTP/1.1 200 OK`, `HTTP/1.0 404`, `HTTP 200`, `ICY 200`.
fn status_line(line: &[u8], oddities: &mut Oddities) -> Option<(Version, u16)> {
    let space = memchr(b' ', line).or_else(|| memchr(b'\t', line))?;
    let version = match &line[..space] {
        b"HTTP/1.1" => Version::Http11,
        b"HTTP/1.0" => Version::Http10,
        other => {
            oddities.add(Oddity::StrangeStatusLine);
            match other.strip_prefix(b"HTTP/") {
                Some([b'1', b'.', b'1'..=b'9', ..] | [b'2'..=b'9', ..]) => Version::Http11,
                _ => Version::Http10,
            }
        }
    };
    let (from, _) = trimmed(line, space, line.len());
    if from != space + 1 {
        oddities.add(Oddity::StrangeStatusLine);
    }
    let digits = line[from..]
        .iter()
        .take_while(|b| b.is_ascii_digit())
        .count();
    if digits != 3 {
        return None;
    }
    let status = line[from..from + 3]
        .iter()
        .fold(0, |sum, digit| sum * 10 + u16::from(digit - b'0'));
    match line.get(from + 3) {
        None | Some(b' ') => {}
        Some(_) => oddities.add(Oddity::StrangeStatusLine),
    }
    (status >= 100).then_some((version, status))
}

#[cfg(test)]
mod tests;
