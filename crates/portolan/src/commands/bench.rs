//! `portolan bench`: what a page and a link cost on this machine. CPU time by the process clock, and
//! the load of the machine beside it. One file for each bench; here is what they share.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use portolan_crawl::report::{bytes, thousands};
use serde_json::json;

use crate::arguments::BenchCommand;
use crate::failure::Failure;

pub(crate) fn run(command: BenchCommand) -> Result<ExitCode, Failure> {
    match command {
        BenchCommand::Crawl(arguments) => super::bench_crawl::run(&arguments),
        BenchCommand::Extract(arguments) => super::bench_extract::run(&arguments),
        BenchCommand::Archive(arguments) => super::bench_archive::run(&arguments),
        BenchCommand::Graph(arguments) => super::bench_graph::run(&arguments),
        BenchCommand::Registry {
            observations,
            seed,
            dir,
            json,
        } => bench_registry(observations, seed, dir, json),
    }
}

fn bench_registry(
    observations: u64,
    seed: u64,
    dir: Option<PathBuf>,
    as_json: bool,
) -> Result<ExitCode, Failure> {
    let (dir, temporary) = match dir {
        Some(dir) => (dir, false),
        None => (scratch("bench-registry")?, true),
    };
    if !as_json {
        println!(
            "observations        URLs   µs CPU each   resident   bytes a URL on disk   checks"
        );
    }
    let result = portolan_registry::bench::run(&dir, observations, seed, |row| {
        if as_json {
            let value = json!({
                "observations": row.observations, "urls": row.urls,
                "cpu_us_per_observation": row.cpu_us_per_observation,
                "rss_bytes": row.rss_bytes, "disk_bytes_per_url": row.disk_bytes_per_url,
                "checks": row.checks, "load_average": load_average(),
            });
            println!("{value}");
        } else {
            println!(
                "{:>12}  {:>10}  {:>12.3}  {:>9}  {:>20.1}   {}",
                thousands(row.observations),
                thousands(row.urls),
                row.cpu_us_per_observation,
                bytes(row.rss_bytes),
                row.disk_bytes_per_url,
                if row.checks.is_empty() {
                    "-".to_owned()
                } else {
                    row.checks.join("; ")
                }
            );
        }
    });
    if temporary {
        let _ = std::fs::remove_dir_all(&dir);
    }
    result.map_err(Failure::failed)?;
    Ok(ExitCode::SUCCESS)
}

/// A directory of this process's own, not made yet.
pub(super) fn scratch(name: &str) -> Result<PathBuf, Failure> {
    let dir = std::env::temp_dir().join(format!("portolan-{name}-{}", std::process::id()));
    if Path::new(&dir).exists() {
        return Err(Failure::failed(format!("{} is in the way", dir.display())));
    }
    Ok(dir)
}

/// How busy the machine was over the last minute.
pub(super) fn load_average() -> String {
    std::fs::read_to_string("/proc/loadavg")
        .ok()
        .and_then(|text| text.split(' ').next().map(str::to_owned))
        .unwrap_or_else(|| "unknown".to_owned())
}
