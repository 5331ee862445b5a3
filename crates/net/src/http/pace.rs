//! Whether a body comes fast enough to be worth waiting for. The longest silence has a limit of its own; this is for servers
//! that send a byte now and then and never fall silent.

use super::HttpSettings;
use std::time::Duration;
use tokio::time::Instant;

/// The pace of one body: judged over each stretch of `read_timeout_ms`, so that a pause which is allowed there is allowed here.
pub(crate) struct Pace {
    stretch: Duration,
    /// Bytes that must come within a stretch; 0: any pace will do.
    least_bytes: u64,
    begun: Instant,
    bytes: u64,
    too_slow: bool,
}

impl Pace {
    pub(crate) fn new(settings: &HttpSettings, now: Instant) -> Self {
        let least_bytes = settings
            .min_bytes_per_s
            .saturating_mul(settings.read_timeout_ms)
            / 1_000;
        Self {
            stretch: Duration::from_millis(settings.read_timeout_ms),
            least_bytes,
            begun: now,
            bytes: 0,
            too_slow: false,
        }
    }

    /// So many bytes came.
    pub(crate) fn came(&mut self, bytes: usize, at: Instant) {
        self.bytes += bytes as u64;
        if at.duration_since(self.begun) >= self.stretch {
            self.too_slow = self.bytes < self.least_bytes;
            self.begun = at;
            self.bytes = 0;
        }
    }

    /// The stretch begins anew: it was us who did not read.
    pub(crate) fn restart(&mut self, now: Instant) {
        self.begun = now;
        self.bytes = 0;
    }

    /// Was the last whole stretch too slow? To be asked before more is waited for, so that a body whose last bytes came slowly
    /// is whole all the same.
    pub(crate) fn is_too_slow(&self) -> bool {
        self.too_slow
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pace(min_bytes_per_s: u64) -> (Pace, Instant) {
        let settings = HttpSettings {
            min_bytes_per_s,
            read_timeout_ms: 10_000,
            ..HttpSettings::default()
        };
        let now = Instant::now();
        (Pace::new(&settings, now), now)
    }

    #[test]
    fn a_byte_a_second_is_too_slow_after_one_stretch() {
        let (mut pace, begun) = pace(64);
        for second in 1..10 {
            pace.came(1, begun + Duration::from_secs(second));
            assert!(!pace.is_too_slow(), "{second}");
        }
        pace.came(1, begun + Duration::from_secs(10));
        assert!(pace.is_too_slow());
    }

    #[test]
    fn a_pause_is_made_up_for_by_what_comes_after_it() {
        let (mut pace, begun) = pace(64);
        pace.came(100, begun + Duration::from_secs(1));
        pace.came(600, begun + Duration::from_millis(10_500));
        assert!(!pace.is_too_slow());
        // A new stretch: what came before it does not count.
        pace.came(10, begun + Duration::from_secs(21));
        assert!(pace.is_too_slow());
    }

    #[test]
    fn our_own_waiting_does_not_count_and_zero_is_off() {
        let (mut pace, begun) = pace(64);
        pace.restart(begun + Duration::from_secs(60));
        pace.came(1, begun + Duration::from_secs(61));
        assert!(!pace.is_too_slow());
        let (mut off, begun) = super::tests::pace(0);
        off.came(0, begun + Duration::from_secs(600));
        assert!(!off.is_too_slow());
    }
}
