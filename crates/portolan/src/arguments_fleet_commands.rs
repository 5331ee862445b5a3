//! The command line of `portolan fleet`: one crawl on many machines.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Subcommand};

use crate::arguments::{WantedUrls, parse_duration};
use crate::arguments_fleet::ServersArguments;

/// One crawl on many machines, over NATS JetStream and an object store.
#[derive(Subcommand)]
#[command(after_help = "From nothing to four machines:\n  \
    portolan fleet certs certs nats1 node1 node2 node3 node4\n  \
    portolan fleet nats-config nats1 > nats.conf             on nats1: nats-server -c nats.conf\n  \
    portolan fleet new web --nats nats://nats1:4222 --ca certs/ca.pem --cert certs/node1.pem --key certs/node1-key.pem \\\n      \
    --blobs s3://bucket/web https://example.org/\n  \
    portolan node web --nats nats://nats1:4222 ... --dir /data   on each machine\n  \
    portolan fleet status web --nats nats://nats1:4222 ... --watch\n\n\
    docs/fleet.md tells the whole of it.")]
pub(crate) enum FleetCommand {
    New(Box<NewArguments>),
    Status(FleetStatusArguments),
    Trace(crate::arguments_sailor::TraceArguments),
    Traffic(crate::arguments_sailor::TrafficArguments),
    Drain(DrainArguments),
    /// Have every node ask nothing of the Web until 'go-on'; nodes go on to run
    Stop(NamedArguments),
    /// Take 'stop' back
    GoOn(NamedArguments),
    /// Refused: new sessions are for one machine
    #[command(hide = true)]
    NewSession(NamedArguments),
    /// End the crawl: every node ships what it has, and ends
    End(NamedArguments),
    Report(FleetReportArguments),
    Why(FleetWhyArguments),
    Urls(FleetUrlsArguments),
    Config(FleetConfigArguments),
    Fetch(FetchArguments),
    Certs(CertsArguments),
    NatsConfig(NatsConfigArguments),
}

/// Make a fleet: its settings and seeds go to NATS, its pages to the store. Nodes join it with 'portolan node'.
#[derive(Args)]
#[command(after_help = "Examples:\n  \
    portolan fleet new web --blobs /srv/shared/web https://example.org/\n  \
    portolan fleet new web --nats nats://nats1:4222,nats://nats2:4222 --ca ca.pem --cert node1.pem --key node1-key.pem \\\n      \
    --blobs s3://bucket/web --config web.toml --seeds-file seeds.txt\n\n\
    One crawl of several groups, each with NATS servers of its own that are leaves under a hub's:\n  \
    portolan fleet new web --nats nats://hub:4222 ... --groups s1,s2 --config web.toml https://example.org/\n  \
    portolan fleet new web --nats nats://leaf1:4222 ... --group s1 --blobs s3://bucket/s1     then: portolan node web-s1\n  \
    portolan fleet new web --nats nats://leaf2:4222 ... --group s2 --blobs s3://bucket/s2     then: portolan node web-s2\n\n\
    S3 is spoken with the environment's AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY, AWS_REGION and AWS_ENDPOINT_URL.")]
pub(crate) struct NewArguments {
    /// The fleet's name: letters, digits and '-'
    #[arg(value_name = "NAME")]
    pub(crate) name: String,
    /// Where to start: URLs (http:// is assumed where no scheme is given)
    #[arg(value_name = "SEED")]
    pub(crate) seeds: Vec<String>,
    #[command(flatten)]
    pub(crate) servers: ServersArguments,
    /// Where pages and journals go: s3://BUCKET/PREFIX, or a directory that all machines share
    #[arg(long, value_name = "PLACE", required_unless_present = "groups")]
    pub(crate) blobs: Option<String>,
    /// A settings file (TOML), as for 'portolan crawl'
    #[arg(long, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
    /// A file with one seed URL a line, or '-' for standard input
    #[arg(long, value_name = "FILE|-")]
    pub(crate) seeds_file: Option<PathBuf>,
    /// Into how many partitions the Web is cut; it cannot be changed. Some for each core that will ever join
    #[arg(long, value_name = "N", default_value_t = 64, value_parser = clap::value_parser!(u16).range(1..=4096))]
    pub(crate) partitions: u16,
    /// How long a node may be silent before its partitions go to others
    #[arg(long, value_name = "TIME", value_parser = parse_duration, default_value = "30s")]
    pub(crate) lease: Duration,
    /// Stop after N documents, over all nodes
    #[arg(long, value_name = "N")]
    pub(crate) max_pages: Option<u64>,
    /// What links that wait may take on each NATS server's disk, in GB; NATS sets it aside
    #[arg(long, value_name = "GB", default_value_t = 2, value_parser = clap::value_parser!(u64).range(1..=100_000))]
    pub(crate) link_disk: u64,
    /// What the log of what was shipped may take there, in GB: about 1 for each node and month at the usual pace
    #[arg(long, value_name = "GB", default_value_t = 2, value_parser = clap::value_parser!(u64).range(1..=100_000))]
    pub(crate) log_disk: u64,
    #[command(flatten)]
    pub(crate) under: UnderArguments,
}

