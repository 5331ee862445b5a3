//! One partition: a deterministic fold of its log (`fold`, `judged`, `sessions`), turns for whoever crawls it (`turns`),
//! lookups of what is not in RAM (`joins`), and the work of getting all to disk (`upkeep`, `compaction`).

mod compaction;
mod fold;
mod joins;
mod judged;
mod sessions;
mod turns;
mod upkeep;

pub use sessions::LastCheck;
pub use turns::{Due, Rest, Turn};

use crate::by_id::IdMap;
use crate::error::{RegistryError, Result};
use crate::files::{AppendFile, read_piece};
use crate::frontier::Frontier;
use crate::hosts::{HostQueue, HostState, HostTable};
use crate::log::{Durable, Entry, Exchanged, Heard, MAX_PAYLOAD_BYTES, Streams};
use crate::manifest::Manifest;
use crate::merger::Mergers;
use crate::recent::MAX_NUMBER;
use crate::settings::Limits;
use crate::sieve::Sieve;
use crate::stats::Stats;
use crate::texts::Texts;
use portolan_model::{Identities, Order, PartitionId};
use std::path::PathBuf;
use std::sync::Arc;
use turns::{InFlight, Live};
use upkeep::Upkeep;

/// No entry brings more observations or more text than this.
const MAX_ENTRY: u64 = 2 * MAX_PAYLOAD_BYTES as u64;

/// Links whose records are fetched from RAM together.
const LINKS_TOGETHER: usize = 24;

#[derive(Debug)]
pub struct Partition {
    id: PartitionId,
    dir: PathBuf,
    limits: Limits,
    pub(crate) order: Order,
    pub(crate) ids: Identities,
    read_only: bool,
    /// The last entry folded.
    applied: u64,
    /// Observations and retries so far.
    arrivals: u64,
    /// How far it has heard the others.
    heard: Heard,
    /// What it has sent to the others, where it is one of a fleet.
    exchanged: Exchanged,
    in_fleet: bool,
    /// The session that has begun; the first is 1.
    session: u32,
    /// Visits of the session are recorded from here on.
    session_from: u64,
    pub(crate) stats: Stats,
    pub(crate) sieve: Sieve,
    pub(crate) texts: Texts,
    pub(crate) visits: AppendFile,
    pub(crate) graph: AppendFile,
    seeds: AppendFile,
    pub(crate) frontier: Frontier,
    pub(crate) hosts: HostTable,
    queue: HostQueue,
    /// Documents handed out whose visit is not folded yet.
    in_flight: IdMap<InFlight>,
    /// Hosts in turn, or with documents in flight.
    live: IdMap<Live>,
    live_sweep_at: usize,
    /// When the registry was opened; tells this run from others.
    opened_ms: u64,
    crash: Option<AfterCrash>,
    /// The back-off of hosts that failed in an earlier run still holds.
    keep_back_off: bool,
    /// When the last request that is recorded ended.
    latest_ms: u64,
    upkeep: Upkeep,
    /// The host of the last link: links of a page are mostly of one host.
    last_host: (String, u64),
    /// Of the links that are being folded; kept for its room.
    docs: Vec<u64>,
}

/// Requests may have been made that nobody recorded: every host waits once more.
#[derive(Clone, Copy, Debug)]
pub(crate) struct AfterCrash {
    pub(crate) unknown_delay_ms: u32,
}

/// What a partition still has to do.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Backlog {
    /// Operations that wait to be looked up.
    pub pending: usize,
    pub in_flight: usize,
    /// Hosts that wait for a turn (a host may be counted twice).
    pub hosts_queued: usize,
    /// Those of them that rest because they failed.
    pub hosts_failing: usize,
    /// Log folded since the last checkpoint began.
    pub log_bytes: u64,
    pub merging: bool,
    /// How often whoever applied entries had to wait for the disk since the registry was opened; see `is_ready`.
    pub blocked: u64,
}

