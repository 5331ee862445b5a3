//! Canonical forms case by case, and what must hold for any text.

use super::*;
use crate::url::is_crawlable_href;
use proptest::prelude::*;

fn canonical(text: &str) -> String {
    match Canonicalizer::default().parse(text) {
        Ok(url) => url.into_string(),
        Err(error) => format!("error: {error}"),
    }
}

fn resolved(base: &str, href: &str) -> String {
    let canonicalizer = Canonicalizer::default();
    let base = canonicalizer.parse(base).expect("a base URL");
    match canonicalizer.resolve(&base, href) {
        Ok(url) => url.into_string(),
        Err(error) => format!("error: {error}"),
    }
}

#[test]
fn two_spellings_become_one() {
    for (text, expected) in [
        ("http://example.org", "http://example.org/"),
        ("  HTTP://EXAMPLE.org:80/\n", "http://example.org/"),
        ("https://example.org:443", "https://example.org/"),
        ("https://example.org:80/", "https://example.org:80/"),
        ("http://Bücher.de/", "http://xn--bcher-kva.de/"),
        ("http://example.org./x", "http://example.org/x"),
        ("http://example%2Eorg/", "http://example.org/"),
        ("http://0x7f.1/", "http://127.0.0.1/"),
        ("http://[2001:DB8:0::1]/", "http://[2001:db8::1]/"),
        ("http://me:secret@example.org/", "http://example.org/"),
        ("http://example.org/?", "http://example.org/"),
        ("http://example.org/x?#y", "http://example.org/x"),
        ("http://example.org/a/./b/../c", "http://example.org/a/c"),
        ("http://example.org/a/%2e%2E/c", "http://example.org/c"),
        ("http://example.org/%7euser", "http://example.org/~user"),
        ("http://example.org/a%2fb", "http://example.org/a%2Fb"),
        ("http://example.org/ä b", "http://example.org/%C3%A4%20b"),
        ("http://example.org\\a\\b", "http://example.org/a/b"),
        ("http://example.org//a//b", "http://example.org//a//b"),
        (
            "http://example.org/x?b=1&a=2",
            "http://example.org/x?b=1&a=2",
        ),
        (
            "http://example.org/a.do;jsessionid=1A?b=1",
            "http://example.org/a.do?b=1",
        ),
        (
            "http://example.org/a;v=1;jsessionid=1A;w=2/b",
            "http://example.org/a;v=1;w=2/b",
        ),
        (
            "http://example.org/x/..;jsessionid=1/y",
            "http://example.org/x/..;jsessionid=1/y",
        ),
        (
            "http://example.org/app/(S(lit3py55t21z5v55vlm25s55))/page.aspx?id=1",
            "http://example.org/app/page.aspx?id=1",
        ),
        (
            "http://example.org/app/(S(lit3py55t21z5v55vlm25s55))",
            "http://example.org/app/",
        ),
        (
            "http://example.org/(X(1)S(lit3py55t21z5v55vlm25s55))/../a",
            "http://example.org/a",
        ),
        (
            "http://example.org/f(x)/(S(a)b)/c",
            "http://example.org/f(x)/(S(a)b)/c",
        ),
    ] {
        assert_eq!(canonical(text), expected, "{text}");
    }
}

#[test]
fn what_cannot_be_crawled_says_why() {
    for (text, words) in [
        ("example.org", "no scheme; write http://"),
        ("", "no scheme"),
        ("ftps://example.org/", "'ftps' cannot be crawled"),
        ("mailto:me@example.org", "'mailto' cannot"),
        ("http://", "not a URL (empty host)"),
        ("http://./", "no usable host name"),
        ("http://example.org../", "no usable host name"),
        ("http://a b/", "not a URL"),
        (
            "http://example.org:99999/",
            "not a URL (invalid port number)",
        ),
    ] {
        let said = canonical(text);
        assert!(
            said.starts_with("error: ") && said.contains(words),
            "{text}: {said}"
        );
    }
    let long = format!("http://example.org/{}", "x".repeat(MAX_URL_BYTES));
    assert_eq!(
        Canonicalizer::default().parse(&long),
        Err(CanonicalUrlError::TooLong)
    );
    // Short enough to read, too long once it is escaped.
    let grows = format!("http://example.org/{}", " x".repeat(MAX_URL_BYTES / 3));
    assert_eq!(
        Canonicalizer::default().parse(&grows),
        Err(CanonicalUrlError::TooLong)
    );
    assert!(resolved("http://example.org/", &grows[19..]).contains("longer than"));
}

