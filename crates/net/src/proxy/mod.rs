//! Proxies: how a connection to a server is made through one. HTTP proxies (over TCP or TLS) and SOCKS5.
//!
//! By default names are resolved here, and a proxy is asked for an *address*: the guard judges where the packets end up, and pauses
//! by address hold. That goes for plain http, too, which takes a tunnel (`CONNECT`) as https does. A proxy that resolves names
//! itself (`resolves`) is asked for the *name*; then nobody here knows the address, and plain http is sent to an HTTP proxy whole.
//!
//! Layout: `rules` (which proxy for whom), `address` (a proxy's URL), `socks5` and `tunnel` (the two handshakes).

mod address;
mod rules;
mod socks5;
mod tunnel;

pub use address::ProxyError;
pub use rules::Proxies;

pub(crate) use address::{Kind, Proxy};
pub(crate) use tunnel::Forward;

use crate::http::Stream;
use std::fmt;
use std::net::SocketAddr;

/// What a proxy is to connect to.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Target<'a> {
    Address(SocketAddr),
    Name(&'a str, u16),
}

impl fmt::Display for Target<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Target::Address(address) => write!(f, "{address}"),
            Target::Name(host, port) if host.contains(':') => write!(f, "[{host}]:{port}"),
            Target::Name(host, port) => write!(f, "{host}:{port}"),
        }
    }
}

impl Proxy {
    /// Have an open connection to the proxy lead to `target`. An error says what the proxy said.
    pub(crate) async fn lead(
        &self,
        stream: &mut Stream,
        target: Target<'_>,
        user_agent: &str,
    ) -> Result<(), String> {
        match self.kind {
            Kind::Socks5 => socks5::lead(stream, target, self.credentials.as_ref()).await,
            Kind::Http | Kind::Https => {
                let authorization = self.authorization();
                tunnel::lead(stream, target, authorization.as_deref(), user_agent).await
            }
        }
    }
}
