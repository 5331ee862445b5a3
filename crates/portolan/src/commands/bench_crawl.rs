//! `portolan bench crawl`: a whole crawl of a simulated Web, judged by the Web's witness.

use std::path::Path;
use std::process::ExitCode;

use portolan_crawl::report::{bytes, thousands};
use portolan_crawl::scope::ScopeKind;
use portolan_crawl::settings::Compression;
use portolan_crawl::{Extensions, Outside, Plan, Report, RunLimits, Seed, Settings};
use portolan_simweb::Verdict;
use serde_json::{Value, json};

use super::bench::{load_average, scratch};
use super::bench_server::BenchServer;
use super::crawl;
use crate::arguments_bench::BenchCrawlArguments;
use crate::failure::Failure;
use crate::output::sayln;
use crate::terminal::Display;

const SUFFIX: &str = "sim.test";
const CONNECTIONS: usize = 256;
/// With `--tls`: this many pages share one handshake.
const TLS_REQUESTS_PER_CONNECTION: u32 = 10;
/// With `--pages-from`: links that are put on a page besides its own.
const REAL_PAGE_LINKS: u32 = 10;

pub(crate) fn run(arguments: &BenchCrawlArguments) -> Result<ExitCode, Failure> {
    if let Some(folder) = &arguments.pages_from
        && !folder.is_dir()
    {
        return Err(Failure::usage(format!(
            "--pages-from {}: there is no such folder",
            folder.display()
        )));
    }
    let server = BenchServer::start(&web(arguments)?)?;
    let dir = scratch("bench-crawl")?;
    std::fs::create_dir_all(&dir)?;
    let result = measure(arguments, &server, &dir);
    let _ = std::fs::remove_dir_all(&dir);
    let (report, verdict) = result?;
    if report.pages == 0 {
        return Err(Failure::failed(
            "nothing could be fetched from the simulated Web",
        ));
    }
    if arguments.json {
        sayln!("{}", as_json(arguments, &report, &verdict));
    } else {
        tell(arguments, &report, &verdict);
    }
    Ok(ExitCode::from(u8::from(!is_right(&verdict))))
}

/// What the simulated Web is told.
fn web(arguments: &BenchCrawlArguments) -> Result<Vec<String>, Failure> {
    let mut options = vec![
        "--port=0".to_owned(),
        format!("--hosts={}", arguments.hosts),
        format!("--pages={}", arguments.pages),
    ];
    let mut set = |assignment: String| options.extend(["--set".to_owned(), assignment]);
    if arguments.tls {
        set("tls=true".to_owned());
        set(format!(
            "requests_per_connection={TLS_REQUESTS_PER_CONNECTION}"
        ));
    }
    if arguments.gzip {
        set("content.gzip_share=1.0".to_owned());
    }
    if let Some(folder) = &arguments.pages_from {
        set(format!("pages_from={}", folder.canonicalize()?.display()));
        set(format!("links.per_page={REAL_PAGE_LINKS}"));
    }
    Ok(options)
}

fn measure(
    arguments: &BenchCrawlArguments,
    server: &BenchServer,
    dir: &Path,
) -> Result<(Report, Verdict), Failure> {
    let mut settings = Settings::default();
    settings.access.proxy_from_environment = false;
    settings.scope.scope = ScopeKind::Any;
    // The links that real pages came with lead elsewhere; they are read and judged, not followed.
    settings.scope.sites = vec![format!("*.{SUFFIX}")];
    settings.politeness.delay_ms = 0;
    settings.limits.threads = arguments.threads;
    // The same on every machine.
    settings.limits.connections = CONNECTIONS;
    settings.dns.resolve = vec![format!("*.{SUFFIX}={}", server.address)];
    if arguments.no_compression {
        settings.archive.compression = Compression::None;
    }
    if arguments.tls {
        let file = dir.join("ca.pem");
        std::fs::write(&file, &server.certificate_pem)?;
        settings.http.ca_file = file;
    }
    let scheme = if arguments.tls { "https" } else { "http" };
    let seed = Seed {
        text: format!("{scheme}://h0.{SUFFIX}/"),
        place: "the benchmark".to_owned(),
    };
    let plan = Plan {
        dir: dir.join("crawl"),
        seeds: vec![seed],
        settings,
        this_run: RunLimits::default(),
        outside: Outside::default(),
        part: None,
        extensions: Extensions::default(),
        retry: None,
        new_session: false,
        keep_fresh: false,
        ranked_session: false,
        divide: None,
        give_up: Default::default(),
    };
    let report = crawl::drive(plan, Display::new(arguments.json))?;
    Ok((report, server.verdict()?))
}

