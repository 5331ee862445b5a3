//! Who opens connections: this machine's network, or whoever stands in for it. A test or a simulator gives the
//! connector a [`Dialer`], and the HTTP above it is the same without a socket.

use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use tokio::io::{AsyncRead, AsyncWrite};

/// A way to a server and back: whatever carries bytes.
pub trait Pipe: AsyncRead + AsyncWrite + Unpin + Send {}
impl<T: AsyncRead + AsyncWrite + Unpin + Send> Pipe for T {}

pub type Dialed<'a> = Pin<Box<dyn Future<Output = io::Result<Box<dyn Pipe>>> + Send + 'a>>;

/// Opens connections in place of this machine's network. It is asked only for addresses that passed the guard. TLS is
/// not spoken over what it opens.
pub trait Dialer: Send + Sync {
    fn dial(&self, address: SocketAddr) -> Dialed<'_>;
}
