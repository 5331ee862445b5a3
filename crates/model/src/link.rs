//! A link as it enters a partition's log.

use crate::{DocId, Reason};

/// Where a link was found. The numbers are written to disk: append, never renumber.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash, PartialOrd, Ord)]
#[repr(u8)]
pub enum LinkKind {
    Seed = 0,
    Anchor = 1,
    Area = 2,
    LinkElement = 3,
    Frame = 4,
    Iframe = 5,
    Refresh = 6,
    Redirect = 7,
    /// The redirect of a seed: its target becomes a seed too.
    SeedRedirect = 8,
    /// A sitemap, named by robots.txt or by a sitemap index.
    Sitemap = 9,
    Feed = 10,
    /// IMG, SCRIPT, EMBED, OBJECT, APPLET, SOURCE, srcset: what a page shows rather than names.
    Embed = 11,
    /// A page that a sitemap names.
    SitemapPage = 12,
}

impl LinkKind {
    pub const ALL: [LinkKind; 13] = [
        LinkKind::Seed,
        LinkKind::Anchor,
        LinkKind::Area,
        LinkKind::LinkElement,
        LinkKind::Frame,
        LinkKind::Iframe,
        LinkKind::Refresh,
        LinkKind::Redirect,
        LinkKind::SeedRedirect,
        LinkKind::Sitemap,
        LinkKind::Feed,
        LinkKind::Embed,
        LinkKind::SitemapPage,
    ];

    pub fn from_u8(value: u8) -> Option<Self> {
        Self::ALL.get(value as usize).copied()
    }

    /// Does this link make its target a root of the crawl's scope?
    pub fn is_seed(self) -> bool {
        matches!(self, LinkKind::Seed | LinkKind::SeedRedirect)
    }

    pub fn name(self) -> &'static str {
        match self {
            LinkKind::Seed => "seed",
            LinkKind::Anchor => "a",
            LinkKind::Area => "area",
            LinkKind::LinkElement => "link",
            LinkKind::Frame => "frame",
            LinkKind::Iframe => "iframe",
            LinkKind::Refresh => "refresh",
            LinkKind::Redirect => "redirect",
            LinkKind::SeedRedirect => "seed-redirect",
            LinkKind::Sitemap => "sitemap",
            LinkKind::Feed => "feed",
            LinkKind::Embed => "embed",
            LinkKind::SitemapPage => "sitemap-page",
        }
    }
}

/// What scope and access conditions say of a link. Decided once, by whoever found the link, so
/// that folding a log needs no settings.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Verdict {
    /// Crawl it; `priority` raises (or lowers) its class.
    Crawl {
        priority: i8,
    },
    Exclude(Reason),
}

/// One observation of a URL, borrowed from a batch. `url` is canonical.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Link<'a> {
    pub url: &'a str,
    pub kind: LinkKind,
    /// Links from the nearest seed.
    pub depth: u16,
    /// Redirects in a row that led here.
    pub hops: u8,
    pub verdict: Verdict,
}

/// Links of one page, packed in the order found, ready to be written to a log: no allocation a
/// link. Layout of a link: kind, verdict (0 = crawl, else the reason), priority, hops, depth (2
/// bytes), length of the URL (4 bytes), URL.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct LinkBatch {
    /// The page that they were found on; `None` for seeds.
    from: Option<DocId>,
    /// What the ranker has each of them bring to where it leads.
    vote: u32,
    count: u32,
    bytes: Vec<u8>,
}

const LINK_HEADER_BYTES: usize = 10;

impl LinkBatch {
    pub fn new(from: Option<DocId>) -> Self {
        Self {
            from,
            vote: 0,
            count: 0,
            bytes: Vec::new(),
        }
    }

    /// Grows no more until `bytes` bytes of packed links are in it.
    pub fn with_room(from: Option<DocId>, bytes: usize) -> Self {
        Self {
            bytes: Vec::with_capacity(bytes),
            ..Self::new(from)
        }
    }

    /// See `Ranker::vote`.
    pub fn vote(&self) -> u32 {
        self.vote
    }

