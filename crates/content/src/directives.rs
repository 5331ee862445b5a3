//! What a page says about itself to robots: `X-Robots-Tag` headers and `<meta name=robots>`. Finding the
//! elements and obeying the flags are not done here.

use std::ops::{BitOr, BitOrAssign};

/// The directives that matter to a crawler. Several sources add up: a flag set by one of them holds.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Directives {
    pub noindex: bool,
    pub nofollow: bool,
    pub noarchive: bool,
}

impl Directives {
    /// Reads one `X-Robots-Tag` value: a comma-separated list, in which `name:` before a directive
    /// addresses it and those after it to that crawler alone.
    pub fn from_header(value: &[u8], product_token: &str) -> Directives {
        let mut directives = Directives::default();
        let mut for_us = true;
        for item in value.split(|&b| b == b',') {
            let mut word = item.trim_ascii();
            if let Some((name, rest)) = addressee(word) {
                for_us = name == b"*"
                    || name.eq_ignore_ascii_case(b"robots")
                    || name.eq_ignore_ascii_case(product_token.as_bytes());
                word = rest;
            }
            if for_us {
                directives.add(word);
            }
        }
        directives
    }

    /// Reads the `content` of a `<meta>` whose name [`meta_concerns`] us. Commas are usual between
    /// directives; spaces and semicolons occur.
    pub fn from_meta(content: &[u8]) -> Directives {
        let mut directives = Directives::default();
        let separates = |b: &u8| matches!(b, b',' | b';') || b.is_ascii_whitespace();
        for word in content.split(separates) {
            directives.add(word);
        }
        directives
    }

    pub fn is_empty(self) -> bool {
        self == Directives::default()
    }

    fn add(&mut self, word: &[u8]) {
        let is = |name: &str| word.eq_ignore_ascii_case(name.as_bytes());
        if is("none") {
            self.noindex = true;
            self.nofollow = true;
        }
        self.noindex |= is("noindex");
        self.nofollow |= is("nofollow");
        self.noarchive |= is("noarchive") || is("nocache");
    }
}

/// Whether a `<meta>` of this name speaks to us: `robots`, or our product token.
pub fn meta_concerns(name: &[u8], product_token: &str) -> bool {
    let name = name.trim_ascii();
    name.eq_ignore_ascii_case(b"robots")
        || (!name.is_empty() && name.eq_ignore_ascii_case(product_token.as_bytes()))
}

impl BitOr for Directives {
    type Output = Directives;

    fn bitor(self, other: Directives) -> Directives {
        Directives {
            noindex: self.noindex | other.noindex,
            nofollow: self.nofollow | other.nofollow,
            noarchive: self.noarchive | other.noarchive,
        }
    }
}

impl BitOrAssign for Directives {
    fn bitor_assign(&mut self, other: Directives) {
        *self = *self | other;
    }
}

/// Directives that take a value after a colon: their names are not crawlers'.
const WITH_VALUE: [&str; 5] = [
    "unavailable_after",
    "max-snippet",
    "max-image-preview",
    "max-video-preview",
    "indexifembedded",
];

/// The crawler's name that an item starts with, and the rest. A name is one word; a time of day in a
/// date (`15:00:00`) is none, since no crawler's name is a number.
fn addressee(item: &[u8]) -> Option<(&[u8], &[u8])> {
    let colon = memchr::memchr(b':', item)?;
    let name = item[..colon].trim_ascii_end();
    let is_word = !name.is_empty()
        && !name.iter().any(u8::is_ascii_whitespace)
        && !name.iter().all(u8::is_ascii_digit);
    let has_value = WITH_VALUE
        .iter()
        .any(|known| name.eq_ignore_ascii_case(known.as_bytes()));
    (is_word && !has_value).then(|| (name, item[colon + 1..].trim_ascii_start()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn flags(d: Directives) -> String {
        let mut out = String::new();
        for (on, letter) in [(d.noindex, 'i'), (d.nofollow, 'f'), (d.noarchive, 'a')] {
            if on {
                out.push(letter);
            }
        }
        out
    }

    #[test]
    fn headers() {
        let cases = [
            ("noindex", "i"),
            ("NoIndex, NOFOLLOW", "if"),
            ("none", "if"),
            ("all", ""),
            ("", ""),
            ("noarchive", "a"),
            ("nocache , noindex", "ia"),
            ("googlebot: nofollow", ""),
            ("portolan: nofollow", "f"),
            ("Portolan : noindex, noarchive", "ia"),
            ("otherbot: noindex, nofollow", ""),
            ("noindex, otherbot: nofollow, noarchive", "i"),
            ("otherbot: noindex, portolan: nofollow", "f"),
            ("otherbot: noindex, *: nofollow", "f"),
            ("unavailable_after: 25 Jun 2010 15:00:00 PST, noindex", "i"),
            (
                "unavailable_after: Fri, 25-Jun-10 15:00:00 PST, noindex",
                "i",
            ),
            ("max-snippet: 20, nofollow", "f"),
            ("max-image-preview:large, noindex", "i"),
            ("noindexing", ""),
            (":,:,: noindex", ""),
        ];
        for (value, expected) in cases {
            let found = Directives::from_header(value.as_bytes(), "portolan");
            assert_eq!(flags(found), expected, "{value}");
        }
    }

    #[test]
    fn metas() {
        let cases = [
            ("noindex,nofollow", "if"),
            ("NOINDEX NOFOLLOW", "if"),
            ("noindex; noarchive", "ia"),
            ("index, follow", ""),
            (" None ", "if"),
            ("max-snippet:-1, noindex", "i"),
        ];
        for (content, expected) in cases {
            let found = Directives::from_meta(content.as_bytes());
            assert_eq!(flags(found), expected, "{content}");
        }
        assert!(meta_concerns(b"Robots", "portolan"));
        assert!(meta_concerns(b" PORTOLAN ", "portolan"));
        assert!(!meta_concerns(b"googlebot", "portolan"));
        assert!(!meta_concerns(b"", ""));
    }

    #[test]
    fn sources_add_up() {
        let mut d = Directives::from_meta(b"noindex");
        d |= Directives::from_header(b"noarchive", "portolan");
        assert_eq!(flags(d), "ia");
        assert!(!d.is_empty());
    }
}
