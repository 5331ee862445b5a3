//! The sub-queues of all hosts: entries (host, place, document), the newest in RAM, the rest in
//! sorted runs that are read a few entries at a time. Entries may be stale: whoever takes one asks
//! the URL's record. Not when a host is due; that is the host queue's.
//!
//! How far a host's queue has been read is a *bookmark*: the first place not read yet. Those of hosts that had a turn
//! lately are in RAM, and hold for all runs and for what is being written to one. When RAM is written, they become entries of the
//! new run, and hold for the older ones. So a turn costs the same however many of its host's URLs have been taken
//! before, and merges leave out what was.

use crate::by_id::IdMap;
use crate::error::{RegistryError, Result};
use crate::files::{Combining, Cursor, Key, Kind, Run, Runs, Shape, number_of};
use crate::settings::Limits;
use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::path::Path;
use std::sync::Arc;
use std::vec;

pub(crate) const ENTRIES: Shape = Shape {
    wide: true,
    value_bytes: Some(8),
};

/// RAM of one entry: 16 bytes in a heap that is three quarters full.
pub(crate) const FRONTIER_ENTRY_BYTES: usize = 22;
/// A host's heap takes as much as this many entries.
const HEAP_ENTRIES: usize = 2;
/// Entries read ahead for a host that has no window to keep them in: what is left of them when its turn ends is
/// read again in its next.
const PREFETCH_UNKEPT: usize = 4;
/// The place of a run's bookmarks: no URL has it, as arrivals are counted from 1.
const BOOKMARK: u64 = 0;
/// RAM of one host's bookmark.
pub(crate) const BOOKMARK_BYTES: usize = 32;

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
    /// For a host: the first place not read yet of runs and frozen entries. A hint: without it, entries are read again
    /// and found stale.
    bookmarks: IdMap<u64>,
    prefetch: usize,
    max_windows: usize,
    max_bookmarks: usize,
}

#[derive(Debug, Clone)]
pub(crate) struct Frozen {
    queues: Arc<Queues>,
    /// Entries in the queues.
    queued: usize,
    /// They hold for all runs.
    bookmarks: Arc<IdMap<u64>>,
}

impl Frozen {
    /// An upper bound of the number of hosts that have entries or a bookmark.
    pub(crate) fn hosts(&self) -> usize {
        self.queues.len() + self.bookmarks.len()
    }

    fn of_host(&self, host: u64) -> impl Iterator<Item = Candidate> {
        let queue = self.queues.get(&host).into_iter().flatten();
        queue.map(|Reverse(one)| *one)
    }
}

#[derive(Debug, Default)]
struct Window {
    ahead: VecDeque<Candidate>,
    /// Runs and frozen entries have no more for this host.
    drained: bool,
}

