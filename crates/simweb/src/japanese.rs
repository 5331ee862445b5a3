//! Japanese text in the three old encodings, by arithmetic on JIS X 0208 rows and cells.

use crate::seed::Draw;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Script {
    Iso2022Jp,
    EucJp,
    ShiftJis,
}

impl Script {
    pub(crate) fn label(self) -> &'static str {
        match self {
            Script::Iso2022Jp => "ISO-2022-JP",
            Script::EucJp => "EUC-JP",
            Script::ShiftJis => "Shift_JIS",
        }
    }

    /// Writes characters given as (row, cell), both counted from 1.
    pub(crate) fn write(self, letters: impl IntoIterator<Item = (u8, u8)>, out: &mut Vec<u8>) {
        if self == Script::Iso2022Jp {
            out.extend_from_slice(b"\x1b$B");
        }
        for (row, cell) in letters {
            let (first, second) = (row + 0x20, cell + 0x20);
            match self {
                Script::Iso2022Jp => out.extend_from_slice(&[first, second]),
                Script::EucJp => out.extend_from_slice(&[first | 0x80, second | 0x80]),
                Script::ShiftJis => out.extend_from_slice(&shift_jis(first, second)),
            }
        }
        if self == Script::Iso2022Jp {
            out.extend_from_slice(b"\x1b(B");
        }
    }
}

/// Characters whose ISO-2022-JP bytes are `<!--`: who does not decode sees a comment begin here.
pub(crate) const LOOKS_LIKE_COMMENT: [(u8, u8); 2] = [(28, 1), (13, 13)];

/// Running text: mostly hiragana, some katakana, some kanji.
pub(crate) fn prose(draw: &mut Draw, len: usize) -> Vec<(u8, u8)> {
    (0..len)
        .map(|_| match draw.below(10) {
            0..=5 => (4, 1 + draw.below(83) as u8),
            6 => (5, 1 + draw.below(86) as u8),
            _ => (16 + draw.below(31) as u8, 1 + draw.below(94) as u8),
        })
        .collect()
}

fn shift_jis(first: u8, second: u8) -> [u8; 2] {
    let lead = first.div_ceil(2) + if first < 0x5F { 0x70 } else { 0xB0 };
    let trail = match (first % 2 == 1, second >= 0x60) {
        (true, true) => second + 0x20,
        (true, false) => second + 0x1F,
        (false, _) => second + 0x7E,
    };
    [lead, trail]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_letters() {
        let mut out = Vec::new();
        // あ (4,2) and 亜 (16,1) in each encoding, as any code table shows them.
        let letters = [(4, 2), (16, 1)];
        Script::Iso2022Jp.write(letters, &mut out);
        assert_eq!(out, b"\x1b$B$\"0!\x1b(B");
        out.clear();
        Script::EucJp.write(letters, &mut out);
        assert_eq!(out, [0xA4, 0xA2, 0xB0, 0xA1]);
        out.clear();
        Script::ShiftJis.write(letters, &mut out);
        assert_eq!(out, [0x82, 0xA0, 0x88, 0x9F]);
        out.clear();
        Script::Iso2022Jp.write(LOOKS_LIKE_COMMENT, &mut out);
        assert_eq!(out, b"\x1b$B<!--\x1b(B");
    }
}
