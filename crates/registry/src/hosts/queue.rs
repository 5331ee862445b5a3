//! Which hosts have due URLs, and when each may be asked next. At most `max_hosts` are in RAM; the
//! rest wait in a file, first in, first out. Times of hosts that waited there are asked of the host
//! table.

use crate::by_id::IdSet;
use crate::error::{At, Result};
use crate::files::no_links;
use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::path::PathBuf;

/// Hosts that pass through RAM on their way to the file or back.
const SPILL_BUFFER_HOSTS: usize = 4096;
/// Remembered as being in the file, so that each new URL of such a host does not add it again.
const RECENTLY_SPILLED: usize = 1 << 14;

#[derive(Debug)]
pub(crate) struct HostQueue {
    heap: BinaryHeap<Reverse<(Slot, u64)>>,
    queued: IdSet,
    /// Those among `queued` that rest because they failed.
    failing: usize,
    max_hosts: usize,
    spill: Spill,
}

/// When a host may be asked, and in the lowest bit whether it rests because it failed.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
struct Slot(u64);

impl Slot {
    fn new(not_before_ms: u64, failing: bool) -> Self {
        Self(not_before_ms.min(u64::MAX >> 1) << 1 | u64::from(failing))
    }

    fn not_before_ms(self) -> u64 {
        self.0 >> 1
    }

    fn is_failing(self) -> bool {
        self.0 & 1 == 1
    }
}

impl HostQueue {
    pub(crate) fn new(spill_path: PathBuf, max_hosts: usize) -> Self {
        Self {
            heap: BinaryHeap::new(),
            queued: IdSet::default(),
            failing: 0,
            max_hosts,
            spill: Spill::new(spill_path),
        }
    }

    /// Queues a host unless it is queued. With `not_before_ms` too early nothing is lost: who takes
    /// the host looks again.
    pub(crate) fn offer(&mut self, host: u64, not_before_ms: u64, failing: bool) -> Result<()> {
        if self.queued.contains(&host) {
            return Ok(());
        }
        if self.queued.len() >= self.max_hosts {
            return self.spill.push(host);
        }
        self.queued.insert(host);
        self.failing += usize::from(failing);
        let slot = Slot::new(not_before_ms, failing);
        self.heap.push(Reverse((slot, host)));
        Ok(())
    }

    /// Takes the host that is due first, if its time has come.
    pub(crate) fn pop(&mut self, now_ms: u64) -> Option<u64> {
        let &Reverse((slot, host)) = self.heap.peek()?;
        if slot.not_before_ms() > now_ms {
            return None;
        }
        self.heap.pop();
        self.failing -= usize::from(slot.is_failing());
        self.queued.remove(&host);
        Some(host)
    }

    /// Takes a host that waits outside of RAM.
    pub(crate) fn pop_spilled(&mut self) -> Result<Option<u64>> {
        loop {
            match self.spill.pop()? {
                Some(host) if self.queued.contains(&host) => {}
                host => return Ok(host),
            }
        }
    }

    /// Back to the end of those outside of RAM, or into RAM where there is room.
    pub(crate) fn has_room(&self) -> bool {
        self.queued.len() < self.max_hosts
    }

    pub(crate) fn has_spilled(&self) -> bool {
        self.spill.waiting > 0
    }

    pub(crate) fn next_due_ms(&self) -> Option<u64> {
        if self.has_spilled() && self.has_room() {
            return Some(0);
        }
        self.heap
            .peek()
            .map(|Reverse((slot, _))| slot.not_before_ms())
    }

    /// Hosts that rest because they failed.
    pub(crate) fn failing(&self) -> usize {
        self.failing
    }

    pub(crate) fn len(&self) -> usize {
        self.queued.len() + self.spill.waiting as usize
    }

    pub(crate) fn ram_bytes(&self) -> usize {
        self.heap.capacity() * 16 + self.queued.capacity() * 10 + self.spill.ram_bytes()
    }
}

/// A first-in-first-out file, empty at opening: what it holds can be told from the host table.
#[derive(Debug)]
struct Spill {
    path: PathBuf,
    file: Option<File>,
    read: u64,
    written: u64,
    /// Read from the file, to be taken next.
    head: VecDeque<u64>,
    /// To be written to the file.
    tail: Vec<u64>,
    waiting: u64,
    recent: Vec<u64>,
}

