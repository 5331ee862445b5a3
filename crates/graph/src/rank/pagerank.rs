//! PageRank by power iteration over back-links. Pages without links give their rank to all alike.

use super::blocks;
use crate::graph::Links;

#[derive(Clone, Copy, PartialEq, Debug)]
pub struct PageRankSettings {
    pub damping: f64,
    /// Stop when all changes of a round together are below this.
    pub precision: f64,
    pub max_rounds: u32,
    /// 0: as many as the machine has.
    pub threads: usize,
}

impl Default for PageRankSettings {
    fn default() -> Self {
        Self {
            damping: 0.85,
            precision: 1e-9,
            max_rounds: 1_000,
            threads: 0,
        }
    }
}

#[derive(Clone, PartialEq, Debug)]
pub struct PageRank {
    /// Their sum is 1.
    pub scores: Vec<f64>,
    pub rounds: u32,
    /// Sum of the changes of the last round.
    pub change: f64,
}

/// `back` is `links` transposed.
pub fn pagerank(links: &Links, back: &Links, settings: PageRankSettings) -> PageRank {
    let pages = links.pages() as usize;
    if pages == 0 {
        return PageRank {
            scores: Vec::new(),
            rounds: 0,
            change: 0.0,
        };
    }
    let threads = match settings.threads {
        0 => blocks::threads(),
        threads => threads,
    };
    let damping = settings.damping;
    let uniform = 1.0 / pages as f64;
    let mut scores = vec![uniform; pages];
    let mut next = vec![0.0; pages];
    // What each page gives to each of its links.
    let mut given = vec![0.0; pages];
    let (mut rounds, mut change) = (0, f64::INFINITY);
    while rounds < settings.max_rounds && change > settings.precision {
        let kept = blocks::fill(&mut given, threads, |first, block| {
            let mut kept = 0.0;
            for (at, given) in block.iter_mut().enumerate() {
                let page = first + at;
                match links.degree(page as u32) {
                    0 => {
                        kept += scores[page];
                        *given = 0.0;
                    }
                    degree => *given = scores[page] / f64::from(degree),
                }
            }
            kept
        });
        let base = (1.0 - damping + damping * kept) * uniform;
        change = blocks::fill(&mut next, threads, |first, block| {
            let mut change = 0.0;
            for (at, score) in block.iter_mut().enumerate() {
                let page = first + at;
                let received: f64 = back
                    .of(page as u32)
                    .iter()
                    .map(|&from| given[from as usize])
                    .sum();
                *score = base + damping * received;
                change += (*score - scores[page]).abs();
            }
            change
        });
        std::mem::swap(&mut scores, &mut next);
        rounds += 1;
    }
    PageRank {
        scores,
        rounds,
        change,
    }
}
