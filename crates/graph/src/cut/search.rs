//! Dividing few vertices: bin packing for a start, then a search by threshold accepting that lets vertices move
//! and change places. For graphs that are too small for METIS, and for those on which it misses
//! the tolerance.

use super::CutGraph;
use super::exhaustive::{Tried, divide};
use crate::synthetic::Dice;

/// Larger graphs have enough light vertices for the balancer.
pub(super) const MAX_VERTICES: usize = 4_096;
/// Searches from different starts, as long as none ends within the limits.
const MAX_TRIES: u64 = 4;
/// Steps of one search for each pair of a vertex and a part. The next two constants bound their sum.
const STEPS_A_PLACE: usize = 300;
const MIN_STEPS: usize = 20_000;
const MAX_STEPS: usize = 400_000;
/// What an excess of one limit is worth, where cutting all edges is worth 1.
const EXCESS_WORTH: f64 = 20.0;
/// A step that makes things worse by less than the threshold is taken; it falls from the first to the
/// second value. No probabilities and no exponentials, so the result is the same everywhere.
const THRESHOLDS: (f64, f64) = (0.3, 1e-4);
/// An excess below this is none.
const DRIFT: f64 = 1e-9;
/// One step in this many moves a vertex; in the others two vertices change places.
const MOVE_EVERY: usize = 2;

/// What a division is worth; less is better.
#[derive(Clone, Copy, PartialEq, PartialOrd, Debug)]
pub(super) struct Worth {
    /// Sum over parts and weights of what is above the limit, in limits.
    pub(super) excess: f64,
    pub(super) cost: u64,
}

pub(super) fn worth(graph: &CutGraph, limits: [u64; 2], parts: u16, part_of: &[u16]) -> Worth {
    let search = Search::new(graph, limits, parts, part_of.to_vec());
    Worth {
        excess: search.loads.iter().map(|load| search.excess(load)).sum(),
        cost: graph.cost(part_of),
    }
}

/// The best division that was found, `start` among them if there is one. Every part has a vertex.
pub(super) fn search(
    graph: &CutGraph,
    limits: [u64; 2],
    parts: u16,
    start: Option<&[u16]>,
    seed: u64,
) -> Vec<u16> {
    let packed = packed(graph, limits, parts);
    let mut best = start.unwrap_or(&packed).to_vec();
    let mut best_worth = worth(graph, limits, parts, &best);
    for attempt in 0..MAX_TRIES {
        let from = match (start, attempt % 2) {
            (Some(start), 0) => start.to_vec(),
            _ => packed.clone(),
        };
        let mut search = Search::new(graph, limits, parts, from);
        let found = search.run(&mut Dice::of(seed ^ 0x7365_6172, attempt));
        let found_worth = worth(graph, limits, parts, &found);
        if found_worth < best_worth {
            (best, best_worth) = (found, found_worth);
        }
        if best_worth.excess == 0.0 {
            return best;
        }
    }
    best
}

/// A search that, where it ends outside the limits, tries every division of few vertices.
pub(super) fn search_thoroughly(
    graph: &CutGraph,
    limits: [u64; 2],
    parts: u16,
    start: Option<&[u16]>,
    seed: u64,
) -> Vec<u16> {
    let best = search(graph, limits, parts, start, seed);
    if worth(graph, limits, parts, &best).excess == 0.0 {
        return best;
    }
    match divide(graph, limits, parts) {
        Tried::Found(mut found) => {
            fill_empty(&mut found, parts);
            Search::new(graph, limits, parts, found).run(&mut Dice::of(seed, MAX_TRIES))
        }
        Tried::None | Tried::Unknown => best,
    }
}

/// A division within the limits may leave parts empty; what fits beside others fits alone.
fn fill_empty(part_of: &mut [u16], parts: u16) {
    let mut sizes = vec![0_u32; usize::from(parts)];
    for &part in part_of.iter() {
        sizes[usize::from(part)] += 1;
    }
    for empty in 0..parts {
        if sizes[usize::from(empty)] > 0 {
            continue;
        }
        if let Some(part) = part_of.iter_mut().find(|p| sizes[usize::from(**p)] > 1) {
            sizes[usize::from(*part)] -= 1;
            sizes[usize::from(empty)] += 1;
            *part = empty;
        }
    }
}

