//! One content encoding, one step at a time. It knows nothing of limits and chains.

use brotli_decompressor::{BrotliDecompressStream, BrotliResult, BrotliState, StandardAlloc};
use flate2::{Decompress, FlushDecompress};
use zstd::stream::raw::{DParameter, Decoder as ZstdDecoder, Operation};

const GZIP_FIRST_BYTE: u8 = 0x1f;
const WINDOW_BITS: u8 = 15;
/// RFC 9659: 8 MB. A frame that wants more is not for the Web.
const ZSTD_WINDOW_LOG_MAX: u32 = 23;

type Brotli = BrotliState<StandardAlloc, StandardAlloc, StandardAlloc>;

pub(super) enum Stage {
    Gzip(Gzip),
    Deflate(Deflate),
    Brotli {
        state: Box<Brotli>,
        progress: Progress,
    },
    Zstd {
        decoder: ZstdDecoder<'static>,
        between_frames: bool,
    },
}

pub(super) struct Step {
    pub(super) consumed: usize,
    pub(super) produced: usize,
    pub(super) status: Status,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Status {
    More,
    /// The stream is whole; whatever follows is ignored.
    Ended,
    Broken,
}

impl Stage {
    pub(super) fn named(name: &str) -> Option<Self> {
        let is = |known: &str| name.eq_ignore_ascii_case(known);
        Some(if is("gzip") || is("x-gzip") {
            Stage::Gzip(Gzip::Sniffing)
        } else if is("deflate") {
            Stage::Deflate(Deflate::Sniffing)
        } else if is("br") {
            let memory = StandardAlloc::default;
            // Strict: no window beyond 16 MB.
            let state: Brotli = BrotliState::new_strict(memory(), memory(), memory());
            Stage::Brotli {
                state: Box::new(state),
                progress: Progress::None,
            }
        } else if is("zstd") {
            let mut decoder = ZstdDecoder::new().ok()?;
            decoder
                .set_parameter(DParameter::WindowLogMax(ZSTD_WINDOW_LOG_MAX))
                .ok()?;
            Stage::Zstd {
                decoder,
                between_frames: true,
            }
        } else {
            return None;
        })
    }

    pub(super) fn step(&mut self, input: &[u8], out: &mut [u8]) -> Step {
        match self {
            Stage::Gzip(gzip) => gzip.step(input, out),
            Stage::Deflate(deflate) => deflate.step(input, out),
            Stage::Brotli { state, progress } => brotli_step(state, progress, input, out),
            Stage::Zstd {
                decoder,
                between_frames,
            } => zstd_step(decoder, between_frames, input, out),
        }
    }

    /// Is the stream whole if nothing more comes? An empty body is whole in any encoding.
    pub(super) fn may_end_here(&self) -> bool {
        match self {
            Stage::Gzip(gzip) => !matches!(gzip, Gzip::Member(_)),
            Stage::Deflate(deflate) => !matches!(deflate, Deflate::Inflating(_)),
            Stage::Brotli { progress, .. } => *progress != Progress::Begun,
            Stage::Zstd { between_frames, .. } => *between_frames,
        }
    }

