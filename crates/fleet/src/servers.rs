//! How the NATS servers are reached: which, and whether the way is protected.

use std::path::PathBuf;

/// The NATS servers of a fleet.
#[derive(Clone, Debug, Default)]
pub struct Servers {
    /// `nats://HOST:PORT` or `tls://HOST:PORT`; any of them leads to all.
    pub urls: Vec<String>,
    /// Certificates for both ends. Without them only servers on this machine are spoken to, unless `insecure` is set.
    pub tls: Option<TlsFiles>,
    /// Plain text to other machines is all right.
    pub insecure: bool,
}

/// Files in PEM, as `portolan fleet certs` writes them.
#[derive(Clone, Debug)]
pub struct TlsFiles {
    /// Who signed the servers' certificates.
    pub ca: PathBuf,
    /// This node's own certificate and key.
    pub cert: PathBuf,
    pub key: PathBuf,
}
