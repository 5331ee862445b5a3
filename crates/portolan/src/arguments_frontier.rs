//! The command line of `portolan serve-frontier`.

use std::net::SocketAddr;
use std::path::PathBuf;

use clap::Args;
use clap::builder::RangedU64ValueParser;

/// Serve a frontier to crawlers of other people: URLs in and out, over the URLFrontier API 2.6 (gRPC).
#[derive(Args)]
#[command(after_help = "Examples:\n  \
    portolan serve-frontier --dir frontier\n  \
    portolan serve-frontier --dir frontier --listen 0.0.0.0:7071 --tls-cert server.pem --tls-key server.key --token-file token\n  \
    portolan crawl --frontier-server http://127.0.0.1:7071 --out crawl      a crawl that takes its work from it\n\n\
    StormCrawler, scrapy and every other client of crawler-commons' URLFrontier can use it; docs/urlfrontier.md says how.\n\
    URLs that it acknowledged, delays, blocks, limits, leases and whether it is active are still there after any stop.\n\n\
    Ctrl-C: end the calls that are under way within seconds, and stop. Exit code: 0 in order, 1 if it failed, 2 for bad input.")]
pub(crate) struct ServeFrontierArguments {
    /// Where the URLs are kept; a new one is made if there is none
    #[arg(long, value_name = "DIR", default_value = "frontier")]
    pub(crate) dir: PathBuf,
    /// Where to listen
    #[arg(long, value_name = "ADDRESS:PORT", default_value = "127.0.0.1:7071")]
    pub(crate) listen: SocketAddr,
    /// Memory for the store in MB: what was read and written lately. Queues come on top of it, some 400 bytes each. Where the directory
    /// is there already, only the part for what is read changes
    #[arg(long, value_name = "MB", default_value_t = 256,
        value_parser = RangedU64ValueParser::<u64>::new().range(16..=1 << 20))]
    pub(crate) memory_mb: u64,
    /// The server's certificate, with those that lead to the root (PEM)
    #[arg(long, value_name = "FILE", requires = "tls_key")]
    pub(crate) tls_cert: Option<PathBuf>,
    /// The key of that certificate (PEM)
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    pub(crate) tls_key: Option<PathBuf>,
    /// A file with the token that calls have to bring, as 'authorization: Bearer TOKEN'
    #[arg(long, value_name = "FILE")]
    pub(crate) token_file: Option<PathBuf>,
    /// Speak plain text with other machines, too
    #[arg(long)]
    pub(crate) insecure: bool,
    /// Say nothing but what goes wrong
    #[arg(long)]
    pub(crate) quiet: bool,
    /// Say more: what holds queues back, what is deleted. -vv: every call for URLs, too
    #[arg(short, long, action = clap::ArgAction::Count)]
    pub(crate) verbose: u8,
    /// Say it in this file, which grows, and not on the terminal
    #[arg(long, value_name = "FILE")]
    pub(crate) log: Option<PathBuf>,
}
