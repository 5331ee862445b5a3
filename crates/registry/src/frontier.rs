//! The sub-queues of all hosts: entries (host, place, document), the newest in RAM, the rest in
//! sorted runs that are read a few entries at a time. Entries may be stale: whoever takes one asks
//! the URL's record. Not when a host is due; that is the host queue's.

use crate::by_id::IdMap;
use crate::error::{RegistryError, Result};
use crate::files::{Consumed, Cursor, Key, Kind, Run, Runs, Shape};
use crate::settings::Limits;
use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap, VecDeque};
use std::path::Path;
use std::sync::Arc;
use std::vec;

const ENTRIES: Shape = Shape {
    wide: true,
    value_bytes: Some(8),
};

/// RAM of one entry: 16 bytes in a heap that is three quarters full.
pub(crate) const FRONTIER_ENTRY_BYTES: usize = 22;
/// A host's heap takes as much as this many entries.
const HEAP_ENTRIES: usize = 2;
/// Entries read ahead for a host that has no window to keep them in: what is left of them when its turn ends
/// goes back to RAM's entries, and so to disk again.
const PREFETCH_UNKEPT: usize = 4;
/// RAM of one host's marks.
const MARK_BYTES: usize = 96;

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) struct Candidate {
    pub(crate) place: u64,
    pub(crate) doc: u64,
}

/// Entries of each host, the best first.
type Queues = IdMap<BinaryHeap<Reverse<Candidate>>>;

#[derive(Debug)]
pub(crate) struct Frontier {
    recent: Queues,
    /// Entries in `recent`.
    recent_entries: usize,
    /// Being written to a run.
    frozen: Option<Frozen>,
    pub(crate) runs: Runs,
    /// Entries of runs that were read ahead, for hosts in turn or lately so.
    windows: IdMap<Window>,
    /// For a host and a source (run or frozen entries): the first place not read yet. A hint:
    /// without it, entries are read again and found stale.
    marks: IdMap<Vec<(u64, u64)>>,
    prefetch: usize,
    max_windows: usize,
    max_marks: usize,
}

#[derive(Debug, Clone)]
pub(crate) struct Frozen {
    id: u64,
    queues: Arc<Queues>,
    pub(crate) entries: usize,
}

impl Frozen {
    fn of_host(&self, host: u64) -> impl Iterator<Item = Candidate> {
        let queue = self.queues.get(&host).into_iter().flatten();
        queue.map(|Reverse(one)| *one)
    }
}

#[derive(Debug, Default)]
struct Window {
    ahead: VecDeque<Candidate>,
    /// Runs have no more for this host.
    drained: bool,
}

impl Frontier {
    pub(crate) fn open(dir: &Path, run_ids: &[u64], limits: &Limits) -> Result<Self> {
        let kind = Kind {
            name: "due",
            shape: ENTRIES,
            combine: None,
            filter_bytes: limits.due_filter_bytes,
            // Filters tell hosts, of which there are fewer than entries.
            entries_per_filter_key: 4,
            fan_in: 3,
        };
        Ok(Self {
            recent: IdMap::default(),
            recent_entries: 0,
            frozen: None,
            runs: Runs::open(dir, kind, run_ids)?,
            windows: IdMap::default(),
            marks: IdMap::default(),
            prefetch: limits.prefetch_urls,
            max_windows: limits.windows,
            max_marks: limits.marks,
        })
    }

    /// True if the host had no entries in RAM: only then can it be that it does not wait for a turn.
    #[inline]
    pub(crate) fn push(&mut self, host: u64, place: u64, doc: u64) -> bool {
        let heap = self.recent.entry(host).or_default();
        heap.push(Reverse(Candidate { place, doc }));
        self.recent_entries += 1;
        heap.len() == 1
    }

    /// Entries in RAM, the heaps that they are in counted as some more.
    pub(crate) fn recent(&self) -> usize {
        self.recent_entries + HEAP_ENTRIES * self.recent.len()
    }

    pub(crate) fn ram_bytes(&self) -> usize {
        let ahead: usize = self
            .windows
            .values()
            .map(|window| 64 + window.ahead.capacity() * size_of::<Candidate>())
            .sum();
        let frozen = self.frozen.as_ref();
        let frozen = frozen.map_or(0, |f| f.entries + HEAP_ENTRIES * f.queues.len());
        (self.recent() + frozen) * FRONTIER_ENTRY_BYTES
            + self.runs.ram_bytes()
            + ahead
            + self.marks.len() * MARK_BYTES
    }

