//! `portolan demo`: a simulated Web inside this program is crawled, the archive verified, and the
//! witness asked how the crawl behaved. No network needed.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;

use portolan_archive::verify;
use portolan_crawl::report::thousands;
use portolan_crawl::scope::ScopeKind;
use portolan_crawl::{Crawl, Extensions, Outside, Plan, Report, RunLimits, Seed, Settings};
use portolan_simweb::{Server, TruthQuery, Web, WebSpec, Witness};

use super::{crawl, demo_fleet, inspect, warc};
use crate::arguments::DemoArguments;
use crate::failure::Failure;
use crate::output::sayln;
use crate::terminal::Display;

const DEFAULT_OUT: &str = "demo-crawl";

pub(crate) fn run(arguments: DemoArguments) -> Result<ExitCode, Failure> {
    let out = match arguments.out {
        Some(out) => out,
        None => free_directory(Path::new(DEFAULT_OUT)),
    };
    if Crawl::exists(&out) {
        return Err(Failure::usage(format!(
            "--out {} holds a crawl already; name another directory",
            out.display()
        )));
    }
    if arguments.nodes.is_some() {
        demo_fleet::check_tools()?;
    }
    let spec = WebSpec::demo()
        .with_seed(arguments.seed)
        .with_product_token("portolan");
    let web = Arc::new(Web::new(spec).map_err(Failure::usage)?);
    let address = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 0);
    let server = Server::start(Arc::clone(&web), address).map_err(Failure::failed)?;
    sayln!(
        "A simulated Web of {} hosts and {} pages is served inside this program: redirects, errors,\n\
         copies, traps, robots rules, odd servers, Japanese pages. Crawling it into {} ...",
        thousands(u64::from(web.host_count())),
        thousands(web.page_count()),
        out.display()
    );
    if let Some(nodes) = arguments.nodes {
        let complete = demo_fleet::run(&web, &server, &out, nodes)?;
        return Ok(ExitCode::from(u8::from(!complete)));
    }
    let mut settings = Settings::default();
    settings.access.proxy_from_environment = false;
    settings.scope.scope = ScopeKind::Any;
    settings.politeness.delay_ms = 0;
    settings.politeness.backoff_ms = 200;
    // Some pages of this Web answer 429 or 503 for ever.
    settings.outages.wait_ms = 2_000;
    settings.http.request_timeout_ms = 5_000;
    settings.dns.resolve = vec![format!("*.{}={}", web.spec().suffix, server.addr())];
    settings.identity.contact = "https://example.org/crawler".to_owned();
    let home = web.spec().home_url();
    let seeds = vec![Seed {
        text: home.clone(),
        place: "the demo".to_owned(),
    }];
    let report = crawl::drive(
        Plan {
            dir: out.clone(),
            seeds,
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
            give_up: Arc::default(),
        },
        Display::new(false),
    )?;
    sayln!("\n{report}");

    let sound = verify_archive(&out)?;
    let witness = server.shutdown();
    sayln!("\nWhat the Web itself saw:\n{}", witness.report());
    let complete = compare(&web, &report, &witness);
    sayln!(
        "\nLook around:\n  portolan status {0}\n  portolan urls {0} --state failed\n  portolan why {0} {home}\n  \
         portolan warc list {0} | head\nThe real thing:\n  portolan crawl https://example.org/ --contact you@example.net",
        out.display()
    );
    Ok(ExitCode::from(u8::from(!(sound && complete))))
}

pub(super) fn verify_archive(out: &Path) -> Result<bool, Failure> {
    sayln!("Verifying the archive ...");
    let mut sound = true;
    for file in warc::files(&[out.to_owned()])? {
        let report = verify(&file).map_err(Failure::failed)?;
        sound &= report.is_sound();
        warc::tell(&mut inspect::lines(), &report)?;
    }
    Ok(sound)
}

/// Was everything fetched that a perfect crawler would fetch?
fn compare(web: &Web, report: &Report, witness: &Witness) -> bool {
    let truth = web.truth(&TruthQuery::default());
    let required = truth.documents();
    let missed = truth.missed(&witness.per_url());
    sayln!(
        "Of {} documents that a perfect crawler must fetch from this Web, {} were missed; {} documents were archived in all.",
        thousands(required.len() as u64),
        thousands(missed.len() as u64),
        thousands(report.pages)
    );
    for url in missed.iter().take(5) {
        sayln!("  missed: {url}");
    }
    missed.is_empty()
}

/// `demo-crawl`, or `demo-crawl-2`, … where that is taken.
fn free_directory(wanted: &Path) -> PathBuf {
    if !wanted.exists() {
        return wanted.to_owned();
    }
    (2..)
        .map(|n| PathBuf::from(format!("{}-{n}", wanted.display())))
        .find(|path| !path.exists())
        .unwrap_or_else(|| wanted.to_owned())
}
