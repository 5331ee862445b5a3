//! How long a host is left alone after a request: the longest of what anyone asks for.

use portolan_model::{Pulse, Reason};

use crate::settings::{OutageSettings, PolitenessSettings};

/// How a request went, as far as the next one is concerned.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Mood {
    /// An answer that is no complaint.
    Content,
    /// 429, 5xx, or nothing at all: back off. Retry-After, if the server named it.
    Strained {
        trouble: Reason,
        retry_after_ms: Option<u64>,
    },
}

/// How long a host is to be left alone, by those who may ask for it before anything is sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Delays {
    /// By the settings. 0 is for one's own servers: it also turns off the delay by response time.
    pub(crate) own_ms: u64,
    /// By the host's robots.txt.
    pub(crate) crawl_ms: Option<u64>,
}

impl PolitenessSettings {
    /// No pause is longer, but for a Crawl-delay.
    pub(crate) fn longest_pause_ms(&self) -> u64 {
        self.delay_ms
            .max(self.response_time_delay_max_ms)
            .max(self.backoff_max_ms)
            .max(self.retry_after_max_ms)
    }

    /// How long a host is left alone after a crash if nothing is recorded of it.
    pub(crate) fn unknown_delay_ms(&self) -> u32 {
        u32::try_from(self.delay_ms.max(1_000)).unwrap_or(u32::MAX)
    }
}

#[derive(Debug, Clone)]
pub(crate) struct Politeness {
    settings: PolitenessSettings,
    outages: OutageSettings,
    /// When this run opened the registry. Failures of earlier runs are not held against a host.
    run_ms: u64,
}

impl Politeness {
    pub(crate) fn new(settings: PolitenessSettings, outages: OutageSettings, run_ms: u64) -> Self {
        Self {
            settings,
            outages,
            run_ms,
        }
    }

    /// `delay_ms = 0` is for one's own servers: it also turns off the delay by address, but nothing that a
    /// server asked for.
    fn is_hurried(&self) -> bool {
        self.settings.delay_ms == 0
    }

    pub(crate) fn ip_delay_ms(&self) -> u64 {
        if self.is_hurried() {
            0
        } else {
            self.settings.ip_delay_ms
        }
    }

    pub(crate) fn unknown_delay_ms(&self) -> u32 {
        self.settings.unknown_delay_ms()
    }

    pub(crate) fn keep_alive_ms(&self) -> u64 {
        self.settings.keep_alive_ms
    }

    /// The host's pulse after a request that took `took_ms` and ended at `now_ms`.
    pub(crate) fn after(
        &self,
        before: &Pulse,
        now_ms: u64,
        took_ms: u64,
        delays: Delays,
        mood: Mood,
    ) -> Pulse {
        let mut delay_ms = delays.own_ms.max(delays.crawl_ms.unwrap_or(0));
        if delays.own_ms > 0 {
            let by_response = (took_ms as f64 * self.settings.response_time_factor) as u64;
            delay_ms = delay_ms.max(by_response.min(self.settings.response_time_delay_max_ms));
        }
        let rested = |wait_ms: u64| Pulse {
            last_ms: now_ms,
            not_before_ms: if wait_ms == 0 {
                now_ms
            } else {
                now_ms + wait_ms + 1
            },
            delay_ms: u32::try_from(delay_ms).unwrap_or(u32::MAX),
            ..Pulse::default()
        };
        let Mood::Strained {
            trouble,
            retry_after_ms,
        } = mood
        else {
            return rested(delay_ms);
        };
        let goes_on = before.is_failing() && before.last_ms >= self.run_ms;
        let failures = if goes_on {
            before.failures.saturating_add(1)
        } else {
            1
        };
        let failing_since_ms = if goes_on {
            before.failing_since_ms
        } else {
            now_ms
        };
        let ours_ms = delay_ms.max(self.backoff_ms(failures));
        let theirs_ms = self.obeyed_ms(retry_after_ms.unwrap_or(0));
        let is_given_up = now_ms.saturating_sub(failing_since_ms) >= self.patience_ms(trouble);
        Pulse {
            failures,
            trouble: Some(trouble),
            failing_since_ms,
            demanded: theirs_ms >= ours_ms,
            given_up_by: if is_given_up { self.run_ms } else { 0 },
            ..rested(ours_ms.max(theirs_ms))
        }
    }

    /// How long a host may fail for this reason before the run gives it up.
    fn patience_ms(&self, trouble: Reason) -> u64 {
        match trouble {
            Reason::UnknownHost => self.outages.unknown_host_give_up_ms,
            _ => self.outages.give_up_ms,
        }
    }

    /// What a server asks for, as far as it is obeyed.
    pub(crate) fn obeyed_ms(&self, retry_after_ms: u64) -> u64 {
        retry_after_ms.min(self.settings.retry_after_max_ms)
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
        Politeness::new(settings, Settings::default().outages, RUN_MS)
    }

