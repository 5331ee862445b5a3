//! What the scanner finds in pages, however they are cut into chunks and whatever charset they mix.

use encoding_rs::{EUC_JP, ISO_2022_JP, SHIFT_JIS, UTF_16LE};
use portolan_content::Directives;
use portolan_content::charset::CharsetSource;
use portolan_content::html::{Element, Found, PageScanner, PageSummary, Role, ScanOptions, Tag};
use proptest::prelude::*;

fn all() -> ScanOptions {
    ScanOptions {
        embeds: true,
        text: true,
        ..ScanOptions::default()
    }
}

/// Everything found, text joined, so that only what matters is compared.
fn scan(page: &[u8], header: Option<&str>, cuts: &[usize], options: &ScanOptions) -> Scan {
    let mut found: Vec<String> = Vec::new();
    let mut text: Vec<u8> = Vec::new();
    let mut sink = |item: Found<'_>| match item {
        Found::Text(bytes) => text.extend_from_slice(bytes),
        Found::TextBreak => text.push(b'|'),
        other => found.push(format!("{other:?}")),
    };
    let mut scanner = PageScanner::new(options, header);
    let mut rest = page;
    for cut in cuts {
        let (piece, after) = rest.split_at((*cut).min(rest.len()));
        scanner.feed(piece, &mut sink);
        rest = after;
    }
    let summary = scanner.finish_with(rest, &mut sink);
    Scan {
        found,
        text,
        summary,
    }
}

#[derive(Debug, PartialEq)]
struct Scan {
    found: Vec<String>,
    text: Vec<u8>,
    summary: PageSummary,
}

fn hrefs(page: &[u8], header: Option<&str>) -> (Vec<String>, PageSummary) {
    let mut hrefs = Vec::new();
    let scanner = PageScanner::new(&all(), header);
    let summary = scanner.finish_with(page, &mut |item: Found<'_>| {
        if let Found::Link { href, .. } = item {
            hrefs.push(href.to_owned());
        }
    });
    (hrefs, summary)
}

fn links(page: &str) -> Vec<(Element, Role, String, bool)> {
    let mut links = Vec::new();
    PageScanner::new(&all(), None).finish_with(page.as_bytes(), &mut |item: Found<'_>| {
        if let Found::Link {
            element,
            role,
            href,
            nofollow,
        } = item
        {
            links.push((element, role, href.to_owned(), nofollow));
        }
    });
    links
}

/// One page with three charsets; the letters of ISO-2022-JP's runs hold `<`, `"` and `&`.
fn mixed_page(title: &[u8], declared: &str) -> Vec<u8> {
    let jis = ISO_2022_JP.encode("縺薙≠次の“漢字”").0.into_owned();
    assert!(
        jis.contains(&b'<') || jis.contains(&b'"'),
        "the run should look like markup"
    );
    let euc = EUC_JP.encode("ニュースの一覧").0.into_owned();
    let sjis = SHIFT_JIS.encode("表示メニュー").0.into_owned();
    let mut page = format!("<meta charset={declared}><title>").into_bytes();
    page.extend_from_slice(title);
    page.extend_from_slice(b"</title><a href=/1>one</a>");
    for (number, piece) in [jis, euc, sjis].iter().enumerate() {
        page.extend_from_slice(b"<p>");
        page.extend_from_slice(piece);
        page.extend_from_slice(format!("<a href=\"/{number}/").as_bytes());
        page.extend_from_slice(piece);
        page.extend_from_slice(b"?x\">");
        page.extend_from_slice(piece);
        page.extend_from_slice(b"</a>\n");
    }
    page.extend_from_slice(b"<a href='/last'>last</a>");
    page
}

#[test]
fn three_japanese_charsets_in_one_page() {
    let expected = [
        "/1",
        "/0/縺薙≠次の“漢字”?x",
        "/1/ニュースの一覧?x",
        "/2/表示メニュー?x",
        "/last",
    ];
    for declared in ["euc-jp", "shift_jis", "iso-2022-jp", "utf-8"] {
        for title in [SHIFT_JIS, EUC_JP, ISO_2022_JP] {
            let page = mixed_page(&title.encode("日本語のページ <です>").0, declared);
            let (found, summary) = hrefs(&page, None);
            assert_eq!(found, expected, "{declared}");
            assert_eq!(
                summary.title.as_deref(),
                Some("日本語のページ <です>"),
                "{declared}"
            );
            let whole = scan(&page, None, &[], &all());
            for size in [1, 2, 3, 7, 100] {
                let cuts = vec![size; page.len() / size];
                assert_eq!(
                    scan(&page, None, &cuts, &all()),
                    whole,
                    "{declared} by {size}"
                );
            }
        }
    }
}

