//! What is written can be read again, and damage is seen.

mod small;

use std::time::Instant;

use parquet::file::reader::{FileReader, SerializedFileReader};
use portolan_graph::{
    Cut, CutGraph, CutSettings, Cutter, Method, PartVector, RankTable, SyntheticSpec, Unit,
    Unlisted, VectorPartitioner, WebGraph, read_bv, read_files, write_bv, write_metis,
    write_parquet, write_rank_table, write_tsv,
};
use portolan_model::{CanonicalUrl, Identities, PartitionId, Partitioner, UrlKey};

/// A secret of a crawl that no table was made with.
const IDS: Identities = Identities::of_secret([9; Identities::SECRET_BYTES]);

fn web(text: &str) -> WebGraph {
    SyntheticSpec::parse(text)
        .and_then(|spec| spec.graph())
        .expect("a graph")
}

fn cut(graph: &WebGraph, unit: Unit) -> Cut {
    Cutter::new(graph, unit)
        .and_then(|mut cutter| {
            cutter.cut(&CutSettings {
                parts: 7,
                unit,
                method: Method::Hash,
                tolerance: 0.05,
                seed: 3,
            })
        })
        .expect("a cut")
}

#[test]
fn part_vectors_say_what_was_cut_and_look_ups_are_quick() {
    let graph = web("pages=100000,links=100000");
    let dir = tempfile::tempdir().expect("a directory");
    for unit in [Unit::Page, Unit::Site] {
        let cut = cut(&graph, unit);
        let path = dir.path().join("parts.pv");
        assert_eq!(
            PartVector::write(&path, &graph, &cut, 3).expect("written"),
            0
        );
        let vector = PartVector::open(&path).expect("opened");
        assert_eq!((vector.parts(), vector.unit()), (7, unit));
        let keys: Vec<UrlKey<'_>> = (0..graph.pages.count())
            .map(|page| graph.pages.key(page))
            .collect();
        let start = Instant::now();
        for (page, key) in keys.iter().enumerate() {
            let wanted = PartitionId(cut.part_of_page(&graph, page as u32));
            assert_eq!(vector.find(*key), Some(wanted));
        }
        println!(
            "{:.0} ns a look-up",
            start.elapsed().as_nanos() as f64 / keys.len() as f64
        );
        let stranger =
            CanonicalUrl::from_canonical("http://stranger.test/".to_owned()).expect("a URL");
        assert_eq!(vector.find(UrlKey::of(&stranger, &IDS)), None);
    }
}

#[test]
fn every_change_and_every_cut_is_refused() {
    let graph = web("pages=60,links=100");
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("parts.pv");
    PartVector::write(&path, &graph, &cut(&graph, Unit::Page), 3).expect("written");
    let whole = std::fs::read(&path).expect("read");
    for at in 0..whole.len() {
        let mut changed = whole.clone();
        changed[at] ^= 1 << (at % 8);
        std::fs::write(&path, &changed).expect("written");
        PartVector::open(&path).expect_err("changed");
        std::fs::write(&path, &whole[..at]).expect("written");
        PartVector::open(&path).expect_err("cut off");
    }
    std::fs::write(&path, [whole.as_slice(), b"x"].concat()).expect("written");
    PartVector::open(&path).expect_err("longer");
    for (bytes, words) in [
        (b"".to_vec(), "no part vector"),
        (
            b"hello, this is something else altogether, and long".to_vec(),
            "no part vector",
        ),
        (whole[..whole.len() - 1].to_vec(), "cut off"),
        (
            {
                let mut newer = whole.clone();
                newer[8] = 9;
                newer
            },
            "format 9",
        ),
    ] {
        std::fs::write(&path, bytes).expect("written");
        let error = PartVector::open(&path).expect_err(words).to_string();
        assert!(
            error.contains(words) && error.contains("parts.pv"),
            "{error}"
        );
    }
}

#[test]
fn what_the_vector_does_not_list_belongs_to_one_part_only() {
    let graph = web("pages=60,links=100");
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("parts.pv");
    PartVector::write(&path, &graph, &cut(&graph, Unit::Page), 3).expect("written");
    let open = |unlisted, max_claims| {
        VectorPartitioner::new(
            PartVector::open(&path).expect("opened"),
            unlisted,
            max_claims,
        )
    };
    let urls: Vec<CanonicalUrl> = (0..50)
        .map(|n| CanonicalUrl::from_canonical(format!("http://new{n}.test/")).expect("a URL"))
        .collect();
    let first = open(Unlisted::Discoverer, 50);
    for (n, url) in urls.iter().enumerate() {
        let finder = PartitionId((n % 7) as u16);
        assert_eq!(
            first.part_of(UrlKey::of(url, &IDS), finder),
            finder,
            "its discoverer"
        );
    }
    let hashed = open(Unlisted::SiteHash, 50);
    let full = open(Unlisted::Discoverer, 10);
    let claims = first.take_claims();
    assert_eq!(claims.len(), 50);
    assert!(first.take_claims().is_empty(), "taken once");
    // Another process that reads what was claimed decides the same.
    let later = open(Unlisted::Discoverer, 50).with_claims(claims.into_iter());
    for (n, url) in urls.iter().enumerate() {
        let owner = later.part_of(UrlKey::of(url, &IDS), PartitionId(0));
        assert_eq!(owner, PartitionId((n % 7) as u16));
    }
    assert!(later.take_claims().is_empty(), "nothing new");
    for partitioner in [&first, &hashed, &full, &later] {
        for url in &urls {
            let owner = partitioner.part_of(UrlKey::of(url, &IDS), PartitionId(0));
            for finder in 0..7 {
                assert_eq!(
                    partitioner.part_of(UrlKey::of(url, &IDS), PartitionId(finder)),
                    owner
                );
            }
        }
    }
    for page in 0..graph.pages.count() {
        let key = graph.pages.key(page);
        assert_eq!(
            first.part_of(key, PartitionId(6)),
            hashed.part_of(key, PartitionId(0))
        );
    }
}

