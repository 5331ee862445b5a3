//! METIS: multi-constraint K-way cuts. Its numbers have 32 bits, so weights and costs are scaled to
//! fit; what a cut is worth is measured elsewhere, with the true ones.

#[cfg(feature = "metis")]
use std::sync::Mutex;

#[cfg(feature = "metis")]
use metis::option::{NCuts, Seed};

use super::balance::Balancer;
use super::exhaustive::{MAX_VERTICES, Tried, divide};
use super::measure::imbalance;
use super::{CutGraph, CutSettings, Unit, search};
use crate::error::{GraphError, Result};
use crate::graph::WebGraph;

/// METIS draws from the C library's `rand`, which all threads share: two cuts at once would disturb
/// each other, and the same seed would no longer give the same cut.
#[cfg(feature = "metis")]
static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

/// Sums within METIS stay below this, well within 31 bits.
const MAX_SUM: u64 = 1 << 29;

/// With fewer vertices for each part METIS has nothing to coarsen; and when it has to divide nothing at all, which
/// then happens, it says so on standard output.
const MIN_VERTICES_A_PART: usize = 8;

pub(super) fn cut(graph: &CutGraph, settings: &CutSettings) -> Result<Vec<u16>> {
    let found = cut_unless_heavy(graph, settings)?;
    let (parts, limits) = (settings.parts, limits(graph, settings));
    if graph.vertices() > search::MAX_VERTICES
        || search::worth(graph, limits, parts, &found).excess == 0.0
    {
        return Ok(found);
    }
    let found = search::search_thoroughly(graph, limits, parts, Some(&found), settings.seed);
    if graph.vertices() > MAX_EVEN_VERTICES
        || search::worth(graph, limits, parts, &found).excess == 0.0
    {
        return Ok(found);
    }
    Ok(as_even_as_can_be(graph, settings, found))
}

/// Graphs of at most this many vertices are made as even as possible where the tolerance cannot be kept.
const MAX_EVEN_VERTICES: usize = 512;
/// Halvings of the interval between the tolerance and what was found.
const HALVINGS: usize = 6;

/// Where the tolerance is out of reach: the worse of both imbalances as low as a search finds it.
fn as_even_as_can_be(graph: &CutGraph, settings: &CutSettings, mut found: Vec<u16>) -> Vec<u16> {
    let parts = settings.parts;
    let worse = |part_of: &[u16]| {
        let mut loads = vec![[0_u64; 2]; usize::from(parts)];
        for (weight, &part) in graph.weights.iter().zip(part_of) {
            loads[usize::from(part)][0] += weight[0];
            loads[usize::from(part)][1] += weight[1];
        }
        (0..2)
            .map(|kind| imbalance(&loads, kind))
            .fold(0.0, f64::max)
    };
    let (mut low, mut high) = (settings.tolerance, worse(&found));
    for _ in 0..HALVINGS {
        let middle = (low + high) / 2.0;
        let limits = limits_of(graph, parts, middle);
        let tried = search::search(graph, limits, parts, Some(&found), settings.seed);
        let reached = worse(&tried);
        if reached < high {
            (found, high) = (tried, reached);
        }
        if high > middle {
            low = middle;
        }
        if high <= low {
            break;
        }
    }
    found
}

fn cut_unless_heavy(graph: &CutGraph, settings: &CutSettings) -> Result<Vec<u16>> {
    let parts = settings.parts;
    let heavy = too_heavy_to_share(graph, parts);
    if !heavy.is_empty() {
        return cut_around(graph, settings, &heavy);
    }
    if parts == 1 {
        return Ok(vec![0; graph.vertices()]);
    }
    let limits = limits(graph, settings);
    if graph.vertices() < MIN_VERTICES_A_PART * usize::from(parts) {
        return Ok(search::search(graph, limits, parts, None, settings.seed));
    }
    let prepared = Prepared::of(graph)?;
    let mut best: Option<(search::Worth, Vec<u16>)> = None;
    for way in [Way::KWay, Way::Recursive] {
        let mut part_of = prepared.cut(settings, way)?;
        // METIS balances what it was given, nearly; the promise is about the true weights.
        let (balanced, moved) = Balancer::new(graph, parts, limits, &mut part_of).run();
        let worth = search::worth(graph, limits, parts, &part_of);
        if best.as_ref().is_none_or(|(best, _)| worth < *best) {
            best = Some((worth, part_of));
        }
        // Only a cut that needed much mending is worth a second, slower try.
        if balanced && moved as f64 <= MENDED_SHARE * graph.vertices() as f64 {
            break;
        }
    }
    Ok(best.map(|(_, part_of)| part_of).unwrap_or_default())
}

