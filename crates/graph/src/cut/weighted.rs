//! The graph that is cut: undirected, with two weights for each vertex (bytes, requests) and for each
//! edge the bytes of the URLs that would be sent along it if it were cut.

use super::Unit;
use crate::error::{GraphError, Result};
use crate::graph::WebGraph;

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct CutGraph {
    pub(crate) offsets: Vec<u64>,
    pub(crate) neighbours: Vec<u32>,
    /// Cost of the edge to each neighbour.
    pub(crate) costs: Vec<u32>,
    /// Bytes and requests of each vertex.
    pub(crate) weights: Vec<[u64; 2]>,
}

impl CutGraph {
    pub fn of(graph: &WebGraph, unit: Unit) -> Result<Self> {
        match unit {
            Unit::Page => page_graph(graph),
            Unit::Site => site_graph(graph),
        }
    }

    /// Vertices without edges.
    #[cfg(test)]
    pub(super) fn of_weights(weights: &[[u64; 2]]) -> Self {
        Self {
            offsets: vec![0; weights.len() + 1],
            neighbours: Vec::new(),
            costs: Vec::new(),
            weights: weights.to_vec(),
        }
    }

    pub fn vertices(&self) -> usize {
        self.weights.len()
    }

    pub fn edges(&self) -> u64 {
        self.neighbours.len() as u64 / 2
    }

    pub fn weights(&self) -> &[[u64; 2]] {
        &self.weights
    }

    /// Neighbours with the cost of the edge to each.
    pub fn of_vertex(&self, vertex: usize) -> impl Iterator<Item = (u32, u32)> + '_ {
        let row = self.offsets[vertex] as usize..self.offsets[vertex + 1] as usize;
        self.neighbours[row.clone()]
            .iter()
            .copied()
            .zip(self.costs[row].iter().copied())
    }

    pub fn totals(&self) -> [u64; 2] {
        self.weights.iter().fold([0, 0], |sum, weight| {
            [sum[0] + weight[0], sum[1] + weight[1]]
        })
    }

    /// The graph of the vertices that have no part yet (`u16::MAX`), and their numbers here.
    pub(crate) fn without(&self, part_of: &[u16]) -> (Self, Vec<u32>) {
        let kept: Vec<u32> = (0..self.vertices() as u32)
            .filter(|&vertex| part_of[vertex as usize] == u16::MAX)
            .collect();
        let mut number = vec![u32::MAX; self.vertices()];
        for (at, &vertex) in kept.iter().enumerate() {
            number[vertex as usize] = at as u32;
        }
        let mut rest = Self {
            offsets: vec![0],
            neighbours: Vec::new(),
            costs: Vec::new(),
            weights: kept
                .iter()
                .map(|&vertex| self.weights[vertex as usize])
                .collect(),
        };
        for &vertex in &kept {
            for (other, cost) in self.of_vertex(vertex as usize) {
                if number[other as usize] != u32::MAX {
                    rest.neighbours.push(number[other as usize]);
                    rest.costs.push(cost);
                }
            }
            rest.offsets.push(rest.neighbours.len() as u64);
        }
        (rest, kept)
    }

    /// What a division costs: each cut edge once.
    pub fn cost(&self, part_of: &[u16]) -> u64 {
        let mut twice = 0_u64;
        for vertex in 0..self.vertices() {
            for (other, cost) in self.of_vertex(vertex) {
                if part_of[vertex] != part_of[other as usize] {
                    twice += u64::from(cost);
                }
            }
        }
        twice / 2
    }
}

/// A vertex a page. Rows of links and of back-links are both sorted, so one pass joins them.
fn page_graph(graph: &WebGraph) -> Result<CutGraph> {
    let (links, pages) = (&graph.links, &graph.pages);
    let back = links.transposed();
    let mut offsets = Vec::with_capacity(pages.count() as usize + 1);
    offsets.push(0_u64);
    let mut neighbours = Vec::new();
    let mut costs = Vec::new();
    // Counted first: a vector that doubles would need half as much again.
    let mut edges = 0;
    for page in 0..pages.count() {
        join(links.of(page), back.of(page), |_, _, _| edges += 1);
    }
    neighbours.reserve_exact(edges);
    costs.reserve_exact(edges);
    for page in 0..pages.count() {
        join(links.of(page), back.of(page), |other, forth, back| {
            // A URL has at most 64 KiB, so two of them fit.
            let cost = if forth { pages.url_bytes(other) } else { 0 }
                + if back { pages.url_bytes(page) } else { 0 };
            neighbours.push(other);
            costs.push(cost);
        });
        offsets.push(neighbours.len() as u64);
    }
    Ok(CutGraph {
        offsets,
        neighbours,
        costs,
        weights: (0..pages.count())
            .map(|page| [pages.bytes(page), 1])
            .collect(),
    })
}

