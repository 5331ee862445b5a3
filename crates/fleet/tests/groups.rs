//! Groups of one crawl: a hub and two leaf servers, real ones, and nodes of both groups.

mod common;

use common::{PATIENCE, joining, order};
use portolan_fleet::local::{LocalServers, nats_server};
use portolan_fleet::{
    Fleet, FleetError, Forward, Hub, Instruction, NewCrawl, NewGroup, Node, NodeStatus,
    PartitionStatus, Slice, Wish,
};
use portolan_model::PartitionId;
use std::collections::BTreeSet;
use std::time::{Duration, Instant};
use tokio::sync::mpsc;

const CRAWL: &str = "web";

struct World {
    servers: LocalServers,
    store: tempfile::TempDir,
    hub: Hub,
}

/// A crawl of four partitions: the even ones are of s1, the others of s2.
async fn world() -> Option<World> {
    if nats_server().is_none() {
        println!("not run: no nats-server");
        assert!(std::env::var_os("CI").is_none(), "there is no nats-server");
        return None;
    }
    let servers = LocalServers::start_under_a_hub(&["s1", "s2"])
        .await
        .expect("servers");
    let new = NewCrawl {
        name: CRAWL.to_owned(),
        settings: "[crawl]\n".to_owned(),
        seeds: vec!["http://a.test/".to_owned()],
        partitions: 4,
        groups: vec!["s1".to_owned(), "s2".to_owned()],
        owners: vec![0, 1, 0, 1],
    };
    let hub = Hub::create(&servers.server(0), new).await.expect("a crawl");
    let store = tempfile::tempdir().expect("a directory");
    Some(World {
        servers,
        store,
        hub,
    })
}

impl World {
    fn new_group(&self, group: &str) -> NewGroup {
        NewGroup {
            crawl: CRAWL.to_owned(),
            group: group.to_owned(),
            hub_domain: "hub".to_owned(),
            blobs: self.store.path().join(group).display().to_string(),
            lease_ms: 3_000,
            max_pages: None,
            link_bytes: 64 << 20,
            log_bytes: 64 << 20,
            up_bytes: 64 << 20,
        }
    }

    async fn group(&self, number: usize) -> Fleet {
        let new = self.new_group(&format!("s{number}"));
        let made = Fleet::create_group(&self.servers.server(number), new).await;
        made.expect("a group")
    }
}

/// Its only node, once it has all partitions of the group.
async fn join(fleet: &Fleet, node: &str, incarnation: u64) -> (Node, mpsc::Receiver<Instruction>) {
    let joined = fleet.join(joining(fleet, node, incarnation)).await;
    let (node, mut orders) = joined.expect("it joins");
    let mut got = BTreeSet::new();
    for _ in 0..2 {
        let adopt = |order: &Instruction| match order {
            Instruction::Adopt { partition, .. } => Some(*partition),
            _ => None,
        };
        got.insert(order(&mut orders, adopt).await);
    }
    let group = fleet.group().expect("a group");
    assert!(
        got.iter().all(|partition| group.is_mine(*partition)),
        "{got:?}"
    );
    (node, orders)
}

fn forward(number: u64, bytes: usize) -> Forward {
    // Nothing that could be compressed.
    let mut state = number;
    let mut byte = || {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (state >> 56) as u8
    };
    let body: Vec<u8> = (0..bytes).map(|_| byte()).collect();
    Forward {
        source: PartitionId(1),
        number,
        predecessor: number - 1,
        body: body.into(),
    }
}

/// The numbers of the next forwards to a partition, in the order in which they come.
async fn hear(fleet: &Fleet, partition: u16, count: usize) -> Vec<Forward> {
    let inbox = fleet.inbox(PartitionId(partition), 0).await;
    let mut inbox = inbox.expect("an inbox");
    let mut heard = Vec::new();
    while heard.len() < count {
        let next = tokio::time::timeout(PATIENCE, inbox.next()).await;
        heard.extend(next.expect("links in time").forwards);
    }
    heard
}

