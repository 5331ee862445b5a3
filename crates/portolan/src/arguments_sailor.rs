//! The command line of seed-servers and their URL-Registries.

use std::path::PathBuf;

use clap::Args;
use clap::builder::RangedU64ValueParser;

/// Look into the URL-Registry: DocID, back-links, visited, URL, the most linked first.
#[derive(Args)]
#[command(after_help = "Examples:\n  \
    portolan registry crawl --top 20\n  \
    portolan registry crawl --dset .edu --top 20    # the DSet that .edu is in\n  \
    portolan registry crawl --dset 1 --json         # the second [[dset]] block, one JSON object a line\n\n\
    It works while the crawl runs. DocIDs are 64-bit numbers in hexadecimal digits; 'count' is how many pages link to the\n\
    URL, and how often it was given as a seed.")]
pub(crate) struct RegistryArguments {
    /// The crawl's directory, or a node's
    pub(crate) dir: PathBuf,
    /// Only this DSet: one of its extensions, or its number, from 0; without DSets, the number of a partition
    #[arg(long, value_name = "DSET")]
    pub(crate) dset: Option<String>,
    /// How many URLs
    #[arg(long, value_name = "N", default_value_t = 20, value_parser = RangedU64ValueParser::<usize>::new().range(1..=1_000_000))]
    pub(crate) top: usize,
    #[arg(long)]
    pub(crate) json: bool,
}
