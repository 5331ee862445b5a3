//! What the commands that look into a crawl directory share: opening it and reading it.

use std::collections::BTreeMap;
use std::io::{self, Write};
use std::path::Path;

use portolan_crawl::Crawl;
use portolan_model::Visit;
use portolan_registry::{Snapshot, UrlRecord, UrlState};

use super::fleet_crawl::{FleetCrawl, is_store};
use crate::failure::Failure;
use crate::output::Lines;

/// The registry of the crawl in `dir`, as of now; works while the crawl runs. `dir` may be the store of a fleet.
pub(crate) fn open(dir: &Path) -> Result<Snapshot, Failure> {
    Ok(match FleetCrawl::at(dir)? {
        Some(crawl) => portolan_crawl::snapshot(&crawl.updated()?)?,
        None => portolan_crawl::snapshot(dir)?,
    })
}

/// Is it a crawl's directory, or the store of a fleet?
pub(crate) fn is_crawl(dir: &Path) -> bool {
    Crawl::exists(dir) || is_store(dir)
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
