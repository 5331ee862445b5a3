//! The invariants of ARCHITECTURE.md, judged by the Web's witness, its truth and the registry.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::path::Path;

use portolan_registry::{UrlFilter, UrlState};
use portolan_simweb::{TruthQuery, UrlKind};

use crate::world::World;

/// An invariant that did not hold, and how that was seen.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Broken {
    /// Its name in ARCHITECTURE.md; "ends" where a crawl failed or did not come to its end.
    pub invariant: &'static str,
    pub what: String,
}

impl fmt::Display for Broken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.invariant, self.what)
    }
}

/// What was durable when a crawl was killed, and how often each of these URLs had been served then.
pub(crate) struct Durable {
    served: BTreeMap<String, u32>,
}

impl Durable {
    /// Of the crawl in `dir`. One that was killed before its registry was made has nothing durable.
    pub(crate) fn of(world: &World, dir: &Path) -> Self {
        let counts = world.within.witness().per_url();
        let served = states(dir)
            .unwrap_or_default()
            .into_iter()
            .filter(|(_, state)| *state == UrlState::Visited)
            .filter_map(|(url, _)| counts.get(&url).map(|count| (url, count.served)));
        Self {
            served: served.collect(),
        }
    }
}

/// What is wrong at the end of it all.
pub(crate) fn judge(world: &World, dir: &Path, durable: &[Durable]) -> Vec<Broken> {
    let mut broken = Vec::new();
    let mut must = |holds: bool, invariant, what: &dyn fmt::Display| {
        if !holds {
            let what = what.to_string();
            broken.push(Broken { invariant, what });
        }
    };
    let witness = world.within.witness();
    let (report, seen) = (witness.report(), witness.per_url());
    let is_polite = report.overlaps == 0
        && report.short_gaps == 0
        && report.ips.iter().all(|ip| ip.short_gaps == 0);
    must(is_polite, "polite", &report);
    let is_allowed = report.forbidden == 0 && report.before_robots == 0 && report.decoys == 0;
    must(is_allowed, "allowed", &report);
    must(report.repeats_in_one_epoch == 0, "once", &report);
    for killed in durable {
        for (url, served) in &killed.served {
            let now = seen.get(url).map_or(0, |count| count.served);
            let what = format!("{url} was asked for again after its visit was durable");
            must(now <= *served, "once", &what);
        }
    }
    let truth = world.web.truth(&TruthQuery::default());
    let missed = truth.missed(&seen);
    must(
        missed.is_empty(),
        "nothing-lost",
        &format!("never fetched: {missed:?}"),
    );
    match states(dir) {
        Err(error) => must(false, "said", &error),
        Ok(states) => {
            for (url, truth) in &truth.urls {
                let state = states.get(url);
                let is_right = match truth.kind {
                    UrlKind::Forbidden => state == Some(&UrlState::Excluded),
                    UrlKind::Error => state == Some(&UrlState::Failed),
                    // One that leads to itself leads nowhere.
                    UrlKind::Redirect if truth.redirects_to.as_ref() == Some(url) => {
                        state == Some(&UrlState::Failed)
                    }
                    _ => state == Some(&UrlState::Visited),
                };
                let what = format!("{url} is {state:?}, but {:?}", truth.kind);
                must(is_right, "said", &what);
            }
            let due: BTreeSet<_> = states
                .iter()
                .filter(|(_, s)| **s == UrlState::Due)
                .collect();
            must(
                due.is_empty(),
                "nothing-lost",
                &format!("still due: {due:?}"),
            );
        }
    }
    broken
}

/// Every URL that the crawl in `dir` knows.
fn states(dir: &Path) -> Result<BTreeMap<String, UrlState>, String> {
    let snapshot = portolan_crawl::snapshot(dir).map_err(|error| error.to_string())?;
    let urls = snapshot.urls(UrlFilter::default());
    urls.map(|url| match url {
        Ok(url) => Ok((url.url, url.state)),
        Err(error) => Err(error.to_string()),
    })
    .collect()
}
