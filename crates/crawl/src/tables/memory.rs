//! What a worker knows of the tables of sites, and which documents wait for being compared with theirs. It is bounded.

use std::collections::HashMap;

use portolan_model::{DocId, SiteTables, Standing};

use crate::generations::Generations;

/// Tables that a site may lack in a row before it is not asked for more.
pub(super) const MISSES: u8 = 3;
/// Sites that a worker knows about, twice over; of others the record is read again.
const SITES: usize = 4_096;
/// Documents whose tables were read, and which have not come yet. While there are this many, further documents are fetched without.
const MOST_AWAITED: usize = 16_384;
/// Links of theirs that are kept to be compared, over all of them.
const MOST_TARGETS: usize = 1 << 19;
/// A document that has not come for this long is forgotten where others need its place.
const FORGOTTEN_AFTER_MS: u64 = 3_600_000;

/// What a worker knows of tables, ahead of what is folded.
pub(crate) struct TableMemory {
    pub(super) sites: Generations<String, Site>,
    awaited: HashMap<DocId, Awaited>,
    targets: usize,
}

#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Site {
    pub(crate) tables: SiteTables,
    /// Tables that were not there, in a row.
    pub(super) misses: u8,
    pub(super) tvi_misses: u8,
}

impl Site {
    /// A table of volatile parts was asked for. `is_told`: the site says that it has such tables.
    pub(crate) fn take_tvi(&mut self, status: u16, is_told: bool) {
        match status {
            200 => (self.tables.tvi, self.tvi_misses) = (Standing::Served, 0),
            // A server that asks for a rest says nothing of its tables.
            429 | 500.. => {}
            _ => {
                self.tvi_misses += 1;
                let is_sure = is_told || self.tables.tvi == Standing::Served;
                if !is_sure || self.tvi_misses >= MISSES {
                    self.tables.tvi = Standing::Missing;
                }
            }
        }
    }
}

/// A document whose table was asked for.
pub(super) struct Awaited {
    since_ms: u64,
    /// Where the table's links lead; `None` if that cannot be compared.
    pub(super) targets: Option<Vec<DocId>>,
}

impl Default for TableMemory {
    fn default() -> Self {
        Self {
            sites: Generations::with_bound(SITES),
            awaited: HashMap::new(),
            targets: 0,
        }
    }
}

impl TableMemory {
    /// Is there room for one more document, perhaps by forgetting old ones?
    pub(super) fn has_room(&mut self, now_ms: u64) -> bool {
        if self.awaited.len() >= MOST_AWAITED {
            let targets = &mut self.targets;
            self.awaited.retain(|_, awaited| {
                let stays = awaited.since_ms + FORGOTTEN_AFTER_MS > now_ms;
                if !stays {
                    *targets -= awaited.len();
                }
                stays
            });
        }
        self.awaited.len() < MOST_AWAITED
    }

    /// Was its table asked for, and has it not come yet?
    pub(crate) fn is_awaited(&self, doc: DocId) -> bool {
        self.awaited.contains_key(&doc)
    }

    pub(crate) fn expect(&mut self, doc: DocId, since_ms: u64, targets: Option<Vec<DocId>>) {
        let targets = targets.filter(|targets| self.targets + targets.len() <= MOST_TARGETS);
        let awaited = Awaited { since_ms, targets };
        self.targets += awaited.len();
        if let Some(before) = self.awaited.insert(doc, awaited) {
            self.targets -= before.len();
        }
    }

    /// The document has come, or never will.
    pub(super) fn take(&mut self, doc: DocId) -> Option<Awaited> {
        let awaited = self.awaited.remove(&doc)?;
        self.targets -= awaited.len();
        Some(awaited)
    }
}

impl Awaited {
    pub(super) fn len(&self) -> usize {
        self.targets.as_ref().map_or(0, Vec::len)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn documents_that_are_awaited_are_bounded_and_asked_for_once() {
        let mut memory = TableMemory::default();
        for doc in 0..MOST_AWAITED as u64 {
            assert!(memory.has_room(0));
            memory.expect(DocId(doc), 0, Some(vec![DocId(doc); 64]));
        }
        assert!(!memory.has_room(FORGOTTEN_AFTER_MS - 1));
        assert_eq!(memory.targets, MOST_TARGETS);
        let kept = memory.take(DocId(0)).expect("it was awaited");
        assert_eq!(kept.len(), 64);
        let last = memory
            .take(DocId(MOST_AWAITED as u64 - 1))
            .expect("this, too");
        assert_eq!(last.len(), 0, "no room for what it says");
        memory.expect(DocId(0), 0, None);
        memory.expect(DocId(5), FORGOTTEN_AFTER_MS, Some(vec![DocId(1)]));
        memory.expect(DocId(MOST_AWAITED as u64), 0, None);
        assert!(memory.has_room(FORGOTTEN_AFTER_MS));
        assert_eq!((memory.awaited.len(), memory.targets), (1, 1));
    }
}
