//! `portolan bench tol`: the time of a whole crawl with tables of links, with links from the stream, and without, by the simulated
//! Web's witness.

use std::path::Path;
use std::process::ExitCode;

use portolan_crawl::report::thousands;
use portolan_crawl::scope::ScopeKind;
use portolan_crawl::settings::TolUse;
use portolan_crawl::{Extensions, Outside, Plan, Report, RunLimits, Seed, Settings};
use portolan_simweb::Verdict;
use serde_json::{Value, json};

use super::bench::{load_average, scratch};
use super::bench_server::BenchServer;
use super::crawl;
use crate::arguments_bench::BenchTolArguments;
use crate::failure::Failure;
use crate::output::sayln;
use crate::terminal::Display;

const SUFFIX: &str = "sim.test";
const LINKS_PER_PAGE: u32 = 20;
const OFF_HOST_SHARE: f64 = 0.3;

/// How links are learnt before a document has come.
#[derive(Clone, Copy)]
struct Way {
    name: &'static str,
    stream: bool,
    tol: TolUse,
}

/// The first is what the others are compared with.
const WAYS: [Way; 4] = [
    Way {
        name: "when the document is there",
        stream: false,
        tol: TolUse::Never,
    },
    Way {
        name: "from the stream",
        stream: true,
        tol: TolUse::Never,
    },
    Way {
        name: "from the .tol",
        stream: false,
        tol: TolUse::Told,
    },
    Way {
        name: "from both",
        stream: true,
        tol: TolUse::Told,
    },
];

struct Crawled {
    way: Way,
    report: Report,
    verdict: Verdict,
}

pub(crate) fn run(arguments: &BenchTolArguments) -> Result<ExitCode, Failure> {
    let mut crawls = Vec::new();
    for way in WAYS {
        let server = BenchServer::start(&web(arguments))?;
        let dir = scratch("bench-tol")?;
        std::fs::create_dir_all(&dir)?;
        let result = measure(arguments, way, &server, &dir);
        let _ = std::fs::remove_dir_all(&dir);
        crawls.push(result?);
    }
    let figures: Vec<Value> = crawls.iter().map(|one| one.json(&crawls[0])).collect();
    if arguments.json {
        sayln!(
            "{}",
            json!({ "hosts": arguments.hosts, "pages_per_host": arguments.pages,
                "body_ms": arguments.body.as_millis() as u64, "page_bytes": arguments.bytes,
                "delay_ms": arguments.delay.as_millis() as u64,
                "load_average": load_average(), "crawls": figures })
        );
    } else {
        tell(arguments, &crawls);
    }
    let wrong = crawls.iter().any(|one| !one.is_right());
    Ok(ExitCode::from(u8::from(wrong)))
}

/// What the simulated Web is told.
fn web(arguments: &BenchTolArguments) -> Vec<String> {
    let mut options = vec![
        "--port=0".to_owned(),
        format!("--hosts={}", arguments.hosts),
        format!("--pages={}", arguments.pages),
    ];
    for assignment in [
        format!("content.page_bytes={}", arguments.bytes),
        format!("latency.body_ms={}", arguments.body.as_secs_f64() * 1e3),
        "latency.body_share=1.0".to_owned(),
        format!("links.per_page={LINKS_PER_PAGE}"),
        format!("links.off_host_share={OFF_HOST_SHARE}"),
        "tables.tol_share=1.0".to_owned(),
    ] {
        options.extend(["--set".to_owned(), assignment]);
    }
    options
}

fn measure(
    arguments: &BenchTolArguments,
    way: Way,
    server: &BenchServer,
    dir: &Path,
) -> Result<Crawled, Failure> {
    let mut settings = Settings::default();
    settings.access.proxy_from_environment = false;
    settings.scope.scope = ScopeKind::Any;
    settings.politeness.delay_ms = arguments.delay.as_millis() as u64;
    // All hosts are at one address.
    settings.politeness.ip_delay_ms = 0;
    settings.dns.resolve = vec![format!("*.{SUFFIX}={}", server.address)];
    settings.content.early_links = way.stream;
    settings.content.tol = way.tol;
    let plan = Plan {
        dir: dir.join("crawl"),
        seeds: vec![Seed {
            text: format!("http://h0.{SUFFIX}/"),
            place: "the benchmark".to_owned(),
        }],
        settings,
        this_run: RunLimits::default(),
        outside: Outside::default(),
        extensions: Extensions::default(),
        part: None,
        retry: None,
        new_session: false,
        keep_fresh: false,
        ranked_session: false,
        divide: None,
        give_up: Default::default(),
    };
    let report = crawl::drive(plan, Display::new(arguments.json))?;
    if report.pages == 0 {
        return Err(Failure::failed(
            "nothing could be fetched from the simulated Web",
        ));
    }
    let verdict = server.verdict()?;
    Ok(Crawled {
        way,
        report,
        verdict,
    })
}

impl Crawled {
    /// Were all pages fetched, once, and within robots.txt?
    fn is_right(&self) -> bool {
        let seen = &self.verdict;
        let wrong = seen.repeats + seen.forbidden + seen.before_robots + seen.overlaps;
        seen.fetched == seen.required && wrong == 0
    }

    /// By how much shorter than the first, in per cent.
    fn gain(&self, first: &Crawled) -> f64 {
        (1.0 - self.verdict.seconds / first.verdict.seconds.max(1e-9)) * 100.0
    }

    fn json(&self, first: &Crawled) -> Value {
        json!({
            "links": self.way.name, "seconds": self.verdict.seconds, "less_percent": self.gain(first),
            "requests": self.report.requests_this_run, "cpu_seconds": self.report.cpu_seconds,
            "tables_read": self.report.tables_read, "early_links": self.report.early_links,
            "witness": self.verdict,
        })
    }
}

fn tell(arguments: &BenchTolArguments, crawls: &[Crawled]) {
    sayln!(
        "{} hosts x {} documents of {} bytes that come within {} ms, {} ms between requests, load of the machine {}",
        arguments.hosts,
        arguments.pages,
        arguments.bytes,
        arguments.body.as_millis(),
        arguments.delay.as_millis(),
        load_average()
    );
    sayln!("links are learnt                 seconds    less    requests    documents");
    for one in crawls {
        sayln!(
            "{:<30} {:>9.1} {:>6.1}% {:>11} {:>12}",
            one.way.name,
            one.verdict.seconds,
            one.gain(&crawls[0]),
            thousands(one.report.requests_this_run),
            format!("{} of {}", one.verdict.fetched, one.verdict.required),
        );
    }
    let wrong = crawls.iter().filter(|one| !one.is_right()).count();
    sayln!(
        "The witness saw {}.",
        match wrong {
            0 => "each document once, one request at a time on a host, and robots.txt obeyed"
                .to_owned(),
            wrong => format!("{wrong} of these crawls go wrong: their figures are worth nothing"),
        }
    );
}
