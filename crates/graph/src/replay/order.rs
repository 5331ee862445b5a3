//! What an order is worth: the share of the graph's PageRank, and of its most linked pages, that has been fetched after
//! a given number of pages.

use portolan_model::{DocId, Order, Ranker};
use serde::Serialize;

use super::frontier::{Judge, replay};
use crate::error::Result;
use crate::graph::WebGraph;
use crate::rank::{LivePageRank, PageRankSettings, ScoreRanker, back_links, by_score, pagerank};

/// Shares of the pages at which it is looked.
pub const CHECKPOINTS: [f64; 6] = [0.01, 0.02, 0.05, 0.10, 0.20, 0.50];
/// The most linked pages: this share of all.
const MOST_LINKED: f64 = 0.01;

#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct OrderResult {
    pub order: Order,
    /// At each of [`CHECKPOINTS`]: share of the PageRank of all reachable pages.
    pub pagerank: Vec<f64>,
    /// And of the most linked of them.
    pub most_linked: Vec<f64>,
    /// The same at every percent from 0 to 100, for drawing.
    #[serde(skip)]
    pub curve: Vec<(f64, f64)>,
}

#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Orders {
    pub seeds: usize,
    /// Pages that can be reached from the seeds; shares are of these.
    pub reachable: u64,
    pub pages: u64,
    pub most_linked_pages: u64,
    pub results: Vec<OrderResult>,
}

pub fn replay_orders(graph: &WebGraph, seeds: &[u32], orders: &[Order]) -> Result<Orders> {
    if orders.contains(&Order::SiteIndegree) {
        graph.pages.require_sites()?;
    }
    let back = graph.links.transposed();
    let ranks = pagerank(&graph.links, &back, PageRankSettings::default()).scores;
    drop(back);
    let reached = replay(graph, seeds, &mut Judge::Ranker(&Order::Breadth));
    let linked = back_links(&graph.links);
    let most = ((reached.len() as f64 * MOST_LINKED).ceil() as usize).max(1);
    let mut is_reached = vec![false; ranks.len()];
    for &page in &reached {
        is_reached[page as usize] = true;
    }
    let mut is_most = vec![false; ranks.len()];
    let ranked = by_score(&linked)
        .into_iter()
        .filter(|&page| is_reached[page as usize]);
    for page in ranked.take(most) {
        is_most[page as usize] = true;
    }
    let results = orders
        .iter()
        .map(|&order| {
            let fetched = match order {
                Order::Breadth => reached.clone(),
                Order::LivePagerank => {
                    replay(graph, seeds, &mut Judge::Live(&mut LivePageRank::default()))
                }
                _ => replay(
                    graph,
                    seeds,
                    &mut Judge::Ranker(ranker(order, &ranks).as_ref()),
                ),
            };
            measure(order, &fetched, &ranks, &is_most)
        })
        .collect();
    Ok(Orders {
        seeds: seeds.len(),
        reachable: reached.len() as u64,
        pages: u64::from(graph.pages.count()),
        most_linked_pages: most as u64,
        results,
    })
}

fn ranker(order: Order, ranks: &[f64]) -> Box<dyn Ranker> {
    match order {
        Order::Pagerank => Box::new(ScoreRanker::new(
            ranks
                .iter()
                .enumerate()
                .map(|(page, &score)| (DocId(page as u64), score)),
        )),
        _ => Box::new(order),
    }
}

fn measure(order: Order, fetched: &[u32], ranks: &[f64], is_most: &[bool]) -> OrderResult {
    let total: f64 = fetched.iter().map(|&page| ranks[page as usize]).sum();
    let most = fetched
        .iter()
        .filter(|&&page| is_most[page as usize])
        .count();
    let (mut rank_sum, mut most_sum) = (0.0, 0_usize);
    let mut sums = Vec::with_capacity(fetched.len() + 1);
    sums.push((0.0, 0));
    for &page in fetched {
        rank_sum += ranks[page as usize];
        most_sum += usize::from(is_most[page as usize]);
        sums.push((rank_sum, most_sum));
    }
    let at = |share: f64| {
        let place = (fetched.len() as f64 * share).ceil() as usize;
        let (rank, linked) = sums[place.min(fetched.len())];
        (
            rank / total.max(f64::MIN_POSITIVE),
            linked as f64 / most.max(1) as f64,
        )
    };
    OrderResult {
        order,
        pagerank: CHECKPOINTS.iter().map(|&share| at(share).0).collect(),
        most_linked: CHECKPOINTS.iter().map(|&share| at(share).1).collect(),
        curve: (0..=100)
            .map(|percent| (f64::from(percent), 100.0 * at(f64::from(percent) / 100.0).0))
            .collect(),
    }
}
