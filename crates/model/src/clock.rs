//! Time comes in from outside, so that politeness can be tested without waiting.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Instant, SystemTime, UNIX_EPOCH};

/// Two times, both in milliseconds since the Unix epoch.
pub trait Clock: Send + Sync {
    /// The crawl's own time, by which everything goes that is a pause or expires. It only ever goes
    /// on, evenly, whatever is done to the machine's clock; it may be far from that.
    fn now_ms(&self) -> u64;

    /// The time of day, for dates that others read. It may step in either direction.
    fn wall_ms(&self) -> u64 {
        self.now_ms()
    }

    /// It was `then_ms` before, by the crawl's time: go on from there if that is later than now. To be
    /// called before anybody has read the time.
    fn go_on_from(&self, then_ms: u64);
}

/// The machine's clock. The crawl's time begins as its time of day and then goes by its monotonic
/// clock.
#[derive(Debug)]
pub struct SystemClock {
    begun: Instant,
    began_ms: AtomicU64,
}

impl SystemClock {
    pub fn start() -> Self {
        Self {
            begun: Instant::now(),
            began_ms: AtomicU64::new(wall_ms()),
        }
    }

    fn ran_ms(&self) -> u64 {
        self.begun.elapsed().as_millis() as u64
    }
}

impl Clock for SystemClock {
    fn now_ms(&self) -> u64 {
        self.began_ms.load(Ordering::Relaxed) + self.ran_ms()
    }

    fn wall_ms(&self) -> u64 {
        wall_ms()
    }

    fn go_on_from(&self, then_ms: u64) {
        let ran_ms = self.ran_ms();
        self.began_ms
            .fetch_max(then_ms.saturating_sub(ran_ms), Ordering::Relaxed);
    }
}

fn wall_ms() -> u64 {
    SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .map_or(0, |elapsed| elapsed.as_millis() as u64)
}

/// A clock that moves only when told to.
#[derive(Debug, Default)]
pub struct ManualClock {
    now_ms: AtomicU64,
    wall_ms: AtomicU64,
}

impl ManualClock {
    pub fn at(now_ms: u64) -> Self {
        Self {
            now_ms: AtomicU64::new(now_ms),
            wall_ms: AtomicU64::new(now_ms),
        }
    }

    /// Time passes.
    pub fn advance_ms(&self, by_ms: u64) {
        self.now_ms.fetch_add(by_ms, Ordering::Relaxed);
        self.wall_ms.fetch_add(by_ms, Ordering::Relaxed);
    }

    /// Somebody sets the time of day.
    pub fn set_wall_ms(&self, wall_ms: u64) {
        self.wall_ms.store(wall_ms, Ordering::Relaxed);
    }
}

impl Clock for ManualClock {
    fn now_ms(&self) -> u64 {
        self.now_ms.load(Ordering::Relaxed)
    }

    fn wall_ms(&self) -> u64 {
        self.wall_ms.load(Ordering::Relaxed)
    }

    fn go_on_from(&self, then_ms: u64) {
        self.now_ms.fetch_max(then_ms, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_crawls_time_begins_as_the_time_of_day_and_never_goes_back() {
        let clock = SystemClock::start();
        let (now_ms, wall_ms) = (clock.now_ms(), clock.wall_ms());
        assert!(wall_ms.abs_diff(now_ms) < 10_000, "{wall_ms} {now_ms}");
        clock.go_on_from(now_ms - 86_400_000);
        assert!(clock.now_ms() >= now_ms);
        let tomorrow_ms = now_ms + 86_400_000;
        clock.go_on_from(tomorrow_ms);
        assert!(clock.now_ms() >= tomorrow_ms);
        assert!(clock.now_ms() < tomorrow_ms + 10_000);
    }
}
