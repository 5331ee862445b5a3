//! Chunks of the journal: whole commits of it, as they lie in a segment. A node of a fleet ships them; who takes a
//! partition over folds them.

use crate::error::{RegistryError, Result};
use crate::log::Entry;
use crate::log::entry::{SENT, read_outbound, read_pages};
use crate::log::frame::{HEAD_BYTES, Head, Tag, payload_bytes, read_head, read_place};
use crate::log::reader::{ArchiveEnd, read_archive_end};
use crate::log::stream::Origin;
use crate::wire::Reader;
use portolan_model::{LinkBatch, PartitionId};
use std::collections::BTreeMap;
use std::ops::Range;
use std::path::{Path, PathBuf};

/// Whole commits, one after the other.
#[derive(Clone, Debug, Default)]
pub struct Chunk {
    /// The numbers of its first frame and of its last.
    pub frames: (u64, u64),
    /// Where the archive ended when its last commit was made: file and place in it.
    pub archive_end: ArchiveEnd,
    /// By partition: the first and the last of its entries.
    pub entries: BTreeMap<PartitionId, (u64, u64)>,
    /// By partition: up to where forwards to it have been heard.
    pub cursors: BTreeMap<PartitionId, u64>,
    bytes: Vec<u8>,
    places: Vec<Place>,
    /// What it was read from, for errors.
    from: PathBuf,
}

/// Where an entry is.
#[derive(Clone, Debug)]
struct Place {
    partition: PartitionId,
    seq: u64,
    payload: Range<usize>,
}

/// Links that leave a partition for another one, as they stand in the journal: who only passes them on need not read them.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Outbound {
    pub to: PartitionId,
    pub origin: Origin,
    /// See `Forwarded::decode`.
    pub pages: Vec<u8>,
    /// Of the links' URLs.
    pub url_bytes: usize,
}

impl Outbound {
    /// As they arrive; `None` if they are not links.
    pub fn decode(&self) -> Option<Forwarded> {
        Forwarded::decode(self.to, self.origin, &self.pages)
    }
}

/// Links that have come from another partition.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Forwarded {
    pub to: PartitionId,
    pub origin: Origin,
    /// Links of one page each.
    pub pages: Vec<LinkBatch>,
}

impl Forwarded {
    /// What `Outbound` has as bytes; `None` if the bytes are not batches of links.
    pub fn decode(to: PartitionId, origin: Origin, bytes: &[u8]) -> Option<Self> {
        let reader = &mut Reader::new(bytes);
        let pages = read_pages(reader)?;
        let is_whole = reader.is_empty() && !pages.is_empty();
        is_whole.then_some(Self { to, origin, pages })
    }

    /// The entry that it makes of its destination.
    pub fn into_entry(self) -> (PartitionId, Entry) {
        (self.to, Entry::heard(self.origin, self.pages))
    }
}

impl Chunk {
    /// Reads and checks the bytes of a chunk. `from` is named where they are damaged.
    pub fn read(bytes: Vec<u8>, from: &Path) -> Result<Self> {
        let mut chunk = Self {
            from: from.to_path_buf(),
            ..Self::default()
        };
        let mut offset = 0;
        let mut whole = true;
        while offset < bytes.len() {
            let (head, payload) = frame_at(&bytes, offset)
                .ok_or_else(|| chunk.damaged(offset, "a frame is not sound"))?;
            match chunk.frames {
                (0, _) => chunk.frames.0 = head.number,
                (_, last) if head.number != last + 1 => {
                    let what = format!("frame {} follows frame {last}", head.number);
                    return Err(chunk.damaged(offset, what));
                }
                _ => {}
            }
            chunk.frames.1 = head.number;
            whole = head.tag == Tag::Commit;
            chunk
                .note(head, &bytes[payload.clone()], payload.clone())
                .ok_or_else(|| chunk.damaged(offset, "a frame cannot be read"))?;
            offset = payload.end;
        }
        if !whole {
            return Err(chunk.damaged(offset, "its last commit is not whole"));
        }
        chunk.bytes = bytes;
        Ok(chunk)
    }

