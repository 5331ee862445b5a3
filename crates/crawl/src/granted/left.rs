//! Granted URLs that this crawl gave back for others: it does not fetch them itself, and it does not wait for them at its end.

use std::collections::{BTreeMap, HashMap};
use std::hash::{BuildHasher, RandomState};

use portolan_urlfrontier::api::{UrlInfo, UrlStatusRequest};

use super::Why;

/// A URL that is given back may come again after this many seconds; each further time after twice as many, up to the most.
const BACK_AFTER_S: u64 = 30;
const BACK_AFTER_MOST_S: u64 = 480;
/// So many are remembered, at some 20 bytes each. Beyond it a crawl does not end by itself.
const REMEMBERED: usize = 2_000_000;
/// So many of them are looked at before the crawl ends.
const SAMPLE: usize = 64;

#[derive(Debug, Default)]
pub(super) struct LeftToOthers {
    hasher: RandomState,
    left: HashMap<u64, Left>,
    /// Those with the lowest hashes: a fair choice of all.
    sample: BTreeMap<u64, UrlStatusRequest>,
    /// There were too many: some are not remembered.
    overflows: bool,
}

#[derive(Debug, Clone, Copy)]
struct Left {
    times: u8,
    why: Why,
}

impl LeftToOthers {
    fn hash(&self, info: &UrlInfo) -> u64 {
        self.hasher.hash_one((&info.key, &info.url))
    }

    /// Seconds until a URL may come again that is given back now.
    pub(super) fn give_back(&mut self, info: &UrlInfo, why: Why) -> u64 {
        let hash = self.hash(info);
        if self.left.len() >= REMEMBERED && !self.left.contains_key(&hash) {
            if !std::mem::replace(&mut self.overflows, true) {
                tracing::warn!(
                    urls = REMEMBERED,
                    "more URLs than this were given back to the frontier server; the crawl does not end by itself"
                );
            }
            return BACK_AFTER_MOST_S;
        }
        let left = self.left.entry(hash).or_insert(Left { times: 0, why });
        left.why = why;
        let after = (BACK_AFTER_S << left.times).min(BACK_AFTER_MOST_S);
        if after < BACK_AFTER_MOST_S {
            left.times += 1;
        }
        let is_low = |last: (&u64, _)| hash < *last.0;
        if self.sample.len() < SAMPLE || self.sample.last_key_value().is_some_and(is_low) {
            let request = UrlStatusRequest {
                url: info.url.clone(),
                key: info.key.clone(),
                crawl_id: info.crawl_id.clone(),
            };
            self.sample.insert(hash, request);
            if self.sample.len() > SAMPLE {
                self.sample.pop_last();
            }
        }
        after
    }

    /// Was it given back before?
    pub(super) fn holds(&self, info: &UrlInfo) -> bool {
        self.left.contains_key(&self.hash(info))
    }

    /// Was it settled here, so that it is nobody's but others'?
    pub(super) fn is_settled(&self, info: &UrlInfo) -> bool {
        let left = self.left.get(&self.hash(info));
        left.is_some_and(|left| left.why == Why::Settled)
    }

    /// It is ours now: the scope has become wider.
    pub(super) fn take_back(&mut self, info: &UrlInfo) {
        let hash = self.hash(info);
        self.left.remove(&hash);
        self.sample.remove(&hash);
    }

    /// How many URLs were given back. None: some are not remembered.
    pub(super) fn count(&self) -> Option<u64> {
        (!self.overflows).then_some(self.left.len() as u64)
    }

    pub(super) fn sample(&self) -> Vec<UrlStatusRequest> {
        self.sample.values().cloned().collect()
    }

    /// Others have fetched some. Those that still wait are granted again, and given back again.
    pub(super) fn forget_all(&mut self) {
        self.left.clear();
        self.sample.clear();
        self.overflows = false;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn info(number: u32) -> UrlInfo {
        UrlInfo {
            url: format!("http://a.test/{number}"),
            ..UrlInfo::default()
        }
    }

    #[test]
    fn what_comes_again_counts_once_and_waits_longer() {
        let mut left = LeftToOthers::default();
        let mut waits = || left.give_back(&info(1), Why::Scope);
        let seconds: Vec<u64> = (0..6).map(|_| waits()).collect();
        assert_eq!(seconds, [30, 60, 120, 240, 480, 480]);
        left.give_back(&info(2), Why::Settled);
        assert_eq!(left.count(), Some(2));
        assert!(left.holds(&info(1)) && !left.is_settled(&info(1)));
        assert!(left.is_settled(&info(2)) && !left.holds(&info(3)));
        left.take_back(&info(1));
        assert_eq!((left.count(), left.sample().len()), (Some(1), 1));
        left.forget_all();
        assert_eq!((left.count(), left.sample().len()), (Some(0), 0));
    }

    #[test]
    fn the_sample_is_of_all_of_them_and_stays_small() {
        let mut left = LeftToOthers::default();
        for number in 0..10_000 {
            left.give_back(&info(number), Why::Scope);
        }
        assert_eq!((left.count(), left.sample().len()), (Some(10_000), SAMPLE));
        let number = |url: &str| url.rsplit('/').next().map(str::parse::<u32>);
        let late = left
            .sample()
            .into_iter()
            .filter(|asked| matches!(number(&asked.url), Some(Ok(number)) if number >= 5_000));
        // By chance half of them; that there are none of the later half is as good as impossible.
        assert!(late.count() > 0);
    }
}
