//! Is there a division of few vertices within the limits at all? Tries everything, heaviest vertices first, and
//! gives up after a fixed number of steps.

use super::CutGraph;

/// Above this many, trying everything is hopeless.
pub(super) const MAX_VERTICES: usize = 64;
/// Some hundredths of a second.
const MAX_STEPS: u64 = 500_000;

/// What trying everything came to.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Tried {
    Found(Vec<u16>),
    /// There is none.
    None,
    /// Too many to try.
    Unknown,
}

pub(super) fn divide(graph: &CutGraph, limits: [u64; 2], parts: u16) -> Tried {
    if graph.vertices() > MAX_VERTICES {
        return Tried::Unknown;
    }
    let share = |vertex: usize| {
        let weight = graph.weights[vertex];
        (0..2)
            .map(|kind| weight[kind] as f64 / limits[kind].max(1) as f64)
            .fold(0.0, f64::max)
    };
    let mut order: Vec<usize> = (0..graph.vertices()).collect();
    order.sort_by(|&a, &b| share(b).total_cmp(&share(a)).then(a.cmp(&b)));
    let mut trial = Trial {
        graph,
        limits,
        order,
        loads: vec![[0; 2]; usize::from(parts)],
        part_of: vec![0; graph.vertices()],
        steps: 0,
    };
    match trial.place(0) {
        Some(true) => Tried::Found(trial.part_of),
        Some(false) => Tried::None,
        None => Tried::Unknown,
    }
}

struct Trial<'a> {
    graph: &'a CutGraph,
    limits: [u64; 2],
    order: Vec<usize>,
    loads: Vec<[u64; 2]>,
    part_of: Vec<u16>,
    steps: u64,
}

impl Trial<'_> {
    /// Places the vertices from `number` on. Is that possible? `None`: not known.
    fn place(&mut self, number: usize) -> Option<bool> {
        let Some(&vertex) = self.order.get(number) else {
            return Some(true);
        };
        self.steps += 1;
        if self.steps > MAX_STEPS {
            return None;
        }
        let weight = self.graph.weights[vertex];
        let mut parts: Vec<usize> = (0..self.loads.len()).collect();
        parts.sort_by(|&a, &b| self.fill(a).total_cmp(&self.fill(b)).then(a.cmp(&b)));
        let mut tried: Option<[u64; 2]> = None;
        for part in parts {
            let load = self.loads[part];
            // Parts with the same load are alike.
            if tried == Some(load) {
                continue;
            }
            tried = Some(load);
            let with = [load[0] + weight[0], load[1] + weight[1]];
            if with[0] > self.limits[0] || with[1] > self.limits[1] {
                continue;
            }
            self.loads[part] = with;
            self.part_of[vertex] = part as u16;
            if self.place(number + 1)? {
                return Some(true);
            }
            self.loads[part] = load;
        }
        Some(false)
    }

    fn fill(&self, part: usize) -> f64 {
        (0..2)
            .map(|kind| self.loads[part][kind] as f64 / self.limits[kind].max(1) as f64)
            .fold(0.0, f64::max)
    }
}
