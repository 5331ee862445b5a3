//! The HTML standard's tokenizer over bytes of any ASCII-compatible charset, in chunks of any size.
//! Tells a [`TokenSink`] of tags and text; decodes nothing and keeps no more than one unfinished tag.

mod raw;

use memchr::{memchr, memmem};

use super::attributes::{Attributes, EndFinder, Ending, ends_tag_name};
use super::names::{Name, Tag};
use super::search::find;
use raw::{Escape, Tail};

/// How what follows a start tag is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Content {
    Data,
    /// Text with character references, up to the end tag: TITLE, TEXTAREA.
    Rcdata,
    /// Text up to the end tag: STYLE, XMP, IFRAME, NOEMBED, NOFRAMES.
    Rawtext,
    Script,
    /// Text to the end of the page.
    Plaintext,
    Cdata,
}

impl Content {
    /// How what follows an HTML element's start tag is read.
    #[inline(always)]
    pub(super) fn of_element(tag: Tag) -> Content {
        match tag {
            Tag::Title | Tag::Textarea => Content::Rcdata,
            Tag::Style | Tag::Xmp | Tag::Iframe | Tag::Noembed | Tag::Noframes => Content::Rawtext,
            Tag::Script => Content::Script,
            Tag::Plaintext => Content::Plaintext,
            _ => Content::Data,
        }
    }
}

/// Who hears what the tokenizer finds.
pub trait TokenSink {
    /// A start tag. Acts only if `attributes` come to an end; otherwise the same tag is told of
    /// again when more bytes have come, and the answer does not count.
    fn start_tag(&mut self, tag: Tag, attributes: &mut Attributes<'_>) -> Content;

    /// An end tag, `name` as it was written (empty when the tag was over the limit).
    fn end_tag(&mut self, tag: Tag, name: &[u8]);

    /// Text as it stands in the page. One run of text may come in several pieces.
    fn text(&mut self, bytes: &[u8], content: Content);

    /// A comment, doctype or anything else that is skipped.
    fn skipped(&mut self) {}

    /// Whether `<![CDATA[` opens a section here, as it does in SVG and MathML.
    fn allows_cdata(&self) -> bool {
        false
    }
}

pub struct Tokenizer {
    state: State,
    /// An unfinished tag or the beginning of one, from its `<` on; at most `max_tag_bytes`.
    pending: Vec<u8>,
    /// Set while `pending` is surely a tag.
    finder: Option<EndFinder>,
    /// A tag over the limit, of which only the end is awaited.
    oversize: Option<Oversize>,
    max_tag_bytes: usize,
}

#[derive(Clone, Copy)]
enum State {
    Data,
    /// Up to `>`: doctypes, processing instructions, broken comments.
    Bogus,
    Comment(Tail),
    Cdata,
    Raw {
        content: Content,
        name: Name,
    },
    Script {
        escape: Escape,
        tail: Tail,
    },
    Plaintext,
}

#[derive(Clone, Copy)]
struct Oversize {
    name: Name,
    is_end: bool,
}

/// What became of the tag at a `<`.
enum Step {
    /// Done; go on at this position.
    To(usize),
    /// It goes on beyond the bytes at hand.
    Incomplete,
}

impl Tokenizer {
    pub fn new(max_tag_bytes: usize) -> Tokenizer {
        Tokenizer {
            state: State::Data,
            pending: Vec::new(),
            finder: None,
            oversize: None,
            // Less could not even hold the beginnings that must be told apart.
            max_tag_bytes: max_tag_bytes.max(64),
        }
    }

    /// Begins inside an element: `name` is the one whose end tag ends the content.
    pub fn starting_in(content: Content, name: &[u8], max_tag_bytes: usize) -> Tokenizer {
        let mut tokenizer = Tokenizer::new(max_tag_bytes);
        tokenizer.state = State::of(content, Name::of(name));
        tokenizer
    }

    pub fn feed<V: TokenSink>(&mut self, input: &[u8], visitor: &mut V) {
        let mut pos = 0;
        while !self.pending.is_empty() || self.oversize.is_some() {
            if pos == input.len() {
                return;
            }
            pos = self.complete(input, pos, visitor);
        }
        self.run(&input[pos..], visitor);
    }

    /// The page has ended. An unfinished tag is nothing; the beginning of one may be text.
    pub fn finish<V: TokenSink>(&mut self, visitor: &mut V) {
        let pending = std::mem::take(&mut self.pending);
        let content = self.content();
        let is_text = match self.state {
            State::Data => pending == b"<" || pending == b"</",
            _ => self.finder.is_none(),
        };
        if is_text && !pending.is_empty() {
            visitor.text(&pending, content);
        }
        *self = Tokenizer::new(self.max_tag_bytes);
    }

