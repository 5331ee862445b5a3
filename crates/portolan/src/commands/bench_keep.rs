//! `portolan bench freshness --web`: a crawl that keeps a moving Web fresh, judged by the Web's witness, with politeness in force.

use std::path::Path;
use std::process::ExitCode;

use portolan_crawl::Report;
use portolan_crawl::report::thousands;
use portolan_crawl::settings::{FreshnessPolicy, Importance};
use portolan_freshness::optimal_freshness;
use portolan_simweb::{FreshnessReport, Web, WebSpec, WitnessReport};
use serde_json::json;

use super::bench::{load_average, scratch};
use super::bench_server::BenchServer;
use super::bench_session::plan;
use super::crawl;
use crate::arguments_bench::{BenchFreshnessArguments, WebPolicy};
use crate::failure::Failure;
use crate::output::sayln;
use crate::terminal::Display;

const HOSTS: u32 = 20;
const PAGES_A_HOST: u32 = 50;
/// A simulated day lasts this long, ...
const DAY_S: f64 = 2.0;
/// ... and has this many fetches, a tenth of the pages.
const FETCHES_A_DAY: f64 = 100.0;
/// Between requests to a host.
const DELAY_MS: u64 = 40;
/// With sitemaps: how often each is asked for, in seconds.
const SITEMAPS_EVERY_S: u64 = 2;

pub(crate) fn run(arguments: &BenchFreshnessArguments, days: f64) -> Result<ExitCode, Failure> {
    if !(days.is_finite() && (8.0..=10_000.0).contains(&days)) {
        return Err(Failure::usage("--web must be from 8 to 10000 days"));
    }
    let mut is_clean = true;
    let policy = match arguments.policy {
        WebPolicy::Ours => FreshnessPolicy::Worth,
        WebPolicy::Uniform => FreshnessPolicy::Uniform,
        WebPolicy::Proportional => FreshnessPolicy::Proportional,
        WebPolicy::Nutch => FreshnessPolicy::Nutch,
        WebPolicy::StormCrawler => FreshnessPolicy::StormCrawler,
        WebPolicy::LambdaCrawl => FreshnessPolicy::LambdaCrawl,
    };
    let is_ours = arguments.policy == WebPolicy::Ours;
    for sitemaps in [false, true].into_iter().take(1 + usize::from(is_ours)) {
        let kept = keep((days, policy), sitemaps, arguments.json)?;
        is_clean &= kept.is_clean;
        match arguments.json {
            true => sayln!("{}", as_json(&kept, sitemaps)),
            false => tell(&kept, sitemaps),
        }
    }
    Ok(ExitCode::from(u8::from(!is_clean)))
}

/// What came of it.
struct Kept {
    /// From a quarter of the time on.
    seen: FreshnessReport,
    optimum: f64,
    report: Report,
    is_clean: bool,
}

fn keep(asked: (f64, FreshnessPolicy), sitemaps: bool, quiet: bool) -> Result<Kept, Failure> {
    let server = BenchServer::start(&web(sitemaps))?;
    let dir = scratch("bench-freshness")?;
    std::fs::create_dir_all(&dir)?;
    let kept = measure(asked, &server, &dir, quiet);
    let _ = std::fs::remove_dir_all(&dir);
    kept
}

fn web(sitemaps: bool) -> Vec<String> {
    let mut options = vec![
        "--port=0".to_owned(),
        format!("--hosts={HOSTS}"),
        format!("--pages={PAGES_A_HOST}"),
    ];
    let share = f64::from(u8::from(sitemaps));
    // Without sitemaps there are more changes than fetches, and rates decide. With them the question is how soon a change is seen, and
    // there are fewer.
    let (rate, spread) = match sitemaps {
        true => (0.01, 1.0),
        false => (0.1, 1.7),
    };
    for assignment in [
        "content.page_bytes=4000".to_owned(),
        "links.per_page=12".to_owned(),
        format!("motion.changes_a_day={rate}"),
        format!("motion.spread={spread}"),
        format!("motion.day_s={DAY_S}"),
        format!("discovery.sitemap_share={share}"),
    ] {
        options.extend(["--set".to_owned(), assignment]);
    }
    options
}

