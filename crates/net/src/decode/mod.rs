//! Content encodings, undone as the bytes arrive. What was decoded before a stream broke, or before
//! it grew over its limit, stands; the bytes as received stay untouched for the archive.

mod stage;

use crate::http::Head;
use libdeflater::Decompressor;
use stage::{Stage, Status};
use std::borrow::Cow;

/// A chain of more encodings than this is not undone.
const MAX_STAGES: usize = 3;
const SCRATCH_BYTES: usize = 32 * 1024;
/// DEFLATE cannot expand more than this; a gzip trailer that says more is not believed.
const MAX_DEFLATE_RATIO: usize = 1_032;

/// Why decoding stopped before the end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DecodeEnd {
    /// The limit on decoded bytes is reached.
    TooLong,
    /// The stream is broken or was cut off.
    Broken,
}

/// Undoes the encodings of one body.
pub struct Decoder {
    /// In the order in which they are undone.
    stages: Vec<Stage>,
    /// Output of each stage so far: all are limited, so that no stage inside a chain is a bomb.
    produced: [u64; MAX_STAGES],
    scratch: Vec<Vec<u8>>,
    max_decoded_bytes: u64,
    ended: Option<DecodeEnd>,
}

impl Decoder {
    /// For the value of a Content-Encoding header. `None` if there is nothing to undo, or an
    /// encoding that is not known: the bytes are then taken as they are.
    pub fn for_encoding(header: &str, max_decoded_bytes: u64) -> Option<Self> {
        let mut stages = Vec::new();
        for name in header.split(',').map(str::trim) {
            if name.is_empty() || name.eq_ignore_ascii_case("identity") {
                continue;
            }
            if stages.len() == MAX_STAGES {
                return None;
            }
            stages.push(Stage::named(name)?);
        }
        if stages.is_empty() {
            return None;
        }
        stages.reverse();
        Some(Self {
            scratch: vec![vec![0; SCRATCH_BYTES]; stages.len()],
            stages,
            produced: [0; MAX_STAGES],
            max_decoded_bytes,
            ended: None,
        })
    }

    /// The values of all Content-Encoding headers as one list.
    pub fn encodings_of(head: &Head) -> Cow<'_, str> {
        let mut values = head.get_all("content-encoding");
        let first = values.next().map(String::from_utf8_lossy);
        let mut all = first.unwrap_or_default();
        for value in values {
            let all = all.to_mut();
            all.push(',');
            all.push_str(&String::from_utf8_lossy(value));
        }
        all
    }

    /// Is this the name of an encoding that can be undone?
    pub(crate) fn knows(name: &[u8]) -> bool {
        std::str::from_utf8(name).is_ok_and(|name| Stage::named(name).is_some())
    }

    /// Decode the next bytes of the body and append the result to `out`. After an error nothing
    /// more is decoded, and the same error comes again.
    pub fn push(&mut self, input: &[u8], out: &mut Vec<u8>) -> Result<(), DecodeEnd> {
        if let Some(ended) = self.ended {
            return Err(ended);
        }
        let mut run = Run {
            max_decoded_bytes: self.max_decoded_bytes,
            out,
        };
        let result = run.stages(
            &mut self.stages,
            &mut self.produced,
            &mut self.scratch,
            input,
        );
        self.ended = result.err();
        result
    }

    /// The body has ended: was the stream whole?
    pub fn finish(&mut self) -> Result<(), DecodeEnd> {
        if let Some(ended) = self.ended {
            return Err(ended);
        }
        if self.stages.iter().all(Stage::may_end_here) {
            Ok(())
        } else {
            self.ended = Some(DecodeEnd::Broken);
            Err(DecodeEnd::Broken)
        }
    }

    /// Did the body not have the encoding that its header claims, so that it was passed through?
    pub fn was_not_encoded(&self) -> bool {
        self.stages.iter().any(Stage::is_passing_through)
    }

    /// The body of an answer, with all its Content-Encoding headers undone.
    ///
    /// A server and what stands before it may both say what only one of them did. Where undoing a name
    /// twice in a row breaks, it is undone once; gzip shows by itself whether there is a second layer.
    pub fn decode_answer<'a>(
        head: &Head,
        body: &'a [u8],
        max_decoded_bytes: u64,
    ) -> (Cow<'a, [u8]>, Result<(), DecodeEnd>) {
        let encodings = Self::encodings_of(head);
        let (decoded, result) = Self::decode_body(&encodings, body, max_decoded_bytes);
        if result == Err(DecodeEnd::Broken)
            && let Some(fewer) = without_repeats(&encodings)
        {
            let (by_fewer, fewer_result) = Self::decode_body(&fewer, body, max_decoded_bytes);
            if fewer_result != Err(DecodeEnd::Broken) {
                return (by_fewer, fewer_result);
            }
        }
        (decoded, result)
    }

    /// A body that is all there. Faster than `push` for gzip, the same result otherwise.
    pub fn decode_body<'a>(
        content_encoding: &str,
        body: &'a [u8],
        max_decoded_bytes: u64,
    ) -> (Cow<'a, [u8]>, Result<(), DecodeEnd>) {
        let name = content_encoding.trim();
        if (name.eq_ignore_ascii_case("gzip") || name.eq_ignore_ascii_case("x-gzip"))
            && let Some(decoded) = gunzip_whole(body, max_decoded_bytes)
        {
            return (Cow::Owned(decoded), Ok(()));
        }
        let Some(mut decoder) = Self::for_encoding(content_encoding, max_decoded_bytes) else {
            return (Cow::Borrowed(body), Ok(()));
        };
        let mut out = Vec::with_capacity(body.len().saturating_mul(3).min(1 << 20));
        let result = decoder.push(body, &mut out).and_then(|()| decoder.finish());
        (Cow::Owned(out), result)
    }
}

