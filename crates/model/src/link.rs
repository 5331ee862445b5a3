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
    /// Images, scripts, style sheets, fonts, media: what a page or a style sheet shows rather than names.
    Embed = 11,
    /// A page that a sitemap names.
    SitemapPage = 12,
    /// Named in a page's table of links, which was fetched before the page.
    Tol = 13,
    /// What a processing module of the user's found.
    Module = 14,
}

impl LinkKind {
    pub const ALL: [LinkKind; 15] = [
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
        LinkKind::Tol,
        LinkKind::Module,
    ];

    pub fn from_u8(value: u8) -> Option<Self> {
        Self::ALL.get(value as usize).copied()
    }

    /// Does this link make its target a root of the crawl's scope?
    pub fn is_seed(self) -> bool {
        matches!(self, LinkKind::Seed | LinkKind::SeedRedirect)
    }

    /// Is its target a part of the page that names it, rather than another page?
    pub fn is_part(self) -> bool {
        matches!(self, LinkKind::Embed | LinkKind::Frame | LinkKind::Iframe)
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
            LinkKind::Tol => "tol",
            LinkKind::Module => "module",
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
    /// Redirects in a row that led here; for a sitemap also the indexes in a row.
    pub hops: u8,
    pub verdict: Verdict,
}

/// Links of one page, packed in the order found, ready to be written to a log: no allocation a
/// link. The URLs stand one after the other; a link's head is kind, verdict (0 = crawl, else the
/// reason), priority, hops, depth (2 bytes), length of the URL (4 bytes).
#[derive(Clone, Debug, Default)]
pub struct LinkBatch {
    /// The page that they were found on; `None` for seeds.
    from: Option<DocId>,
    /// What the ranker has each of them bring to where it leads.
    vote: u32,
    /// See `is_early`.
    early: bool,
    heads: Vec<u8>,
    urls: String,
    /// One for each link, as long as whoever pushed them knew them all. They follow from the URLs, so no
    /// log holds them, and a batch is the same without them.
    docs: Vec<DocId>,
}

impl PartialEq for LinkBatch {
    fn eq(&self, other: &Self) -> bool {
        let parts = |batch: &Self| (batch.from, batch.vote, batch.early);
        parts(self) == parts(other) && self.heads == other.heads && self.urls == other.urls
    }
}

impl Eq for LinkBatch {}

const HEAD_BYTES: usize = 10;

impl LinkBatch {
    pub fn new(from: Option<DocId>) -> Self {
        Self::with_room(from, 0, 0)
    }