/// What `Partition::open` is told.
pub(crate) struct Opening {
    pub(crate) id: PartitionId,
    pub(crate) dir: PathBuf,
    pub(crate) limits: Limits,
    pub(crate) order: Order,
    pub(crate) ids: Identities,
    pub(crate) read_only: bool,
    pub(crate) opened_ms: u64,
    pub(crate) crash: Option<AfterCrash>,
    pub(crate) keep_back_off: bool,
    pub(crate) durable: Arc<Durable>,
    pub(crate) mergers: Mergers,
    pub(crate) in_fleet: bool,
}

impl Partition {
    /// The state of the manifest; the log's tail is to be applied next.
    pub(crate) fn open(opening: Opening, manifest: Manifest) -> Result<Self> {
        let Opening {
            id,
            dir,
            limits,
            order,
            ids,
            read_only,
            opened_ms,
            crash,
            keep_back_off,
            durable,
            mergers,
            in_fleet,
        } = opening;
        let writers = (!read_only).then_some(&mergers);
        let file = |name: &str, length| AppendFile::open(dir.join(name), length, writers.cloned());
        let mut partition = Self {
            id,
            limits,
            order,
            ids,
            read_only,
            applied: manifest.seq,
            arrivals: manifest.arrivals,
            heard: manifest.heard,
            exchanged: manifest.exchanged.unwrap_or_default(),
            in_fleet,
            session: manifest.session.max(1),
            session_from: manifest.session_from,
            stats: manifest.stats,
            sieve: Sieve::open(&dir, &manifest.known_runs, &limits)?,
            texts: Texts::new(file("urls", manifest.texts_bytes)?, ids),
            visits: file("visits", manifest.visits_bytes)?,
            graph: file("links", manifest.graph_bytes)?,
            seeds: file("seeds", manifest.seeds_bytes)?,
            frontier: Frontier::open(&dir, &manifest.due_runs, &limits)?,
            hosts: HostTable::open(&dir, &manifest.host_runs, &limits)?,
            queue: HostQueue::new(dir.join("spill"), limits.hosts_in_ram),
            in_flight: IdMap::default(),
            live: IdMap::default(),
            live_sweep_at: 0,
            opened_ms,
            crash,
            keep_back_off,
            latest_ms: 0,
            upkeep: Upkeep::new(durable, mergers, manifest.next_file),
            last_host: (String::new(), 0),
            docs: Vec::new(),
            dir,
        };
        if !read_only {
            partition.queue_known_hosts()?;
        }
        Ok(partition)
    }

    /// Folds the next entry of the log.
    pub fn apply(&mut self, seq: u64, entry: &Entry) -> Result<()> {
        self.apply_all(std::iter::once((seq, entry)))
    }

    /// Folds the next entries of the log. Cheaper than one by one: what the links of several entries
    /// need is fetched from RAM together.
    pub fn apply_all<'e>(
        &mut self,
        mut entries: impl Iterator<Item = (u64, &'e Entry)> + Clone,
    ) -> Result<()> {
        self.write_if_clear()?;
        let mut docs = std::mem::take(&mut self.docs);
        loop {
            docs.clear();
            let mut together = 0;
            for (_, entry) in entries.clone() {
                match entry.links().docs() {
                    Some(known) => docs.extend(known.iter().map(|doc| doc.0)),
                    None => {
                        let ids = &self.ids;
                        docs.extend(entry.links().iter().map(|link| ids.doc(link.url).0));
                    }
                }
                together += 1;
                if docs.len() >= LINKS_TOGETHER {
                    break;
                }
            }
            if together == 0 {
                break;
            }
            // The last entry begins before this many links: the first of its own are among them, too.
            self.sieve.warm(&docs[..docs.len().min(2 * LINKS_TOGETHER)]);
            let mut docs_left = &docs[..];
            for (seq, entry) in entries.by_ref().take(together) {
                let (own, others) = docs_left.split_at(entry.links().len());
                docs_left = others;
                self.apply_one(seq, entry, own)?;
            }
        }
        self.docs = docs;
        Ok(())
    }

