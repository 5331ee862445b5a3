//! The command line of what knows the graph: `graph`, `partition`, `order`, `rank`, `export`, `bench graph`.

use std::path::PathBuf;

use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use clap::{Args, Subcommand, ValueEnum};
use portolan_model::Order;

use crate::arguments::at_least_one;

#[derive(Subcommand)]
pub(crate) enum GraphCommand {
    Graph(GraphArguments),
    Partition(PartitionArguments),
    Order(OrderArguments),
    Rank(RankArguments),
    #[command(subcommand)]
    Export(ExportCommand),
}

/// Where the graph comes from.
#[derive(Args)]
pub(crate) struct GraphInput {
    /// A crawl's directory or a fleet's store (s3://BUCKET/PREFIX); nodes.tsv[.gz] and edges.tsv[.gz], or a directory with them; NAME.graph of WebGraph;
    /// or synthetic:pages=N,links=N,sites=N,seed=N
    #[arg(value_name = "DIR|FILES", required = true, num_args = 1..=2)]
    pub(crate) input: Vec<PathBuf>,
    /// Of a crawl, keep URLs that were found but not fetched, and the links to them
    #[arg(long)]
    pub(crate) unfetched: bool,
}

/// What a graph looks like: size, degrees, components, bytes, sites.
#[derive(Args)]
#[command(after_help = "Examples:\n  \
    portolan graph crawl\n  \
    portolan graph nodes.tsv.gz edges.tsv.gz --by site\n  \
    portolan graph cnr-2000.graph --json\n  \
    portolan graph synthetic:pages=1000000,links=10000000,seed=7")]
pub(crate) struct GraphArguments {
    #[command(flatten)]
    pub(crate) input: GraphInput,
    /// A vertex a page, or a vertex a site
    #[arg(long, value_enum, default_value = "page")]
    pub(crate) by: UnitArgument,
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum UnitArgument {
    Page,
    Site,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum MethodArgument {
    /// METIS: both loads balanced, least exchange
    Graph,
    Hash,
    /// Sets of domain extensions (by site)
    Dset,
}

/// Divide a graph among K crawling processes, compare ways to do it, or replay modes of exchange.
#[derive(Args)]
#[command(after_help = "Examples:\n  \
    portolan partition crawl --parts 16 --by site --method graph --out parts.pv\n  \
    portolan partition crawl --compare --runs 8 --svg figures\n  \
    portolan partition crawl --parts 8 --modes")]
pub(crate) struct PartitionArguments {
    #[command(flatten)]
    pub(crate) input: GraphInput,
    /// Into how many parts; several, with commas, for --compare and --modes
    /// [default for --compare: 8,16,24,32,40,48,56,64]
    #[arg(
        long,
        value_name = "K",
        value_delimiter = ',',
        allow_negative_numbers = true
    )]
    pub(crate) parts: Vec<u16>,
    /// What is kept whole [default: site]
    #[arg(long, value_enum)]
    pub(crate) by: Option<UnitArgument>,
    #[arg(long, value_enum, default_value = "graph")]
    pub(crate) method: MethodArgument,
    /// How far above the mean a part may be, in bytes and in requests
    #[arg(long, value_name = "PERCENT", default_value = "5%", value_parser = parse_percent, allow_hyphen_values = true)]
    pub(crate) imbalance: f64,
    /// The same seed gives the same parts
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub(crate) seed: u64,
    /// Write the part vector to this file
    #[arg(long, value_name = "FILE", conflicts_with_all = ["compare", "modes"])]
    pub(crate) out: Option<PathBuf>,
    /// A file with one DSet a line, such as '.net .biz'; the first is part 0
    #[arg(long, value_name = "FILE")]
    pub(crate) dsets: Option<PathBuf>,
    /// Place DSets and unlisted extensions by load instead of by hash
    #[arg(long)]
    pub(crate) pack: bool,
    /// The tables of the data-parallel paper: page and site, graph and hash, and DSets
    #[arg(long, conflicts_with = "modes")]
    pub(crate) compare: bool,
    /// Replay firewall, cross-over, exchange and server-centric crawls
    #[arg(long)]
    pub(crate) modes: bool,
    /// Averages of N runs (with --compare)
    #[arg(long, value_name = "N", default_value_t = 8)]
    pub(crate) runs: u32,
    /// Seed pages of each process, where the crawl's own are not known (with --modes)
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = at_least_one())]
    pub(crate) seeds: usize,
    #[arg(long, conflicts_with = "json")]
    pub(crate) csv: bool,
    #[arg(long)]
    pub(crate) json: bool,
    /// Draw the tables into this directory (with --compare)
    #[arg(long, value_name = "DIR", requires = "compare")]
    pub(crate) svg: Option<PathBuf>,
}

