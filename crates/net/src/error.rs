//! What can go wrong between us and a server, one kind for each reason that the crawl records.

use crate::guard::{Refused, RefusedPort};
use crate::tls::BadCertificate;
use portolan_model::Reason;
use rustix::io::Errno;
use thiserror::Error;

/// No answer came, and why. An answer that broke off after its head is not an error but a
/// truncated response.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum NetError {
    #[error("the name {host} could not be resolved: {detail}")]
    Dns {
        host: String,
        detail: String,
        /// The DNS said that there is no such name, or no address for it.
        no_such_name: bool,
    },
    /// This machine has no descriptor, port or buffer left. No server has to do with it.
    #[error("this machine has run out of something: {detail}")]
    Exhausted { detail: String },
    #[error("no connection to {address}: {detail}")]
    Connect { address: String, detail: String },
    #[error("the TLS handshake with {host} failed: {detail}")]
    Tls {
        host: String,
        detail: String,
        /// What is wrong with the server's certificate, if that is it.
        certificate: Option<BadCertificate>,
    },
    #[error("nothing came within {after_ms} ms while waiting for {waiting_for}")]
    Timeout {
        waiting_for: &'static str,
        after_ms: u64,
    },
    #[error("the answer is not HTTP: {0}")]
    BrokenHttp(String),
    #[error("the answer is not {protocol}: {detail}")]
    BrokenOther {
        protocol: &'static str,
        detail: String,
    },
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
    #[error(transparent)]
    Port(#[from] RefusedPort),
}

impl NetError {
    pub fn reason(&self) -> Reason {
        match self {
            NetError::Dns {
                no_such_name: true, ..
            } => Reason::UnknownHost,
            NetError::Dns { .. } => Reason::Dns,
            NetError::Connect { .. } | NetError::Exhausted { .. } => Reason::Connect,
            NetError::Tls { certificate, .. } => match certificate {
                None => Reason::Tls,
                Some(BadCertificate::Expired) => Reason::TlsExpired,
                Some(BadCertificate::SelfSigned) => Reason::TlsSelfSigned,
                Some(BadCertificate::UnknownIssuer) => Reason::TlsUnknownIssuer,
                Some(BadCertificate::WrongHost) => Reason::TlsWrongHost,
            },
            NetError::Timeout { .. } => Reason::Timeout,
            NetError::BrokenHttp(_) | NetError::BrokenOther { .. } => Reason::BrokenHttp,
            NetError::ConnectionLost { .. } | NetError::OutOfStep => Reason::ConnectionLost,
            NetError::PrivateAddress(_) => Reason::PrivateAddress,
            NetError::Port(_) => Reason::Port,
        }
    }

    /// Is the cause on this machine, whatever server was to be asked?
    pub fn is_our_own(&self) -> bool {
        matches!(self, NetError::Exhausted { .. })
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

/// Has this machine run out of something, rather than the network or a server failed?
pub(crate) fn is_exhaustion(error: &std::io::Error) -> bool {
    const OURS: [Errno; 5] = [
        Errno::MFILE,
        Errno::NFILE,
        Errno::NOBUFS,
        Errno::NOMEM,
        // No port is free towards that address.
        Errno::ADDRNOTAVAIL,
    ];
    error
        .raw_os_error()
        .is_some_and(|code| OURS.iter().any(|errno| errno.raw_os_error() == code))
}
