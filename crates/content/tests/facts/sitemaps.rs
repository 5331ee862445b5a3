//! crawler-commons' sitemaps, with the number of entries that each holds.

use portolan_content::{SitemapKind, SitemapLimits, is_gzip, parse_sitemap};

use crate::data;

/// File, kind, entries, of them with a date, alternates, first entry.
const FILES: &[(&str, SitemapKind, usize, usize, usize, &str)] = &[
    // A feed may serve as a sitemap; its links are the feed parser's.
    ("atom.xml", SitemapKind::Feed, 0, 0, 0, ""),
    (
        "do-not-visit.txt",
        SitemapKind::Text,
        1,
        0,
        0,
        "http://www.example.com/do-not-visit-here",
    ),
    (
        "sitemap-with-bom.txt",
        SitemapKind::Text,
        2,
        0,
        0,
        "http://www.domain.com/page1.html",
    ),
    (
        "sitemap.badns.xml",
        SitemapKind::UrlSet,
        2,
        0,
        0,
        "http://www.example.com/1",
    ),
    (
        "sitemap.index.xml",
        SitemapKind::Index,
        15,
        0,
        0,
        "https://example.com/sitemap.jss?portalCode=10260&lang=en",
    ),
    (
        "sitemap.ns.xml",
        SitemapKind::UrlSet,
        2,
        0,
        0,
        "http://www.example.com/1",
    ),
    (
        "sitemap.txt",
        SitemapKind::Text,
        2,
        0,
        0,
        "http://www.domain.com/page1.html",
    ),
    (
        "sitemap.txt.gz",
        SitemapKind::Text,
        5,
        0,
        0,
        "http://www.example.com/",
    ),
    (
        "xmlSitemap.gz",
        SitemapKind::UrlSet,
        5,
        4,
        0,
        "http://www.example.com/",
    ),
    (
        "extension/hebdenbridgetimes-articles-sitemap.xml",
        SitemapKind::UrlSet,
        74,
        74,
        0,
        "http://www.hebdenbridgetimes.co.uk/news/local/video-tour-de-yorkshire-in-calderdale-1-7242580",
    ),
    (
        "extension/pagemaps-sitemap.xml",
        SitemapKind::UrlSet,
        2,
        0,
        0,
        "http://www.example.com/foo",
    ),
    (
        "extension/shinpaideshou-news-sitemap.xml",
        SitemapKind::UrlSet,
        3,
        0,
        0,
        "https://shinpaideshou.wordpress.com/2017/04/25/job-opening-reischauer-policy-research-fellow/",
    ),
    (
        "extension/sitemap-images.xml",
        SitemapKind::UrlSet,
        1,
        0,
        0,
        "http://www.example.com/images/some_image_landing_page.html",
    ),
    (
        "extension/sitemap-links.xml",
        SitemapKind::UrlSet,
        3,
        0,
        9,
        "http://www.example.com/english/",
    ),
    (
        "extension/sitemap-mobile.xml",
        SitemapKind::UrlSet,
        3,
        0,
        0,
        "http://www.example.com/mobile-friendly-1/",
    ),
    (
        "extension/sitemap-news.xml",
        SitemapKind::UrlSet,
        2,
        0,
        0,
        "http://www.example.org/business/article55.html",
    ),
    (
        "extension/sitemap-videos-tvshow.xml",
        SitemapKind::UrlSet,
        1,
        0,
        0,
        "https://example.org/my-tv-show/23/13/",
    ),
    (
        "extension/sitemap-videos.xml",
        SitemapKind::UrlSet,
        3,
        0,
        0,
        "http://www.example.com/videos/some_video_landing_page.html",
    ),
];

#[test]
fn every_sitemap_gives_its_entries() {
    let Some(folder) = data::folder("crawler-commons/sitemaps") else {
        return;
    };
    let limits = SitemapLimits {
        max_alternates: 100,
        ..SitemapLimits::default()
    };
    for (file, kind, entries, dated, alternates, first) in FILES {
        let mut bytes = data::read(&folder, file);
        if is_gzip(&bytes) {
            assert_eq!(
                parse_sitemap(&bytes, limits, &mut |_| {}).kind,
                SitemapKind::Gzip
            );
            bytes = inflate(&bytes);
        }
        let mut locs = Vec::new();
        let mut dates = 0;
        let summary = parse_sitemap(&bytes, limits, &mut |entry| {
            assert_eq!(entry.is_index, *kind == SitemapKind::Index, "{file}");
            dates += usize::from(entry.lastmod.is_some());
            if !entry.is_alternate {
                locs.push(entry.loc.to_owned());
            }
        });
        let found = (summary.kind, summary.entries, dates, summary.alternates);
        assert_eq!(
            found,
            (*kind, *entries, *dated, *alternates),
            "{file}: {summary:?}"
        );
        assert_eq!(locs.len(), *entries, "{file}");
        assert_eq!(locs.first().map_or("", String::as_str), *first, "{file}");
        assert!(
            !summary.is_broken && !summary.is_truncated && summary.skipped == 0,
            "{file}: {summary:?}"
        );
    }
    let there = data::names(&folder).len() + data::names(&folder.join("extension")).len();
    assert_eq!(there, FILES.len(), "every file has an expectation");
    println!("crawler-commons/sitemaps: {} files", FILES.len());
}

fn inflate(bytes: &[u8]) -> Vec<u8> {
    let mut out = vec![0; 1 << 16];
    let mut inflater = libdeflater::Decompressor::new();
    let length = inflater
        .gzip_decompress(bytes, &mut out)
        .expect("a gzip member");
    out.truncate(length);
    out
}