#[test]
fn undeclared_japanese_pages() {
    let body = "<title>日本語</title><p>これは日本語の文書です。</p><a href='/日本'>次へ</a>";
    for encoding in [EUC_JP, SHIFT_JIS, ISO_2022_JP] {
        let (found, summary) = hrefs(&encoding.encode(body).0, None);
        assert_eq!(found, ["/日本"]);
        assert_eq!(summary.title.as_deref(), Some("日本語"));
        assert_eq!(summary.charset.encoding, encoding);
        assert_eq!(summary.charset.source, CharsetSource::Detected);
    }
}

#[test]
fn utf16_is_decoded_before_it_is_scanned() {
    let text = "<title>é漢</title><a href='/ü&amp;x'>x</a>";
    let mut page = vec![0xff, 0xfe];
    page.extend(text.encode_utf16().flat_map(u16::to_le_bytes));
    let (found, summary) = hrefs(&page, Some("utf-8"));
    assert_eq!(found, ["/ü&x"]);
    assert_eq!(summary.title.as_deref(), Some("é漢"));
    assert_eq!(summary.charset.encoding, UTF_16LE);
    let (found, _) = hrefs(&page[2..], Some("utf-16le"));
    assert_eq!(found, ["/ü&x"]);
}

#[test]
fn a_late_meta_counts_when_nothing_else_told() {
    let mut page = vec![b' '; 2000];
    page.extend_from_slice(b"<title>\xfd</title><meta charset=windows-1254><a href=\xfd>");
    let (found, summary) = hrefs(&page, None);
    assert_eq!(found, ["ı"]);
    assert_eq!(summary.title.as_deref(), Some("ı"));
    assert_eq!(summary.charset.source, CharsetSource::Meta);
    assert_eq!(hrefs(&page, Some("windows-1252")).0, ["ý"]);
}

#[test]
fn elements_and_roles() {
    use Element::*;
    let page = "<link rel=canonical href=c><link rel='alternate' href=f><link rel=next href=n>
        <link rel=stylesheet href=s><link rel=preconnect href=p><link href=none>
        <a rel='x NoFollow' href=' a\n'><area href=b rel=ugc><frame src=fr><iframe src=if></iframe>
        <meta http-equiv=Refresh content=\"0; url='r&amp;r'\">
        <img src=i srcset='i1 1x, i2 2x'><image src=old><script src=js></script>
        <embed src=e><object data=o></object><applet code=A.class codebase=cb></applet>
        <video src=v poster=vp><source src=vs><track src=t></video><audio src=au></audio>
        <input type=IMAGE src=in><input src=no><body background=bg>
        <svg><a xlink:href=sa /><image href=si /><use href='#x' /><use href=u /></svg>";
    let (n, e) = (Role::Navigation, Role::Embed);
    let expected = [
        (Link, Role::Canonical, "c", false),
        (Link, Role::Alternate, "f", false),
        (Link, n, "n", false),
        (Link, e, "s", false),
        (A, n, "a", true),
        (Area, n, "b", true),
        (Frame, n, "fr", false),
        (Iframe, n, "if", false),
        (MetaRefresh, n, "r&r", false),
        (Part(Tag::Img), e, "i", false),
        (Part(Tag::Img), e, "i1", false),
        (Part(Tag::Img), e, "i2", false),
        (Part(Tag::Image), e, "old", false),
        (Part(Tag::Script), e, "js", false),
        (Part(Tag::Embed), e, "e", false),
        (Part(Tag::Object), e, "o", false),
        (Part(Tag::Applet), e, "cb/A.class", false),
        (Part(Tag::Video), e, "v", false),
        (Part(Tag::Video), e, "vp", false),
        (Part(Tag::Source), e, "vs", false),
        (Part(Tag::Track), e, "t", false),
        (Part(Tag::Audio), e, "au", false),
        (Part(Tag::Input), e, "in", false),
        (Part(Tag::Body), e, "bg", false),
        (A, n, "sa", false),
        (Part(Tag::Image), e, "si", false),
        (Part(Tag::Use), e, "u", false),
    ];
    let expected: Vec<_> = expected
        .map(|(el, r, href, nf)| (el, r, href.to_owned(), nf))
        .into();
    assert_eq!(links(page), expected);

    let mut count = 0;
    let scanner = PageScanner::new(&ScanOptions::default(), None);
    let summary = scanner.finish_with(page.as_bytes(), &mut |item: Found<'_>| {
        if let Found::Link { role, .. } = item {
            assert_ne!(role, Role::Embed);
            count += 1;
        }
    });
    assert_eq!((count, summary.links, summary.embeds), (9, 9, 0));
}

