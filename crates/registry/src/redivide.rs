//! The same registry, divided otherwise: all that is known goes into the logs of a new registry in a directory of its own.
//! The old one is left as it is, so whoever is killed in between has lost nothing; which of the two counts is the caller's
//! to settle, by one rename.

use crate::by_id::IdMap;
use crate::error::{RegistryError, Result};
use crate::held::read_held;
use crate::lock::DirLock;
use crate::log::{Delivery, Entry, Moved, MovedUrl};
use crate::meta::Meta;
use crate::record::Record;
use crate::registry::{Opened, Registry, journal_dir};
use crate::scan::Records;
use crate::sessions::SessionStats;
use crate::settings::RegistrySettings;
use crate::snapshot::{archive_end, open_states};
use crate::state::State;
use crate::stats::Stats;
use portolan_model::url::politeness_key;
use portolan_model::{Identities, PartitionId, Visit};
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

/// Entries of one commit.
const ENTRIES_TOGETHER: usize = 1_000;
/// Seeds in one entry.
const SEEDS_TOGETHER: usize = 1_000;
/// Of a page that was checked more often, these checks at its end go along; the counts of all of them are in the last.
const MOST_VISITS: usize = 100_000;
/// How often it is looked whether a partition is ready for more.
const LOOK_AGAIN: Duration = Duration::from_millis(1);

/// A registry that is read to be divided otherwise. Nobody else may open it meanwhile.
#[derive(Debug)]
pub struct Redivision {
    lock: DirLock,
    from: PathBuf,
    meta: Meta,
    ids: Identities,
}

/// What went over.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Redivided {
    pub urls: u64,
    pub hosts: u64,
}

impl Redivision {
    /// Takes the registry in `from`, which was made with `ids` and which no process may have open.
    pub fn of(from: &Path, ids: Identities) -> Result<Self> {
        let meta = Meta::of(from, ids)?;
        if read_held(&journal_dir(from))?.is_some() {
            return Err(RegistryError::Settings {
                path: from.to_path_buf(),
                what: "it is one of a fleet, which divides the Web among its nodes".to_owned(),
            });
        }
        Ok(Self {
            lock: DirLock::take(from)?,
            from: from.to_path_buf(),
            meta,
            ids,
        })
    }

    /// How many partitions it has.
    pub fn partitions(&self) -> u16 {
        self.meta.partitions
    }

    /// Makes the new registry in `to`, which must not exist, with `settings.partitions` partitions; `owner` says which of
    /// them a URL belongs to, and is told which one had it. All URLs of a host must have one owner. When this returns,
    /// the new registry is durable and closed (or left as after a crash, if the old one was: its hosts then wait as they
    /// would have). `None` if `goes_on` said no.
    pub fn run(
        &self,
        to: &Path,
        settings: &RegistrySettings,
        owner: impl FnMut(&str, PartitionId) -> PartitionId,
        goes_on: impl Fn() -> bool,
    ) -> Result<Option<Redivided>> {
        let settings = RegistrySettings {
            crawl_id: self.meta.crawl_id,
            order: self.meta.order,
            ids: self.ids,
            shipped_frames: None,
            ..settings.clone()
        };
        let mut opened = Registry::open(to, &settings, 0)?;
        if let Some((file, end)) = archive_end(&self.from, self.meta)? {
            opened.journal.note_archive_end(file, end);
        }
        let mut mover = Mover {
            opened,
            owner,
            partitions: settings.partitions,
            batch: Vec::new(),
            moved: Redivided::default(),
        };
        mover.begin(self.sessions()?)?;
        for id in 0..self.meta.partitions {
            let states = open_states(&self.from, &[id], (self.meta, self.ids))?;
            for state in &states {
                if !mover.state(state, &goes_on)? {
                    return Ok(None);
                }
            }
        }
        let (mut opened, moved) = mover.end()?;
        for partition in &mut opened.partitions {
            partition.flush()?;
        }
        opened.journal.trim()?;
        if !self.lock.after_crash() {
            opened.journal.close(opened.partitions)?;
        }
        Ok(Some(moved))
    }

    /// The old registry goes on as it is.
    pub fn give_up(self) -> Result<()> {
        match self.lock.after_crash() {
            true => Ok(()),
            false => self.lock.release_clean(),
        }
    }

    /// The session that runs, and when each began.
    fn sessions(&self) -> Result<(u32, Stats)> {
        let all: Vec<u16> = (0..self.meta.partitions).collect();
        let (mut session, mut begun) = (1, Stats::default());
        for id in all {
            for state in open_states(&self.from, &[id], (self.meta, self.ids))? {
                session = session.max(state.session);
                for known in &state.stats.sessions {
                    let only_begun = SessionStats {
                        begun_ms: known.begun_ms,
                        ..SessionStats::new(known.number)
                    };
                    begun.session(known.number).add(&only_begun);
                }
            }
        }
        Ok((session, begun))
    }
}

