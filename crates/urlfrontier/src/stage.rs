//! What is to be written to the store with the next commit. The store takes a commit whole or not at all, but no key twice in one.

use std::collections::HashMap;

use fjall::Keyspace;

/// The tables of the store.
#[derive(Clone)]
pub(crate) struct Tables {
    /// Settings of the whole frontier, by name.
    pub(crate) meta: Keyspace,
    /// Queue number → the queue (`Queue::encode`).
    pub(crate) queues: Keyspace,
    /// Queue, URL → what is known of it (`UrlRecord`).
    pub(crate) urls: Keyspace,
    /// Queue, due date, URL → metadata. Those that wait.
    pub(crate) due: Keyspace,
    /// Queue, end of the lease, URL → due date, metadata. Those that somebody has.
    pub(crate) leased: Keyspace,
    /// Numbers of queues that are deleted and not swept away yet.
    pub(crate) dead: Keyspace,
}

/// Which of the tables.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Table {
    Meta,
    Queues,
    Urls,
    Due,
    Leased,
    Dead,
}

const TABLES: [Table; 6] = [
    Table::Meta,
    Table::Queues,
    Table::Urls,
    Table::Due,
    Table::Leased,
    Table::Dead,
];

impl Tables {
    pub(crate) fn get(&self, table: Table) -> &Keyspace {
        match table {
            Table::Meta => &self.meta,
            Table::Queues => &self.queues,
            Table::Urls => &self.urls,
            Table::Due => &self.due,
            Table::Leased => &self.leased,
            Table::Dead => &self.dead,
        }
    }
}

type Writes = HashMap<Vec<u8>, Option<Vec<u8>>>;

/// Writes that wait for the commit. The last one of a key counts.
#[derive(Default)]
pub(crate) struct Stage {
    writes: [Writes; TABLES.len()],
}

impl Stage {
    pub(crate) fn put(&mut self, table: Table, key: Vec<u8>, value: Vec<u8>) {
        self.writes[table as usize].insert(key, Some(value));
    }

    pub(crate) fn remove(&mut self, table: Table, key: Vec<u8>) {
        self.writes[table as usize].insert(key, None);
    }

    /// What a key will have: the outer none says that nothing is staged for it.
    pub(crate) fn get(&self, table: Table, key: &[u8]) -> Option<Option<&[u8]>> {
        let staged = self.writes[table as usize].get(key)?;
        Some(staged.as_deref())
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.writes.iter().all(HashMap::is_empty)
    }

    /// Writes all of it in one commit, which is not durable yet.
    pub(crate) fn commit(
        &mut self,
        database: &fjall::Database,
        tables: &Tables,
    ) -> fjall::Result<()> {
        let count = self.writes.iter().map(HashMap::len).sum();
        let mut batch = fjall::OwnedWriteBatch::with_capacity(database.clone(), count);
        for table in TABLES {
            let space = tables.get(table);
            for (key, value) in self.writes[table as usize].drain() {
                match value {
                    Some(value) => batch.insert(space, key, value),
                    None => batch.remove(space, key),
                }
            }
        }
        batch.commit()
    }
}
