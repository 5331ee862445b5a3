//! The pool of running text that pages are cut from: made once from the seed, so that a page costs copies and no invention.

use crate::seed::Draw;

/// Bytes of ready text. Larger than any cache line trick needs, small enough to stay in the second-level cache.
pub(crate) const POOL_BYTES: usize = 128 * 1024;

/// Words a pool draws on; with a steep choice among them text compresses about as real prose does.
const VOCABULARY: u32 = 2_000;

const SYLLABLES: [&str; 24] = [
    "ra", "to", "mi", "sel", "ka", "ven", "or", "lis", "pe", "dun", "ia", "mar", "que", "sto",
    "ful", "en", "bri", "ta", "no", "chi", "go", "lu", "was", "er",
];

pub(crate) struct Words {
    pool: Vec<u8>,
}

impl Words {
    pub(crate) fn new(seed: u64) -> Self {
        let vocabulary: Vec<String> = (0..VOCABULARY).map(|n| word(seed, n)).collect();
        let mut draw = Draw::at(seed, 0, 0, 0x77);
        let mut pool = Vec::with_capacity(POOL_BYTES + 16);
        let mut in_sentence = 0;
        while pool.len() < POOL_BYTES {
            // The square makes early words common, as in prose.
            let u = draw.unit();
            let chosen = &vocabulary[(u * u * u * f64::from(VOCABULARY)) as usize];
            pool.extend_from_slice(chosen.as_bytes());
            in_sentence += 1;
            if in_sentence > 6 && draw.chance(0.12) {
                pool.extend_from_slice(b". ");
                in_sentence = 0;
            } else {
                pool.push(b' ');
            }
        }
        pool.truncate(POOL_BYTES);
        Words { pool }
    }

    /// `len` bytes of text (at most half the pool) from a place picked by `at`.
    pub(crate) fn slice(&self, at: u64, len: usize) -> &[u8] {
        let len = len.min(POOL_BYTES / 2);
        let start = (at as usize) % (POOL_BYTES - len);
        &self.pool[start..start + len]
    }
}

fn word(seed: u64, n: u32) -> String {
    let mut draw = Draw::at(seed, u64::from(n), 0, 0x76);
    let syllables = 1 + draw.below(3) + u32::from(n > 200);
    (0..syllables)
        .map(|_| SYLLABLES[draw.below(SYLLABLES.len() as u32) as usize])
        .collect()
}
