//! The one place where other people's text is made harmless for terminals and tables. Control characters
//! (C0, DEL, C1), characters that turn the direction of text, and line separators of Unicode are
//! spelled as `\u001b`: in JSON that is the same character, elsewhere it can be read and does nothing.

use std::fmt;
use std::io::{self, Write};

/// Writes text, or bytes that should be, with all but line feeds and tabs made harmless. What is no UTF-8
/// becomes U+FFFD.
pub(crate) fn write_plain(out: &mut impl Write, bytes: &[u8]) -> io::Result<()> {
    // Most text needs nothing, which its bytes tell.
    let is_harmless = |&byte: &u8| matches!(byte, b' '..=b'~' | b'\n' | b'\t');
    if bytes.iter().all(is_harmless) {
        return out.write_all(bytes);
    }
    for chunk in bytes.utf8_chunks() {
        let (text, one_line) = (chunk.valid(), false);
        write!(out, "{}", Plain { text, one_line })?;
        if !chunk.invalid().is_empty() {
            out.write_all("\u{fffd}".as_bytes())?;
        }
    }
    Ok(())
}

/// Other people's text, made harmless. As `one_line`, line feeds and tabs are spelled, too.
pub(crate) struct Plain<'a> {
    pub(crate) text: &'a str,
    pub(crate) one_line: bool,
}

impl fmt::Display for Plain<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut rest = self.text;
        let stays = |c| matches!(c, '\n' | '\t') && !self.one_line;
        while let Some(at) = rest.find(|c| is_live(c) && !stays(c)) {
            let (before, from) = rest.split_at(at);
            f.write_str(before)?;
            let mut chars = from.chars();
            if let Some(live) = chars.next() {
                write!(f, "\\u{:04x}", u32::from(live))?;
            }
            rest = chars.as_str();
        }
        f.write_str(rest)
    }
}

/// Does it act on a terminal or a line instead of being seen?
fn is_live(c: char) -> bool {
    c.is_control()
        || matches!(
            c,
            '\u{061c}' | '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}'
        )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plain(bytes: &[u8]) -> String {
        let mut out = Vec::new();
        write_plain(&mut out, bytes).expect("a vector takes all");
        String::from_utf8(out).expect("plain text is UTF-8")
    }

    fn field(text: &str) -> String {
        let one_line = true;
        Plain { text, one_line }.to_string()
    }

    #[test]
    fn what_acts_is_spelled_and_what_is_seen_stays() {
        let same = "a\tb\nZürich 東京 مرحبا שלום é 👩\u{200d}💻";
        assert_eq!(plain(same.as_bytes()), same);
        for (live, spelled) in [
            ("\x1b[2J", "\\u001b[2J"),
            ("\x1b]0;title\x07", "\\u001b]0;title\\u0007"),
            ("\r", "\\u000d"),
            ("\x08\x7f", "\\u0008\\u007f"),
            ("\u{9b}2J", "\\u009b2J"),
            ("a\u{202e}cod.exe", "a\\u202ecod.exe"),
            (
                "\u{2066}\u{2069}\u{200f}\u{61c}",
                "\\u2066\\u2069\\u200f\\u061c",
            ),
            ("\u{2028}\u{2029}", "\\u2028\\u2029"),
            ("\0", "\\u0000"),
        ] {
            assert_eq!(plain(live.as_bytes()), spelled);
            assert_eq!(field(live), spelled);
        }
        assert_eq!(plain(b"a\xffb\x9b2J"), "a\u{fffd}b\u{fffd}2J");
        assert_eq!(field("a\tb\nc"), "a\\u0009b\\u000ac");
    }

    /// Whatever comes in, nothing that acts goes out.
    #[test]
    fn no_character_gets_through() {
        for c in (0..=0x10_ffff).filter_map(char::from_u32) {
            let text = c.to_string();
            let out = plain(text.as_bytes());
            assert!(!out.chars().any(|c| is_live(c) && !matches!(c, '\n' | '\t')));
            assert!(!field(&text).chars().any(is_live));
        }
    }

    #[test]
    fn json_says_the_same_afterwards() {
        let value = serde_json::json!({ "title": "\u{202e}\u{9b}\x1b\x7f\u{2028}\"\\" });
        let out = plain(value.to_string().as_bytes());
        assert!(!out.chars().any(is_live), "{out}");
        let read: serde_json::Value = serde_json::from_str(&out).expect("JSON");
        assert_eq!(read, value);
    }
}