fn measure(
    (days, policy): (f64, FreshnessPolicy),
    server: &BenchServer,
    dir: &Path,
    quiet: bool,
) -> Result<Kept, Failure> {
    let mut first = plan(server, dir);
    first.settings.politeness.ip_delay_ms = 0;
    first.settings.freshness.importance = Importance::Equal;
    first.settings.freshness.fetches_per_s = FETCHES_A_DAY / DAY_S;
    first.settings.freshness.sources_every_s = SITEMAPS_EVERY_S;
    first.settings.freshness.tick_ms = 1;
    first.settings.freshness.policy = policy;
    // In days of this Web, what the policy is told of a page of which nothing is known: once in ten days.
    first.settings.freshness.first_guess_per_day = 0.1 * 86_400.0 / DAY_S;
    let mut second = first.clone();
    crawl::drive(first, Display::new(quiet))?;
    server.tell(&format!("expect?delay_ms={DELAY_MS}"))?;
    let _: Option<u64> = server.ask("motion")?;
    second.seeds.clear();
    second.keep_fresh = true;
    second.settings.politeness.delay_ms = DELAY_MS;
    second.this_run.time_limit_s = Some(days * DAY_S);
    let report = crawl::drive(second, Display::new(quiet))?;
    let from_s = (days * DAY_S / 4.0) as u64;
    let seen: FreshnessReport = server.ask(&format!("freshness?from_s={from_s}"))?;
    let witness: WitnessReport = server.ask("witness")?;
    let spec: WebSpec = server.ask("spec")?;
    let web = Web::new(spec).map_err(Failure::failed)?;
    let pages: Vec<(f64, f64)> = (0..web.host_count())
        .flat_map(|host| (0..web.pages_of(host)).map(move |page| (host, page)))
        .map(|(host, page)| (web.change_rate(host, page), 1.0))
        .filter(|(rate, _)| *rate > 0.0)
        .collect();
    // With the fetches that were made of pages, not those that were allowed.
    let per_day = seen.requests as f64 / seen.seconds * DAY_S;
    Ok(Kept {
        optimum: optimal_freshness(&pages, per_day.max(1.0)),
        seen,
        report,
        is_clean: witness.violations.is_empty(),
    })
}

fn as_json(kept: &Kept, sitemaps: bool) -> serde_json::Value {
    json!({
        "sitemaps": sitemaps,
        "witness": kept.seen,
        "optimum": kept.optimum,
        "share_of_optimum": kept.seen.fresh / kept.optimum,
        "requests": kept.report.requests_this_run,
        "cpu_seconds": kept.report.cpu_seconds,
        "polite": kept.is_clean,
        "load_average": load_average(),
    })
}

fn tell(kept: &Kept, sitemaps: bool) {
    let seen = &kept.seen;
    sayln!(
        "{} pages that change, {HOSTS} hosts, {DELAY_MS} ms between requests, {:.0} fetches a day of {DAY_S} s, {}; load of the machine {}:",
        thousands(seen.pages),
        FETCHES_A_DAY,
        match sitemaps {
            true => "with sitemaps",
            false => "without sitemaps",
        },
        load_average(),
    );
    sayln!(
        "  {:.3} fresh on average, {:.3} of the optimum without signals ({:.3})",
        seen.fresh,
        seen.fresh / kept.optimum,
        kept.optimum
    );
    sayln!(
        "  {} requests for pages: {} brought news, {} the same again, {} were answered 304",
        thousands(seen.requests),
        thousands(seen.news),
        thousands(seen.wasted),
        thousands(seen.not_modified)
    );
    let after = |seconds: Option<f64>| match seconds {
        Some(seconds) => format!("after {seconds:.2} s"),
        None => "not at all".to_owned(),
    };
    sayln!(
        "  {} changes: half of them were seen {}, 95 % {}{}",
        thousands(seen.all.changes),
        after(seen.all.seen_after_s),
        after(seen.all.seen_after_s_95),
        match sitemaps {
            true => format!("; sitemaps are read every {SITEMAPS_EVERY_S} s"),
            false => String::new(),
        }
    );
    sayln!(
        "  {}",
        match kept.is_clean {
            true => "Nobody was asked too soon.",
            false => "Hosts were asked too soon: these figures are worth nothing.",
        }
    );
}