/// The heaviest first, each to the part that is filled least by it.
fn packed(graph: &CutGraph, limits: [u64; 2], parts: u16) -> Vec<u16> {
    let share = |load: &[u64; 2]| {
        (0..2)
            .map(|kind| load[kind] as f64 / limits[kind].max(1) as f64)
            .fold(0.0, f64::max)
    };
    let mut order: Vec<usize> = (0..graph.vertices()).collect();
    order.sort_by(|&a, &b| {
        share(&graph.weights[b])
            .total_cmp(&share(&graph.weights[a]))
            .then(a.cmp(&b))
    });
    let mut loads = vec![[0_u64; 2]; usize::from(parts)];
    let mut part_of = vec![0; graph.vertices()];
    for (number, &vertex) in order.iter().enumerate() {
        let with = |part: usize| {
            let weight = graph.weights[vertex];
            share(&[loads[part][0] + weight[0], loads[part][1] + weight[1]])
        };
        let part = if number < loads.len() {
            number
        } else {
            (0..loads.len())
                .min_by(|&a, &b| with(a).total_cmp(&with(b)))
                .unwrap_or(0)
        };
        loads[part][0] += graph.weights[vertex][0];
        loads[part][1] += graph.weights[vertex][1];
        part_of[vertex] = part as u16;
    }
    part_of
}

struct Search<'a> {
    graph: &'a CutGraph,
    limits: [u64; 2],
    part_of: Vec<u16>,
    loads: Vec<[u64; 2]>,
    sizes: Vec<u32>,
    edges_cost: f64,
}

impl<'a> Search<'a> {
    fn new(graph: &'a CutGraph, limits: [u64; 2], parts: u16, part_of: Vec<u16>) -> Self {
        let mut loads = vec![[0; 2]; usize::from(parts)];
        let mut sizes = vec![0; usize::from(parts)];
        for (weight, &part) in graph.weights.iter().zip(&part_of) {
            loads[usize::from(part)][0] += weight[0];
            loads[usize::from(part)][1] += weight[1];
            sizes[usize::from(part)] += 1;
        }
        let edges_cost: u64 = graph.costs.iter().map(|&cost| u64::from(cost)).sum();
        Self {
            graph,
            limits,
            part_of,
            loads,
            sizes,
            edges_cost: (edges_cost as f64 / 2.0).max(1.0),
        }
    }

    fn run(&mut self, dice: &mut Dice) -> Vec<u16> {
        let (vertices, parts) = (self.graph.vertices(), self.loads.len());
        let steps = (STEPS_A_PLACE * vertices * parts).clamp(MIN_STEPS, MAX_STEPS);
        let fall = (THRESHOLDS.1 / THRESHOLDS.0).powf(1.0 / steps as f64);
        let mut threshold = THRESHOLDS.0;
        let mut now = Worth {
            excess: self.loads.iter().map(|load| self.excess(load)).sum(),
            cost: self.graph.cost(&self.part_of),
        };
        let mut least = now;
        let mut best = self.part_of.clone();
        for step in 0..steps {
            threshold *= fall;
            let vertex = dice.below(vertices as u32) as usize;
            let own = self.part_of[vertex];
            let change = if step.is_multiple_of(MOVE_EVERY) {
                let target = dice.below(parts as u32) as u16;
                if target == own || self.sizes[usize::from(own)] < 2 {
                    continue;
                }
                let change = self.go(vertex, target);
                if self.badness(change) > threshold {
                    self.go(vertex, own);
                    continue;
                }
                change
            } else {
                let other = dice.below(vertices as u32) as usize;
                let target = self.part_of[other];
                if target == own {
                    continue;
                }
                let (there, back) = (self.go(vertex, target), self.go(other, own));
                let change = (there.0 + back.0, there.1 + back.1);
                if self.badness(change) > threshold {
                    self.go(other, target);
                    self.go(vertex, own);
                    continue;
                }
                change
            };
            now.excess = (now.excess + change.0).max(0.0);
            now.cost = now.cost.saturating_add_signed(change.1);
            // Sums of many small changes drift.
            if now.excess < DRIFT {
                now.excess = 0.0;
            }
            if now < least {
                least = now;
                best.clone_from(&self.part_of);
            }
        }
        best
    }

