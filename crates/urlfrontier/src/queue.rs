//! One queue: its counts, what holds it back, and when it may give URLs again. Its URLs lie in the store.

use std::sync::Arc;

use crate::keys::{QueueId, timed_key};

/// This lies so far ahead that it never comes.
pub(crate) const NEVER: u64 = u64::MAX;

/// Moments are in milliseconds since 1970 where their name ends in `_ms`, and in seconds otherwise, as in the API.
#[derive(Debug)]
pub(crate) struct Queue {
    pub(crate) id: QueueId,
    pub(crate) crawl: Arc<str>,
    pub(crate) name: Arc<str>,
    /// URLs that wait or are leased.
    pub(crate) active: u64,
    /// URLs that are not to be fetched again.
    pub(crate) completed: u64,
    /// Nothing is given before this moment.
    pub(crate) blocked_until: u64,
    /// Seconds between two times that it gives; none: as all queues.
    pub(crate) delay: Option<u32>,
    /// It gives nothing once as many URLs are completed; 0: no limit.
    pub(crate) limit: u32,
    /// When it gave URLs the last time; 0: never.
    pub(crate) gave_ms: u64,
    /// URLs under lease: when leases end, and how many end then, by time. One entry for each call that took some.
    pub(crate) leases: Vec<(u64, u32)>,
    /// Nothing that waits is due before this. It may be too early, never too late.
    pub(crate) next_due: u64,
    /// Nothing that waits sorts before this key. What was taken leaves tombstones behind; a scan that began before them would read them all.
    pub(crate) floor: Box<[u8]>,
    /// Where it stands in its crawl's line.
    pub(crate) place: (u64, u64),
}

impl Queue {
    pub(crate) fn new(id: QueueId, crawl: Arc<str>, name: Arc<str>) -> Self {
        Self {
            id,
            crawl,
            name,
            active: 0,
            completed: 0,
            blocked_until: 0,
            delay: None,
            limit: 0,
            gave_ms: 0,
            leases: Vec::new(),
            next_due: NEVER,
            floor: timed_key(id + 1, 0, "").into(),
            place: (NEVER, 0),
        }
    }

    /// From when on a call may get URLs of it, as far as the queue knows.
    pub(crate) fn opens_ms(&self, default_delay: u32) -> u64 {
        if self.is_at_limit() {
            return NEVER;
        }
        let returned = self.leases.first().map_or(NEVER, |(until, _)| *until);
        let due = self.next_due.saturating_mul(1000).min(returned);
        let delay = u64::from(self.delay.unwrap_or(default_delay)) * 1000;
        let rested = match self.gave_ms {
            0 => 0,
            gave => gave.saturating_add(delay),
        };
        due.max(rested).max(self.blocked_until.saturating_mul(1000))
    }

    /// Are as many URLs completed as are wanted of it?
    pub(crate) fn is_at_limit(&self) -> bool {
        self.limit > 0 && self.completed >= u64::from(self.limit)
    }

    pub(crate) fn is_blocked(&self, now_ms: u64) -> bool {
        self.blocked_until.saturating_mul(1000) > now_ms
    }

    /// URLs whose lease has not ended.
    pub(crate) fn in_process(&self, now_ms: u64) -> u64 {
        let current = self.leases.iter().filter(|(until, _)| *until > now_ms);
        current.map(|(_, count)| u64::from(*count)).sum()
    }

    /// One more URL is leased until then.
    pub(crate) fn lease(&mut self, until_ms: u64) {
        let at = self.leases.partition_point(|(until, _)| *until < until_ms);
        match self.leases.get_mut(at) {
            Some((until, count)) if *until == until_ms => *count += 1,
            _ => self.leases.insert(at, (until_ms, 1)),
        }
    }

    /// A URL that was leased until then has been dealt with.
    pub(crate) fn end_lease(&mut self, until_ms: u64) {
        let at = self.leases.partition_point(|(until, _)| *until < until_ms);
        if let Some((until, count)) = self.leases.get_mut(at)
            && *until == until_ms
        {
            *count -= 1;
            if *count == 0 {
                self.leases.remove(at);
            }
        }
    }

    /// A URL waits under this key from now on.
    pub(crate) fn waits(&mut self, due: u64, key: &[u8]) {
        self.next_due = self.next_due.min(due);
        if key < &self.floor[..] {
            self.floor = key.into();
        }
    }

