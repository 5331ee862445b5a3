//! A message holds forwards of any sources to one destination: a version, then zstd over them, each with source, number,
//! predecessor and length in little-endian.

use super::Forward;
use bytes::Bytes;
use portolan_model::PartitionId;
use std::cell::RefCell;
use zstd::bulk::{Compressor, Decompressor};

const VERSION: u8 = 1;

/// The message holds the key of an object that holds what the message would.
const KEY: u8 = 2;

/// The message holds the keys of pieces that are what the message would be: links of another group, put here beforehand.
const PIECES: u8 = 3;

/// Links shrink to a fifth; more work than this brings little.
const LEVEL: i32 = 1;

const HEAD_BYTES: usize = 2 + 8 + 8 + 4;

/// Refuses what grows beyond this when unpacked: far more than any message is made of.
const MOST_UNPACKED: usize = 512 << 20;

thread_local! {
    /// To begin one takes longer than to pack a message of usual size.
    static COMPRESSOR: RefCell<Option<Compressor<'static>>> = const { RefCell::new(None) };
    static DECOMPRESSOR: RefCell<Option<Decompressor<'static>>> = const { RefCell::new(None) };
}

/// Does something with what this thread has kept for it, or begins it.
fn kept<K, T>(
    kept: &RefCell<Option<K>>,
    begin: impl FnOnce() -> std::io::Result<K>,
    with: impl FnOnce(&mut K) -> std::io::Result<T>,
) -> std::io::Result<T> {
    let mut kept = kept.borrow_mut();
    let mut kit = match kept.take() {
        Some(kit) => kit,
        None => begin()?,
    };
    // After an error it is begun anew.
    let done = with(&mut kit)?;
    *kept = Some(kit);
    Ok(done)
}

fn compress(raw: &[u8]) -> std::io::Result<Vec<u8>> {
    COMPRESSOR.with(|compressor| {
        let begin = || Compressor::new(LEVEL);
        kept(compressor, begin, |compressor| compressor.compress(raw))
    })
}

fn decompress(packed: &[u8], length: usize) -> std::io::Result<Vec<u8>> {
    DECOMPRESSOR.with(|decompressor| {
        let unpack = |kit: &mut Decompressor<'_>| kit.decompress(packed, length);
        kept(decompressor, Decompressor::new, unpack)
    })
}

/// What a message is.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Message {
    Forwards(Vec<Forward>),
    /// They are in the store.
    Key(Keys),
}

/// Under which keys links are in the store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Keys {
    One(String),
    /// The number of its pieces, in order: see `pieces::key`.
    Pieces(String, u32),
}

/// Bytes for one message, and how many forwards are in it.
pub(crate) struct Packed {
    pub(crate) bytes: Vec<u8>,
    pub(crate) forwards: usize,
}

/// Packs forwards from the first on, as many as have `raw_bytes` together, and at least one.
pub(crate) fn pack(forwards: &[Forward], raw_bytes: usize) -> std::io::Result<Packed> {
    let all = forwards.iter().map(|it| HEAD_BYTES + it.body.len());
    let mut raw = Vec::with_capacity(all.sum::<usize>().min(raw_bytes));
    let mut packed = 0;
    for forward in forwards {
        if packed > 0 && raw.len() + HEAD_BYTES + forward.body.len() > raw_bytes {
            break;
        }
        raw.extend_from_slice(&forward.source.0.to_le_bytes());
        raw.extend_from_slice(&forward.number.to_le_bytes());
        raw.extend_from_slice(&forward.predecessor.to_le_bytes());
        raw.extend_from_slice(&(forward.body.len() as u32).to_le_bytes());
        raw.extend_from_slice(&forward.body);
        packed += 1;
    }
    let mut bytes = vec![VERSION];
    bytes.extend_from_slice(&(raw.len() as u32).to_le_bytes());
    bytes.extend(compress(&raw)?);
    Ok(Packed {
        bytes,
        forwards: packed,
    })
}

/// A message that says where in the store the links are.
pub(crate) fn pack_key(key: &str) -> Vec<u8> {
    [&[KEY], key.as_bytes()].concat()
}

