//! Reading a sorted file from some key on, block by block, forward.

use crate::error::{RegistryError, Result};
use crate::files::table::BLOCK_HEADER_BYTES;
use crate::files::{Key, Shape, Table};
use crate::wire::varint_at;
use std::ops::Range;
use std::sync::Arc;

/// Walks a table forward.
#[derive(Debug)]
pub(crate) struct Cursor {
    table: Arc<Table>,
    /// The block after the one in `buffer`.
    next_block: usize,
    buffer: Vec<u8>,
    position: usize,
    key: Key,
    value: Range<usize>,
    /// Is there a current entry?
    valid: bool,
}

impl Cursor {
    /// Before the first entry: `advance` or `seek` first.
    pub(crate) fn new(table: Arc<Table>) -> Self {
        Self {
            table,
            next_block: 0,
            buffer: Vec::new(),
            position: 0,
            key: (0, 0),
            value: 0..0,
            valid: false,
        }
    }

    pub(crate) fn table(&self) -> &Table {
        &self.table
    }

    pub(crate) fn key(&self) -> Key {
        self.key
    }

    pub(crate) fn value(&self) -> &[u8] {
        &self.buffer[self.value.clone()]
    }

    /// To the next entry; false at the end.
    #[inline]
    pub(crate) fn advance(&mut self) -> Result<bool> {
        if self.position == self.buffer.len() {
            if self.next_block == self.table.blocks() {
                self.valid = false;
                return Ok(false);
            }
            self.load(self.next_block)?;
        }
        let Some((key, value)) =
            entry_at(&self.buffer, self.position, self.key, self.table.shape())
        else {
            return Err(self.damaged());
        };
        (self.key, self.position, self.value) = (key, value.end, value);
        self.valid = true;
        Ok(true)
    }

    /// To the first entry at or after `key`; false if there is none. Never moves back.
    pub(crate) fn seek(&mut self, key: Key) -> Result<bool> {
        if self.valid && self.key >= key {
            return Ok(true);
        }
        let blocks = self.table.blocks();
        if self.next_block < blocks && self.table.first_key(self.next_block) <= key {
            let block = self.table.block_of(key, self.next_block);
            self.load(block)?;
        }
        loop {
            match self.seek_in_block(key) {
                Some(true) => return Ok(true),
                // In a block whose first key is after it, if at all.
                Some(false) if self.next_block < self.table.blocks() => {
                    self.load(self.next_block)?;
                }
                Some(false) => {
                    self.valid = false;
                    return Ok(false);
                }
                None => return Err(self.damaged()),
            }
        }
    }

    /// To the first entry of the block in the buffer at or after `key`; false if there is none, `None`
    /// if the block is damaged. Most of a lookup: everything is in local variables.
    fn seek_in_block(&mut self, key: Key) -> Option<bool> {
        let shape = self.table.shape();
        let buffer = &self.buffer[..];
        let (mut at, mut last) = (self.position, self.key);
        while at < buffer.len() {
            let (found, value) = entry_at(buffer, at, last, shape)?;
            (at, last) = (value.end, found);
            if found >= key {
                (self.key, self.position, self.value) = (found, at, value);
                self.valid = true;
                return Some(true);
            }
        }
        (self.key, self.position) = (last, at);
        Some(false)
    }

    fn load(&mut self, block: usize) -> Result<()> {
        self.table.read_block(block, &mut self.buffer)?;
        self.position = BLOCK_HEADER_BYTES;
        self.next_block = block + 1;
        self.key = (0, 0);
        Ok(())
    }

    fn damaged(&mut self) -> RegistryError {
        self.valid = false;
        RegistryError::corrupt(
            self.table.path(),
            self.table.offset(self.next_block.saturating_sub(1)),
            "a block's entries cannot be read",
        )
    }
}

/// The entry that starts at `at` and follows one with the key `last`: its key, and where its value
/// stands, which is where the entry ends. `None` if there is no whole one.
#[inline]
fn entry_at(block: &[u8], at: usize, last: Key, shape: Shape) -> Option<(Key, Range<usize>)> {
    let (step, mut at) = varint_at(block, at)?;
    let hi = last.0.checked_add(step)?;
    let mut lo = 0;
    if shape.wide {
        let base = if step == 0 { last.1 } else { 0 };
        let (step, end) = varint_at(block, at)?;
        lo = base.checked_add(step)?;
        at = end;
    }
    let length = match shape.value_bytes {
        Some(length) => u64::from(length),
        None => {
            let (length, end) = varint_at(block, at)?;
            at = end;
            length
        }
    };
    let end = at.checked_add(usize::try_from(length).ok()?)?;
    (end <= block.len()).then_some(((hi, lo), at..end))
}
