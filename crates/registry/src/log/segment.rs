//! Log segments on disk: frames of length, checksum, sequence number and payload. A torn tail is
//! told from a damaged frame by what later frames say had been synced before them.

use crate::error::{At, RegistryError, Result};
use crate::log::Entry;
use std::fs::{self, File};
use std::io::{BufReader, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};

/// Length, checksum, sequence number, bytes of this segment that were synced before.
pub(crate) const FRAME_HEADER_BYTES: usize = 20;
/// No entry is larger; a longer length is damage.
pub(crate) const MAX_PAYLOAD_BYTES: usize = 256 << 20;

pub(crate) fn segment_path(dir: &Path, first_seq: u64) -> PathBuf {
    dir.join(format!("{first_seq:020}.log"))
}

/// The segments of a log: first sequence number and path, in order.
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

pub(crate) fn put_frame(out: &mut Vec<u8>, seq: u64, synced: u64, entry: &Entry) {
    let start = out.len();
    out.extend_from_slice(&[0; FRAME_HEADER_BYTES]);
    entry.encode(out);
    let length = (out.len() - start - FRAME_HEADER_BYTES) as u32;
    out[start..start + 4].copy_from_slice(&length.to_le_bytes());
    out[start + 8..start + 16].copy_from_slice(&seq.to_le_bytes());
    out[start + 16..start + 20].copy_from_slice(&(synced as u32).to_le_bytes());
    let crc = crc32fast::hash(&out[start + 8..]);
    out[start + 4..start + 8].copy_from_slice(&crc.to_le_bytes());
}

/// Reads one partition's log from a position on.
pub(crate) struct LogReader {
    segments: std::vec::IntoIter<(u64, PathBuf)>,
    current: Option<SegmentReader>,
    /// The next sequence number that is wanted.
    next_seq: u64,
    end: LogEnd,
}

/// Where the whole frames of a log end.
#[derive(Clone, Debug, Default)]
pub(crate) struct LogEnd {
    /// The last segment and the length of its whole frames; `None` for a log without segments.
    pub(crate) segment: Option<(PathBuf, u64)>,
    /// The last entry; 0 for none.
    pub(crate) seq: u64,
    /// Bytes behind the last whole frame: what a crash cut off.
    pub(crate) torn_bytes: u64,
}

impl LogReader {
    /// Entries after `after_seq`. Earlier ones in the same segment are passed over.
    pub(crate) fn open(dir: &Path, after_seq: u64) -> Result<Self> {
        let mut segments = list_segments(dir)?;
        if segments.is_empty() && after_seq > 0 {
            return Err(RegistryError::corrupt(dir, 0, cut_short(0, after_seq)));
        }
        let start = segments
            .partition_point(|(first, _)| *first <= after_seq + 1)
            .saturating_sub(1);
        if let Some((first, path)) = segments.get(start)
            && *first > after_seq + 1
        {
            return Err(RegistryError::corrupt(
                path,
                0,
                format!("entries from {} to {first} are missing", after_seq + 1),
            ));
        }
        Ok(Self {
            segments: segments.split_off(start).into_iter(),
            current: None,
            next_seq: after_seq + 1,
            end: LogEnd {
                segment: None,
                seq: after_seq,
                torn_bytes: 0,
            },
        })
    }

    /// The next entry; `None` at the end of the log's whole frames.
    pub(crate) fn next(&mut self) -> Result<Option<(u64, Entry)>> {
        loop {
            if self.current.is_none() {
                let Some((first, path)) = self.segments.next() else {
                    return Ok(None);
                };
                let last = self.segments.as_slice().is_empty();
                self.current = Some(SegmentReader::open(path, first, last)?);
            }
            let Some(reader) = self.current.as_mut() else {
                continue;
            };
            match reader.next()? {
                None => {
                    // A checkpoint is committed only after the entries that it holds.
                    let last = reader.next_seq - 1;
                    if reader.last_segment && last < self.end.seq {
                        let what = cut_short(last, self.end.seq);
                        return Err(RegistryError::corrupt(&reader.path, reader.offset, what));
                    }
                    self.end.segment = Some((reader.path.clone(), reader.offset));
                    self.end.torn_bytes = reader.file_bytes - reader.offset;
                    self.current = None;
                }
                Some((seq, _)) if seq < self.next_seq => {}
                Some((seq, payload)) => {
                    if seq != self.next_seq {
                        return Err(RegistryError::corrupt(
                            &reader.path,
                            reader.offset,
                            format!("entry {seq} stands where {} belongs", self.next_seq),
                        ));
                    }
                    let entry = Entry::decode(payload).ok_or_else(|| {
                        RegistryError::corrupt(
                            &reader.path,
                            reader.offset,
                            format!("entry {seq} cannot be read"),
                        )
                    })?;
                    self.next_seq += 1;
                    self.end.seq = seq;
                    return Ok(Some((seq, entry)));
                }
            }
        }
    }

