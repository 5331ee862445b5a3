//! The tokenizer's states in which tags are text: raw text, script data with its escapes, comments.

use memchr::{memchr, memchr2};

use super::{Content, State, Step, TokenSink, Tokenizer, ends_tag_name};
use crate::html::names::Name;

/// How deep a script hides behind `<!--`: an escaped script may hold `<script>` again.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Escape {
    None,
    Once,
    Twice,
}

/// The last bytes of a comment or script before the bytes at hand, to see `-->` across chunks.
#[derive(Clone, Copy)]
pub(super) struct Tail {
    last: [u8; 3],
    /// How many bytes came since the comment opened, counted up to three.
    seen: u8,
}

impl Tail {
    pub(super) const EMPTY: Tail = Tail {
        last: [0; 3],
        seen: 0,
    };
    /// The hyphens of `<!--` count for `-->` but not for `--!>`.
    pub(super) const COMMENT: Tail = Tail {
        last: [0, b'-', b'-'],
        seen: 0,
    };

    /// Whether a `>` at `at` in `region`, which follows the tail, closes with `-->`.
    fn closes(&self, region: &[u8], at: usize) -> bool {
        self.back(region, at, 1) == b'-' && self.back(region, at, 2) == b'-'
    }

    /// The same for `--!>`.
    fn closes_with_bang(&self, region: &[u8], at: usize) -> bool {
        usize::from(self.seen) + at >= 3
            && self.back(region, at, 1) == b'!'
            && self.back(region, at, 2) == b'-'
            && self.back(region, at, 3) == b'-'
    }

    fn back(&self, region: &[u8], at: usize, by: usize) -> u8 {
        if by <= at {
            region[at - by]
        } else {
            self.last[3 - (by - at)]
        }
    }

    fn after(&self, region: &[u8]) -> Tail {
        let at = region.len();
        let last = [3, 2, 1].map(|by| self.back(region, at, by));
        Tail {
            last,
            seen: (usize::from(self.seen) + at).min(3) as u8,
        }
    }
}

impl Tokenizer {
    pub(super) fn comment(&mut self, input: &[u8], pos: usize, tail: Tail) -> usize {
        let region = &input[pos..];
        let mut from = 0;
        while let Some(offset) = memchr(b'>', &region[from..]) {
            let at = from + offset;
            from = at + 1;
            if tail.closes(region, at) || tail.closes_with_bang(region, at) {
                self.state = State::Data;
                return pos + from;
            }
        }
        self.state = State::Comment(tail.after(region));
        input.len()
    }

    pub(super) fn raw<V: TokenSink>(
        &mut self,
        input: &[u8],
        start: usize,
        content: Content,
        name: Name,
        visitor: &mut V,
    ) -> usize {
        let mut pos = start;
        while let Some(offset) = memchr(b'<', &input[pos..]) {
            let lt = pos + offset;
            pos = lt + 1;
            if let Some(step) = self.closing_tag(input, start, lt, content, name, visitor) {
                return match step {
                    Step::To(next) => next,
                    Step::Incomplete => self.pend(input, lt),
                };
            }
        }
        text(visitor, &input[start..], content);
        input.len()
    }

    pub(super) fn script<V: TokenSink>(
        &mut self,
        input: &[u8],
        start: usize,
        mut escape: Escape,
        mut tail: Tail,
        visitor: &mut V,
    ) -> usize {
        const NAME: Name = Name::of(b"script");
        let mut region = start;
        let mut pos = start;
        loop {
            let rest = &input[pos..];
            let found = match escape {
                Escape::None => memchr(b'<', rest),
                _ => memchr2(b'<', b'>', rest),
            };
            let Some(offset) = found else { break };
            let at = pos + offset;
            pos = at + 1;
            if input[at] == b'>' {
                if tail.closes(&input[region..], at - region) {
                    escape = Escape::None;
                }
                continue;
            }
            let incomplete = match (escape, input.get(at + 1)) {
                (_, None) => true,
                (Escape::None, Some(b'!')) => {
                    let rest = &input[at + 2..];
                    if rest.starts_with(b"--") {
                        escape = Escape::Once;
                        (region, pos) = (at + 4, at + 4);
                        tail = Tail::COMMENT;
                    }
                    rest.is_empty() || rest == b"-"
                }
                (Escape::None | Escape::Once, Some(b'/')) => {
                    match self.closing_tag(input, start, at, Content::Script, NAME, visitor) {
                        Some(Step::To(next)) => return next,
                        Some(Step::Incomplete) => {
                            let tail = tail.after(&input[region..at]);
                            self.state = State::Script { escape, tail };
                            return self.pend(input, at);
                        }
                        None => false,
                    }
                }
                // `<script` in an escaped script nests, `</script` in a nested one un-nests.
                (Escape::Once, Some(_)) | (Escape::Twice, Some(b'/')) => {
                    let nests = escape == Escape::Once;
                    match name_ends(input, if nests { at + 1 } else { at + 2 }, NAME) {
                        Some(Some(end)) => {
                            escape = if nests { Escape::Twice } else { Escape::Once };
                            pos = end + 1;
                            false
                        }
                        Some(None) => true,
                        None => false,
                    }
                }
                _ => false,
            };
            if incomplete {
                text(visitor, &input[start..at], Content::Script);
                self.state = State::Script {
                    escape,
                    tail: tail.after(&input[region..at]),
                };
                return self.pend(input, at);
            }
        }
        text(visitor, &input[start..], Content::Script);
        self.state = State::Script {
            escape,
            tail: tail.after(&input[region..]),
        };
        input.len()
    }

    /// The end tag at `lt` if it is the one that ends the raw text begun at `start`; `None` if it
    /// is text. Tells of the text before it once that is clear.
    fn closing_tag<V: TokenSink>(
        &mut self,
        input: &[u8],
        start: usize,
        lt: usize,
        content: Content,
        name: Name,
        visitor: &mut V,
    ) -> Option<Step> {
        match input.get(lt + 1) {
            None => {}
            Some(b'/') => match name_ends(input, lt + 2, name)? {
                None => {}
                Some(_) => {
                    text(visitor, &input[start..lt], content);
                    return Some(self.end_tag(input, lt, visitor));
                }
            },
            Some(_) => return None,
        }
        text(visitor, &input[start..lt], content);
        Some(Step::Incomplete)
    }
}

/// Where the letters from `start` end, if they are `name` and something that ends a tag name
/// follows: `Some(None)` if the bytes end before that is clear, `None` if they are another name.
fn name_ends(input: &[u8], start: usize, name: Name) -> Option<Option<usize>> {
    let letters = input.get(start..).unwrap_or_default();
    let letters = &letters[..letters.len().min(Name::MAX_BYTES + 1)];
    match letters.iter().position(|b| !b.is_ascii_alphabetic()) {
        Some(count) => {
            let end = start + count;
            let same = ends_tag_name(input[end]) && Name::of(&input[start..end]) == name;
            same.then_some(Some(end))
        }
        None if letters.len() > Name::MAX_BYTES => None,
        None => Some(None),
    }
}

fn text<V: TokenSink>(visitor: &mut V, bytes: &[u8], content: Content) {
    if !bytes.is_empty() {
        visitor.text(bytes, content);
    }
}