#[test]
fn style_sheets_in_a_page_and_what_scripts_load_late() {
    let page = "<style>@import 'a.css'; <a href=no>{b:url(b.png)}</style>
        <style type=text/less>x{y:url(no.png)}</style><p style='color:red'><p style=\"x:url('c&amp;d.png')\">
        <section background=bg><svg><style>x{y:url(e.png)}</style><rect style='fill:url(#no);mask:url(f.svg#g)' /></svg>
        <img data-src=h data-srcset='i 1x, j 2x'><video data-src=k></video><iframe data-src=l></iframe>
        <meta property=og:image content=m.png><meta name=Twitter:Image content=n.png><meta name=x content=no>
        <link rel='shortcut icon' href=o.ico><link rel=modulepreload href=p.mjs>
        <link rel=preload as=image imagesrcset='q.png 1x, r.png 2x'>
        <template><style>x{y:url(no.png)}</style><p style='x:url(no)'></template>
        <svg><feImage href=s.png /></svg><style>@font-face{src:url(t.woff2";
    let found: Vec<_> = links(page)
        .into_iter()
        .map(|(_, role, href, _)| (role, href))
        .collect();
    let expected = [
        "a.css", "b.png", "c&d.png", "bg", "e.png", "#no", "f.svg#g", "h", "i", "j", "k", "l",
        "m.png", "n.png", "o.ico", "p.mjs", "q.png", "r.png", "s.png", "t.woff2",
    ];
    assert_eq!(found, expected.map(|href| (Role::Embed, href.to_owned())));
    for piece in [1, 2, 7] {
        let options = ScanOptions {
            embeds: true,
            ..ScanOptions::default()
        };
        let mut scanner = PageScanner::new(&options, None);
        let mut count = 0;
        let mut sink = |item: Found<'_>| count += usize::from(matches!(item, Found::Link { .. }));
        for piece in page.as_bytes().chunks(piece) {
            scanner.feed(piece, &mut sink);
        }
        scanner.finish(&mut sink);
        assert_eq!(count, expected.len());
    }
}

#[test]
fn base_title_and_robots() {
    let page = "<a href=before><base target=x><base href=' /first/ '><base href=/second/>
        <svg><title>not this</title></svg><title> The\n  &lt;b>Title&lt;/b> &eacute; </title>
        <title>second</title><meta name=ROBOTS content='noindex, noarchive'>
        <meta name=Portolan content=nofollow><meta name=otherbot content=none>";
    let options = ScanOptions {
        product_token: Some("portolan".into()),
        ..all()
    };
    let Scan { found, summary, .. } = scan(page.as_bytes(), None, &[], &options);
    assert_eq!(summary.base.as_deref(), Some("/first/"));
    assert_eq!(summary.title.as_deref(), Some("The <b>Title</b> é"));
    let rules = Directives {
        noindex: true,
        nofollow: true,
        noarchive: true,
    };
    assert_eq!(summary.robots, rules);
    assert_eq!(found.len(), 5, "{found:?}");
    assert!(
        !scan(page.as_bytes(), None, &[], &all())
            .summary
            .robots
            .nofollow
    );
}

#[test]
fn what_belongs_to_no_page_is_not_told() {
    let page = "<!-- <a href=1> --><script>'<a href=2>'</script><style><a href=3></style>
        <textarea><a href=4></textarea><template><a href=5><base href=x><title>t</title></template>
        <noscript><a href=yes></noscript><xmp><a href=6></xmp><noframes><a href=7></noframes>
        <a href=8";
    let (found, summary) = hrefs(page.as_bytes(), None);
    assert_eq!(found, ["yes"]);
    assert_eq!(
        (summary.inert, summary.title, summary.base),
        (1, None, None)
    );
}

#[test]
fn limits_hold() {
    let options = ScanOptions {
        max_links: 2,
        max_tag_bytes: 100,
        max_attribute_bytes: 10,
        max_title_bytes: 7,
        ..all()
    };
    let long = "x".repeat(200);
    let page = format!(
        "<title>あいうえお</title><a href=1><a href=12345678901><script a={long}><a href=no></script>\
         <a title={long} href=no><a href=2><a href=3></a {long}>"
    );
    let whole = scan(page.as_bytes(), Some("utf-8"), &[], &options);
    assert_eq!(whole.summary.title.as_deref(), Some("あい"));
    assert_eq!(
        (whole.summary.links, whole.summary.links_over_limit),
        (2, 1)
    );
    assert_eq!(whole.summary.oversize, 3);
    for size in [1, 5, 150] {
        let cuts = vec![size; page.len()];
        assert_eq!(
            scan(page.as_bytes(), Some("utf-8"), &cuts, &options),
            whole,
            "by {size}"
        );
    }
}

#[test]
fn visible_text_keeps_words_apart() {
    let page = "<title>t</title><p>one<b>two</b> three<p>four<br>five<script>no</script>\
                <!-- no -->six<td>seven <i>&amp;</i><style>no</style>";
    let text = scan(page.as_bytes(), None, &[], &all()).text;
    assert_eq!(
        std::str::from_utf8(&text),
        Ok("|onetwo three|four|five|six|seven &amp;")
    );
}

/// Bytes that are likely to mean something, in any order.
fn soup() -> impl Strategy<Value = Vec<u8>> {
    let bits: Vec<&'static [u8]> = vec![
        b"<",
        b">",
        b"<a href=",
        b"\"",
        b"'",
        b" ",
        b"=",
        b"/",
        b"</",
        b"<!--",
        b"-->",
        b"--!>",
        b"-",
        b"!",
        b"<script>",
        b"</script>",
        b"<script",
        b"<title>",
        b"</title>",
        b"&amp;",
        b"&",
        b"<svg>",
        b"</svg>",
        b"<![CDATA[",
        b"]]>",
        b"]",
        b"<template>",
        b"</template>",
        b"<base ",
        b"<meta charset=",
        b"euc-jp",
        b"shift_jis",
        b"iso-2022-jp>",
        b"\x1b$B",
        b"\x1b(B",
        b"\x1b",
        b"\xa4\xa2",
        b"\x82\xa0",
        b"\xe3\x81\x82",
        b"\0",
        b"\r\n",
        b"x",
        b"<plaintext>",
        b"\xff\xfe",
        b"<textarea>",
        b"<iframe src=q>",
        b"<img srcset='a 1x, b'>",
        b"<p>",
        b"<?",
        b"<!",
    ];
    let piece = prop_oneof![
        8 => proptest::sample::select(bits).prop_map(<[u8]>::to_vec),
        1 => proptest::collection::vec(any::<u8>(), 1..6),
    ];
    proptest::collection::vec(piece, 0..60).prop_map(|pieces| pieces.concat())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, failure_persistence: None, ..Default::default() })]

    #[test]
    fn chunks_change_nothing(
        page in soup(),
        cuts in proptest::collection::vec(0usize..20, 0..40),
        padding in prop_oneof![Just(0usize), 1000usize..1100, 8000usize..8400],
        header in prop_oneof![Just(None), Just(Some("utf-8")), Just(Some("utf-16be"))],
    ) {
        let mut page = page;
        // Far enough to pass the bounds of prescan and detection.
        let at = page.len() / 2;
        page.splice(at..at, std::iter::repeat_n(b' ', padding));
        let options = ScanOptions { max_tag_bytes: 80, ..all() };
        let whole = scan(&page, header, &[], &options);
        prop_assert_eq!(&scan(&page, header, &cuts, &options), &whole);
        prop_assert_eq!(&scan(&page, header, &vec![1; page.len()], &options), &whole);
        prop_assert_eq!(&scan(&page, header, &[at, padding], &options), &whole);
    }

    #[test]
    fn any_bytes_are_survived(
        page in proptest::collection::vec(any::<u8>(), 0..3000),
        cuts in proptest::collection::vec(0usize..200, 0..20),
    ) {
        let whole = scan(&page, None, &[], &all());
        prop_assert_eq!(scan(&page, None, &cuts, &all()), whole);
    }
}
