//! What a partition knows: a fold of its log and of nothing else. It reads no clock, has no threads and asks nobody for
//! a turn. A partition that is crawled keeps one beside its turns and its upkeep; a snapshot has nothing but states.
//!
//! `fold` says what each entry does, `judged`, `sessions` and `moved` what three kinds of them do. Operations on URLs that are
//! not in RAM wait in `sieve.pending` until whoever keeps the state (a `Keeper`) has them looked up.

mod early;
mod fold;
mod judged;
mod moved;
mod sessions;

pub use sessions::LastCheck;

use crate::error::{RegistryError, Result};
use crate::files::{AppendFile, read_piece};
use crate::frontier::Frontier;
use crate::hosts::HostTable;
use crate::log::{Claim, Entry, Exchanged, Heard, MAX_PAYLOAD_BYTES, read_claims};
use crate::manifest::Manifest;
use crate::merger::Mergers;
use crate::recent::MAX_NUMBER;
use crate::settings::Limits;
use crate::sieve::{Joined, Sieve, join};
use crate::stats::Stats;
use crate::texts::Texts;
use crate::wire::Reader as Bytes;
use portolan_model::{Identities, Order, PartitionId};
use std::path::PathBuf;

/// No entry brings more observations or more text than this.
const MAX_ENTRY: u64 = 2 * MAX_PAYLOAD_BYTES as u64;
/// Links whose records are fetched from RAM together.
const LINKS_TOGETHER: usize = 24;
/// Operations whose records are fetched from RAM together.
const OPS_TOGETHER: usize = 8;

#[derive(Debug)]
pub(crate) struct State {
    pub(crate) id: PartitionId,
    pub(crate) dir: PathBuf,
    pub(crate) limits: Limits,
    pub(crate) order: Order,
    pub(crate) ids: Identities,
    /// The last entry folded.
    pub(crate) applied: u64,
    /// Observations and retries so far.
    pub(crate) arrivals: u64,
    /// How far it has heard the others.
    pub(crate) heard: Heard,
    /// What it has sent to the others, where it is one of a fleet.
    pub(crate) exchanged: Exchanged,
    in_fleet: bool,
    /// The session that has begun; the first is 1.
    pub(crate) session: u32,
    /// Visits of the session are recorded from here on.
    pub(crate) session_from: u64,
    pub(crate) stats: Stats,
    pub(crate) sieve: Sieve,
    pub(crate) texts: Texts,
    pub(crate) visits: AppendFile,
    pub(crate) graph: AppendFile,
    pub(crate) seeds: AppendFile,
    /// Sites of which it is the home, and whose they are.
    pub(crate) claims: AppendFile,
    pub(crate) frontier: Frontier,
    pub(crate) hosts: HostTable,
    /// When the last request ended that is recorded and was seen.
    pub(crate) latest_ms: u64,
    /// The host of the last link: links of a page are mostly of one host.
    last_host: (String, u64),
}

/// Which state `State::open` opens, and how.
pub(crate) struct StateOpening {
    pub(crate) id: PartitionId,
    pub(crate) dir: PathBuf,
    pub(crate) limits: Limits,
    pub(crate) order: Order,
    pub(crate) ids: Identities,
    /// Those who write its files; a reader's copy has none and changes nothing on disk.
    pub(crate) writers: Option<Mergers>,
    /// What it has sent to others is in its manifest.
    pub(crate) in_fleet: bool,
}

/// Whoever keeps a state, and what they hear while entries are folded. None of it changes what the state becomes.
pub(crate) trait Keeper {
    /// A URL of the host has become due, and the host had none in RAM.
    fn has_due(&mut self, host: u64) -> Result<()>;

    /// The place of a due URL in its queue is another one. True if the keeper has the URL in hand and will put it back,
    /// if at all, where it belongs.
    fn takes_back_at(&mut self, doc: u64, place: u64) -> bool;

    /// A visit of the URL is folded.
    fn landed(&mut self, doc: u64, hosts: &HostTable);

    /// Pending operations have reached their limit: the keeper looks them up, or begins to.
    fn relieve(&mut self, state: &mut State) -> Result<()>;
}

/// Keeps a copy that is only read: nobody takes turns from it, and what is pending is looked up at once.
pub(crate) struct Reader;

impl Keeper for Reader {
    fn has_due(&mut self, _: u64) -> Result<()> {
        Ok(())
    }

    fn takes_back_at(&mut self, _: u64, _: u64) -> bool {
        false
    }

    fn landed(&mut self, _: u64, _: &HostTable) {}

    fn relieve(&mut self, state: &mut State) -> Result<()> {
        state.look_up_pending(self).map(|_| ())
    }
}

impl State {
    /// The state of the manifest; the log's tail is to be folded next.
    pub(crate) fn open(opening: StateOpening, manifest: Manifest) -> Result<Self> {
        let StateOpening {
            id,
            dir,
            limits,
            order,
            ids,
            writers,
            in_fleet,
        } = opening;
        let file = |name: &str, length| AppendFile::open(dir.join(name), length, writers.clone());
        Ok(Self {
            id,
            limits,
            order,
            ids,
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
            claims: file("claims", manifest.claims_bytes)?,
            frontier: Frontier::open(&dir, &manifest.due_runs, &limits)?,
            hosts: HostTable::open(&dir, &manifest.host_runs, &limits)?,
            latest_ms: 0,
            last_host: (String::new(), 0),
            dir,
        })
    }

