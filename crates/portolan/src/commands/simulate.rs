//! `portolan simulate`: whole crawls in one thread, with faults by seed, and whether the invariants held.

use std::process::ExitCode;
use std::time::Instant;

use portolan_crawl::report::{counted, thousands};
use portolan_simulate::simulate;

use crate::arguments_simulate::SimulateArguments;
use crate::failure::Failure;
use crate::log;
use crate::output::sayln;

pub(crate) fn run(arguments: &SimulateArguments) -> Result<ExitCode, Failure> {
    log::begin(arguments.verbose, None)?;
    let seeds = match arguments.seed {
        Some(seed) => seed..seed.saturating_add(1),
        None => arguments.seeds.clone(),
    };
    let begun = Instant::now();
    let (mut crawls, mut requests, mut kills, mut failed) = (0u64, 0, 0, 0u64);
    for seed in seeds {
        let simulated = simulate(seed).map_err(Failure::failed)?;
        crawls += 1;
        requests += simulated.requests;
        kills += simulated.kills;
        if arguments.seed.is_some() {
            sayln!(
                "Seed {seed}: {} requests and {} kills in {:.1} s of its own time, digest {:016x}.",
                simulated.requests,
                simulated.kills,
                simulated.seconds,
                simulated.digest
            );
        }
        for broken in &simulated.broken {
            sayln!("Seed {seed}: {broken}");
        }
        failed += u64::from(!simulated.broken.is_empty());
    }
    sayln!(
        "{} with {} requests and {} in {:.1} s.",
        counted(crawls, "crawl"),
        thousands(requests),
        counted(kills, "kill"),
        begun.elapsed().as_secs_f64()
    );
    if failed == 0 {
        sayln!("All invariants held.");
        return Ok(ExitCode::SUCCESS);
    }
    Err(Failure::failed(format!(
        "invariants were broken in {}; 'portolan simulate --seed N -vv' repeats one",
        counted(failed, "crawl")
    )))
}
