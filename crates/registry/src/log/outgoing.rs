//! What leaves a node of a fleet: the journal, chunk by chunk, read behind the thread that commits. And what comes back:
//! how far each partition is settled, that is, shipped with all its forwards acknowledged.

use crate::error::{At, Result};
use crate::log::chunk::{Chunk, bytes_up_to, holds_a_frame};
use crate::log::journal::Durable;
use crate::log::segment::{list_segments, segment_path};
use portolan_model::PartitionId;
use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Shared by who commits and who ships.
#[derive(Debug, Default)]
pub(crate) struct Outgoing {
    /// Where the whole commits end.
    committed: Mutex<Committed>,
    /// Frames up to this number are shipped: no segment goes before.
    shipped: AtomicU64,
    durables: Mutex<BTreeMap<PartitionId, Arc<Durable>>>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Committed {
    /// The number of the last frame.
    frame: u64,
    /// The number of the first frame of the segment that it is in, and that segment's length.
    segment: u64,
    bytes: u64,
    /// Bytes of the segments from the one on that was last when the registry was opened.
    grown: u64,
    /// That segment.
    first_segment: u64,
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Outgoing {
    pub(crate) fn new(shipped: u64, durables: BTreeMap<PartitionId, Arc<Durable>>) -> Self {
        Self {
            committed: Mutex::default(),
            shipped: AtomicU64::new(shipped),
            durables: Mutex::new(durables),
        }
    }

    pub(super) fn note_commit(&self, frame: u64, segment: u64, bytes: u64) {
        let mut committed = locked(&self.committed);
        let before = match committed.segment == segment {
            true => committed.bytes,
            false => 0,
        };
        *committed = Committed {
            frame,
            segment,
            bytes,
            grown: committed.grown + bytes.saturating_sub(before),
            first_segment: match committed.grown {
                0 => segment,
                _ => committed.first_segment,
            },
        };
    }

    pub(super) fn shipped(&self) -> u64 {
        self.shipped.load(Ordering::Acquire)
    }

    pub(super) fn add(&self, id: PartitionId, durable: Arc<Durable>) {
        locked(&self.durables).insert(id, durable);
    }

    pub(super) fn remove(&self, id: PartitionId) {
        locked(&self.durables).remove(&id);
    }
}

/// Tells the registry what has become of its journal outside. Made by `Registry::open` in a fleet.
#[derive(Clone, Debug)]
pub struct Settler {
    outgoing: Arc<Outgoing>,
}

impl Settler {
    pub(crate) fn new(outgoing: Arc<Outgoing>) -> Self {
        Self { outgoing }
    }

    /// Frames of the journal up to this number are shipped.
    pub fn note_shipped(&self, frame: u64) {
        self.outgoing.shipped.fetch_max(frame, Ordering::AcqRel);
    }

    /// Entries of a partition up to `seq` are shipped, and all that they forward has been acknowledged: checkpoints may
    /// hold them.
    pub fn settle(&self, partition: PartitionId, seq: u64) {
        if let Some(durable) = locked(&self.outgoing.durables).get(&partition) {
            durable.settle(seq);
        }
    }

    /// The journal's last frame.
    pub fn committed(&self) -> u64 {
        locked(&self.outgoing.committed).frame
    }

    /// Has a partition write a checkpoint as soon as it can, if anything was folded since the last one.
    pub fn ask_for_checkpoint(&self, partition: PartitionId) {
        if let Some(durable) = locked(&self.outgoing.durables).get(&partition) {
            durable.ask_for_checkpoint();
        }
    }

    /// The last entry of a partition that is in a checkpoint on this disk.
    pub fn checkpointed(&self, partition: PartitionId) -> u64 {
        let durables = locked(&self.outgoing.durables);
        durables
            .get(&partition)
            .map_or(0, |durable| durable.checkpointed())
    }

    /// How far a partition is settled.
    pub fn settled(&self, partition: PartitionId) -> u64 {
        let durables = locked(&self.outgoing.durables);
        durables
            .get(&partition)
            .map_or(0, |durable| durable.settled())
    }
}

/// Reads the journal in chunks, from its first segment on, up to what is committed or to what is shipped.
#[derive(Debug)]
pub struct Exporter {
    dir: PathBuf,
    outgoing: Arc<Outgoing>,
    only_shipped: bool,
    /// Bytes that were read of the segments that count as grown.
    read: Arc<AtomicU64>,
    /// The segment that is read, by its first frame, and how far.
    place: Option<(u64, File, u64)>,
    /// The next frame.
    next: u64,
}

impl Exporter {
    pub(crate) fn new(dir: PathBuf, outgoing: Arc<Outgoing>) -> Self {
        Self {
            dir,
            outgoing,
            only_shipped: false,
            read: Arc::default(),
            place: None,
            next: 0,
        }
    }

    /// Another one, which reads what has been shipped and nothing else, from the journal's first segment on.
    pub fn of_shipped(&self) -> Self {
        Self {
            only_shipped: true,
            ..Self::new(self.dir.clone(), Arc::clone(&self.outgoing))
        }
    }

    /// Tells, while this one is at work elsewhere, how far it is behind.
    pub fn behind(&self) -> Behind {
        Behind {
            outgoing: Arc::clone(&self.outgoing),
            read: Arc::clone(&self.read),
        }
    }

    /// The next whole commits, about `bytes` of them but at least one. Frames that were shipped before the registry was
    /// opened come first, and in chunks of their own: their forwards may not have arrived. `None` if all has been read.
    pub fn next(&mut self, bytes: usize) -> Result<Option<Chunk>> {
        loop {
            let committed = *locked(&self.outgoing.committed);
            if self.next > committed.frame {
                // Segments that went before they were read, because nobody needs them, are not behind either.
                self.read.fetch_max(committed.grown, Ordering::Relaxed);
                return Ok(None);
            }
            if self.place.is_none() && !self.open_segment()? {
                return Ok(None);
            }
            let Some((first, file, offset)) = &mut self.place else {
                return Ok(None);
            };
            let path = segment_path(&self.dir, *first);
            let end = match *first == committed.segment {
                true => committed.bytes,
                false => file.metadata().at(&path)?.len(),
            };
            if *offset >= end {
                match *first == committed.segment {
                    true => return Ok(None),
                    false => self.place = None,
                }
                continue;
            }
            let mut wanted = (bytes.max(1) as u64).min(end - *offset);
            loop {
                let mut read = vec![0; wanted as usize];
                file.read_exact_at(&mut read, *offset).at(&path)?;
                let before = bytes_up_to(&read, self.outgoing.shipped());
                let is_all = wanted == end - *offset;
                let whole = match before {
                    // The first frame may be longer than what was read of it.
                    0 if self.only_shipped && (is_all || holds_a_frame(&read)) => return Ok(None),
                    0 if self.only_shipped => None,
                    0 => Chunk::whole_commits(&read),
                    _ => Chunk::whole_commits(&read[..before]),
                };
                if let Some(whole) = whole {
                    read.truncate(whole);
                    *offset += whole as u64;
                    if *first >= committed.first_segment {
                        self.read.fetch_add(whole as u64, Ordering::Relaxed);
                    }
                    let chunk = Chunk::read(read, &path)?;
                    self.next = chunk.frames.1 + 1;
                    return Ok(Some(chunk));
                }
                if is_all {
                    // What is damaged is told by name.
                    Chunk::read(read, &path)?;
                    return Ok(None);
                }
                wanted = wanted.saturating_mul(2).min(end - *offset);
            }
        }
    }

    /// Is anything committed that was not read yet?
    pub fn is_behind(&self) -> bool {
        self.next <= locked(&self.outgoing.committed).frame
    }

    fn open_segment(&mut self) -> Result<bool> {
        let segments = list_segments(&self.dir)?;
        let found = segments
            .into_iter()
            .find(|(first, _)| self.next == 0 || *first >= self.next);
        let Some((first, path)) = found else {
            return Ok(false);
        };
        let file = match File::open(&path) {
            // Dropped this moment: the next call finds the one after it.
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(false),
            opened => opened.at(&path)?,
        };
        self.place = Some((first, file, 0));
        self.next = self.next.max(first);
        Ok(true)
    }
}

/// How far an exporter is behind. Cheap to ask.
#[derive(Clone, Debug)]
pub struct Behind {
    outgoing: Arc<Outgoing>,
    read: Arc<AtomicU64>,
}

impl Behind {
    /// Bytes of the journal that are committed and that the exporter has not read. What the journal held when it was opened
    /// counts from its last segment on.
    pub fn bytes(&self) -> u64 {
        let grown = locked(&self.outgoing.committed).grown;
        grown.saturating_sub(self.read.load(Ordering::Relaxed))
    }
}
