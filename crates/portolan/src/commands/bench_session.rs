//! `portolan bench session`: what a new session over unchanged pages costs beside the first one.

use std::path::Path;
use std::process::ExitCode;

use portolan_crawl::report::{bytes, thousands};
use portolan_crawl::scope::ScopeKind;
use portolan_crawl::{Plan, Report, Settings};
use serde_json::json;

use super::bench::{load_average, scratch};
use super::bench_server::BenchServer;
use super::crawl;
use crate::arguments_bench::BenchSessionArguments;
use crate::failure::Failure;
use crate::output::sayln;
use crate::terminal::Display;

const SUFFIX: &str = "sim.test";
const CONNECTIONS: usize = 256;

pub(crate) fn run(arguments: &BenchSessionArguments) -> Result<ExitCode, Failure> {
    let web = [
        "--port=0".to_owned(),
        format!("--hosts={}", arguments.hosts),
        format!("--pages={}", arguments.pages),
    ];
    let server = BenchServer::start(&web)?;
    let dir = scratch("bench-session")?;
    std::fs::create_dir_all(&dir)?;
    let result = measure(&server, &dir, arguments.json);
    let _ = std::fs::remove_dir_all(&dir);
    let (first, second) = result?;
    if first.pages == 0 || first.pages != second.pages {
        return Err(Failure::failed(format!(
            "the first session has {} documents and the second {}",
            first.pages, second.pages
        )));
    }
    match arguments.json {
        true => sayln!("{}", as_json(&first, &second)),
        false => tell(&first, &second),
    }
    Ok(ExitCode::SUCCESS)
}

/// A crawl of all of the server's Web, without delay.
pub(super) fn plan(server: &BenchServer, dir: &Path) -> Plan {
    let mut settings = Settings::default();
    settings.access.proxy_from_environment = false;
    settings.scope.scope = ScopeKind::Any;
    settings.politeness.delay_ms = 0;
    settings.limits.threads = 1;
    // The same on every machine.
    settings.limits.connections = CONNECTIONS;
    settings.dns.resolve = vec![format!("*.{SUFFIX}={}", server.address)];
    Plan::new(
        dir.join("crawl"),
        [format!("http://h0.{SUFFIX}/")],
        settings,
    )
}

fn measure(server: &BenchServer, dir: &Path, quiet: bool) -> Result<(Report, Report), Failure> {
    let plan = plan(server, dir);
    let mut again = plan.clone();
    let first = crawl::drive(plan, Display::new(quiet))?;
    again.seeds.clear();
    again.new_session = true;
    let second = crawl::drive(again, Display::new(quiet))?;
    Ok((first, second))
}

fn shares(first: &Report, second: &Report) -> (f64, f64) {
    (
        second.cpu_seconds / first.cpu_seconds,
        second.wire_bytes_this_run as f64 / first.wire_bytes_this_run as f64,
    )
}

fn as_json(first: &Report, second: &Report) -> serde_json::Value {
    let (cpu, wire) = shares(first, second);
    let one = |report: &Report| {
        json!({
            "requests": report.requests_this_run,
            "seconds": report.seconds,
            "cpu_seconds": report.cpu_seconds,
            "wire_bytes": report.wire_bytes_this_run,
            "stages": report.stages,
        })
    };
    json!({
        "pages": first.pages, "first": one(first), "second": one(second),
        "share_of_cpu": cpu, "share_of_bytes": wire, "load_average": load_average(),
    })
}

fn tell(first: &Report, second: &Report) {
    let (cpu, wire) = shares(first, second);
    sayln!(
        "{} documents, none of which changed; load of the machine {}:",
        thousands(first.pages),
        load_average()
    );
    for (name, report) in [("first", first), ("second", second)] {
        let micros = report.cpu_seconds * 1e6 / report.pages.max(1) as f64;
        sayln!(
            "  {name} session: {} requests in {:.1} s, {:.1} s CPU ({micros:.0} µs a document), {} received",
            thousands(report.requests_this_run),
            report.seconds,
            report.cpu_seconds,
            bytes(report.wire_bytes_this_run),
        );
    }
    sayln!(
        "  The second took {:.1} % of the CPU and {:.2} % of the bytes.",
        100.0 * cpu,
        100.0 * wire
    );
}
