//! Last touches to a cut that is too heavy somewhere: vertices move out of overloaded parts, those
//! first whose move costs least for the weight that it takes away.

use super::CutGraph;

/// At most this many passes are made. Each looks at all vertices of overloaded parts.
const MAX_PASSES: usize = 12;
/// Swaps look at all pairs; larger graphs have enough light vertices to move.
const MAX_SWAP_VERTICES: usize = 4_096;
const MAX_SWAPS: usize = 100;
/// Less is a rounding error, and could go round in circles.
const MIN_GAIN: f64 = 1e-9;

pub(super) struct Balancer<'a> {
    graph: &'a CutGraph,
    part_of: &'a mut [u16],
    limits: [u64; 2],
    loads: Vec<[u64; 2]>,
    sizes: Vec<u32>,
    /// Cost between one vertex and each part; all zero between uses.
    ties: Vec<u64>,
    moved: u64,
}

impl<'a> Balancer<'a> {
    pub(super) fn new(
        graph: &'a CutGraph,
        parts: u16,
        limits: [u64; 2],
        part_of: &'a mut [u16],
    ) -> Self {
        let mut loads = vec![[0; 2]; usize::from(parts)];
        let mut sizes = vec![0; usize::from(parts)];
        for (weight, &part) in graph.weights.iter().zip(part_of.iter()) {
            add(&mut loads[usize::from(part)], weight);
            sizes[usize::from(part)] += 1;
        }
        Self {
            graph,
            part_of,
            limits,
            loads,
            sizes,
            ties: vec![0; usize::from(parts)],
            moved: 0,
        }
    }

    /// Is every part within its limits now, and how many vertices were moved?
    pub(super) fn run(mut self) -> (bool, u64) {
        self.fill_empty();
        for _ in 0..MAX_PASSES {
            if self.is_balanced() || !self.pass() {
                break;
            }
        }
        if self.graph.vertices() <= MAX_SWAP_VERTICES {
            let mut swaps = 0;
            while !self.is_balanced() && swaps < MAX_SWAPS && self.swap() {
                swaps += 1;
            }
        }
        (self.is_balanced(), self.moved)
    }

    /// Where nothing fits by itself, two vertices may change places: the pair that takes most from the
    /// worst part's excess without giving as much to the other. Was there one?
    fn swap(&mut self) -> bool {
        let worst = (0..self.loads.len()).max_by(|&a, &b| {
            self.excess(&self.loads[a])
                .total_cmp(&self.excess(&self.loads[b]))
        });
        let Some(worst) = worst else { return false };
        let (ours, others): (Vec<usize>, Vec<usize>) = (0..self.graph.vertices())
            .partition(|&vertex| usize::from(self.part_of[vertex]) == worst);
        let mut best: Option<(f64, usize, usize)> = None;
        for &vertex in &ours {
            let without = minus(&self.loads[worst], &self.graph.weights[vertex]);
            for &other in &others {
                let part = usize::from(self.part_of[other]);
                let before = self.excess(&self.loads[worst]) + self.excess(&self.loads[part]);
                let mut here = without;
                add(&mut here, &self.graph.weights[other]);
                let mut there = minus(&self.loads[part], &self.graph.weights[other]);
                add(&mut there, &self.graph.weights[vertex]);
                let gain = before - self.excess(&here) - self.excess(&there);
                if gain > MIN_GAIN && best.is_none_or(|best| gain > best.0) {
                    best = Some((gain, vertex, other));
                }
            }
        }
        let Some((_, vertex, other)) = best else {
            return false;
        };
        let part = self.part_of[other];
        self.go(vertex, part);
        self.go(other, worst as u16);
        true
    }

    fn is_balanced(&self) -> bool {
        self.loads.iter().all(|load| self.excess(load) == 0.0)
    }

    /// A part without a vertex would be a machine without work; it gets the lightest vertex of the
    /// part that has most.
    fn fill_empty(&mut self) {
        while let Some(empty) = self.sizes.iter().position(|&size| size == 0) {
            let Some(from) = (0..self.sizes.len()).max_by_key(|&part| self.sizes[part]) else {
                return;
            };
            if self.sizes[from] < 2 {
                return;
            }
            let lightest = (0..self.graph.vertices())
                .filter(|&vertex| usize::from(self.part_of[vertex]) == from)
                .min_by_key(|&vertex| self.graph.weights[vertex]);
            match lightest {
                Some(vertex) => self.go(vertex, empty as u16),
                None => return,
            }
        }
    }