    fn note(&mut self, head: Head, payload: &[u8], range: Range<usize>) -> Option<()> {
        match head.tag {
            Tag::Entry(partition) => {
                let range_of = self.entries.entry(partition);
                range_of.or_insert((head.seq, head.seq)).1 = head.seq;
                self.places.push(Place {
                    partition,
                    seq: head.seq,
                    payload: range,
                });
            }
            Tag::Cursor => {
                let (partition, cursor) = read_place(payload)?;
                self.cursors.insert(partition, cursor);
            }
            Tag::Commit => {
                self.archive_end = read_archive_end(payload)?.or(self.archive_end);
            }
            Tag::Positions | Tag::Adopted => {}
        }
        Some(())
    }

    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    pub fn into_bytes(self) -> Vec<u8> {
        self.bytes
    }

    /// The entries of a partition after `seq`, in order.
    pub fn entries_of(
        &self,
        partition: PartitionId,
        seq: u64,
    ) -> impl Iterator<Item = Result<(u64, Entry)>> {
        let places = self.places.iter();
        places
            .filter(move |place| place.partition == partition && place.seq > seq)
            .map(|place| Ok((place.seq, self.entry(place)?)))
    }

    /// What its entries send to partitions of other nodes. `of` says whose entries, and after which.
    pub fn forwards(&self, of: impl Fn(PartitionId) -> Option<u64>) -> Result<Vec<Outbound>> {
        let mut outbound = Vec::new();
        for place in &self.places {
            let payload = &self.bytes[place.payload.clone()];
            if payload.first() != Some(&SENT)
                || of(place.partition).is_none_or(|seq| place.seq <= seq)
            {
                continue;
            }
            let sent = read_outbound(payload, |to, predecessor, pages| {
                outbound.push(Outbound {
                    to,
                    origin: Origin {
                        source: place.partition,
                        number: place.seq,
                        predecessor,
                    },
                    pages: pages.bytes.to_vec(),
                    url_bytes: pages.url_bytes,
                });
            });
            sent.ok_or_else(|| self.unreadable(place))?;
        }
        Ok(outbound)
    }

    fn entry(&self, place: &Place) -> Result<Entry> {
        let entry = Entry::decode(&self.bytes[place.payload.clone()]);
        entry.ok_or_else(|| self.unreadable(place))
    }

    fn unreadable(&self, place: &Place) -> RegistryError {
        let (seq, id) = (place.seq, place.partition.0);
        let what = format!("entry {seq} of partition {id} cannot be read");
        self.damaged(place.payload.start, what)
    }

    fn damaged(&self, offset: usize, what: impl Into<String>) -> RegistryError {
        RegistryError::corrupt(&self.from, offset as u64, what)
    }

    /// How many of these bytes, which begin with a frame, are whole commits; `None` if not even one is.
    pub(super) fn whole_commits(bytes: &[u8]) -> Option<usize> {
        let (mut offset, mut whole) = (0, None);
        while let Some((head, payload)) = frame_at(bytes, offset) {
            offset = payload.end;
            if head.tag == Tag::Commit {
                whole = Some(offset);
            }
        }
        whole
    }
}

/// The frame that begins at `offset`, and where its payload is.
fn frame_at(bytes: &[u8], offset: usize) -> Option<(Head, Range<usize>)> {
    let (head, rest) = bytes.get(offset..)?.split_first_chunk::<HEAD_BYTES>()?;
    let length = payload_bytes(head)?;
    let payload = rest.get(..length)?;
    let start = offset + HEAD_BYTES;
    Some((read_head(head, payload)?, start..start + length))
}

/// Is the first frame whole?
pub(super) fn holds_a_frame(bytes: &[u8]) -> bool {
    frame_at(bytes, 0).is_some()
}

/// The numbers of the first frames in `bytes` are skipped up to and with `last`; how many bytes these take.
pub(super) fn bytes_up_to(bytes: &[u8], last: u64) -> usize {
    let mut offset = 0;
    while let Some((head, payload)) = frame_at(bytes, offset)
        && head.number <= last
    {
        offset = payload.end;
    }
    offset
}
