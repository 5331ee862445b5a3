//! The command line of `portolan bench crawl`, `pace`, `extract`, `archive`, `tol`, `freshness` and `session`.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;

use crate::arguments::parse_duration;

/// Crawl a simulated Web: pages/s, CPU a page by stage, peak memory, and what the Web's witness says
#[derive(Args)]
#[command(after_help = "Examples:\n  \
    portolan bench crawl                        200 hosts x 500 pages of 21 KB with 50 links\n  \
    portolan bench crawl --no-compression --hosts 50\n  \
    portolan bench crawl --tls                  over TLS, 10 requests a connection\n  \
    portolan bench crawl --pages-from /usr/share/doc/git/html --pages 100\n\n\
    The Web is served by a second process; its CPU time is not counted. Exit code 1 if the witness saw a page\n\
    missed, a page fetched twice, or robots.txt disobeyed: such figures are worth nothing.")]
pub(crate) struct BenchCrawlArguments {
    #[arg(long, value_name = "N", default_value_t = 200)]
    pub(crate) hosts: u32,
    /// Pages of each host
    #[arg(long, value_name = "N", default_value_t = 500)]
    pub(crate) pages: u32,
    /// Worker threads of the crawler
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub(crate) threads: usize,
    /// The Web speaks TLS and closes a connection after 10 requests
    #[arg(long)]
    pub(crate) tls: bool,
    /// The Web sends gzip; it is stored as received
    #[arg(long)]
    pub(crate) gzip: bool,
    /// Serve the HTML files below this folder as pages, as often as it takes
    #[arg(long, value_name = "FOLDER")]
    pub(crate) pages_from: Option<PathBuf>,
    /// Plain .warc files
    #[arg(long)]
    pub(crate) no_compression: bool,
    #[arg(long)]
    pub(crate) json: bool,
}

/// Crawl many hosts with delays and latency, also beside sick hosts: how much of what is allowed is reached
#[derive(Args)]
#[command(after_help = "Examples:\n  \
    portolan bench pace                         5,000 hosts, 1 s delay, 100 ms latency, 256 connections\n  \
    portolan bench pace --hosts 200 --sick silent=1000,drip=1000,dns=1000\n  \
    portolan bench pace --hosts 200 --delay 0s --latency 0s --sick silent=1000,drip=1000,dns=1000\n\n\
    With --sick there are two crawls: healthy hosts alone, and beside hosts that accept and say nothing, send a byte\n\
    a second, or whose names the DNS server does not answer for. Exit code 1 if a sick host was asked twice at once.")]
pub(crate) struct BenchPaceArguments {
    /// Healthy hosts
    #[arg(long, value_name = "N", default_value_t = 5_000)]
    pub(crate) hosts: u32,
    /// Pause between requests to a host
    #[arg(long, value_name = "TIME", value_parser = parse_duration, default_value = "1s")]
    pub(crate) delay: Duration,
    /// How long hosts think before they answer
    #[arg(long, value_name = "TIME", value_parser = parse_duration, default_value = "100ms")]
    pub(crate) latency: Duration,
    #[arg(long, value_name = "N", default_value_t = 256)]
    pub(crate) connections: usize,
    /// Worker threads of the crawler; 0: one for each core
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub(crate) threads: usize,
    /// How long each crawl takes
    #[arg(long, value_name = "TIME", value_parser = parse_duration, default_value = "60s")]
    pub(crate) time: Duration,
    /// What comes before is not measured
    #[arg(long, value_name = "TIME", value_parser = parse_duration, default_value = "10s")]
    pub(crate) warm_up: Duration,
    /// Sick hosts of each kind, as in silent=1000,drip=1000,dns=1000
    #[arg(long, value_name = "KIND=N,…", value_parser = parse_sick, default_value = "")]
    pub(crate) sick: SickHosts,
    #[arg(long)]
    pub(crate) json: bool,
}