    /// The host's best entry, which leaves the frontier.
    pub(crate) fn pop(&mut self, host: u64) -> Result<Option<Candidate>> {
        let has_runs = self.frozen.is_some() || !self.runs.is_empty();
        if has_runs {
            let window = self.windows.entry(host).or_default();
            if window.ahead.is_empty() && !window.drained {
                self.refill(host)?;
            }
        }
        let ahead = self.windows.get_mut(&host).map(|window| &mut window.ahead);
        let next_ahead = ahead.as_ref().and_then(|ahead| ahead.front());
        if let Some(heap) = self.recent.get_mut(&host)
            && let Some(&Reverse(recent)) = heap.peek()
            && next_ahead.is_none_or(|ahead| recent <= *ahead)
        {
            heap.pop();
            self.recent_entries -= 1;
            if heap.is_empty() {
                self.recent.remove(&host);
            }
            return Ok(Some(recent));
        }
        Ok(ahead.and_then(VecDeque::pop_front))
    }

    /// May the host have more entries? Reads nothing.
    pub(crate) fn may_have(&self, host: u64) -> bool {
        let runs = self.frozen.is_some() || !self.runs.is_empty();
        self.recent.contains_key(&host)
            || match self.windows.get(&host) {
                Some(window) => !window.ahead.is_empty() || (runs && !window.drained),
                None => runs,
            }
    }

    /// Ends a host's turn: too many windows are too much RAM.
    pub(crate) fn rest(&mut self, host: u64) {
        let keep = self
            .windows
            .get(&host)
            .is_some_and(|window| !window.ahead.is_empty() || window.drained);
        if self.windows.len() > self.max_windows || !keep {
            self.close_window(host);
        }
    }

    /// What was read ahead goes back to RAM's entries: the marks have passed it.
    pub(crate) fn close_window(&mut self, host: u64) {
        if let Some(window) = self.windows.remove(&host) {
            for candidate in window.ahead {
                self.push(host, candidate.place, candidate.doc);
            }
        }
    }

    /// Reads the next few entries of the host from frozen entries and runs, in queue order.
    fn refill(&mut self, host: u64) -> Result<()> {
        if self.marks.len() >= self.max_marks {
            let windows = &self.windows;
            self.marks.retain(|host, _| windows.contains_key(host));
        }
        let prefetch = if self.windows.len() > self.max_windows {
            self.prefetch.min(PREFETCH_UNKEPT)
        } else {
            self.prefetch
        };
        let marks = self.marks.entry(host).or_default();
        let mut sources = Vec::new();
        let mut next_marks = Vec::new();
        let start_of = |id: u64| {
            let known = marks.iter().find(|(source, _)| *source == id);
            known.map_or(0, |(_, place)| *place)
        };
        if let Some(frozen) = &self.frozen {
            let start = start_of(frozen.id);
            let unread = frozen.of_host(host).filter(|one| one.place >= start);
            let mut unread: Vec<Candidate> = unread.collect();
            // A host may have all there are: so many are enough for now.
            if unread.len() > prefetch {
                unread.select_nth_unstable(prefetch - 1);
                unread.truncate(prefetch);
            }
            unread.sort_unstable();
            sources.push(Source::Frozen(unread.into_iter()));
            next_marks.push((frozen.id, start));
        }
        for run in self.runs.iter() {
            let start = start_of(run.id);
            let mut cursor = Cursor::new(run.table.clone());
            let found = run.table.filter().may_hold(host) && cursor.seek((host, start))?;
            sources.push(Source::Run {
                cursor: found.then_some(cursor),
                run,
            });
            next_marks.push((run.id, start));
        }
        let mut ahead = VecDeque::new();
        while ahead.len() < prefetch {
            let mut best: Option<(usize, Candidate)> = None;
            for (index, source) in sources.iter().enumerate() {
                if let Some(candidate) = source.head(host)?
                    && best.is_none_or(|(_, other)| candidate < other)
                {
                    best = Some((index, candidate));
                }
            }
            let Some((index, candidate)) = best else {
                break;
            };
            sources[index].advance()?;
            next_marks[index].1 = candidate.place + 1;
            ahead.push_back(candidate);
        }
        let drained = ahead.len() < prefetch;
        *marks = next_marks;
        let window = self.windows.entry(host).or_default();
        window.ahead.extend(ahead);
        window.drained = drained;
        Ok(())
    }

    /// Everything in RAM becomes a source that the caller writes to a run, with `taken`: entries out of
    /// the frontier (host, place, document) whose fate is not known yet. Sorting is left to the writing.
    pub(crate) fn freeze(
        &mut self,
        id: u64,
        taken: impl Iterator<Item = (u64, u64, u64)>,
    ) -> Frozen {
        let hosts: Vec<u64> = self.windows.keys().copied().collect();
        for host in hosts {
            self.close_window(host);
        }
        for (host, place, doc) in taken {
            self.push(host, place, doc);
        }
        let frozen = Frozen {
            id,
            queues: Arc::new(std::mem::take(&mut self.recent)),
            entries: std::mem::take(&mut self.recent_entries),
        };
        self.frozen = Some(frozen.clone());
        frozen
    }