    /// Goes on with what is pending; the new position in `input`.
    fn complete<V: TokenSink>(&mut self, input: &[u8], pos: usize, visitor: &mut V) -> usize {
        let Some(finder) = &mut self.finder else {
            // Not yet clear what it is: at most a few bytes more will tell.
            let mut lexeme = std::mem::take(&mut self.pending);
            lexeme.push(input[pos]);
            self.run(&lexeme, visitor);
            return pos + 1;
        };
        let rest = &input[pos..];
        let end = finder.advance(rest);
        let self_closing = finder.self_closing;
        let taken = &rest[..end.unwrap_or(rest.len())];
        if self.oversize.is_none() {
            let room = self.max_tag_bytes - self.pending.len();
            self.pending
                .extend_from_slice(&taken[..taken.len().min(room)]);
            if taken.len() > room {
                self.oversize = Some(oversize(&self.pending));
                self.pending.clear();
            }
        }
        if end.is_some() {
            self.finder = None;
            if let Some(tag) = self.oversize.take() {
                self.skip_oversize(tag, self_closing, visitor);
            } else {
                let mut tag = std::mem::take(&mut self.pending);
                self.run(&tag, visitor);
                tag.clear();
                self.pending = tag;
            }
        }
        pos + taken.len()
    }

    fn skip_oversize<V: TokenSink>(&mut self, tag: Oversize, self_closing: bool, visitor: &mut V) {
        self.state = State::Data;
        if tag.is_end {
            visitor.end_tag(Tag::of(tag.name), b"");
        } else {
            let mut attributes = Attributes::too_long(self_closing);
            let content = visitor.start_tag(Tag::of(tag.name), &mut attributes);
            self.state = State::of(content, tag.name);
        }
    }

    fn run<V: TokenSink>(&mut self, input: &[u8], visitor: &mut V) {
        let mut pos = 0;
        while pos < input.len() {
            pos = match self.state {
                State::Data => self.data(input, pos, visitor),
                State::Bogus => self.bogus(input, pos),
                State::Comment(tail) => self.comment(input, pos, tail),
                State::Cdata => self.cdata(input, pos, visitor),
                State::Raw { content, name } => self.raw(input, pos, content, name, visitor),
                State::Script { escape, tail } => self.script(input, pos, escape, tail, visitor),
                State::Plaintext => {
                    visitor.text(&input[pos..], Content::Plaintext);
                    input.len()
                }
            };
        }
    }

    fn data<V: TokenSink>(&mut self, input: &[u8], mut pos: usize, visitor: &mut V) -> usize {
        while let Some(offset) = find(b'<', &input[pos..]) {
            let lt = pos + offset;
            if offset > 0 {
                visitor.text(&input[pos..lt], Content::Data);
            }
            let step = match input.get(lt + 1) {
                Some(b'a'..=b'z' | b'A'..=b'Z') => self.start_tag(input, lt, visitor),
                Some(b'/') => match input.get(lt + 2) {
                    Some(b'a'..=b'z' | b'A'..=b'Z') => self.end_tag(input, lt, visitor),
                    Some(b'>') => {
                        visitor.skipped();
                        Step::To(lt + 3)
                    }
                    Some(_) => self.skip_to(State::Bogus, lt + 2, visitor),
                    None => Step::Incomplete,
                },
                Some(b'!') => self.declaration(input, lt, visitor),
                Some(b'?') => self.skip_to(State::Bogus, lt + 1, visitor),
                Some(_) => {
                    visitor.text(b"<", Content::Data);
                    Step::To(lt + 1)
                }
                None => Step::Incomplete,
            };
            match step {
                Step::To(next) => pos = next,
                Step::Incomplete => return self.pend(input, lt),
            }
            if !matches!(self.state, State::Data) {
                return pos;
            }
        }
        if pos < input.len() {
            visitor.text(&input[pos..], Content::Data);
        }
        input.len()
    }

    fn start_tag<V: TokenSink>(&mut self, input: &[u8], lt: usize, visitor: &mut V) -> Step {
        let Some((name, end)) = tag_name(input, lt + 1) else {
            return Step::Incomplete;
        };
        let bytes = &input[lt..];
        let mut attributes =
            Attributes::new(bytes, &input[lt + 1..end], end - lt, self.max_tag_bytes);
        let content = visitor.start_tag(Tag::of(name), &mut attributes);
        if attributes.read(|_, _| {}) == Ending::Incomplete {
            return Step::Incomplete;
        }
        if content != Content::Data {
            self.state = State::of(content, name);
        }
        Step::To(lt + attributes.tag_bytes())
    }

