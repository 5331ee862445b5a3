//! The graph at a glance: what `portolan graph` prints.

use serde::Serialize;

use super::{Components, WebGraph};

/// How a quantity is spread over pages or sites.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Percentiles {
    pub mean: f64,
    pub median: u64,
    pub p90: u64,
    pub p99: u64,
    pub max: u64,
    pub zero: u64,
    /// How many are at least 1, 10, 100, 1,000 and so on: the tail.
    pub at_least: Vec<(u64, u64)>,
    /// Exponent of the density of the tail from the 90th percentile on, by maximum likelihood; none if
    /// fewer than [`MIN_TAIL`] lie there.
    pub tail_exponent: Option<f64>,
}

/// Fewer values say nothing about a tail.
pub const MIN_TAIL: usize = 50;

#[derive(Clone, Debug, Serialize)]
pub struct Facts {
    pub pages: u64,
    pub links: u64,
    pub sites: Option<u64>,
    pub links_within_sites: Option<u64>,
    pub bytes: u64,
    pub pages_of_known_size: u64,
    pub mean_url_bytes: f64,
    pub weak_components: u64,
    pub largest_weak: u64,
    pub strong_components: u64,
    pub largest_strong: u64,
    pub in_degree: Percentiles,
    pub out_degree: Percentiles,
    pub pages_of_a_site: Option<Percentiles>,
    /// Largest sites by pages: name, pages, bytes.
    pub largest_sites: Vec<(String, u64, u64)>,
    pub most_linked: Vec<(String, u64)>,
}

const SHOWN: usize = 10;

impl Facts {
    pub fn of(graph: &WebGraph) -> Self {
        let (pages, links) = (&graph.pages, &graph.links);
        let mut in_degrees = vec![0_u64; pages.count() as usize];
        let mut within = 0;
        for (from, to) in links.iter() {
            in_degrees[to as usize] += 1;
            within += u64::from(pages.site(from) == pages.site(to));
        }
        let out_degrees: Vec<u64> = (0..pages.count())
            .map(|page| u64::from(links.degree(page)))
            .collect();
        let (weak, strong) = (Components::weak(links), Components::strong(links));
        let mut site_pages = vec![0_u64; pages.sites() as usize];
        let mut site_bytes = vec![0_u64; pages.sites() as usize];
        for page in 0..pages.count() {
            if let Some(site) = pages.site(page) {
                site_pages[site as usize] += 1;
                site_bytes[site as usize] += pages.bytes(page);
            }
        }
        let sited = pages.have_urls();
        let urls: u64 = (0..pages.count())
            .map(|page| u64::from(pages.url_bytes(page)))
            .sum();
        Self {
            pages: u64::from(pages.count()),
            links: links.count(),
            sites: sited.then(|| u64::from(pages.sites())),
            links_within_sites: sited.then_some(within),
            bytes: pages.total_bytes(),
            pages_of_known_size: pages.known_bytes(),
            mean_url_bytes: urls as f64 / f64::from(pages.count().max(1)),
            weak_components: weak.count() as u64,
            largest_weak: u64::from(weak.largest()),
            strong_components: strong.count() as u64,
            largest_strong: u64::from(strong.largest()),
            most_linked: top(&in_degrees)
                .map(|(page, count)| (pages.name(page as u32), count))
                .collect(),
            in_degree: Percentiles::of(in_degrees),
            out_degree: Percentiles::of(out_degrees),
            largest_sites: top(&site_pages)
                .map(|(site, count)| {
                    let name = pages.site_name(site as u32).to_owned();
                    (name, count, site_bytes[site])
                })
                .collect(),
            pages_of_a_site: sited.then(|| Percentiles::of(site_pages.clone())),
        }
    }
}

fn top(values: &[u64]) -> impl Iterator<Item = (usize, u64)> + use<> {
    let mut order: Vec<(usize, u64)> = values.iter().copied().enumerate().collect();
    order.sort_unstable_by_key(|&(number, value)| (std::cmp::Reverse(value), number));
    order.truncate(SHOWN);
    order.into_iter()
}

impl Percentiles {
    pub fn of(mut values: Vec<u64>) -> Self {
        values.sort_unstable();
        let n = values.len();
        let at = |share: f64| {
            let place = (n as f64 * share) as usize;
            values
                .get(place.min(n.saturating_sub(1)))
                .copied()
                .unwrap_or(0)
        };
        let count_from = |floor: u64| (n - values.partition_point(|&value| value < floor)) as u64;
        let max = values.last().copied().unwrap_or(0);
        let at_least = (0..20)
            .map(|exponent| 10_u64.pow(exponent))
            .take_while(|&floor| floor <= max)
            .map(|floor| (floor, count_from(floor)))
            .collect();
        Self {
            mean: values.iter().sum::<u64>() as f64 / n.max(1) as f64,
            median: at(0.5),
            p90: at(0.9),
            p99: at(0.99),
            max,
            zero: n as u64 - count_from(1),
            at_least,
            tail_exponent: exponent(&values, at(0.9).max(2)),
        }
    }
}

/// Clauset, Shalizi and Newman's estimate for whole numbers: 1 + n / Σ ln(x / (xmin − 1/2)).
fn exponent(sorted: &[u64], xmin: u64) -> Option<f64> {
    let tail = &sorted[sorted.partition_point(|&value| value < xmin)..];
    if tail.len() < MIN_TAIL {
        return None;
    }
    let logs: f64 = tail
        .iter()
        .map(|&value| (value as f64 / (xmin as f64 - 0.5)).ln())
        .sum();
    (logs > 0.0).then(|| 1.0 + tail.len() as f64 / logs)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_and_tails() {
        let spread = Percentiles::of((0..1_000).collect());
        assert_eq!((spread.median, spread.p90, spread.max), (500, 900, 999));
        assert_eq!(spread.zero, 1);
        assert_eq!(spread.at_least, [(1, 999), (10, 990), (100, 900)]);
        let none = Percentiles::of(Vec::new());
        assert_eq!((none.max, none.zero), (0, 0));
    }

    #[test]
    fn the_exponent_of_a_power_law_is_found() {
        // Quantiles of a density x^-2.5: x = u^(-1/1.5).
        let values: Vec<u64> = (1..100_000)
            .map(|n| (f64::from(n) / 100_000.0).powf(-1.0 / 1.5) * 20.0)
            .map(|x| x.round() as u64)
            .collect();
        let found = Percentiles::of(values).tail_exponent.expect("a tail");
        assert!((found - 2.5).abs() < 0.05, "{found}");
    }
}
