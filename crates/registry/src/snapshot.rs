//! Reading a registry without touching it, while a crawl runs or after it has stopped: checkpoint
//! files plus the journal's tail, folded in RAM.

use crate::error::Result;
use crate::held::read_held;
use crate::hosts::HostState;
use crate::log::{JournalReader, Positions};
use crate::manifest::Manifest;
use crate::meta::Meta;
use crate::mirror::is_mirror;
use crate::record::{Record, UrlState, host_tag};
use crate::registry::{journal_dir, partition_dir};
use crate::replay::fold_commit;
use crate::scan::{Graph, Records};
use crate::settings::Limits;
use crate::state::{Reader, State, StateOpening};
use crate::stats::Stats;
use portolan_model::url::{keys_of_host, politeness_key};
use portolan_model::{DocId, HostId, Identities, LinkKind, PartitionId, Pulse, Reason, Visit};
use std::collections::BTreeMap;
use std::path::Path;
use std::rc::Rc;

/// A crawl that runs may replace files while they are being opened.
const OPEN_ATTEMPTS: usize = 20;

#[derive(Debug)]
pub struct Snapshot {
    states: Vec<State>,
    ids: Identities,
}

/// All there is to say of a known URL.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct UrlRecord {
    pub url: String,
    pub doc: DocId,
    pub host: HostId,
    pub state: UrlState,
    pub reason: Option<Reason>,
    /// Back-links, and how often it was given as a seed.
    pub count: u32,
    pub class: u8,
    /// What the ranker keeps of it.
    pub score: u32,
    pub priority: i8,
    pub depth: u16,
    pub hops: u8,
    pub kind: LinkKind,
    /// The page that it was first found on (or that lifted its exclusion).
    pub from: Option<DocId>,
    /// It was found on that page before the page was there as a whole.
    pub early: bool,
    pub arrival: u64,
    pub attempts: u8,
    /// Which partition has it.
    pub partition: u16,
    /// Where its last visit is, plus one.
    visit: u64,
}

/// Which URLs to list; `None` is all.
#[derive(Clone, Debug, Default)]
pub struct UrlFilter {
    pub state: Option<UrlState>,
    pub host: Option<String>,
}

/// Where a due URL stands.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct QueuePosition {
    /// 1 is next.
    pub place: u64,
    pub queued: u64,
    /// When its host may be asked again.
    pub not_before_ms: u64,
    /// What is known of its host's last request.
    pub pulse: Pulse,
}

impl Snapshot {
    /// `dir` is the registry's directory, `ids` what it was made with.
    pub fn open(dir: &Path, ids: Identities) -> Result<Self> {
        let meta = Meta::of(dir, ids)?;
        let all: Vec<u16> = match read_held(&journal_dir(dir))? {
            Some(held) => held.iter().map(|id| id.0).collect(),
            None => (0..meta.partitions).collect(),
        };
        let states = open_states(dir, &all, (meta, ids))?;
        Ok(Self { states, ids })
    }

    /// One partition alone, for who reads them one after the other and has no RAM for all of their logs' tails.
    /// It knows nothing of URLs that others have.
    pub fn open_one(dir: &Path, ids: Identities, id: u16) -> Result<Self> {
        let meta = Meta::of(dir, ids)?;
        let states = open_states(dir, &[id], (meta, ids))?;
        Ok(Self { states, ids })
    }

    /// By what documents and hosts are known in it.
    pub fn ids(&self) -> &Identities {
        &self.ids
    }

    /// How many partitions it has.
    pub fn partitions(&self) -> u16 {
        self.states.len() as u16
    }

    pub fn stats(&self) -> Stats {
        let mut sum = Stats::default();
        for state in &self.states {
            sum.add(&state.stats);
        }
        sum
    }

