//! An immutable sorted file: blocks of entries with checksums, and a sparse index and a filter that
//! are held in RAM. Written streaming, read by a `Cursor`.

use crate::error::{At, RegistryError, Result};
use crate::files::block::BlockBuilder;
use crate::files::filter::Filter;
use crate::files::kept::KeptFile;
use crate::files::paced::PacedFile;
use crate::wire::{Reader, put_u64};
use std::fs::File;
use std::io::{BufWriter, Write};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

/// Sorts by the first word, then by the second.
pub(crate) type Key = (u64, u64);

/// What the entries of a table look like, so that none spends bytes on what all share.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Shape {
    /// Is there a second key word?
    pub(crate) wide: bool,
    /// The length of every value, if they are all the same.
    pub(crate) value_bytes: Option<u8>,
}

const MAGIC: &[u8; 8] = b"PORTTBL3";
/// After each block.
const CHECKSUM_BYTES: usize = 4;
/// End of the blocks, number of blocks, lines of the filter, number of entries.
const FOOTER_WORDS: usize = 4;
/// The words, a checksum of all that follows the blocks, the magic.
const FOOTER_BYTES: usize = 8 * FOOTER_WORDS + 8 + 8;

pub(crate) struct TableWriter {
    path: PathBuf,
    file: BufWriter<PacedFile>,
    shape: Shape,
    offset: u64,
    entries: u64,
    block: BlockBuilder,
    first_hi: Vec<u64>,
    first_lo: Vec<u64>,
    offsets: Vec<u64>,
    filter: Filter,
}

impl TableWriter {
    /// The filter will have room for `filter_keys`; with none there is no filter.
    pub(crate) fn create(path: PathBuf, shape: Shape, filter_keys: usize) -> Result<Self> {
        let file = super::create(&path).at(&path)?;
        let mut file = BufWriter::with_capacity(1 << 18, PacedFile::new(KeptFile::held(file)));
        file.write_all(MAGIC).at(&path)?;
        Ok(Self {
            path,
            file,
            shape,
            offset: MAGIC.len() as u64,
            entries: 0,
            block: BlockBuilder::default(),
            first_hi: Vec::new(),
            first_lo: Vec::new(),
            offsets: Vec::new(),
            filter: Filter::with_room(filter_keys),
        })
    }

    /// Keys come in ascending order.
    #[inline]
    pub(crate) fn push(&mut self, key: Key, value: &[u8]) -> Result<()> {
        self.block.push(key, value, self.shape);
        self.filter.insert(key.0);
        self.entries += 1;
        if self.block.is_full() {
            self.end_block()?;
        }
        Ok(())
    }

    pub(super) fn entries(&self) -> u64 {
        self.entries
    }

    fn end_block(&mut self) -> Result<()> {
        if self.block.is_empty() {
            return Ok(());
        }
        let (first_hi, first_lo) = self.block.first_key();
        self.first_hi.push(first_hi);
        if self.shape.wide {
            self.first_lo.push(first_lo);
        }
        self.offsets.push(self.offset);
        let block = self.block.finish(self.shape);
        let crc = crc32fast::hash(block).to_le_bytes();
        self.file.write_all(block).at(&self.path)?;
        self.file.write_all(&crc).at(&self.path)?;
        self.offset += (block.len() + CHECKSUM_BYTES) as u64;
        self.block.clear();
        Ok(())
    }

    /// Writes filter and index, syncs, and opens the table for reading.
    pub(crate) fn finish(mut self) -> Result<Table> {
        self.end_block()?;
        let mut crc = crc32fast::Hasher::new();
        self.filter.write(&mut self.file, &mut crc).at(&self.path)?;
        let mut tail = Vec::with_capacity(self.offsets.len() * 24 + FOOTER_BYTES);
        for (block, offset) in self.offsets.iter().enumerate() {
            put_u64(&mut tail, self.first_hi[block]);
            if self.shape.wide {
                put_u64(&mut tail, self.first_lo[block]);
            }
            put_u64(&mut tail, *offset);
        }
        put_u64(&mut tail, self.offset);
        put_u64(&mut tail, self.offsets.len() as u64);
        put_u64(&mut tail, self.filter.lines() as u64);
        put_u64(&mut tail, self.entries);
        crc.update(&tail);
        put_u64(&mut tail, u64::from(crc.finalize()));
        tail.extend_from_slice(MAGIC);
        self.file.write_all(&tail).at(&self.path)?;
        let file = self
            .file
            .into_inner()
            .map_err(|error| error.into_error())
            .at(&self.path)?;
        file.file().with(File::sync_all).at(&self.path)?;
        let metadata = file.file().with(File::metadata).at(&self.path)?;
        let bytes = metadata.len();
        drop(file);
        let file = File::open(&self.path).at(&self.path)?;
        Ok(Table {
            file: KeptFile::new(self.path.clone(), file, false),
            path: self.path,
            shape: self.shape,
            bytes,
            entries: self.entries,
            first_hi: self.first_hi,
            first_lo: self.first_lo,
            offsets: self.offsets,
            blocks_end: self.offset,
            filter: self.filter,
        })
    }
}

#[derive(Debug)]
pub(crate) struct Table {
    path: PathBuf,
    file: KeptFile,
    shape: Shape,
    bytes: u64,
    entries: u64,
    /// First key of each block; second words only where the table is wide.
    first_hi: Vec<u64>,
    first_lo: Vec<u64>,
    offsets: Vec<u64>,
    /// End of the last block.
    blocks_end: u64,
    filter: Filter,
}

