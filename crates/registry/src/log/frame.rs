//! The bytes of one frame of the journal: a head, and a payload that its checksum covers with the head.

use crate::wire::{Reader, put_varint};
use portolan_model::PartitionId;

/// Length of the payload, checksum, number, partition's number, bytes of this segment that were synced before, tag.
pub(crate) const HEAD_BYTES: usize = 32;
/// What the checksum covers begins here.
const COVERED: usize = 8;
/// No entry is larger; a longer length is damage.
pub(crate) const MAX_PAYLOAD_BYTES: usize = 256 << 20;

/// Partitions' numbers are below it.
const POSITIONS_TAG: u32 = 1 << 16;
const COMMIT_TAG: u32 = POSITIONS_TAG + 1;
const ADOPTED_TAG: u32 = POSITIONS_TAG + 2;
const CURSOR_TAG: u32 = POSITIONS_TAG + 3;

/// What a frame is for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Tag {
    /// The first frame of a segment: how many entries each partition had before it.
    Positions,
    /// An entry of a partition.
    Entry(PartitionId),
    /// The last frame of a commit: those since the one before it count from here on.
    Commit,
    /// In a fleet: a partition has come, and this is its last entry so far.
    Adopted,
    /// In a fleet: forwards to a partition have been heard up to here.
    Cursor,
}

impl Tag {
    fn number(self) -> u32 {
        match self {
            Tag::Positions => POSITIONS_TAG,
            Tag::Commit => COMMIT_TAG,
            Tag::Adopted => ADOPTED_TAG,
            Tag::Cursor => CURSOR_TAG,
            Tag::Entry(PartitionId(id)) => u32::from(id),
        }
    }

    fn from_number(number: u32) -> Option<Self> {
        match number {
            POSITIONS_TAG => Some(Tag::Positions),
            COMMIT_TAG => Some(Tag::Commit),
            ADOPTED_TAG => Some(Tag::Adopted),
            CURSOR_TAG => Some(Tag::Cursor),
            id => u16::try_from(id).ok().map(|id| Tag::Entry(PartitionId(id))),
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Head {
    /// Frames are numbered through the whole journal.
    pub(crate) number: u64,
    /// Which entry of its partition it is; 0 for what is no entry.
    pub(crate) seq: u64,
    /// Bytes of its segment that were synced before it was written.
    pub(crate) synced: u64,
    pub(crate) tag: Tag,
}

/// The payload of `Tag::Adopted` and `Tag::Cursor`: a partition and a number of it.
pub(crate) fn put_place(out: &mut Vec<u8>, partition: PartitionId, number: u64) {
    put_varint(out, u64::from(partition.0));
    put_varint(out, number);
}

pub(crate) fn read_place(payload: &[u8]) -> Option<(PartitionId, u64)> {
    let reader = &mut Reader::new(payload);
    let place = (PartitionId(reader.narrow()?), reader.varint()?);
    reader.is_empty().then_some(place)
}

pub(crate) fn put_frame(out: &mut Vec<u8>, head: Head, payload: impl FnOnce(&mut Vec<u8>)) {
    let start = out.len();
    out.extend_from_slice(&[0; HEAD_BYTES]);
    payload(out);
    let length = (out.len() - start - HEAD_BYTES) as u32;
    let frame = &mut out[start..];
    frame[..4].copy_from_slice(&length.to_le_bytes());
    frame[8..16].copy_from_slice(&head.number.to_le_bytes());
    frame[16..24].copy_from_slice(&head.seq.to_le_bytes());
    frame[24..28].copy_from_slice(&(head.synced as u32).to_le_bytes());
    frame[28..32].copy_from_slice(&head.tag.number().to_le_bytes());
    let crc = crc32fast::hash(&frame[COVERED..]);
    frame[4..8].copy_from_slice(&crc.to_le_bytes());
}

/// How long the payload is that follows these bytes, if they are the head of a frame.
pub(crate) fn payload_bytes(head: &[u8; HEAD_BYTES]) -> Option<usize> {
    let length = word(head, 0) as usize;
    (length <= MAX_PAYLOAD_BYTES).then_some(length)
}

/// The head, if head and payload are sound.
pub(crate) fn read_head(head: &[u8; HEAD_BYTES], payload: &[u8]) -> Option<Head> {
    let mut hasher = crc32fast::Hasher::new();
    hasher.update(&head[COVERED..]);
    hasher.update(payload);
    if hasher.finalize() != word(head, 4) {
        return None;
    }
    Some(Head {
        number: number(head),
        seq: long_word(head, 16),
        synced: u64::from(word(head, 24)),
        tag: Tag::from_number(word(head, 28))?,
    })
}

/// If a sound frame with a number from `after` on starts here: how much of the segment was synced before it.
pub(crate) fn synced_before(bytes: &[u8], after: u64) -> Option<u64> {
    /// Frames further ahead than this are not looked for, which spares most checksums.
    const NEARBY: u64 = 1 << 20;
    let (head, rest) = bytes.split_first_chunk::<HEAD_BYTES>()?;
    if !(after..after.saturating_add(NEARBY)).contains(&number(head)) {
        return None;
    }
    let payload = rest.get(..payload_bytes(head)?)?;
    read_head(head, payload).map(|head| head.synced)
}

fn number(head: &[u8; HEAD_BYTES]) -> u64 {
    long_word(head, 8)
}

fn word(head: &[u8; HEAD_BYTES], at: usize) -> u32 {
    let mut word = [0; 4];
    word.copy_from_slice(&head[at..at + 4]);
    u32::from_le_bytes(word)
}

fn long_word(head: &[u8; HEAD_BYTES], at: usize) -> u64 {
    let mut word = [0; 8];
    word.copy_from_slice(&head[at..at + 8]);
    u64::from_le_bytes(word)
}
