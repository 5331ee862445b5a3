//! Tables of volatile information (`.tvi`): the parts of a document that change while the rest stays, kept beside it in a file of their own. Who
//! has the document fetches the table alone and puts the new parts in. Bytes in, bytes out; who fetches and stores is not known here.
//!
//! A part is an element: in HTML a SPAN with an `id`, in XML an element `Vol1`, `Vol2`, ... A table is a first line that says what it is, and
//! the elements as they stand in the document, tags included. `docs/tol.md` tells the format to people who build sites.

use std::collections::{HashMap, HashSet};
use std::ops::Range;

use crate::charset::EscapeMask;
use crate::html::marked_spans;
use crate::xml::{XmlEvent, XmlPull};

#[cfg(test)]
mod tests;

/// The first line of every table; a comment in both HTML and XML.
const FIRST_LINE: &[u8] = b"<!-- tvi 1 -->\n";

/// Longer tables are neither read nor written. A table is meant to be far smaller than its document.
const MAX_TVI_BYTES: usize = 1 << 20;

/// Parts beyond this many are left where they are.
const MAX_PARTS: usize = 1_000;

/// Longer names are none.
const MAX_NAME_BYTES: usize = 64;

/// A document whose names are still ambiguous after this many looks has no parts.
const MAX_ROUNDS: usize = 4;

/// How a document and its table are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Markup {
    Html,
    /// In UTF-8; other XML has no parts.
    Xml,
}

/// The volatile parts of one document.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tvi {
    parts: Vec<Part>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Part {
    name: Vec<u8>,
    /// The element, tags included, in the document's charset.
    element: Vec<u8>,
}

/// A stored document with new parts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refreshed {
    pub document: Vec<u8>,
    /// Parts that were put in, also those that are as they were.
    pub replaced: usize,
    /// Parts of the table that the document has no place for: it has become another document, and should be fetched whole.
    pub missing: usize,
}

impl Tvi {
    /// The parts that `document` marks as volatile: SPANs with an `id` whose class is `volatile` or whose `id` is `Vol` and a number; in
    /// XML elements named `Vol` and a number. Of two with one name the first counts, of nested ones the outermost. A part whose
    /// name another element has, too, in front of it or around it, is left out: its reader could not tell the two apart.
    pub fn of_document(markup: Markup, document: &[u8]) -> Tvi {
        let mut parts = places(markup, document, |name, class| match markup {
            Markup::Html => is_numbered(name) || has_word(class, b"volatile"),
            Markup::Xml => is_numbered(name),
        });
        // Without a part that is left out, what stood within it may be taken for another part.
        for _ in 0..MAX_ROUNDS {
            let names: HashSet<&[u8]> = parts.iter().map(|(name, _)| &**name).collect();
            let readers = places(markup, document, |name, _| names.contains(name));
            if readers == parts {
                let table = Tvi::cut_out(document, parts);
                return if table.write().len() <= MAX_TVI_BYTES {
                    table
                } else {
                    Tvi::default()
                };
            }
            parts.retain(|part| readers.contains(part));
        }
        Tvi::default()
    }

    /// Reads a table; `None` if it is none, or a part of one that broke off in its first line.
    pub fn parse(markup: Markup, bytes: &[u8]) -> Option<Tvi> {
        let rest = bytes.strip_prefix(FIRST_LINE)?;
        if bytes.len() > MAX_TVI_BYTES {
            return None;
        }
        let places = places(markup, rest, |name, _| {
            markup == Markup::Html || is_numbered(name)
        });
        Some(Tvi::cut_out(rest, places))
    }

    /// The table as it is stored in a file.
    pub fn write(&self) -> Vec<u8> {
        let mut out = FIRST_LINE.to_vec();
        for part in &self.parts {
            out.extend_from_slice(&part.element);
            out.push(b'\n');
        }
        out
    }

    /// How many parts there are.
    pub fn len(&self) -> usize {
        self.parts.len()
    }

    pub fn is_empty(&self) -> bool {
        self.parts.is_empty()
    }

    /// `document` with each element that the table names replaced by the table's. Everything else stays byte for byte.
    pub fn put_into(&self, markup: Markup, document: &[u8]) -> Refreshed {
        let parts: HashMap<&[u8], &[u8]> = self
            .parts
            .iter()
            .map(|part| (&*part.name, &*part.element))
            .collect();
        let places = places(markup, document, |name, _| parts.contains_key(name));
        let mut out = Vec::with_capacity(document.len());
        let mut done = 0;
        for (name, place) in &places {
            out.extend_from_slice(&document[done..place.start]);
            out.extend_from_slice(parts[&**name]);
            done = place.end;
        }
        out.extend_from_slice(&document[done..]);
        Refreshed {
            document: out,
            replaced: places.len(),
            missing: self.parts.len() - places.len(),
        }
    }

