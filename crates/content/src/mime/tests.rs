use proptest::prelude::*;

use super::*;

fn kind(content_type: &str, body: &[u8]) -> DocumentKind {
    kind_of(MimeType::parse(content_type).as_ref(), body)
}

#[test]
fn content_types() {
    let mime = MimeType::parse(" Text/HTML ;Charset=\"Shift_JIS\"; x=y").expect("it parses");
    assert_eq!(mime.essence(), "text/html");
    assert_eq!((mime.kind(), mime.subtype()), ("text", "html"));
    assert_eq!(mime.charset(), Some("Shift_JIS"));
    assert_eq!(mime.parameter("X"), Some("y"));
    assert_eq!(mime.to_string(), "text/html;charset=Shift_JIS;x=y");
    for bad in [
        "",
        "text",
        "text/",
        "/html",
        "te xt/html",
        "text/ht ml",
        "text/html,text/plain",
    ] {
        assert_eq!(MimeType::parse(bad), None, "{bad}");
    }
    let many: String = (0..1000).map(|i| format!(";p{i}=1")).collect();
    let mime = MimeType::parse(&format!("a/b{many}")).expect("it parses");
    assert_eq!(mime.parameters.len(), MAX_PARAMETERS);
}

#[test]
fn kinds() {
    use DocumentKind::*;
    let page = b"<!DOCTYPE html>\n<html><body>x";
    let urlset = b"<?xml version='1.0'?>\n<!-- c -->\n<urlset xmlns='x'>";
    let rss = b"\xEF\xBB\xBF <?xml version='1.0'?><rss version='2.0'>";
    let rdf = b"<rdf:RDF xmlns='http://purl.org/rss/1.0/'>";
    let atom = b"<?xml-stylesheet href='x'?><feed xmlns='y'>";
    let xhtml = b"<?xml version='1.0'?><!DOCTYPE html [ <!ENTITY a '>'> ]><html>";
    let png = b"\x89PNG\r\n\x1A\n\0\0";
    let utf16: Vec<u8> = "\u{feff}<html>"
        .encode_utf16()
        .flat_map(u16::to_le_bytes)
        .collect();
    let cases: &[(&str, &[u8], DocumentKind)] = &[
        ("text/html", page, Html),
        ("text/html; charset=x", b"no markup at all", Html),
        ("text/html", b"", Html),
        ("text/html", urlset, Sitemap),
        ("text/html", rss, Feed),
        ("text/html", png, Other),
        ("text/html", b"%PDF-1.4", Other),
        ("text/html", b"<svg>", Html),
        ("application/xhtml+xml", xhtml, Html),
        ("", page, Html),
        ("", &utf16, Html),
        ("", b"  <title>x", Html),
        ("", b"<p>x", Html),
        ("", b"words", PlainText),
        ("", png, Other),
        ("", b"\0\x01\x02", Other),
        ("nonsense", urlset, Sitemap),
        ("application/octet-stream", page, Html),
        ("application/octet-stream", b"\x1F\x8B\x08\0", Other),
        ("text/plain", page, Html),
        ("text/plain", b"words", PlainText),
        ("text/plain", urlset, Sitemap),
        ("text/plain; charset=utf-8", b"\x1F\x8B\x08\0", Other),
        ("text/xml", urlset, Sitemap),
        ("application/xml", b"<s:sitemapindex>", Sitemap),
        ("application/xml", rss, Feed),
        ("application/xml", rdf, Feed),
        ("application/rdf+xml", b"<rdf:RDF>", Feed),
        ("application/xml", b"<rdf:RDF>", Other),
        ("application/xml", xhtml, Html),
        ("application/xml", page, Html),
        ("application/xml", b"<svg>", Other),
        ("image/svg+xml", b"<svg>", Other),
        ("application/atom+xml", atom, Feed),
        ("application/rss+xml", b"<!-- a long comment", Html),
        ("application/rss+xml", b"", Feed),
        ("application/rss+xml", page, Html),
        ("text/css", b"a{}", Css),
        ("application/json", b"{}", Other),
        ("image/jpeg", page, Other),
        ("text/markdown", b"# x", PlainText),
    ];
    for (content_type, body, expected) in cases {
        let body_text = String::from_utf8_lossy(body);
        assert_eq!(
            kind(content_type, body),
            *expected,
            "{content_type:?} {body_text:?}"
        );
    }
}

#[test]
fn sniffing() {
    let cases: &[(&[u8], &str)] = &[
        (b"", "text/plain"),
        (b"words", "text/plain"),
        (b"\xFE\xFF\0a", "text/plain"),
        (b"\n <HtMl>", "text/html"),
        (b"<!-- x", "text/html"),
        (b"<html\n", "text/html"),
        (b"<htmlx", "text/plain"),
        (b"<b", "text/plain"),
        (b" <?xml version", "text/xml"),
        (b"%PDF-1.7", "application/pdf"),
        (b"GIF89a\0", "image/gif"),
        (b"GIF89a is a format", "text/plain"),
        (b"BM is not a bitmap", "text/plain"),
        (b"BM\0\0", "image/bmp"),
        (b"\xFF\xD8\xFF\xE0", "image/jpeg"),
        (b"RIFF\0\0\0\0WEBPVP8 ", "image/webp"),
        (b"RIFF\0\0\0\0WAVE", "audio/wave"),
        (b"\0\0\0\x18ftypmp42\0\0\0\0mp41isom", "video/mp4"),
        (
            b"\0\0\0\x14ftypqt  \0\0\0\0qt  ",
            "application/octet-stream",
        ),
        (b"\0\0\0\x18ftypisom\0\0\0\0isommp41", "video/mp4"),
        (b"\x1F\x8B\x08\0", "application/x-gzip"),
        (b"PK\x03\x04", "application/zip"),
        (b"a\0b", "application/octet-stream"),
    ];
    for (bytes, expected) in cases {
        assert_eq!(
            sniff(bytes),
            *expected,
            "{:?}",
            String::from_utf8_lossy(bytes)
        );
    }
    assert!(is_gzip(b"\x1F\x8B\x08\0"));
    assert!(!is_gzip(b"\x1F\x8B"));
}

proptest! {
    #[test]
    fn any_bytes_are_taken(header: Vec<u8>, text: String, body: Vec<u8>) {
        let parsed = MimeType::parse_header(&header);
        let _ = MimeType::parse(&text);
        let _ = kind_of(parsed.as_ref(), &body);
        let _ = sniff(&body);
        let _ = utf8_by_bom(&body);
    }

    /// Written and parsed again, a type is the same.
    #[test]
    fn writing_loses_nothing(text in "[a-zA-Z]{1,5}/[a-z+]{1,5}(;[a-z]{0,3}=?\"?[ -~\u{e9}]{0,6}\"?){0,4}") {
        if let Some(mime) = MimeType::parse(&text) {
            prop_assert_eq!(MimeType::parse(&mime.to_string()), Some(mime));
        }
    }

    #[test]
    fn any_document_has_a_kind(pieces in prop::collection::vec(prop::sample::select(vec![
        "<?xml", "?>", "<!--", "-->", "<!DOCTYPE", "[", "]>", "<html", "<urlset", ">", " ", "\u{feff}", "<rss", "x", "\0",
    ]), 0..12)) {
        let _ = kind_of(None, pieces.concat().as_bytes());
    }
}
