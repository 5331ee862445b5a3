use super::*;
use proptest::prelude::*;

fn table(page: &str, base: Option<&str>) -> String {
    let site = base.map_or_else(Site::unknown, |base| Site::at(base).expect("a site"));
    Tol::of_page(page.as_bytes(), &site, &["docs", "page.html"]).write()
}

const PAGE: &str = "<a href='next.html#part'>n</a> <a href='/about us'>a</a> <a href='#here'>h</a> <a href=next.html>again</a>\
    <a href='HTTPS://Example.org/x'>x</a> <a href='http://example.org/y' rel=nofollow>y</a> <a href='//cdn.example/z'>z</a>\
    <a href='mailto:me@example.org'>m</a> <a href='http://[bad/'>b</a> <img src=picture.png>";

#[test]
fn internal_and_external_links_are_kept_apart() {
    assert_eq!(
        table(PAGE, None),
        "tol 1\ninternal next.html\ninternal /about%20us\nexternal HTTPS://Example.org/x\n\
         external nofollow http://example.org/y\nexternal //cdn.example/z\n"
    );
    assert_eq!(
        table(PAGE, Some("https://example.org/site")),
        "tol 1\ninternal next.html\ninternal /about%20us\ninternal HTTPS://Example.org/x\n\
         internal nofollow http://example.org/y\nexternal //cdn.example/z\n"
    );
}

#[test]
fn a_base_counts_as_in_the_page() {
    assert_eq!(
        table("<a href=a>1</a><base href='http://other.example/b/'>", None),
        "tol 1\nbase http://other.example/b/\nexternal a\n"
    );
    assert_eq!(
        table("<base href='../b/'><a href=a>", None),
        "tol 1\nbase ../b/\ninternal a\n"
    );
    // A base that is no place for documents does not count.
    assert_eq!(
        table("<base href='data:x'><a href=a>", None),
        "tol 1\ninternal a\n"
    );
}

#[test]
fn a_page_that_asks_not_to_be_followed_says_so_of_every_link() {
    assert_eq!(
        table("<meta name=robots content=nofollow><a href=a>", None),
        "tol 1\ninternal nofollow a\n"
    );
}

#[test]
fn a_feed_has_links() {
    let feed = b"<rss><channel><item><link>/a</link></item><item><link>https://x.example/</link></item></channel></rss>";
    let tol = Tol::of_feed(feed, &Site::unknown(), &["feed.xml"]).expect("a feed");
    assert_eq!(
        tol.write(),
        "tol 1\ninternal /a\nexternal https://x.example/\n"
    );
    assert_eq!(Tol::of_feed(b"<a/>", &Site::unknown(), &["x.xml"]), None);
    // Joined with `xml:base` and so with a site that nobody named.
    let feed = b"<feed xml:base='sub/'><entry><link href='b'/></entry></feed>";
    let tol = Tol::of_feed(feed, &Site::unknown(), &["feed.xml"]).expect("a feed");
    assert_eq!(tol.write(), "tol 1\ninternal /sub/b\n");
}

#[test]
fn what_is_no_table_is_not_read() {
    for bytes in [
        &b""[..],
        b"tol",
        b"tol 2\n",
        b"<html>tol 1\n",
        b"\xfftol 1\n",
    ] {
        assert_eq!(Tol::parse(bytes), None);
    }
}

#[test]
fn lines_that_cannot_be_read_cost_only_themselves() {
    let tol = Tol::parse(
        b"tol 1\r\ninternal a\r\n# comment\ninternal\ninternal two words\nfuture x\nexternal \xff\nexternal nofollow b\ninternal a\nbase c\nbase d",
    )
    .expect("a table");
    assert_eq!(
        tol.write(),
        "tol 1\nbase c\ninternal a\nexternal nofollow b\n"
    );
    assert_eq!(tol.left_out(), 3);
    assert_eq!((tol.internal().count(), tol.external().count()), (1, 1));
}

#[test]
fn a_table_has_bounds() {
    let mut text = "tol 1\n".to_owned();
    for i in 0..MAX_LINKS + 5 {
        text.push_str(&format!("internal {i}\n"));
    }
    let tol = Tol::parse(text.as_bytes()).expect("a table");
    assert_eq!((tol.links().len(), tol.left_out()), (MAX_LINKS, 5));
    // Of a link that the bound cuts nothing is taken.
    let mut long = "tol 1\ninternal a\n".to_owned();
    long.push_str(&"# comment\n".repeat(MAX_TOL_BYTES / 10 - 1));
    long.push_str(&format!("internal {}\n", "b".repeat(100)));
    let tol = Tol::parse(long.as_bytes()).expect("a table");
    assert_eq!(tol.links().len(), 1);
}

#[test]
fn a_site_is_at_a_web_address() {
    assert_eq!(Site::at("example.org").err(), Some(SiteError::NoUrl));
    assert_eq!(
        Site::at("ftp://example.org/").err(),
        Some(SiteError::Scheme)
    );
    let site = Site::at("https://example.org/docs?x#y").expect("a site");
    assert_eq!(
        site.url_of(&["a b", "c.html"]).as_str(),
        "https://example.org/docs/a%20b/c.html"
    );
}

fn piece() -> impl Strategy<Value = &'static str> {
    prop::sample::select(vec![
        "<a href='",
        "<a href=",
        "<base href='",
        "'>",
        ">",
        "<a rel=nofollow href=\"",
        "\">",
        "http://a.example/",
        "//b",
        "x y",
        "\n",
        "\t",
        "#",
        "?q=é",
        "é",
        "../",
        "mailto:",
        "<meta charset=shift_jis>",
        "\0",
        "\u{7f}",
        "%20",
        "nofollow ",
        "\\",
    ])
}

proptest! {
    /// What is written is what is read, whatever stands in the page.
    #[test]
    fn a_page_s_table_can_be_read(pieces in prop::collection::vec(piece(), 0..40), known in any::<bool>()) {
        let site = if known { Site::at("http://a.example/").expect("a site") } else { Site::unknown() };
        let tol = Tol::of_page(pieces.concat().as_bytes(), &site, &["p.html"]);
        prop_assert_eq!(Tol::parse(tol.write().as_bytes()), Some(tol));
    }

    #[test]
    fn any_bytes_are_taken(bytes in prop::collection::vec(any::<u8>(), 0..400)) {
        Tol::of_page(&bytes, &Site::unknown(), &["p"]);
        let mut table = b"tol 1\n".to_vec();
        table.extend_from_slice(&bytes);
        let tol = Tol::parse(&table).expect("a table");
        let again = Tol::parse(tol.write().as_bytes()).expect("a table");
        prop_assert_eq!((again.base(), again.links()), (tol.base(), tol.links()));
    }
}