    fn badness(&self, (excess, cost): (f64, i64)) -> f64 {
        EXCESS_WORTH * excess + cost as f64 / self.edges_cost
    }

    /// Moves a vertex; how excess and cost change.
    fn go(&mut self, vertex: usize, target: u16) -> (f64, i64) {
        let (own, weight) = (self.part_of[vertex], self.graph.weights[vertex]);
        let mut ties = 0_i64;
        for (other, cost) in self.graph.of_vertex(vertex) {
            let part = self.part_of[other as usize];
            ties += i64::from(cost) * (i64::from(part == own) - i64::from(part == target));
        }
        let (from, to) = (usize::from(own), usize::from(target));
        let before = self.excess(&self.loads[from]) + self.excess(&self.loads[to]);
        for (kind, weight) in weight.into_iter().enumerate() {
            self.loads[from][kind] -= weight;
            self.loads[to][kind] += weight;
        }
        self.sizes[from] -= 1;
        self.sizes[to] += 1;
        self.part_of[vertex] = target;
        let after = self.excess(&self.loads[from]) + self.excess(&self.loads[to]);
        (after - before, ties)
    }

    fn excess(&self, load: &[u64; 2]) -> f64 {
        (0..2)
            .map(|kind| {
                load[kind].saturating_sub(self.limits[kind]) as f64
                    / self.limits[kind].max(1) as f64
            })
            .sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Can these be divided within the limits? Tries everything.
    fn possible(weights: &[[u64; 2]], limits: [u64; 2], loads: &mut [[u64; 2]]) -> bool {
        let Some((weight, rest)) = weights.split_first() else {
            return true;
        };
        for part in 0..loads.len() {
            let load = loads[part];
            let with = [load[0] + weight[0], load[1] + weight[1]];
            if with[0] <= limits[0] && with[1] <= limits[1] {
                loads[part] = with;
                if possible(rest, limits, loads) {
                    return true;
                }
                loads[part] = load;
            }
            // Empty parts are alike.
            if load == [0, 0] {
                break;
            }
        }
        false
    }

    #[test]
    fn finds_a_division_within_the_limits_wherever_there_is_one() {
        let (mut there, mut found) = (0, 0);
        for case in 0..400 {
            let mut dice = Dice::of(99, case);
            let count = 6 + dice.below(7) as usize;
            let weights: Vec<[u64; 2]> = (0..count)
                .map(|_| {
                    let bytes = 1 + u64::from(dice.below(1_000)) * u64::from(dice.below(100));
                    [bytes, 1 + u64::from(dice.below(40))]
                })
                .collect();
            let graph = CutGraph::of_weights(&weights);
            let parts = 2 + dice.below(3) as u16;
            let limits = graph
                .totals()
                .map(|total| (total as f64 / f64::from(parts) * 1.1) as u64);
            let mut loads = vec![[0; 2]; usize::from(parts)];
            let possible = possible(&weights, limits, &mut loads);
            match divide(&graph, limits, parts) {
                Tried::Found(_) => assert!(possible, "better than possible"),
                Tried::None => assert!(!possible, "given up too soon"),
                Tried::Unknown => panic!("so few can be tried"),
            }
            let part_of = search_thoroughly(&graph, limits, parts, None, 1);
            let worth = worth(&graph, limits, parts, &part_of);
            assert!(possible || worth.excess > 0.0, "better than possible");
            there += u32::from(possible);
            found += u32::from(worth.excess == 0.0);
        }
        println!("{there} of 400 can be divided, {found} were");
        assert!(there > 50, "{there}");
        assert_eq!(found, there);
    }

    #[test]
    fn every_part_gets_a_vertex_and_the_same_seed_the_same_division() {
        let weights: Vec<[u64; 2]> = (0..9).map(|n| [1 << (2 * n), 1]).collect();
        let graph = CutGraph::of_weights(&weights);
        let limits = [1 << 17, 2];
        let part_of = search(&graph, limits, 8, None, 5);
        for part in 0..8 {
            assert!(part_of.contains(&part), "{part} is empty: {part_of:?}");
        }
        assert_eq!(search(&graph, limits, 8, None, 5), part_of);
    }
}
