//! Sitemaps and feeds of a host: lists of its pages, among them those that nothing else names.

use crate::plan::{BLOCK, FeedKind, SitemapKind, Via};
use crate::web::Web;
use std::fmt::Write;

/// Pages known anyway that a list names too, so that naming alone proves nothing.
const KNOWN_PAGES_LISTED: u32 = 10;

pub(crate) fn feed_type(kind: FeedKind) -> &'static str {
    match kind {
        FeedKind::Rss => "application/rss+xml",
        FeedKind::Atom => "application/atom+xml",
    }
}

impl Web {
    /// Body and type of part `part` of the host's sitemap.
    pub(crate) fn sitemap(&self, host: u32, part: u8) -> (Vec<u8>, &'static str) {
        let Some(kind) = self.hosts[host as usize].sitemap else {
            return (Vec::new(), "text/plain");
        };
        let pages = self.sitemap_pages(host, part);
        match (kind, part) {
            (SitemapKind::Xml, _) => (self.urlset(host, &pages).into_bytes(), "application/xml"),
            (SitemapKind::Gzip, _) => (
                crate::encoding::gzip(self.urlset(host, &pages).as_bytes()),
                "application/gzip",
            ),
            (SitemapKind::Text, _) => {
                let lines: String = pages
                    .iter()
                    .map(|p| self.page_url(host, *p) + "\n")
                    .collect();
                (lines.into_bytes(), "text/plain; charset=utf-8")
            }
            (SitemapKind::Index, 0) => (self.index(host).into_bytes(), "application/xml"),
            (SitemapKind::Index, 1) => (
                self.urlset(host, &pages).into_bytes(),
                "text/xml; charset=utf-8",
            ),
            (SitemapKind::Index, _) => (
                crate::encoding::gzip(self.urlset(host, &pages).as_bytes()),
                "application/x-gzip",
            ),
        }
    }

    /// The pages that part `part` of the sitemap names.
    pub(crate) fn sitemap_pages(&self, host: u32, part: u8) -> Vec<u32> {
        let index = self.hosts[host as usize].sitemap == Some(SitemapKind::Index);
        if index && part == 0 {
            return Vec::new();
        }
        let wanted = |n: usize| !index || n.is_multiple_of(2) == (part == 1);
        let hidden = self.named_only_by(host, Via::Sitemap).enumerate();
        let hidden = hidden.filter(|(n, _)| wanted(*n)).map(|(_, p)| p);
        self.known_pages(host).chain(hidden).collect()
    }

    pub(crate) fn feed_pages(&self, host: u32) -> Vec<u32> {
        self.known_pages(host)
            .chain(self.named_only_by(host, Via::Feed))
            .collect()
    }

    fn known_pages(&self, host: u32) -> impl Iterator<Item = u32> {
        let trunk_pages = self.pages_of(host).div_ceil(BLOCK);
        // Of a Web that moves, sitemaps tell when each page changed.
        let (listed, apart) = match self.motion_ms() {
            Some(_) => (self.pages_of(host), 1),
            None => (trunk_pages.min(KNOWN_PAGES_LISTED), BLOCK),
        };
        (0..listed).map(move |n| n * apart)
    }

    pub(crate) fn feed(&self, host: u32) -> (Vec<u8>, &'static str) {
        let Some(kind) = self.hosts[host as usize].feed else {
            return (Vec::new(), "text/plain");
        };
        let home = self.page_url(host, 0);
        let mut text = String::from("<?xml version=\"1.0\" encoding=\"utf-8\"?>\n");
        let pages = self.feed_pages(host);
        // Writing into a String cannot fail.
        let _ = match kind {
            FeedKind::Rss => writeln!(
                text,
                "<rss version=\"2.0\"><channel><title>Host {host}</title><link>{home}</link>\
                 <description>News</description>"
            ),
            FeedKind::Atom => writeln!(
                text,
                "<feed xmlns=\"http://www.w3.org/2005/Atom\"><title>Host {host}</title><id>{home}</id>\
                 <updated>2026-01-01T00:00:00Z</updated><link rel=\"alternate\" href=\"{home}\"/>"
            ),
        };
        for page in pages {
            let url = escape(&self.page_url(host, page));
            let _ = match kind {
                FeedKind::Rss => writeln!(
                    text,
                    "<item><title>Page {page}</title><link>{url}</link></item>"
                ),
                FeedKind::Atom => writeln!(
                    text,
                    "<entry><title>Page {page}</title><id>{url}</id><updated>2026-01-01T00:00:00Z</updated>\
                     <link href=\"{url}\"/></entry>"
                ),
            };
        }
        text.push_str(match kind {
            FeedKind::Rss => "</channel></rss>\n",
            FeedKind::Atom => "</feed>\n",
        });
        (text.into_bytes(), feed_type(kind))
    }

    fn urlset(&self, host: u32, pages: &[u32]) -> String {
        let mut text = String::from(
            "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n\
             <urlset xmlns=\"http://www.sitemaps.org/schemas/sitemap/0.9\">\n",
        );
        for page in pages {
            let url = escape(&self.page_url(host, *page));
            let _ = writeln!(
                text,
                "<url><loc>{url}</loc>{}</url>",
                self.lastmod(host, *page)
                    .map(|date| format!("<lastmod>{date}</lastmod>"))
                    .unwrap_or_default()
            );
        }
        text.push_str("</urlset>\n");
        text
    }

    fn index(&self, host: u32) -> String {
        let mut text = String::from(
            "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n\
             <sitemapindex xmlns=\"http://www.sitemaps.org/schemas/sitemap/0.9\">\n",
        );
        for path in &self.sitemap_paths(host)[1..] {
            let _ = writeln!(
                text,
                "<sitemap><loc>{}{path}</loc></sitemap>",
                self.origin(host)
            );
        }
        text.push_str("</sitemapindex>\n");
        text
    }
}

fn escape(url: &str) -> String {
    url.replace('&', "&amp;")
}
