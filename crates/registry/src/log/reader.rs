//! Reading the journal, commit by commit. What is not followed by its commit's mark never happened.

use crate::error::{RegistryError, Result};
use crate::log::Entry;
use crate::log::frame::{Tag, read_place};
use crate::log::segment::{Positions, SegmentReader, list_segments, positions_before};
use crate::wire::{Reader, put_varint};
use portolan_model::PartitionId;
use std::collections::BTreeMap;
use std::ops::Range;
use std::path::{Path, PathBuf};

/// Where records end that are named by entries of the journal: the archive's file and the place in it.
pub(crate) type ArchiveEnd = Option<(u32, u64)>;

/// The payload of a commit's mark.
pub(crate) fn put_archive_end(out: &mut Vec<u8>, end: ArchiveEnd) {
    out.push(u8::from(end.is_some()));
    if let Some((file, offset)) = end {
        put_varint(out, u64::from(file));
        put_varint(out, offset);
    }
}

pub(super) fn read_archive_end(bytes: &[u8]) -> Option<ArchiveEnd> {
    let reader = &mut Reader::new(bytes);
    let end = match reader.byte()? {
        0 => None,
        1 => Some((reader.narrow()?, reader.varint()?)),
        _ => return None,
    };
    reader.is_empty().then_some(end)
}

/// Entries that became durable together.
#[derive(Debug, Default)]
pub(crate) struct Commit {
    path: PathBuf,
    frames: Vec<EntryFrame>,
    /// Of all frames.
    payloads: Vec<u8>,
}

#[derive(Debug)]
struct EntryFrame {
    partition: PartitionId,
    seq: u64,
    offset: u64,
    payload: Range<usize>,
}

impl Commit {
    /// The entries of partitions that `wanted` names with the last entry that they know already, in order.
    pub(crate) fn entries(
        &self,
        wanted: impl Fn(PartitionId) -> Option<u64>,
    ) -> impl Iterator<Item = Result<(PartitionId, u64, Entry)>> {
        let news = move |frame: &&EntryFrame| {
            wanted(frame.partition).is_some_and(|known| frame.seq > known)
        };
        self.frames.iter().filter(news).map(|frame| {
            let entry = Entry::decode(&self.payloads[frame.payload.clone()]);
            let (id, seq) = (frame.partition, frame.seq);
            let entry = entry.ok_or_else(|| {
                let what = format!("entry {seq} of partition {} cannot be read", id.0);
                RegistryError::corrupt(&self.path, frame.offset, what)
            })?;
            Ok((id, seq, entry))
        })
    }
}

/// Where the whole commits of a journal end.
#[derive(Clone, Debug, Default)]
pub(crate) struct JournalEnd {
    /// The last segment and the length of its whole commits; `None` for a journal without segments.
    pub(crate) segment: Option<(PathBuf, u64)>,
    /// The number of the next frame.
    pub(crate) next_number: u64,
    /// The last entry of each partition.
    pub(crate) positions: Positions,
    pub(crate) archive_end: ArchiveEnd,
    /// Bytes behind the last whole commit: what a crash cut off.
    pub(crate) torn_bytes: u64,
    /// Bytes of the commits that were read.
    pub(crate) read_bytes: u64,
}

impl JournalEnd {
    /// A checkpoint is committed only after the entries that it holds, so a journal that ends before has lost its end.
    /// Its next entries would bear numbers that count as folded.
    pub(crate) fn refuse_if_short(&self, dir: &Path, known: &Positions) -> Result<()> {
        let ahead = |&(id, seq): &(u16, u64)| seq > self.positions.of(id);
        let Some((id, seq)) = known.iter().find(ahead) else {
            return Ok(());
        };
        let last = self.positions.of(id);
        let what = format!(
            "the journal ends with entry {last} of partition {id}, but entry {seq} was in it: its end is missing"
        );
        let segment = self.segment.as_ref();
        let (path, offset) = segment.map_or((dir, 0), |(path, length)| (path, *length));
        Err(RegistryError::corrupt(path, offset, what))
    }
}

pub(crate) struct JournalReader {
    segments: std::vec::IntoIter<(u64, PathBuf)>,
    current: Option<SegmentReader>,
    end: JournalEnd,
}

impl JournalReader {
    /// What follows the entries of `known`, for the partitions that it names: from the last segment on that begins early
    /// enough for all of them.
    pub(crate) fn open(dir: &Path, known: &Positions) -> Result<Self> {
        let mut segments = list_segments(dir)?;
        let mut start = segments.len();
        let mut earliest = None;
        while start > 0 {
            start -= 1;
            let (first, path) = &segments[start];
            // One that cannot be read is no place to begin.
            let Some(before) = positions_before(*first, path)? else {
                earliest = None;
                continue;
            };
            if known.reach(&before) {
                earliest = None;
                break;
            }
            earliest = Some((before, path.clone()));
        }
        if let Some((before, path)) = earliest {
            return Err(missing(&path, &before, known));
        }
        Ok(Self::read(segments.split_off(start)))
    }

