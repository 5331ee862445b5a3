//! Which keys a table surely does not hold, answered from RAM: a Bloom filter whose bits for one key
//! lie in one cache line. One byte a key; about one key in 30 that is not there seems to be.

use crate::error::{At, RegistryError, Result};
use std::fs::File;
use std::io::Write;
use std::os::unix::fs::FileExt;
use std::path::Path;

const LINE_WORDS: usize = 8;
/// One byte a key.
const KEYS_PER_LINE: usize = 64;
const BITS_PER_KEY: u32 = 6;
/// Read from disk in pieces of this size.
const READ_LINES: usize = 1 << 14;

type Line = [u64; LINE_WORDS];

#[derive(Debug, Default)]
pub(crate) struct Filter {
    /// In order of keys, which are hashes: a table that is written in order fills it in order.
    lines: Vec<Line>,
}

impl Filter {
    pub(crate) const LINE_BYTES: usize = 8 * LINE_WORDS;

    /// For up to `keys` keys. With more it lets more through, but never a key that is there.
    pub(crate) fn with_room(keys: usize) -> Self {
        Self {
            lines: vec![[0; LINE_WORDS]; keys.div_ceil(KEYS_PER_LINE)],
        }
    }

    pub(crate) fn lines(&self) -> usize {
        self.lines.len()
    }

    pub(crate) fn bytes(&self) -> usize {
        self.lines.len() * Self::LINE_BYTES
    }

    pub(crate) fn insert(&mut self, key: u64) {
        let at = self.line_of(key);
        if let Some(line) = self.lines.get_mut(at) {
            for bit in bits_of(key) {
                line[bit / 64] |= 1 << (bit % 64);
            }
        }
    }

    /// False: surely not. A filter without lines knows nothing.
    #[inline]
    pub(crate) fn may_hold(&self, key: u64) -> bool {
        self.lines
            .get(self.line_of(key))
            .is_none_or(|line| bits_of(key).all(|bit| line[bit / 64] >> (bit % 64) & 1 == 1))
    }

    /// Some word of the key's line: who reads those of several keys in a row waits for RAM once.
    #[inline]
    pub(crate) fn touch(&self, key: u64) -> u64 {
        self.lines.get(self.line_of(key)).map_or(0, |line| line[0])
    }

    #[inline]
    fn line_of(&self, key: u64) -> usize {
        ((u128::from(key) * self.lines.len() as u128) >> 64) as usize
    }

    pub(crate) fn write(
        &self,
        out: &mut impl Write,
        crc: &mut crc32fast::Hasher,
    ) -> std::io::Result<()> {
        let mut bytes = Vec::with_capacity(READ_LINES * Self::LINE_BYTES);
        for lines in self.lines.chunks(READ_LINES) {
            bytes.clear();
            bytes.extend(lines.iter().flatten().flat_map(|word| word.to_le_bytes()));
            crc.update(&bytes);
            out.write_all(&bytes)?;
        }
        Ok(())
    }

    pub(crate) fn read(
        file: &File,
        path: &Path,
        mut offset: u64,
        lines: usize,
        crc: &mut crc32fast::Hasher,
    ) -> Result<Self> {
        let mut filter = Self {
            lines: Vec::with_capacity(lines),
        };
        let mut bytes = Vec::new();
        while filter.lines.len() < lines {
            let count = (lines - filter.lines.len()).min(READ_LINES);
            bytes.resize(count * Self::LINE_BYTES, 0);
            file.read_exact_at(&mut bytes, offset).at(path)?;
            crc.update(&bytes);
            offset += bytes.len() as u64;
            for line in bytes.chunks_exact(Self::LINE_BYTES) {
                let mut words = [0; LINE_WORDS];
                for (word, bytes) in words.iter_mut().zip(line.chunks_exact(8)) {
                    *word = bytes
                        .try_into()
                        .map(u64::from_le_bytes)
                        .map_err(|_| RegistryError::corrupt(path, offset, "its filter is torn"))?;
                }
                filter.lines.push(words);
            }
        }
        Ok(filter)
    }
}

/// Places in a line. The line is chosen by the key's top bits, so these stir in the others.
#[inline]
fn bits_of(key: u64) -> impl Iterator<Item = usize> {
    let stirred = key.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    (0..BITS_PER_KEY).map(move |n| (stirred >> (10 + 9 * n)) as usize % 512)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn holds_all_its_keys_and_few_others() {
        let key = |n: u64| {
            (n ^ n << 31)
                .wrapping_mul(0xd6e8_feb8_6659_fd93)
                .rotate_left(29)
        };
        let mut filter = Filter::with_room(20_000);
        (0..20_000).for_each(|n| filter.insert(key(n).wrapping_mul(0x2545_f491_4f6c_dd1d)));
        let holds = |n: u64| filter.may_hold(key(n).wrapping_mul(0x2545_f491_4f6c_dd1d));
        assert!((0..20_000).all(holds));
        let wrong = (20_000..120_000).filter(|&n| holds(n)).count();
        assert!((100..5_000).contains(&wrong), "{wrong} of 100,000");
        assert!(Filter::default().may_hold(7));
    }

    #[test]
    fn comes_back_from_disk_as_it_was() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("filter");
        let mut filter = Filter::with_room(3_000_000);
        (0..1000u64).for_each(|n| filter.insert(n << 53 | n));
        let mut written = crc32fast::Hasher::new();
        filter
            .write(&mut File::create(&path).unwrap(), &mut written)
            .unwrap();
        let mut read = crc32fast::Hasher::new();
        let file = File::open(&path).unwrap();
        let again = Filter::read(&file, &path, 0, filter.lines(), &mut read).unwrap();
        assert_eq!(filter.lines, again.lines);
        assert_eq!(written.finalize(), read.finalize());
    }
}
