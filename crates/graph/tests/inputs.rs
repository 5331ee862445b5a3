//! Bad input: an error that names file and line, or a counted note; never a wrong graph.

mod small;

use std::path::PathBuf;

use portolan_graph::{WebGraph, read_files};

fn read(nodes: &str, edges: &str) -> Result<WebGraph, String> {
    let dir = tempfile::tempdir().expect("a directory");
    let paths: Vec<PathBuf> = [("nodes.tsv", nodes), ("edges.tsv", edges)]
        .map(|(name, text)| {
            let path = dir.path().join(name);
            std::fs::write(&path, text).expect("written");
            path
        })
        .into();
    read_files(&paths).map_err(|error| error.to_string())
}

const NODES: &str = "0\thttp://a.test/\t10\n1\thttp://b.test/x\t20\textra\n";

#[test]
fn tables_are_read() {
    let graph = read(NODES, "0\t1\n1\t0\n1\t0\n1\t1\n").expect("a graph");
    assert_eq!(graph.links.iter().collect::<Vec<_>>(), [(0, 1), (1, 0)]);
    assert_eq!((graph.pages.bytes(1), graph.pages.url_bytes(1)), (20, 15));
    assert_eq!(graph.pages.sites(), 2);
    let notes: Vec<String> = graph.notes.iter().map(ToString::to_string).collect();
    assert!(
        notes.iter().any(|note| note.starts_with("1 repeated")),
        "{notes:?}"
    );
    assert!(
        notes.iter().any(|note| note.contains("to itself")),
        "{notes:?}"
    );
}

#[test]
fn ids_may_be_any_numbers_in_any_order() {
    let graph = read(
        "900\thttp://a.test/\n7\thttp://b.test/\n0\thttp://c.test/\n",
        "7\t900\n0\t7\n",
    )
    .expect("a graph");
    assert_eq!(graph.links.iter().collect::<Vec<_>>(), [(1, 0), (2, 1)]);
}

#[test]
fn mistakes_are_named_with_file_and_line() {
    for (nodes, edges, words) in [
        (
            "0\thttp://a.test/\n\thttp://b.test/\n",
            "",
            "nodes.tsv, line 2: the node's id is missing",
        ),
        (
            "0\thttp://a.test/\nx\thttp://b.test/\n",
            "",
            "nodes.tsv, line 2",
        ),
        (
            "0\thttp://a.test/\n# c\n\n1\n",
            "",
            "nodes.tsv, line 4: node 1 has no URL",
        ),
        (
            "0\thttp://a.test/\n0\thttp://b.test/\n",
            "",
            "nodes.tsv, line 2: node 0 is listed twice",
        ),
        (
            "0\thttp://a.test/\t99999999999999999999999\n",
            "",
            "nodes.tsv, line 1",
        ),
        (
            "0\thttp://a.test/\t9999999999999999\n",
            "",
            "more than a page can have",
        ),
        ("0\thttp://a.test/\t-4\n", "", "is no number of bytes"),
        ("", "", "the graph is empty"),
        ("# nothing\n", "", "the graph is empty"),
        (
            NODES,
            "0\t1\n0\n",
            "edges.tsv, line 2: the link's target is missing",
        ),
        (
            NODES,
            "0\tone\n",
            "edges.tsv, line 1: the link's target, 'one'",
        ),
        (NODES, "18446744073709551616\t0\n", "edges.tsv, line 1"),
    ] {
        let error = read(nodes, edges).expect_err(words);
        assert!(error.contains(words), "{error}");
    }
}

#[test]
fn oddities_are_counted_and_left_out() {
    let graph = read(
        "0\thttp://a.test/\n1\tnot a URL\n2\talso not\n",
        "0\t1\n0\t7\n9\t0\n",
    )
    .expect("a graph");
    assert_eq!(graph.links.count(), 1);
    assert_eq!(graph.pages.sites(), 3, "unparsed URLs are no site together");
    let notes: Vec<String> = graph.notes.iter().map(ToString::to_string).collect();
    for words in [
        "2 URLs that cannot be parsed",
        "nodes.tsv, line 2",
        "2 links from or to an id that no node has",
        "edges.tsv, line 2: no node 7",
        "3 pages of unknown size",
    ] {
        assert!(
            notes.iter().any(|note| note.contains(words)),
            "{words}: {notes:?}"
        );
    }
}

#[test]
fn lines_that_are_no_text_or_endless_are_refused() {
    let dir = tempfile::tempdir().expect("a directory");
    let (nodes, edges) = (dir.path().join("nodes.tsv"), dir.path().join("edges.tsv"));
    std::fs::write(&edges, "").expect("written");
    for (bytes, words) in [
        (
            b"0\thttp://a.test/\n1\thttp://\xff/\n".to_vec(),
            "line 2: the line is not UTF-8",
        ),
        (vec![b'1'; 300_000], "longer than"),
        ([&[0x1f, 0x8b, 8, 0][..], &[7; 40]].concat(), "nodes.tsv"),
    ] {
        std::fs::write(&nodes, bytes).expect("written");
        let error = read_files(&[nodes.clone(), edges.clone()])
            .expect_err(words)
            .to_string();
        assert!(error.contains(words), "{error}");
    }
}

#[test]
fn what_is_not_there_is_said() {
    let dir = tempfile::tempdir().expect("a directory");
    for (paths, words) in [
        (vec![dir.path().to_path_buf()], "holds no crawl"),
        (vec![dir.path().join("none")], "is not there"),
        (vec![dir.path().join("none.graph")], "none.properties"),
        (vec![], "name a crawl's directory"),
        (vec![PathBuf::from("synthetic:pages=0")], "needs a page"),
        (
            vec![PathBuf::from("synthetic:pages=x")],
            "is not understood",
        ),
        (
            vec![PathBuf::from("synthetic:within=1.5")],
            "is not understood",
        ),
    ] {
        let error = read_files(&paths).expect_err(words).to_string();
        assert!(error.contains(words), "{error}");
    }
}

#[test]
fn a_changed_bv_file_is_refused_or_read_but_never_panics() {
    let dir = tempfile::tempdir().expect("a directory");
    let graph = portolan_graph::SyntheticSpec::parse("pages=300,links=3000")
        .and_then(|spec| spec.graph())
        .expect("a graph");
    let base = dir.path().join("g");
    portolan_graph::write_bv(&graph, &base).expect("written");
    let path = dir.path().join("g.graph");
    let whole = std::fs::read(&path).expect("read");
    let mut refused = 0;
    for at in (0..whole.len()).step_by(7) {
        std::fs::write(&path, &whole[..at]).expect("written");
        portolan_graph::read_bv(&base).expect_err("cut off");
        let mut changed = whole.clone();
        changed[at] ^= 0x10;
        std::fs::write(&path, &changed).expect("written");
        refused += usize::from(portolan_graph::read_bv(&base).is_err());
    }
    println!(
        "{refused} of {} changed files refused",
        whole.len().div_ceil(7)
    );
    assert!(refused > 0);
}
