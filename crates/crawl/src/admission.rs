//! One admission for every URL, wherever it was found: canonical, known by its identity, judged by the
//! scope, ranked, and given to the partition that owns it. Seeds, a page's links, redirects, sitemaps and feeds
//! come in; links for the partitions' logs go out.

use std::collections::HashSet;
use std::sync::Arc;

use encoding_rs::Encoding;
use portolan_content::charset::query_in_charset;
use portolan_model::{
    CanonicalUrl, Canonicalizer, DocId, HostId, Identities, Known, Link, LinkKind, PartitionId,
    Ranker, Reason, UrlKey, Verdict, given_priority, plain_priority,
};

use crate::division::Division;
use crate::keep;
use crate::links::{NoHash, PageLinks, RawLinks};
use crate::mapper::NameDrop;
use crate::scope::Scope;
use crate::settings::Settings;

/// What a page embeds, and what that embeds in turn, is no link away from it. Beyond this many in a row each is one
/// link away, so that style sheets that import each other without end are a matter of depth.
const MAX_PARTS_IN_A_ROW: u8 = 8;

/// Judges URLs and finds their owners. Each worker has one; it is reused from page to page.
pub(crate) struct Admission {
    canonicalizer: Canonicalizer,
    division: Arc<Division>,
    ranker: Arc<dyn Ranker>,
    ids: Identities,
    max_hops: MaxHops,
    /// What pages embed is fetched; then frames are parts of their pages, too. Sitemaps are fetched.
    embeds: bool,
    sitemaps: bool,
    /// The host of the last link: links of a page are mostly of one host.
    last_host: (String, HostId),
    distinct: HashSet<u64, NoHash>,
    puts_off: PutsOff,
}

/// Which of the links that are found wait, although they are to be fetched.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum PutsOff {
    Nothing,
    /// Pages are kept fresh: new ones wait for their share of the rate.
    NewPages,
    /// A server grants what is fetched.
    Everything,
}

/// How many steps in a row may lead to a URL before it is excluded.
#[derive(Debug, Clone, Copy)]
struct MaxHops {
    redirects: u8,
    /// Sitemap indexes in indexes.
    sitemaps: u8,
}

/// How a URL was found, and by whom.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Sighting {
    pub(crate) kind: LinkKind,
    /// Links from the nearest seed.
    pub(crate) depth: u16,
    /// Redirects in a row that led to it; for a sitemap also the indexes in a row, for a part of a page the parts.
    pub(crate) hops: u8,
    pub(crate) nofollow: bool,
    /// The partition whose page names it; `None` for a seed, which a person named.
    pub(crate) discoverer: Option<PartitionId>,
}

/// A link, ready for its owner's log.
pub(crate) struct Admitted<'u> {
    pub(crate) doc: DocId,
    pub(crate) host: HostId,
    pub(crate) owner: PartitionId,
    pub(crate) link: Link<'u>,
}

/// What judging a page's links needs to know of the page.
pub(crate) struct Page<'a> {
    pub(crate) base: &'a CanonicalUrl,
    pub(crate) doc: DocId,
    pub(crate) host: HostId,
    pub(crate) partition: PartitionId,
    /// How it was found.
    pub(crate) kind: LinkKind,
    pub(crate) depth: u16,
    /// What the ranker kept of it.
    pub(crate) score: u32,
    /// What the queries of its links are encoded in.
    pub(crate) charset: &'static Encoding,
    /// The page asks that none of its links be followed.
    pub(crate) nofollow: bool,
    /// Redirects, sitemap indexes and parts in a row that led to it.
    pub(crate) hops: u8,
}

impl Admission {
    pub(crate) fn new(
        settings: &Settings,
        canonicalizer: Canonicalizer,
        division: Arc<Division>,
        ranker: Arc<dyn Ranker>,
        ids: Identities,
    ) -> Self {
        Self {
            canonicalizer,
            division,
            ranker,
            last_host: (String::new(), ids.host("")),
            ids,
            embeds: settings.content.embeds,
            sitemaps: settings.robots.sitemaps,
            max_hops: MaxHops {
                redirects: settings.limits.max_redirects,
                sitemaps: settings.robots.max_sitemap_depth,
            },
            distinct: HashSet::default(),
            puts_off: PutsOff::Nothing,
        }
    }

