//! Who is waited for: the hosts with due URLs that do not answer, gathered when a crawl ends.

use std::fmt;

use portolan_registry::HostState;
use serde::Serialize;

use crate::report::{counted, date, thousands};

/// Hosts that are named; the rest are only counted.
const NAMED_HOSTS: usize = 10;

/// Hosts that fail and have due URLs.
#[derive(Debug, Clone, Default, Serialize)]
pub struct Waiting {
    pub urls: u64,
    pub hosts: u64,
    /// When the first of the hosts may be asked again; 0 where there is none.
    pub come_back_ms: u64,
    /// Those with the most URLs.
    pub most: Vec<WaitingHost>,
}

/// A host that fails, and since when.
#[derive(Debug, Clone, Serialize)]
pub struct WaitingHost {
    pub host: String,
    pub urls: u64,
    /// Name and sentence of why the last request failed.
    pub reason: String,
    #[serde(skip)]
    pub sentence: &'static str,
    /// Failures in a row.
    pub failures: u16,
    pub since_ms: u64,
    pub not_before_ms: u64,
}

/// Due URLs by what they wait for.
#[derive(Debug, Clone, Default)]
pub(crate) struct Left {
    /// Their hosts fail and are asked again by this run, if it goes on, or by the next.
    pub(crate) waiting: Waiting,
    /// Their hosts failed for too long and are asked again by the next run only.
    pub(crate) given_up: Waiting,
    /// Nothing is the matter with their hosts.
    pub(crate) due: u64,
    pub(crate) hosts: u64,
}

impl Left {
    /// Count a host as of the run that opened the registry at `run_ms`.
    pub(crate) fn look_at(&mut self, state: &HostState, run_ms: u64) {
        self.hosts += 1;
        let urls = u64::try_from(state.counts.due).unwrap_or(0);
        let Some(pulse) = state.pulse.filter(|pulse| pulse.is_failing()) else {
            self.due += urls;
            return;
        };
        if urls == 0 {
            return;
        }
        let waiting = if pulse.given_up_by == run_ms {
            &mut self.given_up
        } else {
            &mut self.waiting
        };
        waiting.urls += urls;
        waiting.hosts += 1;
        if waiting.come_back_ms == 0 || pulse.not_before_ms < waiting.come_back_ms {
            waiting.come_back_ms = pulse.not_before_ms;
        }
        waiting.most.push(WaitingHost {
            host: state.name.clone(),
            urls,
            reason: pulse.trouble.map_or("", |reason| reason.name()).to_owned(),
            sentence: pulse.trouble.map_or("", |reason| reason.sentence()),
            failures: pulse.failures,
            since_ms: pulse.failing_since_ms,
            not_before_ms: pulse.not_before_ms,
        });
        if waiting.most.len() >= 8 * NAMED_HOSTS {
            waiting.keep_most();
        }
    }

    pub(crate) fn done(mut self) -> Self {
        self.waiting.keep_most();
        self.given_up.keep_most();
        self
    }
}

impl Waiting {
    fn keep_most(&mut self) {
        self.most
            .sort_by(|a, b| b.urls.cmp(&a.urls).then_with(|| a.host.cmp(&b.host)));
        self.most.truncate(NAMED_HOSTS);
    }

    /// One line for each host that is named.
    pub(crate) fn tell(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for host in &self.most {
            writeln!(
                f,
                "    {:>10}  {}: failing since {} ({}): {}",
                thousands(host.urls),
                host.host,
                date(host.since_ms),
                host.reason,
                counted(u64::from(host.failures), "try").replace("trys", "tries"),
            )?;
        }
        let unnamed = self.hosts - self.most.len() as u64;
        if unnamed > 0 {
            writeln!(f, "                and {} more", counted(unnamed, "host"))?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use portolan_model::{Pulse, Reason};
    use portolan_registry::HostCounts;

    fn host(name: &str, due: i64, failures: u16, given_up_by: u64) -> HostState {
        HostState {
            name: name.to_owned(),
            pulse: Some(Pulse {
                failures,
                not_before_ms: 1_000 + due as u64,
                trouble: Some(Reason::Connect),
                given_up_by,
                ..Pulse::default()
            }),
            counts: HostCounts {
                due,
                ..HostCounts::default()
            },
            ..HostState::default()
        }
    }

    #[test]
    fn due_urls_are_counted_by_what_they_wait_for() {
        let mut left = Left::default();
        for n in 0..200 {
            left.look_at(&host(&format!("h{n}"), n, 1, 0), 7);
        }
        left.look_at(&host("gone", 5, 9, 7), 7);
        // Given up by an earlier run: this one asks again.
        left.look_at(&host("again", 3, 9, 6), 7);
        left.look_at(&host("well", 40, 0, 0), 7);
        let left = left.done();
        assert_eq!((left.hosts, left.due), (203, 40));
        assert_eq!((left.waiting.hosts, left.waiting.urls), (200, 19_903));
        assert_eq!((left.given_up.hosts, left.given_up.urls), (1, 5));
        assert_eq!(left.waiting.come_back_ms, 1_001);
        assert_eq!(left.waiting.most.len(), NAMED_HOSTS);
        assert_eq!(left.waiting.most[0].host, "h199");
    }
}
