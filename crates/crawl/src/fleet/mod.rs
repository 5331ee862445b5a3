//! A node: one machine's part of a crawl that many machines share. The crawl on this machine is a crawl as any other,
//! whose registry holds some of the partitions. An **agent** beside it joins it to the fleet: it ships what was done
//! (`shipper`, `warcs`), keeps checkpoints in the store (`checkpoints`, `upload`), sends what links follow from it (`sending`), hears
//! links from other nodes (`hearing`), takes partitions in (`adoption`, `gather`) and lets them go (`agent`), and
//! lets other nodes ask its hosts as guests (`guests`), and
//! reports (`reporting`). What was not shipped has never happened: nothing of it leaves the node, and another node
//! would do it again.
//!
//! `mirror` and `catalogue`: the crawl as others see it, from what was shipped.
//!
//! A node has a **role**: a seed-server's workers grant turns at a `desk`, where crawl-clients ask for them (`serving`, `pace`); a
//! crawl-client (`client`) has them fetched from its `booth`, ships what was archived, and brings back what came of it.
//!
//! `node`: a node's life, from its directory (`identity`) to its end, which a person may ask for (`leaving`). `membership`: what the crawl knows of the fleet.

mod addresses;
mod adoption;
mod agent;
#[cfg(feature = "bench")]
mod bench;
mod booth;
mod catalogue;
mod checkpoints;
mod client;
mod desk;
mod gather;
mod groups;
mod guests;
mod hearing;
mod identity;
mod leaving;
mod membership;
mod mirror;
mod new_settings;
mod node;
mod pace;
mod reporting;
mod role;
mod roots;
mod sending;
mod serving;
mod shipper;
mod upload;
mod warcs;

#[cfg(feature = "bench")]
pub use bench::{AdoptionCosts, bench_adoption};
pub use groups::{owners_of, refuse_groups};
pub use leaving::{Leave, Quit, quitting};
pub use mirror::Mirror;
pub use new_settings::{change_settings, check_for_nodes};
pub use node::{NodeEvent, NodePlan, VECTOR_KEY, fit_for_fleet, parts_of_vector, run_node};

pub(crate) use booth::{Booth, Job};
pub(crate) use desk::{Came, Desk, Incoming, MARGIN_MS, Ticket};
pub(crate) use guests::{Pass, Refused, longest_ms};
pub use membership::Part;
pub(crate) use membership::{Membership, PartitionLook};
pub use role::Role;
pub(crate) use role::as_of_here;
