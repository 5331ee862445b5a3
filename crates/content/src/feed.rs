//! RSS (0.9x, 1.0, 2.0) and Atom feeds as sources of links. Bytes in, links out; titles, dates and texts are not
//! read. Links are resolved where an `xml:base` is in force, and only there.

use quick_xml::events::BytesStart;
use url::Url;

use crate::xml::{self, MAX_DEPTH, Value, XmlEvent, XmlPull};

#[cfg(test)]
mod tests;

/// A longer `xml:base` does not count: each link below it would cost as much memory.
const MAX_BASE_BYTES: usize = 2 * 1024;

/// Bounds, and which links are wanted besides those of the items.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FeedLimits {
    pub max_links: usize,
    pub max_bytes: usize,
    /// Sound, video and other files that items bring along.
    pub enclosures: bool,
    /// The site that the feed is of, and the feed's other pages (RFC 5005).
    pub surroundings: bool,
}

impl Default for FeedLimits {
    fn default() -> FeedLimits {
        FeedLimits {
            max_links: 10_000,
            max_bytes: 50 * 1024 * 1024,
            enclosures: false,
            surroundings: false,
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum FeedLinkKind {
    /// The page of an item or entry.
    Item,
    Enclosure,
    /// The page that the feed is of.
    Home,
    /// An earlier or later page of the feed itself.
    Page,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct FeedLink<'a> {
    /// Trimmed, references resolved. Where an `xml:base` is in force, joined with it and so with the
    /// feed's URL; elsewhere not otherwise changed, so that it may be relative to that URL.
    pub href: &'a str,
    pub kind: FeedLinkKind,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct FeedSummary {
    /// The root element is that of a feed. Links are reported in any case.
    pub is_feed: bool,
    /// Items and entries seen, also those without a link.
    pub items: usize,
    pub links: usize,
    /// A limit was reached: there was more.
    pub is_truncated: bool,
    /// The XML could not be read to its end.
    pub is_broken: bool,
}

/// Reports the links of the feed at `url` in their order.
///
/// An RSS item's page is its `link`; without one, its `guid` if that is an http(s) URL, even
/// where `isPermaLink="false"` says that it need not be: a wrong guess costs a request, a missed item is
/// lost. In RSS 1.0 `rdf:about` is the last resort. Atom: every `link` with `rel=alternate` or no `rel`.
pub fn parse_feed(
    bytes: &[u8],
    url: &str,
    limits: FeedLimits,
    sink: &mut dyn FnMut(FeedLink<'_>),
) -> FeedSummary {
    let head = &bytes[..bytes.len().min(limits.max_bytes)];
    let text = xml::document_text(head);
    let mut scan = Scan {
        limits,
        summary: FeedSummary {
            is_truncated: head.len() < bytes.len(),
            ..FeedSummary::default()
        },
        sink,
        open: Vec::with_capacity(16),
        too_deep: 0,
        url,
        bases: Vec::new(),
        item: None,
        value: Value::default(),
    };
    scan.run(&text);
    scan.summary
}

/// What an open element is to us.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Node {
    /// `rss`, `feed`, `rdf:RDF`.
    Root,
    /// `channel`, the place of RSS's own link.
    Channel,
    /// `item` or `entry`.
    Item,
    /// A `link` with its URL as text.
    Link,
    Guid,
    Other,
}

/// An item whose page is not reported yet.
#[derive(Default)]
struct Item {
    has_link: bool,
    guid: Option<String>,
    about: Option<String>,
}

struct Scan<'s> {
    limits: FeedLimits,
    summary: FeedSummary,
    sink: &'s mut dyn FnMut(FeedLink<'_>),
    open: Vec<Node>,
    /// Elements open beyond [`MAX_DEPTH`].
    too_deep: usize,
    /// The feed's own.
    url: &'s str,
    /// Each `xml:base` in force, joined with those around it, with the depth of its element.
    bases: Vec<(usize, Url)>,
    item: Option<Item>,
    value: Value,
}

impl Scan<'_> {
    fn run(&mut self, text: &str) {
        let mut pull = XmlPull::new(text);
        while let Some(event) = pull.next() {
            match event {
                XmlEvent::Open(element) => {
                    if self.too_deep > 0 || self.open.len() >= MAX_DEPTH {
                        self.too_deep += 1;
                        continue;
                    }
                    self.push_base(&element);
                    let node = self.enter(&element);
                    self.open.push(node);
                }
                XmlEvent::Empty(element) => {
                    if self.too_deep == 0 && self.open.len() < MAX_DEPTH {
                        self.push_base(&element);
                        self.enter(&element);
                        self.drop_bases();
                    }
                }
                XmlEvent::Close(end) => self.leave(end.name().as_ref()),
                XmlEvent::Text(piece) => {
                    let top = self.open.last();
                    if self.too_deep == 0 && matches!(top, Some(Node::Link | Node::Guid)) {
                        self.value.push(&piece);
                    }
                }
            }
            if self.summary.links >= self.limits.max_links {
                self.summary.is_truncated = true;
                return;
            }
        }
        self.summary.is_broken = pull.is_broken();
        self.finish_item();
    }

    fn enter(&mut self, element: &BytesStart<'_>) -> Node {
        let name = element.name();
        let (_, local) = xml::split_name(name.as_ref());
        let is = |word: &str| local.eq_ignore_ascii_case(word);
        let parent = self.open.last().copied();
        if parent.is_none() && (is("rss") || is("feed") || is("rdf")) {
            self.summary.is_feed = true;
            return Node::Root;
        }
        if is("item") || is("entry") {
            // An item inside an item: the one before was not closed.
            self.finish_item();
            self.summary.items += 1;
            self.item = Some(Item {
                about: xml::attribute(element, "rdf:about"),
                ..Item::default()
            });
            return Node::Item;
        }
        if is("channel") {
            return Node::Channel;
        }
        let of_item = parent == Some(Node::Item);
        let of_feed = matches!(parent, Some(Node::Root | Node::Channel));
        if is("link") && (of_item || of_feed) {
            return self.enter_link(element, of_item);
        }
        if is("guid") && of_item {
            self.value.clear();
            return Node::Guid;
        }
        if is("enclosure")
            && of_item
            && self.limits.enclosures
            && let Some(href) = xml::attribute(element, "url")
        {
            self.report(&href, FeedLinkKind::Enclosure);
        }
        Node::Other
    }

    /// A link with an `href` is Atom's, wherever it stands; else its text is the URL.
    fn enter_link(&mut self, element: &BytesStart<'_>, of_item: bool) -> Node {
        let Some(href) = xml::attribute(element, "href") else {
            self.value.clear();
            return Node::Link;
        };
        let rel = xml::attribute(element, "rel");
        match rel.as_deref().unwrap_or("alternate") {
            "alternate" if of_item => {
                if let Some(item) = &mut self.item {
                    item.has_link = true;
                }
                self.report(&href, FeedLinkKind::Item);
            }
            "enclosure" if of_item && self.limits.enclosures => {
                self.report(&href, FeedLinkKind::Enclosure);
            }
            "alternate" if !of_item && self.limits.surroundings => {
                self.report(&href, FeedLinkKind::Home);
            }
            "next" | "previous" | "prev" | "prev-archive" | "next-archive" | "first" | "last"
                if !of_item && self.limits.surroundings =>
            {
                self.report(&href, FeedLinkKind::Page);
            }
            _ => {}
        }
        Node::Other
    }

    fn leave(&mut self, name: &str) {
        if self.too_deep > 0 {
            self.too_deep -= 1;
            return;
        }
        let (_, local) = xml::split_name(name);
        let is = |word: &str| local.eq_ignore_ascii_case(word);
        if is("item") || is("entry") {
            if let Some(at) = self.open.iter().rposition(|&node| node == Node::Item) {
                if self.open[at + 1..].contains(&Node::Link) {
                    self.finish_link();
                }
                self.finish_item();
                self.open.truncate(at);
                self.drop_bases();
            }
            return;
        }
        match self.open.last().copied() {
            // The end of something that never began must not end the item.
            None | Some(Node::Item) => return,
            Some(Node::Link) => self.finish_link(),
            Some(Node::Guid) => {
                let guid = self.value.take();
                if let Some(item) = &mut self.item {
                    item.guid = guid;
                }
            }
            Some(_) => {}
        }
        self.open.pop();
        self.drop_bases();
    }

    fn finish_link(&mut self) {
        let Some(href) = self.value.take() else {
            return;
        };
        match &mut self.item {
            Some(item) if item.has_link => {}
            Some(item) => {
                item.has_link = true;
                self.report(&href, FeedLinkKind::Item);
            }
            None if self.limits.surroundings => self.report(&href, FeedLinkKind::Home),
            None => {}
        }
    }

    fn finish_item(&mut self) {
        let Some(item) = self.item.take().filter(|item| !item.has_link) else {
            return;
        };
        let is_url = |text: &String| {
            let scheme = text.split(':').next().unwrap_or("");
            scheme.eq_ignore_ascii_case("http") || scheme.eq_ignore_ascii_case("https")
        };
        if let Some(href) = item.guid.filter(is_url).or(item.about.filter(is_url)) {
            self.report(&href, FeedLinkKind::Item);
        }
    }

    fn report(&mut self, href: &str, kind: FeedLinkKind) {
        if self.summary.links >= self.limits.max_links {
            return;
        }
        self.summary.links += 1;
        let base = self.bases.last().map(|(_, base)| base);
        let joined = base.and_then(|base| base.join(href).ok());
        (self.sink)(FeedLink {
            href: joined.as_ref().map_or(href, Url::as_str),
            kind,
        });
    }

    /// A base inside a base is relative to it, and the outermost one to the feed's URL. One that cannot be
    /// read is as good as none.
    fn push_base(&mut self, element: &BytesStart<'_>) {
        let Some(base) = xml::attribute(element, "xml:base") else {
            return;
        };
        let joined = match self.bases.last() {
            Some((_, outer)) => outer.join(&base),
            None => Url::parse(self.url).and_then(|url| url.join(&base)),
        };
        if let Ok(joined) = joined
            && joined.as_str().len() <= MAX_BASE_BYTES
        {
            self.bases.push((self.open.len(), joined));
        }
    }

    /// Forgets the bases of elements that are no longer open.
    fn drop_bases(&mut self) {
        while let Some((depth, _)) = self.bases.last()
            && *depth >= self.open.len()
        {
            self.bases.pop();
        }
    }
}