#[test]
fn a_person_may_leave_out_the_scheme() {
    let canonicalizer = Canonicalizer::default();
    for (text, expected) in [
        ("example.org", "http://example.org/"),
        (" example.org/a?b ", "http://example.org/a?b"),
        ("localhost:8080", "http://localhost:8080/"),
        ("localhost:8080/x:y", "http://localhost:8080/x:y"),
        ("127.0.0.1:8080/x", "http://127.0.0.1:8080/x"),
        ("[::1]:8080", "http://[::1]:8080/"),
        ("//example.org/x", "http://example.org/x"),
        ("https://example.org", "https://example.org/"),
        ("http:example.org", "http://example.org/"),
    ] {
        let url = canonicalizer.parse_seed(text).expect(text);
        assert_eq!(url.as_str(), expected, "{text}");
    }
    for text in [
        "",
        "mailto:me",
        "ftp://example.org",
        ":80",
        "a b",
        "http://",
    ] {
        assert!(canonicalizer.parse_seed(text).is_err(), "{text}");
    }
}

#[test]
fn links_resolve_as_a_browser_resolves_them() {
    let base = "https://example.org:8443/a/b/c.html?q=1";
    for (href, expected) in [
        ("", "https://example.org:8443/a/b/c.html?q=1"),
        ("#x", "https://example.org:8443/a/b/c.html?q=1"),
        ("?r=2", "https://example.org:8443/a/b/c.html?r=2"),
        ("?", "https://example.org:8443/a/b/c.html"),
        ("d.html#x", "https://example.org:8443/a/b/d.html"),
        ("../d/?x", "https://example.org:8443/a/d/?x"),
        ("../../../../d", "https://example.org:8443/d"),
        (".", "https://example.org:8443/a/b/"),
        ("..", "https://example.org:8443/a/"),
        ("/", "https://example.org:8443/"),
        ("/x/./y/..", "https://example.org:8443/x/"),
        ("//other.test", "https://other.test/"),
        ("//other.test:443/x", "https://other.test/x"),
        ("http://other.test?x", "http://other.test/?x"),
        ("https://example.org:8443", "https://example.org:8443/"),
        ("https://example.org:84", "https://example.org:84/"),
        ("https://example.org/x", "https://example.org/x"),
        ("HTTPS:d", "https://example.org:8443/a/b/d"),
        (
            "a:b",
            "error: the scheme 'a' cannot be crawled; http, https, ftp, gopher and file can",
        ),
        ("./a:b", "https://example.org:8443/a/b/a:b"),
        ("\\\\other.test\\x", "https://other.test/x"),
        ("d\n.html", "https://example.org:8443/a/b/d.html"),
        ("d?x\ty", "https://example.org:8443/a/b/d?xy"),
        ("d?utm_source=x&y", "https://example.org:8443/a/b/d?y"),
    ] {
        assert_eq!(resolved(base, href), expected, "{href:?}");
    }
}

/// Pieces of which odd URLs are made, joined at random; arbitrary text never comes near them.
fn odd_text() -> impl Strategy<Value = String> {
    let piece = prop_oneof![
        8 => prop::sample::select(vec![
            "/", "//", ".", "..", "%2e", "%2E", ";", "?", "&", "=", "#", ":", "@", "\\", "%", "%2",
            "%25", "%7e", "%2f", "%zz", " ", "\t", "\n", "http:", "https://", "http://", "HTTP:",
            "example.org", "Example.ORG", "other.test.", "a_b.test", "-x-.test", "ab--c.test",
            "xn--bcher-kva.de", "xn--a", "1.2.3.4", "0x7f", "1", ":80", ":443", ":8080", "[::1]",
            "jsessionid=1", ";jsessionid=x", "utm_source=1", "cfid=1", "cftoken=2", "(S(a))", "sid=", "a=1", "'", "\"", "<", "[x]",
            "|", "^", "{", "`", "ä", "あ", "\u{a0}", "\u{7f}", "\u{0}", "mailto:", "javascript:",
            "a", "b.html", "~c", "*", "$", "+", ",", "(", "!",
        ]).prop_map(str::to_owned),
        1 => any::<char>().prop_map(String::from),
        1 => "[a-z0-9.-]{1,12}",
    ];
    prop::collection::vec(piece, 0..10).prop_map(|pieces| pieces.concat())
}

