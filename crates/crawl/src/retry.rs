//! What failed is asked for again because a person says so: URLs are read from the registry as it was
//! before this run and become due again through their partitions' logs, beside the crawl.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use portolan_model::{PartitionId, Reason};
use portolan_registry::{Entry, RegistryError, Snapshot, State, UrlFilter, UrlRecord};

use crate::commit::Finished;
use crate::error::CrawlError;
use crate::shared::Shared;

/// URLs that become due by one entry of a log.
const URLS_TOGETHER: usize = 500;

/// Reasons below this are access conditions: no retry, but other settings change them.
const FIRST_ASKED: u8 = 32;

/// Which URLs to ask for again.
#[derive(Debug, Clone, Default)]
pub struct Retry {
    /// Empty: all that failed. Else what failed or was excluded for one of these reasons.
    reasons: Vec<Reason>,
}

impl Retry {
    /// From reasons' names; none is all that failed. An unknown one is told in one sentence.
    pub fn named<'a>(names: impl Iterator<Item = &'a str>) -> Result<Self, String> {
        let is_liftable = |reason: &Reason| *reason as u8 >= FIRST_ASKED;
        let reasons = names
            .map(|name| {
                Reason::from_name(name).filter(is_liftable).ok_or_else(|| {
                    let all: Vec<&str> = Reason::ALL
                        .iter()
                        .filter(|reason| is_liftable(reason))
                        .map(|reason| reason.name())
                        .collect();
                    format!(
                        "'{name}' is no reason to ask again for; there are {}",
                        all.join(", ")
                    )
                })
            })
            .collect::<Result<_, _>>()?;
        Ok(Self { reasons })
    }

    fn wants(&self, url: &UrlRecord) -> bool {
        match (url.state, url.reason) {
            (State::Failed, _) if self.reasons.is_empty() => true,
            (State::Failed | State::Excluded, Some(reason)) => self.reasons.contains(&reason),
            _ => false,
        }
    }
}

/// The body of a thread that makes URLs due again. The crawl does not end before this does.
pub(crate) fn run(shared: &Arc<Shared>, snapshot: &Snapshot, retry: &Retry) {
    if let Err(error) = make_due(shared, snapshot, retry) {
        shared.fail(error);
    }
    shared.outstanding.fetch_sub(1, Ordering::SeqCst);
}

fn make_due(shared: &Arc<Shared>, snapshot: &Snapshot, retry: &Retry) -> Result<(), CrawlError> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .build()
        .map_err(|e| CrawlError::Internal(format!("no runtime for what is retried: {e}")))?;
    let mut together: Vec<String> = Vec::new();
    let mut partition = PartitionId(0);
    let hand_over = |partition: PartitionId, urls: &mut Vec<String>| {
        if urls.is_empty() {
            return;
        }
        let metrics = &shared.metrics;
        metrics.add(&metrics.retried, urls.len() as u64);
        let urls = std::mem::take(urls);
        runtime.block_on(shared.hand_over(Finished {
            partition,
            entry: Entry::Again { urls },
            record: None,
            room: None,
        }));
    };
    for url in snapshot.urls(UrlFilter::default()) {
        let url = url.map_err(|error: RegistryError| CrawlError::from(error))?;
        if shared.budget.is_stopping() {
            break;
        }
        if !retry.wants(&url) {
            continue;
        }
        if url.partition != partition.0 || together.len() >= URLS_TOGETHER {
            hand_over(partition, &mut together);
            partition = PartitionId(url.partition);
        }
        together.push(url.url);
    }
    hand_over(partition, &mut together);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::Retry;

    #[test]
    fn reasons_go_by_their_names_and_unknown_ones_are_told() {
        let named = |names: &[&str]| Retry::named(names.iter().copied());
        assert!(named(&[]).is_ok_and(|retry| retry.reasons.is_empty()));
        assert!(named(&["timeout", "http-5xx"]).is_ok());
        let told = named(&["tiredness"]).unwrap_err();
        assert!(
            told.contains("'tiredness'") && told.contains("timeout"),
            "{told}"
        );
        // Settings decide about scope.
        assert!(named(&["scope"]).is_err());
    }
}
