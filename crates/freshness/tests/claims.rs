//! The claims of docs/freshness.md on a small world, with a margin for its size.

use portolan_freshness::{Outcome, Policy, Population, World, simulate};

/// Means over three seeds of freshness and of its share of the bound.
fn mean(policy: Policy, population: Population, world: &World) -> (f64, f64) {
    let outcomes: Vec<Outcome> = (1..=3)
        .map(|seed| simulate(policy, population, world, seed))
        .collect();
    let of = |value: fn(&Outcome) -> f64| outcomes.iter().map(value).sum::<f64>() / 3.0;
    (of(|outcome| outcome.freshness), of(Outcome::ratio))
}

/// With a fifth of the pages a day; docs/freshness.md tells where less is reached with a tenth.
const WORLD: World = World {
    pages: 500,
    days: 200.0,
    per_day: 100.0,
};

#[test]
fn with_learned_rates_it_is_near_the_bound() {
    for population in Population::ALL {
        let (_, ratio) = mean(Policy::Ours, population, &WORLD);
        let least = match population {
            Population::Correlated => 0.95,
            _ => 0.97,
        };
        assert!(ratio >= least, "{}: {ratio}", population.name());
    }
}

#[test]
fn it_is_above_every_policy_that_knows_no_more() {
    for population in Population::ALL {
        for policy in Policy::ALL {
            let ours = match policy {
                Policy::Ours => continue,
                Policy::OursTrueRates => Policy::Ours,
                _ if policy.knows_rates() => Policy::OursTrueRates,
                _ => Policy::Ours,
            };
            let (ours, _) = mean(ours, population, &WORLD);
            let (other, _) = mean(policy, population, &WORLD);
            match policy {
                // Who is told the rates does better than who learns them, or as well.
                Policy::OursTrueRates => assert!(other >= ours - 0.01, "{other} {ours}"),
                _ => assert!(
                    ours > other,
                    "{} {}: {ours} {other}",
                    population.name(),
                    policy.name()
                ),
            }
        }
    }
}

#[test]
fn with_true_rates_it_reaches_the_bound() {
    for population in Population::ALL {
        let (_, ratio) = mean(Policy::OursTrueRates, population, &WORLD);
        assert!(
            (0.98..1.02).contains(&ratio),
            "{}: {ratio}",
            population.name()
        );
    }
}

#[test]
fn the_same_seed_gives_the_same_figures() {
    let run = || simulate(Policy::Ours, Population::Daily, &WORLD, 7);
    assert_eq!(run(), run());
}
