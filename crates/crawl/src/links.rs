//! From raw links, as a page spells them, to packed batches for the partitions that own them:
//! distinct first, then canonical, then judged.

use std::collections::HashSet;
use std::sync::{Arc, RwLockReadGuard};

use encoding_rs::Encoding;
use portolan_content::charset::query_in_charset;
use portolan_model::{
    CanonicalUrl, Canonicalizer, DocId, HostId, Identities, Known, Link, LinkBatch, LinkKind,
    PartitionId, Ranker, Reason, UrlKey, Verdict, given_priority, plain_priority,
};
use xxhash_rust::xxh3::xxh3_64;

use crate::division::Division;
use crate::mapper::NameDrop;
use crate::scope::Scope;

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
    /// For another document, of which so many links are taken at most.
    pub(crate) fn clear(&mut self, max_links: usize) {
        self.text.clear();
        self.spans.clear();
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
        // A link that is also given without nofollow may be followed: the two are kept apart.
        let mark = xxh3_64(href.as_bytes()) ^ u64::from(nofollow);
        if self.spans.len() >= self.max_links {
            self.leave_out(mark);
            return;
        }
        if !self.seen.insert(mark) {
            return;
        }
        let start = self.text.len() as u32;
        self.text.push_str(href);
        self.spans.push(Span {
            start,
            end: self.text.len() as u32,
            kind,
            nofollow,
        });
    }

    fn leave_out(&mut self, mark: u64) {
        let is_new = if self.seen.len() < self.max_links + LEFT_OUT_REMEMBERED {
            self.seen.insert(mark)
        } else {
            !self.seen.contains(&mark)
        };
        self.left_out = self.left_out.saturating_add(u32::from(is_new));
    }

    fn len(&self) -> usize {
        self.spans.len()
    }

    fn iter(&self) -> impl Iterator<Item = (&str, LinkKind, bool)> {
        self.spans.iter().map(|s| {
            (
                &self.text[s.start as usize..s.end as usize],
                s.kind,
                s.nofollow,
            )
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

    /// Every link, for the archive's metadata record.
    pub(crate) fn iter(&self) -> impl Iterator<Item = Link<'_>> {
        self.own
            .iter()
            .chain(self.forwards.iter().flat_map(|(_, batch)| batch.iter()))
    }

    /// What each link brings to where it leads.
    pub(crate) fn set_vote(&mut self, vote: u32) {
        self.own.set_vote(vote);
        for (_, batch) in &mut self.forwards {
            batch.set_vote(vote);
        }
    }

    pub(crate) fn push(
        &mut self,
        owner: PartitionId,
        ours: PartitionId,
        doc: DocId,
        link: Link<'_>,
    ) {
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

/// What judging a page's links needs to know of the page.
pub(crate) struct Page<'a> {
    pub(crate) base: &'a CanonicalUrl,
    pub(crate) doc: DocId,
    pub(crate) host: HostId,
    pub(crate) partition: PartitionId,
    pub(crate) depth: u16,
    /// What the ranker kept of it.
    pub(crate) score: u32,
    /// What the queries of its links are encoded in.
    pub(crate) charset: &'static Encoding,
    /// The page asks that none of its links be followed.
    pub(crate) nofollow: bool,
    /// Redirects and sitemap indexes in a row that led to it.
    pub(crate) hops: u8,
    pub(crate) max_sitemap_depth: u8,
}

/// Turns raw links into batches. Reused from page to page.
pub(crate) struct LinkSorter {
    canonicalizer: Canonicalizer,
    division: Arc<Division>,
    ranker: Arc<dyn Ranker>,
    names: NameDrop,
    ids: Identities,
    /// The host of the last link: links of a page are mostly of one host.
    last_host: (String, HostId),
    distinct: HashSet<u64, NoHash>,
}

impl LinkSorter {
    pub(crate) fn new(
        canonicalizer: Canonicalizer,
        division: Arc<Division>,
        ranker: Arc<dyn Ranker>,
        names: NameDrop,
        ids: Identities,
    ) -> Self {
        Self {
            canonicalizer,
            division,
            ranker,
            names,
            last_host: (String::new(), ids.host("")),
            ids,
            distinct: HashSet::default(),
        }
    }

    pub(crate) fn sort(
        &mut self,
        page: &Page<'_>,
        raw: &RawLinks,
        scope: &RwLockReadGuard<'_, Scope>,
    ) -> PageLinks {
        let mut links = PageLinks {
            own: LinkBatch::with_room(Some(page.doc), raw.len(), raw.len() * USUAL_URL_BYTES),
            forwards: Vec::new(),
            targets: Vec::with_capacity(raw.len()),
        };
        self.distinct.clear();
        // A page's link to itself says nothing about it.
        self.distinct.insert(page.doc.0);
        let depth = page.depth.saturating_add(1);
        // A page that names a URL both with and without nofollow leads there: marked links come last.
        let plain = raw.iter().filter(|(.., nofollow)| !nofollow);
        let marked = raw.iter().filter(|(.., nofollow)| *nofollow);
        for (href, kind, nofollow) in plain.chain(marked) {
            let href = query_in_charset(href, page.charset);
            let Ok(url) = self.canonicalizer.resolve(page.base, &href) else {
                continue;
            };
            let doc = url.doc_id(&self.ids);
            if !self.distinct.insert(doc.0) {
                continue;
            }
            links.targets.push(doc);
            if self.last_host.0 != url.host() {
                self.last_host.0.clear();
                self.last_host.0.push_str(url.host());
                self.last_host.1 = url.host_id(&self.ids);
            }
            let host = self.last_host.1;
            let key = UrlKey {
                doc,
                host,
                url: url.as_str(),
                host_name: url.host(),
            };
            // Only an index names sitemaps. They are counted in a row, so that indexes of indexes end.
            let hops = match kind {
                LinkKind::Sitemap => page.hops.saturating_add(1),
                _ => 0,
            };
            let verdict = if hops > page.max_sitemap_depth {
                Verdict::Exclude(Reason::SitemapDepth)
            } else {
                scope.verdict(&url, depth, kind, nofollow || page.nofollow)
            };
            let verdict = ranked(self.ranker.as_ref(), key, verdict);
            if matches!(verdict, Verdict::Crawl { .. }) && host != page.host {
                self.names.offer(host, url.host());
            }
            links.push(
                self.division.part_of(key, page.partition),
                page.partition,
                doc,
                Link {
                    url: url.as_str(),
                    kind,
                    depth,
                    hops,
                    verdict,
                },
            );
        }
        self.vote(page, &mut links);
        links
    }

    /// The target of a redirect: one more hop, no deeper.
    pub(crate) fn redirect(
        &mut self,
        page: &Page<'_>,
        target: &CanonicalUrl,
        kind: LinkKind,
        hops: u8,
        max_hops: u8,
        scope: &RwLockReadGuard<'_, Scope>,
    ) -> PageLinks {
        let mut links = PageLinks::none(Some(page.doc));
        let verdict = if hops > max_hops {
            Verdict::Exclude(Reason::TooManyRedirects)
        } else {
            scope.verdict(target, page.depth, kind, false)
        };
        let key = UrlKey::of(target, &self.ids);
        let verdict = ranked(self.ranker.as_ref(), key, verdict);
        links.targets.push(key.doc);
        let owner = self.division.part_of(key, page.partition);
        links.push(
            owner,
            page.partition,
            key.doc,
            Link {
                url: target.as_str(),
                kind,
                depth: page.depth,
                hops,
                verdict,
            },
        );
        self.vote(page, &mut links);
        links
    }

    fn vote(&self, page: &Page<'_>, links: &mut PageLinks) {
        let known = Known {
            doc: page.doc,
            host: page.host,
        };
        let from = Some((known, page.score));
        links.set_vote(self.ranker.vote(from, links.targets.len()));
    }
}

/// A class that the ranker knows beforehand travels with the verdict.
pub(crate) fn ranked(ranker: &dyn Ranker, page: UrlKey<'_>, verdict: Verdict) -> Verdict {
    let UrlKey { doc, host, url, .. } = page;
    match verdict {
        Verdict::Crawl { priority } => match ranker.given(Known { doc, host }, url) {
            Some(class) => Verdict::Crawl {
                priority: given_priority(class, priority),
            },
            None => Verdict::Crawl {
                priority: plain_priority(priority),
            },
        },
        excluded => excluded,
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