impl Table {
    pub(crate) fn open(path: PathBuf, shape: Shape) -> Result<Self> {
        let file = File::open(&path).at(&path)?;
        let bytes = file.metadata().at(&path)?.len();
        let damaged = |offset: u64, what: &str| RegistryError::corrupt(&path, offset, what);
        if bytes < (MAGIC.len() + FOOTER_BYTES) as u64 {
            return Err(damaged(bytes, "it is too short"));
        }
        let footer_at = bytes - FOOTER_BYTES as u64;
        let mut magic = [0; MAGIC.len()];
        file.read_exact_at(&mut magic, 0).at(&path)?;
        let mut footer = [0; FOOTER_BYTES];
        file.read_exact_at(&mut footer, footer_at).at(&path)?;
        let word = |n: usize| {
            let mut word = [0; 8];
            word.copy_from_slice(&footer[n * 8..n * 8 + 8]);
            u64::from_le_bytes(word)
        };
        let (blocks_end, blocks, filter_lines, entries) = (word(0), word(1), word(2), word(3));
        let entry_bytes = if shape.wide { 24 } else { 16 };
        let filter_bytes = filter_lines.checked_mul(Filter::LINE_BYTES as u64);
        let index_at = filter_bytes.and_then(|n| n.checked_add(blocks_end));
        let index_end = blocks
            .checked_mul(entry_bytes)
            .and_then(|n| n.checked_add(index_at?));
        let (Some(index_at), true) = (
            index_at,
            &magic == MAGIC
                && &footer[FOOTER_BYTES - MAGIC.len()..] == MAGIC
                && index_end == Some(footer_at),
        ) else {
            return Err(damaged(footer_at, "its footer is not one"));
        };
        let mut crc = crc32fast::Hasher::new();
        let filter = Filter::read(&file, &path, blocks_end, filter_lines as usize, &mut crc)?;
        let mut tail = vec![0; (footer_at - index_at) as usize + 8 * FOOTER_WORDS];
        file.read_exact_at(&mut tail, index_at).at(&path)?;
        crc.update(&tail);
        if u64::from(crc.finalize()) != word(FOOTER_WORDS) {
            return Err(damaged(blocks_end, "its index has a bad checksum"));
        }
        let mut reader = Reader::new(&tail);
        let mut table = Self {
            file: KeptFile::new(path.clone(), file, false),
            shape,
            bytes,
            entries,
            first_hi: Vec::with_capacity(blocks as usize),
            first_lo: Vec::with_capacity(if shape.wide { blocks as usize } else { 0 }),
            offsets: Vec::with_capacity(blocks as usize),
            blocks_end,
            filter,
            path,
        };
        for _ in 0..blocks {
            // The length was checked above.
            table.first_hi.extend(reader.u64());
            if shape.wide {
                table.first_lo.extend(reader.u64());
            }
            table.offsets.extend(reader.u64());
        }
        Ok(table)
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// The file will be deleted; lookups that are under way may go on.
    pub(crate) fn outlive_name(&self) -> Result<()> {
        self.file.hold().at(&self.path)
    }

    pub(super) fn shape(&self) -> Shape {
        self.shape
    }

    pub(super) fn blocks(&self) -> usize {
        self.offsets.len()
    }

    pub(super) fn offset(&self, block: usize) -> u64 {
        self.offsets[block]
    }

    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }

    pub(crate) fn entries(&self) -> u64 {
        self.entries
    }

    pub(crate) fn filter(&self) -> &Filter {
        &self.filter
    }

    /// The sparse index and the filter.
    pub(crate) fn ram_bytes(&self) -> usize {
        8 * (self.first_hi.len() + self.first_lo.len() + self.offsets.len()) + self.filter.bytes()
    }

    pub(super) fn first_key(&self, block: usize) -> Key {
        let lo = if self.shape.wide {
            self.first_lo[block]
        } else {
            0
        };
        (self.first_hi[block], lo)
    }

    /// The last block that may hold the key, among those from `from` on.
    pub(super) fn block_of(&self, key: Key, from: usize) -> usize {
        let blocks = self.offsets.len();
        let (mut low, mut high) = (from, blocks);
        // Callers ask in ascending order, so the block is mostly near: gallop, then halve.
        let mut step = 1;
        while low + step < high && self.first_key(low + step) <= key {
            low += step;
            step *= 2;
        }
        high = high.min(low + step);
        while low + 1 < high {
            let middle = (low + high) / 2;
            if self.first_key(middle) <= key {
                low = middle;
            } else {
                high = middle;
            }
        }
        low
    }

    /// Reads all blocks; the first that is damaged is the error.
    pub(crate) fn scrub(&self) -> Result<()> {
        let mut block = Vec::new();
        for number in 0..self.blocks() {
            self.read_block(number, &mut block)?;
        }
        Ok(())
    }

    pub(super) fn read_block(&self, block: usize, into: &mut Vec<u8>) -> Result<()> {
        let start = self.offsets[block];
        let end = self
            .offsets
            .get(block + 1)
            .copied()
            .unwrap_or(self.blocks_end);
        let damaged = || RegistryError::corrupt(&self.path, start, "a block has a bad checksum");
        let length = end
            .checked_sub(start)
            .filter(|&length| length > CHECKSUM_BYTES as u64 && end <= self.bytes)
            .ok_or_else(damaged)?;
        into.resize(length as usize, 0);
        self.file
            .with(|file| file.read_exact_at(into, start))
            .at(&self.path)?;
        let body = into.len() - CHECKSUM_BYTES;
        if crc32fast::hash(&into[..body]).to_le_bytes() != into[body..] {
            return Err(damaged());
        }
        into.truncate(body);
        Ok(())
    }
}
