//! A sorted, immutable file of (fingerprint, offset in the text), 16 bytes each.

use crate::error::ArchiveError;
use crate::open::create;
use crate::settings::DurableEnd;
use std::fs::File;
use std::io::{self, BufReader, BufWriter, Read, Write};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

const PAIR_BYTES: usize = 16;
/// Pairs read at once: a page of the disk.
const WINDOW: u64 = 256;
/// Guesses by the value before halving takes over; fingerprints are evenly spread, so it hardly
/// ever does.
const MAX_GUESSES: u32 = 8;

/// What the manifest says of a run.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct RunMeta {
    pub name: String,
    pub count: u64,
    pub checksum: u32,
    /// Where its entries start in the text; they end where those of the next run start.
    pub text_from: u64,
    /// Archive position of the last of them.
    pub last: DurableEnd,
}

pub(super) struct Run {
    pub meta: RunMeta,
    path: PathBuf,
    file: File,
}

impl Run {
    /// `None` if the file is not there or not as long as it should be.
    pub fn open(dir: &Path, meta: &RunMeta) -> Result<Option<Self>, ArchiveError> {
        let path = dir.join(&meta.name);
        let file = match File::open(&path) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(ArchiveError::io("open", &path)(error)),
        };
        let length = file
            .metadata()
            .map_err(ArchiveError::io("look at", &path))?
            .len();
        if meta.count.checked_mul(PAIR_BYTES as u64) != Some(length) {
            return Ok(None);
        }
        Ok(Some(Self {
            meta: meta.clone(),
            path,
            file,
        }))
    }

    /// The offset that stands beside the fingerprint. Damage can make it wrong or hide it; the
    /// text's own checksum and digest decide.
    pub fn find(&self, fingerprint: u64) -> Result<Option<u64>, ArchiveError> {
        self.search(fingerprint)
            .map_err(ArchiveError::io("read", &self.path))
    }

    fn search(&self, fingerprint: u64) -> io::Result<Option<u64>> {
        let (mut low, mut high) = (0, self.meta.count);
        let (mut low_value, mut high_value) = (0u64, u64::MAX);
        let mut buffer = [0; WINDOW as usize * PAIR_BYTES];
        let mut guesses = 0;
        while low < high {
            let middle = if guesses < MAX_GUESSES {
                let share = u128::from(fingerprint.saturating_sub(low_value))
                    * u128::from(high - low)
                    / (u128::from(high_value.saturating_sub(low_value)) + 1);
                low + (share as u64).min(high - low - 1)
            } else {
                low + (high - low) / 2
            };
            guesses += 1;
            let from = middle.saturating_sub(WINDOW / 2).max(low);
            let to = (from + WINDOW).min(high);
            let window = &mut buffer[..(to - from) as usize * PAIR_BYTES];
            self.file.read_exact_at(window, from * PAIR_BYTES as u64)?;
            let (pairs, _) = window.as_chunks::<PAIR_BYTES>();
            let first = decode(&pairs[0]).0;
            let last = decode(&pairs[pairs.len() - 1]).0;
            if fingerprint < first {
                (high, high_value) = (from, first);
            } else if fingerprint > last {
                (low, low_value) = (to, last);
            } else {
                let found = pairs.partition_point(|pair| decode(pair).0 < fingerprint);
                return Ok(pairs
                    .get(found)
                    .map(decode)
                    .filter(|(value, _)| *value == fingerprint)
                    .map(|(_, offset)| offset));
            }
        }
        Ok(None)
    }
}

/// Writes a run pair by pair, in order.
pub(super) struct RunWriter {
    path: PathBuf,
    name: String,
    out: BufWriter<File>,
    count: u64,
    checksum: crc32fast::Hasher,
}

impl RunWriter {
    pub fn create(dir: &Path, name: String) -> Result<Self, ArchiveError> {
        let path = dir.join(&name);
        let file = create(&path).map_err(ArchiveError::io("create", &path))?;
        Ok(Self {
            path,
            name,
            out: BufWriter::with_capacity(256 << 10, file),
            count: 0,
            checksum: crc32fast::Hasher::new(),
        })
    }

    pub fn push(&mut self, (fingerprint, offset): (u64, u64)) -> Result<(), ArchiveError> {
        let mut pair = [0; PAIR_BYTES];
        pair[..8].copy_from_slice(&fingerprint.to_le_bytes());
        pair[8..].copy_from_slice(&offset.to_le_bytes());
        self.checksum.update(&pair);
        self.count += 1;
        self.out
            .write_all(&pair)
            .map_err(ArchiveError::io("write to", &self.path))
    }

