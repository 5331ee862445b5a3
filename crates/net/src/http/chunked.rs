//! Chunked transfer coding, undone in place: `body` holds what is decoded, then what is not yet.

/// A size line (with its extensions) longer than this is no size line.
const MAX_LINE_BYTES: usize = 4_096;

#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Progress {
    /// All that came is used as far as it goes.
    More,
    /// The body is whole; this many bytes came after it.
    Done { extra: usize },
    /// This is no chunk; what was decoded before stands.
    Broken,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stage {
    Size,
    Data { left: u64 },
    DataEnd,
    Trailer,
}

#[derive(Debug)]
pub(crate) struct Chunked {
    stage: Stage,
    /// Bytes at the front of the buffer that are decoded.
    decoded: usize,
    seen_chunk: bool,
    trailer_bytes: usize,
    max_trailer_bytes: usize,
    /// Something was not as it should be, but could be read.
    pub(crate) odd: bool,
}

impl Chunked {
    pub(crate) fn new(max_trailer_bytes: usize) -> Self {
        Self {
            stage: Stage::Size,
            decoded: 0,
            seen_chunk: false,
            trailer_bytes: 0,
            max_trailer_bytes,
            odd: false,
        }
    }

    pub(crate) fn decoded(&self) -> usize {
        self.decoded
    }

    /// Has a single good size line come? If not, the body is not chunked at all.
    pub(crate) fn seen_chunk(&self) -> bool {
        self.seen_chunk
    }

    /// Are all data there, and only the end of the trailer missing?
    pub(crate) fn data_complete(&self) -> bool {
        self.stage == Stage::Trailer
    }

    /// Decode what follows the decoded part of `body`. On `Done` only the decoded part is left.
    pub(crate) fn decode(&mut self, body: &mut Vec<u8>) -> Progress {
        let mut at = self.decoded;
        let progress = self.walk(body, &mut at);
        match progress {
            // Nothing is taken away, so that a body that is not chunked at all can be kept as is.
            Progress::Broken if !self.seen_chunk => {}
            Progress::More => {
                body.drain(self.decoded..at);
            }
            Progress::Done { .. } | Progress::Broken => body.truncate(self.decoded),
        }
        progress
    }

    fn walk(&mut self, body: &mut [u8], at: &mut usize) -> Progress {
        loop {
            match self.stage {
                Stage::Size => {
                    let Some(line) = line(&body[*at..]) else {
                        return if body.len() - *at > MAX_LINE_BYTES {
                            Progress::Broken
                        } else {
                            Progress::More
                        };
                    };
                    let Some(size) = self.size(&body[*at..*at + line]) else {
                        return Progress::Broken;
                    };
                    *at += line;
                    self.seen_chunk = true;
                    self.stage = if size == 0 {
                        Stage::Trailer
                    } else {
                        Stage::Data { left: size }
                    };
                }
                Stage::Data { left } => {
                    let here = left.min((body.len() - *at) as u64) as usize;
                    body.copy_within(*at..*at + here, self.decoded);
                    self.decoded += here;
                    *at += here;
                    if (here as u64) < left {
                        self.stage = Stage::Data {
                            left: left - here as u64,
                        };
                        return Progress::More;
                    }
                    self.stage = Stage::DataEnd;
                }
                Stage::DataEnd => {
                    match body[*at..] {
                        [b'\r', b'\n', ..] => *at += 2,
                        [] | [b'\r'] => return Progress::More,
                        [b'\n', ..] => {
                            self.odd = true;
                            *at += 1;
                        }
                        // No line end: perhaps the next size line follows at once.
                        _ => self.odd = true,
                    }
                    self.stage = Stage::Size;
                }
                Stage::Trailer => {
                    let Some(line) = line(&body[*at..]) else {
                        return if body.len() - *at > self.max_trailer_bytes {
                            Progress::Broken
                        } else {
                            Progress::More
                        };
                    };
                    let blank = body[*at..*at + line].trim_ascii().is_empty();
                    *at += line;
                    self.trailer_bytes += line;
                    if blank {
                        return Progress::Done {
                            extra: body.len() - *at,
                        };
                    }
                    if self.trailer_bytes > self.max_trailer_bytes {
                        return Progress::Broken;
                    }
                }
            }
        }
    }

    /// The number in a size line: hexadecimal, then nothing or an extension.
    fn size(&mut self, line: &[u8]) -> Option<u64> {
        if !line.ends_with(b"\r\n") {
            self.odd = true;
        }
        let text = line.split(|&b| b == b';').next().unwrap_or_default();
        let text = text.trim_ascii();
        if text.is_empty() || text.len() > 16 {
            return None;
        }
        text.iter().try_fold(0u64, |sum, &digit| {
            let digit = char::from(digit).to_digit(16)?;
            Some(sum << 4 | u64::from(digit))
        })
    }
}

