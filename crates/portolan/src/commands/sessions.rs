//! `portolan sessions`: a line for each session of a crawl.

use std::io::Write;
use std::process::ExitCode;

use portolan_crawl::report::{bytes, date, thousands};
use serde_json::json;

use super::inspect;
use crate::arguments::SessionsArguments;
use crate::failure::Failure;

pub(crate) fn run(arguments: &SessionsArguments) -> Result<ExitCode, Failure> {
    let snapshot = inspect::open(&arguments.dir)?;
    let sessions = snapshot.stats().sessions;
    let mut out = inspect::lines();
    if !arguments.json {
        writeln!(
            out,
            "{:>7}  {:<20}  {:>10}  {:>10}  {:>10}  {:>10}  {:>10}  {:>10}  {:>10}  {:>10}",
            "session",
            "begun",
            "pages",
            "new",
            "changed",
            "unchanged",
            "refreshed",
            "gone",
            "received",
            "saved"
        )?;
    }
    for session in &sessions {
        if arguments.json {
            let line = json!({
                "session": session.number,
                "begun_ms": session.begun_ms,
                "last_ms": session.last_ms,
                "requests": session.requests,
                "pages": session.pages,
                "new": session.new,
                "changed": session.changed,
                "unchanged": session.unchanged,
                "not_modified": session.not_modified,
                "refreshed": session.refreshed,
                "gone": session.gone,
                "wire_bytes": session.wire_bytes,
                "saved_bytes": session.saved_bytes,
            });
            inspect::write_json(&mut out, &line)?;
            continue;
        }
        writeln!(
            out,
            "{:>7}  {:<20}  {:>10}  {:>10}  {:>10}  {:>10}  {:>10}  {:>10}  {:>10}  {:>10}",
            session.number,
            match session.begun_ms {
                0 => String::new(),
                at_ms => date(at_ms),
            },
            thousands(session.pages),
            thousands(session.new),
            thousands(session.changed),
            thousands(session.unchanged),
            thousands(session.refreshed),
            thousands(session.gone),
            bytes(session.wire_bytes),
            bytes(session.saved_bytes),
        )?;
    }
    Ok(ExitCode::SUCCESS)
}
