//! The command line of seed-servers and their URL-Registries.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use clap::builder::RangedU64ValueParser;

use crate::arguments::parse_duration;
use crate::arguments_fleet::ServersArguments;
use crate::arguments_fleet_commands::NamedArguments;

/// Look into the URL-Registry: DocID, back-links, visited, URL, the most linked first.
#[derive(Args)]
#[command(after_help = "Examples:\n  \
    portolan registry crawl --top 20\n  \
    portolan registry crawl --dset .edu --top 20    # the DSet that .edu is in\n  \
    portolan registry crawl --dset 1 --json         # the second [[dset]] block, one JSON object a line\n  \
    portolan registry web --dset .edu               # of a whole fleet, by its name\n  \
    portolan registry s3://bucket/web --dset .edu   # by its store, without NATS\n\n\
    It works while the crawl runs. What is no directory here is a fleet's name. DocIDs are 64-bit numbers in hexadecimal digits; 'count' is how many pages link to the\n\
    URL, and how often it was given as a seed.")]
pub(crate) struct RegistryArguments {
    /// The crawl's directory, a node's, a fleet's store, or a fleet's name
    #[arg(value_name = "DIR|NAME")]
    pub(crate) place: PathBuf,
    /// Only this DSet: one of its extensions, or its number, from 0; without DSets, the number of a partition
    #[arg(long, value_name = "DSET")]
    pub(crate) dset: Option<String>,
    /// How many URLs
    #[arg(long, value_name = "N", default_value_t = 20, value_parser = RangedU64ValueParser::<usize>::new().range(1..=1_000_000))]
    pub(crate) top: usize,
    #[arg(long)]
    pub(crate) json: bool,
    #[command(flatten)]
    pub(crate) servers: ServersArguments,
}

/// Follow a fleet and write down, each second, each client's connections, what it is told, and its pages
#[derive(Args)]
#[command(after_help = "Examples:\n  \
    portolan fleet trace web                                   # CSV on standard output, until the crawl has ended\n  \
    portolan fleet trace web --csv trace.csv --connections-svg fig4.svg --pages-svg fig6.svg --time-limit 5m\n\n\
    'told' is what a client was told within the last two seconds: 'hurry up' or 'slow down'.")]
pub(crate) struct TraceArguments {
    #[command(flatten)]
    pub(crate) fleet: NamedArguments,
    /// Write the rows to this file instead of standard output
    #[arg(long, value_name = "FILE")]
    pub(crate) csv: Option<PathBuf>,
    /// Draw connections over time
    #[arg(long, value_name = "FILE")]
    pub(crate) connections_svg: Option<PathBuf>,
    /// Draw pages over time
    #[arg(long, value_name = "FILE")]
    pub(crate) pages_svg: Option<PathBuf>,
    /// Look this often
    #[arg(long, value_name = "TIME", value_parser = parse_duration, default_value = "1s")]
    pub(crate) every: Duration,
    /// Stop after this time, although the crawl has not ended
    #[arg(long, value_name = "TIME", value_parser = parse_duration)]
    pub(crate) time_limit: Option<Duration>,
}

/// What nodes sent each other, and how evenly the work is shared out, beside what an earlier session's graph predicts
#[derive(Args)]
#[command(after_help = "Examples:\n  \
    portolan fleet traffic web\n  \
    portolan fleet traffic web --predict earlier      # a crawl's directory, whose links are counted for this division\n\n\
    'URLs sent' are the bytes of the URLs of links that left their node, which is what a graph can predict; 'on the wire' is what\n\
    they took packed, as messages of NATS.")]
pub(crate) struct TrafficArguments {
    #[command(flatten)]
    pub(crate) fleet: NamedArguments,
    /// The directory of an earlier session, on one machine, of the same Web
    #[arg(long, value_name = "DIR")]
    pub(crate) predict: Option<PathBuf>,
    #[arg(long)]
    pub(crate) json: bool,
}
