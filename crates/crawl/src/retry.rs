//! What failed is asked for again because a person says so: URLs are read from the registry as it was
//! before this run and become due again through their partitions' logs, beside the crawl.

use portolan_model::{PartitionId, Reason};
use portolan_registry::{Entry, Snapshot, UrlRecord, UrlState};

use crate::error::CrawlError;
use crate::judging::{Hand, Judge};

/// URLs that become due by one entry of a log.
const URLS_TOGETHER: usize = 500;

/// Which URLs to ask for again.
#[derive(Debug, Clone, Default)]
pub struct Retry {
    /// Empty: all that failed. Else what failed or was excluded for one of these reasons.
    reasons: Vec<Reason>,
}

impl Retry {
    /// From reasons' names; none is all that failed. An unknown one is told in one sentence.
    pub fn named<'a>(names: impl Iterator<Item = &'a str>) -> Result<Self, String> {
        // Other settings change those, no retry.
        let may_be_retried = |reason: &Reason| !reason.is_liftable();
        let reasons = names
            .map(|name| {
                Reason::from_name(name)
                    .filter(may_be_retried)
                    .ok_or_else(|| {
                        let all: Vec<&str> = Reason::ALL
                            .iter()
                            .filter(|reason| may_be_retried(reason))
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
            (UrlState::Failed, _) if self.reasons.is_empty() => true,
            (UrlState::Failed | UrlState::Excluded, Some(reason)) => self.reasons.contains(&reason),
            _ => false,
        }
    }

    /// Makes URLs due again that failed, unless the settings that hold now keep them out.
    pub(crate) fn run(
        &self,
        hand: &Hand<'_>,
        snapshot: &Snapshot,
        judge: &mut Judge<'_>,
    ) -> Result<(), CrawlError> {
        let metrics = &hand.shared.metrics;
        let mut together: Vec<String> = Vec::new();
        let mut partition = PartitionId(0);
        let hand_over = |partition: PartitionId, urls: &mut Vec<String>| {
            if !urls.is_empty() {
                metrics.add(&metrics.retried, urls.len() as u64);
                tracing::info!(
                    partition = partition.0,
                    urls = urls.len(),
                    "what failed is asked for again"
                );
                let urls = std::mem::take(urls);
                hand.over(partition, Entry::Again { urls });
            }
        };
        for url in snapshot.scattered(&[UrlState::Failed, UrlState::Excluded]) {
            let url = url?;
            if hand.shared.budget.is_stopping() {
                break;
            }
            if !self.wants(&url) || !judge.allows(&hand.shared.scope(), &url) {
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
