//! `portolan urls`: the URLs of a crawl with their state.

use std::io::Write;
use std::process::ExitCode;

use portolan_registry::{State, UrlFilter};
use serde_json::json;

use super::inspect;
use crate::arguments::{StateArgument, UrlsArguments};
use crate::failure::Failure;

pub(crate) fn run(arguments: &UrlsArguments) -> Result<ExitCode, Failure> {
    let snapshot = inspect::open(&arguments.dir)?;
    if let Some(host) = &arguments.host
        && (host.is_empty() || host.contains('/'))
    {
        return Err(Failure::usage(format!(
            "--host '{host}' is no host; write its name alone, such as www.example.org"
        )));
    }
    let filter = UrlFilter {
        state: arguments.state.map(|state| match state {
            StateArgument::Visited => State::Visited,
            StateArgument::Due => State::Due,
            StateArgument::Failed => State::Failed,
            StateArgument::Excluded => State::Excluded,
        }),
        host: arguments
            .host
            .as_ref()
            .map(|host| host.to_ascii_lowercase()),
    };
    let mut out = inspect::lines();
    for record in snapshot.urls(filter) {
        let record = record.map_err(Failure::failed)?;
        let state = inspect::state_name(&record);
        let reason = record.reason.map(|reason| reason.name());
        if arguments.json {
            let visit = snapshot.visit(&record).map_err(Failure::failed)?;
            let value = json!({
                "url": record.url,
                "state": state,
                "reason": reason,
                "back_links": record.count,
                "partition": record.partition,
                "class": record.class,
                "depth": record.depth,
                "found_as": record.kind.name(),
                "attempts": record.attempts,
                "status": visit.as_ref().map(|v| v.status),
                "mime": visit.as_ref().map(|v| v.mime.as_str()),
                "body_bytes": visit.as_ref().map(|v| v.body_bytes),
                "at_ms": visit.as_ref().map(|v| v.at_ms),
                "duplicate": visit.as_ref().map(|v| v.duplicate_of.is_some()),
            });
            inspect::write_json(&mut out, &value)?;
        } else {
            writeln!(out, "{state}\t{}\t{}", reason.unwrap_or("-"), record.url)?;
        }
    }
    out.flush()?;
    Ok(ExitCode::SUCCESS)
}
