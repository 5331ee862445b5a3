//! `portolan bench`: what a page and a link cost on this machine. CPU time by the process clock, and
//! the load of the machine beside it. One file for each bench; here is what they share.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use crate::arguments::BenchCommand;
use crate::failure::Failure;

pub(crate) fn run(command: BenchCommand) -> Result<ExitCode, Failure> {
    match command {
        BenchCommand::Crawl(arguments) => super::bench_crawl::run(&arguments),
        BenchCommand::Adoption(arguments) => super::bench_adoption::run(&arguments),
        BenchCommand::Pace(arguments) => super::bench_pace::run(&arguments),
        BenchCommand::Extract(arguments) => super::bench_extract::run(&arguments),
        BenchCommand::Archive(arguments) => super::bench_archive::run(&arguments),
        BenchCommand::Graph(arguments) => super::bench_graph::run(&arguments),
        BenchCommand::Registry(arguments) => super::bench_registry::run(&arguments),
        BenchCommand::Frontier(arguments) => super::bench_frontier::run(&arguments),
        BenchCommand::FrontierServer(arguments) => super::bench_frontier_server::run(&arguments),
        BenchCommand::Session(arguments) => super::bench_session::run(&arguments),
        BenchCommand::Tol(arguments) => super::bench_tol::run(&arguments),
        BenchCommand::Freshness(arguments) => super::bench_freshness::run(&arguments),
    }
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