impl Frontier {
    pub(crate) fn open(dir: &Path, run_ids: &[u64], limits: &Limits) -> Result<Self> {
        let kind = Kind {
            name: "due",
            shape: ENTRIES,
            combining: Combining::Bookmarks,
            filter_bytes: limits.due_filter_bytes,
            // Filters tell hosts. A guess: there may be more with few entries, or bookmarks alone.
            entries_per_filter_key: 4,
            fan_in: 3,
        };
        Ok(Self {
            recent: IdMap::default(),
            recent_entries: 0,
            frozen: None,
            runs: Runs::open(dir, kind, run_ids)?,
            windows: IdMap::default(),
            bookmarks: IdMap::default(),
            prefetch: limits.prefetch_urls,
            max_windows: limits.windows,
            max_bookmarks: limits.bookmarks,
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

    /// Hosts that something was read for since RAM was written.
    pub(crate) fn bookmarks(&self) -> usize {
        self.bookmarks.len()
    }

    pub(crate) fn ram_bytes(&self) -> usize {
        let ahead: usize = self
            .windows
            .values()
            .map(|window| 64 + window.ahead.capacity() * size_of::<Candidate>())
            .sum();
        let frozen = self.frozen.as_ref();
        let (frozen, bookmarks) = frozen.map_or((0, 0), |frozen| {
            let queued = frozen.queued + HEAP_ENTRIES * frozen.queues.len();
            (queued, frozen.bookmarks.len())
        });
        (self.recent() + frozen) * FRONTIER_ENTRY_BYTES
            + self.runs.ram_bytes()
            + ahead
            + (self.bookmarks.len() + bookmarks) * BOOKMARK_BYTES
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

    /// What was read ahead but not taken is to be read again.
    pub(crate) fn close_window(&mut self, host: u64) {
        if let Some(window) = self.windows.remove(&host)
            && let Some(first) = window.ahead.front()
            && let Some(bookmark) = self.bookmarks.get_mut(&host)
        {
            *bookmark = first.place.min(*bookmark);
        }
    }

    /// Reads the next few entries of the host from frozen entries and runs, in queue order.
    fn refill(&mut self, host: u64) -> Result<()> {
        let prefetch = if self.windows.len() > self.max_windows {
            self.prefetch.min(PREFETCH_UNKEPT)
        } else {
            self.prefetch
        };
        let mut bookmark = self.bookmarks.get(&host).copied().unwrap_or(BOOKMARK + 1);
        let mut sources = Vec::with_capacity(self.runs.len() + 1);
        if let Some(frozen) = &self.frozen {
            let unread = frozen.of_host(host).filter(|one| one.place >= bookmark);
            let mut unread: Vec<Candidate> = unread.collect();
            // One host may have all entries; `prefetch` of them are enough for now.
            if unread.len() > prefetch {
                unread.select_nth_unstable(prefetch - 1);
                unread.truncate(prefetch);
            }
            unread.sort_unstable();
            sources.push(Source::Frozen(unread.into_iter()));
            let for_runs = frozen.bookmarks.get(&host).copied();
            bookmark = bookmark.max(for_runs.unwrap_or(0));
        }
        for run in self.runs.iter() {
            if !run.table.filter().may_hold(host) {
                continue;
            }
            let mut cursor = Cursor::new(run.table.clone());
            let mut found = cursor.seek((host, BOOKMARK))?;
            let for_older = match found && cursor.key() == (host, BOOKMARK) {
                true => number(cursor.value(), run)?,
                false => 0,
            };
            found = found && cursor.seek((host, bookmark))?;
            if found && cursor.key().0 == host {
                sources.push(Source::Run { cursor, run });
            }
            bookmark = bookmark.max(for_older);
        }
        let mut ahead = VecDeque::new();
        while ahead.len() < prefetch {
            let mut best: Option<(usize, Candidate)> = None;
            for (index, source) in sources.iter().enumerate() {
                if let Some(candidate) = source.head()?
                    && best.is_none_or(|(_, other)| candidate < other)
                {
                    best = Some((index, candidate));
                }
            }
            let Some((index, candidate)) = best else {
                break;
            };
            if !sources[index].advance(host)? {
                sources.swap_remove(index);
            }
            ahead.push_back(candidate);
        }
        let drained = ahead.len() < prefetch;
        if let Some(last) = ahead.back() {
            if self.bookmarks.len() >= 2 * self.max_bookmarks {
                // They should have been written long ago.
                self.bookmarks.clear();
            }
            self.bookmarks.insert(host, last.place + 1);
        }
        let window = self.windows.entry(host).or_default();
        window.ahead.extend(ahead);
        window.drained = drained;
        Ok(())
    }

    /// Everything in RAM becomes a source that the caller writes to a run, with `taken`: entries out of
    /// the frontier (host, place, document) whose fate is not known yet. Sorting is left to the writing.
    pub(crate) fn freeze(&mut self, taken: impl Iterator<Item = (u64, u64, u64)>) -> Frozen {
        // What is frozen may stand before what was read ahead.
        let hosts: Vec<u64> = self.windows.keys().copied().collect();
        for host in hosts {
            self.close_window(host);
        }
        for (host, place, doc) in taken {
            self.push(host, place, doc);
        }
        let frozen = Frozen {
            queues: Arc::new(std::mem::take(&mut self.recent)),
            queued: std::mem::take(&mut self.recent_entries),
            bookmarks: Arc::new(std::mem::take(&mut self.bookmarks)),
        };
        self.frozen = Some(frozen.clone());
        frozen
    }

    /// The frozen entries are in a run now, unless there were none. Freeing them takes its time.
    pub(crate) fn thaw(&mut self) -> Option<Frozen> {
        self.frozen.take()
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
            let mut more = cursor.seek((host, BOOKMARK + 1))?;
            while more && cursor.key().0 == host {
                all.push(Candidate {
                    place: cursor.key().1,
                    doc: number(cursor.value(), run)?,
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
    let queued = frozen.queues.keys().copied();
    let mut hosts: Vec<u64> = queued.chain(frozen.bookmarks.keys().copied()).collect();
    hosts.sort_unstable();
    hosts.dedup();
    let mut hosts = hosts.into_iter();
    let (mut host, mut next) = (0, 0);
    let mut queue: Vec<Candidate> = Vec::new();
    move |value| {
        while next == queue.len() {
            host = hosts.next()?;
            next = 0;
            queue.clear();
            queue.extend(frozen.of_host(host));
            // A bookmark, as if it were a document.
            queue.extend(frozen.bookmarks.get(&host).map(|&doc| Candidate {
                place: BOOKMARK,
                doc,
            }));
            queue.sort_unstable();
            queue.dedup();
        }
        let Candidate { place, doc } = queue[next];
        next += 1;
        value.extend_from_slice(&doc.to_le_bytes());
        Some((host, place))
    }
}

/// What there is of one host.
enum Source<'a> {
    Frozen(vec::IntoIter<Candidate>),
    Run { cursor: Cursor, run: &'a Run },
}

impl Source<'_> {
    fn head(&self) -> Result<Option<Candidate>> {
        match self {
            Source::Frozen(unread) => Ok(unread.as_slice().first().copied()),
            Source::Run { cursor, run } => Ok(Some(Candidate {
                place: cursor.key().1,
                doc: number(cursor.value(), run)?,
            })),
        }
    }

    /// False if it has no more of the host.
    fn advance(&mut self, host: u64) -> Result<bool> {
        match self {
            Source::Frozen(unread) => {
                unread.next();
                Ok(true)
            }
            Source::Run { cursor, .. } => Ok(cursor.advance()? && cursor.key().0 == host),
        }
    }
}

/// A document, or the place of a bookmark.
fn number(value: &[u8], run: &Run) -> Result<u64> {
    number_of(value)
        .ok_or_else(|| RegistryError::corrupt(run.table.path(), 0, "an entry is not a document"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings::RegistrySettings;
    use std::sync::atomic::AtomicBool;

    const HOST: u64 = 77;
    const URLS: u64 = 1_000;

    fn open(dir: &Path, run_ids: &[u64]) -> Frontier {
        let limits = Limits::of(&RegistrySettings::default());
        Frontier::open(dir, run_ids, &limits).unwrap()
    }

    /// Has what is in RAM written to a run.
    fn write(frontier: &mut Frontier, id: u64) {
        let frozen = frontier.freeze(std::iter::empty());
        let plan = frontier.runs.plan(frozen.hosts(), id);
        let written = plan.write(frozen_source(frozen)).unwrap();
        drop(frontier.thaw());
        frontier.runs.install(written).unwrap();
    }

    fn merge(frontier: &mut Frontier, id: u64) {
        let plan = frontier.runs.plan_compaction(id).unwrap();
        let written = plan.merge(&AtomicBool::new(false)).unwrap();
        frontier.runs.install(written).unwrap();
    }

    fn take(frontier: &mut Frontier, number: u64) -> Vec<u64> {
        let mut taken = || frontier.pop(HOST).unwrap().map(|candidate| candidate.doc);
        (0..number).map_while(|_| taken()).collect()
    }

    #[test]
    fn what_was_taken_is_not_read_again_after_a_stop() {
        let dir = tempfile::tempdir().unwrap();
        let mut frontier = open(dir.path(), &[]);
        // At places 1 to 1000, a neighbour on each side.
        for doc in 1..=URLS {
            frontier.push(HOST, doc, doc);
            frontier.push(HOST - 1, doc, doc);
            frontier.push(HOST + 1, doc, doc);
        }
        write(&mut frontier, 1);
        let mut next = 1;
        for id in 2..20 {
            // Opened again, with nothing but the runs.
            let ids = frontier.runs.ids();
            frontier = open(dir.path(), &ids);
            let taken = take(&mut frontier, 7);
            assert_eq!(taken, (next..next + 7).collect::<Vec<_>>());
            next += 7;
            // What comes with a better place is taken first, and does not hide the rest.
            if id % 4 == 0 {
                frontier.push(HOST, 1, 5_000 + id);
                write(&mut frontier, 100 + id);
                assert_eq!(take(&mut frontier, 1), [5_000 + id]);
            }
            write(&mut frontier, id);
        }
        // A merge of the newer runs keeps the bookmark for the oldest.
        merge(&mut frontier, 50);
        assert_eq!(frontier.runs.len(), 2);
        assert_eq!(take(&mut frontier, 2), [next, next + 1]);
        frontier.close_window(HOST);
        next += 2;
        // One of all leaves out what was taken, and the bookmarks.
        for doc in 1..=2 * URLS {
            frontier.push(HOST + 2, doc, doc);
        }
        write(&mut frontier, 51);
        merge(&mut frontier, 52);
        let entries: u64 = frontier.runs.iter().map(|run| run.table.entries()).sum();
        assert_eq!(frontier.runs.len(), 1);
        assert_eq!(entries, 5 * URLS - (next - 1));
        assert_eq!(take(&mut frontier, URLS), (next..=URLS).collect::<Vec<_>>());
    }

    #[test]
    fn what_was_read_ahead_but_not_taken_is_read_again() {
        let dir = tempfile::tempdir().unwrap();
        let mut frontier = open(dir.path(), &[]);
        (1..=URLS).for_each(|doc| {
            frontier.push(HOST, doc, doc);
        });
        write(&mut frontier, 1);
        let mut taken = Vec::new();
        while taken.len() < URLS as usize {
            taken.extend(take(&mut frontier, 3));
            frontier.close_window(HOST);
            assert_eq!(frontier.recent(), 0, "entries went back to RAM");
        }
        assert_eq!(taken, (1..=URLS).collect::<Vec<_>>());
    }
}
