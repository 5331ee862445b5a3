//! Harmonic centrality: for each page the sum of 1 / distance over all pages that reach it. Exact
//! where that is affordable, else by HyperBall: balls of growing radius counted by HyperLogLog.

use super::blocks;
use crate::graph::Links;

/// Exact up to this many steps (pages times links); a search from every page.
const MAX_EXACT_STEPS: u64 = 2_000_000_000;
/// 2^7 registers of a byte a page: 9 % standard error of one count, less for the sum.
const REGISTER_BITS: u32 = 7;
const REGISTERS: usize = 1 << REGISTER_BITS;

/// The scores, and whether they are exact.
pub fn harmonic(back: &Links) -> (Vec<f64>, bool) {
    let steps = u64::from(back.pages()) * (back.count() + u64::from(back.pages()));
    if steps <= MAX_EXACT_STEPS {
        (exact(back), true)
    } else {
        (hyperball(back), false)
    }
}

fn exact(back: &Links) -> Vec<f64> {
    let pages = back.pages() as usize;
    let mut scores = vec![0.0; pages];
    blocks::fill(&mut scores, blocks::threads(), |first, block| {
        let mut seen = vec![u32::MAX; pages];
        let mut queue: Vec<u32> = Vec::new();
        for (at, score) in block.iter_mut().enumerate() {
            let mark = (first + at) as u32;
            queue.clear();
            queue.push(mark);
            seen[mark as usize] = mark;
            let (mut level, mut distance) = (0..1, 0_u32);
            while !level.is_empty() {
                distance += 1;
                for place in level.clone() {
                    for &from in back.of(queue[place]) {
                        if seen[from as usize] != mark {
                            seen[from as usize] = mark;
                            queue.push(from);
                        }
                    }
                }
                *score += (queue.len() - level.end) as f64 / f64::from(distance);
                level = level.end..queue.len();
            }
        }
        0.0
    });
    scores
}

#[derive(Clone, Copy, PartialEq)]
struct Ball([u8; REGISTERS]);

fn hyperball(back: &Links) -> Vec<f64> {
    let pages = back.pages() as usize;
    let threads = blocks::threads();
    let mut balls: Vec<Ball> = (0..pages).map(|page| Ball::of(page as u64)).collect();
    let mut next = balls.clone();
    let mut sizes = vec![1.0_f64; pages];
    let mut scores = vec![0.0_f64; pages];
    let mut distance = 0.0;
    loop {
        distance += 1.0;
        let changed = blocks::fill(&mut next, threads, |first, block| {
            let mut changed = 0.0;
            for (at, ball) in block.iter_mut().enumerate() {
                let page = first + at;
                *ball = balls[page];
                for &from in back.of(page as u32) {
                    ball.join(&balls[from as usize]);
                }
                changed += f64::from(u8::from(*ball != balls[page]));
            }
            changed
        });
        for page in 0..pages {
            if next[page] != balls[page] {
                let size = next[page].size();
                scores[page] += (size - sizes[page]).max(0.0) / distance;
                sizes[page] = size;
            }
        }
        std::mem::swap(&mut balls, &mut next);
        if changed == 0.0 {
            return scores;
        }
    }
}

impl Ball {
    fn of(page: u64) -> Self {
        let mut registers = [0; REGISTERS];
        let hash = crate::synthetic::Dice::of(0x6861_726d, page).next();
        let rest = hash << REGISTER_BITS;
        let rank = rest.leading_zeros().min(63 - REGISTER_BITS) + 1;
        registers[(hash >> (64 - REGISTER_BITS)) as usize] = rank as u8;
        Self(registers)
    }

    fn join(&mut self, other: &Self) {
        for (mine, theirs) in self.0.iter_mut().zip(&other.0) {
            *mine = (*mine).max(*theirs);
        }
    }

    fn size(&self) -> f64 {
        let m = REGISTERS as f64;
        let alpha = 0.7213 / (1.0 + 1.079 / m);
        let sum: f64 = self
            .0
            .iter()
            .map(|&rank| f64::from_bits((1023 - u64::from(rank)) << 52))
            .sum();
        let raw = alpha * m * m / sum;
        let empty = self.0.iter().filter(|&&rank| rank == 0).count();
        if raw <= 2.5 * m && empty > 0 {
            m * (m / empty as f64).ln()
        } else {
            raw
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::graph::LinksBuilder;

    fn chain(pages: u32) -> Links {
        let mut builder = LinksBuilder::new(pages);
        for page in 1..pages {
            builder.push(page - 1, page);
        }
        builder.finish().0
    }

    #[test]
    fn the_end_of_a_chain_has_the_harmonic_number() {
        let (scores, is_exact) = harmonic(&chain(5).transposed());
        assert!(is_exact);
        assert_eq!(scores[0], 0.0);
        assert!((scores[4] - (1.0 + 0.5 + 1.0 / 3.0 + 0.25)).abs() < 1e-12);
    }

    #[test]
    fn estimates_are_near_the_truth() {
        let graph = crate::SyntheticSpec {
            pages: 3_000,
            links: 20_000,
            ..Default::default()
        }
        .graph()
        .expect("a graph");
        let back = graph.links.transposed();
        let (truth, estimate) = (exact(&back), hyperball(&back));
        let sum = |scores: &[f64]| scores.iter().sum::<f64>();
        assert!((sum(&truth) / sum(&estimate) - 1.0).abs() < 0.1);
        let close = truth
            .iter()
            .zip(&estimate)
            .filter(|(t, e)| (*t - *e).abs() <= 0.3 * t.max(1.0))
            .count();
        assert!(close > 2_900, "{close}");
    }
}