    /// What a checkpoint of this moment says, all but the tables' names.
    pub(crate) fn manifest(&self) -> Manifest {
        Manifest {
            seq: self.applied,
            arrivals: self.arrivals,
            heard: self.heard.clone(),
            texts_bytes: self.texts.len(),
            visits_bytes: self.visits.len(),
            graph_bytes: self.graph.len(),
            seeds_bytes: self.seeds.len(),
            claims_bytes: self.claims.len(),
            session: self.session,
            session_from: self.session_from,
            stats: self.stats.clone(),
            exchanged: self.in_fleet.then(|| self.exchanged.clone()),
            ..Manifest::default()
        }
    }

    /// Folds the next entry of the log.
    pub(crate) fn apply(
        &mut self,
        seq: u64,
        entry: &Entry,
        keeper: &mut impl Keeper,
    ) -> Result<()> {
        let mut docs = Vec::new();
        self.docs_of(entry, &mut docs);
        self.warm(&docs);
        self.apply_known(seq, entry, &docs, keeper)
    }

    /// Adds the documents of the entry's links.
    pub(crate) fn docs_of(&self, entry: &Entry, docs: &mut Vec<u64>) {
        for links in entry.pages() {
            match links.docs() {
                Some(known) => docs.extend(known.iter().map(|doc| doc.0)),
                None => {
                    let ids = &self.ids;
                    docs.extend(links.iter().map(|link| ids.doc(link.url).0));
                }
            }
        }
    }

    /// Have enough links been gathered to be fetched from RAM together?
    pub(crate) fn are_enough(docs: &[u64]) -> bool {
        docs.len() >= LINKS_TOGETHER
    }

    /// Fetches from RAM what is known of the links of some entries that are folded next. The last entry begins before
    /// `are_enough`: the first of its own links are among them, too.
    pub(crate) fn warm(&self, docs: &[u64]) {
        self.sieve.warm(&docs[..docs.len().min(2 * LINKS_TOGETHER)]);
    }

    /// Folds the next entry of the log; `docs` are those of its links.
    pub(crate) fn apply_known(
        &mut self,
        seq: u64,
        entry: &Entry,
        docs: &[u64],
        keeper: &mut impl Keeper,
    ) -> Result<()> {
        if seq != self.applied + 1 {
            return Err(RegistryError::OutOfOrder {
                partition: self.id.0,
                seq,
                applied: self.applied,
            });
        }
        self.check_room()?;
        self.fold(entry, docs, keeper)?;
        self.applied = seq;
        Ok(())
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

    /// Looks pending operations up, here and now, and carries them out. How many that were.
    pub(crate) fn look_up_pending(&mut self, keeper: &mut impl Keeper) -> Result<usize> {
        if self.sieve.pending.is_empty() {
            return Ok(0);
        }
        let batch = std::mem::take(&mut self.sieve.pending);
        let ops = batch.len();
        let joined = join(&self.sieve.runs.tables(), batch)?;
        self.carry_out(joined, keeper)?;
        Ok(ops)
    }

    /// Carries out operations that have been looked up: by document, so that records in RAM are gone through in order.
    pub(crate) fn carry_out(&mut self, joined: Joined, keeper: &mut impl Keeper) -> Result<()> {
        let Joined {
            batch,
            by_doc,
            found,
        } = joined;
        let mut found = found.iter().peekable();
        for together in by_doc.chunks(OPS_TOGETHER) {
            let docs = together.iter().map(|&op| batch.doc(op));
            self.sieve.warm_homes(docs);
            for &number in together {
                let op = batch.op(number);
                if let Some((doc, record)) = found.next_if(|(doc, _)| *doc <= op.doc) {
                    self.sieve.insert_found(*doc, record);
                }
                self.act(&op, false, keeper)?;
            }
        }
        // Operations that came meanwhile on the same URLs need not wait any longer.
        self.retry_pending(keeper)
    }

    /// What operations wait for has changed. Those that need not wait any longer must not be
    /// overtaken by later ones on the same URL, which would not wait either.
    pub(crate) fn retry_pending(&mut self, keeper: &mut impl Keeper) -> Result<()> {
        let later = std::mem::take(&mut self.sieve.pending);
        for op in later.iter() {
            if !self.act(&op, true, keeper)? {
                self.sieve.pending.push(&op);
            }
        }
        Ok(())
    }

    pub(crate) fn ram_bytes(&self) -> usize {
        self.sieve.ram_bytes()
            + self.texts.ram_bytes()
            + self.visits.ram_bytes()
            + self.graph.ram_bytes()
            + self.seeds.ram_bytes()
            + self.claims.ram_bytes()
            + self.frontier.ram_bytes()
            + self.hosts.ram_bytes()
    }

    /// The files that only grow.
    pub(crate) fn growing_files(&mut self) -> [&mut AppendFile; 5] {
        [
            self.texts.file(),
            &mut self.visits,
            &mut self.graph,
            &mut self.seeds,
            &mut self.claims,
        ]
    }

    /// Would those files take what is appended next without waiting?
    pub(crate) fn files_are_ready(&self) -> bool {
        let files = [
            self.texts.file_ref(),
            &self.visits,
            &self.graph,
            &self.seeds,
            &self.claims,
        ];
        files.iter().all(|file| file.is_ready())
    }

    /// What its log says of sites of which it is the home, in order.
    pub(crate) fn claims(&self) -> Result<Vec<Claim>> {
        let mut claims = Vec::new();
        let mut offset = 0;
        while offset < self.claims.len() {
            let (next, piece) = read_piece(&self.claims, offset, |length| length)?;
            claims.extend(read_claims(&mut Bytes::new(&piece)).ok_or_else(|| {
                RegistryError::corrupt(self.claims.path(), offset, "a claim cannot be read")
            })?);
            offset = next;
        }
        Ok(claims)
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
