//! A fleet on NATS servers of its own, for one test. Where there is no nats-server, tests say so and do nothing.

#![allow(dead_code)]

use portolan_fleet::local::{LocalServers, nats_server};
use portolan_fleet::{Fleet, Instruction, Joining, NewFleet, Node};
use std::path::Path;
use std::time::Duration;
use tokio::sync::mpsc;

/// Long enough for a loaded machine.
pub const PATIENCE: Duration = Duration::from_secs(60);

pub struct World {
    pub servers: LocalServers,
    pub store: tempfile::TempDir,
}

/// `None` where there is no nats-server; with `CI` set that is a failure.
pub async fn world(count: usize, more: &str) -> Option<World> {
    if nats_server().is_none() {
        println!("not run: no nats-server");
        assert!(std::env::var_os("CI").is_none(), "there is no nats-server");
        return None;
    }
    let servers = LocalServers::start(count, more).await.expect("servers");
    let store = tempfile::tempdir().expect("a directory");
    Some(World { servers, store })
}

impl World {
    pub fn new_fleet(&self, name: &str) -> NewFleet {
        NewFleet {
            name: name.to_owned(),
            settings: "[crawl]\n".to_owned(),
            seeds: vec!["http://a.test/".to_owned(), "http://a.test/".to_owned()],
            partitions: 8,
            blobs: self.store.path().join("blobs").display().to_string(),
            lease_ms: 3_000,
            max_pages: None,
            link_bytes: 64 << 20,
            log_bytes: 64 << 20,
        }
    }

    pub async fn fleet(&self, name: &str) -> Fleet {
        let fleet = Fleet::create(&self.servers.servers(), self.new_fleet(name)).await;
        fleet.expect("a fleet")
    }
}

pub fn joining(fleet: &Fleet, node: &str, incarnation: u64) -> Joining {
    Joining {
        node: node.to_owned(),
        incarnation,
        fresh: true,
        place: format!("{node} {incarnation}"),
        checksum: fleet.definition().checksum(),
        weight: 1.0,
    }
}

pub async fn join(
    fleet: &Fleet,
    node: &str,
    incarnation: u64,
) -> (Node, mpsc::Receiver<Instruction>) {
    let joined = fleet.join(joining(fleet, node, incarnation)).await;
    joined.expect("it joins")
}

/// The next order that `wanted` says something of; others are passed over.
pub async fn order<T>(
    orders: &mut mpsc::Receiver<Instruction>,
    wanted: impl Fn(&Instruction) -> Option<T>,
) -> T {
    let find = async {
        loop {
            let order = orders.recv().await.expect("an order");
            if let Some(found) = wanted(&order) {
                return found;
            }
        }
    };
    tokio::time::timeout(PATIENCE, find)
        .await
        .expect("the order in time")
}

pub fn place(dir: &Path) -> String {
    Joining::place_of(dir).expect("a place")
}
