use proptest::prelude::*;

use super::*;

const ALL: FeedLimits = FeedLimits {
    max_links: 100,
    max_bytes: 1 << 20,
    enclosures: true,
    surroundings: true,
};

fn read(bytes: &[u8], limits: FeedLimits) -> (Vec<String>, FeedSummary) {
    let mut found = Vec::new();
    let summary = parse_feed(bytes, "http://f/feeds/all.xml", limits, &mut |link| {
        found.push(format!("{:?} {}", link.kind, link.href));
    });
    (found, summary)
}

fn links(text: &str, limits: FeedLimits) -> Vec<String> {
    read(text.as_bytes(), limits).0
}

#[test]
fn rss_2() {
    let text = "<rss version='2.0'><channel><link>http://h/</link><atom:link rel='self' href='http://h/feed'/>\
        <image><link>http://h/image</link></image>\
        <item><link> http://h/1?a&amp;b </link><guid>http://h/g1</guid><enclosure url='http://h/1.mp3' length='1'/></item>\
        <item><guid isPermaLink='true'>http://h/g2</guid></item>\
        <item><guid isPermaLink='false'>tag:h,2024:3</guid></item>\
        <item><link/><guid>http://h/g4</guid></item>\
        <item><link><![CDATA[http://h/5]]></link><link>http://h/again</link></item>\
        <item><title>nothing</title></item></channel></rss>";
    let items = [
        "Item http://h/1?a&b",
        "Item http://h/g2",
        "Item http://h/g4",
        "Item http://h/5",
    ];
    assert_eq!(links(text, FeedLimits::default()), items);
    let (found, summary) = read(text.as_bytes(), ALL);
    assert!(found.contains(&"Home http://h/".to_owned()), "{found:?}");
    assert!(
        found.contains(&"Enclosure http://h/1.mp3".to_owned()),
        "{found:?}"
    );
    assert_eq!(found.len(), 6);
    assert_eq!((summary.items, summary.links), (6, 6));
    assert!(summary.is_feed && !summary.is_broken);
}

#[test]
fn rss_1_and_0_9() {
    let text = "<?xml version='1.0'?><rdf:RDF xmlns='http://purl.org/rss/1.0/'><channel rdf:about='http://h/'><link>http://h/</link>\
        <items><rdf:Seq><rdf:li rdf:resource='http://h/1'/></rdf:Seq></items></channel>\
        <item rdf:about='http://h/1'><link>http://h/1</link></item><item rdf:about='http://h/2'/><item rdf:about='urn:x'></item></rdf:RDF>";
    assert_eq!(
        links(text, FeedLimits::default()),
        ["Item http://h/1", "Item http://h/2"]
    );
    let text = "<rss version='0.91'><channel><link>http://h/</link><item><link>/rel</link></item></channel></rss>";
    assert_eq!(links(text, FeedLimits::default()), ["Item /rel"]);
}

#[test]
fn atom_with_bases() {
    let text = "<feed xmlns='http://www.w3.org/2005/Atom' xml:base='http://h/blog/'><link href='.'/><link rel='next' href='?page=2'/>\
        <link rel='self' href='feed'/>\
        <entry xml:base='2024/'><link href='1'/><link rel='enclosure' href='1.ogg'/><link rel='edit' href='e'/>\
        <source><link href='http://other/'/></source><content><div><link href='x'/></div></content></entry>\
        <entry><link rel='alternate' xml:base='http://o/' href='2'></link></entry></feed>";
    assert_eq!(
        links(text, ALL),
        [
            "Home http://h/blog/",
            "Page http://h/blog/?page=2",
            "Item http://h/blog/2024/1",
            "Enclosure http://h/blog/2024/1.ogg",
            "Item http://o/2",
        ]
    );
    let relative = "<feed xml:base='/a/'><entry><link href='1'/></entry></feed>";
    assert_eq!(links(relative, ALL), ["Item http://f/a/1"]);
    let nested = "<feed xml:base='/a/'><entry xml:base='b/'><link href='1'/></entry>\
        <entry><link href='2'/></entry></feed>";
    assert_eq!(
        links(nested, ALL),
        ["Item http://f/a/b/1", "Item http://f/a/2"]
    );
}

#[test]
fn rss_with_bases() {
    let text = "<rss><channel xml:base='http://h/blog/'><item><link>1</link></item>\
        <item xml:base='old/'><link>2</link><guid>http://h/g</guid></item>\
        <item xml:base='http://['><link xml:base='x/'>3</link></item>\
        <item><link>http://o/4</link></item></channel>\
        <item><link>5</link></item></rss>";
    assert_eq!(
        links(text, FeedLimits::default()),
        [
            "Item http://h/blog/1",
            "Item http://h/blog/old/2",
            "Item http://h/blog/x/3",
            "Item http://o/4",
            "Item 5",
        ]
    );
}

#[test]
fn long_bases_do_not_count() {
    let text = format!(
        "<feed xml:base='/{}/'><entry><link href='1'/></entry></feed>",
        "x".repeat(MAX_BASE_BYTES)
    );
    assert_eq!(links(&text, ALL), ["Item 1"]);
}

#[test]
fn broken_feeds() {
    let cases = [
        (
            "<rss><channel><item><link>http://h/1</link></item><item><link>http://h/2",
            1,
        ),
        (
            "<rss><channel><item><link>http://h/1<item><link>http://h/2</link></item>",
            1,
        ),
        (
            "<rss><channel><item><link>http://h/1</item><item><link>http://h/2</item>",
            2,
        ),
        ("<rss><channel><item><guid>http://h/1</guid>", 1),
        (
            "</item></channel><item><link>http://h/1</link></b></item></item>",
            1,
        ),
        ("not a feed", 0),
        ("", 0),
    ];
    for (text, count) in cases {
        assert_eq!(links(text, FeedLimits::default()).len(), count, "{text}");
    }
}

#[test]
fn limits_hold() {
    let text = format!(
        "<rss>{}</rss>",
        "<item><link>http://h/</link></item>".repeat(200)
    );
    let (found, summary) = read(text.as_bytes(), ALL);
    assert_eq!(found.len(), 100);
    assert!(summary.is_truncated);
    let (found, summary) = read(
        text.as_bytes(),
        FeedLimits {
            max_bytes: 100,
            ..ALL
        },
    );
    assert_eq!(found.len(), 2);
    assert!(summary.is_truncated);
    let deep = format!(
        "{}<item><link>http://h/</link></item>",
        "<a xml:base='b/'>".repeat(50_000)
    );
    assert!(links(&deep, ALL).len() <= 1);
}

proptest! {
    #[test]
    fn any_bytes_are_taken(bytes: Vec<u8>) {
        let mut document = b"<rss><item><link>".to_vec();
        document.extend(bytes);
        let (found, summary) = read(&document, ALL);
        prop_assert_eq!(found.len(), summary.links);
    }

    #[test]
    fn any_markup_is_taken(pieces in prop::collection::vec(prop::sample::select(vec![
        "<item>", "</item>", "<link>", "</link>", "<entry xml:base='", "'>", "</entry>", "<guid>", "</guid>", "http://h/", "&amp;", "&",
        "<link href='", "'/>", "<enclosure url='x'/>", "<![CDATA[", "]]>", "<!--", "-->", "<", ">", "<channel>", "</channel>",
    ]), 0..40)) {
        let text = format!("<rss>{}", pieces.concat());
        let (found, summary) = read(text.as_bytes(), FeedLimits { max_links: 5, ..ALL });
        prop_assert_eq!(found.len(), summary.links);
        prop_assert!(summary.links <= 5);
    }
}
