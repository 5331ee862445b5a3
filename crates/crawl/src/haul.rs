//! What a crawl-client has found for one grant, until all of it is archived and can be sent back.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use portolan_registry::{Entry, GrantId};
use tokio::sync::Notify;

/// The entries of one grant: handed to the archivist, and stored by it.
#[derive(Debug, Default)]
pub(crate) struct Haul {
    inner: Mutex<Inner>,
    stored: Notify,
}

#[derive(Debug, Default)]
struct Inner {
    handed_over: usize,
    entries: Vec<Entry>,
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Haul {
    /// An entry is on its way to the archivist.
    pub(crate) fn note_handed_over(&self) {
        locked(&self.inner).handed_over += 1;
    }

    /// An entry's records are durable.
    pub(crate) fn store(&self, entry: Entry) {
        locked(&self.inner).entries.push(entry);
        self.stored.notify_one();
    }

    /// Once everything that was handed over is durable: in the order in which it was found.
    pub(crate) async fn complete(&self) -> Vec<Entry> {
        loop {
            {
                let mut inner = locked(&self.inner);
                if inner.entries.len() >= inner.handed_over {
                    return std::mem::take(&mut inner.entries);
                }
            }
            self.stored.notified().await;
        }
    }
}

/// The hauls of the grants that this machine has under way. Empty where decisions are made in the same process.
#[derive(Debug, Default)]
pub(crate) struct Hauls {
    open: Mutex<BTreeMap<GrantId, Arc<Haul>>>,
}

impl Hauls {
    pub(crate) fn open(&self, grant: GrantId) -> Arc<Haul> {
        Arc::clone(locked(&self.open).entry(grant).or_default())
    }

    /// `None` for a grant of this process.
    pub(crate) fn of(&self, grant: GrantId) -> Option<Arc<Haul>> {
        locked(&self.open).get(&grant).map(Arc::clone)
    }

    pub(crate) fn close(&self, grant: GrantId) {
        locked(&self.open).remove(&grant);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use portolan_model::PartitionId;

    #[tokio::test]
    async fn a_haul_is_complete_when_all_of_it_is_stored() {
        let hauls = Hauls::default();
        let id = GrantId {
            partition: PartitionId(3),
            epoch: 1,
            number: 7,
        };
        assert!(hauls.of(id).is_none());
        let haul = hauls.open(id);
        assert!(haul.complete().await.is_empty(), "nothing was found");
        let found = hauls.of(id).expect("it is open");
        found.note_handed_over();
        found.note_handed_over();
        let waiting = tokio::spawn(async move { haul.complete().await });
        found.store(Entry::Again { urls: Vec::new() });
        tokio::task::yield_now().await;
        assert!(!waiting.is_finished());
        found.store(Entry::Refresh { docs: Vec::new() });
        let entries = waiting.await.expect("it ends");
        assert!(matches!(
            entries[..],
            [Entry::Again { .. }, Entry::Refresh { .. }]
        ));
        hauls.close(id);
        assert!(hauls.of(id).is_none());
    }
}
