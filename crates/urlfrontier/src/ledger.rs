//! The frontier itself: what the calls do to queues and URLs. One thread owns it (`clerk.rs`), so calls happen one after the other.
//!
//! What a call changes is staged, then committed, and durable once `make_durable` has returned; only then is the call answered. A frontier
//! that is killed comes back with every answered call carried out, and of the others each either whole or not at all.

mod control;
mod look;
mod put;
mod take;

pub(crate) use look::{Filter, Reader};
pub(crate) use put::{Put, PutStatus};
pub(crate) use take::{Cursor, Order};

use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::sync::mpsc;

use fjall::{Database, KeyspaceCreateOptions, PersistMode};

use crate::clerk::Found;
use crate::crawls::Crawls;
use crate::error::FrontierError;
use crate::keys::{QueueId, UrlRecord, moment_and_url};
use crate::queue::{NEVER, Queue};
use crate::stage::{Stage, Table, Tables};

/// Seconds between two times that a queue gives URLs, unless somebody sets another delay. The reference's default.
const DEFAULT_DELAY: u32 = 1;

/// Of the memory for the store: this part keeps blocks that were read, the rest holds what was written lately.
const CACHE_SHARE: u64 = 2;

/// The queues, and the store behind them.
pub(crate) struct Ledger {
    dir: PathBuf,
    database: Database,
    tables: Tables,
    pub(crate) crawls: Crawls,
    /// Does it give URLs at all (SetActive)?
    active: bool,
    next_queue: QueueId,
    stage: Stage,
    /// Queues whose record has to be written with the next commit.
    touched: HashSet<QueueId>,
    is_durable: bool,
    /// Queues that the next commit deletes.
    deleted: Vec<QueueId>,
    sweeper: Option<mpsc::Sender<QueueId>>,
    /// Counts calls for any crawl.
    turns: usize,
}

impl Ledger {
    /// Opens the store in a directory, or makes one, and counts what is there. `memory` is for the store alone, in bytes.
    pub(crate) fn open(dir: &Path, memory: u64, now_ms: u64) -> Result<Self, FrontierError> {
        let failed = |source| FrontierError::Store {
            dir: dir.to_owned(),
            source,
        };
        let (database, tables) = open_store(dir, memory).map_err(failed)?;
        let mut ledger = Self {
            dir: dir.to_owned(),
            database,
            tables,
            crawls: Crawls::default(),
            active: true,
            next_queue: 1,
            stage: Stage::default(),
            touched: HashSet::new(),
            is_durable: true,
            deleted: Vec::new(),
            sweeper: None,
            turns: 0,
        };
        ledger.crawls.default_delay = DEFAULT_DELAY;
        ledger.recall(now_ms)?;
        Ok(ledger)
    }

    /// What was true when the frontier ended, however it ended.
    fn recall(&mut self, now_ms: u64) -> Result<(), FrontierError> {
        self.recall_settings()?;
        let mut queues = Vec::new();
        for entry in self.tables.queues.iter() {
            let (key, value) = entry.into_inner().map_err(|e| self.store(e))?;
            let id = key.get(..8).and_then(|eight| eight.try_into().ok());
            let id = id.map(u64::from_be_bytes);
            let queue = id.and_then(|id| Queue::decode(id, &value));
            queues.push(queue.ok_or_else(|| self.damaged("a queue"))?);
        }
        heed_clock(&mut queues, now_ms);
        for mut queue in queues {
            let prefix = queue.id.to_be_bytes();
            if let Some(first) = self.tables.due.prefix(prefix).next() {
                let key = first.key().map_err(|e| self.store(e))?;
                queue.next_due = moment_and_url(&key).map_or(NEVER, |(due, _)| due);
                queue.floor = key.to_vec().into();
            }
            self.next_queue = self.next_queue.max(queue.id + 1);
            self.crawls.add(queue);
        }
        self.recall_leases()
    }