    /// Grows no more until `links` links with `url_bytes` bytes of URLs are in it.
    pub fn with_room(from: Option<DocId>, links: usize, url_bytes: usize) -> Self {
        Self {
            from,
            vote: 0,
            early: false,
            heads: Vec::with_capacity(links * HEAD_BYTES),
            urls: String::with_capacity(url_bytes),
            docs: Vec::with_capacity(links),
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

    /// Did the links leave before the page that they are on was there as a whole? Such links make URLs known and due,
    /// and count for nothing: the page's visit has them again, and counts them.
    pub fn is_early(&self) -> bool {
        self.early
    }

    pub fn set_early(&mut self, early: bool) {
        self.early = early;
    }

    pub fn len(&self) -> usize {
        self.heads.len() / HEAD_BYTES
    }

    pub fn is_empty(&self) -> bool {
        self.heads.is_empty()
    }

    pub fn push(&mut self, link: Link<'_>) {
        let (verdict, priority) = match link.verdict {
            Verdict::Crawl { priority } => (0, priority),
            Verdict::Exclude(reason) => (reason as u8, 0),
        };
        let [depth_low, depth_high] = link.depth.to_le_bytes();
        let [a, b, c, d] = (link.url.len() as u32).to_le_bytes();
        let kind = link.kind as u8;
        let head: [u8; HEAD_BYTES] = [
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
        self.heads.extend_from_slice(&head);
        self.urls.push_str(link.url);
    }

    /// With the link's identity, so that it need not be computed again.
    pub fn push_known(&mut self, doc: DocId, link: Link<'_>) {
        if self.docs.len() == self.len() {
            self.docs.push(doc);
        }
        self.push(link);
    }

    /// The links' identities, if they are all known already.
    pub fn docs(&self) -> Option<&[DocId]> {
        (self.docs.len() == self.len()).then_some(&self.docs[..])
    }

    /// Takes the links of another batch, too.
    pub fn append(&mut self, other: &LinkBatch) {
        if self.docs.len() == self.len() {
            self.docs.extend_from_slice(&other.docs);
        }
        self.heads.extend_from_slice(&other.heads);
        self.urls.push_str(&other.urls);
    }

    pub fn iter(&self) -> impl Iterator<Item = Link<'_>> {
        // Batches are checked when they are made from bytes, so that this never stops short.
        Walk::of(&self.heads, &self.urls).map_while(Result::ok)
    }

    /// What the links take in a log, without the numbers around them.
    pub fn bytes(&self) -> usize {
        self.heads.len() + self.urls.len()
    }

    /// What they take in RAM.
    pub fn ram_bytes(&self) -> usize {
        self.bytes() + size_of::<DocId>() * self.docs.len()
    }

    /// The links' heads, for a log.
    pub fn heads(&self) -> &[u8] {
        &self.heads
    }

    /// The links' URLs one after the other, for a log.
    pub fn urls(&self) -> &str {
        &self.urls
    }

    /// The reverse of `heads` and `urls`; `None` if they are not those of a batch.
    pub fn from_parts(from: Option<DocId>, heads: Vec<u8>, urls: String) -> Option<Self> {
        let mut links = Walk::of(&heads, &urls);
        links.by_ref().try_for_each(|link| link.ok().map(|_| ()))?;
        let whole = links.urls.is_empty() && heads.len().is_multiple_of(HEAD_BYTES);
        whole.then_some(Self {
            from,
            vote: 0,
            early: false,
            heads,
            urls,
            docs: Vec::new(),
        })
    }
}

/// Heads and URLs do not belong together.
struct Malformed;

/// What is left to read.
struct Walk<'a> {
    heads: &'a [[u8; HEAD_BYTES]],
    urls: &'a str,
}

impl<'a> Walk<'a> {
    fn of(heads: &'a [u8], urls: &'a str) -> Self {
        let (heads, _) = heads.as_chunks();
        Self { heads, urls }
    }
}

impl<'a> Iterator for Walk<'a> {
    type Item = Result<Link<'a>, Malformed>;

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        let (head, heads) = self.heads.split_first()?;
        let [
            kind,
            verdict,
            priority,
            hops,
            depth_low,
            depth_high,
            a,
            b,
            c,
            d,
        ] = *head;
        let length = u32::from_le_bytes([a, b, c, d]) as usize;
        let (Some((url, urls)), Some(kind)) =
            (self.urls.split_at_checked(length), LinkKind::from_u8(kind))
        else {
            return Some(Err(Malformed));
        };
        let verdict = match verdict {
            0 => Verdict::Crawl {
                priority: priority as i8,
            },
            reason => match Reason::from_u8(reason) {
                Some(reason) => Verdict::Exclude(reason),
                None => return Some(Err(Malformed)),
            },
        };
        (self.heads, self.urls) = (heads, urls);
        Some(Ok(Link {
            url,
            kind,
            depth: u16::from_le_bytes([depth_low, depth_high]),
            hops,
            verdict,
        }))
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
        batch.push_known(DocId(1), first);
        assert_eq!(batch.docs(), Some(&[DocId(1)][..]));
        batch.push(second);
        assert_eq!(batch.docs(), None);
        assert_eq!(batch.iter().collect::<Vec<_>>(), [first, second]);
        let (heads, urls) = (batch.heads().to_vec(), batch.urls().to_owned());
        let from_parts = |heads: &[u8], urls: &str| {
            LinkBatch::from_parts(Some(DocId(7)), heads.to_vec(), urls.to_owned())
        };
        assert_eq!(from_parts(&heads, &urls), Some(batch));
        assert_eq!(from_parts(&heads[..HEAD_BYTES], &urls), None);
        assert_eq!(from_parts(&heads[..heads.len() - 1], &urls), None);
        assert_eq!(from_parts(&heads, &urls[..urls.len() - 1]), None);
        for at in 0..2 {
            let mut nonsense = heads.clone();
            nonsense[at] = 0xff;
            assert_eq!(from_parts(&nonsense, &urls), None);
        }
        // A URL that would begin within a character.
        let split = urls.replace("test/", "tesé/");
        assert_eq!(from_parts(&heads, &split), None);
    }
}
