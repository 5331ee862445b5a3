//! Character references (`&amp;`, `&#38;`, `&nbsp`) as the HTML standard decodes them, and with
//! them the newlines and NULs of text that is decoded.

use memchr::{memchr3, memrchr};

/// Where the text stood: the rules differ for names without a semicolon.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    Text,
    Attribute,
}

/// Appends `text` to `out` with references decoded, newlines made LF and NUL made U+FFFD.
pub fn decode_references(text: &str, place: Place, out: &mut String) {
    let mut rest = text;
    while let Some(at) = memchr3(b'&', b'\r', 0, rest.as_bytes()) {
        out.push_str(&rest[..at]);
        rest = &rest[at..];
        let taken = match rest.as_bytes()[0] {
            b'&' => reference(rest, place, out),
            b'\r' => {
                out.push('\n');
                if rest.as_bytes().get(1) == Some(&b'\n') {
                    2
                } else {
                    1
                }
            }
            _ => {
                out.push('\u{fffd}');
                1
            }
        };
        rest = &rest[taken..];
    }
    out.push_str(rest);
}

/// Decodes what begins with `&`; how many bytes of `text` that took.
fn reference(text: &str, place: Place, out: &mut String) -> usize {
    let taken = if text.as_bytes().get(1) == Some(&b'#') {
        numeric(text.as_bytes(), out)
    } else {
        named(text.as_bytes(), place, out)
    };
    taken.unwrap_or_else(|| {
        out.push('&');
        1
    })
}

fn numeric(bytes: &[u8], out: &mut String) -> Option<usize> {
    let (start, radix) = match bytes.get(2) {
        Some(b'x' | b'X') => (3, 16),
        _ => (2, 10),
    };
    let mut code = 0u32;
    let mut end = start;
    while let Some(digit) = bytes.get(end).and_then(|&b| char::from(b).to_digit(radix)) {
        code = code.saturating_mul(radix).saturating_add(digit);
        end += 1;
    }
    if end == start {
        return None;
    }
    out.push(character(code));
    Some(if bytes.get(end) == Some(&b';') {
        end + 1
    } else {
        end
    })
}

/// The character of a number: what was meant for windows-1252 is taken so.
fn character(code: u32) -> char {
    match code {
        0 => '\u{fffd}',
        0x80..=0x9f => C1_AS_WINDOWS_1252[(code - 0x80) as usize],
        _ => char::from_u32(code).unwrap_or('\u{fffd}'),
    }
}

const C1_AS_WINDOWS_1252: [char; 32] = [
    '€', '\u{81}', '‚', 'ƒ', '„', '…', '†', '‡', 'ˆ', '‰', 'Š', '‹', 'Œ', '\u{8d}', 'Ž', '\u{8f}',
    '\u{90}', '‘', '’', '“', '”', '•', '–', '—', '˜', '™', 'š', '›', 'œ', '\u{9d}', 'ž', 'Ÿ',
];

/// The longest name without a semicolon that is still a reference.
const MAX_BARE_NAME: usize = 6;
const MAX_NAME: usize = 31;

fn named(bytes: &[u8], place: Place, out: &mut String) -> Option<usize> {
    if bytes.starts_with(b"&amp;") {
        out.push('&');
        return Some(5);
    }
    let letters = bytes[1..]
        .iter()
        .take_while(|b| b.is_ascii_alphanumeric())
        .count();
    if bytes.get(1 + letters) == Some(&b';')
        && letters <= MAX_NAME
        && push_named(&bytes[1..letters + 2], out)
    {
        return Some(letters + 2);
    }
    for length in (2..=letters.min(MAX_BARE_NAME)).rev() {
        let name = &bytes[1..=length];
        // In an attribute `&copy=1` and `&copyright` are query parameters, not signs.
        let next = bytes.get(1 + length);
        let as_is = next.is_some_and(|&b| b == b'=' || b.is_ascii_alphanumeric());
        if is_name(name) {
            if place == Place::Attribute && as_is {
                return None;
            }
            push_named(name, out);
            return Some(1 + length);
        }
    }
    None
}

/// The standard's table: lines of `name code[,code]`, sorted by name; names that need a semicolon
/// carry it.
static TABLE: &str = include_str!("entities.txt");

fn push_named(name: &[u8], out: &mut String) -> bool {
    let Some(codes) = lookup(name) else {
        return false;
    };
    let code = |code| u32::from_str_radix(code, 16).ok().and_then(char::from_u32);
    out.extend(codes.split(',').filter_map(code));
    true
}

fn is_name(name: &[u8]) -> bool {
    lookup(name).is_some()
}

/// Binary search over the table's lines.
fn lookup(name: &[u8]) -> Option<&'static str> {
    let table = TABLE.as_bytes();
    let (mut low, mut high) = (0, table.len());
    while low < high {
        let middle = low + (high - low) / 2;
        let start = memrchr(b'\n', &table[low..middle]).map_or(low, |at| low + at + 1);
        let end = memchr::memchr(b'\n', &table[start..]).map_or(table.len(), |at| start + at);
        let (entry, codes) = TABLE[start..end].split_once(' ')?;
        match entry.as_bytes().cmp(name) {
            std::cmp::Ordering::Equal => return Some(codes),
            std::cmp::Ordering::Less => low = end + 1,
            std::cmp::Ordering::Greater => high = start,
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn decode(text: &str, place: Place) -> String {
        let mut out = String::new();
        decode_references(text, place, &mut out);
        out
    }

    #[test]
    fn every_name_of_the_table_is_found_and_sorted() {
        let names: Vec<_> = TABLE
            .lines()
            .map(|line| line.split_once(' ').unwrap())
            .collect();
        assert_eq!(names.len(), 2231);
        assert!(names.is_sorted_by(|a, b| a.0.as_bytes() < b.0.as_bytes()));
        for (name, codes) in names {
            assert_eq!(lookup(name.as_bytes()), Some(codes), "{name}");
        }
        assert_eq!(lookup(b"nosuch;"), None);
        assert_eq!(lookup(b"zzzz"), None);
        assert_eq!(lookup(b"A"), None);
    }

    #[test]
    fn references_in_attributes_and_text() {
        assert_eq!(decode("a&amp;b&AMP;c&ampd", Place::Text), "a&b&c&d");
        assert_eq!(
            decode("?a=1&copy=2&copy2&copy;&copy", Place::Attribute),
            "?a=1&copy=2&copy2©©"
        );
        assert_eq!(decode("?x&notit;&notin;", Place::Attribute), "?x&notit;∉");
        assert_eq!(decode("&notit;", Place::Text), "¬it;");
        assert_eq!(
            decode("&#x41;&#66&#0;&#x110000;&#128;&#;&#x;&", Place::Text),
            "AB\u{fffd}\u{fffd}€&#;&#x;&"
        );
        assert_eq!(decode("a\r\nb\rc\0&#13;", Place::Text), "a\nb\nc\u{fffd}\r");
    }
}