impl Spill {
    fn new(path: PathBuf) -> Self {
        Self {
            path,
            file: None,
            read: 0,
            written: 0,
            head: VecDeque::new(),
            tail: Vec::new(),
            waiting: 0,
            recent: Vec::new(),
        }
    }

    fn ram_bytes(&self) -> usize {
        8 * (self.head.capacity() + self.tail.capacity() + self.recent.capacity())
    }

    fn slot(host: u64) -> usize {
        (host >> 8) as usize % RECENTLY_SPILLED
    }

    fn push(&mut self, host: u64) -> Result<()> {
        if self.recent.is_empty() {
            self.recent.resize(RECENTLY_SPILLED, 0);
        }
        let slot = &mut self.recent[Self::slot(host)];
        if *slot == host {
            return Ok(());
        }
        *slot = host;
        self.tail.push(host);
        self.waiting += 1;
        if self.tail.len() >= SPILL_BUFFER_HOSTS {
            let file = match &self.file {
                Some(file) => file,
                None => {
                    let file = no_links()
                        .read(true)
                        .write(true)
                        .create(true)
                        .truncate(true)
                        .open(&self.path)
                        .at(&self.path)?;
                    // Nobody else needs its name.
                    fs::remove_file(&self.path).at(&self.path)?;
                    self.file.insert(file)
                }
            };
            let bytes: Vec<u8> = self.tail.drain(..).flat_map(u64::to_le_bytes).collect();
            file.write_all_at(&bytes, self.written).at(&self.path)?;
            self.written += bytes.len() as u64;
        }
        Ok(())
    }

    fn pop(&mut self) -> Result<Option<u64>> {
        if self.head.is_empty() {
            match &self.file {
                Some(file) if self.read < self.written => {
                    let left = (self.written - self.read) as usize;
                    let mut bytes = vec![0; left.min(SPILL_BUFFER_HOSTS * 8)];
                    file.read_exact_at(&mut bytes, self.read).at(&self.path)?;
                    self.read += bytes.len() as u64;
                    if self.read == self.written {
                        (self.read, self.written) = (0, 0);
                        file.set_len(0).at(&self.path)?;
                    }
                    let words = bytes.chunks_exact(8);
                    self.head
                        .extend(words.filter_map(|w| w.try_into().ok().map(u64::from_le_bytes)));
                }
                _ => self.head.extend(self.tail.drain(..)),
            }
        }
        let host = self.head.pop_front();
        if let Some(host) = host {
            self.waiting -= 1;
            let slot = &mut self.recent[Self::slot(host)];
            if *slot == host {
                *slot = 0;
            }
        }
        Ok(host)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_beyond_the_limit_come_back_in_order_and_once() {
        let dir = tempfile::tempdir().unwrap();
        let mut queue = HostQueue::new(dir.path().join("spill"), 10);
        let hosts: Vec<u64> = (1..=20_000u64).map(|n| n << 32 | n).collect();
        for &host in &hosts {
            queue.offer(host, 5, false).unwrap();
            queue.offer(host, 5, false).unwrap();
        }
        assert_eq!(queue.pop(4), None);
        let mut taken: Vec<u64> = std::iter::from_fn(|| queue.pop(5)).collect();
        assert_eq!(taken.len(), 10);
        while let Some(host) = queue.pop_spilled().unwrap() {
            taken.push(host);
        }
        taken.sort_unstable();
        taken.dedup();
        assert_eq!(taken, hosts);
        assert!(!queue.has_spilled());
    }

    #[test]
    fn hosts_that_failed_are_counted_while_they_are_queued() {
        let dir = tempfile::tempdir().unwrap();
        let mut queue = HostQueue::new(dir.path().join("spill"), 10);
        queue.offer(1, 50, true).unwrap();
        queue.offer(2, 40, false).unwrap();
        queue.offer(1, 10, false).unwrap();
        assert_eq!((queue.len(), queue.failing()), (2, 1));
        assert_eq!(queue.next_due_ms(), Some(40));
        assert_eq!(queue.pop(60), Some(2));
        assert_eq!((queue.len(), queue.failing()), (1, 1));
        assert_eq!(queue.pop(60), Some(1));
        assert_eq!((queue.len(), queue.failing()), (0, 0));
    }
}
