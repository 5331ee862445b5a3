//! Hosts: what is remembered of each (`table`), and which are due when (`queue`).

mod queue;
mod table;

pub(crate) use queue::HostQueue;
pub use table::{HostCounts, HostState};
pub(crate) use table::{HostTable, STATES, hosts_source};