    fn end_tag<V: TokenSink>(&mut self, input: &[u8], lt: usize, visitor: &mut V) -> Step {
        let Some((name, end)) = tag_name(input, lt + 2) else {
            return Step::Incomplete;
        };
        let written = &input[lt + 2..end];
        if input[end] == b'>' && end - lt < self.max_tag_bytes {
            self.state = State::Data;
            visitor.end_tag(Tag::of(name), written);
            return Step::To(end + 1);
        }
        let mut attributes = Attributes::new(&input[lt..], written, end - lt, self.max_tag_bytes);
        match attributes.read(|_, _| {}) {
            Ending::Incomplete => return Step::Incomplete,
            Ending::TooLong { .. } => visitor.end_tag(Tag::of(name), b""),
            Ending::Closed { .. } => visitor.end_tag(Tag::of(name), written),
        }
        self.state = State::Data;
        Step::To(lt + attributes.tag_bytes())
    }

    /// What `<!` begins.
    fn declaration<V: TokenSink>(&mut self, input: &[u8], lt: usize, visitor: &mut V) -> Step {
        const CDATA: &[u8] = b"[CDATA[";
        let rest = &input[lt + 2..];
        if rest.starts_with(b"--") {
            return self.skip_to(State::Comment(Tail::COMMENT), lt + 4, visitor);
        }
        if rest.is_empty() || rest == b"-" {
            return Step::Incomplete;
        }
        if visitor.allows_cdata() {
            if rest.starts_with(CDATA) {
                return self.skip_to(State::Cdata, lt + 2 + CDATA.len(), visitor);
            }
            if CDATA.starts_with(rest) {
                return Step::Incomplete;
            }
        }
        // A doctype too ends at the first `>`, quoted or not.
        self.skip_to(State::Bogus, lt + 2, visitor)
    }

    fn skip_to<V: TokenSink>(&mut self, state: State, pos: usize, visitor: &mut V) -> Step {
        visitor.skipped();
        self.state = state;
        Step::To(pos)
    }

    fn bogus(&mut self, input: &[u8], pos: usize) -> usize {
        match memchr(b'>', &input[pos..]) {
            Some(offset) => {
                self.state = State::Data;
                pos + offset + 1
            }
            None => input.len(),
        }
    }

    fn cdata<V: TokenSink>(&mut self, input: &[u8], pos: usize, visitor: &mut V) -> usize {
        let rest = &input[pos..];
        if let Some(end) = memmem::find(rest, b"]]>") {
            visitor.text(&rest[..end], Content::Cdata);
            visitor.skipped();
            self.state = State::Data;
            return pos + end + 3;
        }
        let brackets = rest
            .iter()
            .rev()
            .take(2)
            .take_while(|&&b| b == b']')
            .count();
        let (text, end) = rest.split_at(rest.len() - brackets);
        visitor.text(text, Content::Cdata);
        self.pending.extend_from_slice(end);
        input.len()
    }

    /// Keeps what begins at `lt` until more bytes come.
    fn pend(&mut self, input: &[u8], lt: usize) -> usize {
        let rest = &input[lt..];
        let inside = if rest.get(1) == Some(&b'/') { 2 } else { 1 };
        // In raw text only an end tag whose name matched and ended is surely a tag.
        let sure = match self.state {
            State::Data => rest.get(inside).is_some_and(u8::is_ascii_alphabetic),
            _ => rest[inside.min(rest.len())..]
                .iter()
                .any(|&b| ends_tag_name(b)),
        };
        if sure {
            let mut finder = EndFinder::default();
            let end = finder.advance(&rest[inside..]);
            debug_assert!(end.is_none(), "a tag with an end was taken for unfinished");
            self.finder = Some(finder);
            if rest.len() > self.max_tag_bytes {
                self.oversize = Some(oversize(rest));
                return input.len();
            }
        }
        self.pending.extend_from_slice(rest);
        input.len()
    }

    fn content(&self) -> Content {
        match self.state {
            State::Raw { content, .. } => content,
            State::Script { .. } => Content::Script,
            State::Cdata => Content::Cdata,
            State::Plaintext => Content::Plaintext,
            State::Data | State::Bogus | State::Comment(_) => Content::Data,
        }
    }
}

impl State {
    fn of(content: Content, name: Name) -> State {
        match content {
            Content::Data => State::Data,
            Content::Rcdata | Content::Rawtext => State::Raw { content, name },
            Content::Script => State::Script {
                escape: Escape::None,
                tail: Tail::EMPTY,
            },
            Content::Plaintext => State::Plaintext,
            Content::Cdata => State::Cdata,
        }
    }
}

/// The name that starts at `start` and where it ends; `None` if the bytes end first.
#[inline]
fn tag_name(input: &[u8], start: usize) -> Option<(Name, usize)> {
    let mut end = start;
    let mut packed = 0;
    loop {
        let byte = *input.get(end)?;
        if ends_tag_name(byte) {
            return Some((Name::from_packed(packed, end - start), end));
        }
        packed = Name::pack(packed, byte);
        end += 1;
    }
}

fn oversize(tag: &[u8]) -> Oversize {
    let is_end = tag.get(1) == Some(&b'/');
    let start = if is_end { 2 } else { 1 };
    let name = tag_name(tag, start).map_or(Name::LONG, |(name, _)| name);
    Oversize { name, is_end }
}
