//! What the commands that look into a crawl directory share: opening it and reading it.

use std::collections::BTreeMap;
use std::io::{self, Write};
use std::path::Path;

use portolan_model::Visit;
use portolan_registry::{Snapshot, UrlRecord, UrlState};

use crate::failure::Failure;
use crate::output::Lines;

/// The registry of the crawl in `dir`, as of now; works while the crawl runs.
pub(crate) fn open(dir: &Path) -> Result<Snapshot, Failure> {
    Ok(portolan_crawl::snapshot(dir)?)
}

/// Lines to stdout, in large pieces.
pub(crate) fn lines() -> Lines {
    Lines::new()
}

pub(crate) fn state_name(record: &UrlRecord) -> &'static str {
    match record.state {
        UrlState::Due => "due",
        UrlState::Visited => "visited",
        UrlState::Failed => "failed",
        UrlState::Excluded => "excluded",
    }
}

/// What modules said of a document, by name.
pub(crate) fn facts(visit: &Visit) -> BTreeMap<&str, &str> {
    let facts = visit.facts.iter();
    facts
        .map(|fact| (fact.name.as_str(), fact.value.as_str()))
        .collect()
}

pub(crate) fn write_json(out: &mut impl Write, value: &serde_json::Value) -> io::Result<()> {
    serde_json::to_writer(&mut *out, value)?;
    out.write_all(b"\n")
}
