//! How long a host is left alone after a request: the longest of what anyone asks for.

use portolan_model::Pulse;

use crate::settings::PolitenessSettings;

/// How a request went, as far as the next one is concerned.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Mood {
    /// An answer that is no complaint.
    Content,
    /// 429, 503, or nothing at all: back off. Retry-After, if the server named it.
    Strained { retry_after_ms: Option<u64> },
}

#[derive(Debug, Clone)]
pub(crate) struct Politeness {
    settings: PolitenessSettings,
}

impl Politeness {
    pub(crate) fn new(settings: PolitenessSettings) -> Self {
        Self { settings }
    }

    /// `delay_ms = 0` is for one's own servers: it also turns off the delay by response time and
    /// the one by address, but nothing that a server asked for.
    pub(crate) fn is_hurried(&self) -> bool {
        self.settings.delay_ms == 0
    }

    pub(crate) fn ip_delay_ms(&self) -> u64 {
        if self.is_hurried() {
            0
        } else {
            self.settings.ip_delay_ms
        }
    }

    pub(crate) fn keep_alive_ms(&self) -> u64 {
        self.settings.keep_alive_ms
    }

    pub(crate) fn is_host_down(&self, pulse: &Pulse) -> bool {
        pulse.failures >= self.settings.host_failures_max
    }

    /// The host's pulse after a request that took `took_ms` and ended at `now_ms`.
    pub(crate) fn after(
        &self,
        before: &Pulse,
        now_ms: u64,
        took_ms: u64,
        crawl_delay_ms: Option<u64>,
        mood: Mood,
    ) -> Pulse {
        let mut delay_ms = self.settings.delay_ms.max(crawl_delay_ms.unwrap_or(0));
        if !self.is_hurried() {
            let by_response = (took_ms as f64 * self.settings.response_time_factor) as u64;
            delay_ms = delay_ms.max(by_response.min(self.settings.response_time_delay_max_ms));
        }
        let (wait_ms, failures) = match mood {
            Mood::Content => (delay_ms, 0),
            Mood::Strained { retry_after_ms } => {
                let failures = before.failures.saturating_add(1);
                let wait_ms = delay_ms.max(self.backoff_ms(failures)).max(
                    retry_after_ms
                        .unwrap_or(0)
                        .min(self.settings.retry_after_max_ms),
                );
                (wait_ms, failures)
            }
        };
        Pulse {
            last_ms: now_ms,
            not_before_ms: if wait_ms == 0 {
                now_ms
            } else {
                now_ms + wait_ms + 1
            },
            delay_ms: u32::try_from(delay_ms).unwrap_or(u32::MAX),
            failures,
        }
    }

    fn backoff_ms(&self, failures: u16) -> u64 {
        let doublings = u32::from(failures.saturating_sub(1)).min(32);
        self.settings
            .backoff_ms
            .saturating_mul(1u64 << doublings)
            .min(self.settings.backoff_max_ms)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings::Settings;

    fn politeness(delay_ms: u64) -> Politeness {
        let mut settings = Settings::default().politeness;
        settings.delay_ms = delay_ms;
        settings.response_time_factor = 10.0;
        settings.response_time_delay_max_ms = 30_000;
        settings.backoff_ms = 1_000;
        settings.backoff_max_ms = 60_000;
        Politeness::new(settings)
    }

    fn wait(pulse: Pulse) -> u64 {
        pulse.not_before_ms - 1_000_000
    }

    #[test]
    fn the_longest_delay_wins() {
        let polite = politeness(1_000);
        let before = Pulse::default();
        let after = |took, crawl_delay, mood| {
            wait(polite.after(&before, 1_000_000, took, crawl_delay, mood))
        };
        assert!(after(1, None, Mood::Content) >= 1_000);
        assert!(after(1, Some(5_000), Mood::Content) >= 5_000);
        assert!(after(300, None, Mood::Content) >= 3_000);
        assert!(after(60_000, None, Mood::Content) >= 30_000);
        let strained = Mood::Strained {
            retry_after_ms: Some(20_000),
        };
        assert!(after(1, Some(5_000), strained) >= 20_000);
    }

    #[test]
    fn no_delay_still_obeys_the_server() {
        let hurried = politeness(0);
        let before = Pulse::default();
        let after =
            |crawl_delay, mood| wait(hurried.after(&before, 1_000_000, 500, crawl_delay, mood));
        assert_eq!(after(None, Mood::Content), 0);
        assert!(after(Some(2_000), Mood::Content) >= 2_000);
        assert!(
            after(
                None,
                Mood::Strained {
                    retry_after_ms: Some(7_000)
                }
            ) >= 7_000
        );
        assert!(
            after(
                None,
                Mood::Strained {
                    retry_after_ms: None
                }
            ) >= 1_000
        );
        assert_eq!(hurried.ip_delay_ms(), 0);
    }

    #[test]
    fn back_off_doubles_and_is_bounded_and_forgiven() {
        let polite = politeness(1_000);
        let mut pulse = Pulse::default();
        let mut waits = Vec::new();
        for _ in 0..20 {
            pulse = polite.after(
                &pulse,
                1_000_000,
                1,
                None,
                Mood::Strained {
                    retry_after_ms: None,
                },
            );
            waits.push(wait(pulse));
        }
        assert!(waits.windows(2).all(|w| w[1] >= w[0]));
        assert!(waits[3] >= 8_000 && waits[19] <= 60_001);
        assert_eq!(
            polite
                .after(&pulse, 1_000_000, 1, None, Mood::Content)
                .failures,
            0
        );
    }
}
