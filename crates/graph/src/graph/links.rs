//! Links in compressed rows: who links to whom, 4 bytes a link and 8 bytes a page.

/// Directed links, each once, none from a page to itself, each row sorted.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Links {
    offsets: Vec<u64>,
    targets: Vec<u32>,
}

impl Links {
    pub fn pages(&self) -> u32 {
        // The builder takes its number of pages as u32.
        (self.offsets.len() - 1) as u32
    }

    pub fn count(&self) -> u64 {
        self.targets.len() as u64
    }

    pub fn of(&self, page: u32) -> &[u32] {
        let page = page as usize;
        &self.targets[self.offsets[page] as usize..self.offsets[page + 1] as usize]
    }

    pub fn degree(&self, page: u32) -> u32 {
        // A row holds distinct pages, of which there are fewer than 2^32.
        (self.offsets[page as usize + 1] - self.offsets[page as usize]) as u32
    }

    pub fn iter(&self) -> impl Iterator<Item = (u32, u32)> + '_ {
        (0..self.pages()).flat_map(|from| self.of(from).iter().map(move |&to| (from, to)))
    }

    /// The same links backwards; rows come out sorted.
    pub fn transposed(&self) -> Links {
        let mut offsets = vec![0_u64; self.offsets.len()];
        for &to in &self.targets {
            offsets[to as usize + 1] += 1;
        }
        accumulate(&mut offsets);
        let mut next = offsets.clone();
        let mut targets = vec![0_u32; self.targets.len()];
        for (from, to) in self.iter() {
            let place = &mut next[to as usize];
            targets[*place as usize] = from;
            *place += 1;
        }
        Links { offsets, targets }
    }
}

/// Takes links as they come and makes rows of them. Links that come by ascending source, as most
/// files have them, go straight to their rows; others wait as pairs (8 bytes) and are sorted in by
/// counting at the end, so the cost is linear either way.
#[derive(Debug)]
pub struct LinksBuilder {
    pages: u32,
    offsets: Vec<u64>,
    targets: Vec<u32>,
    late: Vec<(u32, u32)>,
    repeated: u64,
    to_self: u64,
}

impl LinksBuilder {
    pub fn new(pages: u32) -> Self {
        let mut offsets = Vec::with_capacity(pages as usize + 1);
        offsets.push(0);
        Self {
            pages,
            offsets,
            targets: Vec::new(),
            late: Vec::new(),
            repeated: 0,
            to_self: 0,
        }
    }

    /// Both ends must be below the number of pages.
    pub fn push(&mut self, from: u32, to: u32) {
        debug_assert!(from < self.pages && to < self.pages);
        if from == to {
            self.to_self += 1;
            return;
        }
        // The open row is the one after the last offset.
        let open = self.offsets.len() as u32 - 1;
        if from < open {
            self.late.push((from, to));
            return;
        }
        for _ in open..from {
            self.close_row();
        }
        self.targets.push(to);
    }

    /// The links, how many were repeated, and how many led to their own page.
    pub fn finish(mut self) -> (Links, u64, u64) {
        while self.offsets.len() <= self.pages as usize {
            self.close_row();
        }
        let mut links = Links {
            offsets: self.offsets,
            targets: self.targets,
        };
        if !self.late.is_empty() {
            let (joined, repeated) = join(&links, &self.late);
            links = joined;
            self.repeated += repeated;
        }
        links.targets.shrink_to_fit();
        (links, self.repeated, self.to_self)
    }

    fn close_row(&mut self) {
        let start = self.offsets[self.offsets.len() - 1] as usize;
        self.repeated += dedup_tail(&mut self.targets, start);
        self.offsets.push(self.targets.len() as u64);
    }
}

/// Rows of `links` with `late` sorted in, and how many were there already.
fn join(links: &Links, late: &[(u32, u32)]) -> (Links, u64) {
    let mut offsets = vec![0_u64; links.offsets.len()];
    for page in 0..links.pages() {
        offsets[page as usize + 1] = u64::from(links.degree(page));
    }
    for &(from, _) in late {
        offsets[from as usize + 1] += 1;
    }
    accumulate(&mut offsets);
    let mut next = offsets.clone();
    let mut targets = vec![0_u32; links.targets.len() + late.len()];
    for (from, to) in links.iter().chain(late.iter().copied()) {
        let place = &mut next[from as usize];
        targets[*place as usize] = to;
        *place += 1;
    }
    drop(next);
    let before = targets.len();
    let mut kept = 0_usize;
    let mut start = 0_usize;
    for page in 0..links.pages() as usize {
        let end = offsets[page + 1] as usize;
        targets[start..end].sort_unstable();
        let row = kept;
        for at in start..end {
            let to = targets[at];
            if kept == row || targets[kept - 1] != to {
                targets[kept] = to;
                kept += 1;
            }
        }
        start = end;
        offsets[page + 1] = kept as u64;
    }
    targets.truncate(kept);
    (Links { offsets, targets }, (before - kept) as u64)
}

fn dedup_tail(targets: &mut Vec<u32>, start: usize) -> u64 {
    let row = &mut targets[start..];
    // Rows of graph files are sorted and distinct already.
    if row.windows(2).all(|pair| pair[0] < pair[1]) {
        return 0;
    }
    row.sort_unstable();
    let mut kept = start;
    for at in start..targets.len() {
        if kept == start || targets[kept - 1] != targets[at] {
            targets[kept] = targets[at];
            kept += 1;
        }
    }
    let dropped = targets.len() - kept;
    targets.truncate(kept);
    dropped as u64
}

fn accumulate(counts: &mut [u64]) {
    let mut sum = 0;
    for count in counts {
        sum += *count;
        *count = sum;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    proptest! {
        #[test]
        fn rows_hold_each_link_once_in_whatever_order_they_came(
            pairs in prop::collection::vec((0_u32..12, 0_u32..12), 0..80),
        ) {
            let mut builder = LinksBuilder::new(12);
            for &(from, to) in &pairs {
                builder.push(from, to);
            }
            let (links, repeated, to_self) = builder.finish();
            let wanted: BTreeSet<(u32, u32)> =
                pairs.iter().copied().filter(|(from, to)| from != to).collect();
            prop_assert_eq!(links.iter().collect::<Vec<_>>(), wanted.iter().copied().collect::<Vec<_>>());
            prop_assert_eq!(repeated + to_self + links.count(), pairs.len() as u64);
            let back: BTreeSet<(u32, u32)> = links.transposed().iter().collect();
            let turned: BTreeSet<(u32, u32)> = wanted.iter().map(|&(from, to)| (to, from)).collect();
            prop_assert_eq!(back, turned);
            prop_assert_eq!(links.transposed().transposed(), links);
        }
    }
}