    pub(super) fn is_passing_through(&self) -> bool {
        matches!(self, Stage::Gzip(Gzip::Plain))
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Progress {
    None,
    Begun,
    Ended,
}

/// What kind of stream it is, shows in its first byte.
pub(super) enum Gzip {
    Sniffing,
    Member(Box<Decompress>),
    /// A member has ended; another may follow.
    Between,
    /// Never was gzip: some servers only claim it. Passed on as it is.
    Plain,
    Ended,
}

impl Gzip {
    fn step(&mut self, input: &[u8], out: &mut [u8]) -> Step {
        match (&mut *self, input.first()) {
            (Gzip::Member(inflate), _) => {
                let step = inflate_step(inflate, input, out);
                if step.status != Status::Ended {
                    return step;
                }
                *self = Gzip::Between;
                Step {
                    status: Status::More,
                    ..step
                }
            }
            (Gzip::Ended, _) => Step::ended(),
            (Gzip::Plain, _) => {
                let bytes = input.len().min(out.len());
                out[..bytes].copy_from_slice(&input[..bytes]);
                Step {
                    consumed: bytes,
                    produced: bytes,
                    status: Status::More,
                }
            }
            (_, None) => Step::nothing(),
            (_, Some(&GZIP_FIRST_BYTE)) => {
                *self = Gzip::Member(Box::new(Decompress::new_gzip(WINDOW_BITS)));
                self.step(input, out)
            }
            (Gzip::Sniffing, Some(_)) => {
                *self = Gzip::Plain;
                self.step(input, out)
            }
            // Padding or other rubbish after the last member.
            (Gzip::Between, Some(_)) => {
                *self = Gzip::Ended;
                Step::ended()
            }
        }
    }
}

/// By the book a zlib stream; many servers send bare DEFLATE.
pub(super) enum Deflate {
    Sniffing,
    Inflating(Box<Decompress>),
    Ended,
}

impl Deflate {
    fn step(&mut self, input: &[u8], out: &mut [u8]) -> Step {
        match (&mut *self, input.first()) {
            (Deflate::Inflating(inflate), _) => {
                let step = inflate_step(inflate, input, out);
                if step.status == Status::Ended {
                    *self = Deflate::Ended;
                }
                step
            }
            (Deflate::Ended, _) => Step::ended(),
            (Deflate::Sniffing, None) => Step::nothing(),
            (Deflate::Sniffing, Some(first)) => {
                // Method 8 with a window that exists. Bare DEFLATE that begins so would be a stored
                // block with rubbish in its padding.
                let is_zlib = first & 0x8f == 8;
                *self = Deflate::Inflating(Box::new(Decompress::new(is_zlib)));
                self.step(input, out)
            }
        }
    }
}

impl Step {
    fn nothing() -> Self {
        Step {
            consumed: 0,
            produced: 0,
            status: Status::More,
        }
    }

    fn ended() -> Self {
        Step {
            status: Status::Ended,
            ..Step::nothing()
        }
    }
}

fn inflate_step(inflate: &mut Decompress, input: &[u8], out: &mut [u8]) -> Step {
    let (before_in, before_out) = (inflate.total_in(), inflate.total_out());
    let result = inflate.decompress(input, out, FlushDecompress::None);
    Step {
        consumed: (inflate.total_in() - before_in) as usize,
        produced: (inflate.total_out() - before_out) as usize,
        status: match result {
            Ok(flate2::Status::StreamEnd) => Status::Ended,
            Ok(flate2::Status::Ok | flate2::Status::BufError) => Status::More,
            Err(_) => Status::Broken,
        },
    }
}

fn brotli_step(state: &mut Brotli, progress: &mut Progress, input: &[u8], out: &mut [u8]) -> Step {
    if *progress == Progress::Ended {
        return Step::ended();
    }
    let (mut left_in, mut consumed) = (input.len(), 0);
    let (mut left_out, mut produced, mut total) = (out.len(), 0, 0);
    let result = BrotliDecompressStream(
        &mut left_in,
        &mut consumed,
        input,
        &mut left_out,
        &mut produced,
        out,
        &mut total,
        state,
    );
    if consumed > 0 {
        *progress = Progress::Begun;
    }
    Step {
        consumed,
        produced,
        status: match result {
            BrotliResult::ResultSuccess => {
                *progress = Progress::Ended;
                Status::Ended
            }
            BrotliResult::NeedsMoreInput | BrotliResult::NeedsMoreOutput => Status::More,
            BrotliResult::ResultFailure => Status::Broken,
        },
    }
}

fn zstd_step(
    decoder: &mut ZstdDecoder<'static>,
    between_frames: &mut bool,
    input: &[u8],
    out: &mut [u8],
) -> Step {
    if input.is_empty() && *between_frames {
        return Step::nothing();
    }
    match decoder.run_on_buffers(input, out) {
        Ok(status) => {
            *between_frames = status.remaining == 0;
            Step {
                consumed: status.bytes_read,
                produced: status.bytes_written,
                status: Status::More,
            }
        }
        Err(_) => Step {
            status: Status::Broken,
            ..Step::nothing()
        },
    }
}