    /// Valid once `next` has returned `None`.
    pub(crate) fn end(self) -> LogEnd {
        self.end
    }
}

/// What to say of a log that is shorter than it once was.
pub(crate) fn cut_short(last: u64, known: u64) -> String {
    format!("the log ends with entry {last}, but entry {known} was in it: its end is missing")
}

struct SegmentReader {
    path: PathBuf,
    file: BufReader<File>,
    file_bytes: u64,
    /// Start of the next frame.
    offset: u64,
    next_seq: u64,
    last_segment: bool,
    payload: Vec<u8>,
}

impl SegmentReader {
    fn open(path: PathBuf, first_seq: u64, last_segment: bool) -> Result<Self> {
        let file = File::open(&path).at(&path)?;
        let file_bytes = file.metadata().at(&path)?.len();
        Ok(Self {
            file: BufReader::with_capacity(1 << 18, file),
            path,
            file_bytes,
            offset: 0,
            next_seq: first_seq,
            last_segment,
            payload: Vec::new(),
        })
    }

    fn next(&mut self) -> Result<Option<(u64, &[u8])>> {
        if self.offset == self.file_bytes {
            return Ok(None);
        }
        match self.frame()? {
            Some(length) => {
                self.offset += (FRAME_HEADER_BYTES + length) as u64;
                self.next_seq += 1;
                Ok(Some((self.next_seq - 1, &self.payload[12..])))
            }
            None => {
                self.judge_bad_frame()?;
                Ok(None)
            }
        }
    }

    /// Reads the frame at `offset`; `None` if there is no whole and sound one.
    fn frame(&mut self) -> Result<Option<usize>> {
        let left = self.file_bytes - self.offset;
        if left < FRAME_HEADER_BYTES as u64 {
            return Ok(None);
        }
        let mut word = [0; 8];
        self.file.read_exact(&mut word).at(&self.path)?;
        let length = u32::from_le_bytes([word[0], word[1], word[2], word[3]]) as usize;
        let crc = u32::from_le_bytes([word[4], word[5], word[6], word[7]]);
        if length > MAX_PAYLOAD_BYTES || left < (FRAME_HEADER_BYTES + length) as u64 {
            return Ok(None);
        }
        self.payload.resize(length + 12, 0);
        self.file.read_exact(&mut self.payload).at(&self.path)?;
        let seq = self.payload[..8].try_into().map_or(0, u64::from_le_bytes);
        Ok((crc32fast::hash(&self.payload) == crc && seq == self.next_seq).then_some(length))
    }

    /// A bad frame is a torn tail unless it was synced once: a later segment says so, or a later
    /// sound frame of this one.
    fn judge_bad_frame(&mut self) -> Result<()> {
        let damaged = RegistryError::corrupt(
            &self.path,
            self.offset,
            format!("entry {} has a bad checksum or length", self.next_seq),
        );
        if !self.last_segment {
            return Err(damaged);
        }
        self.file
            .seek(SeekFrom::Start(self.offset + 1))
            .at(&self.path)?;
        let mut rest = Vec::new();
        self.file.read_to_end(&mut rest).at(&self.path)?;
        let synced_later = (0..rest.len()).any(|start| {
            frame_at(&rest[start..], self.next_seq).is_some_and(|synced| synced > self.offset)
        });
        if synced_later { Err(damaged) } else { Ok(()) }
    }
}

/// If a sound frame of a later entry starts here: how much of the segment was synced before it.
fn frame_at(bytes: &[u8], after_seq: u64) -> Option<u64> {
    /// Entries further ahead than this are not looked for, which spares most checksums.
    const NEARBY: u64 = 1 << 20;
    let header = bytes.get(..FRAME_HEADER_BYTES)?;
    let seq = u64::from_le_bytes(header[8..16].try_into().ok()?);
    if !(after_seq..after_seq + NEARBY).contains(&seq) {
        return None;
    }
    let length = u32::from_le_bytes(header[..4].try_into().ok()?) as usize;
    let crc = u32::from_le_bytes(header[4..8].try_into().ok()?);
    let body = bytes.get(8..FRAME_HEADER_BYTES.checked_add(length)?)?;
    if crc32fast::hash(body) != crc {
        return None;
    }
    Some(u64::from(u32::from_le_bytes(
        header[16..20].try_into().ok()?,
    )))
}
