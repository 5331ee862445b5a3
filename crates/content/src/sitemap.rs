//! Sitemaps (sitemaps.org protocol 0.9): URL sets and indexes in XML, and lists of URLs in plain text. Bytes in,
//! entries out; inflating, resolving and fetching are the caller's.
//!
//! Namespaces may be wrong or missing; elements go by their local names. A document that breaks off gives what
//! was whole before the break.

use crate::xml::{self, MAX_DEPTH, Value, XmlEvent, XmlPull};
use quick_xml::events::BytesStart;

#[cfg(test)]
mod tests;

/// What the protocol allows in one file, and what is wanted from it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SitemapLimits {
    pub max_entries: usize,
    pub max_bytes: usize,
    /// How many `xhtml:link rel=alternate` are reported as well; 0: none.
    pub max_alternates: usize,
}

impl Default for SitemapLimits {
    fn default() -> SitemapLimits {
        SitemapLimits {
            max_entries: 50_000,
            max_bytes: 50 * 1024 * 1024,
            max_alternates: 0,
        }
    }
}

/// One URL of a sitemap, trimmed, references resolved, not otherwise changed.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SitemapEntry<'a> {
    pub loc: &'a str,
    /// As written; the protocol wants a W3C date.
    pub lastmod: Option<&'a str>,
    /// The URL is of another sitemap, not of a page.
    pub is_index: bool,
    /// The URL is another version of an entry's page (`xhtml:link rel=alternate`).
    pub is_alternate: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum SitemapKind {
    UrlSet,
    Index,
    Text,
    /// An RSS or Atom feed, which sites may use as a sitemap: nothing is reported, read it as a feed.
    Feed,
    /// Inflate it first: nothing is reported.
    Gzip,
    /// None of these. Entries may have been found all the same.
    #[default]
    Unknown,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct SitemapSummary {
    pub kind: SitemapKind,
    pub entries: usize,
    pub alternates: usize,
    /// Entries without a URL, or with one that is too long.
    pub skipped: usize,
    /// A limit was reached: there was more.
    pub is_truncated: bool,
    /// The XML could not be read to its end.
    pub is_broken: bool,
}

/// Reports the entries of a sitemap in their order.
pub fn parse_sitemap(
    bytes: &[u8],
    limits: SitemapLimits,
    sink: &mut dyn FnMut(SitemapEntry<'_>),
) -> SitemapSummary {
    let mut summary = SitemapSummary::default();
    if crate::mime::is_gzip(bytes) {
        summary.kind = SitemapKind::Gzip;
        return summary;
    }
    let head = &bytes[..bytes.len().min(limits.max_bytes)];
    summary.is_truncated = head.len() < bytes.len();
    let text = xml::document_text(head);
    if text.trim_ascii_start().starts_with('<') {
        let mut scan = XmlScan::new(limits, summary, sink);
        scan.run(&text);
        scan.summary
    } else {
        read_lines(&text, limits, summary, sink)
    }
}

fn read_lines(
    text: &str,
    limits: SitemapLimits,
    mut summary: SitemapSummary,
    sink: &mut dyn FnMut(SitemapEntry<'_>),
) -> SitemapSummary {
    let mut lines = text.split(['\n', '\r']).peekable();
    while let Some(line) = lines.next() {
        let was_cut = summary.is_truncated && lines.peek().is_none();
        let line = line.trim_ascii();
        if was_cut || !looks_like_url(line) {
            continue;
        }
        let mut value = Value::default();
        value.push(line);
        let Some(loc) = value.text() else {
            summary.skipped += 1;
            continue;
        };
        if summary.entries >= limits.max_entries {
            summary.is_truncated = true;
            break;
        }
        summary.entries += 1;
        summary.kind = SitemapKind::Text;
        sink(SitemapEntry {
            loc,
            lastmod: None,
            is_index: false,
            is_alternate: false,
        });
    }
    summary
}

fn looks_like_url(line: &str) -> bool {
    ["http://", "https://"].iter().any(|scheme| {
        line.get(..scheme.len())
            .is_some_and(|head| head.eq_ignore_ascii_case(scheme))
    })
}

/// What an open element is to us.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Node {
    Url,
    Sitemap,
    Loc,
    Lastmod,
    Other,
}

struct XmlScan<'s> {
    limits: SitemapLimits,
    summary: SitemapSummary,
    sink: &'s mut dyn FnMut(SitemapEntry<'_>),
    open: Vec<Node>,
    /// Elements open beyond [`MAX_DEPTH`].
    too_deep: usize,
    seen_root: bool,
    entry: Option<Node>,
    /// The prefix of the entry's element: `image:loc` is not the `loc` of a `url`.
    prefix: String,
    loc: Value,
    loc_is_whole: bool,
    lastmod: Value,
    /// Text directly in the entry, which some take for the place of the URL.
    bare: Value,
}

