//! `portolan links`: the link graph, one link a line.

use std::collections::HashMap;
use std::io::Write;
use std::process::ExitCode;

use portolan_crawl::report::counted;
use portolan_model::DocId;
use portolan_registry::Snapshot;
use serde_json::json;

use super::inspect;
use crate::arguments::LinksArguments;
use crate::failure::Failure;
use crate::output::noteln;

/// URLs kept in RAM between look-ups; pages link to the same ones again and again.
const REMEMBERED_URLS: usize = 200_000;

pub(crate) fn run(arguments: &LinksArguments) -> Result<ExitCode, Failure> {
    let snapshot = inspect::open(&arguments.dir)?;
    let mut names = Names {
        snapshot: &snapshot,
        known: HashMap::new(),
    };
    let mut out = inspect::lines();
    let mut nameless = 0;
    for page in snapshot.links() {
        let (from, targets) = page.map_err(Failure::failed)?;
        let from = names.of(from)?;
        for target in targets {
            // Every target of a folded page is in its partition's log, or, in a crawl that runs, still on its way there.
            let (Some(from), Some(to)) = (&from, names.of(target)?) else {
                nameless += 1;
                continue;
            };
            if arguments.json {
                inspect::write_json(&mut out, &json!({ "from": from, "to": to }))?;
            } else {
                writeln!(out, "{from}\t{to}")?;
            }
        }
    }
    out.flush()?;
    if nameless > 0 {
        noteln!(
            "note: {} left out, whose URLs are not written yet; ask again when the crawl has stopped",
            counted(nameless, "link")
        );
    }
    Ok(ExitCode::SUCCESS)
}

/// URLs by document.
struct Names<'a> {
    snapshot: &'a Snapshot,
    known: HashMap<DocId, Option<String>>,
}

impl Names<'_> {
    fn of(&mut self, doc: DocId) -> Result<Option<String>, Failure> {
        if let Some(url) = self.known.get(&doc) {
            return Ok(url.clone());
        }
        let url = self.snapshot.url_of(doc).map_err(Failure::failed)?;
        if self.known.len() >= REMEMBERED_URLS {
            self.known.clear();
        }
        self.known.insert(doc, url.clone());
        Ok(url)
    }
}
