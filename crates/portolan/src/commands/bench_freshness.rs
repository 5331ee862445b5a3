//! `portolan bench freshness`: policies of crawling again side by side, by simulation, and what a pick costs.

use std::process::ExitCode;

use portolan_crawl::report::thousands;
use portolan_crawl::thread_cpu_ns;
use portolan_freshness::{
    Draw, Fetched, PAGE_BYTES, PageClass, PageId, Policy, Population, Scheduler, World, simulate,
};
use serde_json::{Value, json};

use super::bench::load_average;
use crate::arguments_bench::BenchFreshnessArguments;
use crate::failure::Failure;
use crate::output::{say, sayln};

/// Pages of a mean rate of one change in ten days are fetched once in as many days.
const ROUND_DAYS: u32 = 10;
/// The rate of a page of which nothing is known.
const PRIOR: f64 = 0.1;
const DAY_S: u64 = 86_400;
/// Picks before the clock is read: the threshold finds its place.
const WARM_UP: u64 = 100_000;

pub(crate) fn run(arguments: &BenchFreshnessArguments) -> Result<ExitCode, Failure> {
    if let Some(days) = arguments.web {
        return super::bench_keep::run(arguments, days);
    }
    let world = World {
        pages: arguments.pages,
        days: arguments.days,
        per_day: arguments.rate.unwrap_or(arguments.pages as f64 / 10.0),
    };
    let is_sound = |number: f64| number.is_finite() && number > 0.0;
    if world.pages == 0 || arguments.seeds == 0 || !is_sound(world.days) || !is_sound(world.per_day)
    {
        return Err(Failure::usage(
            "--pages, --days, --rate and --seeds must be greater than 0",
        ));
    }
    let fetches = world.days * world.per_day;
    if world.pages > MAX_PAGES || fetches > MAX_FETCHES {
        return Err(Failure::usage(format!(
            "--pages may be at most {} and --days times --rate at most {}",
            thousands(MAX_PAGES as u64),
            thousands(MAX_FETCHES as u64)
        )));
    }
    let rows = compare(&world, arguments.seeds);
    let picks: Vec<Picks> = arguments.urls.iter().map(|&urls| measure(urls)).collect();
    if arguments.json {
        sayln!("{}", as_json(&world, arguments.seeds, &rows, &picks));
    } else {
        tell(&world, arguments.seeds, &rows, &picks);
    }
    Ok(ExitCode::SUCCESS)
}

const MAX_PAGES: usize = 10_000_000;
const MAX_FETCHES: f64 = 1e9;

/// What a policy reached on a population: the mean over the seeds, and the seed with the worst share of the bound.
struct Row {
    population: Population,
    policy: Policy,
    freshness: f64,
    ratio: f64,
    worst_ratio: f64,
}

fn compare(world: &World, seeds: u64) -> Vec<Row> {
    let mut rows = Vec::new();
    for population in Population::ALL {
        for policy in Policy::ALL {
            let outcomes = (1..=seeds).map(|seed| simulate(policy, population, world, seed));
            let (mut freshness, mut ratio, mut worst_ratio) = (0.0, 0.0, f64::INFINITY);
            for outcome in outcomes {
                freshness += outcome.freshness / seeds as f64;
                ratio += outcome.ratio() / seeds as f64;
                worst_ratio = worst_ratio.min(outcome.ratio());
            }
            rows.push(Row {
                population,
                policy,
                freshness,
                ratio,
                worst_ratio,
            });
        }
    }
    rows
}

/// What picks cost with this many URLs.
struct Picks {
    urls: u32,
    pick_us: f64,
    fetched_us: f64,
    /// How often the threshold was lowered, for each thousand picks.
    thresholds: f64,
}

