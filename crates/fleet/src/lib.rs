//! Many machines, one crawl: what they share through NATS JetStream and an object store. The only room that knows NATS.
//!
//! A [`Fleet`] is what all nodes have in common: its definition, the ship log, the link streams, the store. A [`Node`] is
//! one process that has joined: it has a [`Lease`], is told what to do by [`Instruction`]s, ships, publishes links and asks for
//! slices of addresses. Whichever node holds the coordinator's lease assigns partitions; that goes on inside `Node`.
//!
//! ```no_run
//! use portolan_fleet::{Fleet, FleetError, Servers};
//!
//! # async fn example() -> Result<(), FleetError> {
//! let servers = Servers {
//!     urls: vec!["nats://127.0.0.1:4222".to_owned()],
//!     ..Servers::default()
//! };
//! let fleet = match Fleet::open(&servers, "web").await {
//!     Err(FleetError::Unknown(name)) => panic!("nobody has made {name}"),
//!     opened => opened?,
//! };
//! for (name, node) in fleet.status().await?.nodes {
//!     println!("{name} holds {} partitions", node.holds);
//! }
//! # Ok(())
//! # }
//! ```
//!
//! Several fleets may be **groups** of one crawl under a [`Hub`]: each has its own servers, whose leaf connections lead there, and
//! some of the crawl's partitions. Links for those of others go up and come down.
//!
//! The decisions are pure (`protocol`), so that they can be tried under random schedules; `nats` carries them out.
//!
//! Invariants: `one-owner` (at most one node settles for a partition in an epoch) and `told-is-shipped` (nothing leaves a
//! node that its loss could take back).

mod assemble;
mod blobs;
mod boottime;
mod budget;
pub mod certs;
mod checkpoint;
mod definition;
mod error;
mod fleet;
mod grants;
mod group;
mod hub;
mod instructions;
mod links;
pub mod local;
mod log_reader;
mod names;
mod nats;
mod node;
mod pieces;
pub mod protocol;
mod records;
mod server_config;
mod servers;
mod ship;
mod status;
mod stored;
mod told;

pub use assemble::Assembled;
pub use blobs::{Blobs, Object};
pub use boottime::{Lease, now_ms as boottime_ms};
pub use checkpoint::{PIECE_BYTES, Piece, StoredCheckpoint, StoredFile, Upload, journal_key};
pub use definition::{Definition, FORMAT, LEASE_MS, NewFleet, NewGroup, check_name};
pub use error::{FleetError, PublishError, ShipError};
pub use fleet::{Fleet, Inbox, ShipLog};
pub use grants::{Brought, Pace, Want, Work};
pub use group::{Group, fleet_name};
pub use hub::{CrawlDefinition, GroupFigures, GroupReport, GroupView, Hub, HubStatus, NewCrawl};
pub use instructions::Instruction;
pub use links::{Delivery, Forward};
pub use log_reader::LogReader;
pub use node::{
    Asked, Guest, GuestSays, HandedIn, HostSays, Joining, Leaving, Node, PackedReturn, Slice,
};
pub use protocol::Ledger;
pub use records::{
    Checkpoint, Commit, Epoch, Incarnation, PartitionCommit, ShipRecord, Shipped, WarcChunk,
    warc_key,
};
pub use server_config::{ServerConfig, Tier};
pub use servers::{Servers, TlsFiles};
pub use status::{
    FleetStatus, HubContact, HubView, NodeStatus, NodeView, PartitionStatus, Reported, Wish,
};
pub use stored::{Records, Stored, WarcChunks};
