use proptest::prelude::*;

use super::*;

fn read(bytes: &[u8], limits: SitemapLimits) -> (Vec<String>, SitemapSummary) {
    let mut found = Vec::new();
    let summary = parse_sitemap(bytes, limits, &mut |entry| {
        let kind = match (entry.is_index, entry.is_alternate) {
            (true, _) => "index ",
            (_, true) => "alternate ",
            _ => "",
        };
        let lastmod = entry.lastmod.map(|d| format!(" {d}")).unwrap_or_default();
        found.push(format!("{kind}{}{lastmod}", entry.loc));
    });
    (found, summary)
}

fn locs(text: &str) -> Vec<String> {
    read(text.as_bytes(), SitemapLimits::default()).0
}

#[test]
fn url_sets_and_indexes() {
    let text = "<?xml version='1.0'?>\n<urlset xmlns='x'><url><loc> http://h/1 </loc><lastmod>2024-01-02</lastmod></url>\
        <url><lastmod>2024</lastmod><loc>http://h/2</loc></url><url/><url><loc></loc></url></urlset>";
    let (found, summary) = read(text.as_bytes(), SitemapLimits::default());
    assert_eq!(found, ["http://h/1 2024-01-02", "http://h/2 2024"]);
    assert_eq!(summary.kind, SitemapKind::UrlSet);
    assert_eq!((summary.entries, summary.skipped), (2, 2));
    assert!(!summary.is_broken && !summary.is_truncated);

    let text = "<sitemapindex><sitemap><loc>http://h/a.xml</loc></sitemap></sitemapindex>";
    let (found, summary) = read(text.as_bytes(), SitemapLimits::default());
    assert_eq!(found, ["index http://h/a.xml"]);
    assert_eq!(summary.kind, SitemapKind::Index);
}

#[test]
fn references_and_cdata() {
    let text = "<urlset><url><loc>http://h/?a=1&amp;b=&#50;&#x33;</loc></url>\
        <url><loc><![CDATA[http://h/?a&b]]></loc></url><url><loc>http://h/<![CDATA[x]]>y</loc></url>\
        <url><loc>http://h/?a=1&b=2&copy;&lang=en</loc></url></urlset>";
    assert_eq!(
        locs(text),
        [
            "http://h/?a=1&b=23",
            "http://h/?a&b",
            "http://h/xy",
            "http://h/?a=1&b=2&copy;&lang=en"
        ]
    );
}

#[test]
fn extensions_are_not_entries() {
    let text = "<s:urlset><s:url><image:image><image:loc>http://h/i</image:loc></image:image><image:loc>http://h/j</image:loc>\
        <s:loc>http://h/1</s:loc><v:url>http://h/v</v:url><x:link rel='alternate' href='http://h/de?a&amp;b&c'/>\
        <x:link rel='stylesheet' href='http://h/css'/></s:url></s:urlset>";
    assert_eq!(locs(text), ["http://h/1"]);
    let limits = SitemapLimits {
        max_alternates: 5,
        ..SitemapLimits::default()
    };
    let (found, summary) = read(text.as_bytes(), limits);
    assert_eq!(found, ["alternate http://h/de?a&b&c", "http://h/1"]);
    assert_eq!(summary.alternates, 1);
}

#[test]
fn broken_documents_give_what_was_whole() {
    let cases = [
        (
            "<urlset><url><loc>http://h/1</loc></url><url><loc>http://h/2</lo",
            1,
        ),
        (
            "<urlset><url><loc>http://h/1</loc></url><url><loc>http://h/2",
            1,
        ),
        (
            "<urlset><url><loc>http://h/1</loc><url><loc>http://h/2</loc>",
            2,
        ),
        (
            "<urlset><url><loc>http://h/1</url><url><loc>http://h/2</url>",
            2,
        ),
        ("<urlset><url><loc>http://h/1</loc></urlset>", 1),
        ("</x></url><url><loc>http://h/1</loc></url></url></url>", 1),
        (
            "<urlset><url><LOC>http://h/1</LOC></url><!-- <url><loc>http://h/c</loc></url> ",
            1,
        ),
        ("<urlset><url><loc>http://h/1</loc></url><![ bad", 1),
        (
            "  \n\n<?xml version='1.0'?><urlset><url><loc>http://h/1</loc></url>",
            1,
        ),
        ("<sitemap>http://h/s.xml</sitemap>", 1),
        ("<url>no url here</url>", 0),
    ];
    for (text, count) in cases {
        assert_eq!(locs(text).len(), count, "{text}: {:?}", locs(text));
    }
    let cut = "<urlset><url><loc>http://h/1</loc></url><url><loc>http://h/2</lo";
    assert!(read(cut.as_bytes(), SitemapLimits::default()).1.is_broken);
}