    /// All known URLs that the filter lets through, by partition and document.
    pub fn urls(&self, filter: UrlFilter) -> impl Iterator<Item = Result<UrlRecord>> + '_ {
        // A host's name stands for its servers of all protocols.
        let servers = filter.host.map(|name| -> Vec<HostId> {
            keys_of_host(&name).map(|key| self.ids.host(&key)).collect()
        });
        let servers: Option<Rc<[HostId]>> = servers.map(Rc::from);
        self.states.iter().flat_map(move |state| {
            let (may_be, are) = (servers.clone(), servers.clone());
            Records::new(state)
                .filter(move |item| match item {
                    Ok((_, record)) => {
                        let is_like = |host: &HostId| host_tag(host.0) == record.host_tag;
                        filter.state.is_none_or(|state| state == record.state)
                            && may_be
                                .as_ref()
                                .is_none_or(|hosts| hosts.iter().any(is_like))
                    }
                    Err(_) => true,
                })
                .map(move |item| {
                    let (doc, record) = item?;
                    describe(state, doc, record)
                })
                .filter(move |item| match item {
                    Ok(url) => are.as_ref().is_none_or(|hosts| hosts.contains(&url.host)),
                    Err(_) => true,
                })
        })
    }

    /// URLs that are in one of these states, by partition, and within it so that neighbours are far apart by document.
    /// For who changes what it reads: records in RAM lie in order of documents, and a partition that is told of one
    /// document after the other would have to crowd them into one corner.
    pub fn scattered<'s>(
        &'s self,
        states: &'s [UrlState],
    ) -> impl Iterator<Item = Result<UrlRecord>> + 's {
        self.states.iter().flat_map(move |state| {
            Records::scattered(state)
                .filter(move |item| match item {
                    Ok((_, record)) => states.contains(&record.state),
                    Err(_) => true,
                })
                .map(move |item| item.and_then(|(doc, record)| describe(state, doc, record)))
        })
    }

    pub fn find(&self, doc: DocId) -> Result<Option<UrlRecord>> {
        for state in &self.states {
            if let Some(record) = state.sieve.peek(doc.0)? {
                return describe(state, doc.0, record).map(Some);
            }
        }
        Ok(None)
    }

    pub fn url_of(&self, doc: DocId) -> Result<Option<String>> {
        Ok(self.find(doc)?.map(|record| record.url))
    }

    /// The last visit of a URL.
    pub fn visit(&self, url: &UrlRecord) -> Result<Option<Visit>> {
        let Some(offset) = url.visit.checked_sub(1) else {
            return Ok(None);
        };
        let owner = |state: &&State| state.id.0 == url.partition;
        let Some(state) = self.states.iter().find(owner) else {
            return Ok(None);
        };
        state.visit_at(offset).map(Some)
    }

    /// The last check before this visit of a URL; `None` if it was the first.
    pub fn check_before(&self, url: &UrlRecord, visit: &Visit) -> Result<Option<Visit>> {
        let owner = |state: &&State| state.id.0 == url.partition;
        match (
            visit.history.before.checked_sub(1),
            self.states.iter().find(owner),
        ) {
            (Some(offset), Some(state)) => state.visit_at(offset).map(Some),
            _ => Ok(None),
        }
    }

    /// The session that has begun; the first is 1.
    pub fn session(&self) -> u32 {
        self.states
            .iter()
            .map(|state| state.session)
            .max()
            .unwrap_or(1)
    }

    /// The place of a due URL in its host's queue; `None` if it is not due.
    pub fn queue_position(&self, doc: DocId) -> Result<Option<QueuePosition>> {
        for state in &self.states {
            let Some(record) = state.sieve.peek(doc.0)? else {
                continue;
            };
            let (url, _) = state.texts.read(record.text, doc.0)?;
            let host = self.ids.host(politeness_key(&url)).0;
            let queue = queue_of(state, host)?;
            let host = state.hosts.load(host)?;
            let pulse = host.and_then(|host| host.pulse).unwrap_or_default();
            return Ok(queue
                .iter()
                .position(|&queued| queued == doc)
                .map(|place| QueuePosition {
                    place: place as u64 + 1,
                    queued: queue.len() as u64,
                    not_before_ms: pulse.not_before_ms,
                    pulse,
                }));
        }
        Ok(None)
    }

    /// A host's due URLs, next first.
    pub fn queue(&self, host: HostId) -> Result<Vec<DocId>> {
        let mut queue = Vec::new();
        for state in &self.states {
            queue.extend(queue_of(state, host.0)?);
        }
        Ok(queue)
    }

    /// The link graph: each page with links, in the order in which they were found. Where there were several sessions,
    /// a page has the links that it had at its last check.
    pub fn links(&self) -> impl Iterator<Item = Result<(DocId, Vec<DocId>)>> + '_ {
        self.states.iter().flat_map(|state| {
            Graph::new(&state.graph).filter_map(move |item| {
                let holds = item.and_then(|(at, from, targets)| {
                    let holds = state.session == 1 || has_links_at(state, from, at)?;
                    Ok(holds.then_some((from, targets)))
                });
                holds.transpose()
            })
        })
    }

    /// What is known of one host.
    pub fn host(&self, host: HostId) -> Result<Option<HostState>> {
        for state in &self.states {
            if let Some(known) = state.hosts.load(host.0)? {
                return Ok(Some(known));
            }
        }
        Ok(None)
    }

    /// All hosts that something is known of.
    pub fn hosts(&self) -> Result<Vec<(HostId, HostState)>> {
        let mut hosts = Vec::new();
        for state in &self.states {
            let mut scan = state.hosts.scan()?;
            while let Some((host, state)) = scan.next()? {
                hosts.push((HostId(host), state));
            }
        }
        Ok(hosts)
    }
}