impl<'s> XmlScan<'s> {
    fn new(
        limits: SitemapLimits,
        summary: SitemapSummary,
        sink: &'s mut dyn FnMut(SitemapEntry<'_>),
    ) -> XmlScan<'s> {
        XmlScan {
            limits,
            summary,
            sink,
            open: Vec::with_capacity(8),
            too_deep: 0,
            seen_root: false,
            entry: None,
            prefix: String::new(),
            loc: Value::default(),
            loc_is_whole: false,
            lastmod: Value::default(),
            bare: Value::default(),
        }
    }

    fn run(&mut self, text: &str) {
        let mut pull = XmlPull::new(text);
        while let Some(event) = pull.next() {
            match event {
                XmlEvent::Open(element) => {
                    let node = self.enter(&element);
                    if self.open.len() < MAX_DEPTH {
                        self.open.push(node);
                    } else {
                        self.too_deep += 1;
                    }
                }
                XmlEvent::Empty(element) => {
                    self.enter(&element);
                }
                XmlEvent::Close(end) => self.leave(end.name().as_ref()),
                XmlEvent::Text(piece) => self.text(&piece),
            }
            if self.summary.kind == SitemapKind::Feed || self.is_full() {
                return;
            }
        }
        self.summary.is_broken = pull.is_broken();
        if self.loc_is_whole {
            self.finish_entry();
        }
    }

    fn is_full(&mut self) -> bool {
        let full = self.summary.entries >= self.limits.max_entries && self.entry.is_some();
        self.summary.is_truncated |= full;
        full
    }

    fn enter(&mut self, element: &BytesStart<'_>) -> Node {
        let name = element.name();
        let (prefix, local) = xml::split_name(name.as_ref());
        let is = |word: &str| local.eq_ignore_ascii_case(word);
        if !self.seen_root {
            self.seen_root = true;
            self.summary.kind = match () {
                _ if is("urlset") => SitemapKind::UrlSet,
                _ if is("sitemapindex") => SitemapKind::Index,
                _ if is("rss") || is("feed") || is("rdf") => SitemapKind::Feed,
                _ => SitemapKind::Unknown,
            };
        }
        let parent = match self.too_deep {
            0 => self.open.last().copied(),
            _ => None,
        };
        if (is("url") || is("sitemap")) && !self.is_extension(prefix) {
            // An entry inside an entry: the one before was not closed.
            if self.loc_is_whole {
                self.finish_entry();
            }
            let node = if is("url") { Node::Url } else { Node::Sitemap };
            self.start_entry(node, prefix);
            return node;
        }
        if self.entry.is_none() || parent != self.entry {
            return Node::Other;
        }
        let is_own = prefix.is_empty() || prefix == self.prefix;
        if is("loc") && is_own && !self.loc_is_whole {
            self.loc.clear();
            Node::Loc
        } else if is("lastmod") && is_own {
            self.lastmod.clear();
            Node::Lastmod
        } else {
            if is("link") {
                self.alternate(element);
            }
            Node::Other
        }
    }

    fn leave(&mut self, name: &str) {
        if self.too_deep > 0 {
            self.too_deep -= 1;
            return;
        }
        let (prefix, local) = xml::split_name(name);
        let is = |word: &str| local.eq_ignore_ascii_case(word);
        let top = self.open.last().copied();
        if (is("url") || is("sitemap")) && !self.is_extension(prefix) {
            if let Some(at) = self.open.iter().rposition(|&n| Some(n) == self.entry) {
                self.open.truncate(at);
            }
            self.finish_entry();
        } else if let Some(node) = top
            && Some(node) != self.entry
        {
            self.open.pop();
            self.loc_is_whole |= node == Node::Loc;
        }
    }

    fn text(&mut self, piece: &str) {
        if self.too_deep > 0 {
            return;
        }
        match self.open.last() {
            Some(Node::Loc) => self.loc.push(piece),
            Some(Node::Lastmod) => self.lastmod.push(piece),
            Some(Node::Url | Node::Sitemap) => self.bare.push(piece),
            _ => {}
        }
    }

    /// Whether a prefix inside an entry is not the entry's own.
    fn is_extension(&self, prefix: &str) -> bool {
        self.entry.is_some() && !prefix.is_empty() && prefix != self.prefix
    }

    fn start_entry(&mut self, node: Node, prefix: &str) {
        if self.entry.replace(node).is_some() {
            self.summary.skipped += 1;
        }
        self.prefix.clear();
        self.prefix.push_str(prefix);
        self.loc.clear();
        self.loc_is_whole = false;
        self.lastmod.clear();
        self.bare.clear();
    }

    fn finish_entry(&mut self) {
        let Some(node) = self.entry.take() else {
            return;
        };
        let bare = self.bare.text();
        let bare = bare.filter(|text| looks_like_url(text));
        if let Some(loc) = self.loc.text().or(bare) {
            self.summary.entries += 1;
            let lastmod = self.lastmod.text();
            (self.sink)(SitemapEntry {
                loc,
                lastmod,
                is_index: node == Node::Sitemap,
                is_alternate: false,
            });
        } else {
            self.summary.skipped += 1;
        }
        self.loc_is_whole = false;
    }

    fn alternate(&mut self, element: &BytesStart<'_>) {
        if self.limits.max_alternates == 0 {
            return;
        }
        let is_alternate = xml::attribute(element, "rel").is_some_and(|rel| {
            rel.split_ascii_whitespace()
                .any(|r| r.eq_ignore_ascii_case("alternate"))
        });
        let Some(href) = xml::attribute(element, "href").filter(|_| is_alternate) else {
            return;
        };
        if self.summary.alternates >= self.limits.max_alternates {
            self.summary.is_truncated = true;
            return;
        }
        self.summary.alternates += 1;
        (self.sink)(SitemapEntry {
            loc: &href,
            lastmod: None,
            is_index: false,
            is_alternate: true,
        });
    }
}
