//! The words that every room of Portolan shares: canonical URLs, document and host identities,
//! links, visits, reasons and clocks. Plain data and pure functions; no IO.
//!
//! Layout: `id` (hashes and partitions), `partitioner` (who fetches a URL), `ports` (that no Web server has), `ranker` (what comes sooner), `url` (canonical form, SURT, registrable domain),
//! `host` (what is remembered of a server), `link` (what a page points at), `visit` (what became of a request), `reason` (why a URL was
//! not fetched or did not succeed), `clock`.
//!
//! # Example
//!
//! ```
//! use portolan_model::Canonicalizer;
//!
//! let canonicalizer = Canonicalizer::default();
//! let url = canonicalizer.parse_seed("HTTPS://Example.ORG:443/a/../b?utm_source=x#top")?;
//! assert_eq!(url.as_str(), "https://example.org/b");
//! assert_eq!(url.surt(), "org,example)/b");
//! # Ok::<(), portolan_model::CanonicalUrlError>(())
//! ```

mod clock;
mod host;
mod id;
mod link;
mod partitioner;
mod ports;
mod ranker;
mod reason;
pub mod url;
mod visit;

pub use clock::{Clock, ManualClock, SystemClock};
pub use host::{Pulse, RobotsRecord, RobotsStatus, SiteTables, Standing};
pub use id::{DocId, HostId, Identities, PartitionId};
pub use link::{Link, LinkBatch, LinkKind, Verdict};
pub use partitioner::{FixedSiteHash, PageHash, Partitioner, SiteHash, UrlKey, jump_hash};
pub use ports::service_of_port;
pub use ranker::{Known, MAX_CLASS, Order, Ranker, SCORE_BITS, given_priority, plain_priority};
pub use reason::{Cause, Reason};
pub use url::{CanonicalUrl, CanonicalUrlError, Canonicalizer, is_public_suffix};
pub use visit::{
    ArchivePosition, Change, Fact, History, Outcome, SAME_TEXT_BITS, Truncation, Visit,
};
