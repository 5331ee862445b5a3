//! Fingerprints of documents: an exact one of the bytes, and a similarity hash of the text. Deciding
//! what counts as a duplicate is not done here.

mod simhash;

pub use simhash::{Simhash, distance};

use xxhash_rust::xxh3::{Xxh3Default, xxh3_64};

/// The 64-bit fingerprint of a document's bytes (xxh3), whole or in pieces. 0 stands for no bytes at all.
#[derive(Clone)]
pub struct Fingerprint {
    state: Xxh3Default,
    is_empty: bool,
}

impl Fingerprint {
    pub fn of(bytes: &[u8]) -> u64 {
        match bytes {
            [] => 0,
            _ => nonzero(xxh3_64(bytes)),
        }
    }

    pub fn new() -> Fingerprint {
        Fingerprint {
            state: Xxh3Default::new(),
            is_empty: true,
        }
    }

    pub fn update(&mut self, bytes: &[u8]) {
        self.is_empty &= bytes.is_empty();
        self.state.update(bytes);
    }

    /// The same as [`Fingerprint::of`] all the pieces together.
    pub fn finish(&self) -> u64 {
        if self.is_empty {
            0
        } else {
            nonzero(self.state.digest())
        }
    }
}

impl Default for Fingerprint {
    fn default() -> Fingerprint {
        Fingerprint::new()
    }
}

fn nonzero(hash: u64) -> u64 {
    if hash == 0 { 1 } else { hash }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn empty_is_zero_and_the_algorithm_is_xxh3() {
        assert_eq!(Fingerprint::of(b""), 0);
        assert_eq!(Fingerprint::new().finish(), 0);
        // From the xxHash reference: XXH3_64bits of one zero byte.
        assert_eq!(Fingerprint::of(&[0]), 0xC44B_DFF4_074E_ECDB);
        assert_ne!(Fingerprint::of(b"a"), Fingerprint::of(b"b"));
    }

    proptest! {
        #[test]
        fn pieces_equal_the_whole(pieces: Vec<Vec<u8>>) {
            let mut fingerprint = Fingerprint::new();
            for piece in &pieces {
                fingerprint.update(piece);
            }
            prop_assert_eq!(fingerprint.finish(), Fingerprint::of(&pieces.concat()));
        }
    }
}
