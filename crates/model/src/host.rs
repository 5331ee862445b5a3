//! What is remembered of a host between its turns.

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
    /// Failures in a row, for the back-off.
    pub failures: u16,
}

/// What reading an origin's robots.txt came to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum RobotsStatus {
    /// Read and parsed: the rules hold.
    Rules = 0,
    /// Not there (4xx): everything is allowed.
    Absent = 1,
    /// Unreachable (5xx, network): nothing is allowed until it can be read.
    Unreachable = 2,
}

impl RobotsStatus {
    pub fn from_u8(value: u8) -> Option<Self> {
        [
            RobotsStatus::Rules,
            RobotsStatus::Absent,
            RobotsStatus::Unreachable,
        ]
        .into_iter()
        .find(|s| *s as u8 == value)
    }
}

/// robots.txt of one origin, as far as it concerns us.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RobotsRecord {
    /// Scheme, host and port, as in `https://example.org:8443`.
    pub origin: String,
    pub status: RobotsStatus,
    pub fetched_ms: u64,
    pub expires_ms: u64,
    /// The rules of the groups that apply to us, in robots.txt's own syntax.
    pub rules: String,
}
