//! What a node says of itself, each second, and what a fleet is as a whole.

use crate::protocol::Assignment;
use crate::records::{Epoch, Incarnation};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// What a node says of itself. The coordinator decides by it, people look at it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct NodeStatus {
    /// `Node::look()` as it was **before** the counters below were read.
    pub look: u64,
    /// Those that the node has adopted and not released.
    pub partitions: Vec<PartitionStatus>,
    /// Pages since the node's process began, and in the last seconds.
    pub pages: u64,
    pub pages_per_s: f64,
    pub bytes_per_s: f64,
    /// Bytes of WARC and journal that are on this node's disk only.
    pub unshipped_bytes: u64,
    pub shipped_bytes: u64,
    /// Of checkpoints, put into the store since the process began.
    pub checkpoint_bytes: u64,
    /// Partitions that may come to it and whose checkpoints it has fetched, with the last entries that are in these.
    pub prepared: Vec<(u16, u64)>,
    /// Links sent to and heard from other nodes since the process began.
    pub links_sent: u64,
    pub links_heard: u64,
    pub connections: u64,
    /// "both", "seed-server" or "crawl-client"; empty is "both".
    pub role: String,
    /// Connections that a crawl-client is told to have, over all seed-servers.
    pub target: u64,
    /// How often it was told to hurry up, and to slow down; and what it was told last, if that was within the last seconds.
    pub hurries: u64,
    pub slows: u64,
    pub pace: String,
    /// Grants given by a seed-server, or got by a crawl-client; returns that counted; grants that expired or came back too late.
    pub grants: u64,
    pub returns: u64,
    pub expired: u64,
    /// Bytes of both: packed, as they went over the wire, but for the returns that a seed-server counts, which are unpacked.
    pub grant_bytes: u64,
    pub return_bytes: u64,
    /// Messages and bytes of links to other partitions, packed, as they went over the wire; and bytes of their URLs before packing.
    pub link_messages: u64,
    pub link_bytes: u64,
    pub link_url_bytes: u64,
    /// Why it is behind or stands still, in one sentence; empty if all is well.
    pub trouble: String,
    pub stopped: bool,
}

/// What a node says of one partition.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct PartitionStatus {
    pub partition: u16,
    pub epoch: Epoch,
    /// Forwards that left it and forwards that it heard, since the crawl began: counters of its fold.
    pub sent: u64,
    pub heard: u64,
    pub known: u64,
    pub due: u64,
    pub visited: u64,
    /// Nothing is due now or later, and nothing is being asked for.
    pub exhausted: bool,
    /// Nothing is due but URLs of hosts that fail, and those were waited for. Some may be asked just now.
    pub waits: bool,
    /// Nothing of it waits to be shipped, and no forward waits to be acknowledged.
    pub settled: bool,
    /// What it weighs: bytes and requests of the last minutes or of the last session, in any unit that all nodes share.
    pub bytes: f64,
    pub requests: f64,
}

/// What a node's status key holds.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Reported {
    pub incarnation: Incarnation,
    pub session: u64,
    /// Counts the reports of a session.
    pub number: u64,
    pub program: String,
    pub status: NodeStatus,
}

/// What everybody is to do.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Wish {
    #[default]
    Run,
    Stop,
    /// A person ended it.
    End,
    /// Everything that was found has been crawled.
    Complete,
}

impl Wish {
    /// The crawl never goes on.
    pub fn is_over(self) -> bool {
        matches!(self, Self::End | Self::Complete)
    }
}

/// The fleet as one who looks from outside sees it.
#[derive(Clone, Debug, Serialize)]
pub struct FleetStatus {
    pub name: String,
    pub wish: Wish,
    pub partitions: u16,
    pub coordinator: Option<String>,
    pub assignment: Assignment,
    pub nodes: BTreeMap<String, NodeView>,
    /// Partitions that no node holds.
    pub free: usize,
    /// Messages and bytes that wait in the link streams.
    pub links_waiting: u64,
    pub links_waiting_bytes: u64,
    /// Records of the ship log.
    pub ship_records: u64,
    pub pages_left: Option<u64>,
    /// A group's: how it stands with the hub.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hub: Option<HubView>,
}

/// What a group's coordinator says of the hub, each second.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct HubContact {
    /// How long the hub has not answered, in seconds; 0 if it does.
    pub away_s: f64,
    /// Why: it does not answer, or it is another one; empty if all is well.
    pub trouble: String,
    /// Of each other group whose servers do not take links: why.
    pub not_taken: BTreeMap<String, String>,
}

/// How a group stands with the hub, as one who looks from outside sees it.
#[derive(Clone, Debug, Serialize)]
pub struct HubView {
    pub crawl: String,
    pub group: String,
    pub domain: String,
    /// `None` if no coordinator has said anything yet.
    pub contact: Option<HubContact>,
    /// How long ago it did, in seconds.
    pub silent_s: f64,
    /// Messages of links that wait to go up, by the group that they are for, and the bytes of all of them.
    pub up: BTreeMap<String, u64>,
    pub up_bytes: u64,
}

/// A node as one who looks from outside sees it.
#[derive(Clone, Debug, Serialize)]
pub struct NodeView {
    pub incarnation: Incarnation,
    /// Has it a lease?
    pub alive: bool,
    pub draining: bool,
    /// Partitions that are assigned to it.
    pub holds: usize,
    pub reported: Option<Reported>,
    /// How long ago it reported, in seconds, by this machine's clock and the server's. It reports each second.
    pub silent_s: f64,
}
