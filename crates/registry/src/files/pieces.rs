//! Pieces with checksums in files that only grow: a number that tells the body's length, a checksum, the body.
//! And reading such a file from end to end, for who looks for damage.

use crate::error::{At, RegistryError, Result};
use crate::files::AppendFile;
use crate::wire::{Reader, put_varint};
use std::fs::File;
use std::io::{BufRead, BufReader, ErrorKind};
use std::path::{Path, PathBuf};

const CHECKSUM_BYTES: usize = 4;

/// `number` tells the body's length to whoever knows what is in it.
pub(crate) fn put_piece(out: &mut Vec<u8>, number: u64, body: &[u8]) {
    put_varint(out, number);
    out.extend_from_slice(&crc32fast::hash(body).to_le_bytes());
    out.extend_from_slice(body);
}

/// Returns where the next piece starts, and the body.
pub(crate) fn read_piece(
    file: &AppendFile,
    offset: u64,
    body_bytes: impl Fn(u64) -> u64,
) -> Result<(u64, Vec<u8>)> {
    const HEAD_BYTES: usize = 14;
    let damaged = || RegistryError::corrupt(file.path(), offset, "a record has a bad checksum");
    let mut bytes = Vec::new();
    file.read(offset, HEAD_BYTES, &mut bytes)?;
    let mut reader = Reader::new(&bytes);
    let length = reader
        .varint()
        .map(&body_bytes)
        .filter(|&length| length <= file.len())
        .ok_or_else(damaged)?;
    let crc = reader
        .take(CHECKSUM_BYTES)
        .and_then(|crc| crc.try_into().ok())
        .map(u32::from_le_bytes)
        .ok_or_else(damaged)?;
    let start = offset + (bytes.len() - reader.left()) as u64;
    let mut body = Vec::new();
    file.read(start, length as usize, &mut body)?;
    if body.len() as u64 != length || crc32fast::hash(&body) != crc {
        return Err(damaged());
    }
    Ok((start + length, body))
}

/// Reads a file once, front to back, up to the length that a manifest gives it.
pub(crate) struct Scan {
    path: PathBuf,
    file: BufReader<File>,
    offset: u64,
    length: u64,
    /// Of all bytes since `restart`.
    crc: crc32fast::Hasher,
}

impl Scan {
    /// A file of no length need not be there.
    pub(crate) fn open(path: &Path, length: u64) -> Result<Option<Self>> {
        let file = match File::open(path) {
            Err(error) if error.kind() == ErrorKind::NotFound && length == 0 => return Ok(None),
            opened => opened.at(path)?,
        };
        let found = file.metadata().at(path)?.len();
        if found < length {
            let what = format!("it ends {} bytes early", length - found);
            return Err(RegistryError::corrupt(path, found, what));
        }
        Ok(Some(Self {
            path: path.to_path_buf(),
            file: BufReader::with_capacity(1 << 18, file),
            offset: 0,
            length,
            crc: crc32fast::Hasher::new(),
        }))
    }

    pub(crate) fn offset(&self) -> u64 {
        self.offset
    }

    pub(crate) fn is_at_end(&self) -> bool {
        self.offset >= self.length
    }

    /// The checksum begins here.
    pub(crate) fn restart(&mut self) {
        self.crc = crc32fast::Hasher::new();
    }

    pub(crate) fn checksum(&self) -> u32 {
        self.crc.clone().finalize()
    }

    pub(crate) fn damaged(&self, offset: u64, what: &str) -> RegistryError {
        RegistryError::corrupt(&self.path, offset, what)
    }

    pub(crate) fn byte(&mut self) -> Result<u8> {
        let mut byte = [0];
        self.take(1, |bytes| byte[0] = bytes[0])?;
        Ok(byte[0])
    }

    pub(crate) fn varint(&mut self) -> Result<u64> {
        let start = self.offset;
        let mut value = 0;
        for shift in (0..=63).step_by(7) {
            let byte = self.byte()?;
            value |= u64::from(byte & 0x7f) << shift;
            if byte < 0x80 {
                return Ok(value);
            }
        }
        Err(self.damaged(start, "a number has no end"))
    }

    pub(crate) fn skip(&mut self, length: u64) -> Result<()> {
        self.take(length, |_| ())
    }

    pub(crate) fn word(&mut self) -> Result<u32> {
        let mut word = Vec::with_capacity(CHECKSUM_BYTES);
        self.take(CHECKSUM_BYTES as u64, |bytes| word.extend_from_slice(bytes))?;
        Ok(word.try_into().map_or(0, u32::from_le_bytes))
    }

    /// A piece as `put_piece` wrote it.
    pub(crate) fn piece(&mut self, body_bytes: impl Fn(u64) -> u64) -> Result<()> {
        let start = self.offset;
        let length = body_bytes(self.varint()?);
        let crc = self.word()?;
        self.restart();
        self.skip(length)?;
        if self.checksum() != crc {
            return Err(self.damaged(start, "a record has a bad checksum"));
        }
        Ok(())
    }

    /// Hands on `length` bytes in small parts, so that a damaged length costs no memory.
    fn take(&mut self, length: u64, mut give: impl FnMut(&[u8])) -> Result<()> {
        if length > self.length - self.offset {
            return Err(self.damaged(self.offset, "a record goes beyond the file's end"));
        }
        let mut left = length;
        while left > 0 {
            let bytes = self.file.fill_buf().at(&self.path)?;
            let bytes = &bytes[..bytes.len().min(usize::try_from(left).unwrap_or(usize::MAX))];
            if bytes.is_empty() {
                return Err(self.damaged(self.offset, "the file ends early"));
            }
            give(bytes);
            self.crc.update(bytes);
            let used = bytes.len();
            self.file.consume(used);
            self.offset += used as u64;
            left -= used as u64;
        }
        Ok(())
    }
}