    fn cut_out(document: &[u8], places: Vec<(Vec<u8>, Range<usize>)>) -> Tvi {
        let parts = places.into_iter().map(|(name, place)| Part {
            name,
            element: document[place].to_vec(),
        });
        Tvi {
            parts: parts.collect(),
        }
    }
}

/// Names and places of the elements that are `wanted` by name and class, each name once, in the document's order.
fn places(
    markup: Markup,
    document: &[u8],
    mut wanted: impl FnMut(&[u8], &[u8]) -> bool,
) -> Vec<(Vec<u8>, Range<usize>)> {
    let mut wanted = |name: &[u8], class: &[u8]| is_name(name) && wanted(name, class);
    let mut places = match markup {
        Markup::Html => in_html(document, wanted),
        Markup::Xml => in_xml(document, &mut wanted),
    };
    let mut seen = HashSet::new();
    places.retain(|(name, _)| seen.insert(name.clone()));
    places
}

fn in_html(
    document: &[u8],
    wanted: impl FnMut(&[u8], &[u8]) -> bool,
) -> Vec<(Vec<u8>, Range<usize>)> {
    // UTF-16 is not read: tags stand in it with a zero in each letter.
    if document.starts_with(b"\xff\xfe") || document.starts_with(b"\xfe\xff") {
        return Vec::new();
    }
    let mut mask = EscapeMask::default();
    let spans = if mask.leaves(document) {
        marked_spans(document, MAX_PARTS, wanted)
    } else {
        let mut masked = document.to_vec();
        mask.apply(&mut masked);
        marked_spans(&masked, MAX_PARTS, wanted)
    };
    spans
        .into_iter()
        .map(|span| (span.id, span.place))
        .collect()
}

fn in_xml(
    document: &[u8],
    wanted: &mut impl FnMut(&[u8], &[u8]) -> bool,
) -> Vec<(Vec<u8>, Range<usize>)> {
    let bom = if document.starts_with(b"\xef\xbb\xbf") {
        3
    } else {
        0
    };
    let Ok(text) = std::str::from_utf8(&document[bom..]) else {
        return Vec::new();
    };
    let mut pull = XmlPull::new(text);
    let mut found = Vec::new();
    // The element that is read: its name, where it begins, and how many of the same name are open within it.
    let mut open: Option<(Vec<u8>, usize, u32)> = None;
    while let Some(event) = pull.next() {
        let position = pull.position();
        match (event, &mut open) {
            (XmlEvent::Open(tag), None) => {
                let name = tag.name().as_ref().as_bytes().to_vec();
                if wanted(&name, b"") {
                    // What stands between `<` and `>` is the tag's length.
                    open = Some((name, position - tag.len() - 2, 0));
                }
            }
            (XmlEvent::Open(tag), Some((name, _, inner))) => {
                *inner += u32::from(tag.name().as_ref().as_bytes() == name);
            }
            (XmlEvent::Empty(tag), None) => {
                let name = tag.name().as_ref().as_bytes().to_vec();
                if wanted(&name, b"") {
                    found.push((name, bom + position - tag.len() - 3..bom + position));
                }
            }
            (XmlEvent::Close(tag), Some((name, start, inner)))
                if tag.name().as_ref().as_bytes() == name =>
            {
                if *inner > 0 {
                    *inner -= 1;
                } else {
                    found.push((std::mem::take(name), bom + *start..bom + position));
                    open = None;
                }
            }
            _ => {}
        }
        if found.len() == MAX_PARTS {
            break;
        }
    }
    found
}

/// Letters, digits and `-_.:`, so that a name needs no decoding in any charset.
fn is_name(name: &[u8]) -> bool {
    let is_plain = |byte: &u8| byte.is_ascii_alphanumeric() || b"-_.:".contains(byte);
    !name.is_empty() && name.len() <= MAX_NAME_BYTES && name.iter().all(is_plain)
}

/// `Vol1`, `Vol27`.
fn is_numbered(name: &[u8]) -> bool {
    name.strip_prefix(b"Vol")
        .is_some_and(|number| !number.is_empty() && number.iter().all(u8::is_ascii_digit))
}

fn has_word(words: &[u8], word: &[u8]) -> bool {
    words
        .split(u8::is_ascii_whitespace)
        .any(|one| one.eq_ignore_ascii_case(word))
}
