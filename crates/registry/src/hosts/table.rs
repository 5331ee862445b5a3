//! What is remembered of hosts. What is new of a host is kept apart from what is on disk and added
//! to it when read, so that folding an entry never reads.

use crate::by_id::IdMap;
use crate::error::{RegistryError, Result};
use crate::files::{Combining, Key, Kind, Merged, Runs, Shape};
use crate::log::{put_pulse, put_robots, read_pulse, read_robots};
use crate::settings::Limits;
use crate::wire::{Reader, put_bytes, put_signed};
use portolan_model::{Pulse, RobotsRecord};
use std::path::Path;
use std::sync::Arc;

pub(crate) const STATES: Shape = Shape {
    wide: false,
    value_bytes: None,
};

/// RAM of a host's news beside its strings.
const NEWS_BYTES: usize = 224;

/// A host, or what is new of one: `absorb` adds the newer to the older.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct HostState {
    pub name: String,
    pub pulse: Option<Pulse>,
    /// One for each origin.
    pub robots: Vec<RobotsRecord>,
    pub counts: HostCounts,
}

/// Sums; as news of a host they may be negative.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct HostCounts {
    /// URLs in its queue.
    pub due: i64,
    pub requests: i64,
    /// Documents archived.
    pub pages: i64,
    pub failures: i64,
    pub body_bytes: i64,
}

impl HostState {
    pub(crate) fn absorb(&mut self, newer: HostState) {
        if self.name.is_empty() {
            self.name = newer.name;
        }
        self.pulse = newer.pulse.or(self.pulse);
        for robots in newer.robots {
            self.set_robots(robots);
        }
        self.counts.due += newer.counts.due;
        self.counts.requests += newer.counts.requests;
        self.counts.pages += newer.counts.pages;
        self.counts.failures += newer.counts.failures;
        self.counts.body_bytes += newer.counts.body_bytes;
    }

    pub(crate) fn set_robots(&mut self, robots: RobotsRecord) {
        match self.robots.iter_mut().find(|r| r.origin == robots.origin) {
            Some(known) => *known = robots,
            None => self.robots.push(robots),
        }
    }

    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        put_bytes(out, self.name.as_bytes());
        out.push(u8::from(self.pulse.is_some()));
        if let Some(pulse) = &self.pulse {
            put_pulse(out, pulse);
        }
        put_signed(out, self.robots.len() as i64);
        for robots in &self.robots {
            put_robots(out, robots);
        }
        let counts = &self.counts;
        for count in [
            counts.due,
            counts.requests,
            counts.pages,
            counts.failures,
            counts.body_bytes,
        ] {
            put_signed(out, count);
        }
    }

    pub(crate) fn decode(bytes: &[u8]) -> Option<Self> {
        let reader = &mut Reader::new(bytes);
        let state = Self {
            name: reader.string()?,
            pulse: match reader.byte()? {
                0 => None,
                _ => Some(read_pulse(reader)?),
            },
            robots: {
                let count = reader.signed()?;
                (0..count)
                    .map(|_| read_robots(reader))
                    .collect::<Option<_>>()?
            },
            counts: HostCounts {
                due: reader.signed()?,
                requests: reader.signed()?,
                pages: reader.signed()?,
                failures: reader.signed()?,
                body_bytes: reader.signed()?,
            },
        };
        reader.is_empty().then_some(state)
    }

    fn text_bytes(&self) -> usize {
        let robots = self.robots.iter();
        self.name.len()
            + robots
                .map(|r| size_of::<RobotsRecord>() + r.origin.len() + r.rules.len())
                .sum::<usize>()
    }
}

fn combine(older: &[u8], newer: &[u8], out: &mut Vec<u8>) -> Option<()> {
    let mut state = HostState::decode(older)?;
    state.absorb(HostState::decode(newer)?);
    state.encode(out);
    Some(())
}

pub(crate) type News = IdMap<HostState>;

#[derive(Debug)]
pub(crate) struct HostTable {
    news: News,
    news_text_bytes: usize,
    frozen: Option<Arc<News>>,
    longest_pause_ms: u64,
    pub(crate) runs: Runs,
}

impl HostTable {
    pub(crate) fn open(dir: &Path, run_ids: &[u64], limits: &Limits) -> Result<Self> {
        let kind = Kind {
            name: "hosts",
            shape: STATES,
            combining: Combining::Sum(combine),
            filter_bytes: limits.host_filter_bytes,
            entries_per_filter_key: 1,
            fan_in: 3,
        };
        Ok(Self {
            news: News::default(),
            news_text_bytes: 0,
            frozen: None,
            longest_pause_ms: limits.longest_pause_ms,
            runs: Runs::open(dir, kind, run_ids)?,
        })
    }

