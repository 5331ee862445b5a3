//! One partition, as whoever crawls it uses it: its `State`, which is a fold of its log, beside the turns that are taken
//! from it (`turns`) and the work of getting it to disk (`upkeep`, `joins`, `compaction`, by `pressure`).

mod compaction;
mod grants;
mod joins;
mod live;
mod pressure;
mod turns;
mod upkeep;

pub use turns::{Due, Rest, Turn};

use crate::error::Result;
use crate::hosts::{HostState, HostTable};
use crate::log::{Claim, Durable, Entry, Exchanged, Streams};
use crate::manifest::Manifest;
use crate::merger::Mergers;
use crate::state::{Keeper, State, StateOpening};
use crate::stats::Stats;
use live::Turns;
use portolan_model::{DocId, PartitionId, Visit};
use std::sync::Arc;
use upkeep::Upkeep;

#[derive(Debug)]
pub struct Partition {
    pub(super) state: State,
    turns: Turns,
    upkeep: Upkeep,
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
    pub(crate) state: StateOpening,
    pub(crate) opened_ms: u64,
    pub(crate) crash: Option<AfterCrash>,
    /// The back-off of hosts that failed in an earlier run still holds.
    pub(crate) keep_back_off: bool,
    pub(crate) durable: Arc<Durable>,
    pub(crate) mergers: Mergers,
}

/// What of a partition hears of its state while that folds.
struct Listening<'p> {
    turns: &'p mut Turns,
    upkeep: &'p mut Upkeep,
}

impl Keeper for Listening<'_> {
    fn has_due(&mut self, host: u64) -> Result<()> {
        self.turns.queue_host(host)
    }

    fn takes_back_at(&mut self, doc: u64, place: u64) -> bool {
        self.turns.takes_back_at(doc, place)
    }

    fn landed(&mut self, doc: u64, hosts: &HostTable) {
        self.turns.landed(doc, hosts);
    }

    fn relieve(&mut self, state: &mut State) -> Result<()> {
        if let Some(joined) = self.upkeep.wait_for_join()? {
            self.upkeep.blocked += 1;
            state.carry_out(joined, self)?;
        }
        if !state.sieve.pending.is_empty() {
            self.upkeep.start_join(state)?;
        }
        Ok(())
    }
}

impl Partition {
    /// The state of the manifest; the log's tail is to be applied next.
    pub(crate) fn open(opening: Opening, manifest: Manifest) -> Result<Self> {
        let next_file = manifest.next_file;
        let state = State::open(opening.state, manifest)?;
        let mut turns = Turns::new(
            state.dir.join("spill"),
            state.limits.hosts_in_ram,
            opening.opened_ms,
        );
        turns.crash = opening.crash;
        turns.keep_back_off = opening.keep_back_off;
        let mut partition = Self {
            state,
            turns,
            upkeep: Upkeep::new(opening.durable, opening.mergers, next_file),
            docs: Vec::new(),
        };
        partition.queue_known_hosts()?;
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
                self.state.docs_of(entry, &mut docs);
                together += 1;
                if State::are_enough(&docs) {
                    break;
                }
            }
            if together == 0 {
                break;
            }
            self.state.warm(&docs);
            let mut docs_left = &docs[..];
            for (seq, entry) in entries.by_ref().take(together) {
                let (own, others) = docs_left.split_at(entry.links_len());
                docs_left = others;
                let (state, mut listening) = self.parts();
                state.apply_known(seq, entry, own, &mut listening)?;
                self.note_log(entry.size_hint())?;
            }
        }
        self.docs = docs;
        Ok(())
    }

    /// The state, and what hears of it while it folds.
    fn parts(&mut self) -> (&mut State, Listening<'_>) {
        let Self {
            state,
            turns,
            upkeep,
            ..
        } = self;
        (state, Listening { turns, upkeep })
    }

    pub fn id(&self) -> PartitionId {
        self.state.id
    }

    /// The last entry folded.
    pub fn applied(&self) -> u64 {
        self.state.applied
    }

    pub fn stats(&self) -> &Stats {
        &self.state.stats
    }

    /// The session that has begun; the first is 1.
    pub fn session(&self) -> u32 {
        self.state.session
    }

    /// When the session began; 0 for the first.
    pub fn session_begun_ms(&self) -> u64 {
        self.state.session_begun_ms()
    }

    /// The visit that is recorded at a place that a history names.
    pub fn visit_at(&self, at: u64) -> Result<Visit> {
        self.state.visit_at(at)
    }

    /// Where the links of a check led; see `History::links_at`.
    pub fn links_of(&self, check: &Visit) -> Result<Vec<DocId>> {
        self.state.links_of(check)
    }

    pub fn backlog(&self) -> Backlog {
        Backlog {
            pending: self.pending_ops(),
            in_flight: self.turns.in_flight.len(),
            hosts_queued: self.turns.queue.len(),
            hosts_failing: self.turns.queue.failing(),
            log_bytes: self.upkeep.log_bytes,
            merging: self.is_merging(),
            blocked: self.upkeep.blocked,
        }
    }

    /// URLs are being looked up: their links or states become visible soon.
    pub fn is_looking_up(&self) -> bool {
        self.upkeep.is_joining()
    }

    /// Nothing due, nothing pending, nothing in flight.
    pub fn is_exhausted(&self) -> bool {
        self.state.stats.due == 0 && self.pending_ops() == 0 && self.turns.in_flight.is_empty()
    }

    /// Shows `look` every host that something is known of: one sequential read of them, so not for the
    /// hot path.
    pub fn for_each_host(&self, mut look: impl FnMut(&HostState)) -> Result<()> {
        let mut scan = self.state.hosts.scan()?;
        while let Some((_, state)) = scan.next()? {
            look(&state);
        }
        Ok(())
    }

    /// RAM in use, by the structures' own count.
    pub fn ram_bytes(&self) -> usize {
        self.state.ram_bytes() + self.turns.ram_bytes() + self.upkeep_ram_bytes()
    }

    pub(crate) fn latest_ms(&self) -> u64 {
        self.state.latest_ms
    }

    /// It came while a run was under way that began at `run_ms`: what that gives up is given up.
    pub(crate) fn joins_run(&mut self, run_ms: u64) {
        self.turns.run_ms = run_ms;
    }

    /// The registry was opened at `opened_ms`, which is after everything that is recorded.
    pub(crate) fn opened_at(&mut self, opened_ms: u64) {
        self.turns.opened_ms = opened_ms;
        self.turns.run_ms = opened_ms;
    }

    /// What the exchange needs to know of it.
    pub(crate) fn streams(&self) -> Streams {
        Streams {
            id: self.state.id,
            heard: self.state.heard.clone(),
            sent: self.state.exchanged.clone(),
        }
    }

    pub(crate) fn durable(&self) -> Arc<Durable> {
        self.upkeep.durable.clone()
    }

    /// In a fleet: what it has sent, and how many forwards it has heard.
    pub fn exchanged(&self) -> &Exchanged {
        &self.state.exchanged
    }

    /// In a fleet: the sites of which it is the home, and whose they are.
    pub fn claims(&self) -> Result<Vec<Claim>> {
        self.state.claims()
    }

    /// All links of a kind that makes a seed, in order, repeats included.
    pub(crate) fn seeds(&self) -> Result<Vec<String>> {
        self.state.seeds()
    }
}