/// Fills a scheduler with URLs of log-normal rates, last fetched over the last ten days, and fetches at the rate at which ten days make a round.
fn measure(urls: u32) -> Picks {
    let pages = Population::LogNormal.pages(urls as usize, 1);
    let round_s = u64::from(ROUND_DAYS) * DAY_S;
    let mut scheduler = Scheduler::with_capacity(0.0, pages.len());
    for (i, page) in pages.iter().enumerate() {
        let fetched_s = i as u64 * round_s / u64::from(urls);
        scheduler.insert(PageClass::of(page.rate, page.importance), fetched_s as u32);
    }
    let mut draw = Draw::new(1);
    let mut take = |scheduler: &mut Scheduler, picks: u64, begin: u64| -> (u64, u64) {
        let (mut pick_ns, mut fetched_ns) = (0, 0);
        let mut batch = Vec::with_capacity(BATCH);
        let mut done = 0;
        while done < picks {
            let begun_ns = thread_cpu_ns();
            for i in 0..BATCH as u64 {
                let now_s = round_s + (begin + done + i) * round_s / u64::from(urls);
                if let Some(id) = scheduler.pick(now_s as u32, |_| 0) {
                    batch.push((id, now_s as u32));
                }
            }
            let picked_ns = thread_cpu_ns();
            for (id, now_s) in batch.drain(..) {
                let PageId(page) = id;
                let rate = pages[page as usize].rate;
                // Likelier for pages that change often; the age is of a round.
                let changed = draw.share() < 1.0 - (-rate * f64::from(ROUND_DAYS)).exp();
                let prior = PRIOR;
                scheduler.fetched(
                    id,
                    now_s,
                    Fetched {
                        changed,
                        told: false,
                        prior,
                    },
                );
            }
            fetched_ns += thread_cpu_ns() - picked_ns;
            pick_ns += picked_ns - begun_ns;
            done += BATCH as u64;
        }
        (pick_ns, fetched_ns)
    };
    let picks = u64::from(urls).min(MAX_PICKS);
    take(&mut scheduler, WARM_UP.min(picks), 0);
    let before = scheduler.thresholds_set();
    let (pick_ns, fetched_ns) = take(&mut scheduler, picks, WARM_UP.min(picks));
    let us = |ns: u64| ns as f64 / 1_000.0 / picks as f64;
    Picks {
        urls,
        pick_us: us(pick_ns),
        fetched_us: us(fetched_ns),
        thresholds: (scheduler.thresholds_set() - before) as f64 * 1_000.0 / picks as f64,
    }
}

/// Picks between two looks at the clock.
const BATCH: usize = 64;
/// Picks that are measured.
const MAX_PICKS: u64 = 1_000_000;

fn as_json(world: &World, seeds: u64, rows: &[Row], picks: &[Picks]) -> Value {
    let rows: Vec<Value> = rows
        .iter()
        .map(|row| {
            json!({
                "population": row.population.name(), "policy": row.policy.name(),
                "knows_rates": row.policy.knows_rates(), "freshness": row.freshness,
                "ratio": row.ratio, "worst_ratio": row.worst_ratio,
            })
        })
        .collect();
    let picks: Vec<Value> = picks
        .iter()
        .map(|row| {
            json!({
                "urls": row.urls, "pick_us": row.pick_us, "fetched_us": row.fetched_us,
                "thresholds_per_1000": row.thresholds,
            })
        })
        .collect();
    json!({
        "pages": world.pages, "days": world.days, "fetches_per_day": world.per_day, "seeds": seeds,
        "policies": rows, "picks": picks, "bytes_per_url": PAGE_BYTES, "load_average": load_average(),
    })
}

fn tell(world: &World, seeds: u64, rows: &[Row], picks: &[Picks]) {
    sayln!(
        "{} pages, {} fetches a day, {} days, {} seeds: importance-weighted freshness and its share of the continuous optimum",
        thousands(world.pages as u64),
        world.per_day,
        world.days,
        seeds
    );
    say!("{:<18}", "");
    for population in Population::ALL {
        say!("{:>15}", population.name());
    }
    sayln!("");
    for policy in Policy::ALL {
        say!("{:<18}", policy.name());
        for row in rows.iter().filter(|row| row.policy == policy) {
            say!("{:>8.4} {:>6.3}", row.freshness, row.ratio);
        }
        sayln!("");
    }
    sayln!(
        "ours-true-rates, lambda-crawl and proportional are told the true rates of change; the others learn."
    );
    for row in picks {
        sayln!(
            "{:>12} URLs: {:.2} µs CPU for a pick, {:.2} µs to note what was found, {} bytes a URL; load of the machine {}",
            thousands(row.urls.into()),
            row.pick_us,
            row.fetched_us,
            PAGE_BYTES,
            load_average()
        );
    }
}