/// Brings what old partitions know into the logs of the new ones.
struct Mover<F> {
    opened: Opened,
    owner: F,
    partitions: u16,
    batch: Vec<(PartitionId, Entry)>,
    moved: Redivided,
}

impl<F: FnMut(&str, PartitionId) -> PartitionId> Mover<F> {
    fn begin(&mut self, (session, stats): (u32, Stats)) -> Result<()> {
        for id in 0..self.partitions {
            let stats = stats.clone();
            self.put(PartitionId(id), Moved::Counts { session, stats })?;
        }
        self.commit()
    }

    /// False if it was stopped.
    fn state(&mut self, state: &State, goes_on: &impl Fn() -> bool) -> Result<bool> {
        let old = state.id;
        // Counters are of nobody's; they are spread as evenly as they were.
        let counts_to = PartitionId(old.0 % self.partitions);
        let counts = Moved::Counts {
            session: state.session,
            stats: state.stats.without_urls(),
        };
        self.put(counts_to, counts)?;
        for urls in state.seeds()?.chunks(SEEDS_TOGETHER) {
            let urls = urls.to_vec();
            self.put(counts_to, Moved::Seeds { urls })?;
        }
        let mut owners: IdMap<PartitionId> = IdMap::default();
        for item in Records::scattered(state) {
            let (doc, record) = item?;
            let url = moved_url(state, doc, &record)?;
            let owner = (self.owner)(&url.url, old);
            let host = state.ids.host(politeness_key(&url.url)).0;
            owners.insert(host, owner);
            self.put(owner, Moved::Url(Box::new(url)))?;
            self.moved.urls += 1;
            if !goes_on() {
                return Ok(false);
            }
        }
        let mut hosts = state.hosts.scan()?;
        while let Some((host, state)) = hosts.next()? {
            let owner = match owners.get(&host) {
                Some(&owner) => owner,
                // None of its URLs is known here.
                None => (self.owner)(&root_of(&state.name), old),
            };
            self.put(owner, Moved::Host { state })?;
            self.moved.hosts += 1;
        }
        Ok(true)
    }

    fn end(mut self) -> Result<(Opened, Redivided)> {
        self.commit()?;
        Ok((self.opened, self.moved))
    }

    fn put(&mut self, partition: PartitionId, moved: Moved) -> Result<()> {
        self.batch.push((partition, Entry::Moved(moved)));
        match self.batch.len() >= ENTRIES_TOGETHER {
            true => self.commit(),
            false => Ok(()),
        }
    }

    fn commit(&mut self) -> Result<()> {
        let batch = std::mem::take(&mut self.batch);
        let mut by_owner: Vec<Vec<Delivery>> = Vec::new();
        by_owner.resize_with(usize::from(self.partitions), Vec::new);
        for delivery in self.opened.journal.commit(batch)? {
            by_owner[usize::from(delivery.partition.0)].push(delivery);
        }
        for (partition, mine) in self.opened.partitions.iter_mut().zip(by_owner) {
            partition.apply_all(mine.iter().map(|delivery| (delivery.seq, &delivery.entry)))?;
            partition.tend(false)?;
            while !partition.is_ready() {
                thread::sleep(LOOK_AGAIN);
                partition.tend(true)?;
            }
        }
        Ok(())
    }
}

fn moved_url(state: &State, doc: u64, record: &Record) -> Result<MovedUrl> {
    let (url, finding) = state.texts.read(record.text, doc)?;
    let visits = visits_of(state, record)?;
    let targets = match visits.last() {
        Some(last) => state.links_of(last)?,
        None => Vec::new(),
    };
    Ok(MovedUrl {
        url,
        kind: finding.kind,
        depth: finding.depth,
        hops: finding.hops,
        from: state.texts.read_from(record.text)?,
        early: finding.early,
        arrival: record.arrival,
        count: record.count,
        score: record.score(),
        state: record.state,
        reason: record.reason,
        priority: record.priority,
        attempts: record.attempts,
        visits,
        targets,
    })
}

/// The last visit and the checks before it, oldest first.
fn visits_of(state: &State, record: &Record) -> Result<Vec<Visit>> {
    let mut visits: Vec<Visit> = Vec::new();
    let mut next = record.visit();
    while let Some(at) = next.checked_sub(1) {
        if visits.len() >= MOST_VISITS {
            break;
        }
        let visit = state.visit_at(at)?;
        next = visit.history.before;
        if next > at {
            let what = "a visit names a later one as the one before it";
            return Err(RegistryError::corrupt(state.visits.path(), at, what));
        }
        visits.push(visit);
    }
    // Links are kept of the last check alone.
    let links_at = visits.first().map_or(0, |last| last.history.links_at);
    for visit in &mut visits {
        if visit.history.links_at != links_at {
            visit.history.links_at = 0;
        }
    }
    visits.reverse();
    Ok(visits)
}

/// A URL of the server that hosts are known by; see `politeness_key`.
fn root_of(name: &str) -> String {
    match name.contains("://") {
        true => format!("{name}/"),
        false => format!("http://{name}/"),
    }
}
