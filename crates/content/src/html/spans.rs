//! Where SPAN elements with an `id` stand in a page. For the tables of volatile parts; links are not looked at.

use std::ops::Range;

use super::attributes::{Attributes, Ending};
use super::names::Tag;
use super::tokenizer::{Content, TokenSink, Tokenizer};

/// Longer tags are no marks.
const MAX_TAG_BYTES: usize = 4 * 1024;

/// A SPAN with an `id`: where the element stands, from its `<` to behind its end tag.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct MarkedSpan {
    pub(crate) id: Vec<u8>,
    pub(crate) place: Range<usize>,
}

/// The SPANs whose `id` and `class` are `wanted`, in the page's order, at most `limit` of them. Of SPANs within each other the outermost
/// counts. One that is never closed does not count.
pub(crate) fn marked_spans(
    page: &[u8],
    limit: usize,
    wanted: impl FnMut(&[u8], &[u8]) -> bool,
) -> Vec<MarkedSpan> {
    let mut spans = Spans {
        position: 0,
        wanted,
        limit,
        open: None,
        found: Vec::new(),
    };
    let mut tokenizer = Tokenizer::new(MAX_TAG_BYTES);
    // A tag ends with `>`, so of pieces that are cut behind each `>` at most one tag ends in each, and at its end.
    for piece in page.split_inclusive(|&byte| byte == b'>') {
        spans.position += piece.len();
        tokenizer.feed(piece, &mut spans);
        if spans.found.len() == limit {
            break;
        }
    }
    spans.found
}

struct Spans<W> {
    /// Behind the piece that is read.
    position: usize,
    wanted: W,
    limit: usize,
    open: Option<Open>,
    found: Vec<MarkedSpan>,
}

/// The wanted SPAN that is read.
struct Open {
    id: Vec<u8>,
    start: usize,
    /// SPANs open within it.
    inner: u32,
}

impl<W: FnMut(&[u8], &[u8]) -> bool> TokenSink for Spans<W> {
    fn start_tag(&mut self, tag: Tag, attributes: &mut Attributes<'_>) -> Content {
        let (mut id, mut class) = (None, None);
        let ending = attributes.read(|name, value| {
            if name.eq_ignore_ascii_case(b"id") {
                id.get_or_insert(value);
            } else if name.eq_ignore_ascii_case(b"class") {
                class.get_or_insert(value);
            }
        });
        if ending == Ending::Incomplete || tag != Tag::Span {
            return Content::of_element(tag);
        }
        if let Some(open) = &mut self.open {
            open.inner = open.inner.saturating_add(1);
        } else if let (Ending::Closed { .. }, Some(id)) = (ending, id)
            && (self.wanted)(id, class.unwrap_or_default())
        {
            self.open = Some(Open {
                id: id.to_vec(),
                start: self.position - attributes.tag_bytes(),
                inner: 0,
            });
        }
        Content::Data
    }

    fn end_tag(&mut self, tag: Tag, _name: &[u8]) {
        if tag != Tag::Span {
            return;
        }
        match self.open.take() {
            Some(open) if open.inner > 0 => {
                let inner = open.inner - 1;
                self.open = Some(Open { inner, ..open });
            }
            Some(Open { id, start, .. }) if self.found.len() < self.limit => {
                let place = start..self.position;
                self.found.push(MarkedSpan { id, place });
            }
            _ => {}
        }
    }

    fn text(&mut self, _bytes: &[u8], _content: Content) {}
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(page: &str) -> Vec<&str> {
        marked_spans(page.as_bytes(), 10, |_, _| true)
            .into_iter()
            .map(|span| &page[span.place])
            .collect()
    }

    #[test]
    fn elements_are_cut_out_whole() {
        assert_eq!(
            found("a <span id=x>1</span> b <SPAN ID='y' title='>'>2 <b>3</b></SPAN\n> c"),
            [
                "<span id=x>1</span>",
                "<SPAN ID='y' title='>'>2 <b>3</b></SPAN\n>"
            ]
        );
        assert_eq!(
            found("<span id=x>1<span id=y>2</span>3</span></span>"),
            ["<span id=x>1<span id=y>2</span>3</span>"]
        );
    }

    #[test]
    fn what_is_no_element_does_not_count() {
        assert!(found("<!-- <span id=x>1</span> -->").is_empty());
        assert!(found("<script>'<span id=x>1</span>'</script>").is_empty());
        assert!(found("<span id=x>never closed").is_empty());
        assert!(found("<span>1</span></span><p id=x></p>").is_empty());
    }
}
