//! A backslash and what follows it: up to six hexadecimal digits and a white space, or any other character, or
//! a line end.

/// An escape that is being read, its backslash taken.
#[derive(Clone, Copy, Default)]
pub(super) struct Escape {
    digits: u8,
    code: u32,
    /// What it stands for, if it is no number.
    literal: u8,
    /// A CR stood where a white space or line end may stand: a LF belongs to it.
    after_cr: bool,
    is_line_end: bool,
}

/// What became of a byte.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Step {
    /// It belongs to the escape, which may go on.
    More,
    /// The escape ends with it.
    Done,
    /// The escape had ended before it.
    Before,
    /// It is a line end: what that means, the place decides.
    LineEnd,
    /// It is the LF of a CR LF after a backslash.
    SecondHalf,
    /// Nor is it that.
    AfterLineEnd,
}

impl Escape {
    /// A backslash and a CR were taken.
    pub(super) fn after_cr() -> Self {
        Self {
            is_line_end: true,
            ..Self::default()
        }
    }

    pub(super) fn take(&mut self, byte: u8) -> Step {
        if self.is_line_end {
            return match byte {
                b'\n' => Step::SecondHalf,
                _ => Step::AfterLineEnd,
            };
        }
        if self.after_cr {
            return match byte {
                b'\n' => Step::Done,
                _ => Step::Before,
            };
        }
        match (byte as char).to_digit(16) {
            Some(digit) if self.digits < 6 => {
                self.digits += 1;
                self.code = self.code << 4 | digit;
                Step::More
            }
            _ if self.digits > 0 => match byte {
                b' ' | b'\t' | b'\n' | 0x0c => Step::Done,
                b'\r' => {
                    self.after_cr = true;
                    Step::More
                }
                _ => Step::Before,
            },
            _ => match byte {
                b'\n' | b'\r' | 0x0c => Step::LineEnd,
                _ => {
                    self.literal = byte;
                    Step::Done
                }
            },
        }
    }

    /// The character that a number stands for; `None` if it is a literal one.
    pub(super) fn finish(&self) -> Option<char> {
        const REPLACEMENT: char = char::REPLACEMENT_CHARACTER;
        if !self.is_number() && self.literal == 0 {
            // The text ended behind the backslash, or a NUL follows it.
            return Some(REPLACEMENT);
        }
        self.is_number().then(|| match self.code {
            0 => REPLACEMENT,
            code => char::from_u32(code).unwrap_or(REPLACEMENT),
        })
    }

    pub(super) fn is_number(&self) -> bool {
        self.digits > 0
    }

    pub(super) fn literal(&self) -> u8 {
        self.literal
    }
}
