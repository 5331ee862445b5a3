//! `portolan bench pace`: how much of what delays and latency allow a crawl of many hosts reaches, and how much of it is left
//! beside hosts that never get an answer out. Counted by the simulated Web's witness.

use std::net::TcpListener;
use std::path::Path;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use portolan_crawl::report::{bytes, thousands};
use portolan_crawl::scope::ScopeKind;
use portolan_crawl::{
    Crawl, Extensions, Outside, Plan, Report, RunLimits, Seed, Settings, StoppedBy,
};
use portolan_simweb::{Figures, WebSpec};
use serde_json::{Value, json};

use super::bench::{load_average, scratch};
use super::bench_server::BenchServer;
use crate::arguments_bench::{BenchPaceArguments, SickHosts};
use crate::failure::Failure;
use crate::output::sayln;

/// A host has this many pages more than can be asked for in the time of the run.
const SPARE_PAGES: u64 = 20;
/// Pages a second of one host, at most, without a delay.
const FASTEST_HOST: u64 = 2_000;
const PAGE_BYTES: u32 = 4_000;
const LINKS_PER_PAGE: u32 = 8;

/// What one crawl came to, after its warm-up.
struct Pace {
    /// Requests a second to healthy hosts.
    rate: f64,
    /// Connections opened for each of them.
    connections: f64,
    cpu_cores: f64,
    report: Report,
    end: Figures,
}

pub(crate) fn run(arguments: &BenchPaceArguments) -> Result<ExitCode, Failure> {
    if arguments.warm_up >= arguments.time {
        return Err(Failure::usage(
            "--warm-up must be shorter than --time, or nothing is measured",
        ));
    }
    let alone = measure(arguments, SickHosts::default())?;
    let beside = match arguments.sick {
        SickHosts::NONE => None,
        sick => Some(measure(arguments, sick)?),
    };
    if arguments.json {
        sayln!("{}", as_json(arguments, &alone, beside.as_ref()));
    } else {
        tell(arguments, &alone, beside.as_ref());
    }
    let rude = beside.iter().any(|pace| pace.end.sick_most_at_once > 1);
    Ok(ExitCode::from(u8::from(rude)))
}

/// Requests a second that the delay and the latency allow; `None`: neither sets a limit.
fn allowed(arguments: &BenchPaceArguments) -> Option<f64> {
    let latency_s = arguments.latency.as_secs_f64();
    let hosts = f64::from(arguments.hosts) / (arguments.delay.as_secs_f64() + latency_s);
    let places = arguments.connections as f64 / latency_s;
    let allowed = hosts.min(places);
    allowed.is_finite().then_some(allowed)
}

fn measure(arguments: &BenchPaceArguments, sick: SickHosts) -> Result<Pace, Failure> {
    // URLs name the port, for names that are resolved by the Web's DNS server. It was free a moment ago.
    let port = TcpListener::bind("127.0.0.1:0")?.local_addr()?.port();
    let spec = spec(arguments, sick, port);
    let server = BenchServer::start(&options(&spec, port))?;
    let dir = scratch("bench-pace")?;
    let result = crawl(arguments, &spec, sick.dns, &server, &dir);
    let _ = std::fs::remove_dir_all(&dir);
    result
}

fn spec(arguments: &BenchPaceArguments, sick: SickHosts, port: u16) -> WebSpec {
    let pause_s = (arguments.delay + arguments.latency).as_secs_f64();
    let asked = arguments.time.as_secs_f64() / pause_s.max(1.0 / FASTEST_HOST as f64);
    let mut spec = WebSpec::bench()
        .with_hosts(arguments.hosts)
        .with_pages_per_host((asked as u64 + SPARE_PAGES) as u32)
        .with_latency_ms(arguments.latency.as_secs_f64() * 1e3);
    spec.url_port = Some(port);
    spec.content.page_bytes = PAGE_BYTES;
    spec.links.per_page = LINKS_PER_PAGE;
    spec.sick.silent = sick.silent;
    spec.sick.drip = sick.drip;
    // Without a lost host there is no DNS server; one alone disturbs nobody.
    spec.sick.lost = sick.dns.max(1);
    spec
}

/// What `portolan simweb` is told.
fn options(spec: &WebSpec, port: u16) -> Vec<String> {
    let mut options = vec![
        format!("--port={port}"),
        format!("--hosts={}", spec.hosts),
        format!("--pages={}", spec.pages_per_host),
    ];
    for assignment in [
        format!("url_port={port}"),
        format!("latency.mean_ms={}", spec.latency.mean_ms),
        format!("content.page_bytes={}", spec.content.page_bytes),
        format!("links.per_page={}", spec.links.per_page),
        format!("sick.silent={}", spec.sick.silent),
        format!("sick.drip={}", spec.sick.drip),
        format!("sick.lost={}", spec.sick.lost),
    ] {
        options.extend(["--set".to_owned(), assignment]);
    }
    options
}