/// A crawl of several groups under a hub, and a group of one.
#[derive(Args)]
pub(crate) struct UnderArguments {
    /// Make a crawl of these groups, on the hub's NATS servers; each group is then made by '--group'
    #[arg(
        long,
        value_name = "GROUP,...",
        value_delimiter = ',',
        conflicts_with_all = ["group", "blobs", "max_pages"]
    )]
    pub(crate) groups: Vec<String>,
    /// Make the fleet 'NAME-GROUP' of a group of crawl NAME, on the group's NATS servers; settings and seeds are the crawl's
    #[arg(long, value_name = "GROUP", conflicts_with_all = ["config", "seeds", "seeds_file"])]
    pub(crate) group: Option<String>,
    /// The JetStream domain of the hub's NATS servers
    #[arg(long, value_name = "DOMAIN", default_value = "hub", requires = "group")]
    pub(crate) hub_domain: String,
    /// What links for other groups may take on each NATS server's disk while the hub is away, in GB; NATS sets it aside
    #[arg(long, value_name = "GB", default_value_t = 2, requires = "group", value_parser = clap::value_parser!(u64).range(1..=100_000))]
    pub(crate) up_disk: u64,
}

/// A fleet by its name.
#[derive(Args)]
pub(crate) struct NamedArguments {
    /// The fleet; of a crawl of several groups NAME-GROUP, or, on the hub's servers, the crawl
    #[arg(value_name = "NAME")]
    pub(crate) name: String,
    #[command(flatten)]
    pub(crate) servers: ServersArguments,
}

/// How a fleet is: nodes, partitions, rates, what waits, and who is behind and why
#[derive(Args)]
#[command(after_help = "Examples:\n  \
    portolan fleet status web\n  \
    portolan fleet status web --nats nats://nats1:4222 --insecure --watch\n  \
    portolan fleet status web --json")]
pub(crate) struct FleetStatusArguments {
    #[command(flatten)]
    pub(crate) fleet: NamedArguments,
    /// Look again each second, or at this pace, until the crawl has ended
    #[arg(long, value_name = "TIME", num_args = 0..=1, require_equals = true, default_missing_value = "1s", value_parser = parse_duration)]
    pub(crate) watch: Option<Duration>,
    /// Print one JSON object a look
    #[arg(long)]
    pub(crate) json: bool,
}

/// Have a node's partitions go to the other nodes; the node then has nothing to do, and may be stopped
#[derive(Args)]
pub(crate) struct DrainArguments {
    #[command(flatten)]
    pub(crate) fleet: NamedArguments,
    /// The node
    #[arg(value_name = "NODE")]
    pub(crate) node: String,
    /// Take it back: the node gets partitions again
    #[arg(long)]
    pub(crate) undo: bool,
}

/// What the crawl comes to so far: documents, URLs by state and reason, WARC files
#[derive(Args)]
#[command(after_help = CACHED)]
pub(crate) struct FleetReportArguments {
    #[command(flatten)]
    pub(crate) fleet: NamedArguments,
    /// Print one JSON object
    #[arg(long)]
    pub(crate) json: bool,
}

/// Why a URL was fetched or not, when, where it was first found, its back-links, its place in the queue
#[derive(Args)]
#[command(after_help = CACHED)]
pub(crate) struct FleetWhyArguments {
    #[command(flatten)]
    pub(crate) fleet: NamedArguments,
    #[arg(value_name = "URL")]
    pub(crate) url: String,
    /// Print one JSON object
    #[arg(long)]
    pub(crate) json: bool,
}

/// List the crawl's URLs, sorted, as 'portolan urls' does
#[derive(Args)]
#[command(after_help = CACHED)]
pub(crate) struct FleetUrlsArguments {
    #[command(flatten)]
    pub(crate) fleet: NamedArguments,
    #[command(flatten)]
    pub(crate) wanted: WantedUrls,
}

/// What is read from the store, and where it is kept.
const CACHED: &str = "It shows what the nodes have shipped: some seconds are missing while they are at work. What is read \
    from the store is kept in the folder that PORTOLAN_CACHE names [default: ~/.cache/portolan], and the next time only what \
    is new is read.";