fn join(forth: &[u32], back: &[u32], mut take: impl FnMut(u32, bool, bool)) {
    let (mut a, mut b) = (forth.iter().peekable(), back.iter().peekable());
    loop {
        match (a.peek(), b.peek()) {
            (None, None) => return,
            (Some(&&x), Some(&&y)) if x == y => {
                a.next();
                b.next();
                take(x, true, true);
            }
            (Some(&&x), Some(&&y)) if x < y => {
                a.next();
                take(x, true, false);
            }
            (Some(&&x), None) => {
                a.next();
                take(x, true, false);
            }
            (_, Some(&&y)) => {
                b.next();
                take(y, false, true);
            }
        }
    }
}

/// A vertex a site; links within a site are not there.
fn site_graph(graph: &WebGraph) -> Result<CutGraph> {
    graph.pages.require_sites()?;
    let (links, pages) = (&graph.links, &graph.pages);
    let sites = pages.sites() as usize;
    let mut weights = vec![[0_u64; 2]; sites];
    let by_site = pages_by_site(graph);
    // Directed first: what each site would send to each other one.
    let mut sent = Rows::new(sites);
    let mut sum = vec![0_u64; sites];
    let mut touched: Vec<u32> = Vec::new();
    for (site, weight) in weights.iter_mut().enumerate() {
        for &page in by_site.of(site) {
            weight[0] += pages.bytes(page);
            weight[1] += 1;
            for &to in links.of(page) {
                let other = pages.site(to).unwrap_or(0);
                if other as usize != site {
                    if sum[other as usize] == 0 {
                        touched.push(other);
                    }
                    sum[other as usize] += u64::from(pages.url_bytes(to));
                }
            }
        }
        touched.sort_unstable();
        for other in touched.drain(..) {
            sent.targets.push(other);
            sent.values.push(std::mem::take(&mut sum[other as usize]));
        }
        sent.offsets.push(sent.targets.len());
    }
    let received = sent.transposed(sites);
    let mut result = CutGraph {
        offsets: vec![0],
        neighbours: Vec::new(),
        costs: Vec::new(),
        weights,
    };
    for site in 0..sites {
        let (out, into) = (sent.range(site), received.range(site));
        let (mut at_out, mut at_into) = (out.start, into.start);
        let mut overflow = false;
        join(
            &sent.targets[out],
            &received.targets[into],
            |other, forth, back| {
                let mut cost = 0_u64;
                if forth {
                    cost += sent.values[at_out];
                    at_out += 1;
                }
                if back {
                    cost += received.values[at_into];
                    at_into += 1;
                }
                overflow |= cost > u64::from(u32::MAX);
                result.neighbours.push(other);
                result.costs.push(cost as u32);
            },
        );
        if overflow {
            return Err(GraphError::Request(format!(
                "the links between {} and another site have more than 4 GiB of URLs; such a graph cannot be cut",
                pages.site_name(site as u32)
            )));
        }
        result.offsets.push(result.neighbours.len() as u64);
    }
    Ok(result)
}

struct Grouped {
    starts: Vec<usize>,
    pages: Vec<u32>,
}

impl Grouped {
    fn of(&self, site: usize) -> &[u32] {
        &self.pages[self.starts[site]..self.starts[site + 1]]
    }
}

fn pages_by_site(graph: &WebGraph) -> Grouped {
    let pages = &graph.pages;
    let site = |page| pages.site(page).unwrap_or(0) as usize;
    let mut starts = vec![0_usize; pages.sites() as usize + 1];
    for page in 0..pages.count() {
        starts[site(page) + 1] += 1;
    }
    for at in 1..starts.len() {
        starts[at] += starts[at - 1];
    }
    let mut next = starts.clone();
    let mut grouped = vec![0; pages.count() as usize];
    for page in 0..pages.count() {
        let place = &mut next[site(page)];
        grouped[*place] = page;
        *place += 1;
    }
    Grouped {
        starts,
        pages: grouped,
    }
}

/// Directed rows with a value for each entry.
struct Rows {
    offsets: Vec<usize>,
    targets: Vec<u32>,
    values: Vec<u64>,
}

impl Rows {
    fn new(rows: usize) -> Self {
        let mut offsets = Vec::with_capacity(rows + 1);
        offsets.push(0);
        Self {
            offsets,
            targets: Vec::new(),
            values: Vec::new(),
        }
    }

    fn range(&self, row: usize) -> std::ops::Range<usize> {
        self.offsets[row]..self.offsets[row + 1]
    }

    fn transposed(&self, rows: usize) -> Self {
        let mut offsets = vec![0_usize; rows + 1];
        for &to in &self.targets {
            offsets[to as usize + 1] += 1;
        }
        for at in 1..offsets.len() {
            offsets[at] += offsets[at - 1];
        }
        let mut next = offsets.clone();
        let mut targets = vec![0; self.targets.len()];
        let mut values = vec![0; self.values.len()];
        for row in 0..rows {
            for at in self.range(row) {
                let place = &mut next[self.targets[at] as usize];
                targets[*place] = row as u32;
                values[*place] = self.values[at];
                *place += 1;
            }
        }
        Self {
            offsets,
            targets,
            values,
        }
    }
}
