//! The frontier's rule without its disk: better classes first, then in order of arrival.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use portolan_model::{Known, Ranker};

use crate::graph::WebGraph;
use crate::rank::LivePageRank;

const UNKNOWN: u64 = u64::MAX;

pub(super) struct Frontier {
    heap: BinaryHeap<(u8, Reverse<u64>, u32)>,
    class: Vec<u8>,
    arrival: Vec<u64>,
    fetched: Vec<bool>,
    next_arrival: u64,
}

impl Frontier {
    fn new(pages: u32) -> Self {
        let pages = pages as usize;
        Self {
            heap: BinaryHeap::new(),
            class: vec![0; pages],
            arrival: vec![UNKNOWN; pages],
            fetched: vec![false; pages],
            next_arrival: 0,
        }
    }

    fn put(&mut self, page: u32, class: u8) {
        let at = page as usize;
        if self.fetched[at] {
            return;
        }
        if self.arrival[at] == UNKNOWN {
            self.arrival[at] = self.next_arrival;
            self.next_arrival += 1;
        } else if self.class[at] == class {
            return;
        }
        self.class[at] = class;
        self.heap.push((class, Reverse(self.arrival[at]), page));
    }

    fn knows(&self, page: u32) -> bool {
        self.arrival[page as usize] != UNKNOWN
    }

    fn take(&mut self) -> Option<u32> {
        while let Some((class, _, page)) = self.heap.pop() {
            let at = page as usize;
            // What was pushed under another class is stale.
            if !self.fetched[at] && self.class[at] == class {
                self.fetched[at] = true;
                return Some(page);
            }
        }
        None
    }
}

/// By what a replay sorts.
pub(super) enum Judge<'a> {
    /// As the crawler's own frontier does.
    Ranker(&'a dyn Ranker),
    Live(&'a mut LivePageRank),
}

/// The pages in the order in which one crawler fetches them.
pub(super) fn replay(graph: &WebGraph, seeds: &[u32], judge: &mut Judge<'_>) -> Vec<u32> {
    let pages = &graph.pages;
    let mut frontier = Frontier::new(pages.count());
    let mut standings = vec![(0_u32, 0_u32); pages.count() as usize];
    for &seed in seeds {
        let page = pages.numbered(seed);
        let standing = &mut standings[seed as usize];
        if let Judge::Ranker(ranker) = judge {
            standing.1 = ranker.credit(page.host, 0, ranker.vote(None, seeds.len()));
        }
        frontier.put(seed, judge.class(page, *standing));
    }
    let mut order = Vec::new();
    let mut links = Vec::new();
    let mut changed = Vec::new();
    while let Some(fetched) = frontier.take() {
        order.push(fetched);
        let page = pages.numbered(fetched);
        links.clear();
        links.extend(graph.links.of(fetched).iter().map(|&to| pages.numbered(to)));
        changed.clear();
        let vote = match judge {
            Judge::Live(live) => {
                live.fetched(page, &links, &mut changed);
                0
            }
            Judge::Ranker(ranker) => {
                ranker.vote(Some((page, standings[fetched as usize].1)), links.len())
            }
        };
        for (&to, &target) in graph.links.of(fetched).iter().zip(&links) {
            let standing = &mut standings[to as usize];
            standing.0 += 1;
            if let Judge::Ranker(ranker) = judge {
                standing.1 = ranker.credit(target.host, standing.1, vote);
            }
            frontier.put(to, judge.class(target, *standing));
        }
        for doc in &changed {
            let to = doc.0 as u32;
            if frontier.knows(to) {
                frontier.put(to, judge.class(pages.numbered(to), standings[to as usize]));
            }
        }
    }
    order
}

impl Judge<'_> {
    fn class(&self, page: Known, (back_links, score): (u32, u32)) -> u8 {
        match self {
            Judge::Live(live) => live.class(page),
            Judge::Ranker(ranker) => ranker
                .given(page, "")
                .unwrap_or_else(|| ranker.class(back_links, score)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::graph::{LinksBuilder, PagesBuilder};
    use portolan_model::Order;

    fn sorted_by(order: Order, graph: &WebGraph) -> Vec<u32> {
        replay(graph, &[0], &mut Judge::Ranker(&order))
    }

    fn graph(pages: u32, links: &[(u32, u32)]) -> WebGraph {
        let mut builder = LinksBuilder::new(pages);
        for &(from, to) in links {
            builder.push(from, to);
        }
        WebGraph {
            pages: PagesBuilder::nameless(pages)
                .finish(&mut Vec::new())
                .expect("pages"),
            links: builder.finish().0,
            seeds: Vec::new(),
            notes: Vec::new(),
        }
    }

    #[test]
    fn a_second_back_link_puts_a_page_before_those_that_came_earlier() {
        let graph = graph(5, &[(0, 1), (0, 2), (0, 3), (1, 3)]);
        assert_eq!(sorted_by(Order::Breadth, &graph), [0, 1, 2, 3]);
        assert_eq!(sorted_by(Order::Backlinks, &graph), [0, 1, 3, 2]);
    }

    #[test]
    fn within_a_class_the_first_known_is_the_first_fetched() {
        // Both 3 and 2 come to two back-links; 2 was known first.
        let graph = graph(5, &[(0, 1), (0, 2), (0, 3), (1, 2), (1, 3), (2, 4)]);
        assert_eq!(sorted_by(Order::Backlinks, &graph), [0, 1, 2, 3, 4]);
    }
}
