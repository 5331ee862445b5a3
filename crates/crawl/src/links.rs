//! A page's links before and after they are judged: raw and distinct, as the page spells them, and packed in
//! batches for the partitions that own them. What happens between is in `admission`.

use std::collections::HashSet;

use portolan_model::{DocId, Link, LinkBatch, LinkKind, PartitionId, Verdict};
use xxhash_rust::xxh3::xxh3_64;

use crate::admission::Admitted;

/// Room made beforehand for a packed link, and for the links of a page to one other partition.
const USUAL_URL_BYTES: usize = 56;
const USUAL_FORWARDS: usize = 8;

/// Of the links of a page beyond its limit, this many are remembered, so that those named again count once.
const LEFT_OUT_REMEMBERED: usize = 50_000;

/// Raw links of one page, distinct, in the order found. Reused from page to page.
#[derive(Debug, Default)]
pub(crate) struct RawLinks {
    text: String,
    spans: Vec<Span>,
    /// Of what the page embeds. It may name the same thing as a link, too.
    parts: Vec<Span>,
    seen: HashSet<u64, NoHash>,
    max_links: usize,
    /// Links beyond `max_links`.
    left_out: u32,
}

#[derive(Debug, Clone, Copy)]
struct Span {
    start: u32,
    end: u32,
    kind: LinkKind,
    nofollow: bool,
}

impl RawLinks {
    /// For another document, of which at most `max_links` links are taken.
    pub(crate) fn clear(&mut self, max_links: usize) {
        self.text.clear();
        self.spans.clear();
        self.parts.clear();
        self.seen.clear();
        self.max_links = max_links;
        self.left_out = 0;
    }

    /// How many links were not taken because there were too many.
    pub(crate) fn left_out(&self) -> u32 {
        self.left_out
    }

    /// Take a link unless the page named it before, or it cannot be crawled anyway.
    pub(crate) fn push(&mut self, href: &str, kind: LinkKind, nofollow: bool) {
        if !portolan_model::url::is_crawlable_href(href) {
            return;
        }
        let is_part = kind == LinkKind::Embed;
        // A link that is also given without nofollow may be followed, and a part may be fetched where a link may not:
        // they are kept apart.
        let mark = xxh3_64(href.as_bytes()) ^ u64::from(nofollow) ^ (u64::from(is_part) << 1);
        if self.len() >= self.max_links {
            self.leave_out(mark);
            return;
        }
        if !self.seen.insert(mark) {
            return;
        }
        let start = self.text.len() as u32;
        self.text.push_str(href);
        let span = Span {
            start,
            end: self.text.len() as u32,
            kind,
            nofollow,
        };
        match is_part {
            true => self.parts.push(span),
            false => self.spans.push(span),
        }
    }

    /// The links so far are not needed any longer. They still count, and do not come again.
    pub(crate) fn forget_text(&mut self) {
        self.max_links -= self.len();
        self.text.clear();
        self.spans.clear();
        self.parts.clear();
    }

    fn leave_out(&mut self, mark: u64) {
        let is_new = if self.seen.len() < self.max_links + LEFT_OUT_REMEMBERED {
            self.seen.insert(mark)
        } else {
            !self.seen.contains(&mark)
        };
        self.left_out = self.left_out.saturating_add(u32::from(is_new));
    }

    pub(crate) fn len(&self) -> usize {
        self.spans.len() + self.parts.len()
    }

    /// What is named in several ways counts as the first of: a part of the page, a link, a link marked nofollow.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (&str, LinkKind, bool)> {
        let plain = self.spans.iter().filter(|span| !span.nofollow);
        let marked = self.spans.iter().filter(|span| span.nofollow);
        self.parts.iter().chain(plain).chain(marked).map(|s| {
            let href = &self.text[s.start as usize..s.end as usize];
            (href, s.kind, s.nofollow)
        })
    }
}