    /// The frozen entries are in a run now, unless there were none.
    pub(crate) fn thaw(&mut self, new_run: Option<u64>) {
        if let Some(frozen) = self.frozen.take() {
            self.replaced(&[frozen.id], new_run);
        }
    }

    /// Sources whose entries are in a new run now.
    pub(crate) fn replaced(&mut self, gone: &[u64], new_run: Option<u64>) {
        self.marks.retain(|_, marks| {
            let read = marks.iter().filter(|(id, _)| gone.contains(id));
            let (sources, first) = (read.clone().count(), read.map(|mark| mark.1).min());
            marks.retain(|(id, _)| !gone.contains(id));
            // Where every source of the new run has been read at least so far, so has the run.
            if let (Some(id), Some(place)) = (new_run, first)
                && sources == gone.len()
            {
                marks.push((id, place));
            }
            !marks.is_empty()
        });
    }

    /// What has been read of the runs, for a merge to leave out. To be asked when `freeze` has been
    /// called: whatever was read is stale, or among the frozen entries, which are in every checkpoint
    /// from then on.
    pub(crate) fn consumed(&self) -> HashMap<u64, Consumed> {
        let mut by_run: HashMap<u64, IdMap<u64>> = HashMap::new();
        for (&host, marks) in &self.marks {
            for &(id, place) in marks {
                if place > 0 {
                    by_run.entry(id).or_default().insert(host, place);
                }
            }
        }
        by_run
            .into_iter()
            .map(|(id, hosts)| (id, Arc::new(hosts)))
            .collect()
    }

    /// All entries of a host, stale ones too, in order.
    pub(crate) fn entries_of(&self, host: u64) -> Result<Vec<Candidate>> {
        let recent = self.recent.get(&host).into_iter().flatten();
        let mut all: Vec<Candidate> = recent.map(|Reverse(one)| *one).collect();
        if let Some(frozen) = &self.frozen {
            all.extend(frozen.of_host(host));
        }
        if let Some(window) = self.windows.get(&host) {
            all.extend(&window.ahead);
        }
        for run in self.runs.iter() {
            let mut cursor = Cursor::new(run.table.clone());
            let mut more = cursor.seek((host, 0))?;
            while more && cursor.key().0 == host {
                all.push(Candidate {
                    place: cursor.key().1,
                    doc: doc_of(&cursor, run)?,
                });
                more = cursor.advance()?;
            }
        }
        all.sort_unstable();
        all.dedup();
        Ok(all)
    }
}

/// Frozen entries as a sorted source, for writing them to a run.
pub(crate) fn frozen_source(frozen: Frozen) -> impl FnMut(&mut Vec<u8>) -> Option<Key> {
    let mut hosts: Vec<u64> = frozen.queues.keys().copied().collect();
    hosts.sort_unstable();
    let mut hosts = hosts.into_iter();
    let (mut host, mut next) = (0, 0);
    let mut queue: Vec<Candidate> = Vec::new();
    move |value| {
        while next == queue.len() {
            host = hosts.next()?;
            next = 0;
            queue.clear();
            queue.extend(frozen.of_host(host));
            queue.sort_unstable();
            queue.dedup();
        }
        let Candidate { place, doc } = queue[next];
        next += 1;
        value.extend_from_slice(&doc.to_le_bytes());
        Some((host, place))
    }
}

enum Source<'a> {
    Frozen(vec::IntoIter<Candidate>),
    Run {
        cursor: Option<Cursor>,
        run: &'a Run,
    },
}

impl Source<'_> {
    fn head(&self, host: u64) -> Result<Option<Candidate>> {
        match self {
            Source::Frozen(unread) => Ok(unread.as_slice().first().copied()),
            Source::Run {
                cursor: Some(cursor),
                run,
            } if cursor.key().0 == host => Ok(Some(Candidate {
                place: cursor.key().1,
                doc: doc_of(cursor, run)?,
            })),
            Source::Run { .. } => Ok(None),
        }
    }

    fn advance(&mut self) -> Result<()> {
        match self {
            Source::Frozen(unread) => {
                unread.next();
            }
            Source::Run { cursor, .. } => {
                if let Some(open) = cursor
                    && !open.advance()?
                {
                    *cursor = None;
                }
            }
        }
        Ok(())
    }
}

fn doc_of(cursor: &Cursor, run: &Run) -> Result<u64> {
    let bytes: [u8; 8] = cursor
        .value()
        .try_into()
        .map_err(|_| RegistryError::corrupt(run.table.path(), 0, "an entry is not a document"))?;
    Ok(u64::from_le_bytes(bytes))
}
