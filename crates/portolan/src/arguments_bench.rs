//! The command line of `portolan bench crawl`, `extract` and `archive`.

use std::path::PathBuf;

use clap::Args;

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

/// Read HTML files as a crawl does, without a network: CPU a page by stage
#[derive(Args)]
#[command(after_help = "Example:\n  portolan bench extract /usr/share/doc/git/html")]
pub(crate) struct BenchExtractArguments {
    /// A folder with .html files, also in folders below
    pub(crate) folder: PathBuf,
    /// Read pages, in rounds over the folder, for at least so many seconds of CPU time
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
