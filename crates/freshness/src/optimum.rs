//! The best rates of fetching where rates of change are known and fetches of a page may come at any regular interval: a bound for every
//! schedule. And LambdaCrawl's rates, which are the best for another measure.

use crate::value::{age_of_value, expected_freshness};

/// Importance-weighted freshness at the optimum, for (rate of change, importance) of each page and `per_day` fetches a day in all. At the optimum a
/// fetch is worth the same for every page that is fetched at all.
pub fn optimal_freshness(pages: &[(f64, f64)], per_day: f64) -> f64 {
    let worth = bisect(|worth| {
        let fetches = pages
            .iter()
            .map(|&(rate, importance)| 1.0 / age_of_value(rate, importance, worth));
        fetches.sum::<f64>() > per_day
    });
    let (mut fresh, mut all) = (0.0, 0.0);
    for &(rate, importance) in pages {
        let age = age_of_value(rate, importance, worth);
        // A page that is never fetched is never fresh.
        if age.is_finite() {
            fresh += importance * expected_freshness(rate, age);
        }
        all += importance;
    }
    fresh / all
}

/// Fetches a day of each page by LambdaCrawl (Kolobov et al. 2019), which is least in harmonic penalty.
pub fn lambda_crawl_rates(pages: &[(f64, f64)], per_day: f64) -> Vec<f64> {
    let lambda = lambda_crawl_worth(pages, per_day);
    let rates = pages.iter();
    rates
        .map(|&(rate, importance)| lambda_crawl_rate(rate, importance, lambda))
        .collect()
}

/// LambdaCrawl's λ: what a fetch is worth to it where there are `per_day` of them in all.
pub fn lambda_crawl_worth(pages: &[(f64, f64)], per_day: f64) -> f64 {
    bisect(|lambda| {
        let rates = pages.iter();
        let rates = rates.map(|&(rate, importance)| lambda_crawl_rate(rate, importance, lambda));
        rates.sum::<f64>() > per_day
    })
}

/// Fetches a day of a page by LambdaCrawl: ρ = (−Δ + √(Δ² + 4μΔ/λ))/2.
pub fn lambda_crawl_rate(rate: f64, importance: f64, lambda: f64) -> f64 {
    ((rate * rate + 4.0 * importance * rate / lambda).sqrt() - rate) / 2.0
}

/// The positive number up to which `is_below` holds.
fn bisect(is_below: impl Fn(f64) -> bool) -> f64 {
    let (mut low, mut high) = (1e-30f64, 1e30f64);
    for _ in 0..120 {
        let middle = (low * high).sqrt();
        if is_below(middle) {
            low = middle;
        } else {
            high = middle;
        }
    }
    low
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_pages_are_fetched_equally() {
        let pages = [(0.5, 1.0); 10];
        assert!((optimal_freshness(&pages, 20.0) - expected_freshness(0.5, 0.5)).abs() < 1e-6);
        for rate in lambda_crawl_rates(&pages, 20.0) {
            assert!((rate - 2.0).abs() < 1e-6);
        }
    }

    /// No other division of the same fetches among two pages is better.
    #[test]
    fn it_is_the_best_of_all_divisions() {
        let pages = [(0.1, 1.0), (3.0, 2.0)];
        let best = optimal_freshness(&pages, 2.0);
        let divided = (1..200).map(|i| {
            let first = f64::from(i) / 100.0;
            let fresh = expected_freshness(0.1, 1.0 / first)
                + 2.0 * expected_freshness(3.0, 1.0 / (2.0 - first).max(1e-12));
            fresh / 3.0
        });
        let other = divided.fold(0.0, f64::max);
        assert!(
            best >= other - 1e-9 && best < other + 1e-3,
            "{best} {other}"
        );
    }
}
