//! What is known and what is due: log, sieve, frontier, hosts, visits, link graph, checkpoint.
//!
//! A registry is a directory with some partitions and one **journal**, the only way into them. What the journal holds
//! for a partition is the partition's log, and its state is a deterministic fold of that log: the same whenever, wherever
//! and however often it is replayed. [`Journal`] is used by the one thread that commits; each [`Partition`] by the one
//! thread that owns it; a [`Snapshot`] by anybody, at any time, without disturbing the others.
//!
//! # Layout
//!
//! - `log`: entries, the journal's frames and segments, commits, forwards between partitions.
//! - `state`: what a partition knows, the fold of its log. `partition`: a state with turns for whoever crawls, and with
//!   the upkeep of what is on disk. `grant`: a turn as plain data, for whoever fetches, and what comes back of it.
//! - `sieve`, `recent`, `record`, `texts`: known URLs. `frontier`: sub-queues of hosts. `hosts`: what is
//!   remembered of hosts, and which is due when.
//! - `files`: append-only files and immutable sorted tables, which everything above is kept in;
//!   `manifest`: which of them make up the state. `merger`: the threads that write them.
//! - `adopt`, `held`: a registry that is one of a fleet, and holds some of its partitions. `mirror`: one that follows a fleet. `checkpoint`: a partition's
//!   checkpoint as files that go elsewhere.
//! - `registry`, `meta`, `replay`: opening and recovery. `snapshot`, `scan`: reading. `check`: looking for damage.
//! - `bench`, only with the feature of that name: what it all costs.
//!
//! # Example
//!
//! ```
//! use portolan_model::{Link, LinkBatch, LinkKind, PartitionId, Verdict};
//! use portolan_registry::{Entry, Registry, RegistrySettings, Return, Terms};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let folder = tempfile::tempdir()?;
//! # let (dir, now_ms) = (folder.path(), 1_767_225_600_000);
//! let settings = RegistrySettings { partitions: 1, ..RegistrySettings::default() };
//! let mut registry = Registry::open(dir, &settings, now_ms)?;
//! // A seed is an entry: in the journal first, then folded.
//! let mut links = LinkBatch::new(None);
//! links.push(Link {
//!     url: "https://example.org/",
//!     kind: LinkKind::Seed,
//!     depth: 0,
//!     hops: 0,
//!     verdict: Verdict::Crawl { priority: 0 },
//! });
//! let seed = Entry::Links { source: None, links };
//! let partition = &mut registry.partitions[0];
//! for delivery in registry.journal.commit(vec![(PartitionId(0), seed)])? {
//!     partition.apply(delivery.seq, &delivery.entry)?;
//! }
//! // The host that is due first, with one of its URLs.
//! let turn = partition.begin_turn(now_ms)?.expect("a host is due");
//! let grant = partition.grant(turn, &Terms::here(1))?;
//! assert_eq!(grant.urls[0].due.url, "https://example.org/");
//! // Nobody asked for it: it is due again after a second.
//! let mut pulse = grant.turn.pulse;
//! pulse.not_before_ms = now_ms + 1_000;
//! let unused = vec![grant.urls[0].due.doc];
//! partition.take_back(&Return { id: grant.id, host: grant.turn.host, pulse, unused, entries: Vec::new() })?;
//! assert_eq!(partition.next_due_ms(), Some(now_ms + 1_000));
//! # Ok(())
//! # }
//! ```
//!
//! # On disk
//!
//! ```text
//! meta                 format, number of partitions, order of queues, id of the crawl
//! lock                 the process that has the registry open; left behind by a crash
//! journal/<n>.log      segments of the journal, deleted once checkpoints of all partitions hold what they say
//! journal/held         in a fleet: the partitions that this registry holds
//! p00/manifest         the checkpoint: names and lengths of the files below, position in the log
//! p00/known-<n>.tbl    records of URLs by document      p00/urls     texts of URLs
//! p00/due-<n>.tbl      queue entries by host and place  p00/visits   what came of each request
//! p00/hosts-<n>.tbl    hosts                            p00/links    the link graph
//! p00/seeds            URLs given as seeds             p00/claims   in a fleet: sites of which it is the home
//! ```
//!
//! # RAM
//!
//! Held in RAM, per partition, with M = `memory_bytes` / `partitions`: recent records (42 % of M) and
//! a copy of those that are being written (16 %), pending operations and the batch being looked up
//! (16 %), frontier entries, recent and frozen (16 %), news of hosts, recent and frozen (8 %), windows
//! and bookmarks of hosts (3 %), and up to 4 % more for what comes while all that is being written. On
//! top: 1.3 bytes a known URL for filters, up to M, and twice that for a table that is being merged; 50
//! bytes for each of `hosts_in_ram` queued hosts; 16 to 24 bytes of sparse index for each 4 KB of table
//! (0.2 bytes a URL), URLs in flight, and about 2 MB of buffers.
//! Whoever applies an entry waits for the merge threads rather than pass these limits.

mod adopt;
#[cfg(feature = "bench")]
#[doc(hidden)]
pub mod bench;
mod by_id;
mod check;
mod checkpoint;
mod error;
mod files;
mod frontier;
mod grant;
mod held;
mod hosts;
mod lock;
mod log;
mod manifest;
mod merger;
mod meta;
mod mirror;
mod partition;
mod recent;
mod record;
mod redivide;
mod registry;
mod replay;
mod scan;
mod sessions;
mod settings;
mod sieve;
mod snapshot;
mod state;
mod stats;
mod texts;
mod wire;

pub use adopt::{Adopter, Adoption};
pub use check::{Checked, Damage, RegistryCheck, check};
pub use checkpoint::{CheckpointFile, CheckpointFiles, checkpoint_files, lay_manifest};
pub use error::{RegistryError, Result};
pub use grant::{Grant, GrantId, Granted, Return, Terms};
pub use hosts::{HostCounts, HostState};
pub use log::{
    Arrival, Ask, Behind, Chunk, Claim, Delivery, Entry, Exchanged, Exporter, Forward, Forwarded,
    Heard, Homes, Inbox, Journal, Moved, MovedUrl, Origin, Outbound, Received, Renewed, Settler,
    Sorted, Was,
};
pub use mirror::Mirror;
pub use partition::{Backlog, Due, Partition, Rest, Turn};
pub use record::UrlState;
pub use redivide::{Redivided, Redivision};
pub use registry::{InFleet, Opened, Registry};
pub use sessions::SessionStats;
pub use settings::RegistrySettings;
pub use snapshot::{QueuePosition, Snapshot, UrlFilter, UrlRecord};
pub use state::LastCheck;
pub use stats::Stats;
