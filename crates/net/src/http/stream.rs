//! The bytes below HTTP: plain TCP or TLS over it.

use crate::dial::Pipe;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio_rustls::client::TlsStream;

pub(crate) enum Stream {
    Tcp(TcpStream),
    Tls(Box<TlsStream<TcpStream>>),
    /// To a server, within TLS to a proxy.
    TlsInTls(Box<TlsStream<TlsStream<TcpStream>>>),
    /// Opened by a dialer from outside.
    Outside(Box<dyn Pipe>),
}

/// Why no more bytes came.
#[derive(Debug)]
pub(crate) enum ReadEnd {
    Closed,
    /// Closed below TLS without a word.
    ClosedUnclean,
    Failed(io::Error),
    TimedOut,
    /// More came than an answer may take.
    TooMuch,
}

impl From<io::Error> for ReadEnd {
    fn from(error: io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::UnexpectedEof => ReadEnd::ClosedUnclean,
            _ => ReadEnd::Failed(error),
        }
    }
}

impl AsyncRead for Stream {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Stream::Tcp(stream) => Pin::new(stream).poll_read(cx, buf),
            Stream::Tls(stream) => Pin::new(stream).poll_read(cx, buf),
            Stream::TlsInTls(stream) => Pin::new(stream).poll_read(cx, buf),
            Stream::Outside(stream) => Pin::new(stream).poll_read(cx, buf),
        }
    }
}

impl AsyncWrite for Stream {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        match self.get_mut() {
            Stream::Tcp(stream) => Pin::new(stream).poll_write(cx, buf),
            Stream::Tls(stream) => Pin::new(stream).poll_write(cx, buf),
            Stream::TlsInTls(stream) => Pin::new(stream).poll_write(cx, buf),
            Stream::Outside(stream) => Pin::new(stream).poll_write(cx, buf),
        }
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Stream::Tcp(stream) => Pin::new(stream).poll_flush(cx),
            Stream::Tls(stream) => Pin::new(stream).poll_flush(cx),
            Stream::TlsInTls(stream) => Pin::new(stream).poll_flush(cx),
            Stream::Outside(stream) => Pin::new(stream).poll_flush(cx),
        }
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Stream::Tcp(stream) => Pin::new(stream).poll_shutdown(cx),
            Stream::Tls(stream) => Pin::new(stream).poll_shutdown(cx),
            Stream::TlsInTls(stream) => Pin::new(stream).poll_shutdown(cx),
            Stream::Outside(stream) => Pin::new(stream).poll_shutdown(cx),
        }
    }
}
