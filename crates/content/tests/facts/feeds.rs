//! crawler-commons' feeds, with the links that each holds.

use portolan_content::{DocumentKind, FeedLimits, FeedLinkKind, kind_of, parse_feed};

use crate::data;

const FILES: &[(&str, &[&str])] = &[
    (
        "rss/feed.rss",
        &[
            "https://www.example.com/blog/post/1",
            // Its `isPermaLink` is false, but the item has nothing else.
            "https://www.example.com/guid.html",
            "https://www.example.com/foo?q=a&l=en",
            "https://www.example.com/foo?q=a&l=fr",
        ],
    ),
    (
        "rss/xmlRss_pubDate.xml",
        &[
            "http://www.example.com/article_1",
            "http://www.example.com/article_2",
            "http://www.example.com/article_3",
            "http://www.example.com/article_4",
            "http://www.example.com/article_5",
            "http://www.example.com/article_6",
            "http://www.example.com/article_7",
        ],
    ),
    (
        "sitemaps/atom.xml",
        &[
            "http://example.org/2003/12/13/atom03",
            "http://example.org/2003/12/13/atom03.html",
        ],
    ),
];

#[test]
fn every_feed_gives_its_links() {
    let Some(folder) = data::folder("crawler-commons") else {
        return;
    };
    for (file, expected) in FILES {
        let bytes = data::read(&folder, file);
        assert_eq!(kind_of(None, &bytes), DocumentKind::Feed, "{file}");
        let mut found = Vec::new();
        let summary = parse_feed(
            &bytes,
            "http://feed.test/",
            FeedLimits::default(),
            &mut |link| {
                assert_eq!(link.kind, FeedLinkKind::Item);
                found.push(link.href.to_owned());
            },
        );
        assert_eq!(found, *expected, "{file}");
        assert!(
            summary.is_feed && !summary.is_broken && !summary.is_truncated,
            "{file}: {summary:?}"
        );
    }
    assert_eq!(
        data::names(&folder.join("rss")).len(),
        2,
        "every file has an expectation"
    );
    println!("crawler-commons/rss and atom.xml: {} feeds", FILES.len());
}