    fn recall_settings(&mut self) -> Result<(), FrontierError> {
        let meta = |name: &str| self.tables.meta.get(name).map_err(|e| self.store(e));
        let active = meta("inactive")?.is_none();
        let delay = meta("default-delay")?;
        let next = meta("next-queue")?;
        let number = |value: Option<fjall::UserValue>| {
            value.map(|bytes| {
                <[u8; 8]>::try_from(&bytes[..])
                    .map(u64::from_be_bytes)
                    .map_err(|_| self.damaged("a setting"))
            })
        };
        let delay = number(delay).transpose()?;
        let next = number(next).transpose()?;
        self.active = active;
        if let Some(delay) = delay {
            self.crawls.default_delay = delay as u32;
        }
        self.next_queue = next.unwrap_or(1);
        Ok(())
    }

    fn recall_leases(&mut self) -> Result<(), FrontierError> {
        let mut settled: Option<QueueId> = None;
        for entry in self.tables.leased.iter() {
            let key = entry.key().map_err(|e| self.store(e))?;
            let id = QueueId::from_be_bytes(key[..8].try_into().unwrap_or_default());
            let Some((until_ms, _)) = moment_and_url(&key) else {
                return Err(self.damaged("a lease"));
            };
            // Leases of queues that are deleted are still being swept away.
            let Some(queue) = self.crawls.queue_mut(id) else {
                continue;
            };
            queue.lease(until_ms);
            if let Some(before) = settled.replace(id)
                && before != id
            {
                self.crawls.settle(before, false);
            }
        }
        if let Some(last) = settled {
            self.crawls.settle(last, false);
        }
        Ok(())
    }

    /// The numbers of deleted queues, whose URLs are still there, and where to tell of more of them.
    pub(crate) fn sweep_with(
        &mut self,
        sweeper: mpsc::Sender<QueueId>,
    ) -> Result<(), FrontierError> {
        for entry in self.tables.dead.iter() {
            let key = entry.key().map_err(|e| self.store(e))?;
            let id = QueueId::from_be_bytes(key[..8].try_into().unwrap_or_default());
            let _ = sweeper.send(id);
        }
        self.sweeper = Some(sweeper);
        Ok(())
    }

    /// What there is, after opening it.
    pub(crate) fn found(&self) -> Found {
        let count = |crawl: &str| -> u64 {
            let queues = self.crawls.queues_after(crawl, None);
            queues.map(|queue| queue.active + queue.completed).sum()
        };
        Found {
            queues: self.crawls.len(),
            urls: self.crawls.names().iter().map(|crawl| count(crawl)).sum(),
        }
    }

    /// The store, for those who only read it, and for the sweeper.
    pub(crate) fn store_handles(&self) -> (Database, Tables) {
        (self.database.clone(), self.tables.clone())
    }

    /// The queue of this name, which is made if there is none.
    fn queue_for(&mut self, crawl: &str, name: &str) -> QueueId {
        if let Some(id) = self.crawls.find(crawl, name) {
            return id;
        }
        let id = self.next_queue;
        self.next_queue += 1;
        self.stage.put(
            Table::Meta,
            b"next-queue".to_vec(),
            self.next_queue.to_be_bytes().to_vec(),
        );
        self.crawls.add(Queue::new(id, crawl.into(), name.into()));
        self.touched.insert(id);
        id
    }

    /// What is known of a URL, with what is staged.
    fn record(&self, key: &[u8]) -> Result<Option<UrlRecord>, FrontierError> {
        let decode = |bytes: &[u8]| {
            let record = UrlRecord::decode(bytes);
            record.ok_or_else(|| self.damaged("a URL")).map(Some)
        };
        match self.stage.get(Table::Urls, key) {
            Some(Some(bytes)) => decode(bytes),
            Some(None) => Ok(None),
            None => match self.tables.urls.get(key).map_err(|e| self.store(e))? {
                Some(bytes) => decode(&bytes),
                None => Ok(None),
            },
        }
    }

    /// Writes what is staged, whole or not at all. From now on it is read, but not yet durable.
    pub(crate) fn commit(&mut self) -> Result<(), FrontierError> {
        for id in self.touched.drain() {
            if let Some(queue) = self.crawls.queue(id) {
                let key = id.to_be_bytes().to_vec();
                self.stage.put(Table::Queues, key, queue.encode());
            }
        }
        if self.stage.is_empty() {
            return Ok(());
        }
        self.is_durable = false;
        let committed = self.stage.commit(&self.database, &self.tables);
        committed.map_err(|e| self.store(e))?;
        // Not earlier: what was staged for a queue before it was deleted is in the store only now.
        for id in self.deleted.drain(..) {
            if let Some(sweeper) = &self.sweeper {
                let _ = sweeper.send(id);
            }
        }
        Ok(())
    }

