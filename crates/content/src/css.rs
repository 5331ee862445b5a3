//! What a style sheet needs to be shown: the URLs of `@import`, `url()` and `image-set()`, found as a browser's
//! tokenizer finds them. Reads a style sheet, a STYLE element or a `style` attribute in pieces of any size, and
//! keeps nothing but the URL at hand. What its rules mean, and whether they apply, is not looked at.

mod charset;
mod escape;

pub use charset::style_sheet_text;

use escape::{Escape, Step};

/// Names of functions and at-rules are told apart by this many bytes; all that matter are shorter.
const NAME_BYTES: usize = 20;

/// Blocks within `image-set()` are followed this deep. What is deeper is no image.
const MAX_BLOCKS: usize = 32;

/// Finds the URLs of a style sheet. How the text is cut into pieces changes nothing in what is found.
pub struct CssScanner {
    state: State,
    escape: Option<Escape>,
    name: Name,
    /// The URL or string at hand.
    value: Vec<u8>,
    /// It is longer than may be, or broken.
    value_is_bad: bool,
    max_url_bytes: usize,
    /// The next token, if it is a string, is a URL: after `@import` and `url(`.
    wants_string: bool,
    /// Until the next `;`, `{` or `}` URLs are only names: after `@namespace`.
    is_muted: bool,
    /// The blocks around this place, from the outermost `image-set(` on.
    blocks: Vec<Block>,
    /// How many more are open than `MAX_BLOCKS`.
    deeper: usize,
}

#[derive(Clone, Copy, PartialEq, Eq)]
struct Block {
    closer: u8,
    is_image_set: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum State {
    /// Between tokens, or in one that does not matter.
    Plain,
    /// After a `/`.
    Slash,
    /// After this many bytes of `<!--`, which hid style sheets from old browsers and is nothing in itself.
    Less(usize),
    Comment,
    /// After a `*` in a comment.
    CommentStar,
    /// In an identifier, a number with its unit, or what follows a `#` or `@`.
    Name,
    /// After `url(`.
    UrlStart,
    Url,
    /// After the white space that may follow a URL.
    UrlEnd,
    /// In a URL that is none: up to its `)`.
    BadUrl,
    String {
        quote: u8,
    },
}

/// What is known of the name that is being read, its letters in lower case.
#[derive(Default)]
struct Name {
    bytes: [u8; NAME_BYTES],
    length: usize,
    /// `#` or `@` stood before it; else 0.
    prefix: u8,
}

impl Name {
    fn push(&mut self, byte: u8) {
        if let Some(place) = self.bytes.get_mut(self.length) {
            *place = byte.to_ascii_lowercase();
        }
        // A longer name is none of those that matter.
        self.length = (self.length + 1).min(NAME_BYTES + 1);
    }

    fn is(&self, prefix: u8, name: &str) -> bool {
        let bytes = self.bytes.get(..self.length);
        self.prefix == prefix && bytes == Some(name.as_bytes())
    }
}

impl CssScanner {
    /// URLs longer than `max_url_bytes` are not told.
    pub fn new(max_url_bytes: usize) -> Self {
        Self {
            state: State::Plain,
            escape: None,
            name: Name::default(),
            value: Vec::new(),
            value_is_bad: false,
            max_url_bytes,
            wants_string: false,
            is_muted: false,
            blocks: Vec::new(),
            deeper: 0,
        }
    }

    /// Scans the next bytes, in any charset that has ASCII's bytes for ASCII's characters. `each` gets a URL as it is
    /// meant, without escapes, in the same charset. It may be relative.
    pub fn feed(&mut self, bytes: &[u8], each: &mut impl FnMut(&[u8])) {
        for &byte in bytes {
            self.take(byte, each);
        }
    }

    /// The style sheet has ended. A browser takes what is open then to be closed there.
    pub fn finish(mut self, each: &mut impl FnMut(&[u8])) {
        // In a string a backslash before the end is nothing.
        let in_string = matches!(self.state, State::String { .. });
        if let Some(escape) = self.escape.take().filter(|e| e.is_number() || !in_string) {
            self.end_escape(escape);
        }
        match self.state {
            State::Url | State::UrlEnd => self.tell(each),
            State::String { .. } => self.end_string(each),
            _ => {}
        }
    }

