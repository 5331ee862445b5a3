//! Reading several sorted sources as one, newest first where they share a key. Streams: holds one
//! block a source.

use crate::error::{RegistryError, Result};
use crate::files::{Cursor, Key};
use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::Arc;

/// Gives the next entry of a sorted source in RAM: its key, and its value by way of the buffer.
pub(crate) type MemorySource = Box<dyn FnMut(&mut Vec<u8>) -> Option<Key> + Send>;

/// Makes one value of an older and a newer one of the same key; `None` if either is damaged.
pub(crate) type Combine = fn(older: &[u8], newer: &[u8], out: &mut Vec<u8>) -> Option<()>;

/// First key words whose entries before a second word are no longer wanted.
pub(crate) type Consumed = Arc<HashMap<u64, u64>>;

pub(crate) enum MergeInput {
    Memory(MemorySource),
    Table {
        cursor: Cursor,
        path: PathBuf,
        consumed: Option<Consumed>,
    },
}

pub(crate) struct Merged {
    inputs: Vec<Input>,
    /// `None`: the newest value is the value.
    combine: Option<Combine>,
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
            value: Vec::new(),
            scratch: Vec::new(),
        })
    }

    pub(crate) fn next(&mut self) -> Result<Option<(Key, &[u8])>> {
        let Some(key) = self.inputs.iter().filter_map(|input| input.key).min() else {
            return Ok(None);
        };
        let mut found = false;
        for input in &mut self.inputs {
            if input.key != Some(key) {
                continue;
            }
            if !found {
                self.value.clear();
                self.value.extend_from_slice(input.value());
                found = true;
            } else if let Some(combine) = self.combine {
                self.scratch.clear();
                combine(input.value(), &self.value, &mut self.scratch)
                    .ok_or_else(|| input.damaged())?;
                std::mem::swap(&mut self.value, &mut self.scratch);
            }
            input.advance()?;
        }
        Ok(Some((key, &self.value)))
    }
}

impl Input {
    fn value(&self) -> &[u8] {
        match &self.source {
            MergeInput::Memory(_) => &self.value,
            MergeInput::Table { cursor, .. } => cursor.value(),
        }
    }

    fn advance(&mut self) -> Result<()> {
        self.key = match &mut self.source {
            MergeInput::Memory(next) => {
                self.value.clear();
                next(&mut self.value)
            }
            MergeInput::Table {
                cursor, consumed, ..
            } => loop {
                if !cursor.advance()? {
                    break None;
                }
                let (hi, lo) = cursor.key();
                match consumed.as_ref().and_then(|hosts| hosts.get(&hi)) {
                    Some(&before) if lo < before => continue,
                    _ => break Some((hi, lo)),
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
