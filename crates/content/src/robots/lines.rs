//! The lines of a robots.txt: which records they hold, spelled well or badly. What records mean
//! together is not decided here.

use std::borrow::Cow;
use std::time::Duration;

use crate::table::Table;

/// A record that means something to a crawler. Values are trimmed and without comments.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Line<'a> {
    UserAgent(&'a [u8]),
    Rule {
        allow: bool,
        path: &'a [u8],
    },
    CrawlDelay(&'a [u8]),
    Sitemap(&'a [u8]),
    /// A path below which documents have tables of this kind.
    Table(Table, &'a [u8]),
}

pub(super) fn records(text: &[u8]) -> impl Iterator<Item = Line<'_>> {
    text.split(|&b| b == b'\n' || b == b'\r').filter_map(record)
}

/// The product token that a `User-agent` value starts with.
pub(super) fn product_token(value: &[u8]) -> &[u8] {
    let value = value.trim_ascii_start();
    let end = value
        .iter()
        .position(|b| !(b.is_ascii_alphanumeric() || *b == b'-' || *b == b'_'))
        .unwrap_or(value.len());
    &value[..end]
}

/// Whether a `User-agent` value is `*`, alone or before other words.
pub(super) fn names_everyone(value: &[u8]) -> bool {
    value.first() == Some(&b'*') && value.get(1).is_none_or(u8::is_ascii_whitespace)
}

/// Seconds with a fraction after a point or a comma; what follows the number does not matter. Rounded up to
/// a millisecond: rounding must not make us faster than asked.
pub(super) fn delay(value: &[u8]) -> Option<Duration> {
    let whole = digits(value);
    let fraction = match value.get(whole.len()) {
        Some(b'.' | b',') => digits(&value[whole.len() + 1..]),
        _ => b"",
    };
    if whole.is_empty() && fraction.is_empty() {
        return None;
    }
    let seconds = whole.iter().fold(0u64, |n, d| {
        n.saturating_mul(10)
            .saturating_add(u64::from(d - b'0'))
            .min(MAX_DELAY_S)
    });
    let mut millis = 0;
    for place in 0..3 {
        millis = millis * 10 + fraction.get(place).map_or(0, |d| u64::from(d - b'0'));
    }
    if fraction.iter().skip(3).any(|&d| d != b'0') {
        millis += 1;
    }
    Some(Duration::from_millis(seconds * 1000 + millis))
}

/// Longer than any crawl; keeps the arithmetic far from its ends.
const MAX_DELAY_S: u64 = 1_000_000_000;

/// The text of a `Sitemap` value. Octets that are not UTF-8 are escaped, as they would be in a URL.
pub(super) fn sitemap_text(value: &[u8]) -> Cow<'_, str> {
    match std::str::from_utf8(value) {
        Ok(text) if !text.bytes().any(|b| b.is_ascii_control()) => Cow::Borrowed(text),
        _ => Cow::Owned(value.iter().fold(String::new(), |mut out, &b| {
            if b.is_ascii_graphic() || b == b' ' {
                out.push(b as char);
            } else {
                out.push_str(&format!("%{b:02X}"));
            }
            out
        })),
    }
}

fn record(line: &[u8]) -> Option<Line<'_>> {
    let line = match memchr::memchr(b'#', line) {
        Some(at) => &line[..at],
        None => line,
    };
    let line = line.trim_ascii();
    let colon = memchr::memchr(b':', line);
    if let Some(at) = colon
        && let Some(key) = Key::read(line[..at].trim_ascii_end())
    {
        return Some(key.record(line[at + 1..].trim_ascii_start()));
    }
    if let Some(at) = line.iter().position(u8::is_ascii_whitespace) {
        let value = line[at..].trim_ascii_start();
        if !value.iter().any(u8::is_ascii_whitespace)
            && let Some(key) = Key::read(&line[..at])
        {
            return Some(key.record(value));
        }
        return None;
    }
    // A sitemap whose key was forgotten.
    let looks_like_sitemap =
        starts_with_http(line) && line.windows(7).any(|w| w.eq_ignore_ascii_case(b"sitemap"));
    looks_like_sitemap.then_some(Line::Sitemap(line))
}

#[derive(Clone, Copy)]
enum Key {
    UserAgent,
    Allow,
    Disallow,
    CrawlDelay,
    Sitemap,
    Tol,
    Tvi,
}

impl Key {
    fn read(word: &[u8]) -> Option<Key> {
        SPELLINGS
            .iter()
            .find(|(spelling, _)| word.eq_ignore_ascii_case(spelling.as_bytes()))
            .map(|(_, key)| *key)
    }

    fn record(self, value: &[u8]) -> Line<'_> {
        match self {
            Key::UserAgent => Line::UserAgent(value),
            Key::Allow => Line::Rule {
                allow: true,
                path: value,
            },
            Key::Disallow => Line::Rule {
                allow: false,
                path: value,
            },
            Key::CrawlDelay => Line::CrawlDelay(value),
            Key::Sitemap => Line::Sitemap(value),
            Key::Tol => Line::Table(Table::Tol, value),
            Key::Tvi => Line::Table(Table::Tvi, value),
        }
    }
}

/// The keys, each with the misspellings that are common on the Web. `Disallow` misread as nothing would
/// take us where we are not wanted, so its list is the longest.
const SPELLINGS: [(&str, Key); 29] = [
    ("disallow", Key::Disallow),
    ("allow", Key::Allow),
    ("user-agent", Key::UserAgent),
    ("sitemap", Key::Sitemap),
    ("crawl-delay", Key::CrawlDelay),
    ("useragent", Key::UserAgent),
    ("user agent", Key::UserAgent),
    ("user_agent", Key::UserAgent),
    ("user-agents", Key::UserAgent),
    ("useg-agent", Key::UserAgent),
    ("ser-agent", Key::UserAgent),
    ("usser-agent", Key::UserAgent),
    ("dissallow", Key::Disallow),
    ("dissalow", Key::Disallow),
    ("disalow", Key::Disallow),
    ("diasllow", Key::Disallow),
    ("disallaw", Key::Disallow),
    ("desallow", Key::Disallow),
    ("disalllow", Key::Disallow),
    ("dissalllow", Key::Disallow),
    ("disallows", Key::Disallow),
    ("disallowed", Key::Disallow),
    ("disllow", Key::Disallow),
    ("allows", Key::Allow),
    ("site-map", Key::Sitemap),
    ("crawldelay", Key::CrawlDelay),
    ("crawl delay", Key::CrawlDelay),
    ("tol", Key::Tol),
    ("tvi", Key::Tvi),
];

fn digits(text: &[u8]) -> &[u8] {
    let end = text
        .iter()
        .position(|b| !b.is_ascii_digit())
        .unwrap_or(text.len());
    &text[..end]
}

pub(super) fn starts_with_http(text: &[u8]) -> bool {
    [&b"http://"[..], b"https://"].iter().any(|scheme| {
        text.get(..scheme.len())
            .is_some_and(|head| head.eq_ignore_ascii_case(scheme))
    })
}
