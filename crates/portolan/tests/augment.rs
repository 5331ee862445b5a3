//! `portolan augment` on a folder as a site generator leaves it: what stands in the tables, and that only what differs is written.

mod harness;

use harness::{Ran, number, portolan, run};
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::time::SystemTime;
use tempfile::TempDir;

const INDEX: &str = "<title>Home</title><a href='docs/one.html'>one</a> <a href='https://example.org/two.htm'>two</a> \
    <a href='https://elsewhere.example/' rel=nofollow>else</a> Today: <span id=Vol1>3 °C</span>";

fn site() -> TempDir {
    let dir = TempDir::new().expect("a temporary directory");
    fs::create_dir_all(dir.path().join("docs")).expect("a folder");
    fs::create_dir_all(dir.path().join(".git")).expect("a folder");
    for (name, text) in [
        ("index.html", INDEX),
        ("two.htm", "<p>no links"),
        (
            "docs/one.html",
            "<a href='../index.html#top'>home</a> <a href='?page=2'>more</a>",
        ),
        (
            "docs/stock.xml",
            "<stock><Vol1>17</Vol1><name>bolts</name></stock>",
        ),
        (
            "feed.xml",
            "<rss><channel><item><link>https://example.org/docs/one.html</link></item></channel></rss>",
        ),
        (".git/page.html", "<a href=x>"),
        ("notes.txt", "<a href=x>"),
    ] {
        fs::write(dir.path().join(name), text).expect("written");
    }
    dir
}

fn augment(folder: &Path, more: &[&str]) -> Ran {
    run(portolan().arg("augment").arg(folder).args(more))
}

/// The tables in the folder: name, text and when it was written.
fn tables(folder: &Path) -> BTreeMap<String, (String, SystemTime)> {
    let mut found = BTreeMap::new();
    for below in ["", "docs", ".git"] {
        for entry in fs::read_dir(folder.join(below)).expect("a folder") {
            let path = entry.expect("an entry").path();
            if path.extension().is_some_and(|e| e == "tol" || e == "tvi") {
                let written = path.metadata().and_then(|m| m.modified()).expect("a date");
                let name = path.strip_prefix(folder).expect("below").display();
                let text = fs::read_to_string(&path).expect("text");
                found.insert(name.to_string(), (text, written));
            }
        }
    }
    found
}

fn text_of<'a>(tables: &'a BTreeMap<String, (String, SystemTime)>, name: &str) -> &'a str {
    &tables.get(name).unwrap_or_else(|| panic!("no {name}")).0
}

#[test]
fn documents_get_tables_and_a_second_run_writes_nothing() {
    let dir = site();
    let base = ["--base", "https://example.org", "--json"];
    let told = augment(dir.path(), &base).succeeded().json();
    for (key, expected) in [
        ("documents", 5),
        ("tables_of_links", 4),
        ("internal_links", 5),
        ("external_links", 1),
        ("tables_of_parts", 2),
        ("parts", 2),
        ("written", 6),
        ("unchanged", 0),
    ] {
        assert_eq!(number(&told, key), expected, "{key}: {told}");
    }
    let first = tables(dir.path());
    let names: Vec<&str> = first.keys().map(String::as_str).collect();
    assert_eq!(
        names,
        [
            "docs/one.html.tol",
            "docs/stock.xml.tvi",
            "feed.xml.tol",
            "index.html.tol",
            "index.html.tvi",
            "two.htm.tol"
        ]
    );
    assert_eq!(
        text_of(&first, "index.html.tol"),
        "tol 1\ninternal docs/one.html\ninternal https://example.org/two.htm\n\
         external nofollow https://elsewhere.example/\n"
    );
    assert_eq!(
        text_of(&first, "docs/one.html.tol"),
        "tol 1\ninternal ../index.html\ninternal ?page=2\n"
    );
    assert_eq!(text_of(&first, "two.htm.tol"), "tol 1\n");
    assert_eq!(
        text_of(&first, "index.html.tvi"),
        "<!-- tvi 1 -->\n<span id=Vol1>3 °C</span>\n"
    );
    assert_eq!(
        text_of(&first, "docs/stock.xml.tvi"),
        "<!-- tvi 1 -->\n<Vol1>17</Vol1>\n"
    );

    let told = augment(dir.path(), &base).succeeded().json();
    assert_eq!(
        (number(&told, "written"), number(&told, "unchanged")),
        (0, 6)
    );
    assert_eq!(tables(dir.path()), first);
}

#[test]
fn only_what_changed_is_written_and_what_is_no_longer_true_removed() {
    let dir = site();
    augment(dir.path(), &[]).succeeded();
    let before = tables(dir.path());
    fs::write(dir.path().join("index.html"), INDEX.replace('3', "4")).expect("written");
    fs::write(dir.path().join("docs/stock.xml"), "<stock/>").expect("written");
    // A file of somebody else's that happens to have such a name is left alone.
    fs::write(dir.path().join("two.htm.tvi"), "mine").expect("written");
    let ran = augment(dir.path(), &[]).succeeded();
    assert!(
        ran.out.contains("1 file written, 4 unchanged, 1 removed"),
        "{}",
        ran.out
    );
    let after = tables(dir.path());
    assert!(text_of(&after, "index.html.tvi").contains("4 °C"));
    assert!(!after.contains_key("docs/stock.xml.tvi"));
    assert_eq!(text_of(&after, "two.htm.tvi"), "mine");
    for name in ["index.html.tol", "docs/one.html.tol", "two.htm.tol"] {
        assert_eq!(after[name], before[name], "{name}");
    }
}

#[cfg(unix)]
#[test]
fn who_may_read_a_document_may_read_its_tables() {
    use std::os::unix::fs::PermissionsExt;
    let dir = site();
    let page = dir.path().join("index.html");
    fs::set_permissions(&page, fs::Permissions::from_mode(0o644)).expect("set");
    augment(dir.path(), &[]).succeeded();
    let table = fs::metadata(dir.path().join("index.html.tol")).expect("a table");
    assert_eq!(table.permissions().mode() & 0o777, 0o644);
}

#[test]
fn mistakes_get_one_sentence() {
    let dir = site();
    let empty = TempDir::new().expect("a temporary directory");
    let blocked = site();
    fs::create_dir_all(blocked.path().join("two.htm.tol/x")).expect("a folder");
    let page = dir.path().join("index.html");
    for (folder, more, code, names) in [
        (
            Path::new("/nowhere/site"),
            vec![],
            2,
            "/nowhere/site is not there",
        ),
        (&page, vec![], 2, "is no folder"),
        (empty.path(), vec![], 2, "no .html"),
        (
            dir.path(),
            vec!["--base", "example.org"],
            2,
            "--base example.org",
        ),
        (dir.path(), vec!["--base", "ftp://a/"], 2, "http"),
        (blocked.path(), vec![], 1, "two.htm.tol cannot be written"),
    ] {
        let ran = augment(folder, &more);
        assert_eq!(ran.code, Some(code), "{ran:?}");
        assert_eq!(ran.err.trim_end().lines().count(), 1, "{ran:?}");
        assert!(ran.err.contains(names), "{ran:?}");
        assert_eq!(ran.out, "", "{ran:?}");
    }
    assert!(tables(dir.path()).is_empty(), "nothing is left behind");
}
