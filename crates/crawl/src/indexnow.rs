//! IndexNow: sites say by HTTP which of their pages have changed, and prove by a file with a key that they speak for themselves. What they say
//! is left in the crawl's directory (`keep/spool.rs`), where a crawl that keeps fresh finds it and believes the host as far as its signals
//! were right before.
//!
//! Anybody can send anything here. So whatever is kept of a request or a host is bounded (`allowance`), nothing is asked of a host that the crawl
//! does not know, and keys are fetched by the crawl's own connector, whose guard keeps strangers from sending it into the network that it
//! stands in.
//!
//! Layout: `message` (what a ping says, pure), `keys` (whether it may), `allowance` (how much), `server` (HTTP).

mod allowance;
mod keys;
mod message;
mod server;

use std::net::SocketAddr;
use std::path::PathBuf;

use portolan_net::Network;

pub use server::receive_pings;

/// Where pings are heard, and whose.
#[derive(Debug, Clone)]
pub struct PingOptions {
    /// The crawl's directory.
    pub dir: PathBuf,
    pub listen: SocketAddr,
    /// Whoever pings from there needs no key.
    pub trusted: Vec<Network>,
}

/// What came.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct PingCounts {
    pub pings: u64,
    /// Those that were left for the crawl, and the URLs in them.
    pub taken: u64,
    pub urls: u64,
}
