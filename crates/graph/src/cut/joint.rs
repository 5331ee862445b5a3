//! A bound that looks at both weights at once: where the heaviest sites by one weight are light by the other, no
//! division may keep both, although each alone could be kept.
//!
//! Take the `m` heaviest vertices by one weight. They are in `j` parts, from 1 to `m`. These `j` parts may hold at most `j`
//! limits of that weight; and of the other weight at least what the remaining parts have no room for. The
//! cheapest way to get that much of the other weight, were all other vertices divisible, costs some
//! of the first. If that is too much for every `j`, there is no division.

/// Above this many vertices the light ones even things out, and the bound is not worth its time.
const MAX_VERTICES: usize = 4_096;
/// The heaviest looked at.
const MAX_HEAVY: usize = 16;
/// Halvings of the interval in which the tolerance is looked for.
const HALVINGS: usize = 40;
/// The highest tolerance looked at.
const MAX_TOLERANCE: f64 = 100.0;

/// Below this tolerance no division of these vertices keeps both weights; 0 where nothing is known.
pub(super) fn least_tolerance(weights: &[[u64; 2]], parts: u16) -> f64 {
    if weights.len() > MAX_VERTICES || parts < 2 {
        return 0.0;
    }
    let by: [Weights; 2] = [Weights::of(weights, 0), Weights::of(weights, 1)];
    if by.iter().any(|weights| weights.totals[0] == 0.0) {
        return 0.0;
    }
    let impossible = |tolerance: f64| by.iter().any(|w| w.is_impossible(parts, tolerance));
    let (mut low, mut high) = (0.0, MAX_TOLERANCE);
    for _ in 0..HALVINGS {
        let middle = (low + high) / 2.0;
        if impossible(middle) {
            low = middle;
        } else {
            high = middle;
        }
    }
    // What is below the rounding of the limits is no bound.
    if low < 1e-6 { 0.0 } else { low }
}

/// Vertices as (first weight, second weight).
struct Weights {
    /// By the first weight, heaviest first.
    heavy: Vec<(f64, f64)>,
    totals: [f64; 2],
}

impl Weights {
    fn of(weights: &[[u64; 2]], first: usize) -> Self {
        let mut heavy: Vec<(f64, f64)> = weights
            .iter()
            .map(|weight| (weight[first] as f64, weight[1 - first] as f64))
            .collect();
        heavy.sort_by(|a, b| b.0.total_cmp(&a.0).then(a.1.total_cmp(&b.1)));
        let totals = heavy.iter().fold([0.0, 0.0], |sum, weight| {
            [sum[0] + weight.0, sum[1] + weight.1]
        });
        Self { heavy, totals }
    }

    fn is_impossible(&self, parts: u16, tolerance: f64) -> bool {
        let parts = f64::from(parts);
        let limits = self.totals.map(|total| total / parts * (1.0 + tolerance));
        let most = MAX_HEAVY.min(self.heavy.len());
        (1..=most).any(|count| {
            let (taken, others) = self.heavy.split_at(count);
            let first: f64 = taken.iter().map(|weight| weight.0).sum();
            let second: f64 = taken.iter().map(|weight| weight.1).sum();
            // The cheapest of the second weight first; what has none of it costs for nothing.
            let mut others: Vec<(f64, f64)> = others
                .iter()
                .copied()
                .filter(|weight| weight.1 > 0.0)
                .collect();
            others.sort_by(|a, b| (a.0 / a.1).total_cmp(&(b.0 / b.1)));
            (1..=count.min(parts as usize)).all(|used| {
                let used = used as f64;
                let mut wanted = self.totals[1] - (parts - used) * limits[1] - second;
                let mut cost = first;
                for &(price, amount) in &others {
                    if wanted <= 0.0 {
                        break;
                    }
                    let share = (wanted / amount).min(1.0);
                    cost += price * share;
                    wanted -= amount * share;
                }
                cost > used * limits[0] * (1.0 + 1e-12)
            })
        })
    }
}

#[cfg(test)]
mod tests {
    use super::super::CutGraph;
    use super::super::exhaustive::{Tried, divide};
    use super::*;
    use crate::synthetic::Dice;

    #[test]
    fn heavy_by_one_weight_and_light_by_the_other() {
        // Two with all the bytes, many with the requests: each heavy one's part lacks requests.
        let mut weights = vec![[100, 1], [100, 1]];
        weights.extend([[20, 20]; 8]);
        let least = least_tolerance(&weights, 4);
        assert!(least > 0.05, "{least}");
        assert_eq!(least_tolerance(&[[10, 10]; 8], 4), 0.0);
        assert_eq!(least_tolerance(&[[0, 1]; 8], 4), 0.0);
    }

    #[test]
    fn never_says_that_something_is_impossible_that_is_there() {
        let mut said = 0;
        for case in 0..300 {
            let mut dice = Dice::of(5, case);
            let weights: Vec<[u64; 2]> = (0..7 + dice.below(4))
                .map(|_| {
                    let bytes = u64::from(dice.below(30)) * u64::from(dice.below(30));
                    [bytes, 1 + u64::from(dice.below(30))]
                })
                .collect();
            let graph = CutGraph {
                offsets: vec![0; weights.len() + 1],
                neighbours: Vec::new(),
                costs: Vec::new(),
                weights: weights.clone(),
            };
            let parts = 2 + dice.below(3) as u16;
            let least = least_tolerance(&weights, parts);
            said += u32::from(least > 0.0);
            let limits = graph
                .totals()
                .map(|total| (total as f64 / f64::from(parts) * (1.0 + least * 0.999)) as u64);
            if least > 0.0 {
                assert_eq!(divide(&graph, limits, parts), Tried::None, "case {case}");
            }
        }
        assert!(said > 100, "{said}");
    }
}
