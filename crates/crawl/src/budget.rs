//! How much may still be fetched, and whether it is time to stop. Shared by all workers, touched
//! once a request.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering};

/// Why a crawl ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum StoppedBy {
    /// Nothing is left to fetch.
    Done = 1,
    MaxPages = 2,
    TimeLimit = 3,
    /// Asked to, by Ctrl-C or a signal.
    Signal = 4,
    /// Something failed that the crawl cannot go on without.
    Error = 5,
    /// Nothing is left but URLs of hosts that fail.
    Waiting = 6,
}

impl StoppedBy {
    pub fn name(self) -> &'static str {
        match self {
            StoppedBy::Done => "done",
            StoppedBy::MaxPages => "max-pages",
            StoppedBy::TimeLimit => "time-limit",
            StoppedBy::Signal => "signal",
            StoppedBy::Error => "error",
            StoppedBy::Waiting => "waiting",
        }
    }

    fn from_u8(value: u8) -> Option<Self> {
        use StoppedBy::*;
        [Done, MaxPages, TimeLimit, Signal, Error, Waiting]
            .into_iter()
            .find(|s| *s as u8 == value)
    }
}

/// The budget of pages and the order to stop.
#[derive(Debug)]
pub(crate) struct Budget {
    /// `u64::MAX` is no limit. In a fleet it grows by allotments.
    max_pages: AtomicU64,
    /// Documents archived plus requests under way that may become one.
    claimed: Arc<AtomicU64>,
    stop: AtomicU8,
    /// Give up what is under way too.
    now: AtomicBool,
}

/// A page that may become a document. Given back when it is dropped, unless it was spent.
#[derive(Debug)]
#[must_use]
pub(crate) struct Claim {
    /// `None` where there is no limit.
    claimed: Option<Arc<AtomicU64>>,
}

impl Claim {
    /// A document came of it.
    pub(crate) fn spend(mut self) {
        self.claimed = None;
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        if let Some(claimed) = &self.claimed {
            claimed.fetch_sub(1, Ordering::Relaxed);
        }
    }
}

impl Budget {
    /// Of this run; `max_pages = 0` is no limit.
    pub(crate) fn new(max_pages: u64) -> Self {
        Self {
            max_pages: AtomicU64::new(if max_pages == 0 { u64::MAX } else { max_pages }),
            claimed: Arc::default(),
            stop: AtomicU8::new(0),
            now: AtomicBool::new(false),
        }
    }

    /// Claim a page before it is asked for. `None`: none is left at the moment.
    pub(crate) fn claim(&self) -> Option<Claim> {
        let max_pages = self.max_pages.load(Ordering::Relaxed);
        if max_pages == u64::MAX {
            return Some(Claim { claimed: None });
        }
        let next = |n| (n < max_pages).then_some(n + 1);
        self.claimed
            .try_update(Ordering::Relaxed, Ordering::Relaxed, next)
            .ok()?;
        let claimed = Some(Arc::clone(&self.claimed));
        Some(Claim { claimed })
    }

    /// Have as many documents been archived by this run as were asked for?
    pub(crate) fn is_spent(&self, pages: u64) -> bool {
        pages >= self.max_pages.load(Ordering::Relaxed)
    }

    /// In a fleet with a limit: nothing may be fetched before something is allotted.
    pub(crate) fn wait_for_allotments(&self) {
        self.max_pages.store(0, Ordering::Relaxed);
    }

    /// This many pages more.
    pub(crate) fn allot(&self, pages: u64) {
        self.max_pages.fetch_add(pages, Ordering::Relaxed);
    }

    /// Pages that may still be claimed.
    pub(crate) fn unclaimed(&self) -> u64 {
        let claimed = self.claimed.load(Ordering::Relaxed);
        self.max_pages
            .load(Ordering::Relaxed)
            .saturating_sub(claimed)
    }

    /// Documents that may still be archived, if there is a limit.
    pub(crate) fn left(&self, pages: u64) -> Option<u64> {
        let max_pages = self.max_pages.load(Ordering::Relaxed);
        (max_pages != u64::MAX).then(|| max_pages.saturating_sub(pages))
    }

    /// The first reason stays.
    pub(crate) fn stop(&self, by: StoppedBy) {
        let _ = self
            .stop
            .compare_exchange(0, by as u8, Ordering::SeqCst, Ordering::SeqCst);
    }

    pub(crate) fn stop_now(&self, by: StoppedBy) {
        self.stop(by);
        self.now.store(true, Ordering::SeqCst);
    }

    pub(crate) fn stopped_by(&self) -> Option<StoppedBy> {
        StoppedBy::from_u8(self.stop.load(Ordering::SeqCst))
    }

    pub(crate) fn is_stopping(&self) -> bool {
        self.stop.load(Ordering::Relaxed) != 0
    }

    pub(crate) fn is_stopping_now(&self) -> bool {
        self.now.load(Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn claims_never_pass_the_limit() {
        let budget = Budget::new(2);
        let first = budget.claim().expect("one of two is left");
        let second = budget.claim().expect("one is left");
        assert!(budget.claim().is_none());
        drop(first);
        let third = budget.claim().expect("one was given back");
        second.spend();
        third.spend();
        assert!(budget.claim().is_none(), "spent claims are gone");
        assert!(Budget::new(0).claim().is_some(), "0 is no limit");
    }

    #[test]
    fn the_first_reason_to_stop_stays() {
        let budget = Budget::new(0);
        assert_eq!(budget.stopped_by(), None);
        budget.stop(StoppedBy::TimeLimit);
        budget.stop(StoppedBy::Signal);
        assert_eq!(budget.stopped_by(), Some(StoppedBy::TimeLimit));
    }
}
