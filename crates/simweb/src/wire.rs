//! Puts an answer on the wire, well-formed or odd, and says when its last byte was handed over. Every oddity is made here.

use crate::answer::Reply;
use crate::oddity::Oddity;
use crate::spec::OddSpec;
use crate::web::push_number;
use crate::witness::Witness;
use crate::words::Words;
use std::future::poll_fn;
use std::io::{self, IoSlice};
use std::pin::Pin;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt};

/// Pieces a dripping body comes in.
const DRIP_PIECES: usize = 16;
/// Pieces a slow body comes in.
const SLOW_PIECES: usize = 40;
/// What an endless body is written in.
const ENDLESS_BLOCK: usize = 16 * 1024;
const CHUNK_BYTES: usize = 1_000;

pub(crate) trait Stream: AsyncRead + AsyncWrite + Unpin {}
impl<T: AsyncRead + AsyncWrite + Unpin> Stream for T {}

/// How an answer went out.
pub(crate) struct Sent {
    pub(crate) bytes: u64,
    /// Just before the write that finished it.
    pub(crate) end_ns: u64,
    /// The connection can serve another request.
    pub(crate) keep: bool,
}

pub(crate) struct Wire<'a> {
    pub(crate) witness: &'a Witness,
    pub(crate) words: &'a Words,
    pub(crate) odd: &'a OddSpec,
    /// The request was HEAD.
    pub(crate) head: bool,
    /// The client wants the connection kept, and the server does too.
    pub(crate) keep: bool,
    /// The client speaks HTTP/1.0 and wants to be told that the connection stays.
    pub(crate) say_keep: bool,
}