/// The links of one page, by owner.
#[derive(Debug)]
pub(crate) struct PageLinks {
    pub(crate) own: LinkBatch,
    pub(crate) forwards: Vec<(PartitionId, LinkBatch)>,
    pub(crate) targets: Vec<DocId>,
}

impl PageLinks {
    pub(crate) fn none(from: Option<DocId>) -> Self {
        Self {
            own: LinkBatch::new(from),
            forwards: Vec::new(),
            targets: Vec::new(),
        }
    }

    /// For a page with this many raw links.
    pub(crate) fn with_room(from: DocId, links: usize) -> Self {
        Self {
            own: LinkBatch::with_room(Some(from), links, links * USUAL_URL_BYTES),
            forwards: Vec::new(),
            targets: Vec::with_capacity(links),
        }
    }

    /// Every link, for the archive's metadata record.
    pub(crate) fn iter(&self) -> impl Iterator<Item = Link<'_>> {
        self.own
            .iter()
            .chain(self.forwards.iter().flat_map(|(_, batch)| batch.iter()))
    }

    pub(crate) fn len(&self) -> usize {
        let forwards = self.forwards.iter().map(|(_, batch)| batch.len());
        self.own.len() + forwards.sum::<usize>()
    }

    /// Made links that leave before their page is there as a whole: those that lead to something to be crawled. The others
    /// come with the page.
    pub(crate) fn make_early(&mut self) {
        let due = |_: DocId, link: Link<'_>| matches!(link.verdict, Verdict::Crawl { .. });
        self.keep(due);
        self.own.set_early(true);
        for (_, batch) in &mut self.forwards {
            batch.set_early(true);
        }
    }

    /// What each link brings to where it leads.
    pub(crate) fn set_vote(&mut self, vote: u32) {
        self.own.set_vote(vote);
        for (_, batch) in &mut self.forwards {
            batch.set_vote(vote);
        }
    }

    /// Links that the page had before were counted then. Where the page leads is told in full all the same.
    pub(crate) fn leave_out(&mut self, known: &[DocId]) {
        let known: HashSet<DocId> = known.iter().copied().collect();
        self.keep(|doc, _| !known.contains(&doc));
    }

    fn keep(&mut self, is_kept: impl Fn(DocId, Link<'_>) -> bool) {
        let kept = |batch: &LinkBatch| {
            let mut kept = LinkBatch::new(batch.from());
            kept.set_vote(batch.vote());
            let docs = batch.docs().unwrap_or_default();
            for (link, &doc) in batch.iter().zip(docs) {
                if is_kept(doc, link) {
                    kept.push_known(doc, link);
                }
            }
            kept
        };
        self.own = kept(&self.own);
        for (_, batch) in &mut self.forwards {
            *batch = kept(batch);
        }
        self.forwards.retain(|(_, batch)| !batch.is_empty());
    }

    /// A link for its owner; `ours` is the partition whose log all of them go to first.
    pub(crate) fn push(&mut self, ours: PartitionId, admitted: Admitted<'_>) {
        let Admitted {
            owner, doc, link, ..
        } = admitted;
        if owner == ours {
            self.own.push_known(doc, link);
            return;
        }
        let from = self.own.from();
        match self
            .forwards
            .iter_mut()
            .find(|(partition, _)| *partition == owner)
        {
            Some((_, batch)) => batch.push_known(doc, link),
            None => {
                let mut batch =
                    LinkBatch::with_room(from, USUAL_FORWARDS, USUAL_FORWARDS * USUAL_URL_BYTES);
                batch.push_known(doc, link);
                self.forwards.push((owner, batch));
            }
        }
    }
}

/// The keys are hashes already.
#[derive(Debug, Default, Clone, Copy)]
pub(crate) struct NoHash;

impl std::hash::BuildHasher for NoHash {
    type Hasher = Identity;

    fn build_hasher(&self) -> Identity {
        Identity(0)
    }
}

pub(crate) struct Identity(u64);

