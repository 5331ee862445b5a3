//! Crawls by seed: the invariants hold in all of them, and a seed that is repeated is the same crawl.

use portolan_simulate::simulate;

#[test]
fn the_invariants_hold_whatever_the_seed() {
    let (mut kills, mut refusals, mut requests) = (0, 0, 0);
    let mut broken = Vec::new();
    for seed in 0..150 {
        let simulated = simulate(seed).expect("room for a crawl");
        broken.extend(simulated.broken.iter().map(|b| format!("seed {seed}: {b}")));
        kills += simulated.kills;
        refusals += simulated.refusals;
        requests += simulated.requests;
    }
    assert!(broken.is_empty(), "{}", broken.join("\n"));
    assert!(kills > 100, "only {kills} kills");
    assert!(refusals > 20, "the disk refused only {refusals} times");
    assert!(requests > 3_000, "only {requests} requests");
}

#[test]
fn a_seed_that_is_repeated_is_the_same_crawl() {
    for seed in [3, 17, 41, 99, 1_234_567] {
        let (one, other) = (simulate(seed), simulate(seed));
        let (one, other) = (one.expect("a crawl"), other.expect("a crawl"));
        assert_eq!(one.digest, other.digest, "seed {seed}");
        assert_eq!(one.seconds, other.seconds, "seed {seed}");
    }
    let digest = |seed| simulate(seed).expect("a crawl").digest;
    assert_ne!(digest(1), digest(2));
}
