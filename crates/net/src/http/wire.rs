//! A stream with its deadline: what HTTP/1.x reads from and writes to.

use super::deadline::Deadline;
use super::stream::{ReadEnd, Stream};
use std::future::{Future, poll_fn};
use std::pin::pin;
use std::task::Poll;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::time::Instant;

/// A full buffer grows by at least this many bytes.
pub(crate) const READ_BYTES: usize = 32 * 1024;

/// A buffer with no more than this in it takes no more room while nothing comes: thousands of connections may wait for slow
/// servers.
const FEW_BYTES: usize = 512;

pub(crate) struct Wire {
    stream: Stream,
    pub(crate) deadline: Deadline,
}

pub(crate) struct Read {
    pub(crate) bytes: usize,
    pub(crate) at: Instant,
}

/// What became of a request on its way out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Sent {
    Whole,
    /// The server has closed its side; it may have answered all the same.
    Refused,
    TimedOut,
}

impl Wire {
    pub(crate) fn new(stream: Stream) -> Self {
        Self {
            stream,
            deadline: Deadline::new(),
        }
    }

    /// Did anything happen on the idle connection? Either it was closed, or bytes came that nobody
    /// asked for; both make it useless. Costs no system call where nothing happened.
    pub(crate) async fn is_stale(&mut self) -> bool {
        let mut scratch = [0; 1];
        let mut read = pin!(self.stream.read(&mut scratch));
        poll_fn(|cx| Poll::Ready(read.as_mut().poll(cx).is_ready())).await
    }

    pub(crate) async fn send(&mut self, bytes: &[u8]) -> Sent {
        let Self { stream, deadline } = self;
        let write = async {
            stream.write_all(bytes).await?;
            stream.flush().await
        };
        match deadline.race(write).await {
            Some(Ok(())) => Sent::Whole,
            Some(Err(_)) => Sent::Refused,
            None => Sent::TimedOut,
        }
    }

    /// Whatever is there, into the spare room of `into`.
    pub(crate) async fn read(&mut self, into: &mut Vec<u8>) -> Result<Read, ReadEnd> {
        let Self { stream, deadline } = self;
        let read = poll_fn(|cx| {
            if into.capacity() == into.len() {
                into.reserve(READ_BYTES);
            }
            let polled = pin!(stream.read_buf(into)).poll(cx);
            if polled.is_pending() && into.len() <= FEW_BYTES && into.capacity() > FEW_BYTES {
                into.shrink_to_fit();
            }
            polled
        });
        match deadline.race(read).await {
            None => Err(ReadEnd::TimedOut),
            Some(Ok(0)) => Err(ReadEnd::Closed),
            Some(Err(error)) => Err(ReadEnd::from(error)),
            Some(Ok(bytes)) => {
                let at = Instant::now();
                // A server that never pauses would never let the timer be asked.
                if deadline.has_passed(at) {
                    return Err(ReadEnd::TimedOut);
                }
                Ok(Read { bytes, at })
            }
        }
    }
}
