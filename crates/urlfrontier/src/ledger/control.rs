//! What holds queues back, and what deletes them.

use super::Ledger;
use crate::crawls::crawl_name;
use crate::error::FrontierError;
use crate::keys::{QueueId, url_key};
use crate::queue::Queue;
use crate::stage::Table;

/// Queues of a crawl that are deleted with one commit.
const DELETED_AT_ONCE: usize = 10_000;

impl Ledger {
    pub(crate) fn is_active(&self) -> bool {
        self.active
    }

    /// Give URLs, or none at all.
    pub(crate) fn set_active(&mut self, active: bool) {
        self.active = active;
        match active {
            true => self.stage.remove(Table::Meta, b"inactive".to_vec()),
            false => self
                .stage
                .put(Table::Meta, b"inactive".to_vec(), Vec::new()),
        }
    }

    /// Changes a queue. False if there is none of this name.
    fn change(&mut self, crawl: &str, key: &str, how: impl FnOnce(&mut Queue)) -> bool {
        let Some(id) = self.crawls.find(crawl_name(crawl), key) else {
            return false;
        };
        if let Some(queue) = self.crawls.queue_mut(id) {
            how(queue);
        }
        self.touched.insert(id);
        self.crawls.settle(id, false);
        true
    }

    /// The queue gives nothing before this moment, in seconds since 1970.
    pub(crate) fn block(&mut self, crawl: &str, key: &str, until: u64) -> bool {
        self.change(crawl, key, |queue| queue.blocked_until = until)
    }

    /// The queue gives nothing once as many URLs are completed; 0 takes the limit away.
    pub(crate) fn set_limit(&mut self, crawl: &str, key: &str, limit: u32) -> bool {
        self.change(crawl, key, |queue| queue.limit = limit)
    }

    /// Seconds between two times that the queue gives.
    pub(crate) fn set_delay(&mut self, crawl: &str, key: &str, delay: u32) -> bool {
        self.change(crawl, key, |queue| queue.delay = Some(delay))
    }

    /// The same for all queues that have no delay of their own.
    pub(crate) fn set_default_delay(&mut self, delay: u32) {
        let value = u64::from(delay).to_be_bytes().to_vec();
        self.stage
            .put(Table::Meta, b"default-delay".to_vec(), value);
        self.crawls.default_delay = delay;
        self.crawls.settle_all();
    }

    /// Deletes a queue, and tells how many URLs it had.
    pub(crate) fn delete_queue(&mut self, crawl: &str, key: &str) -> u64 {
        match self.crawls.find(crawl_name(crawl), key) {
            Some(id) => self.delete(id),
            None => 0,
        }
    }

    /// Deletes a crawl with all its queues, and tells how many URLs it had. If the frontier is killed meanwhile, some queues may be left.
    pub(crate) fn delete_crawl(&mut self, crawl: &str) -> Result<u64, FrontierError> {
        let queues = self.crawls.queues_after(crawl_name(crawl), None);
        let ids: Vec<QueueId> = queues.map(|queue| queue.id).collect();
        let mut urls = 0;
        for ids in ids.chunks(DELETED_AT_ONCE) {
            urls += ids.iter().map(|id| self.delete(*id)).sum::<u64>();
            self.commit()?;
        }
        Ok(urls)
    }

    fn delete(&mut self, id: QueueId) -> u64 {
        let Some(queue) = self.crawls.remove(id) else {
            return 0;
        };
        let key = id.to_be_bytes().to_vec();
        self.stage.put(Table::Dead, key.clone(), Vec::new());
        self.stage.remove(Table::Queues, key);
        self.touched.remove(&id);
        self.deleted.push(id);
        queue.active + queue.completed
    }

    /// Deletes those of these URLs that became known before a moment, in seconds since 1970.
    pub(crate) fn purge(
        &mut self,
        urls: &[(QueueId, String)],
        before: u64,
    ) -> Result<u64, FrontierError> {
        let mut count = 0;
        for (id, url) in urls {
            let key = url_key(*id, url);
            let record = match self.crawls.queue(*id) {
                Some(_) => self.record(&key)?,
                None => None,
            };
            let Some(record) = record.filter(|record| record.created < before) else {
                continue;
            };
            self.forget_waiting(*id, url, &record);
            self.stage.remove(Table::Urls, key);
            self.crawls.settle(*id, false);
            count += 1;
        }
        Ok(count)
    }
}
