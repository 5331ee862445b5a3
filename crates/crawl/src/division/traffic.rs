//! What partitions tell each other, counted: so that modes of exchange, and cuts of the Web, can be compared.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicU64, Ordering};

use portolan_model::{LinkBatch, PartitionId};
use portolan_registry::Entry;
use serde::Serialize;

use crate::settings::ExchangeMode;

/// Counters of one run.
#[derive(Debug, Default)]
pub(crate) struct Traffic {
    messages: AtomicU64,
    urls: AtomicU64,
    url_bytes: AtomicU64,
    discarded: AtomicU64,
}

/// What went between partitions in one run.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Exchanged {
    /// The setting `partition.mode`.
    pub mode: &'static str,
    /// One for each pair of partitions in a commit. In mode `server`: one up and one down for each partition in a commit.
    pub messages: u64,
    /// Links sent, those that were sent before included: each counts as a back-link.
    pub urls: u64,
    /// Bytes of their URLs, before anything is packed.
    pub url_bytes: u64,
    /// Links that mode `firewall` threw away.
    pub discarded: u64,
}

impl Traffic {
    /// A link to another partition was thrown away.
    pub(crate) fn note_discarded(&self) {
        self.discarded.fetch_add(1, Ordering::Relaxed);
    }

    /// Counts what the entries of one commit send.
    pub(crate) fn note_commit(&self, mode: ExchangeMode, entries: &[(PartitionId, Entry)]) {
        let mut sum = Sum::default();
        for (from, entry) in entries {
            match mode {
                ExchangeMode::Server => sum.add_for_server(*from, entry),
                _ => sum.add_for_owners(*from, entry),
            }
        }
        let messages = match mode {
            // One up to the server, one down from it.
            ExchangeMode::Server => 2 * sum.pairs.len(),
            _ => sum.pairs.len(),
        };
        self.messages.fetch_add(messages as u64, Ordering::Relaxed);
        self.urls.fetch_add(sum.urls, Ordering::Relaxed);
        self.url_bytes.fetch_add(sum.url_bytes, Ordering::Relaxed);
    }

    pub(crate) fn read(&self, mode: ExchangeMode) -> Exchanged {
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        Exchanged {
            mode: mode.name(),
            messages: read(&self.messages),
            urls: read(&self.urls),
            url_bytes: read(&self.url_bytes),
            discarded: read(&self.discarded),
        }
    }
}

#[derive(Default)]
struct Sum {
    pairs: BTreeSet<(PartitionId, PartitionId)>,
    urls: u64,
    url_bytes: u64,
}

impl Sum {
    fn batch(&mut self, links: &LinkBatch) {
        self.urls += links.len() as u64;
        self.url_bytes += links.urls().len() as u64;
    }

    fn add_for_owners(&mut self, from: PartitionId, entry: &Entry) {
        for (to, links) in entry.forwards() {
            self.pairs.insert((from, *to));
            self.batch(links);
        }
    }

    /// Everything that a page names goes up, and the page's own URL came down.
    fn add_for_server(&mut self, from: PartitionId, entry: &Entry) {
        let Entry::Visit { url, links, .. } = entry else {
            return;
        };
        self.pairs.insert((from, from));
        self.batch(links);
        self.urls += 1;
        self.url_bytes += url.len() as u64;
        for (_, links) in entry.forwards() {
            self.batch(links);
        }
    }
}
