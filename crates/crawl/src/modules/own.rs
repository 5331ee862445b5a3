//! What Portolan reads itself, but for HTML: sitemaps, feeds, style sheets, listings of directories, menus of Gopher.

use portolan_content::{
    CssScanner, DocumentKind, FeedLimits, SitemapLimits, parse_feed, parse_gopher_menu,
    parse_listing, parse_sitemap, style_sheet_text,
};
use portolan_model::LinkKind;

use super::findings::Findings;
use super::html::HtmlScan;
use super::module::{Document, Module};
use crate::settings::Settings;

/// A row of the table: what kind of document it is for, and what reads it.
type Row = (DocumentKind, Box<dyn Module>);

/// Portolan's own modules, as far as the settings want them.
pub(super) fn all(settings: &Settings) -> Vec<Row> {
    let (content, robots) = (&settings.content, &settings.robots);
    let mut rows: Vec<Row> = vec![
        (DocumentKind::Html, Box::new(HtmlScan::new(settings))),
        (DocumentKind::Listing, Box::new(Listings)),
        (DocumentKind::GopherMenu, Box::new(Menus)),
    ];
    if robots.sitemaps {
        rows.push((DocumentKind::Sitemap, Box::new(Sitemaps)));
    }
    if content.feeds {
        rows.push((DocumentKind::Feed, Box::new(Feeds)));
    }
    if content.embeds {
        let max_url_bytes = settings.scope.max_url_bytes;
        rows.push((DocumentKind::Css, Box::new(Styles { max_url_bytes })));
    }
    rows
}

struct Sitemaps;

impl Module for Sitemaps {
    fn name(&self) -> &str {
        "sitemap"
    }

    fn types(&self) -> Vec<String> {
        vec!["application/xml".to_owned(), "text/xml".to_owned()]
    }

    fn read(&self, document: &Document<'_>, findings: &mut Findings<'_>) {
        // As many as a sitemap may have, which is more than there are on any page.
        findings.raw.clear(SitemapLimits::default().max_entries);
        // What is beyond that is read too, so that it can be counted.
        let limits = SitemapLimits {
            max_entries: usize::MAX,
            ..SitemapLimits::default()
        };
        parse_sitemap(document.body, limits, &mut |entry| {
            let kind = match entry.is_index {
                true => LinkKind::Sitemap,
                false => LinkKind::SitemapPage,
            };
            findings.push(entry.loc, kind);
            findings.lastmods.push(entry.loc, entry.lastmod);
        });
    }
}

struct Feeds;

impl Module for Feeds {
    fn name(&self) -> &str {
        "feed"
    }

    fn types(&self) -> Vec<String> {
        vec![
            "application/rss+xml".to_owned(),
            "application/atom+xml".to_owned(),
        ]
    }

    fn read(&self, document: &Document<'_>, findings: &mut Findings<'_>) {
        let limits = FeedLimits {
            max_links: usize::MAX,
            ..FeedLimits::default()
        };
        parse_feed(document.body, document.url(), limits, &mut |link| {
            findings.push(link.href, LinkKind::Feed);
        });
    }
}

struct Styles {
    max_url_bytes: usize,
}

impl Module for Styles {
    fn name(&self) -> &str {
        "css"
    }

    fn types(&self) -> Vec<String> {
        vec!["text/css".to_owned()]
    }

    fn read(&self, document: &Document<'_>, findings: &mut Findings<'_>) {
        let text = style_sheet_text(document.body, document.parameter("charset"));
        let mut css = CssScanner::new(self.max_url_bytes);
        let mut each = |url: &[u8]| findings.push(&String::from_utf8_lossy(url), LinkKind::Embed);
        css.feed(text.as_bytes(), &mut each);
        css.finish(&mut each);
    }
}

struct Listings;

impl Module for Listings {
    fn name(&self) -> &str {
        "listing"
    }

    fn types(&self) -> Vec<String> {
        vec!["text/ftp-dir-listing".to_owned()]
    }

    fn read(&self, document: &Document<'_>, findings: &mut Findings<'_>) {
        parse_listing(document.body, &mut |href| {
            findings.push(href, LinkKind::Anchor)
        });
    }
}

struct Menus;

impl Module for Menus {
    fn name(&self) -> &str {
        "gopher-menu"
    }

    fn types(&self) -> Vec<String> {
        vec!["application/gopher-menu".to_owned()]
    }

    fn read(&self, document: &Document<'_>, findings: &mut Findings<'_>) {
        parse_gopher_menu(document.body, &mut |href| {
            findings.push(href, LinkKind::Anchor)
        });
    }
}