/// The list with each run of the same name made one; `None` if there is no such run.
fn without_repeats(encodings: &str) -> Option<String> {
    let names = || {
        encodings
            .split(',')
            .map(str::trim)
            .filter(|n| !n.is_empty())
    };
    let mut distinct: Vec<&str> = Vec::new();
    for name in names() {
        if !distinct
            .last()
            .is_some_and(|last| last.eq_ignore_ascii_case(name))
        {
            distinct.push(name);
        }
    }
    (distinct.len() < names().count()).then(|| distinct.join(","))
}

/// One gzip member whose trailer tells its size truly; `None` for anything else.
fn gunzip_whole(body: &[u8], max_decoded_bytes: u64) -> Option<Vec<u8>> {
    const MEMBER_START: [u8; 3] = [0x1f, 0x8b, 8];
    let rest = body.strip_prefix(&MEMBER_START)?;
    let size = u32::from_le_bytes(*body.last_chunk::<4>()?) as usize;
    if size as u64 > max_decoded_bytes || size > body.len().saturating_mul(MAX_DEFLATE_RATIO) {
        return None;
    }
    // What looks like a second member may be chance; the streaming decoder will know.
    if memchr::memmem::find(rest, &MEMBER_START).is_some() {
        return None;
    }
    let mut out = vec![0; size];
    match Decompressor::new().gzip_decompress(body, &mut out) {
        Ok(written) if written == size => Some(out),
        _ => None,
    }
}

struct Run<'a> {
    max_decoded_bytes: u64,
    out: &'a mut Vec<u8>,
}

impl Run<'_> {
    /// Push `input` through all stages; the first hands on what it decodes piece by piece.
    fn stages(
        &mut self,
        stages: &mut [Stage],
        produced: &mut [u64],
        scratch: &mut [Vec<u8>],
        mut input: &[u8],
    ) -> Result<(), DecodeEnd> {
        let ([stage, later_stages @ ..], [total, later_totals @ ..], [piece, later_pieces @ ..]) =
            (stages, produced, scratch)
        else {
            self.out.extend_from_slice(input);
            return Ok(());
        };
        loop {
            let step = stage.step(input, piece);
            input = &input[step.consumed..];
            let room = self.max_decoded_bytes - *total;
            let kept = room.min(step.produced as u64) as usize;
            *total += kept as u64;
            if kept > 0 {
                self.stages(later_stages, later_totals, later_pieces, &piece[..kept])?;
            }
            if kept < step.produced {
                return Err(DecodeEnd::TooLong);
            }
            match step.status {
                Status::Broken => return Err(DecodeEnd::Broken),
                Status::Ended => return Ok(()),
                // A full piece may mean that more is waiting inside.
                Status::More if input.is_empty() && step.produced < piece.len() => return Ok(()),
                Status::More if step.consumed == 0 && step.produced == 0 => {
                    return Err(DecodeEnd::Broken);
                }
                Status::More => {}
            }
        }
    }
}

#[cfg(test)]
mod tests;
