//! What a division is worth: load of each part, and the bytes that parts would send each other. Counted
//! from the directed links, apart from whatever the method that made it believes.

use serde::Serialize;

use super::{Unit, joint};
use crate::graph::WebGraph;

#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Measure {
    /// How far the heaviest part is above the mean: 0.05 is 5 %.
    pub bytes_imbalance: f64,
    pub request_imbalance: f64,
    /// Bytes of the URLs of all links that lead to another part.
    pub exchange_bytes: u64,
    pub exchanged_links: u64,
    /// Bytes and requests of each part.
    pub loads: Vec<[u64; 2]>,
}

impl Measure {
    /// `part_of` names a part below `parts` for every page.
    pub fn of(graph: &WebGraph, part_of: &[u16], parts: u16) -> Self {
        let mut loads = vec![[0_u64; 2]; usize::from(parts)];
        for page in 0..graph.pages.count() {
            let load = &mut loads[usize::from(part_of[page as usize])];
            load[0] += graph.pages.bytes(page);
            load[1] += 1;
        }
        let (mut exchange_bytes, mut exchanged_links) = (0, 0);
        for (from, to) in graph.links.iter() {
            if part_of[from as usize] != part_of[to as usize] {
                exchange_bytes += u64::from(graph.pages.url_bytes(to));
                exchanged_links += 1;
            }
        }
        Self {
            bytes_imbalance: imbalance(&loads, 0),
            request_imbalance: imbalance(&loads, 1),
            exchange_bytes,
            exchanged_links,
            loads,
        }
    }

    pub fn within(&self, tolerance: f64) -> bool {
        // What a division of whole numbers rounds away is no fault.
        self.bytes_imbalance.max(self.request_imbalance) <= tolerance + 1e-9
    }
}

pub(super) fn imbalance(loads: &[[u64; 2]], weight: usize) -> f64 {
    let total: u64 = loads.iter().map(|load| load[weight]).sum();
    let most = loads.iter().map(|load| load[weight]).max().unwrap_or(0);
    if total == 0 {
        return 0.0;
    }
    most as f64 * loads.len() as f64 / total as f64 - 1.0
}

/// The least imbalance that a division into a given number of parts can have, because vertices cannot be split.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Bound {
    pub bytes: f64,
    pub requests: f64,
    /// For the worse of both at once, which may be more than either alone allows.
    pub both: f64,
    pub heaviest_by_bytes: String,
    pub heaviest_by_requests: String,
}

pub fn bounds(graph: &WebGraph, unit: Unit, parts: u16) -> Bound {
    let pages = &graph.pages;
    let units = match unit {
        Unit::Page => pages.count(),
        Unit::Site => pages.sites(),
    };
    let mut weights = vec![[0_u64; 2]; units as usize];
    for page in 0..pages.count() {
        let number = match unit {
            Unit::Page => page,
            Unit::Site => pages.site(page).unwrap_or(0),
        };
        weights[number as usize][0] += pages.bytes(page);
        weights[number as usize][1] += 1;
    }
    let heaviest = |weight: usize| {
        let total: u64 = weights.iter().map(|pair| pair[weight]).sum();
        let (number, most) = weights
            .iter()
            .enumerate()
            .map(|(number, pair)| (number, pair[weight]))
            .max_by_key(|&(number, most)| (most, std::cmp::Reverse(number)))
            .unwrap_or((0, 0));
        let name = match unit {
            Unit::Page => pages.name(number as u32),
            Unit::Site => pages.site_name(number as u32).to_owned(),
        };
        // The heaviest unit is in some part; and requests are whole, so some part has the mean rounded up.
        let mut least = most as f64;
        if weight == 1 {
            least = least.max(total.div_ceil(u64::from(parts)) as f64);
        }
        let bound = match total {
            0 => 0.0,
            _ => (least * f64::from(parts) / total as f64 - 1.0).max(0.0),
        };
        (bound, name)
    };
    let ((bytes, heaviest_by_bytes), (requests, heaviest_by_requests)) = (heaviest(0), heaviest(1));
    Bound {
        bytes,
        requests,
        both: joint::least_tolerance(&weights, parts)
            .max(bytes)
            .max(requests),
        heaviest_by_bytes,
        heaviest_by_requests,
    }
}
