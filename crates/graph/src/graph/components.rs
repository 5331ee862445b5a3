//! Which pages hang together: weakly (links taken both ways) and strongly (there and back).

use super::Links;

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Components {
    /// Number of each page's component.
    pub of: Vec<u32>,
    /// Pages of each component.
    pub sizes: Vec<u32>,
}

impl Components {
    /// By union of sets, with path halving.
    pub fn weak(links: &Links) -> Self {
        let mut parent: Vec<u32> = (0..links.pages()).collect();
        for (from, to) in links.iter() {
            let (a, b) = (root(&mut parent, from), root(&mut parent, to));
            // The smaller number becomes the root, so the result does not depend on the order.
            let (low, high) = (a.min(b), a.max(b));
            parent[high as usize] = low;
        }
        let mut of = vec![0; parent.len()];
        let mut sizes = Vec::new();
        for page in 0..links.pages() {
            let top = root(&mut parent, page);
            if top == page {
                of[page as usize] = sizes.len() as u32;
                sizes.push(0);
            }
            // A root's number is below that of all its pages, so it has its component already.
            let component = of[top as usize];
            of[page as usize] = component;
            sizes[component as usize] += 1;
        }
        Self { of, sizes }
    }

    /// Tarjan's algorithm, with a stack of its own: a chain of ten million pages must not overflow.
    pub fn strong(links: &Links) -> Self {
        const UNSEEN: u32 = u32::MAX;
        let pages = links.pages() as usize;
        let mut index = vec![UNSEEN; pages];
        let mut low = vec![0_u32; pages];
        let mut of = vec![UNSEEN; pages];
        let mut sizes = Vec::new();
        let mut open: Vec<u32> = Vec::new();
        let mut path: Vec<(u32, u32)> = Vec::new();
        let mut next_index = 0;
        for start in 0..links.pages() {
            if index[start as usize] != UNSEEN {
                continue;
            }
            path.push((start, 0));
            while let Some((page, at)) = path.last_mut() {
                let (page, row) = (*page as usize, links.of(*page));
                if *at == 0 && index[page] == UNSEEN {
                    index[page] = next_index;
                    low[page] = next_index;
                    next_index += 1;
                    open.push(page as u32);
                }
                if let Some(&to) = row.get(*at as usize) {
                    *at += 1;
                    if index[to as usize] == UNSEEN {
                        path.push((to, 0));
                    } else if of[to as usize] == UNSEEN {
                        low[page] = low[page].min(index[to as usize]);
                    }
                    continue;
                }
                path.pop();
                if let Some(&(above, _)) = path.last() {
                    low[above as usize] = low[above as usize].min(low[page]);
                }
                if low[page] == index[page] {
                    let component = sizes.len() as u32;
                    let mut size = 0;
                    while let Some(member) = open.pop() {
                        of[member as usize] = component;
                        size += 1;
                        if member as usize == page {
                            break;
                        }
                    }
                    sizes.push(size);
                }
            }
        }
        Self { of, sizes }
    }

    pub fn count(&self) -> usize {
        self.sizes.len()
    }

    pub fn largest(&self) -> u32 {
        self.sizes.iter().copied().max().unwrap_or(0)
    }
}

fn root(parent: &mut [u32], mut page: u32) -> u32 {
    while parent[page as usize] != page {
        let above = parent[parent[page as usize] as usize];
        parent[page as usize] = above;
        page = above;
    }
    page
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::graph::LinksBuilder;
    use proptest::prelude::*;

    fn links(pages: u32, pairs: &[(u32, u32)]) -> Links {
        let mut builder = LinksBuilder::new(pages);
        for &(from, to) in pairs {
            builder.push(from, to);
        }
        builder.finish().0
    }

    fn reaches(links: &Links, both_ways: bool) -> Vec<Vec<bool>> {
        let n = links.pages() as usize;
        let mut reach = vec![vec![false; n]; n];
        for (page, row) in reach.iter_mut().enumerate() {
            row[page] = true;
        }
        for (from, to) in links.iter() {
            reach[from as usize][to as usize] = true;
            if both_ways {
                reach[to as usize][from as usize] = true;
            }
        }
        for via in 0..n {
            for from in 0..n {
                for to in 0..n {
                    if reach[from][via] && reach[via][to] {
                        reach[from][to] = true;
                    }
                }
            }
        }
        reach
    }

    proptest! {
        #[test]
        fn components_are_those_of_reachability(
            pairs in prop::collection::vec((0_u32..9, 0_u32..9), 0..24),
        ) {
            let links = links(9, &pairs);
            for (found, reach) in [
                (Components::weak(&links), reaches(&links, true)),
                (Components::strong(&links), reaches(&links, false)),
            ] {
                for (a, row) in reach.iter().enumerate() {
                    for (b, &there) in row.iter().enumerate() {
                        prop_assert_eq!(found.of[a] == found.of[b], there && reach[b][a]);
                    }
                }
                prop_assert_eq!(found.sizes.iter().sum::<u32>(), 9);
            }
        }
    }

    #[test]
    fn a_long_chain_does_not_overflow() {
        let chain: Vec<(u32, u32)> = (0..300_000).map(|n| (n, n + 1)).collect();
        let links = links(300_001, &chain);
        assert_eq!(Components::strong(&links).count(), 300_001);
        assert_eq!(Components::weak(&links).count(), 1);
    }
}