/// Is there a division within the tolerance? `None` where only trying everything would tell, and there is too much
/// to try.
pub fn is_divisible(graph: &WebGraph, unit: Unit, parts: u16, tolerance: f64) -> Option<bool> {
    let vertices = match unit {
        Unit::Page => graph.pages.count(),
        Unit::Site => graph.pages.sites(),
    };
    if vertices as usize > MAX_VERTICES {
        return None;
    }
    let graph = CutGraph::of(graph, unit).ok()?;
    match divide(&graph, limits_of(&graph, parts, tolerance), parts) {
        Tried::Found(_) => Some(true),
        Tried::None => Some(false),
        Tried::Unknown => None,
    }
}

fn limits(graph: &CutGraph, settings: &CutSettings) -> [u64; 2] {
    limits_of(graph, settings.parts, settings.tolerance)
}

/// What a part's bytes and requests may come to.
fn limits_of(graph: &CutGraph, parts: u16, tolerance: f64) -> [u64; 2] {
    graph
        .totals()
        .map(|total| (total as f64 / f64::from(parts) * (1.0 + tolerance)).floor() as u64)
}

/// A cut of which more than this share had to be moved is tried again in another way.
const MENDED_SHARE: f64 = 0.005;

#[derive(Clone, Copy, PartialEq, Eq)]
enum Way {
    KWay,
    Recursive,
}

/// Vertices that are at least as heavy as the mean of the parts that are left once those heavier
/// than they have parts of their own: whatever is put beside them only makes it worse.
fn too_heavy_to_share(graph: &CutGraph, parts: u16) -> Vec<usize> {
    let totals = graph.totals();
    let mut left = totals;
    let mut order: Vec<usize> = (0..graph.vertices()).collect();
    let share = |vertex: usize| {
        let weight = graph.weights[vertex];
        (0..2)
            .map(|kind| weight[kind] as f64 / totals[kind].max(1) as f64)
            .fold(0.0, f64::max)
    };
    order.sort_by(|&a, &b| share(b).total_cmp(&share(a)).then(a.cmp(&b)));
    let mut heavy = Vec::new();
    for &vertex in order.iter().take(usize::from(parts).saturating_sub(1)) {
        let parts_left = u64::from(parts) - heavy.len() as u64;
        let weight = graph.weights[vertex];
        if parts_left < 2 || (0..2).all(|kind| weight[kind] * parts_left < left[kind].max(1)) {
            break;
        }
        left = [left[0] - weight[0], left[1] - weight[1]];
        heavy.push(vertex);
    }
    heavy
}

/// A part for each heavy vertex, and a cut of the rest into the parts that are left.
fn cut_around(graph: &CutGraph, settings: &CutSettings, heavy: &[usize]) -> Result<Vec<u16>> {
    let mut part_of = vec![u16::MAX; graph.vertices()];
    for (part, &vertex) in heavy.iter().enumerate() {
        part_of[vertex] = part as u16;
    }
    let (rest, numbers) = graph.without(&part_of);
    let first = heavy.len() as u16;
    let inner = CutSettings {
        parts: settings.parts - first,
        ..settings.clone()
    };
    for (vertex, part) in numbers.into_iter().zip(cut_unless_heavy(&rest, &inner)?) {
        part_of[vertex as usize] = first + part;
    }
    // What is within the tolerance of the whole may be less even than the rest by itself.
    let limits = limits(graph, settings);
    Balancer::new(graph, settings.parts, limits, &mut part_of).run();
    Ok(part_of)
}

/// The graph in METIS's terms.
#[cfg_attr(
    not(feature = "metis"),
    expect(dead_code, reason = "only METIS reads it")
)]
struct Prepared {
    starts: Vec<i32>,
    neighbours: Vec<i32>,
    costs: Vec<i32>,
    weights: Vec<i32>,
    constraints: usize,
}

