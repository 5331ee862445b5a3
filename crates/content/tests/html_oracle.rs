//! The scanner against html5ever: the same links in the same order, the same title and base, on
//! generated pages, on nasty ones written by hand, and on real ones where the machine has some.

mod oracle;

use std::path::{Path, PathBuf};

use portolan_content::CssScanner;
use portolan_content::html::{Element, Found, PageScanner, ScanOptions, Tag};
use proptest::prelude::*;

/// Where the scanner differs from html5ever on purpose or by design: what, a page that shows it, why.
const KNOWN_DIFFERENCES: &[(&str, &str, &str)] = &[
    (
        "tags the tree builder drops",
        "<p><frame src=x>",
        "FRAME outside FRAMESET, most of what stands in one: the links are told all the same. \
         The other tests count such tags as elements.",
    ),
    (
        "HTML left open inside SVG or MathML",
        "<svg><desc><p></desc><style><a href=x></style>",
        "The end tags, which a browser ignores, close the SVG; counting open elements would need a \
         tree. The other tests nest SVG properly.",
    ),
];

#[derive(Debug, PartialEq)]
struct Facts {
    links: Vec<(Element, String)>,
    title: Option<String>,
    base: Option<String>,
}

fn scan(page: &[u8], chunk: usize) -> (Facts, &'static encoding_rs::Encoding) {
    let options = ScanOptions {
        embeds: true,
        max_tag_bytes: 1 << 24,
        ..ScanOptions::default()
    };
    let options = ScanOptions {
        max_attribute_bytes: 1 << 24,
        max_title_bytes: 1 << 20,
        max_links: u32::MAX,
        ..options
    };
    let mut links = Vec::new();
    let mut sink = |item: Found<'_>| {
        if let Found::Link { element, href, .. } = item {
            links.push((element, href.to_owned()));
        }
    };
    let mut scanner = PageScanner::new(&options, None);
    for piece in page.chunks(chunk) {
        scanner.feed(piece, &mut sink);
    }
    let summary = scanner.finish(&mut sink);
    // What one attribute makes many links of, or few, is tested elsewhere.
    let elsewhere = [Tag::Applet, Tag::Meta, Tag::Style].map(Element::Part);
    links.retain(|(element, _)| *element != Element::MetaRefresh && !elsewhere.contains(element));
    for (element, _) in &mut links {
        if matches!(element, Element::Part(_)) {
            *element = Element::Part(Tag::Other);
        }
    }
    (
        Facts {
            links,
            title: summary.title,
            base: summary.base,
        },
        summary.charset.encoding,
    )
}

fn expected(page: &str) -> Facts {
    facts_of(page, true)
}

fn facts_of(page: &str, with_dropped: bool) -> Facts {
    let parsed = oracle::parse(page);
    let mut facts = Facts {
        links: Vec::new(),
        title: parsed.title,
        base: None,
    };
    for element in &parsed.elements {
        if element.inert || element.dropped && !with_dropped {
            continue;
        }
        let attribute = |name| element.attribute(name).map(trim);
        if element.is_html && element.name == "base" && facts.base.is_none() {
            facts.base = attribute("href").map(str::to_owned);
        }
        let href = || attribute("href").or(attribute("xlink:href"));
        // Which element a part is told of, `html_scan` tests.
        let part = |_| Element::Part(Tag::Other);
        let src = |tag| (part(tag), vec![attribute("src")], false);
        let lazy = |tag| {
            (
                part(tag),
                vec![attribute("src"), attribute("data-src")],
                false,
            )
        };
        let (kind, mut hrefs, empty_too) = match (element.name.as_str(), element.is_svg) {
            ("a", true) => (Element::A, vec![href()], true),
            ("image", true) => (part(Tag::Image), vec![href()], false),
            ("feimage", true) => (part(Tag::FeImage), vec![href()], false),
            ("script", true) => (part(Tag::Script), vec![href()], false),
            _ if !element.is_html && !element.is_svg => continue,
            (_, true) => (part(Tag::Other), vec![], false),
            ("a", _) => (Element::A, vec![attribute("href")], true),
            ("area", _) => (Element::Area, vec![attribute("href")], true),
            ("frame", _) => (Element::Frame, vec![attribute("src")], false),
            ("iframe", _) => (Element::Iframe, vec![attribute("src")], false),
            ("link", _) => {
                let rel = attribute("rel").unwrap_or_default();
                let documents = rel
                    .split_ascii_whitespace()
                    .any(|word| !["preconnect", "dns-prefetch", "pingback"].contains(&word));
                let href = attribute("href").filter(|_| documents);
                (Element::Link, vec![href], false)
            }
            ("img", _) => lazy(Tag::Img),
            ("image", _) => src(Tag::Image),
            ("script", _) => src(Tag::Script),
            ("embed", _) => src(Tag::Embed),
            ("object", _) => (part(Tag::Object), vec![attribute("data")], false),
            ("source", _) => lazy(Tag::Source),
            ("audio", _) => src(Tag::Audio),
            ("track", _) => src(Tag::Track),
            ("video", _) => {
                let urls = ["src", "poster", "data-src"].map(attribute).to_vec();
                (part(Tag::Video), urls, false)
            }
            ("input", _) => {
                let image =
                    attribute("type").is_some_and(|kind| kind.eq_ignore_ascii_case("image"));
                let src = attribute("src").filter(|_| image);
                (part(Tag::Input), vec![src], false)
            }
            _ => (part(Tag::Other), vec![], false),
        };
        let mut found: Vec<(Element, String)> = Vec::new();
        let told = hrefs.drain(..).flatten();
        let told = told.filter(|href| empty_too || !href.is_empty());
        found.extend(told.map(|href| (kind, href.to_owned())));
        let parts = parts_of_any(element);
        found.extend(parts.into_iter().map(|url| (part(Tag::Other), url)));
        facts.links.extend(found);
    }
    facts
}