/// The key that a message says the links are under; `None` if they are in it.
pub(crate) fn key_of(bytes: &[u8]) -> Option<String> {
    match bytes.split_first()? {
        (&KEY, key) => String::from_utf8(key.to_vec()).ok(),
        _ => None,
    }
}

/// A message that says in which pieces the links are in the store.
pub(crate) fn pack_pieces(name: &str, pieces: u32) -> Vec<u8> {
    [&[PIECES][..], &pieces.to_le_bytes(), name.as_bytes()].concat()
}

/// The reverse of `pack`, `pack_key` and `pack_pieces`; `None` if these are not bytes that they made.
pub(crate) fn unpack(bytes: &[u8]) -> Option<Message> {
    match bytes.split_first()? {
        (&KEY, key) => {
            let key = String::from_utf8(key.to_vec()).ok()?;
            Some(Message::Key(Keys::One(key)))
        }
        (&PIECES, rest) => {
            let (pieces, name) = rest.split_first_chunk::<4>()?;
            let name = String::from_utf8(name.to_vec()).ok()?;
            Some(Message::Key(Keys::Pieces(
                name,
                u32::from_le_bytes(*pieces),
            )))
        }
        _ => unpack_forwards(bytes).map(Message::Forwards),
    }
}

fn unpack_forwards(bytes: &[u8]) -> Option<Vec<Forward>> {
    let (&version, rest) = bytes.split_first()?;
    let (length, rest) = rest.split_first_chunk::<4>()?;
    let length = u32::from_le_bytes(*length) as usize;
    if version != VERSION || length > MOST_UNPACKED {
        return None;
    }
    let raw = Bytes::from(decompress(rest, length).ok()?);
    if raw.len() != length {
        return None;
    }
    let mut forwards = Vec::new();
    let mut at = 0;
    while at < raw.len() {
        let (source, rest) = raw[at..].split_first_chunk::<2>()?;
        let (number, rest) = rest.split_first_chunk::<8>()?;
        let (predecessor, rest) = rest.split_first_chunk::<8>()?;
        let (length, rest) = rest.split_first_chunk::<4>()?;
        let length = u32::from_le_bytes(*length) as usize;
        rest.get(..length)?;
        at += HEAD_BYTES;
        forwards.push(Forward {
            source: PartitionId(u16::from_le_bytes(*source)),
            number: u64::from_le_bytes(*number),
            predecessor: u64::from_le_bytes(*predecessor),
            body: raw.slice(at..at + length),
        });
        at += length;
    }
    Some(forwards)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn forward(number: u64, bytes: usize) -> Forward {
        Forward {
            source: PartitionId(3),
            number,
            predecessor: number - 1,
            body: vec![number as u8; bytes].into(),
        }
    }

    #[test]
    fn messages_hold_what_was_packed_and_no_more_than_asked() {
        let forwards: Vec<_> = (1..=10).map(|number| forward(number, 100)).collect();
        let Packed {
            bytes,
            forwards: packed,
        } = pack(&forwards, 500).expect("packs");
        assert_eq!(packed, 4);
        assert_eq!(
            unpack(&bytes),
            Some(Message::Forwards(forwards[..4].to_vec()))
        );
        assert_eq!(
            unpack(&pack_key("a/b")),
            Some(Message::Key(Keys::One("a/b".to_owned())))
        );
        assert_eq!(
            unpack(&pack_pieces("a", 300)),
            Some(Message::Key(Keys::Pieces("a".to_owned(), 300)))
        );
        // A forward that is larger than a message goes alone.
        let large = [forward(1, 5_000), forward(2, 1)];
        assert_eq!(pack(&large, 500).expect("packs").forwards, 1);
    }

    #[test]
    fn nonsense_is_refused() {
        let bytes = pack(&[forward(1, 100)], 500).expect("packs").bytes;
        for cut in 0..bytes.len() {
            assert_eq!(unpack(&bytes[..cut]), None, "{cut}");
        }
        let mut other = bytes.clone();
        other[0] = 9;
        assert_eq!(unpack(&other), None);
    }
}
