//! The inside of a tag: attributes read in place from contiguous bytes, and the search for a tag's
//! end when its bytes come in pieces. The values are raw: no charset, no references.

use super::search::find;

/// Why reading a tag's attributes stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    /// At the tag's `>`.
    Closed { self_closing: bool },
    /// At the `>` of a tag over the limit: its attributes do not count.
    TooLong { self_closing: bool },
    /// The bytes ended first. Nothing of the tag may be acted on yet.
    Incomplete,
}

/// The attributes of one tag, to be read once, up to the tag's end.
pub struct Attributes<'a> {
    /// From the tag's `<` on.
    bytes: &'a [u8],
    name: &'a [u8],
    pos: usize,
    max_tag_bytes: usize,
    ending: Option<Ending>,
}

impl<'a> Attributes<'a> {
    pub(super) fn new(bytes: &'a [u8], name: &'a [u8], pos: usize, max_tag_bytes: usize) -> Self {
        Attributes {
            bytes,
            name,
            pos,
            max_tag_bytes,
            ending: None,
        }
    }

    pub(super) fn too_long(self_closing: bool) -> Self {
        let ending = Some(Ending::TooLong { self_closing });
        Attributes {
            bytes: b"",
            name: b"",
            pos: 0,
            max_tag_bytes: 0,
            ending,
        }
    }

    /// The tag's name as it was written.
    pub fn tag_name(&self) -> &'a [u8] {
        self.name
    }

    /// Gives every attribute's name and value, duplicates too, to `each`; says how the tag ended.
    #[inline]
    pub fn read(&mut self, each: impl FnMut(&'a [u8], &'a [u8])) -> Ending {
        if let Some(ending) = self.ending {
            return ending;
        }
        let ending = match self.read_to_end(each) {
            Some(self_closing) if self.pos > self.max_tag_bytes => Ending::TooLong { self_closing },
            Some(self_closing) => Ending::Closed { self_closing },
            None => Ending::Incomplete,
        };
        self.ending = Some(ending);
        ending
    }

    /// How many bytes the tag has, once it was read to its end.
    pub(super) fn tag_bytes(&self) -> usize {
        self.pos
    }

    /// Whether the tag closed itself; `None` when the bytes ended first.
    #[inline]
    fn read_to_end(&mut self, mut each: impl FnMut(&'a [u8], &'a [u8])) -> Option<bool> {
        let bytes = self.bytes;
        let mut i = self.pos;
        loop {
            i = skip_space(bytes, i);
            match *bytes.get(i)? {
                b'>' => {
                    self.pos = i + 1;
                    return Some(false);
                }
                b'/' => {
                    i += 1;
                    if *bytes.get(i)? == b'>' {
                        self.pos = i + 1;
                        return Some(true);
                    }
                    continue;
                }
                _ => {}
            }
            // An equals sign here begins a name.
            let name_start = i;
            i += 1;
            while CLASS[usize::from(*bytes.get(i)?)] & ENDS_ATTRIBUTE_NAME == 0 {
                i += 1;
            }
            let name = &bytes[name_start..i];
            i = skip_space(bytes, i);
            if *bytes.get(i)? != b'=' {
                each(name, b"");
                continue;
            }
            i = skip_space(bytes, i + 1);
            let value = match *bytes.get(i)? {
                quote @ (b'"' | b'\'') => {
                    let start = i + 1;
                    let end = start + find(quote, &bytes[start..])?;
                    i = end + 1;
                    &bytes[start..end]
                }
                // A value that is missing: `<a href=>`.
                b'>' => b"",
                _ => {
                    let start = i;
                    while CLASS[usize::from(*bytes.get(i)?)] & ENDS_UNQUOTED == 0 {
                        i += 1;
                    }
                    &bytes[start..i]
                }
            };
            each(name, value);
        }
    }
}

/// Finds the end of a tag whose bytes come in pieces; remembers where in the tag it is.
#[derive(Clone, Copy, Default)]
pub(super) struct EndFinder {
    part: Part,
    pub(super) self_closing: bool,
}

#[derive(Clone, Copy, Default)]
enum Part {
    #[default]
    TagName,
    BeforeName,
    Name,
    AfterName,
    BeforeValue,
    Quoted(u8),
    Unquoted,
    Slash,
}

