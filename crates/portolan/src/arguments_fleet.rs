//! The command line of fleets: how their servers are reached, and what a node is.

use std::path::PathBuf;

use clap::Args;
use portolan_fleet::{Servers, TlsFiles};

/// How the NATS servers of a fleet are reached.
#[derive(Args)]
pub(crate) struct ServersArguments {
    /// NATS servers, one or more: nats://HOST:PORT or tls://HOST:PORT
    #[arg(
        long,
        value_name = "URL",
        value_delimiter = ',',
        default_value = "nats://127.0.0.1:4222"
    )]
    pub(crate) nats: Vec<String>,
    /// Who signed the servers' certificates (PEM); 'portolan fleet certs' makes such files
    #[arg(long, value_name = "FILE", requires_all = ["cert", "key"])]
    pub(crate) ca: Option<PathBuf>,
    /// This machine's own certificate (PEM)
    #[arg(long, value_name = "FILE", requires_all = ["ca", "key"])]
    pub(crate) cert: Option<PathBuf>,
    /// The key of that certificate (PEM)
    #[arg(long, value_name = "FILE", requires_all = ["ca", "cert"])]
    pub(crate) key: Option<PathBuf>,
    /// Speak plain text with servers on other machines, too
    #[arg(long)]
    pub(crate) insecure: bool,
}

impl ServersArguments {
    pub(crate) fn servers(&self) -> Servers {
        let files = (self.ca.clone(), self.cert.clone(), self.key.clone());
        Servers {
            urls: self.nats.clone(),
            tls: match files {
                (Some(ca), Some(cert), Some(key)) => Some(TlsFiles { ca, cert, key }),
                _ => None,
            },
            insecure: self.insecure,
        }
    }
}
