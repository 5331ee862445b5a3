//! `portolan bench registry`: what a link costs the registry, as the number of known URLs grows, and
//! how long opening it takes.

use std::path::Path;
use std::process::ExitCode;

use portolan_crawl::report::{bytes, thousands};
use portolan_registry::bench::{self, Row, Stream};
use serde_json::json;

use super::bench::{load_average, scratch};
use crate::arguments::BenchRegistryArguments;
use crate::failure::Failure;
use crate::output::sayln;

pub(crate) fn run(arguments: &BenchRegistryArguments) -> Result<ExitCode, Failure> {
    if arguments.observations == 0 || arguments.per_second == Some(0) {
        return Err(Failure::usage(
            "--observations and --per-second must be at least 1",
        ));
    }
    match &arguments.dir {
        Some(dir) if arguments.reopen => reopen(dir, arguments.json)?,
        Some(dir) => {
            if dir.join("meta").exists() {
                return Err(Failure::usage(format!(
                    "{} holds a registry already; name an empty directory, or add --reopen",
                    dir.display()
                )));
            }
            feed(dir, arguments)?;
        }
        None => {
            let dir = scratch("bench-registry")?;
            let result = feed(&dir, arguments);
            let _ = std::fs::remove_dir_all(&dir);
            result?;
        }
    }
    Ok(ExitCode::SUCCESS)
}

fn feed(dir: &Path, arguments: &BenchRegistryArguments) -> Result<(), Failure> {
    if !arguments.json {
        sayln!(
            "observations         URLs  µs CPU each  (making it)  looked up  longest batch, ms: wall  not stolen    CPU  held back   \
             resident  bytes a URL  load  checked against a model"
        );
    }
    let stream = Stream {
        observations: arguments.observations,
        seed: arguments.seed,
        per_second: arguments.per_second,
    };
    bench::run(dir, stream, |row| {
        if arguments.json {
            tell_json(row);
        } else {
            tell(row);
        }
    })
    .map_err(Failure::failed)?;
    Ok(())
}

fn tell(row: &Row) {
    sayln!(
        "{:>12}  {:>11}  {:>11.3}  {:>11.3}  {:>7.1} %  {:>23.1}  {:>10.1}  {:>5.1}  {:>7.1} s  {:>9}  {:>11.1}  {:>4}  {}",
        thousands(row.observations),
        thousands(row.urls),
        row.cpu_us_per_observation,
        row.making_us_per_observation,
        100.0 * row.looked_up_share,
        row.longest_batch.wall_ms,
        row.longest_batch.not_stolen_ms,
        row.longest_batch.cpu_ms,
        row.held_back_s,
        bytes(row.rss_bytes),
        row.disk_bytes_per_url,
        load_average(),
        if row.checks.is_empty() {
            "no".to_owned()
        } else {
            row.checks.join("; ")
        }
    );
}

fn tell_json(row: &Row) {
    let value = json!({
        "observations": row.observations, "urls": row.urls,
        "cpu_us_per_observation": row.cpu_us_per_observation,
        "making_us_per_observation": row.making_us_per_observation,
        "looked_up_share": row.looked_up_share,
        "longest_batch_wall_ms": row.longest_batch.wall_ms,
        "longest_batch_not_stolen_ms": row.longest_batch.not_stolen_ms,
        "longest_batch_cpu_ms": row.longest_batch.cpu_ms,
        "held_back_seconds": row.held_back_s,
        "rss_bytes": row.rss_bytes, "disk_bytes_per_url": row.disk_bytes_per_url,
        "checks": row.checks, "load_average": load_average(),
    });
    sayln!("{value}");
}

fn reopen(dir: &Path, as_json: bool) -> Result<(), Failure> {
    if !dir.join("meta").exists() {
        return Err(Failure::usage(format!(
            "{} holds no registry",
            dir.display()
        )));
    }
    let reopened = bench::reopen(dir).map_err(Failure::failed)?;
    if as_json {
        let value = json!({
            "urls": reopened.urls, "after_crash": reopened.after_crash,
            "wall_seconds": reopened.wall_s, "cpu_seconds": reopened.cpu_s,
            "log_bytes": reopened.log_bytes, "rss_bytes": reopened.rss_bytes,
            "load_average": load_average(),
        });
        sayln!("{value}");
    } else {
        sayln!(
            "{} URLs, opened in {:.2} s ({:.2} s CPU), {}, {} of log since the last checkpoints, \
             {} resident, load of the machine {}",
            thousands(reopened.urls),
            reopened.wall_s,
            reopened.cpu_s,
            if reopened.after_crash {
                "after a crash"
            } else {
                "after a clean stop"
            },
            bytes(reopened.log_bytes),
            bytes(reopened.rss_bytes),
            load_average()
        );
    }
    Ok(())
}