/// Were all pages fetched, once, and within robots.txt?
fn is_right(verdict: &Verdict) -> bool {
    let wrong = verdict.repeats + verdict.forbidden + verdict.before_robots + verdict.overlaps;
    verdict.fetched == verdict.required && wrong == 0
}

fn variant(arguments: &BenchCrawlArguments) -> String {
    let mut words = vec![];
    words.push(if arguments.tls { "TLS" } else { "plain HTTP" });
    if arguments.gzip {
        words.push("sent as gzip");
    }
    if arguments.pages_from.is_some() {
        words.push("real pages");
    }
    words.push(if arguments.no_compression {
        "stored as plain WARC"
    } else {
        "stored as gzip WARC"
    });
    words.join(", ")
}

fn as_json(arguments: &BenchCrawlArguments, report: &Report, verdict: &Verdict) -> Value {
    let pages = report.pages.max(1) as f64;
    let micros = |seconds: f64| seconds * 1e6 / pages;
    let stages: serde_json::Map<String, Value> = report
        .stages
        .iter()
        .map(|(name, seconds)| (name.clone(), json!(micros(*seconds))))
        .collect();
    json!({
        "variant": variant(arguments), "pages": report.pages, "threads": arguments.threads,
        "seconds": report.seconds, "pages_per_second": pages / report.seconds,
        "cpu_us_per_page": micros(report.cpu_seconds), "stage_us_per_page": stages,
        "wire_bytes_per_page": report.wire_bytes / report.pages.max(1),
        "stored_bytes": report.stored_bytes, "peak_rss_bytes": report.peak_rss_bytes,
        "load_average": load_average(), "witness": verdict,
    })
}

fn tell(arguments: &BenchCrawlArguments, report: &Report, verdict: &Verdict) {
    let pages = report.pages.max(1) as f64;
    let micros = |seconds: f64| seconds * 1e6 / pages;
    sayln!(
        "{}: {} pages, {} each on the wire, {} worker thread(s), load of the machine {}",
        variant(arguments),
        thousands(report.pages),
        bytes(report.wire_bytes / report.pages.max(1)),
        arguments.threads,
        load_average()
    );
    sayln!("  {:>8.0} pages/s", pages / report.seconds);
    sayln!(
        "  {:>8.1} µs CPU a page, of which",
        micros(report.cpu_seconds)
    );
    for (name, seconds) in &report.stages {
        sayln!("  {:>8.1}    {name}", micros(*seconds));
    }
    sayln!("  {:>8} peak resident memory", bytes(report.peak_rss_bytes));
    sayln!(
        "  {:>8} of archive, {} a page",
        bytes(report.stored_bytes),
        bytes(report.stored_bytes / report.pages.max(1))
    );
    sayln!("What the witness saw:");
    for (count, what) in [
        (
            format!(
                "{} of {}",
                thousands(verdict.fetched),
                thousands(verdict.required)
            ),
            "pages fetched",
        ),
        (thousands(verdict.repeats), "asked for twice"),
        (
            thousands(verdict.forbidden + verdict.before_robots),
            "requests against robots.txt",
        ),
        (
            thousands(verdict.overlaps),
            "requests that overlapped on a host",
        ),
        (thousands(verdict.connections), "connections"),
        (
            format!("{:.0}", verdict.fetched as f64 / verdict.seconds.max(1e-9)),
            "pages/s from its first request to its last answer",
        ),
    ] {
        sayln!("  {count:>8} {what}");
    }
}