/// What any element may have: a background, and images in its `style`. How style sheets are read is tested
/// elsewhere.
fn parts_of_any(element: &oracle::Element) -> Vec<String> {
    let mut urls = Vec::new();
    let background = element
        .attribute("background")
        .map(trim)
        .filter(|url| !url.is_empty());
    urls.extend(background.filter(|_| element.is_html).map(str::to_owned));
    let mut css = CssScanner::new(1 << 24);
    let mut each = |url: &[u8]| urls.push(trim(&String::from_utf8_lossy(url)).to_owned());
    let style = element.attribute("style").unwrap_or_default();
    css.feed(style.as_bytes(), &mut each);
    css.finish(&mut each);
    urls
}

fn trim(text: &str) -> &str {
    text.trim_matches(|c| matches!(c, '\t' | '\n' | '\x0c' | '\r' | ' '))
}

/// Compares whole and in chunks; the number of links.
fn check(page: &[u8], name: &dyn std::fmt::Display) -> usize {
    let (found, encoding) = scan(page, page.len().max(1));
    let expected = expected(&encoding.decode(page).0);
    if found != expected {
        let differs = found
            .links
            .iter()
            .zip(&expected.links)
            .position(|(a, b)| a != b);
        let at = differs.unwrap_or(found.links.len().min(expected.links.len()));
        panic!(
            "{name}: {} links, expected {}; title {:?}, {:?}; base {:?}, {:?}; first difference at \
             {at}: {:?}, expected {:?}",
            found.links.len(),
            expected.links.len(),
            found.title,
            expected.title,
            found.base,
            expected.base,
            found.links.get(at),
            expected.links.get(at),
        );
    }
    for chunk in [1, 61, 4096] {
        assert_eq!(scan(page, chunk).0, found, "{name} in chunks of {chunk}");
    }
    found.links.len()
}

#[test]
fn nasty_pages_written_by_hand() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/pages");
    let mut pages: Vec<PathBuf> = std::fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .collect();
    pages.sort();
    assert!(pages.len() >= 5);
    for path in pages {
        let page = std::fs::read(&path).unwrap();
        let links = check(&page, &path.display());
        println!("{}: {links} links", path.file_name().unwrap().display());
        assert!(links > 0);
        // The same page cut anywhere must do as well.
        for end in 0..page.len() {
            check_short(&page[..end], &path, end);
        }
    }
}

#[test]
fn known_differences_still_differ() {
    for (what, page, why) in KNOWN_DIFFERENCES {
        println!("known difference: {what}: {why}");
        let (found, _) = scan(page.as_bytes(), page.len());
        assert_ne!(
            found,
            facts_of(page, false),
            "{what} is no difference any more"
        );
    }
}

fn check_short(page: &[u8], path: &Path, end: usize) {
    let (found, encoding) = scan(page, page.len().max(1));
    let page = encoding.decode(page).0;
    assert_eq!(found, expected(&page), "{} cut at {end}", path.display());
}

/// How many bytes of real pages are read: enough to meet much, not so many as to be slow.
const REAL_BYTES: u64 = 12 << 20;

#[test]
fn real_pages_of_this_machine() {
    let limit = std::env::var("PORTOLAN_REAL_BYTES")
        .ok()
        .and_then(|value| value.parse().ok());
    let limit = limit.unwrap_or(REAL_BYTES);
    let mut pages = Vec::new();
    for folder in real_folders() {
        collect(&folder, &mut pages, 0);
    }
    pages.sort();
    let total: u64 = pages.iter().map(|(_, bytes)| bytes).sum();
    // Spread over all there are.
    let step = (total / limit.max(1) + 1) as usize;
    let (mut count, mut bytes, mut links) = (0, 0, 0);
    for (path, size) in pages.iter().step_by(step) {
        let Ok(page) = std::fs::read(path) else {
            continue;
        };
        links += check(&page, &path.display());
        count += 1;
        bytes += size;
    }
    println!(
        "real pages: {count} of {}, {bytes} bytes, {links} links",
        pages.len()
    );
    if count == 0 {
        println!("not run: no HTML on this machine");
    }
}

