//! `portolan freshness`: how fresh a crawl's copies are, how often pages change, and what is fetched next.

use std::io::Write;
use std::process::ExitCode;

use portolan_crawl::report::thousands;
use portolan_crawl::{HostFreshness, NextFetch, Survey, survey};
use serde_json::{Value, json};

use super::inspect;
use crate::arguments_freshness::FreshnessArguments;
use crate::failure::Failure;
use crate::output::Lines;

pub(crate) fn run(arguments: &FreshnessArguments) -> Result<ExitCode, Failure> {
    let survey = survey(&arguments.dir, arguments.rate, arguments.top)?;
    let mut out = inspect::lines();
    if arguments.json {
        inspect::write_json(&mut out, &as_json(&survey))?;
    } else {
        write_text(&mut out, &survey, arguments.top)?;
    }
    Ok(ExitCode::SUCCESS)
}

fn as_json(survey: &Survey) -> Value {
    let host = |host: &HostFreshness| {
        json!({
            "host": host.host,
            "pages": host.pages,
            "changes_per_day": host.changes_per_day,
            "fresh": host.fresh,
            "fetches": host.fetches,
        })
    };
    let next = |next: &NextFetch| {
        json!({
            "url": next.url,
            "in_s": next.in_s,
            "why": next.why,
            "changes_per_day": next.changes_per_day,
            "age_s": next.age_s,
            "importance": next.importance,
            "worth": next.worth,
        })
    };
    let forecast = &survey.forecast;
    json!({
        "pages": survey.pages,
        "new_waiting": survey.new_waiting,
        "fresh": survey.fresh,
        "fresh_by_importance": survey.fresh_by_importance,
        "hosts": survey.hosts.iter().map(host).collect::<Vec<_>>(),
        "forecast": {
            "fetches_per_s": forecast.fetches_per_s,
            "seconds": forecast.seconds,
            "fetches": forecast.fetches,
            "new": forecast.new,
            "sources": forecast.sources,
            "next": forecast.next.iter().map(next).collect::<Vec<_>>(),
        },
    })
}

fn write_text(out: &mut Lines, survey: &Survey, top: usize) -> Result<(), Failure> {
    let forecast = &survey.forecast;
    writeln!(
        out,
        "Of {} pages, {:.1} % are likely to be as they were fetched ({:.1} % by importance). {} new URLs wait.",
        thousands(survey.pages),
        100.0 * survey.fresh,
        100.0 * survey.fresh_by_importance,
        thousands(survey.new_waiting),
    )?;
    writeln!(
        out,
        "At {} a second, {} fetches in {:.0} minutes: {} of new pages, {} of sitemaps and feeds.\n",
        number(forecast.fetches_per_s),
        thousands(forecast.fetches),
        forecast.seconds / 60.0,
        thousands(forecast.new),
        thousands(forecast.sources),
    )?;
    writeln!(
        out,
        "{:>10}  {:>12}  {:>7}  {:>8}  host",
        "pages", "changes/day", "fresh", "fetches"
    )?;
    for host in survey.hosts.iter().take(top) {
        writeln!(
            out,
            "{:>10}  {:>12}  {:>5.1} %  {:>8}  {}",
            thousands(host.pages),
            number(host.changes_per_day),
            100.0 * host.fresh,
            thousands(host.fetches),
            host.host,
        )?;
    }
    if forecast.next.is_empty() {
        return Ok(());
    }
    writeln!(
        out,
        "\n{:>8}  {:>12}  {:>10}  {:>10}  {:<7}  next",
        "in", "changes/day", "age", "importance", "why"
    )?;
    for next in &forecast.next {
        writeln!(
            out,
            "{:>8}  {:>12}  {:>10}  {:>10}  {:<7}  {}",
            format!("{:.0} s", next.in_s),
            number(next.changes_per_day),
            age(next.age_s),
            number(next.importance),
            next.why,
            next.url,
        )?;
    }
    Ok(())
}

/// Three digits that count.
fn number(value: f64) -> String {
    match value {
        _ if value >= 100.0 => format!("{value:.0}"),
        _ if value >= 1.0 => format!("{value:.1}"),
        _ => format!("{value:.3}"),
    }
}

fn age(seconds: f64) -> String {
    match seconds {
        _ if seconds >= 2.0 * 86_400.0 => format!("{:.1} d", seconds / 86_400.0),
        _ if seconds >= 2.0 * 3_600.0 => format!("{:.1} h", seconds / 3_600.0),
        _ if seconds >= 120.0 => format!("{:.0} min", seconds / 60.0),
        _ => format!("{seconds:.0} s"),
    }
}
