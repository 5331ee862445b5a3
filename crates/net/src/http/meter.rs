//! A stream that counts what it brings and ends where that is too much. HTTP/2 needs it: frames, padding
//! and pings are taken off the connection by the `h2` crate, which tells of bodies alone.

use super::stream::Stream;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::task::{Context, Poll};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// What came on a connection. One side reads, the other asks; both are on one thread as a rule.
#[derive(Debug, Default)]
pub(crate) struct Meter {
    /// Since the last answer ended.
    bytes: AtomicU64,
    max_bytes: AtomicU64,
    overrun: AtomicBool,
}

impl Meter {
    /// The next answer may take up to `max_bytes`; what came unasked since the last one counts.
    pub(crate) fn allow(&self, max_bytes: u64) {
        self.max_bytes.store(max_bytes, Ordering::Relaxed);
    }

    /// An answer has ended: what it took.
    pub(crate) fn take(&self) -> u64 {
        self.bytes.swap(0, Ordering::Relaxed)
    }

    /// Did more come than was allowed? The stream has ended then.
    pub(crate) fn is_overrun(&self) -> bool {
        self.overrun.load(Ordering::Relaxed)
    }

    fn add(&self, bytes: usize) -> io::Result<()> {
        let bytes = self.bytes.fetch_add(bytes as u64, Ordering::Relaxed) + bytes as u64;
        if bytes <= self.max_bytes.load(Ordering::Relaxed) {
            return Ok(());
        }
        self.overrun.store(true, Ordering::Relaxed);
        Err(io::Error::other("more came than an answer may take"))
    }
}

pub(crate) struct Metered {
    pub(crate) stream: Stream,
    pub(crate) meter: Arc<Meter>,
}

impl AsyncRead for Metered {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        let before = buf.filled().len();
        match Pin::new(&mut this.stream).poll_read(cx, buf) {
            Poll::Ready(Ok(())) => Poll::Ready(this.meter.add(buf.filled().len() - before)),
            other => other,
        }
    }
}

impl AsyncWrite for Metered {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.get_mut().stream).poll_write(cx, buf)
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().stream).poll_flush(cx)
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().stream).poll_shutdown(cx)
    }
}
