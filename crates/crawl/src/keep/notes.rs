//! What workers tell the keeper: what became of a URL, which new ones wait for their share, and what sitemaps and feeds say has changed.

use std::collections::HashSet;
use std::sync::{Arc, Mutex, MutexGuard};

use portolan_model::{
    DocId, HostId, LinkKind, Outcome, PartitionId, Pulse, Reason, Verdict, Visit,
};
use portolan_registry::Due;
use tokio::sync::mpsc;

use crate::links::PageLinks;
use crate::shared::Shared;

/// Notes that wait for the keeper; more make the workers' turns wait.
pub(crate) const NOTES: usize = 4_096;
/// URLs that are due because somebody told of them. Of more, the checks count as others do.
const MOST_TOLD: usize = 1 << 20;

/// What a check found for a reader.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Found {
    /// Another text than at the check before.
    News,
    Quiet,
    /// Nothing that tells how often the page changes: it is the first check, or none.
    Unclear,
    /// The URL stays due.
    Retry,
}

/// One URL's visit.
#[derive(Debug)]
pub(crate) struct Note {
    pub(crate) doc: DocId,
    pub(crate) host: HostId,
    pub(crate) partition: PartitionId,
    /// The ranker's class.
    pub(crate) class: u8,
    pub(crate) found: Found,
    /// A sitemap or a feed: it tells of others.
    pub(crate) is_source: bool,
    /// There is a document or a redirect.
    pub(crate) is_there: bool,
    pub(crate) delay_ms: u64,
    /// The host failed, and rests until this time.
    pub(crate) rests_until_ms: Option<u64>,
    pub(crate) new: Vec<NewUrl>,
    pub(crate) signals: Vec<Signal>,
}

/// A URL that waits for its share of the rate.
#[derive(Debug, Clone, Copy)]
pub(crate) struct NewUrl {
    pub(crate) doc: DocId,
    pub(crate) host: HostId,
    pub(crate) partition: PartitionId,
}

/// A page is said to have changed.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Signal {
    pub(crate) doc: DocId,
    /// Tells what was said from what was said before; 0 where nothing is.
    pub(crate) mark: u16,
    pub(crate) changed_ms: Option<u64>,
}

/// Where workers leave their notes.
#[derive(Debug, Clone)]
pub(crate) struct NoteBox {
    sender: mpsc::Sender<Note>,
    /// URLs that are due because somebody told that they have changed.
    told: Arc<Mutex<HashSet<u64>>>,
}

impl NoteBox {
    pub(crate) fn new() -> (Self, mpsc::Receiver<Note>) {
        let (sender, inbox) = mpsc::channel(NOTES);
        let told = Arc::default();
        (Self { sender, told }, inbox)
    }

    /// The URL becomes due because somebody told that it has changed.
    pub(crate) fn told_of(&self, doc: DocId) {
        let mut told = self.told();
        // Some never come to a visit: what keeps them out was found out since.
        if told.len() >= MOST_TOLD {
            told.clear();
        }
        told.insert(doc.0);
    }

    /// Was it checked because of that? Says so once.
    pub(crate) fn was_told_of(&self, doc: DocId) -> bool {
        self.told().remove(&doc.0)
    }

    fn told(&self) -> MutexGuard<'_, HashSet<u64>> {
        // A set of numbers is whole, whoever panicked beside it.
        self.told
            .lock()
            .unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    /// Waits while there is no room. Where nobody hears any longer, the crawl is about to end.
    pub(crate) async fn leave(&self, note: Note) {
        let _ = self.sender.send(note).await;
    }
}

impl Note {
    /// `signals` are those of a sitemap.
    pub(crate) fn of(
        shared: &Shared,
        (host, partition): (HostId, PartitionId),
        due: &Due,
        visit: &Visit,
        links: &PageLinks,
        signals: Vec<Signal>,
    ) -> Self {
        let mut note = Self {
            doc: due.doc,
            host,
            partition,
            class: due.class,
            found: found(due, visit),
            is_source: visit.is_source() || is_feed(&visit.mime),
            is_there: visit.outcome == Outcome::Fetched,
            delay_ms: 0,
            rests_until_ms: None,
            new: Vec::new(),
            signals,
        };
        let own = std::iter::once((partition, &links.own));
        let others = links.forwards.iter().map(|(to, batch)| (*to, batch));
        for (partition, batch) in own.chain(others) {
            let docs = batch.docs().unwrap_or_default();
            for (link, &doc) in batch.iter().zip(docs) {
                if link.verdict == Verdict::Exclude(Reason::WaitsForItsShare) {
                    let host = shared.ids.host(host_of(link.url));
                    note.new.push(NewUrl {
                        doc,
                        host,
                        partition,
                    });
                }
                // An entry that the feed did not have before.
                if link.kind == LinkKind::Feed && due.last.is_some() {
                    note.signals.push(Signal {
                        doc,
                        mark: 0,
                        changed_ms: None,
                    });
                }
            }
        }
        note
    }
}

impl Note {
    /// With how the host is to be left alone.
    pub(crate) fn with_pulse(self, pulse: &Pulse) -> Self {
        Self {
            delay_ms: u64::from(pulse.delay_ms),
            rests_until_ms: pulse.is_failing().then_some(pulse.not_before_ms),
            ..self
        }
    }
}

fn found(due: &Due, visit: &Visit) -> Found {
    if matches!(visit.outcome, Outcome::Retry(_)) {
        return Found::Retry;
    }
    match due.last.as_deref() {
        Some(last) if visit.is_check() => match visit.history.news > last.visit.history.news {
            true => Found::News,
            false => Found::Quiet,
        },
        _ => Found::Unclear,
    }
}

/// By its media type: feeds are documents like others otherwise.
pub(crate) fn is_feed(mime: &str) -> bool {
    matches!(
        mime,
        "application/rss+xml" | "application/atom+xml" | "application/rdf+xml"
    )
}

/// The host of a canonical URL.
fn host_of(url: &str) -> &str {
    let rest = url.split_once("://").map_or(url, |(_, rest)| rest);
    let authority = rest.split(['/', '?', '#']).next().unwrap_or_default();
    match authority.starts_with('[') {
        true => authority.split_inclusive(']').next().unwrap_or(authority),
        false => authority.split(':').next().unwrap_or(authority),
    }
}

#[cfg(test)]
mod tests {
    use super::host_of;
    use portolan_model::CanonicalUrl;

    #[test]
    fn hosts_are_those_of_the_urls() {
        for text in [
            "http://a.test/x?y=http://b.test/",
            "https://a.test:8443/",
            "http://[::1]:80/x",
            "http://[::1]/",
        ] {
            let Ok(url) = CanonicalUrl::from_canonical(text.to_owned()) else {
                continue;
            };
            assert_eq!(host_of(text), url.host(), "{text}");
        }
    }
}
