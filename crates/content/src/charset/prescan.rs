//! The HTML standard's prescan: a META or XML declaration in the first kilobyte, read before
//! there is a tokenizer. Not a parser: it only knows what the standard lists.

use encoding_rs::{Encoding, UTF_16BE, UTF_16LE};
use memchr::{memchr, memmem};

use super::from_meta_label;

/// How far into the page a declaration is looked for.
pub const PRESCAN_BYTES: usize = 1024;

/// The encoding that META or the XML declaration in `bytes` names. Looks at all of `bytes`:
/// the caller cuts them to [`PRESCAN_BYTES`].
pub fn prescan(bytes: &[u8]) -> Option<&'static Encoding> {
    if bytes.starts_with(b"<\0?\0x\0") {
        return Some(UTF_16LE);
    }
    if bytes.starts_with(b"\0<\0?\0x") {
        return Some(UTF_16BE);
    }
    let mut prescan = Prescan { bytes, pos: 0 };
    match prescan.run() {
        Ok(encoding) => Some(encoding),
        Err(OutOfBytes) => xml_encoding(bytes),
    }
}

/// The encoding named by the `content` of `<meta http-equiv=content-type>`.
pub(crate) fn charset_of_content(content: &[u8]) -> Option<&'static Encoding> {
    let mut rest = content;
    loop {
        let at = rest
            .windows(7)
            .position(|window| window.eq_ignore_ascii_case(b"charset"))?;
        rest = rest[at + 7..].trim_ascii_start();
        if let Some(value) = rest.strip_prefix(b"=") {
            let value = value.trim_ascii_start();
            let label = match value.first()? {
                quote @ (b'"' | b'\'') => {
                    let value = &value[1..];
                    &value[..memchr(*quote, value)?]
                }
                _ => {
                    let end = |b: &u8| b.is_ascii_whitespace() || *b == b';';
                    &value[..value.iter().position(end).unwrap_or(value.len())]
                }
            };
            return from_meta_label(label);
        }
    }
}

struct OutOfBytes;

type NameAndValue<'a> = (&'a [u8], &'a [u8]);

struct Prescan<'a> {
    bytes: &'a [u8],
    pos: usize,
}

impl<'a> Prescan<'a> {
    fn run(&mut self) -> Result<&'static Encoding, OutOfBytes> {
        loop {
            self.pos += memchr(b'<', self.rest()).ok_or(OutOfBytes)?;
            let rest = self.rest();
            if rest.starts_with(b"<!--") {
                // The two hyphens that open the comment may also close it.
                self.pos += 2 + memmem::find(&rest[2..], b"-->").ok_or(OutOfBytes)? + 3;
            } else if starts_with_meta(rest) {
                self.pos += 5;
                if let Some(encoding) = self.meta()? {
                    return Ok(encoding);
                }
            } else if starts_with_tag(rest) {
                while !matches!(self.byte()?, b'>' | b'\t' | b'\n' | 0x0c | b'\r' | b' ') {
                    self.pos += 1;
                }
                while self.attribute()?.is_some() {}
            } else if matches!(rest.get(1), Some(b'!' | b'/' | b'?')) {
                self.pos += memchr(b'>', rest).ok_or(OutOfBytes)? + 1;
            } else {
                self.pos += 1;
            }
        }
    }

    /// The attributes of a META; the encoding if they name one the right way.
    fn meta(&mut self) -> Result<Option<&'static Encoding>, OutOfBytes> {
        let (mut http_equiv, mut content, mut charset) = (None, None, None);
        while let Some((name, value)) = self.attribute()? {
            let slot = match name {
                name if name.eq_ignore_ascii_case(b"http-equiv") => &mut http_equiv,
                name if name.eq_ignore_ascii_case(b"content") => &mut content,
                name if name.eq_ignore_ascii_case(b"charset") => &mut charset,
                _ => continue,
            };
            slot.get_or_insert(value);
        }
        // A charset attribute needs no pragma beside it; a content attribute does.
        if let Some(label) = charset {
            return Ok(from_meta_label(label));
        }
        let pragma = http_equiv.is_some_and(|v: &[u8]| v.eq_ignore_ascii_case(b"content-type"));
        Ok(content.filter(|_| pragma).and_then(charset_of_content))
    }

    /// The standard's "get an attribute".
    fn attribute(&mut self) -> Result<Option<NameAndValue<'a>>, OutOfBytes> {
        while is_space(self.byte()?) || self.byte()? == b'/' {
            self.pos += 1;
        }
        if self.byte()? == b'>' {
            return Ok(None);
        }
        let start = self.pos;
        self.pos += 1;
        while !matches!(self.byte()?, b'=' | b'/' | b'>') && !is_space(self.byte()?) {
            self.pos += 1;
        }
        let name = &self.bytes[start..self.pos];
        self.skip_space()?;
        if self.byte()? != b'=' {
            return Ok(Some((name, b"")));
        }
        self.pos += 1;
        self.skip_space()?;
        let quote = self.byte()?;
        if quote == b'"' || quote == b'\'' {
            let start = self.pos + 1;
            let end = start + memchr(quote, &self.bytes[start..]).ok_or(OutOfBytes)?;
            self.pos = end + 1;
            return Ok(Some((name, &self.bytes[start..end])));
        }
        let start = self.pos;
        while self.byte()? != b'>' && !is_space(self.byte()?) {
            self.pos += 1;
        }
        Ok(Some((name, &self.bytes[start..self.pos])))
    }

    fn skip_space(&mut self) -> Result<(), OutOfBytes> {
        while is_space(self.byte()?) {
            self.pos += 1;
        }
        Ok(())
    }

    fn byte(&self) -> Result<u8, OutOfBytes> {
        self.bytes.get(self.pos).copied().ok_or(OutOfBytes)
    }

    fn rest(&self) -> &'a [u8] {
        self.bytes.get(self.pos..).unwrap_or_default()
    }
}

