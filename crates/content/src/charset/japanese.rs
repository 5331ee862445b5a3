//! What the three Japanese charsets need when they meet in one page: hiding escaped runs from
//! the tokenizer, and telling EUC-JP from Shift_JIS by how plausible the characters are.

use encoding_rs::{EUC_JP, Encoding, ISO_2022_JP, SHIFT_JIS};

pub(crate) const ESC: u8 = 0x1b;

/// Sets the high bit of every byte of an ISO-2022-JP double-byte or katakana run, so that the
/// `<`, `"` and `&` that such runs are full of are no markup. The escapes themselves stay;
/// [`decode_segment`](super::decode_segment) finds the runs by them.
///
/// A line end closes a run, as RFC 1468 demands of writers: a forgotten escape costs a line, not
/// the rest of the page.
#[derive(Clone, Copy, Default)]
pub(crate) struct EscapeMask {
    run: bool,
    escape: Escape,
    /// Whether the page had an escaped run at all.
    pub(crate) seen: bool,
}

#[derive(Clone, Copy, Default, PartialEq, Eq)]
enum Escape {
    #[default]
    None,
    Begun,
    Dollar,
    Bracket,
}

impl EscapeMask {
    /// Whether `bytes` can go to the tokenizer as they are.
    pub(crate) fn leaves(&self, bytes: &[u8]) -> bool {
        !self.run && self.escape == Escape::None && memchr::memchr(ESC, bytes).is_none()
    }

    pub(crate) fn apply(&mut self, bytes: &mut [u8]) {
        for byte in bytes {
            self.step(byte);
        }
    }

    fn step(&mut self, byte: &mut u8) {
        let before = std::mem::take(&mut self.escape);
        match (before, *byte) {
            (_, ESC) => self.escape = Escape::Begun,
            (Escape::Begun, b'$') => self.escape = Escape::Dollar,
            (Escape::Begun, b'(') => self.escape = Escape::Bracket,
            (Escape::Dollar, b'@' | b'B') | (Escape::Bracket, b'I') => {
                self.run = true;
                self.seen = true;
            }
            (Escape::Bracket, b'B' | b'J') => self.run = false,
            (_, b'\n' | b'\r') => self.run = false,
            (_, 0x21..=0x7e) if self.run => *byte |= 0x80,
            _ => {}
        }
    }
}

/// Whether pages in `encoding` are expected to mix the three charsets.
pub(super) fn is_japanese(encoding: &'static Encoding) -> bool {
    encoding == SHIFT_JIS || encoding == EUC_JP || encoding == ISO_2022_JP
}