impl Wire<'_> {
    /// Sends the answer; `out` is a buffer to build it in. Err: the client is gone.
    pub(crate) async fn send<S: Stream>(
        &self,
        stream: &mut S,
        answer: &Reply,
        out: &mut Vec<u8>,
    ) -> io::Result<Sent> {
        out.clear();
        let oddity = answer.oddity.filter(|_| answer.status == 200);
        let Some(oddity) = oddity else {
            self.write_head(answer, "HTTP/1.1", Some(answer.body.len()), self.keep, out);
            let body: &[u8] = if self.head { &[] } else { &answer.body };
            if answer.body_ms > 0.0 && !body.is_empty() {
                return self.send_slowly(stream, answer, out).await;
            }
            let end_ns = self.write_both(stream, out, body).await?;
            return Ok(Sent {
                bytes: (out.len() + body.len()) as u64,
                end_ns,
                keep: self.keep,
            });
        };
        if self.head && oddity != Oddity::BodyAfterHead && oddity != Oddity::Http09 {
            self.write_head(answer, "HTTP/1.1", None, self.keep, out);
            return self.finish(stream, out, self.keep).await;
        }
        match oddity {
            Oddity::Drip => self.drip(stream, answer, out).await,
            Oddity::Endless => self.endless(stream, answer, out).await,
            _ => {
                let keep = self.write_odd(oddity, answer, out);
                self.finish(stream, out, keep).await
            }
        }
    }

    /// A body that comes in even pieces over a time.
    async fn send_slowly<S: Stream>(
        &self,
        stream: &mut S,
        answer: &Reply,
        head: &[u8],
    ) -> io::Result<Sent> {
        let pause = Duration::from_secs_f64(answer.body_ms / 1e3 / SLOW_PIECES as f64);
        let piece = answer.body.len().div_ceil(SLOW_PIECES).max(1);
        let mut end_ns = self.write_all(stream, head).await?;
        for bytes in answer.body.chunks(piece) {
            end_ns = self.write_all(stream, bytes).await?;
            tokio::time::sleep(pause).await;
        }
        Ok(Sent {
            bytes: (head.len() + answer.body.len()) as u64,
            end_ns,
            keep: self.keep,
        })
    }

    /// Builds an odd answer that is sent in one go; says whether the connection may be kept after it.
    fn write_odd(&self, oddity: Oddity, answer: &Reply, out: &mut Vec<u8>) -> bool {
        let body = &answer.body[..];
        let len = Some(body.len());
        match oddity {
            Oddity::Http09 => out.extend_from_slice(body),
            Oddity::Http10 => {
                self.write_head(answer, "HTTP/1.0", len, true, out);
                out.extend_from_slice(body);
            }
            Oddity::NoLength => {
                self.write_head(answer, "HTTP/1.1", None, false, out);
                out.extend_from_slice(body);
            }
            Oddity::ShortLength => {
                self.write_head(answer, "HTTP/1.1", Some(body.len() / 2), false, out);
                out.extend_from_slice(body);
            }
            Oddity::LongLength => {
                self.write_head(answer, "HTTP/1.1", Some(body.len() + 1_000), true, out);
                out.extend_from_slice(body);
            }
            Oddity::Cut => {
                self.write_head(answer, "HTTP/1.1", len, true, out);
                out.extend_from_slice(&body[..body.len() / 2]);
            }
            Oddity::Chunked | Oddity::BadChunkSize | Oddity::NoLastChunk => {
                self.write_chunks(oddity, answer, out);
                return self.keep && oddity == Oddity::Chunked;
            }
            Oddity::BareLf => {
                self.write_head(answer, "HTTP/1.1", len, self.keep, out);
                let bare = String::from_utf8_lossy(out).replace("\r\n", "\n");
                out.clear();
                out.extend_from_slice(bare.as_bytes());
                out.extend_from_slice(body);
                return self.keep;
            }
            Oddity::FoldedHeader
            | Oddity::BodyAfterHead
            | Oddity::ClosesEarly
            | Oddity::Drip
            | Oddity::Endless => {
                self.write_head(answer, "HTTP/1.1", len, self.keep, out);
                out.extend_from_slice(body);
                return self.keep;
            }
        }
        false
    }

    fn write_chunks(&self, oddity: Oddity, answer: &Reply, out: &mut Vec<u8>) {
        let keep = self.keep && oddity == Oddity::Chunked;
        self.write_head(answer, "HTTP/1.1", None, keep, out);
        // The head's last line is empty; the further header goes before it.
        out.truncate(out.len() - 2);
        out.extend_from_slice(b"Transfer-Encoding: chunked\r\n\r\n");
        let pieces = answer.body.chunks(CHUNK_BYTES);
        let middle = pieces.len() / 2;
        for (n, piece) in pieces.enumerate() {
            if n == middle && oddity == Oddity::BadChunkSize {
                out.extend_from_slice(b"zz\r\n");
                out.extend_from_slice(piece);
                out.extend_from_slice(b"\r\n");
                return;
            }
            out.extend_from_slice(format!("{:x};n={n}\r\n", piece.len()).as_bytes());
            out.extend_from_slice(piece);
            out.extend_from_slice(b"\r\n");
        }
        if oddity == Oddity::Chunked {
            out.extend_from_slice(b"0\r\nX-Trailer: end\r\n\r\n");
        }
    }

    async fn drip<S: Stream>(
        &self,
        stream: &mut S,
        answer: &Reply,
        out: &mut Vec<u8>,
    ) -> io::Result<Sent> {
        self.write_head(answer, "HTTP/1.1", Some(answer.body.len()), self.keep, out);
        out.extend_from_slice(&answer.body);
        let piece = out.len().div_ceil(DRIP_PIECES).max(1);
        let mut end_ns = 0;
        for (n, bytes) in out.chunks(piece).enumerate() {
            if n > 0 {
                tokio::time::sleep(Duration::from_millis(self.odd.drip_pause_ms.into())).await;
            }
            end_ns = self.write_all(stream, bytes).await?;
        }
        Ok(Sent {
            bytes: out.len() as u64,
            end_ns,
            keep: self.keep,
        })
    }

    /// Writes until the client has enough, or the bound is reached. A client that leaves has done the right thing.
    async fn endless<S: Stream>(
        &self,
        stream: &mut S,
        answer: &Reply,
        out: &mut Vec<u8>,
    ) -> io::Result<Sent> {
        self.write_head(answer, "HTTP/1.1", None, false, out);
        out.extend_from_slice(&answer.body);
        let mut end_ns = self.write_all(stream, out).await?;
        let mut bytes = out.len() as u64;
        while bytes < self.odd.endless_bytes {
            match self
                .write_all(stream, self.words.slice(bytes, ENDLESS_BLOCK))
                .await
            {
                Ok(at) => end_ns = at,
                Err(_) => {
                    end_ns = self.witness.now_ns();
                    break;
                }
            }
            bytes += ENDLESS_BLOCK as u64;
        }
        Ok(Sent {
            bytes,
            end_ns,
            keep: false,
        })
    }

    fn write_head(
        &self,
        answer: &Reply,
        version: &str,
        length: Option<usize>,
        keep: bool,
        out: &mut Vec<u8>,
    ) {
        out.extend_from_slice(version.as_bytes());
        out.push(b' ');
        push_number(out, answer.status.into());
        out.push(b' ');
        out.extend_from_slice(reason(answer.status).as_bytes());
        out.extend_from_slice(b"\r\n");
        out.extend_from_slice(&answer.headers);
        if let Some(length) = length.filter(|_| answer.status != 304) {
            out.extend_from_slice(b"Content-Length: ");
            push_number(out, length as u64);
            out.extend_from_slice(b"\r\n");
        }
        if !keep {
            out.extend_from_slice(b"Connection: close\r\n");
        } else if self.say_keep {
            out.extend_from_slice(b"Connection: keep-alive\r\n");
        }
        out.extend_from_slice(b"\r\n");
    }

    async fn finish<S: Stream>(&self, stream: &mut S, out: &[u8], keep: bool) -> io::Result<Sent> {
        let end_ns = self.write_all(stream, out).await?;
        Ok(Sent {
            bytes: out.len() as u64,
            end_ns,
            keep,
        })
    }

    /// Writes head and body with one call where the stream can, so that the body need not be copied behind the head.
    async fn write_both<S: Stream>(
        &self,
        stream: &mut S,
        head: &mut Vec<u8>,
        body: &[u8],
    ) -> io::Result<u64> {
        if !stream.is_write_vectored() {
            head.extend_from_slice(body);
            return self.write_all(stream, head).await;
        }
        let mut end_ns = 0;
        let written = poll_fn(|cx| {
            end_ns = self.witness.now_ns();
            Pin::new(&mut *stream)
                .poll_write_vectored(cx, &[IoSlice::new(head), IoSlice::new(body)])
        })
        .await?;
        if written < head.len() {
            end_ns = self.write_all(stream, &head[written..]).await?;
        }
        let rest = &body[written.saturating_sub(head.len())..];
        if rest.is_empty() {
            Ok(end_ns)
        } else {
            self.write_all(stream, rest).await
        }
    }

    /// Writes everything; gives the time just before the last successful write.
    async fn write_all<S: Stream>(&self, stream: &mut S, bytes: &[u8]) -> io::Result<u64> {
        let mut rest = bytes;
        let mut end_ns = self.witness.now_ns();
        while !rest.is_empty() {
            let written = poll_fn(|cx| {
                end_ns = self.witness.now_ns();
                Pin::new(&mut *stream).poll_write(cx, rest)
            })
            .await?;
            if written == 0 {
                return Err(io::ErrorKind::WriteZero.into());
            }
            rest = &rest[written..];
        }
        stream.flush().await?;
        Ok(end_ns)
    }
}

fn reason(status: u16) -> &'static str {
    match status {
        200 => "OK",
        301 => "Moved Permanently",
        302 => "Found",
        304 => "Not Modified",
        307 => "Temporary Redirect",
        308 => "Permanent Redirect",
        400 => "Bad Request",
        403 => "Forbidden",
        404 => "Not Found",
        405 => "Method Not Allowed",
        410 => "Gone",
        421 => "Misdirected Request",
        429 => "Too Many Requests",
        500 => "Internal Server Error",
        503 => "Service Unavailable",
        _ => "Other",
    }
}
