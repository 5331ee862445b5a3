use super::*;
use proptest::prelude::*;

fn of(markup: Markup, document: &str) -> Tvi {
    Tvi::of_document(markup, document.as_bytes())
}

fn text(bytes: Vec<u8>) -> String {
    String::from_utf8(bytes).expect("UTF-8")
}

#[test]
fn a_page_says_which_spans_are_volatile() {
    let page = "<p>Now <span id=Vol1>12:00</span>, <span class='big Volatile' id=price>3 €</span>, \
        <span id=other>stays</span> <span class=volatile>nameless</span> <span id=volt>no</span>";
    assert_eq!(
        text(of(Markup::Html, page).write()),
        "<!-- tvi 1 -->\n<span id=Vol1>12:00</span>\n<span class='big Volatile' id=price>3 €</span>\n"
    );
}

#[test]
fn xml_has_numbered_elements() {
    let xml = "\u{feff}<?xml version='1.0'?><!-- c --><stock>\n<Vol1 unit='EUR'>3 &lt; <Vol1>4</Vol1></Vol1>\
        <Vol2/><vol3>no</vol3><Vol>no</Vol><![CDATA[<Vol4></Vol4>]]><Vol5><a>1</a></Vol5></stock>";
    let tvi = of(Markup::Xml, xml);
    assert_eq!(
        text(tvi.write()),
        "<!-- tvi 1 -->\n<Vol1 unit='EUR'>3 &lt; <Vol1>4</Vol1></Vol1>\n<Vol2/>\n<Vol5><a>1</a></Vol5>\n"
    );
    assert_eq!(Tvi::parse(Markup::Xml, &tvi.write()), Some(tvi.clone()));
    let refreshed = tvi.put_into(Markup::Xml, xml.replace("<a>1</a>", "").as_bytes());
    assert_eq!(text(refreshed.document), xml);
    assert_eq!((refreshed.replaced, refreshed.missing), (3, 0));
}

#[test]
fn new_parts_go_where_the_old_ones_are() {
    let yesterday =
        "<html><p>It is <span id=Vol1>cold</span>.<p><span id=b class=volatile>1</span></html>";
    let today = yesterday
        .replace("cold", "<i>warm</i>")
        .replace(">1<", ">2<");
    let tvi = of(Markup::Html, &today);
    let refreshed = tvi.put_into(Markup::Html, yesterday.as_bytes());
    assert_eq!(text(refreshed.document), today);
    assert_eq!((refreshed.replaced, refreshed.missing), (2, 0));
    let refreshed = tvi.put_into(Markup::Html, b"<p>another <span id=b></span>");
    assert_eq!((refreshed.replaced, refreshed.missing), (1, 1));
}

#[test]
fn what_is_no_table_is_not_read() {
    for bytes in [
        &b""[..],
        b"<!-- tvi",
        b"<html>Not found",
        b"<!-- tvi 2 -->\n<span id=a></span>",
    ] {
        assert_eq!(Tvi::parse(Markup::Html, bytes), None);
    }
    let mut long = FIRST_LINE.to_vec();
    long.resize(MAX_TVI_BYTES + 1, b' ');
    assert_eq!(Tvi::parse(Markup::Html, &long), None);
}

/// A table cut off within an element does not name that element.
#[test]
fn a_cut_table_has_whole_parts_only() {
    let whole = of(Markup::Html, "<span id=Vol1>a</span><span id=Vol2>b</span>").write();
    for end in FIRST_LINE.len()..whole.len() {
        let tvi = Tvi::parse(Markup::Html, &whole[..end]).expect("a table");
        for part in &tvi.parts {
            assert!(part.element.ends_with(b"</span>"), "cut at {end}");
        }
    }
}

#[test]
fn escaped_japanese_is_no_markup() {
    let mut page = b"<span id=Vol1>".to_vec();
    page.extend_from_slice(b"\x1b$B</span>\x1b(B</span>");
    let tvi = Tvi::of_document(Markup::Html, &page);
    assert_eq!(tvi.parts[0].element, page);
}

/// Pieces that documents are made of, broken ones among them.
fn piece() -> impl Strategy<Value = &'static str> {
    prop::sample::select(vec![
        "<span id=Vol1>",
        "<span id=Vol2 class=x>",
        "<span class=volatile id='a-b'>",
        "<span>",
        "<span id=Vol2>",
        "<span id='a-b'>",
        "</span>",
        "<Vol1>",
        "</Vol1>",
        "<Vol2 a='>'>",
        "</Vol2 >",
        "<Vol3/>",
        "text",
        " ",
        "\n",
        "<",
        ">",
        "<!--",
        "-->",
        "<script>",
        "</script>",
        "&amp;",
        "\"",
        "'",
        "<![CDATA[",
        "]]>",
        "é",
        "\u{1b}$B",
        "\u{1b}(B",
        "<?x",
        "?>",
    ])
}

proptest! {
    #[test]
    fn any_bytes_are_taken(bytes in prop::collection::vec(any::<u8>(), 0..300), xml in any::<bool>()) {
        let markup = if xml { Markup::Xml } else { Markup::Html };
        let table = [FIRST_LINE, &bytes].concat();
        if let Some(tvi) = Tvi::parse(markup, &table) {
            tvi.put_into(markup, &bytes);
        }
        Tvi::of_document(markup, &bytes);
    }

    /// A document's own table changes nothing in it, and survives being written and read.
    #[test]
    fn a_table_is_of_its_document(pieces in prop::collection::vec(piece(), 0..40), xml in any::<bool>()) {
        let markup = if xml { Markup::Xml } else { Markup::Html };
        let document = pieces.concat();
        let tvi = of(markup, &document);
        let refreshed = tvi.put_into(markup, document.as_bytes());
        prop_assert_eq!(text(refreshed.document), document);
        prop_assert_eq!(refreshed.missing, 0);
        prop_assert_eq!(Tvi::parse(markup, &tvi.write()), Some(tvi));
    }
}
