//! Where a replay begins if nobody knows where the crawl did.

use crate::graph::{Components, WebGraph};
use crate::synthetic::Dice;

/// So many different pages that have links, of the largest weak component, by chance.
pub fn draw_seeds(graph: &WebGraph, count: usize, seed: u64) -> Vec<u32> {
    let components = Components::weak(&graph.links);
    let largest = (0..components.count())
        .max_by_key(|&number| (components.sizes[number], std::cmp::Reverse(number)));
    let mut candidates: Vec<u32> = (0..graph.pages.count())
        .filter(|&page| {
            largest == Some(components.of[page as usize] as usize) && graph.links.degree(page) > 0
        })
        .collect();
    if candidates.is_empty() {
        candidates = (0..graph.pages.count()).collect();
    }
    shuffle_front(&mut candidates, count, seed)
}

/// So many pages of each part, by chance.
pub fn draw_seeds_of_parts(part_of: &[u16], parts: u16, count: usize, seed: u64) -> Vec<u32> {
    let mut pages: Vec<Vec<u32>> = vec![Vec::new(); usize::from(parts)];
    for (page, &part) in part_of.iter().enumerate() {
        pages[usize::from(part)].push(page as u32);
    }
    pages
        .iter_mut()
        .enumerate()
        .flat_map(|(part, pages)| shuffle_front(pages, count, seed ^ (part as u64) << 32))
        .collect()
}

/// The first `count` of a shuffle.
fn shuffle_front(candidates: &mut [u32], count: usize, seed: u64) -> Vec<u32> {
    let mut dice = Dice::of(seed, 0x5eed);
    let count = count.min(candidates.len());
    for at in 0..count {
        let other = at + dice.below((candidates.len() - at) as u32) as usize;
        candidates.swap(at, other);
    }
    candidates[..count].to_vec()
}