#[test]
fn rank_tables_and_part_vectors_are_not_mistaken_for_each_other() {
    let graph = web("pages=500,links=3000");
    let dir = tempfile::tempdir().expect("a directory");
    let (ranks, parts) = (dir.path().join("ranks"), dir.path().join("parts"));
    let scores = portolan_graph::back_links(&graph.links);
    write_rank_table(&ranks, &graph, &scores).expect("written");
    PartVector::write(&parts, &graph, &cut(&graph, Unit::Page), 1).expect("written");
    let table = RankTable::open(&ranks).expect("opened");
    let best = portolan_graph::by_score(&scores);
    let class = |page: u32| table.find(&graph.pages.name(page)).expect("listed");
    assert!(best.windows(2).all(|pair| class(pair[0]) >= class(pair[1])));
    assert!(class(best[0]) > class(best[best.len() - 1]));
    RankTable::open(&parts).expect_err("a part vector");
    PartVector::open(&ranks).expect_err("a rank table");
}

fn same(a: &WebGraph, b: &WebGraph) {
    assert_eq!(a.links, b.links);
    assert!((0..a.pages.count()).all(|page| a.pages.url(page) == b.pages.url(page)));
}

#[test]
fn graphs_survive_tsv_and_bv_and_streams_write_the_same() {
    let text = "pages=2000,links=30000,seed=5";
    let graph = web(text);
    let plan = SyntheticSpec::parse(text).expect("a spec").plan();
    let dir = tempfile::tempdir().expect("a directory");
    let (whole, streamed) = (dir.path().join("whole"), dir.path().join("streamed"));
    for (rows, dir) in [
        (&graph as &dyn portolan_graph::GraphRows, &whole),
        (&plan, &streamed),
    ] {
        std::fs::create_dir(dir).expect("made");
        write_tsv(rows, dir).expect("written");
        let back = read_files(std::slice::from_ref(dir)).expect("read");
        same(&graph, &back);
        assert_eq!(back.pages.total_bytes(), graph.pages.total_bytes());
        write_bv(rows, &dir.join("g")).expect("written");
        same(&graph, &read_bv(&dir.join("g")).expect("read"));
    }
    for name in ["nodes.tsv", "edges.tsv", "g.graph", "g.offsets", "g.urls"] {
        let read = |dir: &std::path::Path| std::fs::read(dir.join(name)).expect("read");
        assert!(read(&whole) == read(&streamed), "{name}");
    }
}

#[test]
fn parquet_is_read_by_its_own_reader() {
    let graph = web("pages=700,links=5000");
    let dir = tempfile::tempdir().expect("a directory");
    write_parquet(&graph, dir.path()).expect("written");
    let rows = |name: &str| {
        let file = std::fs::File::open(dir.path().join(name)).expect("opened");
        let reader = SerializedFileReader::new(file).expect("parquet");
        let rows = reader.get_row_iter(None).expect("rows");
        rows.map(|row| row.expect("a row").to_string())
            .collect::<Vec<_>>()
    };
    let nodes = rows("nodes.parquet");
    assert_eq!(nodes.len(), 700);
    assert!(
        nodes[9].contains(graph.pages.url(9).expect("a URL")),
        "{}",
        nodes[9]
    );
    assert!(nodes[9].contains(&graph.pages.bytes(9).to_string()));
    let edges = rows("edges.parquet");
    let wanted: Vec<String> = graph
        .links
        .iter()
        .map(|(from, to)| format!("{{from: {from}, to: {to}}}"))
        .collect();
    assert_eq!(edges, wanted);
}

#[test]
fn the_metis_file_holds_the_cut_graph() {
    let graph = small::graph(
        &[
            ("http://a.test/", 5),
            ("http://b.test/1", 6),
            ("http://b.test/22", 7),
        ],
        &[(0, 1), (1, 0), (1, 2)],
    );
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("g.metis");
    let text = |unit| {
        write_metis(&CutGraph::of(&graph, unit).expect("a graph"), &path).expect("written");
        let text = std::fs::read_to_string(&path).expect("read");
        text.lines().skip(1).map(str::to_owned).collect::<Vec<_>>()
    };
    assert_eq!(
        text(Unit::Page),
        ["3 2 011 2", "5 1 2 29", "6 1 1 29 3 16", "7 1 2 16"]
    );
    assert_eq!(text(Unit::Site), ["2 1 011 2", "5 1 2 29", "13 2 1 29"]);
}