    /// Durable when this returns, but in no manifest yet.
    pub fn finish(self, text_from: u64, last: DurableEnd) -> Result<RunMeta, ArchiveError> {
        self.out
            .into_inner()
            .map_err(io::IntoInnerError::into_error)
            .and_then(|file| file.sync_all())
            .map_err(ArchiveError::io("write", &self.path))?;
        Ok(RunMeta {
            name: self.name,
            count: self.count,
            checksum: self.checksum.finalize(),
            text_from,
            last,
        })
    }
}

/// Reads a run from its start, and knows in the end whether it was undamaged.
pub(super) struct RunReader {
    source: BufReader<File>,
    path: PathBuf,
    left: u64,
    expected: u32,
    checksum: crc32fast::Hasher,
}

impl RunReader {
    pub fn open(dir: &Path, meta: &RunMeta) -> Result<Self, ArchiveError> {
        let path = dir.join(&meta.name);
        let file = File::open(&path).map_err(ArchiveError::io("open", &path))?;
        Ok(Self {
            source: BufReader::with_capacity(256 << 10, file),
            path,
            left: meta.count,
            expected: meta.checksum,
            checksum: crc32fast::Hasher::new(),
        })
    }

    pub fn next(&mut self) -> Result<Option<(u64, u64)>, ArchiveError> {
        if self.left == 0 {
            return Ok(None);
        }
        let mut pair = [0; PAIR_BYTES];
        match self.source.read_exact(&mut pair) {
            Ok(()) => {}
            // Shorter than the manifest says: the checksum will not match.
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => {
                self.left = 0;
                return Ok(None);
            }
            Err(error) => return Err(ArchiveError::io("read", &self.path)(error)),
        }
        self.left -= 1;
        self.checksum.update(&pair);
        Ok(Some(decode(&pair)))
    }

    pub fn is_undamaged(&self) -> bool {
        self.checksum.clone().finalize() == self.expected
    }
}

fn decode(pair: &[u8; PAIR_BYTES]) -> (u64, u64) {
    let half = |at: usize| {
        let mut bytes = [0; 8];
        bytes.copy_from_slice(&pair[at..at + 8]);
        u64::from_le_bytes(bytes)
    };
    (half(0), half(8))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run_of(values: &[u64]) -> (tempfile::TempDir, Run) {
        let dir = tempfile::tempdir().expect("a temporary directory");
        let mut writer = RunWriter::create(dir.path(), "r".to_owned()).expect("create");
        for &value in values {
            writer.push((value, !value)).expect("push");
        }
        let meta = writer
            .finish(0, DurableEnd { file: 0, end: 0 })
            .expect("finish");
        let run = Run::open(dir.path(), &meta).expect("open").expect("whole");
        (dir, run)
    }

    /// Evenly spread, crowded at one end, and the extremes.
    #[test]
    fn finds_what_is_there_and_nothing_else() {
        let even: Vec<u64> = (0..5_000u64)
            .map(|n| n.wrapping_mul(3_689_348_814_741_910))
            .collect();
        let crowded: Vec<u64> = (0..5_000u64).map(|n| n * 2).chain([u64::MAX]).collect();
        let few = vec![0, 7, u64::MAX];
        for mut values in [even, crowded, few, Vec::new()] {
            values.sort_unstable();
            values.dedup();
            let (_dir, run) = run_of(&values);
            for &value in &values {
                assert_eq!(run.find(value).expect("find"), Some(!value));
                let near = value ^ 1;
                let expected = values.binary_search(&near).is_ok().then_some(!near);
                assert_eq!(run.find(near).expect("find"), expected);
            }
            assert_eq!(
                run.find(12_345_679).expect("find").is_some(),
                values.contains(&12_345_679)
            );
        }
    }

    #[test]
    fn a_run_out_of_order_ends_the_search() {
        let values: Vec<u64> = (0..5_000u64)
            .map(|n| n.wrapping_mul(0x9e37_79b9_7f4a_7c15))
            .collect();
        let (_dir, run) = run_of(&values);
        for n in 0..1_000u64 {
            run.find(n.wrapping_mul(0xdead_beef_1234_5679))
                .expect("no endless search");
        }
    }
}
