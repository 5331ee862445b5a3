//! The words that every room of Portolan shares: canonical URLs, document and host identities,
//! links, visits, reasons and clocks. Plain data and pure functions; no IO.
//!
//! Layout: `id` (hashes and partitions), `url` (canonical form, SURT, registrable domain),
//! `link` (what a page points at), `visit` (what became of a request), `reason` (why a URL was
//! not fetched or did not succeed), `clock`.

mod clock;
mod id;
mod link;
mod reason;
pub mod url;
mod visit;

pub use clock::{Clock, ManualClock, SystemClock};
pub use id::{DocId, HostId, PartitionId};
pub use link::{Link, LinkKind, Verdict};
pub use reason::Reason;
pub use url::{CanonicalUrl, CanonicalUrlError, Canonicalizer};
pub use visit::{ArchivePosition, Outcome, Truncation, Visit};