fn starts_with_meta(rest: &[u8]) -> bool {
    rest.len() > 5
        && rest[1..5].eq_ignore_ascii_case(b"meta")
        && (is_space(rest[5]) || rest[5] == b'/')
}

fn starts_with_tag(rest: &[u8]) -> bool {
    let name = if rest.get(1) == Some(&b'/') { 2 } else { 1 };
    rest.get(name).is_some_and(u8::is_ascii_alphabetic)
}

fn is_space(byte: u8) -> bool {
    matches!(byte, b'\t' | b'\n' | 0x0c | b'\r' | b' ')
}

/// The encoding of an XML declaration at the very start.
fn xml_encoding(bytes: &[u8]) -> Option<&'static Encoding> {
    if !bytes.starts_with(b"<?xml") {
        return None;
    }
    let declaration = &bytes[..memchr(b'>', bytes)?];
    let rest = &declaration[memmem::find(declaration, b"encoding")? + 8..];
    let skip = |rest: &'_ [u8]| rest.iter().position(|&b| b > 0x20).unwrap_or(rest.len());
    let rest = rest[skip(rest)..].strip_prefix(b"=")?;
    let rest = &rest[skip(rest)..];
    let quote = *rest.first().filter(|b| matches!(b, b'"' | b'\''))?;
    let label = &rest[1..1 + memchr(quote, &rest[1..])?];
    if label.iter().any(|&b| b <= 0x20) {
        return None;
    }
    from_meta_label(label)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(bytes: &[u8]) -> Option<&'static str> {
        prescan(bytes).map(Encoding::name)
    }

    #[test]
    fn reads_what_the_standard_lists() {
        let content = b"<meta http-equiv='Content-Type' content='text/html; charset = \"sjis\"'>";
        assert_eq!(name(content), Some("Shift_JIS"));
        assert_eq!(name(b"<meta content='text/html; charset=sjis'>"), None);
        assert_eq!(
            name(b"<!-- <meta charset=gbk> --><meta/charset=big5 >"),
            Some("Big5")
        );
        assert_eq!(name(b"<!--><meta charset=utf-16>"), Some("UTF-8"));
        assert_eq!(name(b"<a title='<meta charset=gbk>'>"), None);
        assert_eq!(
            name(b"<meta charset=x><meta charset=koi8-r>"),
            Some("KOI8-R")
        );
    }

    #[test]
    fn an_xml_declaration_is_the_last_resort() {
        assert_eq!(
            name(b"<?xml version='1.0' encoding=\"euc-jp\"?><html>"),
            Some("EUC-JP")
        );
        assert_eq!(
            name(b"<?xml encoding='gbk'?><meta charset=big5>"),
            Some("Big5")
        );
        assert_eq!(name(b"<\0?\0x\0m\0"), Some("UTF-16LE"));
    }
}
