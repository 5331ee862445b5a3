//! Reading several sorted sources as one, newest first where they share a key. Streams: holds one
//! block a source.

use crate::error::{RegistryError, Result};
use crate::files::{Cursor, Key};
use std::path::PathBuf;

/// Gives the next entry of a sorted source in RAM: its key, and its value by way of the buffer.
pub(crate) type MemorySource = Box<dyn FnMut(&mut Vec<u8>) -> Option<Key> + Send>;

/// Makes one value of an older and a newer one of the same key; `None` if either is damaged.
pub(crate) type Combine = fn(older: &[u8], newer: &[u8], out: &mut Vec<u8>) -> Option<()>;

/// How the entries of one key are made one.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Combining {
    /// The newest holds.
    Newest,
    Sum(Combine),
    /// The newest holds, and a first key word may have a bookmark: an entry whose second word is 0. Its value, a number,
    /// says from which second word on *older* sources are still wanted.
    Bookmarks,
}

/// The number that a value of eight bytes is: of a bookmark, or a document.
pub(crate) fn number_of(value: &[u8]) -> Option<u64> {
    Some(u64::from_le_bytes(value.try_into().ok()?))
}

pub(crate) enum MergeInput {
    Memory(MemorySource),
    Table { cursor: Cursor, path: PathBuf },
}

pub(crate) struct Merged {
    inputs: Vec<Input>,
    combining: Combining,
    /// The input whose entry was given last: it moves on when the next one is asked for, so that
    /// its value need not be copied.
    given: Option<usize>,
    /// The least key of the other inputs: as long as it is not reached, the same input goes on.
    bound: Option<Key>,
    value: Vec<u8>,
    scratch: Vec<u8>,
}

struct Input {
    source: MergeInput,
    /// `None` at the end.
    key: Option<Key>,
    /// The value of a source in RAM; a cursor holds its own.
    value: Vec<u8>,
    /// For a first key word: from which second word on its entries are wanted.
    floor: Key,
}

impl Merged {
    /// `inputs` come newest first.
    pub(crate) fn new(inputs: Vec<MergeInput>, combining: Combining) -> Result<Self> {
        Self::starting_at((0, 0), inputs, combining)
    }

    /// The same without what is before `first`. Sources in RAM must begin there themselves.
    pub(crate) fn starting_at(
        first: Key,
        inputs: Vec<MergeInput>,
        combining: Combining,
    ) -> Result<Self> {
        let mut inputs: Vec<Input> = inputs
            .into_iter()
            .map(|source| Input {
                source,
                key: None,
                value: Vec::new(),
                floor: (0, 0),
            })
            .collect();
        for input in &mut inputs {
            match &mut input.source {
                MergeInput::Table { cursor, .. } if first > (0, 0) => {
                    input.key = cursor.seek(first)?.then(|| cursor.key());
                }
                _ => input.advance()?,
            }
        }
        Ok(Self {
            inputs,
            combining,
            given: None,
            bound: None,
            value: Vec::new(),
            scratch: Vec::new(),
        })
    }

    pub(crate) fn next(&mut self) -> Result<Option<(Key, &[u8])>> {
        if let Some(given) = self.given {
            let input = &mut self.inputs[given];
            input.advance()?;
            if let Some(key) = input.key
                && self.bound.is_none_or(|bound| key < bound)
                && !(key.1 == 0 && matches!(self.combining, Combining::Bookmarks))
            {
                return Ok(Some((key, self.inputs[given].value())));
            }
        }
        self.choose()
    }