    pub fn set_vote(&mut self, vote: u32) {
        self.vote = vote;
    }

    pub fn from(&self) -> Option<DocId> {
        self.from
    }

    pub fn len(&self) -> usize {
        self.count as usize
    }

    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    pub fn push(&mut self, link: Link<'_>) {
        let (verdict, priority) = match link.verdict {
            Verdict::Crawl { priority } => (0, priority),
            Verdict::Exclude(reason) => (reason as u8, 0),
        };
        let [depth_low, depth_high] = link.depth.to_le_bytes();
        let [a, b, c, d] = (link.url.len() as u32).to_le_bytes();
        let kind = link.kind as u8;
        let header: [u8; LINK_HEADER_BYTES] = [
            kind,
            verdict,
            priority as u8,
            link.hops,
            depth_low,
            depth_high,
            a,
            b,
            c,
            d,
        ];
        self.bytes.reserve(LINK_HEADER_BYTES + link.url.len());
        self.bytes.extend_from_slice(&header);
        self.bytes.extend_from_slice(link.url.as_bytes());
        self.count += 1;
    }

    pub fn iter(&self) -> impl Iterator<Item = Link<'_>> {
        // Batches are checked when they are made from bytes, so that this never stops short.
        Walk { rest: &self.bytes }.map_while(Result::ok)
    }

    /// The packed links, for a log.
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// The reverse of `as_bytes`; `None` if the bytes are not a batch of `count` links.
    pub fn from_bytes(from: Option<DocId>, count: u32, bytes: Vec<u8>) -> Option<Self> {
        let mut found = 0;
        for link in (Walk { rest: &bytes }) {
            link.ok()?;
            found += 1;
        }
        (found == count).then_some(Self {
            from,
            vote: 0,
            count,
            bytes,
        })
    }
}

/// The bytes are not a batch of links.
struct Malformed;

struct Walk<'a> {
    rest: &'a [u8],
}

impl<'a> Walk<'a> {
    fn read(&mut self) -> Option<Link<'a>> {
        let (header, rest) = self.rest.split_at_checked(LINK_HEADER_BYTES)?;
        let length = u32::from_le_bytes(header[6..10].try_into().ok()?) as usize;
        let (url, rest) = rest.split_at_checked(length)?;
        self.rest = rest;
        Some(Link {
            url: std::str::from_utf8(url).ok()?,
            kind: LinkKind::from_u8(header[0])?,
            depth: u16::from_le_bytes([header[4], header[5]]),
            hops: header[3],
            verdict: match header[1] {
                0 => Verdict::Crawl {
                    priority: header[2] as i8,
                },
                reason => Verdict::Exclude(Reason::from_u8(reason)?),
            },
        })
    }
}

impl<'a> Iterator for Walk<'a> {
    type Item = Result<Link<'a>, Malformed>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.rest.is_empty() {
            return None;
        }
        let link = self.read();
        if link.is_none() {
            self.rest = &[];
        }
        Some(link.ok_or(Malformed))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn batches_round_trip_and_refuse_nonsense() {
        let mut batch = LinkBatch::new(Some(DocId(7)));
        let first = Link {
            url: "http://a.test/",
            kind: LinkKind::Anchor,
            depth: 3,
            hops: 1,
            verdict: Verdict::Crawl { priority: -2 },
        };
        let second = Link {
            url: "http://b.test/x",
            verdict: Verdict::Exclude(Reason::OutOfScope),
            ..first
        };
        batch.push(first);
        batch.push(second);
        assert_eq!(batch.iter().collect::<Vec<_>>(), [first, second]);
        let bytes = batch.as_bytes().to_vec();
        assert_eq!(
            LinkBatch::from_bytes(Some(DocId(7)), 2, bytes.clone()),
            Some(batch)
        );
        assert_eq!(LinkBatch::from_bytes(None, 3, bytes.clone()), None);
        assert_eq!(
            LinkBatch::from_bytes(None, 2, bytes[..bytes.len() - 1].to_vec()),
            None
        );
    }
}
