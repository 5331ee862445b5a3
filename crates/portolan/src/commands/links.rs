//! `portolan links`: the link graph, one link a line.

use std::collections::HashMap;
use std::io::Write;
use std::process::ExitCode;

use portolan_model::DocId;
use portolan_registry::Snapshot;
use serde_json::json;

use super::inspect;
use crate::arguments::LinksArguments;
use crate::failure::Failure;

/// URLs kept in RAM between look-ups; pages link to the same ones again and again.
const REMEMBERED_URLS: usize = 200_000;

pub(crate) fn run(arguments: &LinksArguments) -> Result<ExitCode, Failure> {
    let snapshot = inspect::open(&arguments.dir)?;
    let mut names = Names {
        snapshot: &snapshot,
        known: HashMap::new(),
    };
    let mut out = inspect::lines();
    for page in snapshot.links() {
        let (from, targets) = page.map_err(Failure::failed)?;
        let from = names.of(from)?;
        for target in targets {
            let to = names.of(target)?;
            if arguments.json {
                inspect::write_json(&mut out, &json!({ "from": from, "to": to }))?;
            } else {
                writeln!(out, "{from}\t{to}")?;
            }
        }
    }
    out.flush()?;
    Ok(ExitCode::SUCCESS)
}

/// URLs by document.
struct Names<'a> {
    snapshot: &'a Snapshot,
    known: HashMap<DocId, String>,
}

impl Names<'_> {
    fn of(&mut self, doc: DocId) -> Result<String, Failure> {
        if let Some(url) = self.known.get(&doc) {
            return Ok(url.clone());
        }
        // Every target of a folded page is in its partition's log; one that is still on its way
        // there, in a crawl that runs, goes by its number.
        let url = self
            .snapshot
            .url_of(doc)
            .map_err(Failure::failed)?
            .unwrap_or_else(|| format!("{doc:?}"));
        if self.known.len() >= REMEMBERED_URLS {
            self.known.clear();
        }
        self.known.insert(doc, url.clone());
        Ok(url)
    }
}