    /// As it lies in the store. Leases and what is due are found there too, and are not part of it.
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(64 + self.crawl.len() + self.name.len());
        for number in [
            self.active,
            self.completed,
            self.blocked_until,
            self.gave_ms,
        ] {
            bytes.extend_from_slice(&number.to_be_bytes());
        }
        bytes.extend_from_slice(&self.limit.to_be_bytes());
        // One more than the delay, so that 0 is free to say that there is none.
        let delay = self.delay.map_or(0, |seconds| u64::from(seconds) + 1);
        bytes.extend_from_slice(&delay.to_be_bytes());
        bytes.extend_from_slice(&(self.crawl.len() as u16).to_be_bytes());
        bytes.extend_from_slice(self.crawl.as_bytes());
        bytes.extend_from_slice(self.name.as_bytes());
        bytes
    }

    /// None: it is damaged.
    pub(crate) fn decode(id: QueueId, bytes: &[u8]) -> Option<Self> {
        let number = |at: usize| {
            let eight = bytes.get(at..at + 8)?.try_into().ok()?;
            Some(u64::from_be_bytes(eight))
        };
        let crawl_len = usize::from(u16::from_be_bytes(bytes.get(44..46)?.try_into().ok()?));
        let crawl = std::str::from_utf8(bytes.get(46..46 + crawl_len)?).ok()?;
        let name = std::str::from_utf8(&bytes[46 + crawl_len..]).ok()?;
        let mut queue = Self::new(id, crawl.into(), name.into());
        queue.active = number(0)?;
        queue.completed = number(8)?;
        queue.blocked_until = number(16)?;
        queue.gave_ms = number(24)?;
        queue.limit = u32::from_be_bytes(bytes.get(32..36)?.try_into().ok()?);
        queue.delay = match number(36)? {
            0 => None,
            more => Some(u32::try_from(more - 1).ok()?),
        };
        Some(queue)
    }
}

/// The key of a URL that came without one: its host.
pub(crate) fn missing_key(url: &str) -> Option<&str> {
    let rest = url.find("://").map_or(url, |at| &url[at + 3..]);
    let host = rest.split([':', '/', '?', '&']).next().unwrap_or_default();
    (!host.is_empty()).then_some(host)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn queue() -> Queue {
        Queue::new(3, "DEFAULT".into(), "a.example".into())
    }

    #[test]
    fn a_queue_is_read_as_it_was_written() {
        let mut queue = queue();
        queue.active = 5;
        queue.completed = 6;
        queue.blocked_until = 7;
        queue.gave_ms = 8;
        queue.limit = 9;
        queue.delay = Some(0);
        let read = Queue::decode(3, &queue.encode()).expect("a queue");
        assert_eq!(format!("{read:?}"), format!("{queue:?}"));
        assert!(Queue::decode(3, &queue.encode()[..45]).is_none());
    }

    #[test]
    fn the_longest_reason_to_wait_decides() {
        let mut queue = queue();
        assert_eq!(queue.opens_ms(1), NEVER);
        queue.next_due = 100;
        assert_eq!(queue.opens_ms(1), 100_000);
        queue.gave_ms = 99_500;
        assert_eq!(queue.opens_ms(1), 100_500);
        queue.delay = Some(10);
        assert_eq!(queue.opens_ms(1), 109_500);
        queue.blocked_until = 200;
        assert_eq!(queue.opens_ms(1), 200_000);
        queue.limit = 1;
        assert_eq!(queue.opens_ms(1), 200_000);
        queue.completed = 1;
        assert_eq!(queue.opens_ms(1), NEVER);
    }

    #[test]
    fn leases_are_counted_until_they_end() {
        let mut queue = queue();
        queue.lease(2000);
        queue.lease(1000);
        queue.lease(2000);
        assert_eq!((queue.in_process(0), queue.in_process(1000)), (3, 2));
        queue.end_lease(2000);
        queue.end_lease(555);
        assert_eq!(queue.leases, [(1000, 1), (2000, 1)]);
        assert_eq!(queue.opens_ms(0), 1000);
    }

    #[test]
    fn the_floor_is_where_the_first_one_waits_also_after_the_queue_ran_dry() {
        let mut queue = queue();
        let keys = [5, 7].map(|due| timed_key(queue.id, due, "http://a/"));
        queue.waits(7, &keys[1]);
        assert_eq!(queue.floor[..], keys[1]);
        queue.waits(5, &keys[0]);
        queue.waits(7, &keys[1]);
        assert_eq!((&queue.floor[..], queue.next_due), (&keys[0][..], 5));
    }

    #[test]
    fn the_key_of_a_url_without_one_is_its_host() {
        assert_eq!(
            missing_key("http://gac.icann.org?language_id=9"),
            Some("gac.icann.org")
        );
        assert_eq!(missing_key("https://a.example:8443/b:c"), Some("a.example"));
        assert_eq!(missing_key("a.example&x"), Some("a.example"));
        assert_eq!(missing_key("http:///nowhere"), None);
        assert_eq!(missing_key(""), None);
    }
}