    /// The same, for a crawl in which links wait.
    pub(crate) fn putting_off(self, puts_off: PutsOff) -> Self {
        Self { puts_off, ..self }
    }

    /// `href` as it stands on `base`, in its canonical form; `None` if it is no URL that can be fetched.
    pub(crate) fn resolve(&self, base: &CanonicalUrl, href: &str) -> Option<CanonicalUrl> {
        self.canonicalizer.resolve(base, href).ok()
    }

    /// The whole way of a URL: verdict, rank, owner, link. Everything that enters a log was here.
    pub(crate) fn admit<'u>(
        &mut self,
        scope: &Scope,
        url: &'u CanonicalUrl,
        doc: DocId,
        found: Sighting,
    ) -> Admitted<'u> {
        let host = self.host_of(url);
        let key = UrlKey {
            doc,
            host,
            url: url.as_str(),
            host_name: url.host(),
        };
        let verdict = self.ranked(key, self.verdict(scope, url, found));
        Admitted {
            doc,
            host,
            owner: self.division.owner_of(key, found.discoverer),
            link: Link {
                url: url.as_str(),
                kind: found.kind,
                depth: found.depth,
                hops: found.hops,
                verdict,
            },
        }
    }

    /// A seed, as a person named it.
    pub(crate) fn seed<'u>(&mut self, scope: &Scope, url: &'u CanonicalUrl) -> Admitted<'u> {
        let found = Sighting {
            kind: LinkKind::Seed,
            depth: 0,
            hops: 0,
            nofollow: false,
            discoverer: None,
        };
        self.admit(scope, url, url.doc_id(&self.ids), found)
    }

    /// What each of `links` seeds brings to itself.
    pub(crate) fn vote_of_seeds(&self, links: usize) -> u32 {
        self.ranker.vote(None, links)
    }

    /// The links of a page, a feed or a sitemap, distinct, by owner. Hosts that are new to the page are offered to
    /// `names`.
    pub(crate) fn links(
        &mut self,
        scope: &Scope,
        page: &Page<'_>,
        raw: &RawLinks,
        names: &mut NameDrop,
    ) -> PageLinks {
        let mut links = PageLinks::with_room(page.doc, raw.len());
        self.distinct.clear();
        // A page's link to itself says nothing about it.
        self.distinct.insert(page.doc.0);
        for (href, kind, nofollow) in raw.iter() {
            let href = query_in_charset(href, page.charset);
            let Some(url) = self.resolve(page.base, &href) else {
                continue;
            };
            let doc = url.doc_id(&self.ids);
            if !self.distinct.insert(doc.0) {
                continue;
            }
            let found = self.found_on(page, kind, nofollow);
            let mut admitted = self.admit(scope, &url, doc, found);
            if kind == LinkKind::Sitemap && admitted.host != page.host && !scope.holds_host(&url) {
                // Only robots.txt may name sitemaps of any host: an index could name fifty thousand.
                admitted.link.verdict = Verdict::Exclude(Reason::OutOfScope);
            }
            if admitted.host == page.host {
                // Whoever has the page has all of its host.
                admitted.owner = page.partition;
            } else if matches!(admitted.link.verdict, Verdict::Crawl { .. }) {
                names.offer(admitted.host, url.host());
            }
            links.targets.push(doc);
            self.give(&mut links, page.partition, self.put_off(admitted));
        }
        self.vote(page, &mut links);
        links
    }

    /// To its owner, unless links to other partitions are thrown away.
    fn give(&self, links: &mut PageLinks, ours: PartitionId, admitted: Admitted<'_>) {
        if self.division.lets_through(ours, admitted.owner) {
            links.push(ours, admitted);
        }
    }

    /// How a link of this kind on `page` is found.
    fn found_on(&self, page: &Page<'_>, kind: LinkKind, nofollow: bool) -> Sighting {
        let deeper = page.depth.saturating_add(1);
        let (depth, hops) = match kind {
            // Only an index names sitemaps. They are counted in a row, so that indexes of indexes end, and are no
            // further from a seed than the index.
            LinkKind::Sitemap => (page.depth, page.hops.saturating_add(1)),
            _ if self.is_part(kind) => {
                let before = if self.is_part(page.kind) {
                    page.hops
                } else {
                    0
                };
                match before.saturating_add(1) {
                    hops if hops <= MAX_PARTS_IN_A_ROW => (page.depth, hops),
                    _ => (deeper, MAX_PARTS_IN_A_ROW),
                }
            }
            _ => (deeper, 0),
        };
        Sighting {
            kind,
            depth,
            hops,
            // Who asks that links be not followed says nothing of what the page itself is made of.
            nofollow: nofollow || (page.nofollow && !self.is_part(kind)),
            discoverer: Some(page.partition),
        }
    }

    fn is_part(&self, kind: LinkKind) -> bool {
        self.embeds && kind.is_part()
    }

    /// The target of a redirect: one more hop, no deeper. It is to `page` what that was to others: the seed of a
    /// crawl, a sitemap, a part of a page, or a page.
    pub(crate) fn redirect(
        &mut self,
        scope: &Scope,
        page: &Page<'_>,
        target: &CanonicalUrl,
    ) -> PageLinks {
        let mut links = PageLinks::none(Some(page.doc));
        let found = Sighting {
            kind: match page.kind {
                kind if kind.is_seed() => LinkKind::SeedRedirect,
                kind if kind == LinkKind::Sitemap || self.is_part(kind) => kind,
                _ => LinkKind::Redirect,
            },
            depth: page.depth,
            hops: page.hops.saturating_add(1),
            nofollow: false,
            discoverer: Some(page.partition),
        };
        let mut admitted = self.admit(scope, target, target.doc_id(&self.ids), found);
        if admitted.host == page.host {
            admitted.owner = page.partition;
        }
        links.targets.push(admitted.doc);
        self.give(&mut links, page.partition, self.put_off(admitted));
        self.vote(page, &mut links);
        links
    }

    fn put_off<'u>(&self, mut admitted: Admitted<'u>) -> Admitted<'u> {
        let link = &mut admitted.link;
        match self.puts_off {
            PutsOff::Nothing => {}
            PutsOff::NewPages => link.verdict = keep::put_off(link.kind, link.verdict),
            PutsOff::Everything => link.verdict = keep::leave_to_server(link.kind, link.verdict),
        }
        admitted
    }

    /// The sitemaps that the robots.txt at `robots_url` names, by owner.
    pub(crate) fn sitemaps(
        &mut self,
        scope: &Scope,
        robots_url: &CanonicalUrl,
        ours: PartitionId,
        sitemaps: &[String],
    ) -> PageLinks {
        let mut links = PageLinks::none(None);
        for text in sitemaps {
            let Some(url) = self.resolve(robots_url, text) else {
                continue;
            };
            let found = Sighting {
                kind: LinkKind::Sitemap,
                depth: 0,
                hops: 0,
                nofollow: false,
                discoverer: Some(ours),
            };
            let mut admitted = self.admit(scope, &url, url.doc_id(&self.ids), found);
            if url.politeness_key() == robots_url.politeness_key() {
                admitted.owner = ours;
            }
            self.give(&mut links, ours, admitted);
        }
        // No page links to a sitemap that robots.txt names: it counts as a seed.
        links.set_vote(self.vote_of_seeds(sitemaps.len()));
        links
    }

    fn verdict(&self, scope: &Scope, url: &CanonicalUrl, found: Sighting) -> Verdict {
        let Sighting { kind, hops, .. } = found;
        let max_redirects = self.max_hops.redirects;
        match kind {
            LinkKind::Sitemap if !self.sitemaps => Verdict::Exclude(Reason::SitemapsOff),
            LinkKind::Sitemap if hops > self.max_hops.sitemaps => {
                Verdict::Exclude(Reason::SitemapDepth)
            }
            LinkKind::Redirect | LinkKind::SeedRedirect if hops > max_redirects => {
                Verdict::Exclude(Reason::TooManyRedirects)
            }
            _ if self.is_part(kind) && hops > max_redirects.saturating_add(MAX_PARTS_IN_A_ROW) => {
                Verdict::Exclude(Reason::TooManyRedirects)
            }
            // Found while they were wanted, or on pages that are read again.
            LinkKind::Embed if !self.embeds => Verdict::Exclude(Reason::EmbedsOff),
            _ => scope.verdict(url, found.depth, kind, found.nofollow),
        }
    }

    /// A class that the ranker knows beforehand travels with the verdict.
    fn ranked(&self, page: UrlKey<'_>, verdict: Verdict) -> Verdict {
        let UrlKey { doc, host, url, .. } = page;
        match verdict {
            Verdict::Crawl { priority } => match self.ranker.given(Known { doc, host }, url) {
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

    fn host_of(&mut self, url: &CanonicalUrl) -> HostId {
        let key = url.politeness_key();
        if self.last_host.0 != key {
            self.last_host.0.clear();
            self.last_host.0.push_str(key);
            self.last_host.1 = url.host_id(&self.ids);
        }
        self.last_host.1
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::assembly;
    use crate::mapper;

    const PARTITIONS: u16 = 7;

    fn url(text: &str) -> CanonicalUrl {
        CanonicalUrl::from_canonical(text.to_owned()).unwrap()
    }

    fn admission(settings: &Settings) -> (Admission, Scope) {
        let admission = Admission::new(
            settings,
            Canonicalizer::default(),
            Arc::new(Division::by_hash(PARTITIONS)),
            assembly::ranker(settings, None).unwrap(),
            Identities::PUBLIC,
        );
        let scope = Scope::new(&settings.scope, &[url("http://a.test/")]).unwrap();
        (admission, scope)
    }

    fn page(base: &CanonicalUrl, hops: u8) -> Page<'_> {
        Page {
            base,
            doc: base.doc_id(&Identities::PUBLIC),
            host: base.host_id(&Identities::PUBLIC),
            partition: PartitionId(3),
            kind: LinkKind::Anchor,
            depth: 4,
            score: 0,
            charset: encoding_rs::UTF_8,
            nofollow: false,
            hops,
        }
    }

    /// Where a URL was found changes its kind, depth and hops, never its owner or its name.
    #[test]
    fn every_source_leads_to_the_same_owner() {
        let settings = Settings::default();
        let (mut admission, scope) = admission(&settings);
        let (base, target) = (url("http://a.test/x/"), url("http://a.test/y?q=1"));
        let owner = admission.seed(&scope, &target).owner;
        // Whoever has a page has all of its host.
        let page = Page {
            partition: owner,
            ..page(&base, 0)
        };
        let mut raw = RawLinks::default();
        raw.clear(10);
        raw.push("../y?q=1#part", LinkKind::Feed, false);
        raw.push("HTTP://A.TEST:80/y?q=1", LinkKind::Anchor, false);
        let (names, _inbox) = mapper::queue();
        let found = [
            admission.links(&scope, &page, &raw, &mut NameDrop::new(names)),
            admission.redirect(&scope, &page, &target),
            admission.sitemaps(&scope, &base, page.partition, &["/y?q=1".to_owned()]),
        ];
        let expected = [
            (LinkKind::Feed, 5, 0),
            (LinkKind::Redirect, 4, 1),
            (LinkKind::Sitemap, 0, 0),
        ];
        for (links, expected) in found.iter().zip(expected) {
            let all: Vec<_> = links.iter().collect();
            assert_eq!(all.len(), 1, "{links:?}");
            let link = all[0];
            assert_eq!(link.url, target.as_str());
            assert_eq!((link.kind, link.depth, link.hops), expected);
            assert!(matches!(link.verdict, Verdict::Crawl { .. }));
            assert!(!links.own.is_empty() && links.forwards.is_empty());
        }
    }

    #[test]
    fn chains_of_redirects_and_of_sitemap_indexes_end() {
        let mut settings = Settings::default();
        settings.limits.max_redirects = 2;
        settings.robots.max_sitemap_depth = 1;
        let (mut admission, scope) = admission(&settings);
        let base = url("http://a.test/index.xml");
        let mut verdict = |kind, hops| {
            let target = url("http://a.test/next");
            let found = Sighting {
                kind,
                depth: 0,
                hops,
                nofollow: false,
                discoverer: None,
            };
            let doc = target.doc_id(&Identities::PUBLIC);
            admission.admit(&scope, &target, doc, found).link.verdict
        };
        let goes_on = Verdict::Crawl { priority: 0 };
        assert_eq!(verdict(LinkKind::Redirect, 2), goes_on);
        let excluded = Verdict::Exclude(Reason::TooManyRedirects);
        assert_eq!(verdict(LinkKind::Redirect, 3), excluded);
        assert_eq!(verdict(LinkKind::SeedRedirect, 3), excluded);
        assert_eq!(verdict(LinkKind::Sitemap, 1), goes_on);
        let excluded = Verdict::Exclude(Reason::SitemapDepth);
        assert_eq!(verdict(LinkKind::Sitemap, 2), excluded);
        assert_eq!(verdict(LinkKind::Anchor, 9), goes_on);
        let links = admission.redirect(&scope, &page(&base, 2), &base);
        let last = links.iter().next().unwrap();
        assert_eq!(last.verdict, Verdict::Exclude(Reason::TooManyRedirects));
    }

    /// A page, its style sheet, what that imports, and so on: one page, as far as depth goes.
    #[test]
    fn parts_of_a_page_are_no_link_away_from_it() {
        let mut settings = Settings::default();
        settings.content.embeds = true;
        settings.limits.max_redirects = 2;
        let (mut admission, scope) = admission(&settings);
        let base = url("http://a.test/x");
        let mut page = page(&base, 0);
        page.nofollow = true;
        let mut raw = RawLinks::default();
        let (names, _inbox) = mapper::queue();
        let mut names = NameDrop::new(names);
        let mut link = |admission: &mut Admission, page: &Page<'_>, kind| {
            raw.clear(10);
            // The same thing as a link and as a part is a part.
            raw.push("y", LinkKind::Anchor, false);
            raw.push("y", kind, false);
            let links = admission.links(&scope, page, &raw, &mut names);
            let first = links.iter().next().unwrap();
            (first.kind, first.depth, first.hops, first.verdict)
        };
        let goes_on = Verdict::Crawl { priority: 0 };
        let found = link(&mut admission, &page, LinkKind::Embed);
        assert_eq!(found, (LinkKind::Embed, 4, 1, goes_on));
        let found = link(&mut admission, &page, LinkKind::Anchor);
        let refused = Verdict::Exclude(Reason::NoFollow);
        assert_eq!(found, (LinkKind::Anchor, 5, 0, refused));
        (page.kind, page.hops) = (LinkKind::Embed, MAX_PARTS_IN_A_ROW - 1);
        let found = link(&mut admission, &page, LinkKind::Embed);
        assert_eq!(found, (LinkKind::Embed, 4, MAX_PARTS_IN_A_ROW, goes_on));
        // From here on every further one is a link away.
        page.hops = MAX_PARTS_IN_A_ROW;
        let found = link(&mut admission, &page, LinkKind::Embed);
        assert_eq!(found, (LinkKind::Embed, 5, MAX_PARTS_IN_A_ROW, goes_on));
        // Where a part has moved to is a part.
        let target = url("http://a.test/z");
        for (hops, verdict) in [
            (2, goes_on),
            (10, Verdict::Exclude(Reason::TooManyRedirects)),
        ] {
            page.hops = hops;
            let links = admission.redirect(&scope, &page, &target);
            let link = links.iter().next().unwrap();
            assert_eq!((link.kind, link.depth), (LinkKind::Embed, 4));
            assert_eq!((link.hops, link.verdict), (hops + 1, verdict));
        }
    }
}
