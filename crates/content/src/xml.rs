//! XML as it is found on the Web, for sitemaps and feeds: events from a byte slice, no checks that a broken
//! document could fail, and the text of values. What elements mean is not known here.

use std::borrow::Cow;

use quick_xml::Reader;
use quick_xml::events::{BytesEnd, BytesRef, BytesStart, Event};

use crate::mime::utf8_by_bom;

/// Values (a URL, a date) longer than this are not taken.
pub(crate) const MAX_VALUE_BYTES: usize = 8 * 1024;

/// Deeper elements are passed over as if they were text-free.
pub(crate) const MAX_DEPTH: usize = 64;

pub(crate) enum XmlEvent<'a> {
    Open(BytesStart<'a>),
    Close(BytesEnd<'a>),
    /// An element without content: opened and closed.
    Empty(BytesStart<'a>),
    Text(Cow<'a, str>),
}

pub(crate) struct XmlPull<'a> {
    reader: Reader<&'a [u8]>,
    broken: bool,
}

impl<'a> XmlPull<'a> {
    pub(crate) fn new(text: &'a str) -> XmlPull<'a> {
        let mut reader = Reader::from_str(text);
        let config = reader.config_mut();
        config.check_end_names = false;
        config.allow_unmatched_ends = true;
        config.allow_dangling_amp = true;
        XmlPull {
            reader,
            broken: false,
        }
    }

    /// The next event; `None` at the end, or where the document cannot be read on.
    pub(crate) fn next(&mut self) -> Option<XmlEvent<'a>> {
        loop {
            return Some(match self.reader.read_event() {
                Ok(Event::Start(start)) => XmlEvent::Open(start),
                Ok(Event::End(end)) => XmlEvent::Close(end),
                Ok(Event::Empty(start)) => XmlEvent::Empty(start),
                Ok(Event::Text(text)) => XmlEvent::Text(text.into_inner()),
                Ok(Event::CData(data)) => XmlEvent::Text(data.into_inner()),
                Ok(Event::GeneralRef(name)) => XmlEvent::Text(referenced(&name)),
                Ok(Event::Comment(_) | Event::PI(_) | Event::Decl(_) | Event::DocType(_)) => {
                    continue;
                }
                Ok(Event::Eof) => return None,
                Err(_) => {
                    self.broken = true;
                    return None;
                }
            });
        }
    }

    /// The byte behind the last event.
    pub(crate) fn position(&self) -> usize {
        usize::try_from(self.reader.buffer_position()).unwrap_or(usize::MAX)
    }

    /// Whether reading stopped before the document's end.
    pub(crate) fn is_broken(&self) -> bool {
        self.broken
    }
}

/// A document's text. Octets that are not UTF-8 are escaped as they would be in a URL: what we look for is
/// URLs, and in older encodings everything else that matters is ASCII.
pub(crate) fn document_text(bytes: &[u8]) -> Cow<'_, str> {
    match utf8_by_bom(bytes) {
        Cow::Borrowed(bytes) => escape_foreign(bytes),
        Cow::Owned(bytes) => Cow::Owned(escape_foreign(&bytes).into_owned()),
    }
}

/// The prefix (maybe empty) and the local part of a name.
pub(crate) fn split_name(name: &str) -> (&str, &str) {
    name.split_once(':').unwrap_or(("", name))
}

/// An attribute's value by its full name, with references resolved.
pub(crate) fn attribute(element: &BytesStart<'_>, name: &str) -> Option<String> {
    let mut attributes = element.attributes();
    let attribute = attributes
        .with_checks(false)
        .flatten()
        .find(|a| a.key.as_ref().eq_ignore_ascii_case(name))?;
    let mut value = Value::default();
    let mut rest = &*attribute.value;
    while let Some(at) = rest.find('&') {
        value.push(&rest[..at]);
        rest = &rest[at + 1..];
        match rest
            .bytes()
            .take(MAX_REFERENCE_BYTES)
            .position(|b| b == b';')
        {
            Some(end) => {
                value.push(&referenced(&BytesRef::new(&rest[..end])));
                rest = &rest[end + 1..];
            }
            None => value.push("&"),
        }
    }
    value.push(rest);
    value.take()
}

/// `&#x10FFFF;` and all named references of XML are shorter.
const MAX_REFERENCE_BYTES: usize = 12;

/// The text of a value, collected from the pieces that references and CDATA cut it into.
#[derive(Default)]
pub(crate) struct Value {
    text: String,
    is_too_long: bool,
}

impl Value {
    pub(crate) fn push(&mut self, piece: &str) {
        // Leading white space is not kept, so that indentation alone cannot make a value too long.
        let piece = match self.text.is_empty() {
            true => piece.trim_ascii_start(),
            false => piece,
        };
        if self.text.len() + piece.len() <= MAX_VALUE_BYTES {
            self.text.push_str(piece);
            return;
        }
        let piece = piece.trim_ascii_end();
        if self.text.len() + piece.len() <= MAX_VALUE_BYTES {
            self.text.push_str(piece);
        } else {
            self.is_too_long = true;
        }
    }

    pub(crate) fn clear(&mut self) {
        self.text.clear();
        self.is_too_long = false;
    }

    /// The trimmed text; `None` if there is none or it was too long.
    pub(crate) fn text(&self) -> Option<&str> {
        let text = self.text.trim_ascii();
        (!text.is_empty() && !self.is_too_long).then_some(text)
    }

    /// The text, leaving the value empty.
    pub(crate) fn take(&mut self) -> Option<String> {
        let text = self.text().map(str::to_owned);
        self.clear();
        text
    }
}

/// What a reference stands for; one that XML does not define stays as written.
fn referenced(name: &BytesRef<'_>) -> Cow<'static, str> {
    Cow::Borrowed(match &**name {
        "amp" => "&",
        "lt" => "<",
        "gt" => ">",
        "quot" => "\"",
        "apos" => "'",
        other => {
            return Cow::Owned(match name.resolve_char_ref() {
                Ok(Some(c)) => c.to_string(),
                _ => format!("&{other};"),
            });
        }
    })
}

fn escape_foreign(bytes: &[u8]) -> Cow<'_, str> {
    if let Ok(text) = std::str::from_utf8(bytes) {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(bytes.len() + bytes.len() / 8);
    for chunk in bytes.utf8_chunks() {
        out.push_str(chunk.valid());
        for b in chunk.invalid() {
            out.push_str(&format!("%{b:02X}"));
        }
    }
    Cow::Owned(out)
}
