//! PageRank where it is known exactly, and the same whatever the number of threads.

mod small;

use portolan_graph::{PageRankSettings, SyntheticSpec, WebGraph, pagerank};

fn ranks(graph: &WebGraph, threads: usize) -> Vec<f64> {
    let settings = PageRankSettings {
        precision: 1e-13,
        threads,
        ..PageRankSettings::default()
    };
    pagerank(&graph.links, &graph.links.transposed(), settings).scores
}

#[test]
fn a_ring_is_uniform() {
    let ring: Vec<(u32, u32)> = (0..5).map(|n| (n, (n + 1) % 5)).collect();
    assert!(
        ranks(&small::plain(5, &ring), 1)
            .iter()
            .all(|rank| (rank - 0.2).abs() < 1e-12)
    );
}

#[test]
fn a_star_is_as_calculated_by_hand() {
    // Leaves 1 to 4 link to 0, which links to nobody and so gives to all alike.
    // leaf = 0.03 + 0.17 * hub, hub = leaf + 0.85 * 4 * leaf, hub + 4 * leaf = 1.
    let found = ranks(&small::plain(5, &[(1, 0), (2, 0), (3, 0), (4, 0)]), 1);
    let leaf = 1.0 / (1.0 + 3.4 + 4.0);
    assert!((found[1] - leaf).abs() < 1e-11, "{found:?}");
    assert!((found[0] - 4.4 * leaf).abs() < 1e-11, "{found:?}");
    assert!((0.03 + 0.17 * found[0] - found[1]).abs() < 1e-11);
}

/// Gauss elimination of (I - dM) x = (1 - d) / n.
fn solved(graph: &WebGraph) -> Vec<f64> {
    let n = graph.pages.count() as usize;
    let d = 0.85;
    let mut rows = vec![vec![0.0; n + 1]; n];
    for (page, row) in rows.iter_mut().enumerate() {
        row[page] = 1.0;
        row[n] = (1.0 - d) / n as f64;
    }
    for from in 0..n {
        let out = graph.links.of(from as u32);
        for (to, row) in rows.iter_mut().enumerate() {
            row[from] -= d * match out.len() {
                0 => 1.0 / n as f64,
                degree if out.contains(&(to as u32)) => 1.0 / degree as f64,
                _ => 0.0,
            };
        }
    }
    for pivot in 0..n {
        let best = (pivot..n)
            .max_by(|&a, &b| rows[a][pivot].abs().total_cmp(&rows[b][pivot].abs()))
            .expect("a row");
        rows.swap(pivot, best);
        let top = rows[pivot].clone();
        for (at, row) in rows.iter_mut().enumerate() {
            if at != pivot {
                let factor = row[pivot] / top[pivot];
                for (value, above) in row.iter_mut().zip(&top) {
                    *value -= factor * above;
                }
            }
        }
    }
    (0..n).map(|at| rows[at][n] / rows[at][at]).collect()
}

#[test]
fn it_solves_the_equations() {
    for seed in 0..8 {
        let graph = SyntheticSpec {
            pages: 60,
            links: 200,
            sites: 6,
            seed,
            ..SyntheticSpec::default()
        }
        .graph()
        .expect("a graph");
        let (found, exact) = (ranks(&graph, 2), solved(&graph));
        let error: f64 = found.iter().zip(&exact).map(|(a, b)| (a - b).abs()).sum();
        assert!(error < 1e-11, "{error}");
        assert!((found.iter().sum::<f64>() - 1.0).abs() < 1e-9);
    }
}

#[test]
fn threads_change_nothing_to_the_last_bit() {
    let graph = SyntheticSpec::parse("pages=70000,links=400000")
        .and_then(|spec| spec.graph())
        .expect("a graph");
    assert_eq!(ranks(&graph, 1), ranks(&graph, 3));
}
