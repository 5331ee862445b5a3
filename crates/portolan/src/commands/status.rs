//! `portolan status`: how far a crawl is, also while it runs.

use std::io::Write;
use std::process::ExitCode;

use portolan_crawl::Crawl;
use portolan_crawl::report::{bytes, copies, counted, sitemaps, thousands};
use portolan_model::Reason;
use serde_json::json;

use super::inspect;
use crate::arguments::StatusArguments;
use crate::failure::Failure;

pub(crate) fn run(arguments: &StatusArguments) -> Result<ExitCode, Failure> {
    let snapshot = inspect::open(&arguments.dir)?;
    let stats = snapshot.stats();
    let (mut hosts, mut hosts_failing, mut urls_waiting) = (0, 0, 0);
    for (_, state) in snapshot.hosts().map_err(Failure::failed)? {
        hosts += 1;
        if state.counts.due > 0 && state.pulse.is_some_and(|pulse| pulse.is_failing()) {
            hosts_failing += 1;
            urls_waiting += state.counts.due.unsigned_abs();
        }
    }
    let running = Crawl::is_running(&arguments.dir);
    let reasons: Vec<(Reason, u64)> = Reason::ALL
        .iter()
        .map(|&reason| (reason, stats.by_reason(reason)))
        .filter(|(_, count)| *count > 0)
        .collect();
    let mut out = inspect::lines();
    if arguments.json {
        let reasons: serde_json::Map<String, serde_json::Value> = reasons
            .iter()
            .map(|(reason, n)| (reason.name().to_owned(), json!(n)))
            .collect();
        let value = json!({
            "running": running,
            "pages": stats.pages,
            "requests": stats.requests,
            "wire_bytes": stats.wire_bytes,
            "body_bytes": stats.body_bytes,
            "urls_known": stats.known,
            "urls_due": stats.due,
            "visited": stats.visited,
            "failed": stats.failed,
            "excluded": stats.excluded,
            "duplicates": stats.duplicates,
            "redirects": stats.redirects(),
            "sitemaps": stats.sitemaps,
            "hosts": hosts,
            "hosts_failing": hosts_failing,
            "urls_waiting": urls_waiting,
            "back_links": stats.observations,
            "judged_due": stats.judged_due,
            "judged_out": stats.judged_out,
            "reasons": reasons,
        });
        inspect::write_json(&mut out, &value)?;
        return Ok(ExitCode::SUCCESS);
    }
    let state = match (running, stats.due) {
        (true, _) => "is running",
        (false, 0) => "is complete",
        (false, _) => "has stopped and can go on",
    };
    writeln!(out, "The crawl in {} {state}.", arguments.dir.display())?;
    writeln!(
        out,
        "  {} archived ({}) with {}; {} on the wire, {} of bodies.",
        counted(stats.pages, "document"),
        copies(stats.duplicates),
        counted(stats.requests, "request"),
        bytes(stats.wire_bytes),
        bytes(stats.body_bytes)
    )?;
    writeln!(
        out,
        "  {} known on {}: {}, {}, {}{} due, {} failed, {} excluded.",
        counted(stats.known, "URL"),
        counted(hosts, "host"),
        counted(stats.pages, "document"),
        counted(stats.redirects(), "redirect"),
        sitemaps(stats.sitemaps),
        thousands(stats.due),
        thousands(stats.failed),
        thousands(stats.excluded)
    )?;
    if stats.judged_due + stats.judged_out > 0 {
        writeln!(
            out,
            "  Changed settings made {} due and took {} out of the queue.",
            counted(stats.judged_due, "URL"),
            counted(stats.judged_out, "URL")
        )?;
    }
    if urls_waiting > 0 {
        writeln!(
            out,
            "  Of those due, {} wait for {} that fail.",
            counted(urls_waiting, "URL"),
            counted(hosts_failing, "host")
        )?;
    }
    for (reason, count) in reasons {
        writeln!(
            out,
            "    {:>10}  {reason}: {}",
            thousands(count),
            reason.sentence()
        )?;
    }
    Ok(ExitCode::SUCCESS)
}
