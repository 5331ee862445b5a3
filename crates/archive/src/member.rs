//! Gzip members: one record in, one member out. Nothing else compresses in this room. Where the
//! archive is not to be compressed, records pass as they are.

use crate::error::ArchiveError;
use crate::settings::{ArchiveSettings, Compression};
use libdeflater::{CompressionLvl, Compressor};

/// The two line ends behind a record. An index counts them as part of a gzip member, but not as part
/// of a record in a plain file.
pub(crate) const RECORD_END: &[u8] = b"\r\n\r\n";

/// Larger scratch space is given back after use, so that one huge body does not stay in RAM.
const SCRATCH_KEPT_BYTES: usize = 4 << 20;

pub(crate) struct GzipMembers {
    packing: Compressor,
    storing: Compressor,
    compression: Compression,
    scratch: Vec<u8>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Packing {
    Deflate,
    /// For what is compressed already: a copy and a checksum.
    Store,
}

impl GzipMembers {
    pub fn new(settings: &ArchiveSettings) -> Result<Self, ArchiveError> {
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
            packing: compressor(settings.compression_level)?,
            storing: compressor(0)?,
            compression: settings.compression,
            scratch: Vec::new(),
        })
    }

    /// Appends one record to `out` and returns its length as an index says it.
    pub fn append(&mut self, out: &mut Vec<u8>, record: &[u8], packing: Packing) -> usize {
        if self.compression == Compression::None {
            out.extend_from_slice(record);
            return record.len() - RECORD_END.len();
        }
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
