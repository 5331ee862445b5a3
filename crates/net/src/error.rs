//! What can go wrong between us and a server, one kind for each reason that the crawl records.

use crate::guard::Refused;
use portolan_model::Reason;
use thiserror::Error;

/// No answer came, and why. An answer that broke off after its head is not an error but a
/// truncated response.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum NetError {
    #[error("the name {host} could not be resolved: {detail}")]
    Dns { host: String, detail: String },
    #[error("no connection to {address}: {detail}")]
    Connect { address: String, detail: String },
    #[error("the TLS handshake with {host} failed: {detail}")]
    Tls { host: String, detail: String },
    #[error("nothing came within {after_ms} ms while waiting for {waiting_for}")]
    Timeout {
        waiting_for: &'static str,
        after_ms: u64,
    },
    #[error("the answer is not HTTP: {0}")]
    BrokenHttp(String),
    #[error("the connection was lost: {detail}")]
    ConnectionLost {
        detail: String,
        /// The connection had served before and ended before a byte of this answer came: the same
        /// request may be sent again, at once, on a new connection.
        retry_on_new_connection: bool,
    },
    /// The connection had served before, and what came on it now is no HTTP: the tail of the answer
    /// before, or an answer of HTTP/0.9. The server did answer: ask again on a new connection, but as
    /// politely as for any next request.
    #[error("the connection carried bytes that belong to no answer")]
    OutOfStep,
    #[error(transparent)]
    PrivateAddress(#[from] Refused),
}

impl NetError {
    pub fn reason(&self) -> Reason {
        match self {
            NetError::Dns { .. } => Reason::Dns,
            NetError::Connect { .. } => Reason::Connect,
            NetError::Tls { .. } => Reason::Tls,
            NetError::Timeout { .. } => Reason::Timeout,
            NetError::BrokenHttp(_) => Reason::BrokenHttp,
            NetError::ConnectionLost { .. } | NetError::OutOfStep => Reason::ConnectionLost,
            NetError::PrivateAddress(_) => Reason::PrivateAddress,
        }
    }

    /// May the same request be sent again, at once, on a new connection?
    pub fn retry_on_new_connection(&self) -> bool {
        matches!(
            self,
            NetError::ConnectionLost {
                retry_on_new_connection: true,
                ..
            }
        )
    }
}
