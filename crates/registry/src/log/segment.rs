//! The journal's files: frames one after the other. A torn tail is told from a damaged frame by what later frames say
//! had been synced before them.

use crate::error::{At, RegistryError, Result};
use crate::log::frame::{HEAD_BYTES, Head, Tag, payload_bytes, read_head, synced_before};
use crate::wire::{Reader, put_varint};
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{BufReader, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};

pub(crate) fn segment_path(dir: &Path, first: u64) -> PathBuf {
    dir.join(format!("{first:020}.log"))
}

/// The segments of a journal: the number of the first frame and the path, in order.
pub(crate) fn list_segments(dir: &Path) -> Result<Vec<(u64, PathBuf)>> {
    let mut segments = Vec::new();
    for item in fs::read_dir(dir).at(dir)? {
        let path = item.at(dir)?.path();
        let first = path
            .file_name()
            .and_then(|name| name.to_str())
            .and_then(|name| name.strip_suffix(".log"))
            .and_then(|stem| stem.parse().ok());
        if let Some(first) = first {
            segments.push((first, path));
        }
    }
    segments.sort();
    Ok(segments)
}

/// The last entry of each partition at some place of the journal; 0 for a partition that has none.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct Positions(BTreeMap<u16, u64>);

impl Positions {
    pub(crate) fn of(&self, partition: u16) -> u64 {
        self.0.get(&partition).copied().unwrap_or(0)
    }

    pub(crate) fn set(&mut self, partition: u16, seq: u64) {
        self.0.insert(partition, seq);
    }

    /// Is each of these partitions as far as `other` says, or further?
    pub(crate) fn reach(&self, other: &Positions) -> bool {
        self.0.iter().all(|(&id, &seq)| seq >= other.of(id))
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (u16, u64)> + '_ {
        self.0.iter().map(|(&id, &seq)| (id, seq))
    }

    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        put_varint(out, self.0.len() as u64);
        for (id, seq) in self.iter() {
            put_varint(out, u64::from(id));
            put_varint(out, seq);
        }
    }

    pub(crate) fn decode(bytes: &[u8]) -> Option<Self> {
        let reader = &mut Reader::new(bytes);
        let count: usize = reader.narrow()?;
        let read = |_| Some((reader.narrow()?, reader.varint()?));
        let positions = (0..count).map(read).collect::<Option<_>>()?;
        reader.is_empty().then_some(Self(positions))
    }
}

impl FromIterator<(u16, u64)> for Positions {
    fn from_iter<I: IntoIterator<Item = (u16, u64)>>(positions: I) -> Self {
        Self(positions.into_iter().collect())
    }
}

/// What a segment's first frame says; `None` if there is no sound one.
pub(crate) fn positions_before(first: u64, path: &Path) -> Result<Option<Positions>> {
    let mut segment = SegmentReader::open(path.to_path_buf(), first, true)?;
    let sound = segment.frame()?.filter(|head| head.tag == Tag::Positions);
    Ok(sound.and_then(|_| Positions::decode(&segment.payload)))
}

/// Reads one segment, frame by frame.
pub(crate) struct SegmentReader {
    pub(crate) path: PathBuf,
    file: BufReader<File>,
    pub(crate) file_bytes: u64,
    /// Start of the next frame.
    pub(crate) offset: u64,
    pub(crate) next_number: u64,
    pub(crate) is_last: bool,
    /// Of the frame that was read last.
    pub(crate) payload: Vec<u8>,
}

impl SegmentReader {
    pub(crate) fn open(path: PathBuf, first: u64, is_last: bool) -> Result<Self> {
        let file = File::open(&path).at(&path)?;
        let file_bytes = file.metadata().at(&path)?.len();
        Ok(Self {
            file: BufReader::with_capacity(1 << 18, file),
            path,
            file_bytes,
            offset: 0,
            next_number: first,
            is_last,
            payload: Vec::new(),
        })
    }

    /// The next frame; `None` at the end of the whole ones. An error if what follows them was whole once.
    pub(crate) fn next(&mut self) -> Result<Option<Head>> {
        if self.offset == self.file_bytes {
            return Ok(None);
        }
        let Some(head) = self.frame()? else {
            self.judge_bad_frame()?;
            return Ok(None);
        };
        self.offset += (HEAD_BYTES + self.payload.len()) as u64;
        self.next_number += 1;
        Ok(Some(head))
    }

    /// The frame at `offset`; `None` if there is no whole and sound one.
    fn frame(&mut self) -> Result<Option<Head>> {
        let left = self.file_bytes - self.offset;
        if left < HEAD_BYTES as u64 {
            return Ok(None);
        }
        let mut head = [0; HEAD_BYTES];
        self.file.read_exact(&mut head).at(&self.path)?;
        let Some(length) = payload_bytes(&head) else {
            return Ok(None);
        };
        if left < (HEAD_BYTES + length) as u64 {
            return Ok(None);
        }
        self.payload.resize(length, 0);
        self.file.read_exact(&mut self.payload).at(&self.path)?;
        let head = read_head(&head, &self.payload);
        Ok(head.filter(|head| head.number == self.next_number))
    }

    /// A bad frame is a torn tail unless it was synced once: a later segment says so, or a later
    /// sound frame of this one.
    fn judge_bad_frame(&mut self) -> Result<()> {
        let damaged = self.damaged(format!(
            "frame {} has a bad checksum or length",
            self.next_number
        ));
        if !self.is_last {
            return Err(damaged);
        }
        let (from, number) = (self.offset + 1, self.next_number);
        self.file.seek(SeekFrom::Start(from)).at(&self.path)?;
        let mut rest = Vec::new();
        // What a crawl that runs appends meanwhile is not looked at.
        let known = self.file_bytes.saturating_sub(from);
        let file = &mut self.file;
        file.take(known).read_to_end(&mut rest).at(&self.path)?;
        let mut starts = (0..rest.len()).map(|start| &rest[start..]);
        let offset = self.offset;
        let was_synced = |bytes| synced_before(bytes, number).is_some_and(|synced| synced > offset);
        if starts.any(was_synced) {
            return Err(damaged);
        }
        Ok(())
    }

    pub(crate) fn damaged(&self, what: impl Into<String>) -> RegistryError {
        RegistryError::corrupt(&self.path, self.offset, what)
    }
}
