//! The graph's commands as a person types them: what bad input comes to, that machine-readable output can be read,
//! and that written files hold the graph.

mod harness;

use harness::{Ran, number, portolan, run, text};
use serde_json::Value;
use std::path::{Path, PathBuf};
use tempfile::TempDir;

struct Place(TempDir);

impl Place {
    fn new() -> Self {
        Place(TempDir::new().expect("a temporary directory"))
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn write(&self, name: &str, text: &str) -> PathBuf {
        let path = self.path(name);
        std::fs::write(&path, text).expect("written");
        path
    }

    /// A graph of tables.
    fn graph(&self, nodes: &str, edges: &str) -> [PathBuf; 2] {
        [
            self.write("nodes.tsv", nodes),
            self.write("edges.tsv", edges),
        ]
    }
}

fn portolan_on(words: &[&str], inputs: &[PathBuf], options: &[&str]) -> Ran {
    let mut command = portolan();
    command.args(words).args(inputs).args(options);
    run(&mut command)
}

/// A sentence after the notes, if there are any, and nothing on standard output.
#[track_caller]
fn refused(ran: &Ran, words: &[&str]) {
    assert_eq!(ran.code, Some(2), "{}\n{}", ran.out, ran.err);
    assert!(ran.out.is_empty(), "{}", ran.out);
    let sentence = ran.err.lines().last().expect("a sentence");
    assert!(sentence.starts_with("portolan: "), "{}", ran.err);
    for word in words {
        assert!(sentence.contains(word), "{word} is not in: {sentence}");
    }
}

const NODES: &str = "0\thttp://a.test/\t10\n1\thttp://a.test/x\t20\n2\thttp://b.test/\t30\n";
const EDGES: &str = "0\t1\n1\t2\n2\t0\n";

#[test]
fn bad_tables_are_refused_with_file_and_line() {
    let place = Place::new();
    let tried = |nodes: &str, edges: &str| {
        portolan_on(
            &["partition"],
            &place.graph(nodes, edges),
            &["--by", "site", "--parts", "2"],
        )
    };
    refused(
        &tried("0\thttp://a.test/\t99999999999999999999999\n", ""),
        &["nodes.tsv, line 1"],
    );
    let huge = format!("0\thttp://a.test/\t{0}\n1\thttp://b.test/\t{0}\n", u64::MAX);
    refused(&tried(&huge, "0\t1\n"), &["nodes.tsv, line 1"]);
    refused(&tried("", ""), &["empty"]);
    refused(&tried(NODES, "x\ty\n"), &["edges.tsv, line 1"]);
    refused(
        &tried("0\thttp://a.test/\t1\n0\thttp://b.test/\t1\n", ""),
        &["nodes.tsv, line 2"],
    );
    let with_parts = |parts: &str, by: &str| {
        portolan_on(
            &["partition"],
            &place.graph(NODES, EDGES),
            &["--by", by, "--parts", parts],
        )
    };
    refused(
        &with_parts("3", "site"),
        &["2 sites cannot be cut into 3 parts"],
    );
    refused(
        &with_parts("4", "page"),
        &["3 pages cannot be cut into 4 parts"],
    );
    refused(&with_parts("0", "page"), &["0 parts"]);
    let inputs = place.graph(NODES, EDGES);
    for command in ["graph", "order", "rank"] {
        let missing = [place.path("not-there")];
        refused(&portolan_on(&[command], &missing, &[]), &["not-there"]);
        let ran = portolan_on(&[command], &inputs, &["--json"]);
        assert_eq!(ran.code, Some(0), "{command}: {}", ran.err);
    }
}

#[test]
fn what_can_be_gone_on_without_is_counted_with_its_place() {
    let place = Place::new();
    let noted = |nodes: &str, edges: &str, words: &[&str]| {
        let inputs = place.graph(nodes, edges);
        let ran = portolan_on(&["graph"], &inputs, &["--json"]).succeeded();
        for word in words {
            assert!(ran.err.contains(word), "{word} is not in: {}", ran.err);
        }
        ran.json()
    };
    let words = [
        "1 links from or to an id that no node has",
        "edges.tsv, line 2: no node 7",
    ];
    let facts = noted(NODES, "0\t1\n7\t0\n", &words);
    assert_eq!(number(&facts, "links"), 1);
    let words = ["edges.tsv, line 2: no node 99"];
    assert_eq!(number(&noted(NODES, "0\t1\n0\t99\n", &words), "links"), 1);
    let odd = "0\thttp://a.test/\t10\n1\tnot a url\t3\n";
    noted(
        odd,
        "0\t1\n",
        &["1 URLs that cannot be parsed", "nodes.tsv, line 2"],
    );
}

#[test]
fn files_that_are_cut_are_refused() {
    let place = Place::new();
    let nodes = place.write("nodes.tsv", NODES);
    let cut = place.path("edges.tsv.gz");
    std::fs::write(&cut, b"\x1f\x8b\x08\x00").expect("written");
    refused(
        &portolan_on(&["graph"], &[nodes, cut], &[]),
        &["edges.tsv.gz"],
    );
    let input = [PathBuf::from("synthetic:pages=200,links=900,sites=9")];
    let out = place.path("bv");
    let options = [
        "--format",
        "webgraph",
        "--out",
        out.to_str().expect("UTF-8"),
    ];
    portolan_on(&["export", "graph"], &input, &options).succeeded();
    let file = out.join("graph.graph");
    let bytes = std::fs::read(&file).expect("a graph");
    std::fs::write(&file, &bytes[..bytes.len() / 2]).expect("written");
    refused(&portolan_on(&["graph"], &[file], &[]), &["graph.graph"]);
}

#[test]
fn repeated_links_and_links_to_oneself_are_counted_and_left_out() {
    let place = Place::new();
    let inputs = place.graph(NODES, "0\t1\n0\t1\n2\t2\n1\t2\n");
    let ran = portolan_on(&["graph"], &inputs, &["--json"]).succeeded();
    assert_eq!(number(&ran.json(), "links"), 2, "{}", ran.out);
    assert!(
        ran.err.contains("repeated") && ran.err.contains("to itself"),
        "{}",
        ran.err
    );
}

/// As many vertices as parts, weights that only a few have, no links: what METIS talks about on standard output.
#[test]
fn nothing_but_json_is_written_where_json_was_asked_for() {
    let place = Place::new();
    let mut random = 7_u64;
    let mut below = move |bound: u64| {
        random = random
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (random >> 33) % bound
    };
    for case in 0..24 {
        let sites = 4 + below(36);
        let (mut nodes, mut edges, mut pages) = (String::new(), String::new(), 0);
        for site in 0..sites {
            let weight = [0, 1, 1_000, 1_000_000][below(4) as usize];
            for page in 0..=[0, 0, 0, 1, 20][below(5) as usize] {
                nodes += &format!(
                    "{pages}\thttp://s{site}.test/{page}\t{}\n",
                    weight * below(9)
                );
                pages += 1;
            }
        }
        for _ in 0..pages * below(4) {
            edges += &format!("{}\t{}\n", below(pages), below(pages));
        }
        let parts = 2 + below(sites - 1);
        let inputs = place.graph(&nodes, &edges);
        let options = ["--by", "site", "--json", "--parts", &parts.to_string()];
        let ran = portolan_on(&["partition"], &inputs, &options).succeeded();
        let loads = ran.json()["measure"]["loads"]
            .as_array()
            .cloned()
            .expect("loads");
        assert_eq!(loads.len() as u64, parts, "case {case}");
        assert!(
            loads.iter().all(|load| load[1].as_u64() > Some(0)),
            "case {case}: an empty part"
        );
        assert_eq!(
            loads
                .iter()
                .filter_map(|load| load[1].as_u64())
                .sum::<u64>(),
            pages
        );
        // What can be within the tolerance is.
        let (within, can_be) = (
            &ran.json()["within_tolerance"],
            &ran.json()["can_be_within_tolerance"],
        );
        assert!(within == true || can_be != true, "case {case}: {}", ran.out);
        let again = portolan_on(&["partition"], &inputs, &options).succeeded();
        assert_eq!(again.out, ran.out, "the same seed, another cut");
    }
}

#[test]
fn exports_hold_the_graph() {
    let place = Place::new();
    let input = [PathBuf::from("synthetic:pages=3000,links=20000,sites=50")];
    let facts = portolan_on(&["graph"], &input, &["--json"])
        .succeeded()
        .json();
    let out = |format: &str| {
        let out = place.path(format);
        let options = ["--format", format, "--out", out.to_str().expect("UTF-8")];
        portolan_on(&["export", "graph"], &input, &options).succeeded();
        out
    };
    let same = |dir: &Path, keys: &[&str]| {
        let found = portolan_on(&["graph"], &[dir.to_owned()], &["--json"])
            .succeeded()
            .json();
        for key in keys {
            assert_eq!(found[key], facts[key], "{key} of {}", dir.display());
        }
    };
    same(&out("tsv"), &["pages", "links", "sites", "bytes"]);
    same(&out("webgraph"), &["pages", "links"]);
    let metis = std::fs::read_to_string(out("metis").join("graph.metis")).expect("a METIS file");
    let mut rows = metis.lines().filter(|line| !line.starts_with('%'));
    let head: Vec<u64> = rows
        .next()
        .expect("a head")
        .split_whitespace()
        .map(|word| word.parse().expect("a number"))
        .collect();
    assert_eq!(head[0], number(&facts, "pages"));
    assert_eq!(rows.count() as u64, head[0]);
    let parquet = out("parquet");
    let files: Vec<_> = std::fs::read_dir(&parquet)
        .expect("files")
        .flatten()
        .collect();
    assert!(files.len() >= 2, "{files:?}");
    for file in files {
        let bytes = std::fs::read(file.path()).expect("a table");
        assert!(
            bytes.starts_with(b"PAR1") && bytes.ends_with(b"PAR1"),
            "{file:?}"
        );
    }
}

#[test]
fn tables_are_drawn_and_written_for_programs() {
    let place = Place::new();
    let input = [PathBuf::from("synthetic:pages=2000,links=12000,sites=60")];
    let svg = place.path("figures");
    let svg_text = svg.to_str().expect("UTF-8");
    let options = [
        "--compare",
        "--parts",
        "2,4",
        "--runs",
        "2",
        "--json",
        "--svg",
        svg_text,
    ];
    let table = portolan_on(&["partition"], &input, &options).succeeded();
    let table: Value = serde_json::from_str(&table.out).expect("JSON");
    assert!(table.to_string().contains("exchange"), "{table}");
    let options = ["--compare", "--json", "--svg", svg_text];
    portolan_on(&["order"], &input, &options).succeeded().json();
    let drawn = std::fs::read_dir(&svg).expect("figures").flatten().count();
    assert!(drawn >= 4, "{drawn} figures");
    let modes = [
        "--modes", "--by", "site", "--method", "hash", "--parts", "2,4", "--json",
    ];
    let modes = portolan_on(&["partition"], &input, &modes).succeeded();
    assert!(modes.out.contains("firewall"), "{}", modes.out);
    let ranks = place.path("ranks.pv");
    for method in ["pagerank", "backlinks", "harmonic"] {
        let options = [
            "--method",
            method,
            "--top",
            "5",
            "--json",
            "--out",
            ranks.to_str().expect("UTF-8"),
        ];
        let ran = portolan_on(&["rank"], &input, &options).succeeded();
        let lines = ran.json_lines();
        assert_eq!(lines.len(), 5, "{}", ran.out);
        assert!(text(&lines[0], "url").starts_with("http"));
        assert!(ranks.exists());
    }
}

#[test]
fn written_files_replace_nothing_but_their_own_name() {
    let place = Place::new();
    let graph = place.graph(NODES, EDGES);
    let precious = place.write("parts.partial", "precious");
    let target = place.write("elsewhere.pv", "");
    let link = place.path("parts.pv");
    std::os::unix::fs::symlink(&target, &link).expect("a link");
    let out = link.display().to_string();
    let options = ["--parts", "2", "--by", "page", "--out", &out];
    let ran = portolan_on(&["partition"], &graph, &options);
    assert_eq!(ran.code, Some(0), "{}", ran.err);
    assert_eq!(std::fs::read(&precious).expect("still there"), b"precious");
    assert!(link.is_symlink());
    assert!(std::fs::metadata(&target).expect("the target").len() > 0);

    let dir = place.0.path().display().to_string();
    let ran = portolan_on(&["partition", "--parts", "2"], &graph, &["--out", &dir]);
    refused(&ran, &[&dir]);
    let file = precious.display().to_string();
    let options = ["--compare", "--parts", "2", "--svg", &file];
    refused(
        &portolan_on(&["partition"], &graph, &options),
        &["--svg", &file],
    );
    assert_eq!(std::fs::read(&precious).expect("still there"), b"precious");
}
