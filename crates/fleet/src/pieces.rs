//! Links that are more than a message, from one group to another: each group has a store of its own. The sender's ferry asks
//! the other group's nodes to put them into their store, piece by piece, before the message that names them comes.

use crate::blobs::Blobs;
use crate::links::Keys;
use bytes::{Bytes, BytesMut};

/// Of one piece; it goes over the wire in a message.
pub(crate) const PIECE_BYTES: usize = 512 << 10;

const PREFIX: &str = "links/from/";

/// What a node says that has put a piece into its store.
pub(crate) const KEPT: &[u8] = b"kept";

/// The key of a piece. The name says whose links they are, and tells what is in them.
fn key(name: &str, piece: u32) -> String {
    format!("{PREFIX}{name}/{piece:06}")
}

/// What the pieces of some links are called: the group, and the hash of the bytes.
pub(crate) fn name(group: &str, bytes: &[u8]) -> String {
    format!("{group}-{:032x}", xxhash_rust::xxh3::xxh3_128(bytes))
}

/// Links that are in the store, in one piece or in several. `None` if they are not there.
pub(crate) async fn get(blobs: &Blobs, keys: &Keys) -> Option<Bytes> {
    match keys {
        Keys::One(key) => blobs.get(key).await,
        Keys::Pieces(name, pieces) => {
            let mut all = BytesMut::new();
            for piece in 0..*pieces {
                all.extend_from_slice(&blobs.get(&key(name, piece)).await?);
            }
            Some(all.freeze())
        }
    }
}

/// The message that brings a piece.
pub(crate) fn pack(name: &str, piece: u32, bytes: &[u8]) -> Bytes {
    let mut message = BytesMut::with_capacity(bytes.len() + name.len() + 5);
    message.extend_from_slice(&piece.to_le_bytes());
    // A name is short: `check_name` has seen the group's.
    message.extend_from_slice(&[name.len() as u8]);
    message.extend_from_slice(name.as_bytes());
    message.extend_from_slice(bytes);
    message.freeze()
}

/// Puts a piece that a message has brought into the store. False if it is none.
pub(crate) async fn keep(blobs: &Blobs, message: &Bytes) -> bool {
    let Some((key, bytes)) = unpack(message) else {
        return false;
    };
    blobs.put(&key, bytes).await;
    true
}

fn unpack(message: &Bytes) -> Option<(String, Bytes)> {
    let (piece, rest) = message.split_first_chunk::<4>()?;
    let (&length, rest) = rest.split_first()?;
    let name = rest.get(..usize::from(length))?;
    let fits = |byte: &u8| byte.is_ascii_alphanumeric() || *byte == b'-';
    if name.is_empty() || !name.iter().all(fits) {
        return None;
    }
    let key = key(std::str::from_utf8(name).ok()?, u32::from_le_bytes(*piece));
    Some((key, message.slice(5 + usize::from(length)..)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_piece_comes_back_and_nonsense_is_refused() {
        let name = name("s1", b"links");
        let message = pack(&name, 7, b"bytes");
        let (key, bytes) = unpack(&message).expect("a piece");
        assert_eq!(key, format!("links/from/{name}/000007"));
        assert_eq!(&bytes[..], b"bytes");
        for name in ["", "../a", "a/b"] {
            assert_eq!(unpack(&pack(name, 0, b"x")), None, "{name}");
        }
        for cut in 0..5 + name.len() {
            assert_eq!(unpack(&message.slice(..cut)), None, "{cut}");
        }
    }
}
