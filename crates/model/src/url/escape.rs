//! Percent-encoding in canonical form: unreserved characters stand for themselves, everything that
//! RFC 3986 does not allow in a URL is encoded, hexadecimal digits are upper case, and a `%` that
//! starts no escape is one itself (`%25`).

/// What the bytes of a part of a URL become.
pub(super) struct Escaping([Action; 256]);

/// What was met on the way.
#[derive(Clone, Copy, Default)]
pub(super) struct Met {
    pub(super) semicolon: bool,
    /// A byte that the WHATWG parser treats before escapes count: tab, line end, and in paths `\`.
    pub(super) parser_only: bool,
}

#[derive(Clone, Copy, PartialEq)]
enum Action {
    Keep,
    KeepSemicolon,
    Escape,
    EscapeParserOnly,
    Percent,
}

/// A path segment: RFC 3986's `pchar`.
pub(super) static SEGMENT: Escaping = Escaping::keeping(b"-._~!$&'()*+,=:@", b"\t\n\r\\");

/// A query: `pchar`, `/` and `?`, but not `'`, which the WHATWG parser encodes here.
pub(super) static QUERY: Escaping = Escaping::keeping(b"-._~!$&()*+,=:@/?", b"\t\n\r");

impl Escaping {
    const fn keeping(punctuation: &[u8], parser_only: &[u8]) -> Self {
        let mut actions = [Action::Escape; 256];
        let mut byte = 0;
        while byte < 128 {
            if (byte as u8).is_ascii_alphanumeric() {
                actions[byte] = Action::Keep;
            }
            byte += 1;
        }
        let mut at = 0;
        while at < punctuation.len() {
            actions[punctuation[at] as usize] = Action::Keep;
            at += 1;
        }
        at = 0;
        while at < parser_only.len() {
            actions[parser_only[at] as usize] = Action::EscapeParserOnly;
            at += 1;
        }
        actions[b';' as usize] = Action::KeepSemicolon;
        actions[b'%' as usize] = Action::Percent;
        Self(actions)
    }

    /// Appends `text` in canonical escapes. Running it over its own output changes nothing.
    pub(super) fn push(&self, out: &mut String, text: &str) -> Met {
        let bytes = text.as_bytes();
        let mut met = Met::default();
        let mut kept_from = 0;
        let mut at = 0;
        while at < bytes.len() {
            let action = self.0[bytes[at] as usize];
            if action == Action::Keep {
                at += 1;
                continue;
            }
            if action == Action::KeepSemicolon {
                met.semicolon = true;
                at += 1;
                continue;
            }
            // Kept bytes are ASCII, and so is each byte that starts an escape: a run of kept
            // bytes always lies between character boundaries, unless it is empty.
            if kept_from < at {
                out.push_str(&text[kept_from..at]);
            }
            if action == Action::Percent {
                at += push_percent(out, &bytes[at..]);
            } else {
                met.parser_only |= action == Action::EscapeParserOnly;
                push_escape(out, bytes[at]);
                at += 1;
            }
            kept_from = at;
        }
        if kept_from < at {
            out.push_str(&text[kept_from..]);
        }
        met
    }
}

/// The value of `%XX` at the start of `bytes`.
pub(super) fn escaped_byte(bytes: &[u8]) -> Option<u8> {
    match bytes {
        [b'%', high, low, ..] => Some(hex_value(*high)? << 4 | hex_value(*low)?),
        _ => None,
    }
}

pub(super) fn push_escape(out: &mut String, byte: u8) {
    const DIGITS: &[u8; 16] = b"0123456789ABCDEF";
    out.push('%');
    out.push(char::from(DIGITS[usize::from(byte >> 4)]));
    out.push(char::from(DIGITS[usize::from(byte & 15)]));
}

/// `bytes` start with `%`. Returns how many of them are done with.
fn push_percent(out: &mut String, bytes: &[u8]) -> usize {
    match escaped_byte(bytes) {
        Some(byte) if is_unreserved(byte) => {
            out.push(char::from(byte));
            3
        }
        Some(byte) => {
            push_escape(out, byte);
            3
        }
        None => {
            out.push_str("%25");
            1
        }
    }
}

fn is_unreserved(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_' | b'~')
}

fn hex_value(digit: u8) -> Option<u8> {
    match digit {
        b'0'..=b'9' => Some(digit - b'0'),
        b'a'..=b'f' => Some(digit - b'a' + 10),
        b'A'..=b'F' => Some(digit - b'A' + 10),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pushed(escaping: &Escaping, text: &str) -> String {
        let mut out = String::new();
        escaping.push(&mut out, text);
        out
    }

    #[test]
    fn one_spelling_for_each_character() {
        for (text, segment, query) in [
            ("plain", "plain", "plain"),
            ("%7euser%2Fx%2fy", "~user%2Fx%2Fy", "~user%2Fx%2Fy"),
            ("a b", "a%20b", "a%20b"),
            ("90%", "90%25", "90%25"),
            ("%2", "%252", "%252"),
            ("%zz%77%v", "%25zzw%25v", "%25zzw%25v"),
            ("%2%35", "%2525", "%2525"),
            ("ñ", "%C3%B1", "%C3%B1"),
            ("it's", "it's", "it%27s"),
            (
                "x[y]|^{z}`",
                "x%5By%5D%7C%5E%7Bz%7D%60",
                "x%5By%5D%7C%5E%7Bz%7D%60",
            ),
            ("a/b?c", "a%2Fb%3Fc", "a/b?c"),
            ("%E3%81%82", "%E3%81%82", "%E3%81%82"),
            ("é%e9é", "%C3%A9%E9%C3%A9", "%C3%A9%E9%C3%A9"),
        ] {
            assert_eq!(pushed(&SEGMENT, text), segment, "segment {text}");
            assert_eq!(pushed(&QUERY, text), query, "query {text}");
        }
    }

    #[test]
    fn tells_what_it_met() {
        let mut out = String::new();
        assert!(SEGMENT.push(&mut out, "a;b").semicolon);
        assert!(SEGMENT.push(&mut out, "a\\b").parser_only);
        assert!(!QUERY.push(&mut out, "a\\b").parser_only);
        assert!(QUERY.push(&mut out, "a\nb").parser_only);
    }
}
