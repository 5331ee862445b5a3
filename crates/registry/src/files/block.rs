//! What a block of a table looks like: entries whose keys are differences, then jumps, by which a key is
//! found without reading all entries before it, then the number of jumps. Knows nothing of files.

use crate::files::{Key, Shape};
use crate::wire::{put_u64, put_varint, varint_at};
use std::ops::Range;

/// A block is full when its entries take this many bytes.
const FULL_BYTES: usize = 4 << 10;
/// One entry in this many has a jump to it.
const ENTRIES_PER_JUMP: usize = 16;
const COUNT_BYTES: usize = 2;

/// A block that is being written.
#[derive(Debug, Default)]
pub(super) struct BlockBuilder {
    bytes: Vec<u8>,
    entries: usize,
    first: Key,
    last: Key,
    /// The key before an entry, and where the entry starts.
    jumps: Vec<(Key, u16)>,
}

impl BlockBuilder {
    pub(super) fn is_empty(&self) -> bool {
        self.entries == 0
    }

    pub(super) fn is_full(&self) -> bool {
        self.bytes.len() >= FULL_BYTES
    }

    pub(super) fn first_key(&self) -> Key {
        self.first
    }

    /// Keys come in ascending order. The block must not be full.
    #[inline]
    pub(super) fn push(&mut self, key: Key, value: &[u8], shape: Shape) {
        debug_assert!(!self.is_full() && (self.is_empty() || key > self.last));
        if self.entries == 0 {
            self.first = key;
        } else if self.entries.is_multiple_of(ENTRIES_PER_JUMP) {
            // A block that is not full ends before the bounds of 16 bits.
            self.jumps.push((self.last, self.bytes.len() as u16));
        }
        put_varint(&mut self.bytes, key.0 - self.last.0);
        if shape.wide {
            let base = if key.0 == self.last.0 { self.last.1 } else { 0 };
            put_varint(&mut self.bytes, key.1 - base);
        }
        match shape.value_bytes {
            None => put_varint(&mut self.bytes, value.len() as u64),
            Some(length) => debug_assert_eq!(value.len(), usize::from(length)),
        }
        self.bytes.extend_from_slice(value);
        self.last = key;
        self.entries += 1;
    }

    /// The whole block; `clear` makes room for the next.
    pub(super) fn finish(&mut self, shape: Shape) -> &[u8] {
        for &((hi, lo), at) in &self.jumps {
            put_u64(&mut self.bytes, hi);
            if shape.wide {
                put_u64(&mut self.bytes, lo);
            }
            self.bytes.extend_from_slice(&at.to_le_bytes());
        }
        let count = self.jumps.len() as u16;
        self.bytes.extend_from_slice(&count.to_le_bytes());
        &self.bytes
    }

    pub(super) fn clear(&mut self) {
        self.bytes.clear();
        self.jumps.clear();
        self.entries = 0;
        (self.first, self.last) = ((0, 0), (0, 0));
    }
}

fn jump_bytes(shape: Shape) -> usize {
    if shape.wide { 18 } else { 10 }
}

/// Where the entries of a block end; `None` if it is damaged.
pub(super) fn entries_end(block: &[u8], shape: Shape) -> Option<usize> {
    let count = u16::from_le_bytes(*block.last_chunk::<COUNT_BYTES>()?);
    let jumps = usize::from(count) * jump_bytes(shape);
    block.len().checked_sub(COUNT_BYTES + jumps)
}

/// The last jump over keys that are all less than `key`, if it leads beyond `from`: the last key that it jumps
/// over, and where the next entry starts. `end` is where the entries end.
pub(super) fn last_jump_before(
    block: &[u8],
    (from, end): (usize, usize),
    key: Key,
    shape: Shape,
) -> Option<(Key, usize)> {
    let word = |bytes: &[u8]| {
        bytes
            .first_chunk()
            .map_or(0, |word| u64::from_le_bytes(*word))
    };
    let jumps = block.get(end..block.len().checked_sub(COUNT_BYTES)?)?;
    let jumps = jumps.chunks_exact(jump_bytes(shape)).map(|jump| {
        let (before, at) = jump.split_at(jump.len() - 2);
        let lo = if shape.wide { word(&before[8..]) } else { 0 };
        let at = usize::from(u16::from_le_bytes([at[0], at[1]]));
        ((word(before), lo), at)
    });
    jumps
        .take_while(|(before, _)| *before < key)
        .last()
        .filter(|(_, at)| *at > from && *at < end)
}

/// The entry that starts at `at` and follows one with the key `last`: its key, and where its value
/// stands, which is where the entry ends. `None` if there is no whole one.
#[inline]
pub(super) fn entry_at(
    entries: &[u8],
    at: usize,
    last: Key,
    shape: Shape,
) -> Option<(Key, Range<usize>)> {
    let (step, mut at) = varint_at(entries, at)?;
    let hi = last.0.checked_add(step)?;
    let mut lo = 0;
    if shape.wide {
        let base = if step == 0 { last.1 } else { 0 };
        let (step, end) = varint_at(entries, at)?;
        lo = base.checked_add(step)?;
        at = end;
    }
    let length = match shape.value_bytes {
        Some(length) => u64::from(length),
        None => {
            let (length, end) = varint_at(entries, at)?;
            at = end;
            length
        }
    };
    let end = at.checked_add(usize::try_from(length).ok()?)?;
    (end <= entries.len()).then_some(((hi, lo), at..end))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_key_is_found_from_the_last_jump_before_it() {
        for (wide, value_bytes) in [(false, None), (true, Some(3)), (true, None)] {
            let shape = Shape { wide, value_bytes };
            let key_of = |n: u64| match wide {
                true => (n / 40 * 7_000, n % 40 * 300),
                false => (n * n * 1_000_003, 0),
            };
            let mut builder = BlockBuilder::default();
            let mut keys = Vec::new();
            while !builder.is_full() {
                let n = keys.len() as u64 + 1;
                keys.push(key_of(n));
                builder.push(key_of(n), &[n as u8; 3], shape);
            }
            let block = builder.finish(shape).to_vec();
            let end = entries_end(&block, shape).unwrap();
            for (n, &key) in keys.iter().enumerate() {
                let (mut last, mut at) =
                    last_jump_before(&block, (0, end), key, shape).unwrap_or(((0, 0), 0));
                let mut steps = 0;
                while last < key {
                    let (found, value) = entry_at(&block[..end], at, last, shape).unwrap();
                    (last, at, steps) = (found, value.end, steps + 1);
                    assert_eq!(value.len(), 3);
                }
                assert_eq!(last, key);
                assert_eq!(block[at - 3..at], [(n + 1) as u8; 3]);
                assert!(steps <= ENTRIES_PER_JUMP, "{steps} steps to {n}");
            }
            assert!(last_jump_before(&block, (end, end), (u64::MAX, 0), shape).is_none());
        }
    }

    #[test]
    fn damage_is_not_read() {
        let shape = Shape {
            wide: false,
            value_bytes: None,
        };
        assert_eq!(entries_end(&[1], shape), None);
        assert_eq!(entries_end(&[0xff, 0xff, 0xff], shape), None);
        assert_eq!(entry_at(&[5, 9, 1], 0, (0, 0), shape), None);
    }
}
