//! Reading a sorted file from some key on, block by block, forward.

use crate::error::{RegistryError, Result};
use crate::files::block::{entries_end, entry_at, last_jump_before};
use crate::files::{Key, Table};
use std::ops::Range;
use std::sync::Arc;

/// Walks a table forward.
#[derive(Debug)]
pub(crate) struct Cursor {
    table: Arc<Table>,
    /// The block after the one in `buffer`.
    next_block: usize,
    buffer: Vec<u8>,
    /// Where the entries of the block in `buffer` end.
    end: usize,
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
            end: 0,
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
        if self.position == self.end {
            if self.next_block == self.table.blocks() {
                self.valid = false;
                return Ok(false);
            }
            self.load(self.next_block)?;
        }
        let entries = &self.buffer[..self.end];
        let Some((key, value)) = entry_at(entries, self.position, self.key, self.table.shape())
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
        let entries = &self.buffer[..self.end];
        let (mut last, mut at) =
            last_jump_before(&self.buffer, (self.position, self.end), key, shape)
                .unwrap_or((self.key, self.position));
        while at < entries.len() {
            let (found, value) = entry_at(entries, at, last, shape)?;
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
        self.next_block = block + 1;
        (self.position, self.key) = (0, (0, 0));
        self.end = entries_end(&self.buffer, self.table.shape()).ok_or_else(|| self.damaged())?;
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