/// Print the fleet's settings, or change some of them while it runs
#[derive(Args)]
#[command(after_help = "Examples:\n  \
    portolan fleet config web > web.toml\n  \
    portolan fleet config web --set politeness.delay_ms=2000 --set limits.max_bytes_per_s=50000000\n  \
    portolan fleet config web --max-pages 2000000\n\n\
    Each node takes the new settings over within seconds, without giving up its share. What decides which URLs are crawled, \
    and what the crawl was made with, stays.")]
pub(crate) struct FleetConfigArguments {
    #[command(flatten)]
    pub(crate) fleet: NamedArguments,
    /// Change a setting; several at once take effect together
    #[arg(long, value_name = "NAME=VALUE")]
    pub(crate) set: Vec<String>,
    /// Let the fleet fetch N documents in all, where it was made with --max-pages
    #[arg(long, value_name = "N")]
    pub(crate) max_pages: Option<u64>,
}

/// Fetch the fleet's pages from the store: a directory of WARC files with one index over all of them
#[derive(Args)]
#[command(after_help = "Example:\n  \
    portolan fleet fetch web pages\n  \
    portolan warc verify pages/*.warc.gz\n\n\
    What is in the directory already is not fetched again. Nodes may be at work meanwhile: what they ship later is fetched \
    the next time.")]
pub(crate) struct FetchArguments {
    #[command(flatten)]
    pub(crate) fleet: NamedArguments,
    /// Where the files go
    #[arg(value_name = "DIR")]
    pub(crate) dir: PathBuf,
}

/// Make certificates for the fleet's servers and nodes, and the authority that signs them
#[derive(Args)]
#[command(after_help = "Example:\n  \
    portolan fleet certs certs nats1.example nats2.example nats3.example node1 node2\n\n\
    Each machine gets ca.pem and its own two files. ca-key.pem stays where it is: who has it can join.")]
pub(crate) struct CertsArguments {
    /// Where the files go; an authority that is there already signs
    #[arg(value_name = "DIR")]
    pub(crate) dir: PathBuf,
    /// Machines: the names or addresses by which servers are reached, and any name for a node
    #[arg(value_name = "NAME", required = true)]
    pub(crate) names: Vec<String>,
}

/// Print a configuration of nats-server that works: mutual TLS, accounts, JetStream's limits
#[derive(Args)]
#[command(after_help = "Examples:\n  \
    portolan fleet nats-config nats1.example > nats.conf\n  \
    portolan fleet nats-config nats1.example nats2.example nats3.example --on nats2.example > nats.conf\n\n\
    A hub, and the servers of a group under it ('portolan fleet new --groups'):\n  \
    portolan fleet nats-config hub.example --hub > nats.conf\n  \
    portolan fleet nats-config s1.example --leaf-of hub.example --domain s1 > nats.conf\n\n\
    Three servers on three machines keep everything three times: one of them may be lost at any time.")]
pub(crate) struct NatsConfigArguments {
    /// All servers, by the names that nodes and servers reach them by: one, or three
    #[arg(value_name = "HOST", required = true)]
    pub(crate) hosts: Vec<String>,
    /// The server that this is for [default: the first]
    #[arg(long, value_name = "HOST")]
    pub(crate) on: Option<String>,
    /// Where the certificates are on the server
    #[arg(long, value_name = "DIR", default_value = "/etc/portolan/certs")]
    pub(crate) certs: PathBuf,
    /// Where JetStream keeps its files
    #[arg(long, value_name = "DIR", default_value = "/var/lib/nats")]
    pub(crate) store: PathBuf,
    /// How much of its disk JetStream may use, in GB
    #[arg(long, value_name = "GB", default_value_t = 100, value_parser = clap::value_parser!(u64).range(1..=1_000_000))]
    pub(crate) disk: u64,
    /// Sync each message to disk: a power cut of most servers at once loses nothing then; slower
    #[arg(long)]
    pub(crate) sync_always: bool,
    #[arg(long, value_name = "PORT", default_value_t = 4222)]
    /// Where clients connect
    pub(crate) port: u16,
    /// Where the servers connect to each other
    #[arg(long, value_name = "PORT", default_value_t = 6222)]
    pub(crate) cluster_port: u16,
    /// The servers of several groups connect to these: a hub
    #[arg(long, conflicts_with = "leaf_of")]
    pub(crate) hub: bool,
    /// These are a group's servers, and connect to this hub: its servers' names
    #[arg(
        long,
        value_name = "HOST,...",
        value_delimiter = ',',
        requires = "domain"
    )]
    pub(crate) leaf_of: Vec<String>,
    /// The JetStream domain: 'hub' for a hub, and another one for each group
    #[arg(long, value_name = "DOMAIN")]
    pub(crate) domain: Option<String>,
    /// Where a hub's servers are connected to by leaves
    #[arg(long, value_name = "PORT", default_value_t = 7422)]
    pub(crate) leaf_port: u16,
}