impl std::hash::Hasher for Identity {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        self.0 = xxh3_64(bytes);
    }

    fn write_u64(&mut self, key: u64) {
        self.0 = key;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use portolan_model::{HostId, Reason};

    fn admitted(url: &'static str, owner: u16, verdict: Verdict) -> Admitted<'static> {
        Admitted {
            doc: doc(url),
            host: HostId(u64::from(owner)),
            owner: PartitionId(owner),
            link: Link {
                url,
                kind: LinkKind::Anchor,
                depth: 1,
                hops: 0,
                verdict,
            },
        }
    }

    fn doc(url: &str) -> DocId {
        DocId(xxh3_64(url.as_bytes()))
    }

    const CRAWL: Verdict = Verdict::Crawl { priority: 0 };

    fn some_links() -> PageLinks {
        let mut links = PageLinks::with_room(DocId(9), 4);
        links.push(PartitionId(0), admitted("http://a.test/", 0, CRAWL));
        links.push(PartitionId(0), admitted("http://b.test/", 1, CRAWL));
        links.push(PartitionId(0), admitted("http://c.test/", 2, CRAWL));
        let out = Verdict::Exclude(Reason::OutOfScope);
        links.push(PartitionId(0), admitted("http://b.test/out", 1, out));
        links
    }

    #[test]
    fn links_go_to_their_owners_in_one_batch_each() {
        let links = some_links();
        assert_eq!((links.own.len(), links.len()), (1, 4));
        let forwards: Vec<_> = links.forwards.iter().map(|(p, b)| (p.0, b.len())).collect();
        assert_eq!(forwards, [(1, 2), (2, 1)]);
        let from_one_page = links
            .forwards
            .iter()
            .all(|(_, batch)| batch.from() == Some(DocId(9)));
        assert!(from_one_page);
        let urls: Vec<&str> = links.iter().map(|link| link.url).collect();
        assert_eq!(urls[0], "http://a.test/");
    }

    #[test]
    fn links_that_were_known_are_left_out_and_owners_without_any_hear_nothing() {
        let mut links = some_links();
        links.leave_out(&[doc("http://c.test/"), doc("http://b.test/")]);
        assert_eq!(
            (links.own.len(), links.forwards.len(), links.len()),
            (1, 1, 2)
        );
    }

    #[test]
    fn only_what_is_to_be_crawled_leaves_early() {
        let mut links = some_links();
        links.make_early();
        assert_eq!(links.len(), 3);
        assert!(links.iter().all(|link| link.verdict == CRAWL));
    }

    #[test]
    fn what_is_named_in_several_ways_comes_as_a_part_first_and_marked_last() {
        let mut raw = RawLinks::default();
        raw.clear(10);
        raw.push("/x", LinkKind::Anchor, true);
        raw.push("/x", LinkKind::Anchor, false);
        raw.push("/x", LinkKind::Embed, false);
        let all: Vec<_> = raw.iter().map(|(_, kind, marked)| (kind, marked)).collect();
        let wanted = [
            (LinkKind::Embed, false),
            (LinkKind::Anchor, false),
            (LinkKind::Anchor, true),
        ];
        assert_eq!(all, wanted);
    }

    #[test]
    fn links_beyond_the_limit_are_counted_once_each() {
        let mut raw = RawLinks::default();
        raw.clear(2);
        for href in ["/a", "/b", "/a", "mailto:x", "/c", "/c", "/d", "/b", "#e"] {
            raw.push(href, LinkKind::Anchor, false);
        }
        assert_eq!((raw.len(), raw.left_out()), (2, 2));
        raw.clear(1);
        assert_eq!(raw.left_out(), 0);
        // What is remembered of them is bounded.
        for n in 0..=LEFT_OUT_REMEMBERED + 10 {
            raw.push(&n.to_string(), LinkKind::Anchor, false);
        }
        assert_eq!(raw.left_out() as usize, LEFT_OUT_REMEMBERED + 10);
        assert_eq!(raw.seen.len(), 1 + LEFT_OUT_REMEMBERED);
    }
}
