//! The real graphs: read as they are said to be, and cut in the paper's shape.

mod small;

use portolan_graph::{
    Column, CompareSettings, CutSettings, Cutter, DSets, Facts, Measure, Method, PageRankSettings,
    Unit, compare, pagerank, read_files,
};

#[test]
fn cnr_2000_is_read_ranked_and_cut() {
    let Some(dir) = small::real("cnr-2000") else {
        return;
    };
    let graph = read_files(&[dir]).expect("a graph");
    let to_self: u64 = graph
        .notes
        .iter()
        .filter(|note| note.what.contains("to itself"))
        .map(|note| note.count)
        .sum();
    assert_eq!(graph.pages.count(), 325_557);
    assert_eq!(graph.links.count() + to_self, 3_216_152);
    let ranks = pagerank(
        &graph.links,
        &graph.links.transposed(),
        PageRankSettings::default(),
    );
    assert!(ranks.change <= 1e-9 && (ranks.scores.iter().sum::<f64>() - 1.0).abs() < 1e-6);
    let mut cutter = Cutter::new(&graph, Unit::Page).expect("a cutter");
    let mut volumes = Vec::new();
    for method in [Method::Graph, Method::Hash] {
        let settings = CutSettings {
            parts: 16,
            unit: Unit::Page,
            method,
            tolerance: 0.05,
            seed: 1,
        };
        let cut = cutter.cut(&settings).expect("a cut");
        let measure = Measure::of(&graph, &cut.part_of, 16);
        assert!(measure.within(0.05), "{measure:?}");
        volumes.push(measure.exchange_bytes);
    }
    println!(
        "cnr-2000 into 16: {} bytes cut, {} hashed",
        volumes[0], volumes[1]
    );
    assert!(volumes[0] * 10 < volumes[1]);
    Cutter::new(&graph, Unit::Site).expect_err("it has no URLs");
}

#[test]
fn webkb_and_epa_have_the_papers_shape() {
    for (name, pages, sites) in [("webkb", 8_214, 500), ("epa", 4_772, 3_000)] {
        let Some(dir) = small::real(name) else { return };
        let graph = read_files(&[dir]).expect("a graph");
        let facts = Facts::of(&graph);
        assert_eq!(facts.pages, pages);
        assert!(facts.sites.expect("sites") > sites, "{:?}", facts.sites);
        let result = compare(
            &graph,
            &CompareSettings {
                parts: vec![4, 16],
                runs: 2,
                tolerance: 0.05,
                seed: 1,
                dsets: DSets::default(),
            },
            |_| {},
        )
        .expect("tables");
        let cell = |column, parts| result.cell(column, parts).expect("a cell");
        for parts in [4, 16] {
            assert!(
                cell(Column::PageGraph, parts).exchange_bytes * 2.0
                    < cell(Column::PageHash, parts).exchange_bytes
            );
            assert!(
                cell(Column::SiteGraph, parts).exchange_bytes
                    < cell(Column::SiteHash, parts).exchange_bytes
            );
            assert!(
                cell(Column::PageHash, parts).request_imbalance
                    < cell(Column::SiteHash, parts).request_imbalance
            );
        }
        assert!(
            cell(Column::SiteHash, 4).request_imbalance
                < cell(Column::SiteHash, 16).request_imbalance
        );
        println!(
            "{name}: {} cells, {} remarks",
            result.cells.len(),
            result.remarks.len()
        );
        // Four sites of webkb hold a tenth of all pages each: sixteen equal parts cannot be.
        if name == "webkb" {
            assert!(
                result
                    .remarks
                    .iter()
                    .any(|remark| remark.contains("None can be")),
                "{:?}",
                result.remarks
            );
        }
    }
}
