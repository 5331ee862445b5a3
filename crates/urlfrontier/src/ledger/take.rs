//! URLs go out under lease (GetURLs): queue after queue in the order in which they opened, and in each the earliest date first.

use std::sync::Arc;

use prost::Message;

use super::Ledger;
use crate::api::UrlInfo;
use crate::crawls::Place;
use crate::error::FrontierError;
use crate::keys::{QueueId, UrlRecord, moment_and_url, timed_key, url_key};
use crate::queue::NEVER;
use crate::stage::Table;

/// URLs whose lease has ended that come back with one commit.
const RETURNED_AT_ONCE: usize = 5_000;
/// A piece of a call ends with the URL that makes it so large, metadata included.
const PIECE_BYTES: usize = 4 << 20;

/// What a call asks for.
#[derive(Clone, Debug)]
pub(crate) struct Order {
    /// None: any crawl.
    pub(crate) crawl: Option<String>,
    /// Only this queue of the crawl.
    pub(crate) key: Option<String>,
    /// URLs of one queue, at most.
    pub(crate) per_queue: u64,
    /// Queues, at most.
    pub(crate) queues: u64,
    /// How long the lease is.
    pub(crate) lease_ms: u64,
}

/// Where a call is: it is carried out piece by piece, so that nobody's order for everything keeps the others waiting, and no more is leased than
/// can be sent.
#[derive(Clone, Debug)]
pub(crate) struct Cursor {
    order: Order,
    /// Crawls to go through, the last one first.
    crawls: Vec<Arc<str>>,
    /// Where it is in the line of the crawl that is gone through.
    behind: Option<Place>,
    /// Queues that came into the line after the call began are not for it.
    until: Option<Place>,
    queues_left: u64,
    /// In the middle of a queue, which may give so many more.
    within: Option<(QueueId, u64)>,
    /// When the call began, once it has. What is due later, or comes back later because its lease ends, is not for it: otherwise a call that is
    /// read slowly would be given the same URLs again, without end.
    began_ms: Option<u64>,
}

impl Cursor {
    pub(crate) fn new(order: Order) -> Self {
        Self {
            queues_left: order.queues,
            order,
            crawls: Vec::new(),
            behind: None,
            until: None,
            within: None,
            began_ms: None,
        }
    }
}

impl Ledger {
    /// Leases the next URLs of a call, `most` at most. No cursor comes back when the call is through.
    pub(crate) fn take(
        &mut self,
        mut cursor: Cursor,
        most: usize,
        now_ms: u64,
    ) -> Result<(Vec<UrlInfo>, Option<Cursor>), FrontierError> {
        let mut taken = Vec::new();
        if !self.active {
            return Ok((taken, None));
        }
        // Scans see what is committed.
        self.commit()?;
        let began_ms = match cursor.began_ms {
            Some(began_ms) => began_ms,
            None => self.begin(&mut cursor, now_ms),
        };
        let until_ms = now_ms.saturating_add(cursor.order.lease_ms);
        let mut room_bytes = PIECE_BYTES;
        while taken.len() < most && room_bytes > 0 {
            let (id, left, is_new) = match cursor.within.take() {
                Some((id, left)) if self.may_go_on(id, now_ms) => (id, left, false),
                _ => match self.next_queue(&mut cursor, now_ms) {
                    Some(id) => (id, cursor.order.per_queue, true),
                    None => return Ok((taken, None)),
                },
            };
            let room = left.min((most - taken.len()) as u64);
            let before = taken.len();
            let times = (began_ms, now_ms, until_ms);
            let has_more = self.lease_from(id, (room, &mut room_bytes), times, &mut taken)?;
            let got = (taken.len() - before) as u64;
            if is_new && got > 0 {
                cursor.queues_left -= 1;
            }
            if has_more && left > got && got > 0 {
                cursor.within = Some((id, left - got));
            }
        }
        self.commit()?;
        Ok((taken, Some(cursor)))
    }

    fn begin(&mut self, cursor: &mut Cursor, now_ms: u64) -> u64 {
        cursor.began_ms = Some(now_ms);
        cursor.until = Some(self.crawls.open_until(now_ms));
        cursor.crawls = match &cursor.order.crawl {
            Some(crawl) => vec![crawl.as_str().into()],
            None => {
                let mut names = self.crawls.names();
                // Each call begins with another crawl, so that none waits for the rest to run dry.
                let count = names.len().max(1);
                names.rotate_left(self.turns % count);
                self.turns = self.turns.wrapping_add(1);
                names
            }
        };
        now_ms
    }

    /// Has nobody blocked or deleted the queue, and has it not reached its limit, since it gave the first URLs to a call?
    fn may_go_on(&self, id: QueueId, now_ms: u64) -> bool {
        let queue = self.crawls.queue(id);
        queue.is_some_and(|queue| !queue.is_blocked(now_ms) && !queue.is_at_limit())
    }

    /// The next queue that may give to this call.
    fn next_queue(&self, cursor: &mut Cursor, now_ms: u64) -> Option<QueueId> {
        if cursor.queues_left == 0 {
            return None;
        }
        let until = cursor.until?;
        let is_free = |id: QueueId| {
            let queue = self.crawls.queue(id);
            queue.is_some_and(|queue| queue.in_process(now_ms) < cursor.order.per_queue)
        };
        if let Some(key) = cursor.order.key.clone() {
            let crawl = cursor.crawls.pop()?;
            let id = self.crawls.find(&crawl, &key)?;
            let is_open = self.crawls.queue(id)?.place.0 <= now_ms;
            return (is_open && is_free(id)).then_some(id);
        }
        while let Some(crawl) = cursor.crawls.last() {
            while let Some((place, id)) = self.crawls.next_in_line(crawl, cursor.behind, until) {
                cursor.behind = Some(place);
                if is_free(id) {
                    return Some(id);
                }
            }
            cursor.crawls.pop();
            cursor.behind = None;
        }
        None
    }

