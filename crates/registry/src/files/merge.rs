//! Reading several sorted sources as one, newest first where they share a key. Streams: holds one
//! block a source.

use crate::by_id::IdMap;
use crate::error::{RegistryError, Result};
use crate::files::{Cursor, Key};
use std::path::PathBuf;
use std::sync::Arc;

/// Gives the next entry of a sorted source in RAM: its key, and its value by way of the buffer.
pub(crate) type MemorySource = Box<dyn FnMut(&mut Vec<u8>) -> Option<Key> + Send>;

/// Makes one value of an older and a newer one of the same key; `None` if either is damaged.
pub(crate) type Combine = fn(older: &[u8], newer: &[u8], out: &mut Vec<u8>) -> Option<()>;

/// First key words whose entries before a second word are no longer wanted.
pub(crate) type Consumed = Arc<IdMap<u64>>;

pub(crate) enum MergeInput {
    Memory(MemorySource),
    Table {
        cursor: Cursor,
        path: PathBuf,
        wanted: Wanted,
    },
}

/// Which entries of a table are still wanted.
#[derive(Default)]
pub(crate) struct Wanted {
    consumed: Option<Consumed>,
    /// For the first key word met last: the first second word that is wanted.
    last: (u64, u64),
}

impl Wanted {
    pub(crate) fn all_but(consumed: Option<Consumed>) -> Self {
        Self {
            consumed,
            last: (0, 0),
        }
    }

    #[inline]
    fn holds(&mut self, (hi, lo): Key) -> bool {
        let Some(consumed) = &self.consumed else {
            return true;
        };
        if self.last.0 != hi {
            self.last = (hi, consumed.get(&hi).copied().unwrap_or(0));
        }
        lo >= self.last.1
    }
}

pub(crate) struct Merged {
    inputs: Vec<Input>,
    /// `None`: the newest value is the value.
    combine: Option<Combine>,
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
}

impl Merged {
    /// `inputs` come newest first.
    pub(crate) fn new(inputs: Vec<MergeInput>, combine: Option<Combine>) -> Result<Self> {
        let mut inputs: Vec<Input> = inputs
            .into_iter()
            .map(|source| Input {
                source,
                key: None,
                value: Vec::new(),
            })
            .collect();
        for input in &mut inputs {
            input.advance()?;
        }
        Ok(Self {
            inputs,
            combine,
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
        let combined = self.fold_older(newest, key)?;
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
            if let Some(combine) = self.combine {
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
}

impl Input {
    #[inline]
    fn value(&self) -> &[u8] {
        match &self.source {
            MergeInput::Memory(_) => &self.value,
            MergeInput::Table { cursor, .. } => cursor.value(),
        }
    }

    #[inline]
    fn advance(&mut self) -> Result<()> {
        self.key = match &mut self.source {
            MergeInput::Memory(next) => {
                self.value.clear();
                next(&mut self.value)
            }
            MergeInput::Table { cursor, wanted, .. } => loop {
                if !cursor.advance()? {
                    break None;
                }
                if wanted.holds(cursor.key()) {
                    break Some(cursor.key());
                }
            },
        };
        Ok(())
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
            for combine in [None, Some(append as Combine)] {
                let mut expected: BTreeMap<Key, Vec<u8>> = BTreeMap::new();
                for source in sources.iter().rev() {
                    for (key, value) in source {
                        let known = expected.entry(*key).or_default();
                        if combine.is_none() {
                            known.clear();
                        }
                        known.extend_from_slice(value);
                    }
                }
                let inputs = sources.iter();
                let inputs = inputs.map(|one| source(one.clone().into_iter().collect()));
                let mut merged = Merged::new(inputs.collect(), combine).unwrap();
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
}