    /// Where news of a host are added up.
    pub(crate) fn news_of(&mut self, host: u64, name: &str) -> &mut HostState {
        self.news.entry(host).or_insert_with(|| {
            self.news_text_bytes += name.len();
            HostState {
                name: name.to_owned(),
                ..HostState::default()
            }
        })
    }

    pub(crate) fn set_robots(&mut self, host: u64, name: &str, robots: RobotsRecord) {
        let news = self.news_of(host, name);
        let before = news.text_bytes();
        news.set_robots(robots);
        let after = news.text_bytes();
        self.news_text_bytes = (self.news_text_bytes + after).saturating_sub(before);
    }

    /// The host's last folded pulse, if that is in RAM.
    pub(crate) fn recent_pulse(&self, host: u64) -> Option<Pulse> {
        let news = self.news.get(&host).and_then(|news| news.pulse);
        let pulse = news.or_else(|| self.frozen.as_ref()?.get(&host)?.pulse);
        self.capped(pulse)
    }

    /// A pulse as read: no pause is longer than any may be.
    pub(crate) fn capped(&self, pulse: Option<Pulse>) -> Option<Pulse> {
        pulse.map(|pulse| pulse.with_pause_at_most(self.longest_pause_ms))
    }

    /// All that is known of a host.
    pub(crate) fn load(&self, host: u64) -> Result<Option<HostState>> {
        let mut states = Vec::new();
        let recent = [Some(&self.news), self.frozen.as_deref()];
        let recent = recent.into_iter().flatten();
        states.extend(recent.filter_map(|news| news.get(&host)).cloned());
        for found in self.runs.find(host) {
            let found = found?;
            states.push(HostState::decode(found.value()).ok_or_else(|| {
                RegistryError::corrupt(found.table().path(), 0, "a host's record cannot be read")
            })?);
        }
        let mut oldest_first = states.into_iter().rev();
        let Some(mut known) = oldest_first.next() else {
            return Ok(None);
        };
        oldest_first.for_each(|newer| known.absorb(newer));
        known.pulse = self.capped(known.pulse);
        Ok(Some(known))
    }

    pub(crate) fn news_bytes(&self) -> usize {
        self.news.len() * NEWS_BYTES + self.news_text_bytes
    }

    pub(crate) fn ram_bytes(&self) -> usize {
        let frozen = self.frozen.iter().flat_map(|news| news.values());
        self.news_bytes()
            + frozen
                .map(|state| NEWS_BYTES + state.text_bytes())
                .sum::<usize>()
            + self.runs.ram_bytes()
    }

    pub(crate) fn freeze(&mut self) -> Arc<News> {
        self.news_text_bytes = 0;
        let frozen = Arc::new(std::mem::take(&mut self.news));
        self.frozen = Some(frozen.clone());
        frozen
    }

    /// The frozen news are in a table now. Freeing them takes its time.
    pub(crate) fn thaw(&mut self) -> Option<Arc<News>> {
        self.frozen.take()
    }

    /// All hosts in order of their ids: one sequential read.
    pub(crate) fn scan(&self) -> Result<HostScan> {
        let mut all = News::default();
        for news in self.frozen.as_deref().into_iter().chain([&self.news]) {
            for (&host, state) in news {
                all.entry(host).or_default().absorb(state.clone());
            }
        }
        Ok(HostScan {
            merged: self
                .runs
                .scan(Some(Box::new(hosts_source(Arc::new(all)))))?,
        })
    }
}

pub(crate) struct HostScan {
    merged: Merged,
}

impl HostScan {
    pub(crate) fn next(&mut self) -> Result<Option<(u64, HostState)>> {
        let Some(((host, _), value)) = self.merged.next()? else {
            return Ok(None);
        };
        let state = HostState::decode(value).ok_or_else(|| {
            RegistryError::corrupt(Path::new("hosts"), 0, "a host's record cannot be read")
        })?;
        Ok(Some((host, state)))
    }
}

/// News as a sorted source, for writing them to a table.
pub(crate) fn hosts_source(news: Arc<News>) -> impl FnMut(&mut Vec<u8>) -> Option<Key> {
    let mut hosts: Vec<u64> = news.keys().copied().collect();
    hosts.sort_unstable();
    let mut hosts = hosts.into_iter();
    move |value| {
        let host = hosts.next()?;
        news.get(&host)?.encode(value);
        Some((host, 0))
    }
}