#[test]
fn other_encodings() {
    let text = "<urlset><url><loc>http://h/\u{e9}</loc></url></urlset>";
    let utf16: Vec<u8> = [0xFEFF]
        .into_iter()
        .chain(text.encode_utf16())
        .flat_map(u16::to_be_bytes)
        .collect();
    assert_eq!(
        read(&utf16, SitemapLimits::default()).0,
        ["http://h/\u{e9}"]
    );
    let latin1: Vec<u8> = text.chars().map(|c| c as u8).collect();
    assert_eq!(read(&latin1, SitemapLimits::default()).0, ["http://h/%E9"]);
    assert_eq!(locs(&format!("\u{feff}{text}")), ["http://h/\u{e9}"]);
}

#[test]
fn plain_text() {
    let text = "\u{feff}http://h/1\r\n  HTTPS://h/2  \n\n# no\nftp://h/3\nhttp://h/4";
    let (found, summary) = read(text.as_bytes(), SitemapLimits::default());
    assert_eq!(found, ["http://h/1", "HTTPS://h/2", "http://h/4"]);
    assert_eq!(summary.kind, SitemapKind::Text);
    let (found, summary) = read(b"just words", SitemapLimits::default());
    assert_eq!((found.len(), summary.kind), (0, SitemapKind::Unknown));
}

#[test]
fn what_is_for_others() {
    let (found, summary) = read(b"\x1F\x8B\x08\0rest", SitemapLimits::default());
    assert_eq!((found.len(), summary.kind), (0, SitemapKind::Gzip));
    let (found, summary) = read(
        b"<rss><channel><item><link>http://h/</link>",
        SitemapLimits::default(),
    );
    assert_eq!((found.len(), summary.kind), (0, SitemapKind::Feed));
}

#[test]
fn limits_hold() {
    let entry = "<url><loc>http://h/1</loc></url>";
    let text = format!("<urlset>{}</urlset>", entry.repeat(50_001));
    let (found, summary) = read(text.as_bytes(), SitemapLimits::default());
    assert_eq!(found.len(), 50_000);
    assert!(summary.is_truncated);
    let text = format!("<urlset>{}</urlset>", entry.repeat(50_000));
    let (found, summary) = read(text.as_bytes(), SitemapLimits::default());
    assert_eq!(found.len(), 50_000);
    assert!(!summary.is_truncated);

    let limits = SitemapLimits {
        max_bytes: 8 + 2 * entry.len() + 20,
        ..SitemapLimits::default()
    };
    let (found, summary) = read(text.as_bytes(), limits);
    assert_eq!(found.len(), 2);
    assert!(summary.is_truncated);
    let limits = SitemapLimits {
        max_bytes: 25,
        max_entries: 9,
        ..limits
    };
    assert_eq!(
        read(b"http://h/1\nhttp://h/2\nhttp://h/3", limits).0.len(),
        2
    );

    let long = format!(
        "<urlset><url><loc>http://h/{}</loc></url>{entry}</urlset>",
        "x".repeat(9000)
    );
    let (found, summary) = read(long.as_bytes(), SitemapLimits::default());
    assert_eq!((found.len(), summary.skipped), (1, 1));
    let deep = format!("{}{entry}", "<a>".repeat(100_000));
    assert!(locs(&deep).len() <= 1);
}

proptest! {
    #[test]
    fn any_bytes_are_taken(bytes: Vec<u8>, as_xml: bool) {
        let mut document = if as_xml { b"<urlset><url><loc>".to_vec() } else { Vec::new() };
        document.extend(&bytes);
        let limits = SitemapLimits { max_alternates: 3, max_entries: 3, ..SitemapLimits::default() };
        let (found, summary) = read(&document, limits);
        prop_assert!(found.len() <= 6);
        prop_assert_eq!(found.len(), summary.entries + summary.alternates);
    }

    #[test]
    fn any_markup_is_taken(pieces in prop::collection::vec(prop::sample::select(vec![
        "<url>", "</url>", "<loc>", "</loc>", "<sitemap>", "</sitemap>", "<lastmod>", "</lastmod>", "http://h/", "&amp;", "&", "&#0;",
        "&#xFFFFFFFF;", "<![CDATA[", "]]>", "<!--", "-->", "<x:link rel='alternate' href='", "'/>", "<", ">", "<?", "?>", " ", "<!DOCTYPE x [", "]>",
    ]), 0..40)) {
        let text = format!("<urlset>{}", pieces.concat());
        let limits = SitemapLimits { max_alternates: 5, max_entries: 5, ..SitemapLimits::default() };
        let (found, summary) = read(text.as_bytes(), limits);
        prop_assert_eq!(found.len(), summary.entries + summary.alternates);
        prop_assert!(summary.entries <= 5 && summary.alternates <= 5);
    }
}
