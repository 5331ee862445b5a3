//! What is remembered of a host between its turns.

use crate::Reason;

/// A host's politeness after a request: small, logged with every visit, so that it holds across
/// restarts.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Pulse {
    /// When the last request to the host ended.
    pub last_ms: u64,
    /// No request before this time.
    pub not_before_ms: u64,
    /// The delay in force after an ordinary answer; after a crash a host waits at least this long.
    pub delay_ms: u32,
    /// Failures in a row, for the back-off. Everything below is empty while there are none.
    pub failures: u16,
    /// Why the last request failed.
    pub trouble: Option<Reason>,
    /// When the first of these failures ended.
    pub failing_since_ms: u64,
    /// The server itself named the pause (Retry-After): only time ends it. A back-off of our own may
    /// be cut short by a person who asks again.
    pub demanded: bool,
    /// The run of the crawl that gave the host up, told by the time at which it opened the registry.
    /// 0: none did. A later run asks again.
    pub given_up_by: u64,
}

impl Pulse {
    /// These failures, with the times and the delay of a later request that was none.
    pub fn with_pause_of(&self, later: &Pulse) -> Pulse {
        Pulse {
            last_ms: later.last_ms,
            not_before_ms: later.not_before_ms,
            delay_ms: later.delay_ms,
            ..*self
        }
    }

    /// Did the last request to the host fail?
    pub fn is_failing(&self) -> bool {
        self.failures > 0
    }

    /// The same, with no pause longer than `longest_ms` or the delay in force: what is written may
    /// come from other settings, or from a damaged file.
    #[must_use]
    pub fn with_pause_at_most(mut self, longest_ms: u64) -> Self {
        let longest_ms = longest_ms.max(u64::from(self.delay_ms)).saturating_add(1);
        self.not_before_ms = self
            .not_before_ms
            .min(self.last_ms.saturating_add(longest_ms));
        self
    }
}

/// What reading an origin's robots.txt came to. One that cannot be read is no such outcome: its host
/// fails.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum RobotsStatus {
    /// Read and parsed: the rules hold.
    Rules = 0,
    /// Not there (4xx): everything is allowed.
    Absent = 1,
}

impl RobotsStatus {
    pub fn from_u8(value: u8) -> Option<Self> {
        [RobotsStatus::Rules, RobotsStatus::Absent]
            .into_iter()
            .find(|s| *s as u8 == value)
    }
}

/// What is known of the tables of one kind that a site keeps beside its documents. The numbers are written to disk.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[repr(u8)]
pub enum Standing {
    /// It never had to show one, other than by what robots.txt says.
    #[default]
    Unknown = 0,
    /// It has them.
    Served = 1,
    /// It was asked for them, and has none.
    Missing = 2,
    /// One of them was found not to be true. The site is not believed any longer.
    Lied = 3,
}

impl Standing {
    pub fn from_u8(value: u8) -> Option<Self> {
        [Self::Unknown, Self::Served, Self::Missing, Self::Lied]
            .into_iter()
            .find(|s| *s as u8 == value)
    }
}

/// What is known of a site's tables.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct SiteTables {
    /// Of links.
    pub tol: Standing,
    /// Of volatile parts.
    pub tvi: Standing,
}

/// robots.txt of one origin, as far as it concerns us, and what else is known of the origin as a whole.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RobotsRecord {
    /// Scheme, host and port, as in `https://example.org:8443`.
    pub origin: String,
    pub status: RobotsStatus,
    pub fetched_ms: u64,
    pub expires_ms: u64,
    /// The rules of the groups that apply to us, in robots.txt's own syntax.
    pub rules: String,
    pub tables: SiteTables,
}
