//! `portolan bench`: what a page and a link cost on this machine. CPU time by the process clock; the
//! server runs in a process of its own, so that its CPU is not counted.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, ExitCode, Stdio};

use portolan_crawl::report::{bytes, thousands};
use portolan_crawl::scope::ScopeKind;
use portolan_crawl::{Plan, Report, Seed, Settings};
use serde_json::json;

use super::crawl;
use crate::arguments::BenchCommand;
use crate::failure::Failure;
use crate::terminal::Display;

pub(crate) fn run(command: BenchCommand) -> Result<ExitCode, Failure> {
    match command {
        BenchCommand::Crawl {
            hosts,
            pages,
            threads,
            json,
        } => bench_crawl(hosts, pages, threads, json),
        BenchCommand::Graph(arguments) => super::bench_graph::run(&arguments),
        BenchCommand::Registry {
            observations,
            seed,
            dir,
            json,
        } => bench_registry(observations, seed, dir, json),
    }
}

fn bench_crawl(hosts: u32, pages: u32, threads: usize, as_json: bool) -> Result<ExitCode, Failure> {
    let mut server = BenchServer::start(hosts, pages)?;
    let dir = scratch("bench-crawl")?;
    let mut settings = Settings::default();
    settings.scope.scope = ScopeKind::Any;
    settings.politeness.delay_ms = 0;
    settings.limits.threads = threads;
    settings.dns.resolve = vec![format!("*.sim.test={}", server.address)];
    let seed = Seed {
        text: "http://h0.sim.test/".to_owned(),
        place: "the benchmark".to_owned(),
    };
    let plan = Plan {
        dir: dir.clone(),
        seeds: vec![seed],
        settings,
    };
    let report = crawl::drive(plan, Display::new(as_json));
    server.stop();
    let _ = std::fs::remove_dir_all(&dir);
    let report = report?;
    if report.pages == 0 {
        return Err(Failure::failed(
            "nothing could be fetched from the simulated Web",
        ));
    }
    tell_crawl(&report, threads, as_json)?;
    Ok(ExitCode::SUCCESS)
}

/// `portolan simweb` as a second process.
struct BenchServer {
    process: Child,
    address: String,
    /// Kept open: the server goes on talking.
    _output: BufReader<ChildStdout>,
}

impl BenchServer {
    fn start(hosts: u32, pages: u32) -> Result<Self, Failure> {
        let program = std::env::current_exe().map_err(Failure::failed)?;
        let mut process = Command::new(program)
            .args(["simweb", "--preset", "bench", "--port", "0"])
            .args(["--hosts", &hosts.to_string(), "--pages", &pages.to_string()])
            .stdout(Stdio::piped())
            .spawn()
            .map_err(|e| Failure::failed(format!("the simulated Web did not start: {e}")))?;
        let silent = || Failure::failed("the simulated Web did not say where it is");
        let mut output = BufReader::new(process.stdout.take().ok_or_else(silent)?);
        let mut first_line = String::new();
        output.read_line(&mut first_line)?;
        // "A Web of … is served on 127.0.0.1:40123."
        let address = first_line
            .trim_end()
            .trim_end_matches('.')
            .rsplit(' ')
            .next();
        match address.filter(|text| text.contains(':')) {
            Some(address) => Ok(Self {
                process,
                address: address.to_owned(),
                _output: output,
            }),
            None => {
                let _ = process.kill();
                Err(silent())
            }
        }
    }

    fn stop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

fn tell_crawl(report: &Report, threads: usize, as_json: bool) -> Result<(), Failure> {
    let pages = report.pages.max(1) as f64;
    let micros = |seconds: f64| seconds * 1e6 / pages;
    if as_json {
        let stages: serde_json::Map<String, serde_json::Value> = report
            .stages
            .iter()
            .map(|(name, s)| (name.clone(), json!(micros(*s))))
            .collect();
        let value = json!({
            "pages": report.pages, "threads": threads, "seconds": report.seconds,
            "pages_per_second": report.pages as f64 / report.seconds,
            "cpu_us_per_page": micros(report.cpu_seconds), "stage_us_per_page": stages,
            "peak_rss_bytes": report.peak_rss_bytes, "load_average": load_average(),
        });
        println!("{value}");
        return Ok(());
    }
    println!(
        "{} pages of {} on average, {threads} worker thread(s), load of the machine {}",
        thousands(report.pages),
        bytes(report.bytes / report.pages.max(1)),
        load_average()
    );
    println!("  {:>8.0} pages/s", report.pages as f64 / report.seconds);
    println!(
        "  {:>8.1} µs CPU a page, of which",
        micros(report.cpu_seconds)
    );
    for (name, seconds) in &report.stages {
        println!("  {:>8.1}    {name}", micros(*seconds));
    }
    println!("  {:>8} peak resident memory", bytes(report.peak_rss_bytes));
    Ok(())
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

fn scratch(name: &str) -> Result<PathBuf, Failure> {
    let dir = std::env::temp_dir().join(format!("portolan-{name}-{}", std::process::id()));
    if Path::new(&dir).exists() {
        return Err(Failure::failed(format!("{} is in the way", dir.display())));
    }
    Ok(dir)
}

/// How busy the machine was over the last minute.
fn load_average() -> String {
    std::fs::read_to_string("/proc/loadavg")
        .ok()
        .and_then(|text| text.split(' ').next().map(str::to_owned))
        .unwrap_or_else(|| "unknown".to_owned())
}