impl EndFinder {
    /// Goes on through `bytes`; how many of them belong to the tag if it ends there. The first
    /// bytes given must be those after `<` or `</`.
    pub(super) fn advance(&mut self, bytes: &[u8]) -> Option<usize> {
        for (i, &byte) in bytes.iter().enumerate() {
            self.part = match (self.part, byte) {
                (Part::Quoted(quote), _) if byte == quote => Part::BeforeName,
                (Part::Quoted(quote), _) => Part::Quoted(quote),
                (Part::Slash, b'>') => {
                    self.self_closing = true;
                    return Some(i + 1);
                }
                (_, b'>') => return Some(i + 1),
                (Part::BeforeValue, b'"' | b'\'') => Part::Quoted(byte),
                (Part::BeforeValue, _) if is_space(byte) => Part::BeforeValue,
                (Part::BeforeValue | Part::Unquoted, _) if !is_space(byte) => Part::Unquoted,
                (_, b'/') => Part::Slash,
                (Part::Name, _) if is_space(byte) => Part::AfterName,
                (Part::AfterName, _) if is_space(byte) => Part::AfterName,
                (_, _) if is_space(byte) => Part::BeforeName,
                (Part::Name | Part::AfterName, b'=') => Part::BeforeValue,
                (Part::TagName, _) => Part::TagName,
                _ => Part::Name,
            };
        }
        None
    }
}

#[inline]
pub(super) fn ends_tag_name(byte: u8) -> bool {
    CLASS[usize::from(byte)] & ENDS_TAG_NAME != 0
}

#[inline]
fn is_space(byte: u8) -> bool {
    CLASS[usize::from(byte)] & SPACE != 0
}

#[inline]
fn skip_space(bytes: &[u8], mut i: usize) -> usize {
    while bytes.get(i).is_some_and(|&byte| is_space(byte)) {
        i += 1;
    }
    i
}

const SPACE: u8 = 1;
const ENDS_TAG_NAME: u8 = 2;
const ENDS_ATTRIBUTE_NAME: u8 = 4;
const ENDS_UNQUOTED: u8 = 8;

static CLASS: [u8; 256] = {
    let mut class = [0; 256];
    let spaces = b"\t\n\x0c\r ";
    let mut i = 0;
    while i < spaces.len() {
        class[spaces[i] as usize] = SPACE | ENDS_TAG_NAME | ENDS_ATTRIBUTE_NAME | ENDS_UNQUOTED;
        i += 1;
    }
    class[b'/' as usize] = ENDS_TAG_NAME | ENDS_ATTRIBUTE_NAME;
    class[b'>' as usize] = ENDS_TAG_NAME | ENDS_ATTRIBUTE_NAME | ENDS_UNQUOTED;
    class[b'=' as usize] = ENDS_ATTRIBUTE_NAME;
    class
};

#[cfg(test)]
mod tests {
    use super::*;

    fn read(tag: &str) -> (Vec<(&str, &str)>, Ending) {
        let mut found = Vec::new();
        let mut attributes = Attributes::new(tag.as_bytes(), b"a", 2, 60);
        let text = |bytes| std::str::from_utf8(bytes).unwrap();
        let ending = attributes.read(|name, value| found.push((text(name), text(value))));
        (found, ending)
    }

    #[test]
    fn attributes_as_a_browser_takes_them() {
        let closed = Ending::Closed {
            self_closing: false,
        };
        assert_eq!(read("<a href=x/y>"), (vec![("href", "x/y")], closed));
        assert_eq!(
            read("<a =b='c\"'d>"),
            (vec![("=b", "c\""), ("d", "")], closed)
        );
        assert_eq!(
            read("<a b = c / d=>"),
            (vec![("b", "c"), ("d", "")], closed)
        );
        assert_eq!(
            read("<a b=\"1\"c='2'/>").1,
            Ending::Closed { self_closing: true }
        );
        assert_eq!(read("<a b=c/>"), (vec![("b", "c/")], closed));
        assert_eq!(read("<a b=\"c>").1, Ending::Incomplete);
        assert_eq!(read(&format!("<a b={}>", "x".repeat(60))).1, TOO_LONG);
    }

    const TOO_LONG: Ending = Ending::TooLong {
        self_closing: false,
    };

    #[test]
    fn the_end_is_found_in_pieces_too() {
        for tag in [
            "a href='>' b>",
            "a =\">",
            "a/b=c\">",
            "a b=c='>",
            "a b='x'/>",
            "a b = > '>",
        ] {
            let mut attributes = Attributes::new(tag.as_bytes(), b"a", 1, 60);
            let whole = attributes.read(|_, _| {});
            let mut finder = EndFinder::default();
            let end = tag
                .bytes()
                .position(|b| finder.advance(&[b]).is_some())
                .map(|i| i + 1);
            assert_eq!(end, Some(attributes.tag_bytes()), "{tag}");
            assert_eq!(
                whole,
                Ending::Closed {
                    self_closing: finder.self_closing
                },
                "{tag}"
            );
        }
    }
}
