//! Content codings that a page may be sent in. Which one is picked depends on the page and on what the client takes.

use flate2::Compression;
use flate2::write::{GzEncoder, ZlibEncoder};
use std::io::Write;

const BROTLI_BUFFER: usize = 16 * 1024;
const BROTLI_QUALITY: u32 = 3;
const BROTLI_WINDOW: u32 = 20;
const ZSTD_LEVEL: i32 = 1;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Coding {
    Gzip,
    Deflate,
    Brotli,
    Zstd,
}

impl Coding {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Coding::Gzip => "gzip",
            Coding::Deflate => "deflate",
            Coding::Brotli => "br",
            Coding::Zstd => "zstd",
        }
    }

    pub(crate) fn encode(self, body: &[u8]) -> Vec<u8> {
        match self {
            Coding::Gzip => gzip(body),
            Coding::Deflate => {
                let mut encoder = ZlibEncoder::new(Vec::new(), Compression::fast());
                // Writing into memory cannot fail; an empty body would say so in every test.
                let _ = encoder.write_all(body);
                encoder.finish().unwrap_or_default()
            }
            Coding::Brotli => {
                let mut out = Vec::new();
                let mut writer = brotli::CompressorWriter::new(
                    &mut out,
                    BROTLI_BUFFER,
                    BROTLI_QUALITY,
                    BROTLI_WINDOW,
                );
                let _ = writer.write_all(body);
                drop(writer);
                out
            }
            Coding::Zstd => zstd::stream::encode_all(body, ZSTD_LEVEL).unwrap_or_default(),
        }
    }
}

pub(crate) fn gzip(body: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
    let _ = encoder.write_all(body);
    encoder.finish().unwrap_or_default()
}
