//! `portolan bench frontier`: what the next turn costs, with few hosts and with many.

use std::process::ExitCode;

use portolan_crawl::report::{bytes, thousands};
use portolan_registry::bench::{Filling, TurnsRow, run_turns};
use serde_json::json;

use super::bench::{load_average, scratch};
use crate::arguments::BenchFrontierArguments;
use crate::failure::Failure;
use crate::output::sayln;

pub(crate) fn run(arguments: &BenchFrontierArguments) -> Result<ExitCode, Failure> {
    if arguments.hosts.contains(&0) || arguments.urls == 0 || arguments.turns == 0 {
        return Err(Failure::usage(
            "--hosts, --urls and --turns must be at least 1",
        ));
    }
    if arguments.visited >= arguments.urls {
        return Err(Failure::usage("--visited must be less than --urls"));
    }
    if !arguments.json {
        sayln!(
            "    hosts     due URLs      visited   µs CPU: picking a host   a turn without its URL   with it   \
             resident   load"
        );
    }
    for &hosts in &arguments.hosts {
        let dir = scratch(&format!("bench-frontier-{hosts}"))?;
        let filling = Filling {
            hosts,
            urls_per_host: arguments.urls,
            visited_per_host: arguments.visited,
        };
        let row = run_turns(&dir, filling, arguments.turns);
        let _ = std::fs::remove_dir_all(&dir);
        tell(&row.map_err(Failure::failed)?, arguments.json);
    }
    Ok(ExitCode::SUCCESS)
}

fn tell(row: &TurnsRow, as_json: bool) {
    if as_json {
        let value = json!({
            "hosts": row.hosts, "urls": row.urls, "visited": row.visited, "turns": row.turns,
            "pick_us": row.pick_us, "turn_us": row.turn_us, "turn_with_url_us": row.turn_with_url_us,
            "rss_bytes": row.rss_bytes, "load_average": load_average(),
        });
        sayln!("{value}");
        return;
    }
    sayln!(
        "{:>9}  {:>11}  {:>11}   {:>23.2}   {:>22.2}   {:>7.2}   {:>8}   {:>4}",
        thousands(row.hosts),
        thousands(row.urls),
        thousands(row.visited),
        row.pick_us,
        row.turn_us,
        row.turn_with_url_us,
        bytes(row.rss_bytes),
        load_average()
    );
}
