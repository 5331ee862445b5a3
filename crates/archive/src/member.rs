//! Gzip members: one record in, one member out. Nothing else compresses in this room.

use crate::error::ArchiveError;
use libdeflater::{CompressionLvl, Compressor};

/// Larger scratch space is given back after use, so that one huge body does not stay in RAM.
const SCRATCH_KEPT_BYTES: usize = 4 << 20;

pub(crate) struct GzipMembers {
    packing: Compressor,
    storing: Compressor,
    scratch: Vec<u8>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Packing {
    Deflate,
    /// For what is compressed already: a copy and a checksum.
    Store,
}

impl GzipMembers {
    pub fn new(level: u8) -> Result<Self, ArchiveError> {
        let compressor = |level: u8| {
            CompressionLvl::new(i32::from(level))
                .map(Compressor::new)
                .map_err(|_| {
                    ArchiveError::Setting(format!(
                        "compression_level is {level}, but must be 0 to 12"
                    ))
                })
        };
        Ok(Self {
            packing: compressor(level)?,
            storing: compressor(0)?,
            scratch: Vec::new(),
        })
    }

    /// Appends one member to `out` and returns its length.
    pub fn append(&mut self, out: &mut Vec<u8>, record: &[u8], packing: Packing) -> usize {
        let compressor = match packing {
            Packing::Deflate => &mut self.packing,
            Packing::Store => &mut self.storing,
        };
        let bound = compressor.gzip_compress_bound(record.len());
        if self.scratch.len() < bound {
            self.scratch.resize(bound, 0);
        }
        let length = compressor
            .gzip_compress(record, &mut self.scratch)
            .expect("the output has the size that the compressor asked for");
        out.extend_from_slice(&self.scratch[..length]);
        if self.scratch.len() > SCRATCH_KEPT_BYTES {
            self.scratch = Vec::new();
        }
        length
    }
}
