//! The graph of a crawl: a page is a URL that was fetched, or any that is known; its size is what came over the wire.

use std::collections::HashMap;

use portolan_model::{Outcome, Visit};
use portolan_registry::{Snapshot, UrlFilter, UrlRecord, UrlState};

use crate::error::{GraphError, Result};
use crate::graph::{LinksBuilder, Note, PagesBuilder, WebGraph};

/// The note about links that `CrawlPages::Known` would keep.
pub const UNFETCHED: &str = "links to URLs that were not fetched; they are left out";

/// Which URLs of a crawl are pages of its graph.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum CrawlPages {
    /// Those that were fetched, also where they are due again by now; links to others are left out and counted.
    Fetched,
    /// All that are known. Those that were not fetched have no links, and a size that is assumed.
    Known,
}

pub fn read_crawl(snapshot: &Snapshot, which: CrawlPages) -> Result<WebGraph> {
    let mut notes = Vec::new();
    let mut builder = PagesBuilder::default();
    let mut numbers: HashMap<u64, u32> = HashMap::new();
    let mut seeds = Vec::new();
    for record in snapshot.urls(UrlFilter::default()) {
        let record = record?;
        let fetched = last_fetch(snapshot, &record)?;
        if which == CrawlPages::Fetched && fetched.is_none() {
            continue;
        }
        let number = u32::try_from(builder.count())
            .map_err(|_| GraphError::Request("the crawl has too many pages".to_owned()))?;
        let bytes = fetched.map(|visit| visit.wire_bytes);
        let url = portolan_model::CanonicalUrl::from_canonical(record.url.clone());
        let host = url.as_ref().map_or(record.url.as_str(), |url| url.host());
        builder.push(&record.url, host, bytes);
        numbers.insert(record.doc.0, number);
        if record.kind.is_seed() {
            seeds.push(number);
        }
    }
    if builder.count() == 0 {
        return Err(GraphError::Request(
            "the graph is empty: the crawl has fetched nothing yet".to_owned(),
        ));
    }
    let pages = builder.finish(&mut notes)?;
    let mut builder = LinksBuilder::new(pages.count());
    let (mut outside, mut first) = (0, None);
    for row in snapshot.links() {
        let (from, targets) = row?;
        let from = numbers.get(&from.0);
        for target in targets {
            match (from, numbers.get(&target.0)) {
                (Some(&from), Some(&to)) => builder.push(from, to),
                _ => {
                    if first.is_none() {
                        first = snapshot.url_of(target)?;
                    }
                    outside += 1;
                }
            }
        }
    }
    if outside > 0 {
        notes.push(Note {
            count: outside,
            what: match which {
                CrawlPages::Fetched => UNFETCHED,
                CrawlPages::Known => "links to URLs that are not written yet; they are left out",
            }
            .to_owned(),
            first,
        });
    }
    let links = super::bv::finish_links(builder, &mut notes);
    Ok(WebGraph {
        pages,
        links,
        seeds,
        notes,
    })
}

/// The visit that fetched a URL last, if it is fetched, or was and is due again.
fn last_fetch(snapshot: &Snapshot, url: &UrlRecord) -> Result<Option<Visit>> {
    if !matches!(url.state, UrlState::Visited | UrlState::Due) {
        return Ok(None);
    }
    let Some(last) = snapshot.visit(url)? else {
        return Ok(None);
    };
    // An attempt that failed since says where the last check is.
    let is_fetch = |visit: &Visit| visit.outcome == Outcome::Fetched;
    let fetched = match is_fetch(&last) {
        true => Some(last),
        false => snapshot.check_before(url, &last)?.filter(is_fetch),
    };
    Ok(fetched)
}
