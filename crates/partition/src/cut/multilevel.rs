//! METIS: multi-constraint K-way cuts. Its numbers have 32 bits, so weights and costs are scaled to
//! fit; what a cut is worth is measured elsewhere, with the true ones.

use std::sync::Mutex;

use metis::option::{NCuts, Seed};

use super::balance::Balancer;
use super::{CutGraph, CutSettings};
use crate::error::{GraphError, Result};

/// METIS draws from the C library's `rand`, which all threads share: two cuts at once would disturb
/// each other, and the same seed would no longer give the same cut.
static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

/// Sums within METIS stay below this, well within 31 bits.
const MAX_SUM: u64 = 1 << 29;

pub(super) fn cut(graph: &CutGraph, settings: &CutSettings) -> Result<Vec<u16>> {
    let parts = settings.parts;
    if parts == 1 {
        return Ok(vec![0; graph.vertices()]);
    }
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
    // Below 2^31 vertices, or `starts` would have failed or METIS refuses.
    let neighbours: Vec<i32> = graph.neighbours.iter().map(|&other| other as i32).collect();
    let costs = scaled(graph.costs.iter().map(|&cost| u64::from(cost)), 1);
    let totals = graph.totals();
    // A weight that is nowhere cannot be balanced; METIS would divide by it.
    let kept: Vec<usize> = (0..2).filter(|&weight| totals[weight] > 0).collect();
    let mut weights = vec![0_i32; graph.vertices() * kept.len()];
    for (place, &weight) in kept.iter().enumerate() {
        let column = scaled(graph.weights.iter().map(|pair| pair[weight]), 0);
        for (vertex, value) in column.into_iter().enumerate() {
            weights[vertex * kept.len() + place] = value;
        }
    }
    let mut found = vec![0_i32; graph.vertices()];
    {
        let _alone = ONE_AT_A_TIME
            .lock()
            .unwrap_or_else(|poisoned| poisoned.into_inner());
        let allowed = vec![1.0 + settings.tolerance as f32; kept.len()];
        metis::Graph::new(
            kept.len().max(1) as i32,
            i32::from(parts),
            &starts,
            &neighbours,
        )
        .map_err(|error| refused(&error.to_string()))?
        .set_vwgt(&weights)
        .set_adjwgt(&costs)
        .set_ubvec(&allowed)
        .set_option(Seed((settings.seed & 0x7fff_ffff) as i32))
        .set_option(NCuts(1))
        .part_kway(&mut found)
        .map_err(|error| refused(&error.to_string()))?;
    }
    let mut part_of: Vec<u16> = found.into_iter().map(|part| part as u16).collect();
    // METIS balances what it was given, nearly; the promise is about the true weights.
    Balancer::new(graph, parts, settings.tolerance, &mut part_of).run();
    Ok(part_of)
}

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