fn crawl(
    arguments: &BenchPaceArguments,
    spec: &WebSpec,
    lost: u32,
    server: &BenchServer,
    dir: &Path,
) -> Result<Pace, Failure> {
    let mut settings = Settings::default();
    settings.access.proxy_from_environment = false;
    settings.scope.scope = ScopeKind::Any;
    settings.politeness.delay_ms = arguments.delay.as_millis() as u64;
    // All hosts are at one address.
    settings.politeness.ip_delay_ms = 0;
    settings.limits.connections = arguments.connections;
    settings.limits.threads = arguments.threads;
    settings.dns.servers = vec![server.dns_address.clone()];
    settings.dns.allow_networks = vec!["127.0.0.0/8".to_owned()];
    let plan = Plan {
        dir: dir.to_owned(),
        seeds: seeds(spec, lost),
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
    let crawl = Crawl::start(plan)?;
    let begun = Instant::now();
    wait(&crawl, begun + arguments.warm_up);
    let warm = server.figures()?;
    wait(&crawl, begun + arguments.time);
    let end = server.figures()?;
    crawl.stop_now(StoppedBy::TimeLimit);
    let report = crawl.join()?;
    let requests = end.requests.saturating_sub(warm.requests);
    if requests == 0 {
        return Err(Failure::failed(
            "nothing could be fetched from the simulated Web",
        ));
    }
    let sick = end.sick_requests.saturating_sub(warm.sick_requests);
    let opened = end.connections.saturating_sub(warm.connections + sick);
    Ok(Pace {
        rate: requests as f64 / (end.seconds - warm.seconds).max(1e-9),
        connections: opened as f64 / requests as f64,
        cpu_cores: report.cpu_seconds / report.seconds.max(1e-9),
        report,
        end,
    })
}

/// Every host's home page, healthy and sick ones mixed, as links would bring them.
fn seeds(spec: &WebSpec, lost: u32) -> Vec<Seed> {
    let port = spec.url_port.map(|p| format!(":{p}")).unwrap_or_default();
    let url = |start: &str, n: u32| Seed {
        text: format!("http://{start}{n}.{}{port}/", spec.suffix),
        place: "the benchmark".to_owned(),
    };
    let kinds = [
        ("h", spec.hosts),
        ("silent", spec.sick.silent),
        ("drip", spec.sick.drip),
        ("lost", lost),
    ];
    let most = kinds.iter().map(|(_, count)| *count).max().unwrap_or(0);
    (0..most)
        .flat_map(|n| {
            kinds
                .iter()
                .filter(move |(_, count)| n < *count)
                .map(move |(start, _)| (*start, n))
        })
        .map(|(start, n)| url(start, n))
        .collect()
}

fn wait(crawl: &Crawl, until: Instant) {
    while Instant::now() < until && !crawl.is_finished() {
        std::thread::sleep(Duration::from_millis(20));
    }
}

fn as_json(arguments: &BenchPaceArguments, alone: &Pace, beside: Option<&Pace>) -> Value {
    let one = |pace: &Pace| {
        json!({
            "requests_per_second": pace.rate,
            "share_of_allowed": allowed(arguments).map(|allowed| pace.rate / allowed),
            "connections_per_request": pace.connections, "cpu_cores": pace.cpu_cores,
            "peak_rss_bytes": pace.report.peak_rss_bytes, "witness": pace.end,
        })
    };
    json!({
        "hosts": arguments.hosts, "delay_ms": arguments.delay.as_millis() as u64,
        "latency_ms": arguments.latency.as_millis() as u64, "connections": arguments.connections,
        "allowed_per_second": allowed(arguments), "alone": one(alone), "beside_sick": beside.map(one),
        "share_beside_sick": beside.map(|beside| beside.rate / alone.rate), "load_average": load_average(),
    })
}

fn tell(arguments: &BenchPaceArguments, alone: &Pace, beside: Option<&Pace>) {
    sayln!(
        "{} hosts, {:?} delay, {:?} latency, {} connections; load of the machine {}",
        thousands(arguments.hosts.into()),
        arguments.delay,
        arguments.latency,
        arguments.connections,
        load_average()
    );
    tell_one(arguments, "healthy hosts alone", alone);
    if let Some(beside) = beside {
        let SickHosts { silent, drip, dns } = arguments.sick;
        let what = format!("beside {silent} silent, {drip} dripping and {dns} lost hosts");
        tell_one(arguments, &what, beside);
        sayln!(
            "  {:>7.1} % of their rate alone is left to healthy hosts",
            100.0 * beside.rate / alone.rate
        );
    }
}

fn tell_one(arguments: &BenchPaceArguments, what: &str, pace: &Pace) {
    sayln!("{what}:");
    sayln!("  {:>7.0} requests/s to healthy hosts", pace.rate);
    if let Some(allowed) = allowed(arguments) {
        let share = 100.0 * pace.rate / allowed;
        sayln!("  {share:>7.1} % of the {allowed:.0} that delay and latency allow");
    }
    sayln!(
        "  {:>7.3} connections opened for each of them",
        pace.connections
    );
    sayln!("  {:>7.2} cores busy in the crawler", pace.cpu_cores);
    let peak = bytes(pace.report.peak_rss_bytes);
    sayln!("  {peak:>7} peak resident memory");
}