    /// Was anything moved?
    fn pass(&mut self) -> bool {
        let mut candidates = Vec::new();
        for vertex in 0..self.graph.vertices() {
            let part = usize::from(self.part_of[vertex]);
            let over = self.excess(&self.loads[part]);
            if over > 0.0
                && let Some((loss, _)) = self.best_target(vertex)
            {
                let relief =
                    over - self.excess(&minus(&self.loads[part], &self.graph.weights[vertex]));
                if relief > 0.0 {
                    candidates.push((loss as f64 / relief, vertex));
                }
            }
        }
        candidates.sort_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)));
        let mut moved = false;
        for (_, vertex) in candidates {
            let part = usize::from(self.part_of[vertex]);
            if self.excess(&self.loads[part]) == 0.0 || self.sizes[part] < 2 {
                continue;
            }
            if let Some((_, target)) = self.best_target(vertex) {
                self.go(vertex, target);
                moved = true;
            }
        }
        moved
    }

    /// The part that this vertex could move to at the least loss, with the loss: one that has room, or
    /// at least one that would be less overloaded than its own part is.
    fn best_target(&mut self, vertex: usize) -> Option<(i64, u16)> {
        let (own, weight) = (self.part_of[vertex], self.graph.weights[vertex]);
        let mut near: Vec<u16> = Vec::new();
        for (other, cost) in self.graph.of_vertex(vertex) {
            let part = self.part_of[other as usize];
            if self.ties[usize::from(part)] == 0 && part != own {
                near.push(part);
            }
            self.ties[usize::from(part)] += u64::from(cost);
        }
        let here = self.excess(&self.loads[usize::from(own)]);
        let after = |part: u16| {
            let mut load = self.loads[usize::from(part)];
            add(&mut load, &weight);
            load
        };
        let roomiest = (0..self.loads.len() as u16)
            .filter(|&part| part != own)
            .min_by(|&a, &b| self.fill(&after(a)).total_cmp(&self.fill(&after(b))));
        let target = near
            .iter()
            .copied()
            .chain(roomiest)
            .filter(|&part| self.excess(&after(part)) == 0.0)
            .max_by_key(|&part| (self.ties[usize::from(part)], std::cmp::Reverse(part)))
            .or_else(|| roomiest.filter(|&part| self.excess(&after(part)) < here));
        let result = target.map(|part| {
            let loss = self.ties[usize::from(own)] as i64 - self.ties[usize::from(part)] as i64;
            (loss, part)
        });
        for (other, _) in self.graph.of_vertex(vertex) {
            self.ties[usize::from(self.part_of[other as usize])] = 0;
        }
        result
    }

    fn go(&mut self, vertex: usize, target: u16) {
        let (own, weight) = (
            usize::from(self.part_of[vertex]),
            self.graph.weights[vertex],
        );
        self.loads[own] = minus(&self.loads[own], &weight);
        add(&mut self.loads[usize::from(target)], &weight);
        self.sizes[own] -= 1;
        self.sizes[usize::from(target)] += 1;
        self.part_of[vertex] = target;
        self.moved += 1;
    }

    /// By how much a load is above its limits, in limits.
    fn excess(&self, load: &[u64; 2]) -> f64 {
        (0..2)
            .map(|weight| {
                load[weight].saturating_sub(self.limits[weight]) as f64
                    / self.limits[weight].max(1) as f64
            })
            .sum()
    }

    fn fill(&self, load: &[u64; 2]) -> f64 {
        (0..2)
            .map(|weight| load[weight] as f64 / self.limits[weight].max(1) as f64)
            .fold(0.0, f64::max)
    }
}

fn add(load: &mut [u64; 2], weight: &[u64; 2]) {
    load[0] += weight[0];
    load[1] += weight[1];
}

fn minus(load: &[u64; 2], weight: &[u64; 2]) -> [u64; 2] {
    [load[0] - weight[0], load[1] - weight[1]]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn light_vertices_move_out_of_heavy_parts() {
        let graph = CutGraph::of_weights(&[[10, 1]; 20]);
        let mut part_of = vec![0; 20];
        let (balanced, moved) = Balancer::new(&graph, 4, [52, 5], &mut part_of).run();
        assert!(balanced);
        assert_eq!(moved, 15);
    }

    #[test]
    fn vertices_change_places_where_none_fits_alone() {
        // Bytes and requests are heavy in different vertices: only a swap evens out both.
        let graph = CutGraph::of_weights(&[[10, 1], [10, 1], [1, 10], [1, 10]]);
        let mut part_of = vec![0, 0, 1, 1];
        let (balanced, _) = Balancer::new(&graph, 2, [11, 11], &mut part_of).run();
        assert!(balanced, "{part_of:?}");
    }
}