    /// From the first segment that there is on, also where a checkpoint has made it superfluous.
    pub(crate) fn open_all(dir: &Path, known: &Positions) -> Result<Self> {
        let segments = list_segments(dir)?;
        if let Some((first, path)) = segments.first()
            && let Some(before) = positions_before(*first, path)?
            && !known.reach(&before)
        {
            return Err(missing(path, &before, known));
        }
        Ok(Self::read(segments))
    }

    fn read(segments: Vec<(u64, PathBuf)>) -> Self {
        let next_number = segments.first().map_or(1, |(first, _)| *first);
        Self {
            segments: segments.into_iter(),
            current: None,
            end: JournalEnd {
                next_number,
                ..JournalEnd::default()
            },
        }
    }

    /// The next commit; `None` at the end of the whole ones.
    pub(crate) fn next(&mut self) -> Result<Option<Commit>> {
        loop {
            if self.current.is_none() && !self.begin_segment()? {
                return Ok(None);
            }
            let Some(segment) = &mut self.current else {
                continue;
            };
            let commit = read_commit(segment, &mut self.end)?;
            if commit.is_some() {
                return Ok(commit);
            }
            self.current = None;
        }
    }

    /// False if there is none left.
    fn begin_segment(&mut self) -> Result<bool> {
        let Some((first, path)) = self.segments.next() else {
            return Ok(false);
        };
        let expected = self.end.next_number;
        if first != expected {
            let what = format!("frames from {expected} to {first} are missing before it");
            return Err(RegistryError::corrupt(&path, 0, what));
        }
        let is_last = self.segments.as_slice().is_empty();
        self.end.segment = Some((path.clone(), 0));
        self.current = Some(SegmentReader::open(path, first, is_last)?);
        Ok(true)
    }

    /// Valid once `next` has returned `None`.
    pub(crate) fn end(self) -> JournalEnd {
        self.end
    }
}

fn missing(path: &Path, before: &Positions, known: &Positions) -> RegistryError {
    let behind = known.iter().find(|(id, seq)| *seq < before.of(*id));
    let (id, seq) = behind.unwrap_or_default();
    let (from, to) = (seq + 1, before.of(id));
    let what = format!("entries from {from} to {to} of partition {id} are missing before it");
    RegistryError::corrupt(path, 0, what)
}

/// Frames up to the next mark; `None` if no mark follows: a torn tail, if this is where the journal ends.
fn read_commit(segment: &mut SegmentReader, end: &mut JournalEnd) -> Result<Option<Commit>> {
    let begun = segment.offset;
    let mut commit = Commit::default();
    let mut seqs: BTreeMap<u16, u64> = BTreeMap::new();
    loop {
        let offset = segment.offset;
        let Some(head) = segment.next()? else {
            end.torn_bytes = segment.file_bytes - begun;
            if end.torn_bytes > 0 && !segment.is_last {
                return Err(segment.damaged("the mark of the last commit is missing"));
            }
            return Ok(None);
        };
        let unreadable = || segment.damaged(format!("frame {} cannot be read", head.number));
        match head.tag {
            Tag::Positions => {
                let positions = Positions::decode(&segment.payload).ok_or_else(unreadable)?;
                let is_first = end.read_bytes == 0;
                // A partition that was released is not named any longer.
                let goes_on = |(id, seq)| seq == end.positions.of(id);
                if offset != 0 || !(is_first || positions.iter().all(goes_on)) {
                    return Err(segment.damaged("it does not go on where the one before ends"));
                }
                end.positions = positions;
            }
            Tag::Entry(partition) => {
                let last = seqs.entry(partition.0);
                let last = last.or_insert_with(|| end.positions.of(partition.0));
                if head.seq != *last + 1 {
                    let (seq, id) = (head.seq, partition.0);
                    let what = format!(
                        "entry {seq} of partition {id} stands where {} belongs",
                        *last + 1
                    );
                    return Err(segment.damaged(what));
                }
                *last = head.seq;
                let from = commit.payloads.len();
                commit.payloads.extend_from_slice(&segment.payload);
                commit.frames.push(EntryFrame {
                    partition,
                    seq: head.seq,
                    offset,
                    payload: from..commit.payloads.len(),
                });
            }
            Tag::Adopted => {
                let (id, seq) = read_place(&segment.payload).ok_or_else(unreadable)?;
                seqs.insert(id.0, seq);
            }
            Tag::Cursor => {
                read_place(&segment.payload).ok_or_else(unreadable)?;
            }
            Tag::Commit => {
                let archive_end = read_archive_end(&segment.payload).ok_or_else(unreadable)?;
                end.archive_end = archive_end;
                break;
            }
        }
    }
    for (id, seq) in seqs {
        end.positions.set(id, seq);
    }
    end.next_number = segment.next_number;
    end.read_bytes += segment.offset - begun;
    end.segment = Some((segment.path.clone(), segment.offset));
    commit.path.clone_from(&segment.path);
    Ok(Some(commit))
}