fn status(node: &Node, partitions: [u16; 2], sums: [(u64, u64); 2]) -> NodeStatus {
    let of = |(partition, (sent, heard)): (u16, (u64, u64))| PartitionStatus {
        partition,
        epoch: 1,
        sent,
        heard,
        exhausted: true,
        settled: true,
        ..PartitionStatus::default()
    };
    NodeStatus {
        look: node.look(),
        partitions: partitions.into_iter().zip(sums).map(of).collect(),
        ..NodeStatus::default()
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn links_go_up_and_come_down_and_wait_while_the_hub_is_away() {
    let Some(mut world) = world().await else {
        return;
    };
    let (one, two) = (world.group(1).await, world.group(2).await);
    assert_eq!(one.definition().secret(), two.definition().secret());
    assert_eq!(one.definition().name, "web-s1");
    let (_a, _orders) = join(&one, "a", 1).await;
    let (b, _b_orders) = join(&two, "b", 2).await;
    let to = PartitionId(2);
    b.publish(to, vec![forward(1, 100), forward(2, 100)])
        .await
        .expect("it is taken");
    // More than a message: it goes by both stores.
    b.publish(to, vec![forward(3, 3 << 20)])
        .await
        .expect("it is taken");
    let heard = hear(&one, 2, 3).await;
    let expected: Vec<_> = [100, 100, 3 << 20]
        .into_iter()
        .zip(1..)
        .map(|(bytes, number)| forward(number, bytes))
        .collect();
    assert!(heard == expected, "{:?}", heard.len());
    world.servers.kill(0);
    for number in 4..40 {
        b.publish(to, vec![forward(number, 100)])
            .await
            .expect("the group's own servers take it");
    }
    let gone = tokio::time::timeout(PATIENCE, async {
        loop {
            let hub = two.status().await.expect("a status").hub.expect("a hub");
            let contact = hub.contact.clone().unwrap_or_default();
            if hub.up["s1"] >= 30 && contact.away_s > 0.0 {
                return hub;
            }
            tokio::time::sleep(Duration::from_millis(200)).await;
        }
    });
    let gone = gone.await.expect("the status says so");
    println!("while the hub is away: {gone:?}");
    let begun = Instant::now();
    world.servers.restart(0).expect("it starts");
    let heard = hear(&one, 2, 39).await;
    println!(
        "heard {:.1} s after the hub's start",
        begun.elapsed().as_secs_f64()
    );
    let numbers: Vec<_> = heard.iter().map(|forward| forward.number).collect();
    // Duplicates are known to who hears them; the order is not disturbed by them.
    let mut last = 0;
    for number in numbers {
        assert!(number <= last + 1, "{number} after {last}");
        last = last.max(number);
    }
    assert_eq!(last, 39);
    let empty = tokio::time::timeout(PATIENCE, async {
        while two.status().await.expect("a status").hub.expect("a hub").up["s1"] > 0 {
            tokio::time::sleep(Duration::from_millis(200)).await;
        }
    });
    empty.await.expect("what has arrived is removed");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_crawl_ends_when_all_groups_are_at_their_end() {
    let Some(mut world) = world().await else {
        return;
    };
    let (one, two) = (world.group(1).await, world.group(2).await);
    let (a, mut a_orders) = join(&one, "a", 1).await;
    let (b, mut b_orders) = join(&two, "b", 2).await;
    // Each group's sums are unequal, and so are all of them together: one link is still on its way.
    let say = async |heard: u64, seconds: u64| {
        let until = Instant::now() + Duration::from_secs(seconds);
        while Instant::now() < until {
            a.report(status(&a, [0, 2], [(5, 3), (2, 3)])).await;
            b.report(status(&b, [1, 3], [(4, heard), (1, 2)])).await;
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    };
    say(3, 6).await;
    assert_eq!(two.status().await.expect("a status").wish, Wish::Run);
    // While the hub is away, no group ends.
    world.servers.kill(0);
    say(4, 6).await;
    assert_eq!(one.status().await.expect("a status").wish, Wish::Run);
    world.servers.restart(0).expect("it starts");
    let ends = async |orders: &mut mpsc::Receiver<Instruction>| {
        let end = |order: &Instruction| match order {
            Instruction::End { complete } => Some(*complete),
            _ => None,
        };
        order(orders, end).await
    };
    let both = async { (ends(&mut a_orders).await, ends(&mut b_orders).await) };
    let ended = tokio::select! {
        ended = both => ended,
        () = say(4, 60) => panic!("no end: {:?}", world.hub.status().await),
    };
    assert_eq!(ended, (true, true));
    let status = world.hub.status().await.expect("a status");
    println!("{status:?}");
    assert_eq!(status.wish, Wish::Complete);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_the_hub_wants_all_groups_do() {
    let Some(world) = world().await else {
        return;
    };
    let (one, two) = (world.group(1).await, world.group(2).await);
    let (_a, mut a_orders) = join(&one, "a", 1).await;
    let (_b, mut b_orders) = join(&two, "b", 2).await;
    for (wish, wanted) in [
        (Wish::Stop, Instruction::Stop),
        (Wish::Run, Instruction::GoOn),
        (Wish::End, Instruction::End { complete: false }),
    ] {
        world.hub.wish(wish).await.expect("it is told");
        for orders in [&mut a_orders, &mut b_orders] {
            order(orders, |order| (*order == wanted).then_some(())).await;
        }
    }
}

/// An address has one home in all groups: nodes of both take turns.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_address_is_handed_out_in_turn_to_nodes_of_both_groups() {
    let Some(mut world) = world().await else {
        return;
    };
    let (one, two) = (world.group(1).await, world.group(2).await);
    let (a, _a_orders) = join(&one, "n", 1).await;
    let (b, _b_orders) = join(&two, "n", 2).await;
    let addresses = (1..=8).map(|last| std::net::IpAddr::from([192, 0, 2, last]));
    let mut homes = BTreeSet::new();
    for address in addresses {
        let mut granted = None;
        for node in [&a, &b, &a, &b] {
            if let Slice::Granted { .. } = node.address_slice(address).await {
                let first = *granted.get_or_insert(node.incarnation());
                assert_eq!(first, node.incarnation(), "{address} is with both");
            }
        }
        assert!(granted.is_some(), "{address} is with nobody");
        homes.insert(granted);
    }
    println!("first asked, first served: {homes:?}");
    // While the hub is away, what is at home in the other group is not asked; the rest goes on.
    world.servers.kill(0);
    let far = (1..=40).map(|last| std::net::IpAddr::from([198, 51, 100, last]));
    let (mut here, mut there) = (0, 0);
    for address in far {
        let (from_a, from_b) = (
            a.address_slice(address).await,
            b.address_slice(address).await,
        );
        let granted = |slice| matches!(slice, Slice::Granted { .. });
        assert!(granted(from_a) != granted(from_b), "{address}");
        here += u32::from(granted(from_a));
        there += u32::from(granted(from_b));
    }
    println!("without the hub: {here} addresses are asked by s1, {there} by s2");
    assert!(here > 8 && there > 8, "{here} {there}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_cannot_be_is_told() {
    let Some(world) = world().await else {
        return;
    };
    let refused = Fleet::create_group(&world.servers.server(1), world.new_group("s3")).await;
    let said = refused.err().map(|error| error.to_string());
    assert!(said.is_some_and(|said| said.contains("'s3' is none of them: s1, s2")));
    let mut lost = world.new_group("s1");
    lost.hub_domain = "nowhere".to_owned();
    let refused = Fleet::create_group(&world.servers.server(1), lost).await;
    let refused = refused.err();
    assert!(
        matches!(refused, Some(FleetError::NoHub { .. })),
        "{refused:?}"
    );
    let mut unknown = world.new_group("s1");
    unknown.crawl = "other".to_owned();
    let refused = Fleet::create_group(&world.servers.server(1), unknown).await;
    assert!(refused.is_err());
    let again = NewCrawl {
        name: CRAWL.to_owned(),
        settings: String::new(),
        seeds: Vec::new(),
        partitions: 2,
        groups: vec!["s1".to_owned(), "s2".to_owned()],
        owners: vec![0, 1],
    };
    let mut one = again.clone();
    one.owners = vec![0, 0];
    let refused = Hub::create(&world.servers.server(0), one).await.err();
    assert!(
        matches!(refused, Some(FleetError::Groups(_))),
        "{refused:?}"
    );
    let taken = Hub::create(&world.servers.server(0), again).await.err();
    assert!(
        matches!(taken, Some(FleetError::CrawlTaken(_))),
        "{taken:?}"
    );
}