    /// Commits, and returns once the disk has all of it.
    pub(crate) fn make_durable(&mut self) -> Result<(), FrontierError> {
        self.commit()?;
        if !self.is_durable {
            let synced = self.database.persist(PersistMode::SyncData);
            synced.map_err(|e| self.store(e))?;
            self.is_durable = true;
        }
        Ok(())
    }

    fn store(&self, source: fjall::Error) -> FrontierError {
        FrontierError::Store {
            dir: self.dir.clone(),
            source,
        }
    }

    fn damaged(&self, what: &'static str) -> FrontierError {
        FrontierError::Damaged {
            dir: self.dir.clone(),
            what,
        }
    }
}

/// A clock that was ahead when URLs were given would keep their queues shut until it is as late again. From now on they count as having given now.
/// Leases and dates of that time cannot be told from others, and last longer by as much.
fn heed_clock(queues: &mut [Queue], now_ms: u64) {
    let mut ahead: Vec<&mut Queue> = queues.iter_mut().filter(|q| q.gave_ms > now_ms).collect();
    let Some(latest_ms) = ahead.iter().map(|queue| queue.gave_ms).max() else {
        return;
    };
    tracing::warn!(
        queues = ahead.len(),
        seconds = (latest_ms - now_ms).div_ceil(1000),
        "the clock was ahead of what it is now when URLs were given the last time, by so many seconds: leases and dates from that time last \
         longer by as much"
    );
    for queue in &mut ahead {
        queue.gave_ms = now_ms;
    }
}

fn open_store(dir: &Path, memory: u64) -> fjall::Result<(Database, Tables)> {
    let cache = memory / CACHE_SHARE;
    let database = Database::builder(dir)
        .cache_size(cache)
        .worker_threads(2)
        .open()?;
    // What is written most lies in memory until a table of this size is worth writing.
    let large = ((memory - cache) / 4).clamp(1 << 20, 64 << 20);
    let space = |name: &str| {
        database.keyspace(name, || {
            KeyspaceCreateOptions::default().max_memtable_size(large)
        })
    };
    let tables = Tables {
        meta: space("meta")?,
        queues: space("queues")?,
        urls: space("urls")?,
        due: space("due")?,
        leased: space("leased")?,
        dead: space("dead")?,
    };
    Ok((database, tables))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::UrlInfo;

    const HOUR_MS: u64 = 3_600_000;

    #[test]
    fn queues_open_after_the_clock_was_set_back() {
        let dir = tempfile::tempdir().expect("a directory");
        let now_ms = 1_700_000_000_000;
        let take = |ledger: &mut Ledger, per_queue, now_ms| {
            let order = Order {
                crawl: None,
                key: None,
                per_queue,
                queues: 1,
                lease_ms: 1,
            };
            let taken = ledger.take(Cursor::new(order), 10, now_ms);
            taken.expect("a store").0.len()
        };
        {
            let mut ledger = Ledger::open(dir.path(), 16 << 20, now_ms).expect("a frontier");
            for page in 0..2 {
                let info = UrlInfo {
                    url: format!("http://a.test/{page}"),
                    ..UrlInfo::default()
                };
                let put = Put {
                    info,
                    refetch: None,
                };
                ledger.put(put, now_ms / 1000).expect("a store");
            }
            // The clock is a day ahead.
            assert_eq!(take(&mut ledger, 1, now_ms + 24 * HOUR_MS), 1);
            ledger.make_durable().expect("a store");
        }
        let mut ledger = Ledger::open(dir.path(), 16 << 20, now_ms + HOUR_MS).expect("a frontier");
        assert_eq!(take(&mut ledger, 2, now_ms + HOUR_MS), 0);
        // After its delay, not after a day.
        assert_eq!(take(&mut ledger, 2, now_ms + HOUR_MS + 1_001), 1);
    }
}
