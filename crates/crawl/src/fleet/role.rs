//! What a node is for, and what a worker and the archivist need to know of that.

use std::str::FromStr;

use portolan_model::Pulse;
use portolan_registry::{Entry, Grant, Return};

/// What a node is for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Role {
    /// It holds partitions, decides and fetches; crawl-clients may fetch for it besides.
    #[default]
    Both,
    /// It holds partitions and decides, and has crawl-clients fetch.
    SeedServer,
    /// It fetches what seed-servers grant, archives it, and holds no partition.
    CrawlClient,
}

impl Role {
    /// As on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Self::Both => "both",
            Self::SeedServer => "seed-server",
            Self::CrawlClient => "crawl-client",
        }
    }

    /// Does it ask the Web?
    pub(crate) fn fetches(self) -> bool {
        self != Self::SeedServer
    }

    /// Does it hold partitions?
    pub(crate) fn decides(self) -> bool {
        self != Self::CrawlClient
    }
}

impl FromStr for Role {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        [Self::Both, Self::SeedServer, Self::CrawlClient]
            .into_iter()
            .find(|role| role.name() == name)
            .ok_or_else(|| format!("'{name}' is no role: seed-server, crawl-client or both"))
    }
}

/// The difference between the clocks of who sent something and who has it, the way of the message included: what is to
/// come comes later by that, never sooner.
#[derive(Clone, Copy, Debug)]
pub(super) struct Shift(i64);

impl Shift {
    pub(super) fn between(sent_ms: u64, now_ms: u64) -> Self {
        Self(now_ms.cast_signed().saturating_sub(sent_ms.cast_signed()))
    }

    fn moved(self, at_ms: u64) -> u64 {
        match at_ms {
            // Never, and for ever.
            0 | u64::MAX => at_ms,
            at_ms => at_ms.saturating_add_signed(self.0).max(1),
        }
    }

    fn pulse(self, pulse: &mut Pulse) {
        pulse.last_ms = self.moved(pulse.last_ms);
        pulse.not_before_ms = self.moved(pulse.not_before_ms);
        pulse.failing_since_ms = self.moved(pulse.failing_since_ms);
    }

    /// A grant as a client reads it: by its own clock. `asked_ms`: when the client asked, which is before anything was granted.
    pub(super) fn grant(self, grant: &mut Grant, sent_ms: u64, asked_ms: u64) {
        let left_ms = grant.expires_ms.saturating_sub(sent_ms);
        grant.expires_ms = asked_ms.saturating_add(left_ms);
        self.pulse(&mut grant.turn.pulse);
        for robots in &mut grant.turn.robots {
            robots.fetched_ms = self.moved(robots.fetched_ms);
            robots.expires_ms = self.moved(robots.expires_ms);
        }
    }
}

/// What a client brings, by the clock of whoever granted. `run_ms` is the server's run: what a client gave up, this run has given up.
pub(crate) fn as_of_here(back: &mut Return, sent_ms: u64, now_ms: u64, run_ms: u64) {
    let shift = Shift::between(sent_ms, now_ms);
    let put_right = |pulse: &mut Pulse| {
        shift.pulse(pulse);
        if pulse.given_up_by != 0 {
            pulse.given_up_by = run_ms;
        }
    };
    put_right(&mut back.pulse);
    for entry in &mut back.entries {
        match entry {
            Entry::Visit { pulse, .. } => put_right(pulse),
            Entry::Host { pulse, robots, .. } => {
                put_right(pulse);
                if let Some(robots) = robots {
                    robots.fetched_ms = shift.moved(robots.fetched_ms);
                    robots.expires_ms = shift.moved(robots.expires_ms);
                }
            }
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use portolan_model::{HostId, PartitionId};
    use portolan_registry::GrantId;

    #[test]
    fn pauses_are_never_shorter_by_another_clock() {
        // The client's clock is 10 s behind, and the message was under way for 300 ms.
        let (sent_ms, now_ms) = (50_000, 60_300);
        let pulse = Pulse {
            last_ms: 49_000,
            not_before_ms: 51_000,
            given_up_by: 4,
            ..Pulse::default()
        };
        let mut back = Return {
            id: GrantId {
                partition: PartitionId(0),
                epoch: 0,
                number: 1,
            },
            host: HostId(1),
            pulse,
            unused: Vec::new(),
            entries: Vec::new(),
        };
        as_of_here(&mut back, sent_ms, now_ms, 77);
        assert_eq!(
            back.pulse.not_before_ms, 61_300,
            "1,000 ms are left, and 300 more"
        );
        assert_eq!(back.pulse.given_up_by, 77);
        assert_eq!(Shift::between(5, 5).moved(0), 0, "it was never asked");
    }

    #[test]
    fn roles_have_their_names() {
        for role in [Role::Both, Role::SeedServer, Role::CrawlClient] {
            assert_eq!(role.name().parse(), Ok(role));
        }
        assert!("sailor".parse::<Role>().is_err());
    }
}