/// Crawl a simulated Web four times: with tables of links, with links from the stream, with both, with neither
#[derive(Args)]
#[command(after_help = "Examples:\n  \
    portolan bench tol                          40 hosts x 5 documents of 300 KB that take 2 s each\n  \
    portolan bench tol --body 0s --bytes 4000 --pages 30 --delay 250ms     small pages with a pause: a .tol does not pay\n\n\
    The Web is served by a second process. The time is the witness's, from the first request to the last answer. Exit code 1\n\
    if it saw a page missed, a page fetched twice, or robots.txt disobeyed: such figures are worth nothing.")]
pub(crate) struct BenchTolArguments {
    #[arg(long, value_name = "N", default_value_t = 40)]
    pub(crate) hosts: u32,
    /// Documents of each host
    #[arg(long, value_name = "N", default_value_t = 5)]
    pub(crate) pages: u32,
    /// How long the body of a document takes to come
    #[arg(long, value_name = "TIME", value_parser = parse_duration, default_value = "2s")]
    pub(crate) body: Duration,
    /// Mean size of a document
    #[arg(long, value_name = "N", default_value_t = 300_000)]
    pub(crate) bytes: u32,
    /// Pause between requests to a host
    #[arg(long, value_name = "TIME", value_parser = parse_duration, default_value = "0s")]
    pub(crate) delay: Duration,
    #[arg(long)]
    pub(crate) json: bool,
}

/// How many sick hosts there are, by kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct SickHosts {
    pub(crate) silent: u32,
    pub(crate) drip: u32,
    pub(crate) dns: u32,
}

impl SickHosts {
    pub(crate) const NONE: SickHosts = SickHosts {
        silent: 0,
        drip: 0,
        dns: 0,
    };
}

fn parse_sick(text: &str) -> Result<SickHosts, String> {
    let mut sick = SickHosts::NONE;
    for part in text.split(',').filter(|part| !part.is_empty()) {
        let wrong = || format!("'{part}' is not one of silent=N, drip=N, dns=N");
        let (kind, count) = part.split_once('=').ok_or_else(wrong)?;
        let count: u32 = count.parse().map_err(|_| wrong())?;
        match kind {
            "silent" => sick.silent = count,
            "drip" => sick.drip = count,
            "dns" => sick.dns = count,
            _ => return Err(wrong()),
        }
    }
    Ok(sick)
}

/// Read HTML files as a crawl does, without a network: CPU a page by stage
#[derive(Args)]
#[command(after_help = "Example:\n  portolan bench extract /usr/share/doc/git/html")]
pub(crate) struct BenchExtractArguments {
    /// A folder with .html files, also in folders below
    pub(crate) folder: PathBuf,
    /// Read pages, in rounds over the folder, for at least this many seconds of CPU time
    #[arg(long, value_name = "N", default_value_t = 3.0)]
    pub(crate) seconds: f64,
    #[arg(long)]
    pub(crate) json: bool,
}

/// Archive pages without a network: CPU a page for records and digests, compression, writing, index, verify
#[derive(Args)]
pub(crate) struct BenchArchiveArguments {
    /// A folder with .html files [default: pages of the simulated Web that `bench crawl` uses]
    pub(crate) folder: Option<PathBuf>,
    /// How many pages to archive
    #[arg(long, value_name = "N", default_value_t = 20_000)]
    pub(crate) pages: u64,
    /// 0 (stored) to 12 (smallest)
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub(crate) compression_level: u8,
    #[arg(long)]
    pub(crate) json: bool,
}

/// Simulate policies of crawling again, and pick among millions of URLs: freshness, CPU a pick, bytes a URL
#[derive(Args)]
#[command(after_help = "Examples:\n  \
    portolan bench freshness                    2,000 pages, 200 fetches a day, 200 days, 3 seeds\n  \
    portolan bench freshness --pages 1000 --rate 500 --days 100\n  \
    portolan bench freshness --urls 100000      picks among 100,000 URLs only\n  \
    portolan bench freshness --web 100          keep a simulated Web fresh, with politeness in force\n  \
    portolan bench freshness --web 100 --policy lambda-crawl\n\n\
    Freshness is the importance-weighted share of the time in which the copy of a page is like the page; the bound is what the\n\
    best regular intervals reach where all rates are known. docs/freshness.md tells what is compared.")]