    /// Leases the first URLs of a queue that were due when the call began, until a moment. Are there more of them?
    fn lease_from(
        &mut self,
        id: QueueId,
        (most, room_bytes): (u64, &mut usize),
        (began_ms, now_ms, until_ms): (u64, u64, u64),
        taken: &mut Vec<UrlInfo>,
    ) -> Result<bool, FrontierError> {
        self.return_leased(id, began_ms)?;
        let found = self.first_due(id, (most, room_bytes), began_ms / 1000)?;
        let (next_due, floor) = found.next;
        let Some(queue) = self.crawls.queue(id) else {
            return Ok(false);
        };
        let (crawl, name) = (queue.crawl.clone(), queue.name.clone());
        let count = found.waiting.len();
        for (due, url, metadata) in found.waiting {
            let key = url_key(id, &url);
            let known = self.record(&key)?;
            let record = UrlRecord {
                created: known.map_or(now_ms / 1000, |known| known.created),
                due: Some(due),
                lease: Some(until_ms),
                has_metadata: !metadata.is_empty(),
            };
            self.stage.put(Table::Urls, key, record.encode());
            self.stage.remove(Table::Due, timed_key(id, due, &url));
            let mut value = due.to_be_bytes().to_vec();
            value.extend_from_slice(&metadata);
            let key = timed_key(id, until_ms, &url);
            self.stage.put(Table::Leased, key, value);
            let stored = UrlInfo::decode(&metadata[..]);
            taken.push(UrlInfo {
                url,
                key: name.to_string(),
                metadata: stored.map_err(|_| self.damaged("metadata"))?.metadata,
                crawl_id: crawl.to_string(),
            });
        }
        if let Some(queue) = self.crawls.queue_mut(id) {
            for _ in 0..count {
                queue.lease(until_ms);
            }
            queue.next_due = next_due;
            queue.floor = floor;
            if count > 0 {
                queue.gave_ms = now_ms;
                self.touched.insert(id);
            }
        }
        self.crawls.settle(id, count > 0);
        self.commit()?;
        Ok(next_due <= began_ms / 1000)
    }

    /// URLs whose lease has ended wait again, at the date they had.
    fn return_leased(&mut self, id: QueueId, now_ms: u64) -> Result<(), FrontierError> {
        while self.return_some(id, now_ms)? {}
        Ok(())
    }

    /// Some of them. May there be more?
    fn return_some(&mut self, id: QueueId, now_ms: u64) -> Result<bool, FrontierError> {
        let first = self.crawls.queue(id).and_then(|queue| queue.leases.first());
        let first_ms = match first {
            Some((until_ms, _)) if *until_ms <= now_ms => *until_ms,
            _ => return Ok(false),
        };
        let mut returned = 0;
        // What came back before lies before the first lease, and has left tombstones.
        let range = timed_key(id, first_ms, "")..timed_key(id, now_ms + 1, "");
        for entry in self.tables.leased.range(range).take(RETURNED_AT_ONCE) {
            let (key, value) = entry.into_inner().map_err(|e| self.store(e))?;
            let due = value.get(..8).and_then(|eight| eight.try_into().ok());
            let (Some(due), Some((until_ms, url))) =
                (due.map(u64::from_be_bytes), moment_and_url(&key))
            else {
                return Err(self.damaged("a lease"));
            };
            let waits = timed_key(id, due, url);
            if let Some(queue) = self.crawls.queue_mut(id) {
                queue.end_lease(until_ms);
                queue.waits(due, &waits);
            }
            self.stage.put(Table::Due, waits, value[8..].to_vec());
            self.stage.remove(Table::Leased, key.to_vec());
            returned += 1;
        }
        let has_more = returned == RETURNED_AT_ONCE;
        if let Some(queue) = self.crawls.queue_mut(id)
            && !has_more
        {
            queue.leases.retain(|(until, _)| *until > now_ms);
        }
        self.commit()?;
        Ok(has_more)
    }

    /// Up to as many, or the last of them uses up the room.
    fn first_due(
        &self,
        id: QueueId,
        (most, room_bytes): (u64, &mut usize),
        now: u64,
    ) -> Result<FirstDue, FrontierError> {
        // Where the queue runs dry, the next scan begins behind all that it ever had.
        let end = timed_key(id + 1, 0, "");
        let mut found = FirstDue {
            waiting: Vec::new(),
            next: (NEVER, end.clone().into()),
        };
        let Some(queue) = self.crawls.queue(id) else {
            return Ok(found);
        };
        let from = queue.floor.to_vec();
        if from >= end {
            return Ok(found);
        }
        for entry in self.tables.due.range(from..end) {
            let (key, metadata) = entry.into_inner().map_err(|e| self.store(e))?;
            let Some((due, url)) = moment_and_url(&key) else {
                return Err(self.damaged("a URL that waits"));
            };
            if due > now || found.waiting.len() as u64 >= most || *room_bytes == 0 {
                found.next = (due, key.to_vec().into());
                break;
            }
            *room_bytes = room_bytes.saturating_sub(key.len() + metadata.len());
            found.waiting.push((due, url.to_owned(), metadata.to_vec()));
        }
        Ok(found)
    }
}

struct FirstDue {
    /// Date, URL, metadata.
    waiting: Vec<(u64, String, Vec<u8>)>,
    /// Date and key of the one behind them.
    next: (u64, Box<[u8]>),
}
