//! Crawls and their queues, in memory: by name, by number, and in the line in which they give URLs.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use crate::keys::QueueId;
use crate::queue::{NEVER, Queue};

/// What an empty crawl ID means.
pub(crate) const DEFAULT_CRAWL: &str = "DEFAULT";

/// The crawl that a message means.
pub(crate) fn crawl_name(id: &str) -> &str {
    if id.is_empty() { DEFAULT_CRAWL } else { id }
}

/// A place in a crawl's line: when the queue opens, and a number that grows with each time a queue takes its place, so that of two
/// queues that are open the one that has stood there longer comes first.
pub(crate) type Place = (u64, u64);

#[derive(Default)]
struct Crawl {
    queues: BTreeMap<Arc<str>, QueueId>,
    line: BTreeMap<Place, QueueId>,
}

/// All queues. A crawl without queues is no crawl.
#[derive(Default)]
pub(crate) struct Crawls {
    crawls: BTreeMap<Arc<str>, Crawl>,
    queues: HashMap<QueueId, Queue>,
    arrivals: u64,
    /// Seconds between two times that a queue gives, where it has no delay of its own.
    pub(crate) default_delay: u32,
}

impl Crawls {
    pub(crate) fn names(&self) -> Vec<Arc<str>> {
        self.crawls.keys().cloned().collect()
    }

    pub(crate) fn len(&self) -> usize {
        self.queues.len()
    }

    pub(crate) fn find(&self, crawl: &str, name: &str) -> Option<QueueId> {
        self.crawls.get(crawl)?.queues.get(name).copied()
    }

    pub(crate) fn queue(&self, id: QueueId) -> Option<&Queue> {
        self.queues.get(&id)
    }

    /// The queue, to change it. `settle` has to follow.
    pub(crate) fn queue_mut(&mut self, id: QueueId) -> Option<&mut Queue> {
        self.queues.get_mut(&id)
    }

    /// Queues of a crawl by name, from the first name after this one on.
    pub(crate) fn queues_after<'a>(
        &'a self,
        crawl: &str,
        after: Option<&str>,
    ) -> impl Iterator<Item = &'a Queue> + use<'a> {
        use std::ops::Bound;
        let from = after.map_or(Bound::Unbounded, Bound::Excluded);
        let range = self
            .crawls
            .get(crawl)
            .map(|crawl| crawl.queues.range::<str, _>((from, Bound::Unbounded)));
        let ids = range.into_iter().flatten().map(|(_, id)| *id);
        ids.filter_map(|id| self.queues.get(&id))
    }

    /// Add one. It takes its place in the line.
    pub(crate) fn add(&mut self, mut queue: Queue) {
        let id = queue.id;
        // One copy of the crawl's name is enough for all its queues.
        if let Some((name, _)) = self.crawls.get_key_value(&queue.crawl) {
            queue.crawl = name.clone();
        }
        let crawl = self.crawls.entry(queue.crawl.clone()).or_default();
        crawl.queues.insert(queue.name.clone(), id);
        self.arrivals += 1;
        queue.place = (queue.opens_ms(self.default_delay), self.arrivals);
        crawl.line.insert(queue.place, id);
        self.queues.insert(id, queue);
    }

    /// Take one out.
    pub(crate) fn remove(&mut self, id: QueueId) -> Option<Queue> {
        let queue = self.queues.remove(&id)?;
        if let Some(crawl) = self.crawls.get_mut(&queue.crawl) {
            crawl.queues.remove(&queue.name);
            crawl.line.remove(&queue.place);
            if crawl.queues.is_empty() {
                self.crawls.remove(&queue.crawl);
            }
        }
        Some(queue)
    }

    /// Give a queue the place that it has by now, if it opens at another time than before or has just given.
    pub(crate) fn settle(&mut self, id: QueueId, has_given: bool) {
        let Some(queue) = self.queues.get_mut(&id) else {
            return;
        };
        let opens = queue.opens_ms(self.default_delay);
        if opens == queue.place.0 && !has_given {
            return;
        }
        let Some(crawl) = self.crawls.get_mut(&queue.crawl) else {
            return;
        };
        crawl.line.remove(&queue.place);
        self.arrivals += 1;
        queue.place = (opens, self.arrivals);
        crawl.line.insert(queue.place, id);
    }

    /// Every queue's place anew: the default delay has changed.
    pub(crate) fn settle_all(&mut self) {
        let ids: Vec<QueueId> = self.queues.keys().copied().collect();
        for id in ids {
            self.settle(id, false);
        }
    }

    /// The last place that is open now: queues that take a place later stand behind it.
    pub(crate) fn open_until(&self, now_ms: u64) -> Place {
        (now_ms.min(NEVER - 1), self.arrivals)
    }

    /// The next queue of a crawl's line behind a place, up to another one.
    pub(crate) fn next_in_line(
        &self,
        crawl: &str,
        behind: Option<Place>,
        until: Place,
    ) -> Option<(Place, QueueId)> {
        use std::ops::Bound;
        let from = behind.map_or(Bound::Unbounded, Bound::Excluded);
        if behind.is_some_and(|behind| behind >= until) {
            return None;
        }
        let line = &self.crawls.get(crawl)?.line;
        let (place, id) = line.range((from, Bound::Included(until))).next()?;
        Some((*place, *id))
    }
}