pub(crate) struct BenchFreshnessArguments {
    /// Pages of the simulation
    #[arg(long, value_name = "N", default_value_t = 2_000)]
    pub(crate) pages: usize,
    /// Days that are simulated; the first quarter is not counted
    #[arg(long, value_name = "D", default_value_t = 200.0)]
    pub(crate) days: f64,
    /// Fetches a day over all pages [default: a tenth of the pages]
    #[arg(long, value_name = "R")]
    pub(crate) rate: Option<f64>,
    /// How many seeds
    #[arg(long, value_name = "S", default_value_t = 3)]
    pub(crate) seeds: u64,
    /// URLs among which picks are measured, one row for each
    #[arg(long, value_name = "N", value_delimiter = ',', default_values_t = [1_000_000, 10_000_000],
        value_parser = clap::value_parser!(u32).range(1..=100_000_000))]
    pub(crate) urls: Vec<u32>,
    /// Instead, keep a simulated Web fresh that changes while it is served, for this many of its days (2 s each), and tell what its
    /// witness counted: with politeness in force, without sitemaps and with them
    #[arg(long, value_name = "DAYS", num_args = 0..=1, default_missing_value = "40")]
    pub(crate) web: Option<f64>,
    /// With --web: who decides which page is fetched again next. Other policies than ours heed no sitemaps, so they are measured
    /// without them alone
    #[arg(
        long,
        value_enum,
        value_name = "POLICY",
        default_value = "ours",
        requires = "web"
    )]
    pub(crate) policy: WebPolicy,
    #[arg(long)]
    pub(crate) json: bool,
}

/// The policies that a real crawl can have.
#[derive(Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum WebPolicy {
    Ours,
    Uniform,
    Proportional,
    Nutch,
    StormCrawler,
    LambdaCrawl,
}

/// Crawl a simulated Web that does not change in two sessions: CPU and bytes of the second beside the first
#[derive(Args)]
#[command(after_help = "Example:\n  \
    portolan bench session                      200 hosts x 500 pages of 21 KB, all of which answer 304 the second time\n\n\
    The Web is served by a second process; its CPU time is not counted.")]
pub(crate) struct BenchSessionArguments {
    #[arg(long, value_name = "N", default_value_t = 200)]
    pub(crate) hosts: u32,
    /// Pages of each host
    #[arg(long, value_name = "N", default_value_t = 500)]
    pub(crate) pages: u32,
    #[arg(long)]
    pub(crate) json: bool,
}

/// Put URLs into a URLFrontier server and get them out again: how many a second, and what that costs the server
#[derive(Args)]
#[command(after_help = "Examples:\n  \
    portolan serve-frontier --dir frontier & portolan bench frontier-server --pid $!\n  \
    portolan bench frontier-server --server http://127.0.0.1:7072 --urls 10000000 --hosts 100000\n\n\
    First all URLs, new to the server; then a tenth of them again; then a tenth of them out, 10 of each of 100 queues a call.\n\
    They are of a crawl of their own (BENCH), which is deleted before and afterwards. Other crawls at the server are not touched.")]
pub(crate) struct BenchFrontierServerArguments {
    /// The server
    #[arg(long, value_name = "URL", default_value = "http://127.0.0.1:7071")]
    pub(crate) server: String,
    /// The server's process on this machine: its CPU time and memory are told, too
    #[arg(long, value_name = "PID")]
    pub(crate) pid: Option<u32>,
    #[arg(long, value_name = "N", default_value_t = 1_000_000)]
    pub(crate) urls: u64,
    #[arg(long, value_name = "N", default_value_t = 10_000, value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) hosts: u64,
    /// PutURLs calls at once
    #[arg(long, value_name = "N", default_value_t = 4, value_parser = clap::value_parser!(u64).range(1..=256))]
    pub(crate) streams: u64,
    /// URLs are got for at most so many seconds
    #[arg(long, value_name = "S", default_value_t = 120)]
    pub(crate) get_s: u64,
    /// Leave the URLs at the server
    #[arg(long)]
    pub(crate) keep: bool,
    #[arg(long)]
    pub(crate) json: bool,
}
