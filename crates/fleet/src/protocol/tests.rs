//! The protocol under random schedules: nodes that stop, die, come back or lose their disks, requests that are late or
//! whose answers are lost, followers that lag, clocks of different pace. After each schedule the log and all requests
//! to the Web are judged. A schedule is one number: `FLEET_SEED=n cargo test -p portolan-fleet random` runs it alone.

mod coordinating;
mod groups;
mod judge;
mod keeping;
mod node;
mod world;

use world::World;

/// Schedules a test run tries. `FLEET_SEEDS` asks for more.
const SEEDS: u64 = 60;

fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok()?.parse().ok()
}

#[test]
fn random_schedules_keep_one_owner_and_end_with_all_held() {
    let seeds = match number("FLEET_SEED") {
        Some(seed) => seed..seed + 1,
        None => 0..number("FLEET_SEEDS").unwrap_or(SEEDS),
    };
    let mut sum = judge::Seen::default();
    for seed in seeds.clone() {
        let mut world = World::new(seed);
        world.run();
        sum.add(&judge::judge(&world));
    }
    println!("{} schedules: {sum:?}", seeds.end - seeds.start);
    // A schedule in which nothing happens would prove nothing.
    if seeds.end - seeds.start >= SEEDS {
        assert!(
            sum.sealed > SEEDS && sum.refused_commits > 0 && sum.released > SEEDS,
            "{sum:?}"
        );
        assert!(
            sum.from_checkpoints > SEEDS && sum.gone > 10 * SEEDS && sum.deleted > 10 * SEEDS,
            "{sum:?}"
        );
        assert!(
            sum.commits > 100 * SEEDS && sum.asks > 1_000 * SEEDS,
            "{sum:?}"
        );
    }
}