/// The orders by the names that settings have for them.
fn order() -> impl TypedValueParser<Value = Order> {
    let named = Order::ALL.map(|order| {
        PossibleValue::new(order.name()).help(match order {
            Order::Backlinks => "The logarithm of the back-links",
            Order::Breadth => "First come, first served",
            Order::Opic => "Each page fetched gives what it has to its links",
            Order::SiteIndegree => "How many other sites link to the page",
            Order::Pagerank => {
                "PageRank of the whole graph, as a session knows it from the one before"
            }
            Order::LivePagerank => "PageRank of what has been fetched so far",
        })
    });
    PossibleValuesParser::new(named).map(|name| Order::from_name(&name).unwrap_or_default())
}

/// Replay a crawl of a graph under each order: how soon are the important pages there?
#[derive(Args)]
#[command(after_help = "Examples:\n  \
    portolan order crawl --compare\n  \
    portolan order crawl --by opic\n  \
    portolan order cnr-2000.graph --compare --svg figures")]
pub(crate) struct OrderArguments {
    #[command(flatten)]
    pub(crate) input: GraphInput,
    /// One order
    #[arg(long, value_name = "ORDER", value_parser = order(), default_value = "backlinks")]
    pub(crate) by: Order,
    /// All orders
    #[arg(long)]
    pub(crate) compare: bool,
    /// Seed pages, drawn by chance where the crawl's own are not known
    #[arg(long, value_name = "N", default_value_t = 16, value_parser = at_least_one())]
    pub(crate) seeds: usize,
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub(crate) seed: u64,
    #[arg(long)]
    pub(crate) json: bool,
    /// Draw the curves into this directory
    #[arg(long, value_name = "DIR")]
    pub(crate) svg: Option<PathBuf>,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum RankMethod {
    Pagerank,
    Backlinks,
    Harmonic,
}

/// The pages that matter most.
#[derive(Args)]
pub(crate) struct RankArguments {
    #[command(flatten)]
    pub(crate) input: GraphInput,
    #[arg(long, value_enum, default_value = "pagerank")]
    pub(crate) method: RankMethod,
    #[arg(long, value_name = "N", default_value_t = 20)]
    pub(crate) top: usize,
    /// Write a rank table (a class for each URL) for the next session's frontier
    #[arg(long, value_name = "FILE")]
    pub(crate) out: Option<PathBuf>,
    #[arg(long)]
    pub(crate) json: bool,
}

/// Write what other programs read.
#[derive(Subcommand)]
pub(crate) enum ExportCommand {
    /// The link graph
    #[command(after_help = "Examples:\n  \
        portolan export graph crawl --format parquet --out tables\n  \
        portolan export graph synthetic:pages=50000000,links=1000000000 --format webgraph --out big")]
    Graph {
        #[command(flatten)]
        input: GraphInput,
        #[arg(long, value_enum)]
        format: FormatArgument,
        /// The directory for the files
        #[arg(long, value_name = "DIR", default_value = "./graph")]
        out: PathBuf,
        /// A vertex a page, or a vertex a site (metis only)
        #[arg(long, value_enum, default_value = "page")]
        by: UnitArgument,
    },
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum FormatArgument {
    Tsv,
    Webgraph,
    Metis,
    Parquet,
}

/// Build, cut, hash and rank graphs: CPU seconds and peak memory of each step.
#[derive(Args)]
pub(crate) struct BenchGraphArguments {
    /// A real graph to cut 64 ways and rank, such as cnr-2000.graph
    #[arg(long, value_name = "DIR|FILE")]
    pub(crate) graph: Option<PathBuf>,
    /// Pages of the synthetic graph
    #[arg(long, value_name = "N", default_value_t = 10_000_000)]
    pub(crate) pages: u32,
    /// Links of the synthetic graph
    #[arg(long, value_name = "N", default_value_t = 100_000_000)]
    pub(crate) links: u64,
    #[arg(long)]
    pub(crate) json: bool,
}

/// `5%`, `0.5 %` or `5`: always percent.
fn parse_percent(text: &str) -> Result<f64, String> {
    let number = text.trim().trim_end_matches('%').trim_end();
    match number.parse::<f64>() {
        Ok(percent) if percent > 0.0 && percent <= 1_000.0 => Ok(percent / 100.0),
        _ => Err("write percent above 0, such as 5%".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::parse_percent;

    #[test]
    fn percents() {
        assert_eq!(parse_percent("5%"), Ok(0.05));
        assert_eq!(parse_percent("12.5 %"), Ok(0.125));
        assert_eq!(parse_percent("5"), Ok(0.05));
        for wrong in ["", "%", "-1%", "0%", "NaN", "x", "inf"] {
            assert!(parse_percent(wrong).is_err(), "{wrong}");
        }
    }
}
