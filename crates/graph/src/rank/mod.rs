//! Which pages matter: PageRank, back-links, harmonic centrality; and rankers that give the frontier
//! its classes from them. The result is the same however many threads take part.

mod blocks;
mod harmonic;
mod pagerank;
mod rankers;

use std::path::Path;

use crate::error::{GraphError, Result};
use crate::graph::{Links, WebGraph};
use crate::table::{Kind, Table, page_key};

pub use harmonic::harmonic;
pub use pagerank::{PageRank, PageRankSettings, pagerank};
pub use rankers::{LivePageRank, RankTable, ScoreRanker, class_of_score};

pub fn back_links(links: &Links) -> Vec<f64> {
    let mut counts = vec![0.0; links.pages() as usize];
    for (_, to) in links.iter() {
        counts[to as usize] += 1.0;
    }
    counts
}

/// Pages by score, best first; equals by number.
pub fn by_score(scores: &[f64]) -> Vec<u32> {
    let mut order: Vec<u32> = (0..scores.len() as u32).collect();
    order.sort_unstable_by(|&a, &b| {
        scores[b as usize]
            .total_cmp(&scores[a as usize])
            .then(a.cmp(&b))
    });
    order
}

/// A class for each URL of the graph, for the next session's frontier.
pub fn write_rank_table(path: &Path, graph: &WebGraph, scores: &[f64]) -> Result<()> {
    let pages = &graph.pages;
    if !pages.have_urls() {
        return Err(GraphError::Request(
            "a rank table lists URLs, and this graph has none".to_owned(),
        ));
    }
    let mean = scores.iter().sum::<f64>() / scores.len().max(1) as f64;
    let mut entries: Vec<(u64, u16)> = (0..pages.count())
        .map(|page| {
            let class = class_of_score(scores[page as usize], mean);
            (page_key(pages.url(page).unwrap_or("")), u16::from(class))
        })
        .collect();
    entries.sort_unstable();
    entries.dedup_by_key(|entry| entry.0);
    let classes = u32::from(portolan_model::MAX_CLASS) + 1;
    Table::write(path, Kind::Ranks, classes, 0, &entries)
}