    /// The least key of all inputs, from the newest that has it.
    fn choose(&mut self) -> Result<Option<(Key, &[u8])>> {
        let keys = self.inputs.iter().map(|input| input.key).enumerate();
        let keys = keys.filter_map(|(index, key)| Some((key?, index)));
        let Some((key, newest)) = keys.min() else {
            self.given = None;
            return Ok(None);
        };
        let combined = match self.combining {
            Combining::Bookmarks if key.1 == 0 => self.pass_bookmarks(key)?,
            _ => self.fold_older(newest, key)?,
        };
        self.given = Some(newest);
        let others = self.inputs.iter().enumerate();
        let others = others.filter(|(index, _)| *index != newest);
        self.bound = others.filter_map(|(_, input)| input.key).min();
        let value = match combined {
            true => &self.value[..],
            false => self.inputs[newest].value(),
        };
        Ok(Some((key, value)))
    }

    /// Passes over older entries of the key; true if their values went into `self.value`.
    fn fold_older(&mut self, newest: usize, key: Key) -> Result<bool> {
        let mut combined = false;
        for older in newest + 1..self.inputs.len() {
            if self.inputs[older].key != Some(key) {
                continue;
            }
            if let Combining::Sum(combine) = self.combining {
                if !combined {
                    self.value.clear();
                    self.value.extend_from_slice(self.inputs[newest].value());
                    combined = true;
                }
                let input = &self.inputs[older];
                self.scratch.clear();
                combine(input.value(), &self.value, &mut self.scratch)
                    .ok_or_else(|| input.damaged())?;
                std::mem::swap(&mut self.value, &mut self.scratch);
            }
            self.inputs[older].advance()?;
        }
        Ok(combined)
    }

    /// Passes over the bookmarks of a first key word, and what each says is read of older inputs. The furthest goes into
    /// `self.value`: it holds for what is older than all inputs.
    fn pass_bookmarks(&mut self, key: Key) -> Result<bool> {
        let mut furthest = 0;
        for input in &mut self.inputs {
            input.floor = (key.0, furthest);
            if input.key == Some(key) {
                let bookmark = number_of(input.value()).ok_or_else(|| input.damaged())?;
                furthest = furthest.max(bookmark);
            }
        }
        self.value.clear();
        self.value.extend_from_slice(&furthest.to_le_bytes());
        // The newest that has the key moves on when the next entry is asked for.
        let mut newest = true;
        for input in &mut self.inputs {
            if input.key == Some(key) && std::mem::take(&mut newest) {
                continue;
            }
            while input.key == Some(key) || input.is_read() {
                input.advance()?;
            }
        }
        Ok(true)
    }
}

impl Input {
    /// Is the current entry one that a newer bookmark says is not wanted?
    #[inline]
    fn is_read(&self) -> bool {
        let floor = self.floor;
        self.key
            .is_some_and(|(hi, lo)| hi == floor.0 && lo < floor.1)
    }

    #[inline]
    fn value(&self) -> &[u8] {
        match &self.source {
            MergeInput::Memory(_) => &self.value,
            MergeInput::Table { cursor, .. } => cursor.value(),
        }
    }

    #[inline]
    fn advance(&mut self) -> Result<()> {
        loop {
            self.key = match &mut self.source {
                MergeInput::Memory(next) => {
                    self.value.clear();
                    next(&mut self.value)
                }
                MergeInput::Table { cursor, .. } => cursor.advance()?.then(|| cursor.key()),
            };
            if !self.is_read() {
                return Ok(());
            }
        }
    }