fn some_base() -> impl Strategy<Value = CanonicalUrl> {
    prop_oneof![
        Just("http://example.org/".to_owned()),
        Just("https://example.org:8443/a/b/c?d=e".to_owned()),
        Just("http://[::1]:81/x/".to_owned()),
        odd_text().prop_map(|text| format!("https://example.org/{text}")),
    ]
    .prop_filter_map("bases are URLs", |text| {
        Canonicalizer::default().parse(&text).ok()
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(4_000))]

    #[test]
    fn the_short_way_and_the_parser_agree(base in some_base(), href in odd_text()) {
        let canonicalizer = Canonicalizer::default();
        if let Some(url) = direct::resolve(&canonicalizer.rules, &base, trimmed(&href)) {
            let by_parser = canonicalizer.resolve_by_parser(&base, &href);
            prop_assert_eq!(Ok(&url), by_parser.as_ref());
            let by_parser = by_parser.expect("equal to a URL");
            prop_assert_eq!(
                (url.host(), url.port(), url.path(), url.query()),
                (by_parser.host(), by_parser.port(), by_parser.path(), by_parser.query())
            );
        }
    }

    #[test]
    fn canonical_form_is_stable(base in some_base(), href in odd_text()) {
        let canonicalizer = Canonicalizer::default();
        if let Ok(url) = canonicalizer.resolve(&base, &href) {
            prop_assert_eq!(canonicalizer.parse(url.as_str()), Ok(url.clone()));
            prop_assert_eq!(canonicalizer.resolve(&base, url.as_str()), Ok(url.clone()));
            let read = CanonicalUrl::from_canonical(url.as_str().to_owned());
            prop_assert_eq!(read.as_ref(), Ok(&url));
            let read = read.expect("equal to a URL");
            prop_assert_eq!(
                (url.host(), url.port(), url.path(), url.query()),
                (read.host(), read.port(), read.path(), read.query())
            );
            prop_assert!(!url.registrable_domain().is_empty());
            prop_assert!(url.surt().contains(')'));
        }
    }

    #[test]
    fn the_prefilter_drops_no_document(base in some_base(), href in odd_text()) {
        if !is_crawlable_href(&href)
            && let Ok(url) = Canonicalizer::default().resolve(&base, &href)
        {
            prop_assert_eq!(url, base);
        }
    }
}

#[test]
fn other_schemes_are_for_who_asks_for_them() {
    let canonicalizer = Canonicalizer::new(&CanonicalSettings {
        also_schemes: vec![Scheme::Ftp, Scheme::Gopher, Scheme::File],
        ..CanonicalSettings::default()
    });
    for (text, expected) in [
        ("ftp://Example.ORG:21", "ftp://example.org/"),
        (
            "ftp://me:x@example.org/a b;type=i",
            "ftp://example.org/a%20b",
        ),
        ("ftp://example.org:2121/a/../b", "ftp://example.org:2121/b"),
        (
            "ftp://example.org/a?utm_source=x",
            "ftp://example.org/a%3Futm_source=x",
        ),
        ("gopher://EXAMPLE.org:70", "gopher://example.org/"),
        (
            "gopher://example.org:7070/1/Docs",
            "gopher://example.org:7070/1/Docs",
        ),
        (
            "gopher://[2001:DB8::1]/0x?y",
            "gopher://[2001:db8::1]/0x%3Fy",
        ),
        ("file:///srv/a b.txt?x#y", "file://localhost/srv/a%20b.txt"),
        ("file://localhost/srv/", "file://localhost/srv/"),
    ] {
        let url = canonicalizer.parse(text).expect("a URL");
        assert_eq!(url.as_str(), expected, "{text}");
        let again = canonicalizer.parse(url.as_str()).expect("a URL");
        assert_eq!(again.as_str(), expected);
        let read = CanonicalUrl::from_canonical(expected.to_owned()).expect("canonical");
        assert_eq!(
            (read.scheme(), read.host(), read.port(), read.path()),
            (url.scheme(), url.host(), url.port(), url.path())
        );
    }
    let base = canonicalizer
        .parse("ftp://example.org/pub/a")
        .expect("a URL");
    for (href, expected) in [
        ("b", "ftp://example.org/pub/b"),
        ("//other.org/x", "ftp://other.org/x"),
        ("http://x.org/?a", "http://x.org/?a"),
    ] {
        let url = canonicalizer.resolve(&base, href).expect("a URL");
        assert_eq!(url.as_str(), expected);
    }
    for text in [
        "file://example.org/x",
        "gopher:///x",
        "gopher:x",
        "ftps://example.org/",
    ] {
        assert!(canonicalizer.parse(text).is_err(), "{text}");
    }
    let refused = Canonicalizer::default().parse("ftp://example.org/");
    assert_eq!(refused, Err(CanonicalUrlError::NotAsked(Scheme::Ftp)));
}