/// Which of EUC-JP and Shift_JIS reads `bytes` as the likelier Japanese; `page` wins a tie.
pub(super) fn likelier(bytes: &[u8], page: &'static Encoding) -> Option<&'static Encoding> {
    let euc = euc_score(bytes);
    let sjis = sjis_score(bytes);
    match (euc, sjis) {
        (Some(euc), Some(sjis)) => {
            let euc_wins = if page == SHIFT_JIS {
                euc > sjis
            } else {
                euc >= sjis
            };
            Some(if euc_wins { EUC_JP } else { SHIFT_JIS })
        }
        (Some(_), None) => Some(EUC_JP),
        (None, Some(_)) => Some(SHIFT_JIS),
        (None, None) => None,
    }
}

/// Whether `encoding` reads `bytes` as Japanese that one would write: kana and everyday kanji.
pub(super) fn is_plausible(bytes: &[u8], encoding: &'static Encoding) -> bool {
    let pairs = bytes.iter().filter(|b| !b.is_ascii()).count() > 1;
    let score = if encoding == EUC_JP {
        euc_score(bytes)
    } else {
        sjis_score(bytes)
    };
    pairs && score.is_some_and(|score| score > 0)
}

/// Whether `text`, which is valid UTF-8, is so on purpose, although Shift_JIS makes sense of its bytes too.
///
/// Of what is written in Shift_JIS, only rare kanji and half-width katakana can be valid UTF-8, and hardly
/// ever two such characters of three bytes. One of them is meant if Japanese has it (`閾値` gives one
/// that it has not), and Latin letters (`é` is `ﾃｩ`) if they stand beside others of a word.
pub(super) fn is_hardly_chance(text: &str) -> bool {
    let is_wide = |c: char| c >= '\u{800}';
    match text.chars().filter(|&c| is_wide(c)).count() {
        0 => is_latin_word(text),
        1 => {
            let mut buffer = [0; 4];
            let wide = text.chars().find(|&c| is_wide(c)).unwrap_or_default();
            !SHIFT_JIS.encode(wide.encode_utf8(&mut buffer)).2
        }
        _ => true,
    }
}

/// Whether every character beyond ASCII is a Latin letter with an ASCII letter before or after it.
fn is_latin_word(text: &str) -> bool {
    let mut before = None;
    let mut rest = text.chars().peekable();
    while let Some(c) = rest.next() {
        let is_letter = |c: &char| c.is_ascii_alphabetic();
        let is_beside = before.is_some_and(|b| is_letter(&b)) || rest.peek().is_some_and(is_letter);
        let is_latin = ('\u{c0}'..'\u{250}').contains(&c) && is_beside;
        if !c.is_ascii() && !is_latin {
            return false;
        }
        before = Some(c);
    }
    true
}

// Scores of one character. Halfwidth katakana take one byte, so that a pair of them weighs as
// much as the everyday kanji that the same two bytes are in EUC-JP.
const KANA: i32 = 3;
const EVERYDAY: i32 = 2;
const HALFWIDTH_KATAKANA: i32 = 1;
const RARE_KANJI: i32 = -1;
const HALFWIDTH_PUNCTUATION: i32 = -2;

fn euc_score(bytes: &[u8]) -> Option<i32> {
    let mut score = 0;
    let mut rest = bytes.iter().copied();
    while let Some(lead) = rest.next() {
        score += match lead {
            ..=0x7f => continue,
            0x8e => {
                rest.next().filter(|b| (0xa1..=0xdf).contains(b))?;
                HALFWIDTH_KATAKANA
            }
            0x8f => {
                rest.next().filter(|b| *b >= 0xa1)?;
                rest.next().filter(|b| *b >= 0xa1)?;
                RARE_KANJI
            }
            0xa1..=0xfe => {
                rest.next().filter(|b| (0xa1..=0xfe).contains(b))?;
                match lead {
                    0xa4 | 0xa5 => KANA,
                    0xa1 | 0xa3 | 0xb0..=0xcf => EVERYDAY,
                    0xd0..=0xf4 => RARE_KANJI,
                    _ => 0,
                }
            }
            _ => return None,
        };
    }
    Some(score)
}

fn sjis_score(bytes: &[u8]) -> Option<i32> {
    let mut score = 0;
    let mut rest = bytes.iter().copied();
    while let Some(lead) = rest.next() {
        score += match lead {
            ..=0x7f => continue,
            0xa1..=0xa5 => HALFWIDTH_PUNCTUATION,
            0xa6..=0xdf => HALFWIDTH_KATAKANA,
            0x81..=0x9f | 0xe0..=0xfc => {
                let trail = rest
                    .next()
                    .filter(|b| matches!(b, 0x40..=0x7e | 0x80..=0xfc))?;
                match (lead, trail) {
                    (0x82, 0x9f..) | (0x83, ..=0x96) => KANA,
                    (0x81 | 0x82, _) | (0x88, 0x9f..) | (0x89..=0x97, _) | (0x98, ..=0x72) => {
                        EVERYDAY
                    }
                    (0x98..=0x9f | 0xe0..=0xea, _) => RARE_KANJI,
                    _ => 0,
                }
            }
            _ => return None,
        };
    }
    Some(score)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn markup_inside_a_run_is_hidden_and_outside_is_not() {
        let mut bytes = *b"<\x1b$B<\"&\x1b(B<\x1b(I<\n<";
        let mut mask = EscapeMask::default();
        assert!(!mask.leaves(&bytes));
        mask.apply(&mut bytes);
        assert_eq!(&bytes, b"<\x1b$B\xbc\xa2\xa6\x1b(B<\x1b(I\xbc\n<");
        assert!(mask.seen && mask.leaves(b"plain"));
    }

    #[test]
    fn the_page_keeps_its_charset_when_in_doubt() {
        let (katakana, _, _) = SHIFT_JIS.encode("ｹﾞｰﾑ");
        assert_eq!(likelier(&katakana, SHIFT_JIS), Some(SHIFT_JIS));
        assert_eq!(likelier(&katakana, EUC_JP), Some(EUC_JP));
        for word in ["メニュー", "です", "大学", "日本語", "東京"] {
            let (euc, _, _) = EUC_JP.encode(word);
            assert_eq!(likelier(&euc, SHIFT_JIS), Some(EUC_JP), "{word}");
            let (sjis, _, _) = SHIFT_JIS.encode(word);
            assert_eq!(likelier(&sjis, EUC_JP), Some(SHIFT_JIS), "{word}");
        }
    }
}