    fn take(&mut self, byte: u8, each: &mut impl FnMut(&[u8])) {
        if let Some(mut escape) = self.escape.take() {
            match escape.take(byte) {
                Step::More => return self.escape = Some(escape),
                Step::Done => return self.end_escape(escape),
                // The byte is the first one after the escape.
                Step::Before => self.end_escape(escape),
                Step::LineEnd => return self.escaped_line_end(byte, each),
                // The LF of a CR LF that was taken for one line end.
                Step::SecondHalf => return,
                Step::AfterLineEnd => {}
            }
        }
        match self.state {
            State::Plain => self.plain(byte),
            State::Slash => {
                self.state = State::Plain;
                match byte {
                    b'*' => self.state = State::Comment,
                    _ => {
                        // The slash was a token.
                        self.wants_string = false;
                        self.plain(byte);
                    }
                }
            }
            State::Less(taken) => self.less(taken, byte, each),
            State::Comment if byte == b'*' => self.state = State::CommentStar,
            State::Comment => {}
            State::CommentStar => match byte {
                b'/' => self.state = State::Plain,
                b'*' => {}
                _ => self.state = State::Comment,
            },
            State::Name => self.name(byte),
            State::UrlStart => self.url_start(byte, each),
            State::Url => self.url(byte, each),
            State::UrlEnd => match byte {
                b')' => self.end_url(each),
                _ if is_space(byte) => {}
                _ => self.bad_url(byte),
            },
            State::BadUrl => match byte {
                b')' => self.state = State::Plain,
                b'\\' => self.escape = Some(Escape::default()),
                _ => {}
            },
            State::String { quote } => match byte {
                _ if byte == quote => {
                    self.end_string(each);
                    self.state = State::Plain;
                }
                b'\\' => self.escape = Some(Escape::default()),
                // It was never closed: it is no string.
                b'\n' | b'\r' | 0x0c => {
                    self.wants_string = false;
                    self.state = State::Plain;
                }
                _ => self.push_value(byte),
            },
        }
    }

    fn plain(&mut self, byte: u8) {
        match byte {
            _ if is_space(byte) => {}
            b'/' => self.state = State::Slash,
            b'<' => {
                self.wants_string = false;
                self.state = State::Less(1);
            }
            b'"' | b'\'' => {
                self.begin_value();
                self.state = State::String { quote: byte };
            }
            _ if is_name(byte) => {
                self.begin_name(0);
                self.name.push(byte);
            }
            b'#' | b'@' => self.begin_name(byte),
            b'\\' => {
                self.begin_name(0);
                self.escape = Some(Escape::default());
            }
            _ => {
                self.wants_string = false;
                match byte {
                    b';' => self.is_muted = false,
                    b'(' => self.open(b')', false),
                    b'[' => self.open(b']', false),
                    b'{' => {
                        self.is_muted = false;
                        self.open(b'}', false);
                    }
                    b')' | b']' | b'}' => {
                        self.is_muted &= byte != b'}';
                        self.close(byte);
                    }
                    _ => {}
                }
            }
        }
    }

    fn less(&mut self, taken: usize, byte: u8, each: &mut impl FnMut(&[u8])) {
        const WHOLE: &[u8] = b"<!--";
        self.state = State::Plain;
        if byte == WHOLE[taken] {
            if taken + 1 < WHOLE.len() {
                self.state = State::Less(taken + 1);
            }
            return;
        }
        if taken == WHOLE.len() - 1 {
            // Its hyphen may begin a name.
            self.plain(b'-');
        }
        self.take(byte, each);
    }

    fn begin_name(&mut self, prefix: u8) {
        self.wants_string = false;
        self.name.length = 0;
        self.name.prefix = prefix;
        self.state = State::Name;
    }

    fn name(&mut self, byte: u8) {
        match byte {
            _ if is_name(byte) => self.name.push(byte),
            b'\\' => self.escape = Some(Escape::default()),
            b'(' if self.name.prefix == 0 && self.name.length > 0 => {
                if self.name.is(0, "url") {
                    self.state = State::UrlStart;
                    return;
                }
                let is_image_set =
                    self.name.is(0, "image-set") || self.name.is(0, "-webkit-image-set");
                self.state = State::Plain;
                self.open(b')', is_image_set);
            }
            _ => {
                self.state = State::Plain;
                self.end_at_keyword();
                self.plain(byte);
            }
        }
    }

