//! The command line of fleets: how their servers are reached, and what a node is.

use std::path::PathBuf;

use clap::Args;
use clap::builder::RangedU64ValueParser;
use portolan_crawl::fleet::Role;
use portolan_fleet::{Servers, TlsFiles};

use crate::failure::Failure;

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

/// Crawl as a node of a fleet: join, take a share of the work, and go on until the crawl has ended.
#[derive(Args)]
#[command(after_help = "Examples:\n  \
    portolan node news --nats nats://10.0.0.1:4222 --dir /data/portolan\n  \
    portolan node news --nats nats://a:4222,nats://b:4222 --dir /data --node crawler-3 --threads 8\n  \
    portolan node news --role seed-server --dir /data --node server\n  \
    portolan node news --role crawl-client --dir /tmp/client --node client1 --connections 25\n\n\
    'portolan fleet new' makes a fleet. A node that is started again on its directory goes on where it was, unless the\n\
    others have taken its share over meanwhile: then it joins with nothing.\n\n\
    Ctrl-C once: finish what is under way, ship it, and leave the share to the others. Twice: stop at once.\n\n\
    Exit code: 0 in order, 1 if it failed, 2 for bad input.")]
pub(crate) struct NodeArguments {
    /// The fleet's name
    #[arg(value_name = "FLEET")]
    pub(crate) fleet: String,
    #[command(flatten)]
    pub(crate) servers: ServersArguments,
    /// The node's own directory, on a disk of this machine
    #[arg(long, value_name = "DIR")]
    pub(crate) dir: PathBuf,
    /// The node's name: letters, digits and '-'; each node has its own [default: this machine's name]
    #[arg(long, value_name = "NAME")]
    pub(crate) node: Option<String>,
    /// Worker threads [default: as the fleet's settings say]
    #[arg(long, value_name = "N", value_parser = RangedU64ValueParser::<usize>::new().range(1..=1024))]
    pub(crate) threads: Option<usize>,
    /// Its share of the work beside the others'
    #[arg(long, value_name = "X", default_value_t = 1.0)]
    pub(crate) weight: f64,
    /// What it is for: a 'seed-server' holds the registries and decides, a 'crawl-client' fetches what seed-servers grant and
    /// needs no disk but for what is not shipped yet; 'both' does both [default: both]
    #[arg(
        long,
        value_name = "ROLE",
        default_value = "both",
        hide_default_value = true
    )]
    pub(crate) role: Role,
    /// Connections at once [default: as the fleet's settings say]; a crawl-client begins with them (or 32), and seed-servers
    /// tell it to hurry up or to slow down
    #[arg(long, value_name = "N", value_parser = RangedU64ValueParser::<usize>::new().range(1..=100_000))]
    pub(crate) connections: Option<usize>,
    /// Connections that it may be told to have at most [default: four times as many]
    #[arg(long, value_name = "N", value_parser = RangedU64ValueParser::<usize>::new().range(1..=100_000))]
    pub(crate) max_connections: Option<usize>,
    /// Print one JSON object at the end on stdout
    #[arg(long)]
    pub(crate) json: bool,
    /// Say nothing but what goes wrong
    #[arg(long)]
    pub(crate) quiet: bool,
    /// Say more: partitions that come and go, hosts that fail, checkpoints. -vv: every turn and every request, too
    #[arg(short, long, action = clap::ArgAction::Count)]
    pub(crate) verbose: u8,
    /// Say it in this file, which grows, and not on the terminal
    #[arg(long, value_name = "FILE")]
    pub(crate) log: Option<PathBuf>,
}

impl NodeArguments {
    /// The name that was given, or what can be a name of this machine's.
    pub(crate) fn node_name(&self) -> Result<String, Failure> {
        if let Some(name) = &self.node {
            return Ok(name.clone());
        }
        let host = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
        let fits = |c: char| if c.is_ascii_alphanumeric() { c } else { '-' };
        let name: String = host.trim().chars().map(fits).take(48).collect();
        if name.is_empty() {
            return Err(Failure::usage("this machine has no name; give --node NAME"));
        }
        Ok(name)
    }
}