    const SECOND: Delays = delays(1_000, None);
    const NO_DELAY: Delays = delays(0, None);

    const fn delays(own_ms: u64, crawl_ms: Option<u64>) -> Delays {
        Delays { own_ms, crawl_ms }
    }

    /// When the run began.
    const RUN_MS: u64 = 900_000;

    fn strained(retry_after_ms: Option<u64>) -> Mood {
        Mood::Strained {
            trouble: Reason::Timeout,
            retry_after_ms,
        }
    }

    fn wait(pulse: Pulse) -> u64 {
        pulse.not_before_ms - 1_000_000
    }

    #[test]
    fn the_longest_delay_wins() {
        let polite = politeness(1_000);
        let before = Pulse::default();
        let after = |took, crawl_delay, mood| {
            let delays = delays(1_000, crawl_delay);
            wait(polite.after(&before, 1_000_000, took, delays, mood))
        };
        assert!(after(1, None, Mood::Content) >= 1_000);
        assert!(after(1, Some(5_000), Mood::Content) >= 5_000);
        assert!(after(300, None, Mood::Content) >= 3_000);
        assert!(after(60_000, None, Mood::Content) >= 30_000);
        assert!(after(1, Some(5_000), strained(Some(20_000))) >= 20_000);
    }

    #[test]
    fn no_delay_still_obeys_the_server() {
        let hurried = politeness(0);
        let before = Pulse::default();
        let after = |crawl_delay, mood| {
            let delays = delays(0, crawl_delay);
            wait(hurried.after(&before, 1_000_000, 500, delays, mood))
        };
        assert_eq!(after(None, Mood::Content), 0);
        assert!(after(Some(2_000), Mood::Content) >= 2_000);
        assert!(after(None, strained(Some(7_000))) >= 7_000);
        assert!(after(None, strained(None)) >= 1_000);
        assert_eq!(hurried.ip_delay_ms(), 0);
    }

    #[test]
    fn back_off_doubles_and_is_bounded_and_forgiven() {
        let polite = politeness(1_000);
        let mut pulse = Pulse::default();
        let mut waits = Vec::new();
        for _ in 0..20 {
            pulse = polite.after(&pulse, 1_000_000, 1, SECOND, strained(None));
            waits.push(wait(pulse));
        }
        assert!(waits.windows(2).all(|w| w[1] >= w[0]));
        assert!(waits[3] >= 8_000 && waits[19] <= 60_001);
        assert_eq!(
            polite
                .after(&pulse, 1_000_000, 1, SECOND, Mood::Content)
                .failures,
            0
        );
    }

    #[test]
    fn a_host_is_given_up_after_a_time_and_not_after_a_number_of_failures() {
        let polite = politeness(0);
        let day_ms = Settings::default().outages.give_up_ms;
        let fail =
            |before: &Pulse, now_ms| polite.after(before, now_ms, 1, NO_DELAY, strained(None));
        let mut pulse = fail(&Pulse::default(), 1_000_000);
        assert_eq!(pulse.failing_since_ms, 1_000_000);
        for n in 1..1_000 {
            pulse = fail(&pulse, 1_000_000 + n);
        }
        assert_eq!((pulse.failures, pulse.given_up_by), (1_000, 0));
        pulse = fail(&pulse, 1_000_000 + day_ms);
        assert_eq!(pulse.given_up_by, RUN_MS);
        assert!(
            !polite
                .after(&pulse, 1_000_001, 1, NO_DELAY, Mood::Content)
                .is_failing()
        );
    }

    #[test]
    fn a_name_that_does_not_exist_is_believed_sooner() {
        let polite = politeness(0);
        let mood = Mood::Strained {
            trouble: Reason::UnknownHost,
            retry_after_ms: None,
        };
        let first = polite.after(&Pulse::default(), 1_000_000, 1, SECOND, mood);
        assert_eq!(first.given_up_by, 0);
        let later = polite.after(&first, 1_010_000, 1, SECOND, mood);
        assert_eq!(later.given_up_by, RUN_MS);
    }

    #[test]
    fn failures_of_an_earlier_run_are_not_held_against_a_host() {
        let polite = politeness(0);
        let before = Pulse {
            last_ms: RUN_MS - 1,
            failures: 20,
            failing_since_ms: 1,
            ..Pulse::default()
        };
        let after = polite.after(&before, 1_000_000, 1, NO_DELAY, strained(None));
        assert_eq!((after.failures, after.given_up_by), (1, 0));
        assert_eq!(after.failing_since_ms, 1_000_000);
    }

    #[test]
    fn what_the_server_asked_for_is_told_from_our_own_back_off() {
        let polite = politeness(1_000);
        let after = |mood| polite.after(&Pulse::default(), 1_000_000, 1, SECOND, mood);
        assert!(after(strained(Some(60_000))).demanded);
        assert!(!after(strained(None)).demanded);
    }
}