    fn end_at_keyword(&mut self) {
        self.wants_string = self.name.is(b'@', "import");
        let names_only = ["namespace", "document", "-moz-document"];
        self.is_muted |= names_only.iter().any(|name| self.name.is(b'@', name));
    }

    fn url_start(&mut self, byte: u8, each: &mut impl FnMut(&[u8])) {
        match byte {
            _ if is_space(byte) => {}
            b'"' | b'\'' => {
                self.open(b')', false);
                self.wants_string = true;
                self.begin_value();
                self.state = State::String { quote: byte };
            }
            _ => {
                self.begin_value();
                self.state = State::Url;
                self.url(byte, each);
            }
        }
    }

    fn url(&mut self, byte: u8, each: &mut impl FnMut(&[u8])) {
        match byte {
            b')' => self.end_url(each),
            _ if is_space(byte) => self.state = State::UrlEnd,
            b'\\' => self.escape = Some(Escape::default()),
            b'"' | b'\'' | b'(' | 0x01..=0x08 | 0x0b | 0x0e..=0x1f | 0x7f => self.bad_url(byte),
            _ => self.push_value(byte),
        }
    }

    fn bad_url(&mut self, byte: u8) {
        self.state = State::BadUrl;
        if byte == b'\\' {
            self.escape = Some(Escape::default());
        }
    }

    fn end_url(&mut self, each: &mut impl FnMut(&[u8])) {
        self.tell(each);
        self.state = State::Plain;
    }

    fn end_string(&mut self, each: &mut impl FnMut(&[u8])) {
        let in_image_set = self.deeper == 0 && self.blocks.last().is_some_and(|b| b.is_image_set);
        if std::mem::take(&mut self.wants_string) || in_image_set {
            self.tell(each);
        }
    }

    fn tell(&mut self, each: &mut impl FnMut(&[u8])) {
        if !self.is_muted && !self.value_is_bad && !self.value.is_empty() {
            each(&self.value);
        }
    }

    fn begin_value(&mut self) {
        self.value.clear();
        self.value_is_bad = false;
    }

    fn push_value(&mut self, byte: u8) {
        match byte {
            // NUL is read as U+FFFD.
            0 => self.push_bytes("\u{fffd}".as_bytes()),
            _ => self.push_bytes(&[byte]),
        }
    }

    fn push_bytes(&mut self, bytes: &[u8]) {
        if self.value.len() + bytes.len() <= self.max_url_bytes {
            self.value.extend_from_slice(bytes);
        } else {
            self.value_is_bad = true;
        }
    }

    /// An escape stands for a character of the name, URL or string that it is in.
    fn end_escape(&mut self, escape: Escape) {
        let mut utf8 = [0; 4];
        let bytes = match escape.finish() {
            Some(character) => character.encode_utf8(&mut utf8).as_bytes(),
            None => &[escape.literal()],
        };
        match self.state {
            State::Name => bytes.iter().for_each(|&byte| self.name.push(byte)),
            State::Url | State::String { .. } => self.push_bytes(bytes),
            _ => {}
        }
    }

    /// A backslash before a line end: in a string both are nothing, elsewhere it is no escape.
    fn escaped_line_end(&mut self, byte: u8, each: &mut impl FnMut(&[u8])) {
        match self.state {
            State::String { .. } => self.escape = (byte == b'\r').then(Escape::after_cr),
            State::Url => self.state = State::BadUrl,
            State::Name => {
                self.state = State::Plain;
                self.end_at_keyword();
                // The backslash is a token of its own.
                self.wants_string = false;
                self.take(byte, each);
            }
            _ => {}
        }
    }

    fn open(&mut self, closer: u8, is_image_set: bool) {
        if self.blocks.is_empty() && !is_image_set {
            return;
        }
        if self.blocks.len() < MAX_BLOCKS {
            self.blocks.push(Block {
                closer,
                is_image_set,
            });
        } else {
            self.deeper += 1;
        }
    }

    fn close(&mut self, closer: u8) {
        if self.deeper > 0 {
            self.deeper -= 1;
        } else if self.blocks.last().is_some_and(|b| b.closer == closer) {
            self.blocks.pop();
        }
    }
}

/// What may stand in a name: letters, digits, `-`, `_`, and everything that is not ASCII. NUL is read as such a
/// character.
fn is_name(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | 0) || !byte.is_ascii()
}

fn is_space(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t' | b'\n' | b'\r' | 0x0c)
}

#[cfg(test)]
mod tests;