/// Length of the first line, its end included.
fn line(bytes: &[u8]) -> Option<usize> {
    memchr::memchr(b'\n', bytes).map(|at| at + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Decode `wire` in pieces of `step` bytes.
    fn decode(wire: &[u8], step: usize) -> (Vec<u8>, Progress, bool) {
        let mut chunked = Chunked::new(1_000);
        let mut body = Vec::new();
        let mut progress = Progress::More;
        for piece in wire.chunks(step) {
            body.extend_from_slice(piece);
            progress = chunked.decode(&mut body);
            if progress != Progress::More {
                break;
            }
        }
        if progress == Progress::More {
            body.truncate(chunked.decoded());
        }
        (body, progress, chunked.odd)
    }

    #[test]
    fn chunks_of_all_kinds_in_pieces_of_all_sizes() {
        let long = [b"1000\r\n".as_slice(), &[b'x'; 0x1000], b"\r\n0\r\n\r\n"].concat();
        let cases: &[(&[u8], &[u8], bool, bool)] = &[
            (b"5\r\nhello\r\n0\r\n\r\n", b"hello", true, false),
            (
                b"5;ext=\"a\"\r\nhello\r\n1 \r\n!\r\n0\r\n\r\n",
                b"hello!",
                true,
                false,
            ),
            (
                b"000005\r\nhello\r\n0\r\nX-Trailer: 1\r\n\r\n",
                b"hello",
                true,
                false,
            ),
            (b"5\nhello\n0\n\n", b"hello", true, true),
            (
                b"5\r\nhello5\r\nworld\r\n0\r\n\r\n",
                b"helloworld",
                true,
                true,
            ),
            (b"5\r\nhello\r\nzz\r\nx", b"hello", false, false),
            (b"5\r\nhello\r\n\r\n", b"hello", false, false),
            (b"5\r\nhel", b"hel", false, false),
            (b"5\r\nhello\r\n0\r\n", b"hello", false, false),
            (b"11111111111111111\r\nx", b"", false, false),
            (&long, &[b'x'; 0x1000], true, false),
        ];
        for (wire, expected, done, odd) in cases {
            for step in 1..=wire.len().min(40) {
                let (body, progress, was_odd) = decode(wire, step);
                let shown = String::from_utf8_lossy(&wire[..wire.len().min(60)]);
                if !progress_is_broken_at_start(&progress, wire) {
                    assert_eq!(body, *expected, "{shown} by {step}");
                }
                assert_eq!(matches!(progress, Progress::Done { .. }), *done, "{shown}");
                assert_eq!(was_odd, *odd, "{shown}");
            }
        }
    }

    /// Then the raw bytes are left as they are.
    fn progress_is_broken_at_start(progress: &Progress, wire: &[u8]) -> bool {
        *progress == Progress::Broken && wire.starts_with(b"1111")
    }

    #[test]
    fn what_is_not_chunked_at_all_is_left_as_it_is() {
        let mut chunked = Chunked::new(1_000);
        let mut body = b"<html>\n<p>plain".to_vec();
        assert_eq!(chunked.decode(&mut body), Progress::Broken);
        assert!(!chunked.seen_chunk());
        assert_eq!(body, b"<html>\n<p>plain");
    }

    #[test]
    fn lines_and_trailers_are_bounded() {
        let mut chunked = Chunked::new(100);
        let mut body = b"1\r\nx\r\n0\r\n".to_vec();
        assert_eq!(chunked.decode(&mut body), Progress::More);
        assert!(chunked.data_complete());
        let mut progress = Progress::More;
        for _ in 0..20 {
            body.extend_from_slice(b"Trailer: 1\r\n");
            progress = chunked.decode(&mut body);
            if progress != Progress::More {
                break;
            }
        }
        assert_eq!(progress, Progress::Broken);
        assert_eq!(body, b"x");
        let mut endless = Chunked::new(100);
        let mut body = vec![b'1'; MAX_LINE_BYTES + 1];
        assert_eq!(endless.decode(&mut body), Progress::Broken);
    }

    #[test]
    fn bytes_after_the_end_are_counted() {
        let mut chunked = Chunked::new(100);
        let mut body = b"1\r\nx\r\n0\r\n\r\nHTTP".to_vec();
        assert_eq!(chunked.decode(&mut body), Progress::Done { extra: 4 });
        assert_eq!(body, b"x");
    }
}