    /// `docs` are those of the entry's links.
    fn apply_one(&mut self, seq: u64, entry: &Entry, docs: &[u64]) -> Result<()> {
        if seq != self.applied + 1 {
            return Err(RegistryError::OutOfOrder {
                partition: self.id.0,
                seq,
                applied: self.applied,
            });
        }
        self.check_room()?;
        self.fold(entry, docs)?;
        self.applied = seq;
        self.note_log(entry.size_hint())
    }

    /// Records have 40 bits for numbers of observations and for places in files.
    fn check_room(&self) -> Result<()> {
        let files = [&self.visits, self.texts.file_ref()];
        let largest = files.iter().map(|file| file.len()).max();
        if largest.max(Some(self.arrivals)) > Some(MAX_NUMBER - MAX_ENTRY) {
            return Err(RegistryError::Full {
                path: self.dir.clone(),
            });
        }
        Ok(())
    }

    pub fn id(&self) -> PartitionId {
        self.id
    }

    /// The last entry folded.
    pub fn applied(&self) -> u64 {
        self.applied
    }

    pub fn stats(&self) -> &Stats {
        &self.stats
    }

    pub fn backlog(&self) -> Backlog {
        Backlog {
            pending: self.pending_ops(),
            in_flight: self.in_flight.len(),
            hosts_queued: self.queue.len(),
            hosts_failing: self.queue.failing(),
            log_bytes: self.log_bytes(),
            merging: self.is_merging(),
            blocked: self.upkeep.blocked,
        }
    }

    /// URLs are being looked up: their links or states become visible soon.
    pub fn is_looking_up(&self) -> bool {
        self.is_joining()
    }

    /// Nothing due, nothing pending, nothing in flight.
    pub fn is_exhausted(&self) -> bool {
        self.stats.due == 0 && self.pending_ops() == 0 && self.in_flight.is_empty()
    }

    /// Shows `look` every host that something is known of: one sequential read of them, so not for the
    /// hot path.
    pub fn for_each_host(&self, mut look: impl FnMut(&HostState)) -> Result<()> {
        let mut scan = self.hosts.scan()?;
        while let Some((_, state)) = scan.next()? {
            look(&state);
        }
        Ok(())
    }

    /// RAM in use, by the structures' own count.
    pub fn ram_bytes(&self) -> usize {
        self.sieve.ram_bytes()
            + self.texts.ram_bytes()
            + self.visits.ram_bytes()
            + self.graph.ram_bytes()
            + self.seeds.ram_bytes()
            + self.frontier.ram_bytes()
            + self.hosts.ram_bytes()
            + self.queue.ram_bytes()
            + self.in_flight.capacity() * 40
            + self.live.capacity() * 56
            + self.upkeep_ram_bytes()
    }

    pub(crate) fn latest_ms(&self) -> u64 {
        self.latest_ms
    }

    /// The registry was opened at `opened_ms`, which is after everything that is recorded.
    pub(crate) fn opened_at(&mut self, opened_ms: u64) {
        self.opened_ms = opened_ms;
    }

    /// What the exchange needs to know of it.
    pub(crate) fn streams(&self) -> Streams {
        Streams {
            id: self.id,
            heard: self.heard.clone(),
            sent: self.exchanged.clone(),
        }
    }

    pub(crate) fn durable(&self) -> Arc<Durable> {
        self.upkeep.durable.clone()
    }

    /// In a fleet: what it has sent, and how many forwards it has heard.
    pub fn exchanged(&self) -> &Exchanged {
        &self.exchanged
    }

    /// All links of a kind that makes a seed, in order, repeats included.
    pub(crate) fn seeds(&self) -> Result<Vec<String>> {
        let mut seeds = Vec::new();
        let mut offset = 0;
        while offset < self.seeds.len() {
            let (next, seed) = read_piece(&self.seeds, offset, |length| length)?;
            seeds.push(String::from_utf8(seed).map_err(|_| {
                RegistryError::corrupt(self.seeds.path(), offset, "a seed cannot be read")
            })?);
            offset = next;
        }
        Ok(seeds)
    }
}
