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
            value: Vec::new(),
            scratch: Vec::new(),
        })
    }

    pub(crate) fn next(&mut self) -> Result<Option<(Key, &[u8])>> {
        if let Some(given) = self.given.take() {
            self.inputs[given].advance()?;
        }
        let mut newest: Option<(usize, Key)> = None;
        let mut shared = false;
        for (index, input) in self.inputs.iter().enumerate() {
            let Some(key) = input.key else { continue };
            match newest {
                Some((_, least)) if key > least => {}
                Some((_, least)) if key == least => shared = true,
                _ => {
                    newest = Some((index, key));
                    shared = false;
                }
            }
        }
        let Some((newest, key)) = newest else {
            return Ok(None);
        };
        let combined = shared && self.fold_older(newest, key)?;
        self.given = Some(newest);
        let value = if combined {
            &self.value
        } else {
            self.inputs[newest].value()
        };
        Ok(Some((key, value)))
    }

    /// Passes over older entries of the key; true if their values went into `self.value`.
    fn fold_older(&mut self, newest: usize, key: Key) -> Result<bool> {
        if self.combine.is_some() {
            self.value.clear();
            self.value.extend_from_slice(self.inputs[newest].value());
        }
        for input in &mut self.inputs[newest + 1..] {
            if input.key != Some(key) {
                continue;
            }
            if let Some(combine) = self.combine {
                self.scratch.clear();
                combine(input.value(), &self.value, &mut self.scratch)
                    .ok_or_else(|| input.damaged())?;
                std::mem::swap(&mut self.value, &mut self.scratch);
            }
            input.advance()?;
        }
        Ok(self.combine.is_some())
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