    fn damaged(&self) -> RegistryError {
        match &self.source {
            MergeInput::Table { path, .. } => {
                RegistryError::corrupt(path, 0, "a value cannot be read")
            }
            MergeInput::Memory(_) => RegistryError::MergerDied,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    fn source(entries: Vec<(Key, Vec<u8>)>) -> MergeInput {
        let mut entries = entries.into_iter();
        MergeInput::Memory(Box::new(move |value| {
            let (key, bytes) = entries.next()?;
            value.extend_from_slice(&bytes);
            Some(key)
        }))
    }

    fn append(older: &[u8], newer: &[u8], out: &mut Vec<u8>) -> Option<()> {
        out.extend_from_slice(older);
        out.extend_from_slice(newer);
        Some(())
    }

    #[test]
    fn sources_are_read_as_one_in_order() {
        let mut random = 1u64;
        for round in 0..200 {
            // Newest first; a source's values are its number.
            let mut sources: Vec<BTreeMap<Key, Vec<u8>>> = Vec::new();
            for number in 0..round % 5 {
                let mut source = BTreeMap::new();
                for _ in 0..round {
                    random = random.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(7);
                    // Runs of keys of one source, and keys that several have.
                    let key = (random >> 60, (random >> 40) % (1 << (number * 4)));
                    source.insert(key, vec![number as u8]);
                }
                sources.push(source);
            }
            for combining in [Combining::Newest, Combining::Sum(append)] {
                let mut expected: BTreeMap<Key, Vec<u8>> = BTreeMap::new();
                for source in sources.iter().rev() {
                    for (key, value) in source {
                        let known = expected.entry(*key).or_default();
                        if matches!(combining, Combining::Newest) {
                            known.clear();
                        }
                        known.extend_from_slice(value);
                    }
                }
                let inputs = sources.iter();
                let inputs = inputs.map(|one| source(one.clone().into_iter().collect()));
                let mut merged = Merged::new(inputs.collect(), combining).unwrap();
                let mut found = BTreeMap::new();
                while let Some((key, value)) = merged.next().unwrap() {
                    let last = found.keys().next_back();
                    assert!(last.is_none_or(|&last| last < key));
                    found.insert(key, value.to_vec());
                }
                assert_eq!(found, expected);
                assert!(merged.next().unwrap().is_none());
            }
        }
    }

    /// What is read of sources with bookmarks, one after the other: older entries before a newer bookmark are left out.
    #[test]
    fn bookmarks_leave_out_what_is_older_and_before_them() {
        let mut random = 1u64;
        let mut next = |below: u64| {
            random = random.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(7);
            (random >> 33) % below
        };
        let (mut left_out, mut bookmarks_met) = (0, 0);
        for round in 0..300 {
            // Newest first.
            let mut sources: Vec<BTreeMap<Key, u64>> = Vec::new();
            for _ in 0..round % 6 {
                let mut source = BTreeMap::new();
                for _ in 0..next(60) {
                    source.insert((next(5), 1 + next(30)), next(1 << 40));
                }
                for host in 0..5 {
                    if next(3) == 0 {
                        source.insert((host, 0), next(32));
                    }
                }
                sources.push(source);
            }
            let mut expected: BTreeMap<Key, u64> = BTreeMap::new();
            let mut floors: BTreeMap<u64, u64> = BTreeMap::new();
            for source in &sources {
                for (&(host, place), &value) in source.iter().filter(|(key, _)| key.1 > 0) {
                    if place >= floors.get(&host).copied().unwrap_or(0) {
                        expected.entry((host, place)).or_insert(value);
                    } else {
                        left_out += 1;
                    }
                }
                for (&(host, _), &bookmark) in source.iter().filter(|(key, _)| key.1 == 0) {
                    let floor = floors.entry(host).or_default();
                    *floor = bookmark.max(*floor);
                }
            }
            bookmarks_met += floors.len();
            expected.extend(
                floors
                    .into_iter()
                    .map(|(host, bookmark)| ((host, 0), bookmark)),
            );

            let inputs = sources.iter().map(|one| {
                let bytes = |(&key, value): (&Key, &u64)| (key, value.to_le_bytes().to_vec());
                source(one.iter().map(bytes).collect())
            });
            let mut merged = Merged::new(inputs.collect(), Combining::Bookmarks).unwrap();
            let mut found = Vec::new();
            while let Some((key, value)) = merged.next().unwrap() {
                found.push((key, number_of(value).unwrap()));
            }
            assert_eq!(found, expected.into_iter().collect::<Vec<_>>());
        }
        assert!(
            left_out > 1_000 && bookmarks_met > 500,
            "{left_out}, {bookmarks_met}"
        );
    }
}