fn real_folders() -> Vec<PathBuf> {
    if let Some(folder) = std::env::var_os("PORTOLAN_REAL_PAGES") {
        return vec![folder.into()];
    }
    let mut folders = vec![PathBuf::from("/usr/share")];
    let sysroot = std::process::Command::new("rustc")
        .args(["--print", "sysroot"])
        .output();
    if let Ok(sysroot) = sysroot {
        let sysroot = String::from_utf8_lossy(&sysroot.stdout).trim().to_owned();
        folders.push(Path::new(&sysroot).join("share/doc"));
    }
    folders
}

/// The HTML files below `folder` that are not too large for the oracle's patience.
fn collect(folder: &Path, pages: &mut Vec<(PathBuf, u64)>, depth: usize) {
    const MAX_PAGE_BYTES: u64 = 1 << 20;
    let Ok(entries) = std::fs::read_dir(folder) else {
        return;
    };
    for entry in entries.flatten() {
        let Ok(kind) = entry.file_type() else {
            continue;
        };
        let path = entry.path();
        if kind.is_dir() && depth < 12 {
            collect(&path, pages, depth + 1);
        } else if kind.is_file()
            && path
                .extension()
                .is_some_and(|ext| ext == "html" || ext == "htm")
            && let Ok(meta) = entry.metadata()
            && meta.len() <= MAX_PAGE_BYTES
        {
            pages.push((path, meta.len()));
        }
    }
}

/// Pieces of HTML, good and bad, that may stand next to each other in any order.
fn piece() -> impl Strategy<Value = String> {
    let broken = vec![
        "<",
        ">",
        "</",
        "<!",
        "<?x>",
        "<!-- ",
        " -->",
        "--!>",
        "<!-->",
        "<!--->",
        "<!doctype html>",
        "<![CDATA[",
        "]]>",
        "<a href=",
        "<a href='",
        "<a href=\"x",
        "\"",
        "'",
        "=",
        "/",
        "</a>",
        "</p>",
        "</script>",
        "</title>",
        "</textarea>",
        "</style >",
        "</style/x>",
        "</noscript>",
        "</>",
        "</ x>",
        "<a\u{0c}href=q>",
        "<A HREF=u/>",
        "<a/href=w/>",
        "<a href=1 HREF=2>",
        "<a =href=3 href=4>",
        "<a x'y href=5>",
        "<a href=6<b>",
        "<a href>",
        "<a href=\"\n7\t\">",
        "<a href='a&amp;b&copy=c&lt'>",
        "<a href=&#x2F;&#47;x&notin;&not>",
        "<p>",
        "<div class=\"<a href=no>\">",
        "<td>",
        "<table>",
        "</table>",
        "<b>",
        "</b>",
        "<br/>",
        "text &amp; more",
        "\u{0}",
        "é漢",
        "\r\n",
        "<plain>",
        "<image src=i>",
        "<img src=j alt='>'>",
        "<base href=/b/>",
        "<base>",
        "<link rel=next href=l>",
        "<area href=m>",
        "<embed src=o>",
        "<input type=image src=p>",
        "<object data=q></object>",
        "<body background=r>",
        "<html><head>",
        "</head>",
        "<noscript><a href=s>",
        "<form><form>",
        "<script src=t></script>",
        "<script>",
        "<script><!--",
        "<script><!--<script>",
        "<textarea>",
        "<title>",
        "<style>",
        "<xmp>",
        "</xmp>",
        "<iframe src=v>",
        "</iframe>",
        "<noembed>",
        "</noembed>",
        "<noframes>",
        "</noframes>",
        "<template>",
        "</template>",
        "<select>",
        "<option>",
        "</select>",
        "<video src=x poster=y>",
        "<source src=z>",
        "<svg><a xlink:href=k /></svg>",
        "<svg><title><a href=st></a></title></svg>",
        "<svg><style><a href=ss /></style></svg>",
        "<svg><script>1<a href=sc /></script></svg>",
        "<svg><![CDATA[<a href=no>]]></svg>",
        "<svg><p><a href=out>",
        "<math><mi><a href=mi></a></mi></math>",
        "<svg/>",
        "<svg><foreignObject><title><a href=no></title></foreignObject></svg>",
        "<math><annotation-xml encoding=text/html><a href=ann></a></annotation-xml></math>",
        "<math><![CDATA[<a href=no>]]><mtext><textarea><a href=no></textarea></mtext></math>",
    ];
    let tag = ("[a-c]{1,2}", "( |/|=|'|\"|[a-c<]){0,6}").prop_map(|(n, a)| format!("<{n}{a}>"));
    prop_oneof![
        12 => proptest::sample::select(broken).prop_map(str::to_owned),
        2 => tag,
        2 => "[a-z]{1,3}".prop_map(|name| format!("<a href={name}>")),
        1 => "[ -~]{0,8}",
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 4000, failure_persistence: None, ..Default::default() })]

    #[test]
    fn generated_pages(pieces in proptest::collection::vec(piece(), 0..25), chunk in 1usize..40) {
        let page = pieces.concat();
        let (found, _) = scan(page.as_bytes(), page.len().max(1));
        prop_assert_eq!(&found, &expected(&page));
        prop_assert_eq!(&scan(page.as_bytes(), chunk).0, &found);
    }
}