impl Prepared {
    fn of(graph: &CutGraph) -> Result<Self> {
        let too_large = |_| {
            GraphError::Request(
                "the graph has more than 2,147,483,647 edge ends, which METIS cannot number; cut it by site"
                    .to_owned(),
            )
        };
        let starts = graph
            .offsets
            .iter()
            .map(|&offset| i32::try_from(offset).map_err(too_large))
            .collect::<Result<Vec<i32>>>()?;
        let kept = constraints(graph);
        let mut weights = vec![0_i32; graph.vertices() * kept.len()];
        for (place, &weight) in kept.iter().enumerate() {
            let column = scaled(graph.weights.iter().map(|pair| pair[weight]), 0);
            for (vertex, value) in column.into_iter().enumerate() {
                weights[vertex * kept.len() + place] = value;
            }
        }
        Ok(Self {
            starts,
            // More than 2^31 vertices are refused by METIS's own check.
            neighbours: graph.neighbours.iter().map(|&other| other as i32).collect(),
            costs: scaled(graph.costs.iter().map(|&cost| u64::from(cost)), 1),
            weights,
            constraints: kept.len(),
        })
    }

    #[cfg(feature = "metis")]
    fn cut(&self, settings: &CutSettings, way: Way) -> Result<Vec<u16>> {
        let mut found = vec![0_i32; self.starts.len() - 1];
        let allowed = vec![1.0 + settings.tolerance as f32; self.constraints];
        let _alone = ONE_AT_A_TIME
            .lock()
            .unwrap_or_else(|poisoned| poisoned.into_inner());
        let graph = metis::Graph::new(
            self.constraints as i32,
            i32::from(settings.parts),
            &self.starts,
            &self.neighbours,
        )
        .map_err(|error| refused(&error.to_string()))?
        .set_vwgt(&self.weights)
        .set_adjwgt(&self.costs)
        .set_ubvec(&allowed)
        .set_option(Seed((settings.seed & 0x7fff_ffff) as i32))
        .set_option(NCuts(1));
        match way {
            Way::KWay => graph.part_kway(&mut found),
            Way::Recursive => graph.part_recursive(&mut found),
        }
        .map_err(|error| refused(&error.to_string()))?;
        // Below the number of parts, which is a u16.
        Ok(found.into_iter().map(|part| part as u16).collect())
    }

    #[cfg(not(feature = "metis"))]
    fn cut(&self, _: &CutSettings, _: Way) -> Result<Vec<u16>> {
        Err(GraphError::Request(
            "this program was built without METIS (feature `metis`), so it cuts no graphs"
                .to_owned(),
        ))
    }
}

/// Which weights are to be balanced. A weight that is nowhere cannot be, METIS would divide by it; and
/// where all pages have the same size, balancing requests balances bytes.
fn constraints(graph: &CutGraph) -> Vec<usize> {
    let totals = graph.totals();
    let proportional = graph.weights.iter().all(|pair| {
        u128::from(pair[0]) * u128::from(totals[1]) == u128::from(pair[1]) * u128::from(totals[0])
    });
    if proportional || totals[0] == 0 {
        vec![1]
    } else {
        vec![0, 1]
    }
}

#[cfg(feature = "metis")]
fn refused(what: &str) -> GraphError {
    GraphError::Request(format!("METIS refused the graph: {what}"))
}

/// Divided by what makes the sum fit, rounded, and at least `least`.
fn scaled(values: impl Iterator<Item = u64> + Clone, least: i32) -> Vec<i32> {
    let total: u64 = values.clone().sum();
    let unit = total.div_ceil(MAX_SUM).max(1);
    values
        .map(|value| {
            // Below MAX_SUM + 1 by construction.
            let rounded = ((value + unit / 2) / unit) as i32;
            rounded.max(least)
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scaling_keeps_proportions_and_fits() {
        assert_eq!(scaled([3, 0, 7].into_iter(), 0), [3, 0, 7]);
        assert_eq!(scaled([3, 0, 7].into_iter(), 1), [3, 1, 7]);
        let large = scaled([1 << 40, 3 << 40, 5].into_iter(), 1);
        assert_eq!(large[1] / large[0], 3);
        assert_eq!(large[2], 1);
        assert!(large.iter().map(|&value| value as u64).sum::<u64>() <= MAX_SUM + 3);
    }
}