/// The states of these partitions, as of their checkpoints and what the journal says since.
pub(crate) fn open_states(
    dir: &Path,
    wanted: &[u16],
    meta: (Meta, Identities),
) -> Result<Vec<State>> {
    let mut attempt = 1;
    loop {
        let manifests = manifests(dir, wanted)?;
        match fold_tails(dir, &manifests, meta) {
            Err(_) if attempt < OPEN_ATTEMPTS && self::manifests(dir, wanted)? != manifests => {
                attempt += 1;
            }
            result => return result,
        }
    }
}

/// Where the archive ended when the last commit was made.
pub(crate) fn archive_end(dir: &Path, meta: Meta) -> Result<Option<(u32, u64)>> {
    let all: Vec<u16> = (0..meta.partitions).collect();
    let manifests = manifests(dir, &all)?;
    let known: Positions = manifests.iter().map(|(&id, m)| (id, m.seq)).collect();
    let mut journal = JournalReader::open(&journal_dir(dir), &known)?;
    while journal.next()?.is_some() {}
    Ok(journal.end().archive_end)
}

fn manifests(dir: &Path, wanted: &[u16]) -> Result<BTreeMap<u16, Manifest>> {
    let read = |&id: &u16| {
        let manifest = Manifest::read(&partition_dir(dir, id))?;
        Ok((id, manifest.unwrap_or_default()))
    };
    wanted.iter().map(read).collect()
}

fn fold_tails(
    dir: &Path,
    manifests: &BTreeMap<u16, Manifest>,
    meta: (Meta, Identities),
) -> Result<Vec<State>> {
    let known: Positions = manifests.iter().map(|(&id, m)| (id, m.seq)).collect();
    let as_of_checkpoints = manifests.iter().map(|(&id, manifest)| {
        let state = as_of_checkpoint(dir, id, manifest.clone(), meta)?;
        Ok((id, state))
    });
    let mut states = as_of_checkpoints.collect::<Result<BTreeMap<_, _>>>()?;
    if is_mirror(dir) {
        return Ok(states.into_values().collect());
    }
    let journal_dir = journal_dir(dir);
    let mut journal = JournalReader::open(&journal_dir, &known)?;
    while let Some(commit) = journal.next()? {
        let known = states.iter().map(|(&id, s)| (id, s.applied)).collect();
        fold_commit(&commit, &known, |id, seq, entry| {
            match states.get_mut(&id) {
                Some(state) => state.apply(seq, entry, &mut Reader),
                None => Ok(()),
            }
        })?;
    }
    journal.end().refuse_if_short(&journal_dir, &known)?;
    for state in states.values_mut() {
        state.look_up_pending(&mut Reader)?;
    }
    Ok(states.into_values().collect())
}

fn as_of_checkpoint(
    dir: &Path,
    id: u16,
    manifest: Manifest,
    (meta, ids): (Meta, Identities),
) -> Result<State> {
    let opening = StateOpening {
        id: PartitionId(id),
        dir: partition_dir(dir, id),
        limits: Limits::for_reading(),
        order: meta.order,
        ids,
        writers: None,
        in_fleet: false,
    };
    State::open(opening, manifest)
}

fn describe(state: &State, doc: u64, record: Record) -> Result<UrlRecord> {
    let (url, finding) = state.texts.read(record.text, doc)?;
    Ok(UrlRecord {
        host: state.ids.host(politeness_key(&url)),
        url,
        doc: DocId(doc),
        state: record.state,
        reason: record.reason(),
        count: record.count,
        class: record.class(state.order),
        score: record.score(),
        priority: record.priority,
        depth: finding.depth,
        hops: finding.hops,
        kind: finding.kind,
        from: state.texts.read_from(record.text)?,
        early: finding.early,
        arrival: record.arrival,
        attempts: record.attempts,
        partition: state.id.0,
        visit: record.visit(),
    })
}

/// The host's queue without stale entries.
fn queue_of(state: &State, host: u64) -> Result<Vec<DocId>> {
    let mut queue = Vec::new();
    for candidate in state.frontier.entries_of(host)? {
        if let Some(record) = state.sieve.peek(candidate.doc)?
            && record.state == UrlState::Due
            && record.place(state.order) == candidate.place
        {
            queue.push(DocId(candidate.doc));
        }
    }
    Ok(queue)
}

/// Are the links at `at` those that the page had at its last check?
fn has_links_at(state: &State, page: DocId, at: u64) -> Result<bool> {
    let record = state.sieve.peek(page.0)?;
    let Some(visit_at) = record.and_then(|record| record.visit().checked_sub(1)) else {
        return Ok(true);
    };
    let visit = state.visit_at(visit_at)?;
    let history = visit.history;
    // A version of Portolan that knew no sessions did not write down where links are.
    let is_old = history.links_at == 0 && visit.links > 0;
    Ok(is_old || history.links_at == at + 1)
}
