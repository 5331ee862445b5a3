//! The fleet against real NATS servers.

mod common;

use common::{PATIENCE, join, joining, order, world};
use portolan_fleet::protocol::Share;
use portolan_fleet::{
    Commit, Delivery, Fleet, FleetError, Forward, Instruction, NodeStatus, PartitionStatus,
    ShipError, ShipRecord, Slice, Want, Wish, Work,
};
use portolan_model::PartitionId;
use std::time::Duration;

fn commit(incarnation: u64, frame: u64) -> ShipRecord {
    ShipRecord::Commit(Commit {
        incarnation,
        first_frame: frame,
        last_frame: frame,
        journal: format!("journal/a/{incarnation}/{frame:020}"),
        warc: Vec::new(),
        archive_end: None,
        pages: frame,
        partitions: Vec::new(),
    })
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

fn adopted(order: &Instruction) -> Option<(u16, u32, u64)> {
    match *order {
        Instruction::Adopt {
            partition,
            epoch,
            log_end,
        } => Some((partition.0, epoch, log_end)),
        _ => None,
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_name_is_taken_once_and_unknown_names_are_told() {
    let Some(world) = world(1, "").await else {
        return;
    };
    let fleet = world.fleet("one").await;
    assert_eq!(fleet.definition().seeds.len(), 1);
    let again = Fleet::create(&world.servers.servers(), world.new_fleet("one")).await;
    assert!(matches!(again.err(), Some(FleetError::Taken(name)) if name == "one"));
    let unknown = Fleet::open(&world.servers.servers(), "two").await;
    assert!(matches!(unknown.err(), Some(FleetError::Unknown(name)) if name == "two"));
    let found = Fleet::open(&world.servers.servers(), "one")
        .await
        .expect("it is there");
    assert_eq!(found.definition().secret(), fleet.definition().secret());
    assert_eq!(found.definition().checksum(), fleet.definition().checksum());
    let mut other = joining(&fleet, "a", 1);
    other.checksum = "0".to_owned();
    assert!(matches!(
        fleet.join(other).await.err(),
        Some(FleetError::OtherSettings { .. })
    ));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_gets_all_then_shares_then_takes_over() {
    let Some(world) = world(1, "").await else {
        return;
    };
    let fleet = world.fleet("f").await;
    let (a, mut a_orders) = join(&fleet, "a", 1).await;
    for _ in 0..8 {
        let (partition, epoch, log_end) = order(&mut a_orders, adopted).await;
        assert_eq!((epoch, log_end), (1, 0));
        a.adopted(PartitionId(partition), epoch);
    }
    assert!(a.lease().may_ask());
    let shipped = a.ship(commit(1, 1)).await.expect("it ships");
    let (b, mut b_orders) = join(&fleet, "b", 2).await;
    for _ in 0..4 {
        let release = |order: &Instruction| match *order {
            Instruction::Release {
                partition, epoch, ..
            } => Some((partition, epoch)),
            _ => None,
        };
        let (partition, epoch) = order(&mut a_orders, release).await;
        let released = a
            .released(partition, epoch, 17)
            .await
            .expect("it is released");
        assert!(released > shipped);
        let (theirs, next, log_end) = order(&mut b_orders, adopted).await;
        assert!(next == 2 && log_end > shipped, "{theirs} {next} {log_end}");
    }
    // A name that is in use is told, and one that is not free yet is waited for.
    let in_use = fleet.join(joining(&fleet, "b", 3)).await;
    assert!(matches!(in_use.err(), Some(FleetError::NodeInUse(_))));
    // b is gone without a word: a gets everything back, after b's seal.
    drop((b, b_orders));
    for _ in 0..4 {
        let (_, epoch, log_end) = order(&mut a_orders, adopted).await;
        assert_eq!(epoch, 3);
        let sealed = fleet
            .last_shipped("b")
            .await
            .expect("the log")
            .expect("a record");
        assert!(
            matches!(sealed.record, ShipRecord::Sealed { incarnation: 2, .. })
                && sealed.seq == log_end
        );
    }
    // It cannot come back as it was, but anew.
    let mut back = joining(&fleet, "b", 2);
    back.fresh = false;
    assert!(matches!(
        fleet.join(back).await.err(),
        Some(FleetError::Sealed(_))
    ));
    let (_b, mut b_orders) = join(&fleet, "b", 4).await;
    let release = |order: &Instruction| matches!(order, Instruction::Release { .. }).then_some(());
    order(&mut a_orders, release).await;
    drop(b_orders.try_recv());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_process_that_starts_again_goes_on_where_it_was() {
    let Some(world) = world(1, "").await else {
        return;
    };
    let fleet = world.fleet("f").await;
    let (a, mut orders) = join(&fleet, "a", 1).await;
    order(&mut orders, adopted).await;
    let first = a.ship(commit(1, 1)).await.expect("it ships");
    a.ship(commit(1, 2)).await.expect("it ships");
    drop((a, orders));
    let mut again = joining(&fleet, "a", 1);
    again.fresh = false;
    let (a, mut orders) = fleet.join(again).await.expect("it joins");
    assert_eq!(a.last_commit().map(|commit| commit.last_frame), Some(2));
    let (_, epoch, _) = order(&mut orders, adopted).await;
    assert_eq!(epoch, 1);
    assert!(a.ship(commit(1, 3)).await.expect("it ships") > first);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_was_sealed_ships_nothing_any_more() {
    let Some(world) = world(1, "").await else {
        return;
    };
    let fleet = world.fleet("f").await;
    let (a, mut a_orders) = join(&fleet, "a", 1).await;
    order(&mut a_orders, adopted).await;
    a.ship(commit(1, 1)).await.expect("it ships");
    // Another life of the node begins at the same place, as after a fall: the first process is a zombie now.
    let mut next = joining(&fleet, "a", 2);
    next.place = "a 1".to_owned();
    let (next, mut orders) = fleet.join(next).await.expect("it joins");
    let refused = a.ship(commit(1, 2)).await;
    assert!(matches!(refused, Err(ShipError::Fenced(_))), "{refused:?}");
    assert!(!a.lease().may_ask());
    order(&mut a_orders, |order| {
        matches!(order, Instruction::Fenced(_)).then_some(())
    })
    .await;
    let (_, epoch, log_end) = order(&mut orders, adopted).await;
    assert!(epoch == 2 && log_end > 0);
    assert!(next.lease().may_ask());
    let mut log = fleet.ship_log(0);
    let mut records = Vec::new();
    for _ in 0..fleet.ship_log_end().await.expect("the log") {
        records.push(log.next().await.record);
    }
    assert!(!records.contains(&commit(1, 2)) && records.contains(&commit(1, 1)));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn links_come_in_order_from_a_cursor_and_are_purged() {
    let Some(world) = world(1, "max_payload: 65536").await else {
        return;
    };
    let fleet = world.fleet("f").await;
    let (a, _orders) = join(&fleet, "a", 1).await;
    let to = PartitionId(3);
    // Incompressible: the second one is larger than a message.
    let forwards: Vec<_> = (1..=20)
        .map(|number| forward(number, if number == 2 { 300_000 } else { 9_000 }))
        .collect();
    for forwards in forwards.chunks(7) {
        a.publish(to, forwards.to_vec()).await.expect("it is sent");
    }
    a.publish(PartitionId(19), vec![forward(1, 10)])
        .await
        .expect("it is sent");
    let mut inbox = fleet.inbox(to, 0).await.expect("an inbox");
    let (mut heard, mut cursors) = (Vec::new(), Vec::new());
    while heard.len() < forwards.len() {
        let Delivery { cursor, forwards } = inbox.next().await;
        cursors.push((cursor, heard.len() + forwards.len()));
        heard.extend(forwards);
    }
    assert_eq!(heard, forwards);
    let (cursor, before) = cursors[cursors.len() / 2];
    fleet.purge(to, cursor).await.expect("it is purged");
    let mut inbox = fleet.inbox(to, cursor).await.expect("an inbox");
    let rest = inbox.next().await;
    assert_eq!(
        rest.forwards[..],
        forwards[before..before + rest.forwards.len()]
    );
    let mut inbox = fleet.inbox(to, 0).await.expect("an inbox");
    assert_eq!(inbox.next().await, rest);
    // Of another partition of the same stream nothing was purged.
    let mut other = fleet.inbox(PartitionId(19), 0).await.expect("an inbox");
    assert_eq!(other.next().await.forwards, [forward(1, 10)]);
    // What the servers never had was lost by them.
    let cut = fleet.inbox(to, 1_000_000).await;
    assert!(matches!(cut.err(), Some(FleetError::Cut { .. })));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_full_stream_makes_its_writer_wait_and_loses_nothing() {
    let Some(world) = world(1, "").await else {
        return;
    };
    let mut small = world.new_fleet("f");
    small.link_bytes = 16 << 20;
    let fleet = Fleet::create(&world.servers.servers(), small)
        .await
        .expect("a fleet");
    let (a, _orders) = join(&fleet, "a", 1).await;
    let to = PartitionId(0);
    let mut sent = 0;
    let refused = loop {
        match a.publish(to, vec![forward(sent + 1, 300_000)]).await {
            Ok(()) => sent += 1,
            Err(error) => break error.to_string(),
        }
        assert!(sent < 10, "a stream of 1 MiB holds {sent} times 300 KB");
    };
    assert!(refused.contains("maximum bytes"), "{refused}");
    let mut inbox = fleet.inbox(to, 0).await.expect("an inbox");
    let mut cursor = 0;
    for number in 1..=sent {
        let delivery = inbox.next().await;
        assert_eq!(delivery.forwards, [forward(number, 300_000)]);
        cursor = delivery.cursor;
    }
    fleet.purge(to, cursor).await.expect("it is purged");
    a.publish(to, vec![forward(sent + 1, 300_000)])
        .await
        .expect("there is room");
    assert_eq!(inbox.next().await.forwards, [forward(sent + 1, 300_000)]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_crawl_ends_when_two_looks_agree() {
    let Some(world) = world(1, "").await else {
        return;
    };
    let fleet = world.fleet("f").await;
    let (a, mut orders) = join(&fleet, "a", 1).await;
    let mut held = Vec::new();
    for _ in 0..8 {
        held.push(order(&mut orders, adopted).await);
    }
    let mut heard = 0;
    let status = |look: u64, heard: u64| {
        let of = |&(partition, epoch, _): &(u16, u32, u64)| PartitionStatus {
            partition,
            epoch,
            sent: 3,
            heard,
            exhausted: true,
            settled: true,
            ..PartitionStatus::default()
        };
        NodeStatus {
            look,
            partitions: held.iter().map(of).collect(),
            ..NodeStatus::default()
        }
    };
    let ended = async {
        let mut reports = 0;
        loop {
            tokio::select! {
                order = orders.recv() => match order {
                    Some(Instruction::End { complete }) => return (complete, reports),
                    other => panic!("{other:?}"),
                },
                () = tokio::time::sleep(Duration::from_millis(200)) => {
                    a.report(status(a.look(), heard)).await;
                    reports += 1;
                    // While a link is on its way it has not ended.
                    if reports == 10 {
                        heard = 3;
                    }
                }
            }
        }
    };
    let (complete, reports) = tokio::time::timeout(PATIENCE, ended)
        .await
        .expect("it ends");
    assert!(complete && reports > 10);
    assert_eq!(fleet.status().await.expect("a status").wish, Wish::Complete);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn stop_and_go_on_reach_every_node_and_a_drained_one_has_nothing() {
    let Some(world) = world(1, "").await else {
        return;
    };
    let fleet = world.fleet("f").await;
    let (a, mut orders) = join(&fleet, "a", 1).await;
    for _ in 0..8 {
        order(&mut orders, adopted).await;
    }
    fleet.wish(Wish::Stop).await.expect("it is told");
    order(&mut orders, |order| {
        (*order == Instruction::Stop).then_some(())
    })
    .await;
    fleet.wish(Wish::Run).await.expect("it is told");
    order(&mut orders, |order| {
        (*order == Instruction::GoOn).then_some(())
    })
    .await;
    // Alone, its partitions become nobody's.
    a.drain().await.expect("it is told");
    for _ in 0..8 {
        let release = |order: &Instruction| match *order {
            Instruction::Release {
                partition, epoch, ..
            } => Some((partition, epoch)),
            _ => None,
        };
        let (partition, epoch) = order(&mut orders, release).await;
        a.released(partition, epoch, 1)
            .await
            .expect("it is released");
    }
    let free = async {
        while fleet.status().await.expect("a status").free < 8 {
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    };
    tokio::time::timeout(PATIENCE, free)
        .await
        .expect("they are free");
    a.leave().await;
    let status = fleet.status().await.expect("a status");
    assert!(status.nodes.values().all(|node| !node.alive));
    assert!(
        status
            .assignment
            .shares
            .iter()
            .all(|share: &Share| share.epoch == 1)
    );
    // Who comes next gets them from the log.
    let (_b, mut orders) = join(&fleet, "b", 9).await;
    let (_, epoch, log_end) = order(&mut orders, adopted).await;
    assert!(epoch == 2 && log_end > 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn addresses_and_pages_are_shared_out() {
    let Some(world) = world(1, "").await else {
        return;
    };
    let mut few = world.new_fleet("f");
    few.max_pages = Some(100);
    let fleet = Fleet::create(&world.servers.servers(), few)
        .await
        .expect("a fleet");
    let (a, mut a_orders) = join(&fleet, "a", 1).await;
    let (b, mut b_orders) = join(&fleet, "b", 2).await;
    order(&mut a_orders, adopted).await;
    order(&mut b_orders, adopted).await;
    assert_eq!(
        (
            a.take_pages(70).await,
            b.take_pages(70).await,
            a.take_pages(1).await
        ),
        (70, 30, 0)
    );
    a.give_back(10).await;
    assert_eq!(b.take_pages(70).await, 10);
    for n in 1..=16_u8 {
        let address = [192, 0, 2, n].into();
        let granted = a.address_slice(address).await;
        assert!(matches!(granted, Slice::Granted { .. }), "{granted:?}");
        assert_eq!(a.address_slice(address).await, granted);
        let refused = b.address_slice(address).await;
        assert!(matches!(refused, Slice::Wait { .. }), "{refused:?}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn three_servers_lose_nothing_when_one_is_killed() {
    let Some(mut world) = world(3, "").await else {
        return;
    };
    let fleet = world.fleet("f").await;
    let client = async_nats::connect(&world.servers.servers().urls[0])
        .await
        .expect("a connection");
    for stream in [
        "portolan_f_links_0",
        "portolan_f_ship",
        "KV_portolan_f",
        "KV_portolan_f_leases",
    ] {
        let stream = async_nats::jetstream::new(client.clone())
            .get_stream(stream)
            .await
            .expect("the stream");
        assert_eq!(stream.cached_info().config.num_replicas, 3);
    }
    let (a, mut orders) = join(&fleet, "a", 1).await;
    order(&mut orders, adopted).await;
    let to = PartitionId(0);
    let sending = {
        let a = a.clone();
        tokio::spawn(async move {
            for number in 1..=400 {
                while a.publish(to, vec![forward(number, 500)]).await.is_err() {}
                if number % 20 == 0 {
                    while matches!(
                        a.ship(commit(1, number)).await,
                        Err(ShipError::Unavailable(_))
                    ) {}
                }
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        })
    };
    for number in 0..2 {
        tokio::time::sleep(Duration::from_millis(500)).await;
        world.servers.kill(number);
        tokio::time::sleep(Duration::from_millis(2_000)).await;
        world.servers.restart(number).expect("it starts");
        world.servers.wait().await.expect("they serve");
    }
    tokio::time::timeout(PATIENCE * 2, sending)
        .await
        .expect("in time")
        .expect("it is sent");
    let mut inbox = fleet.inbox(to, 0).await.expect("an inbox");
    let mut next = 1;
    while next <= 400 {
        for forward in inbox.next().await.forwards {
            // What was sent twice may come twice, but never before its predecessor.
            assert!(forward.number <= next, "{} before {next}", forward.number);
            next = next.max(forward.number + 1);
        }
    }
    let last = fleet
        .last_shipped("a")
        .await
        .expect("the log")
        .expect("a record");
    assert_eq!(last.record, commit(1, 400));
}

/// The server stands still for longer than requests wait, and then works off what came: each record is in the log once, and
/// the node goes on with its new lease.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_timed_out_is_read_again_before_it_is_written_again() {
    let Some(world) = world(1, "").await else {
        return;
    };
    let fleet = world.fleet("f").await;
    let (a, mut orders) = join(&fleet, "a", 1).await;
    order(&mut orders, adopted).await;
    a.ship(commit(1, 1)).await.expect("it ships");
    world.servers.pause(0);
    let shipping = {
        let a = a.clone();
        tokio::spawn(async move {
            for frame in 2..=4 {
                while matches!(
                    a.ship(commit(1, frame)).await,
                    Err(ShipError::Unavailable(_))
                ) {}
            }
        })
    };
    let publishing = {
        let a = a.clone();
        tokio::spawn(async move {
            for number in 1..=3 {
                while a
                    .publish(PartitionId(0), vec![forward(number, 10)])
                    .await
                    .is_err()
                {}
            }
        })
    };
    tokio::time::sleep(Duration::from_millis(7_000)).await;
    assert!(!a.lease().may_ask(), "the lease has run out");
    world.servers.resume(0);
    tokio::time::timeout(PATIENCE, shipping)
        .await
        .expect("in time")
        .expect("it ships");
    tokio::time::timeout(PATIENCE, publishing)
        .await
        .expect("in time")
        .expect("it is sent");
    let mut log = fleet.ship_log(0);
    let mut frames = Vec::new();
    for _ in 0..fleet.ship_log_end().await.expect("the log") {
        if let ShipRecord::Commit(commit) = log.next().await.record {
            frames.push(commit.first_frame);
        }
    }
    assert_eq!(frames, [1, 2, 3, 4]);
    let mut inbox = fleet.inbox(PartitionId(0), 0).await.expect("an inbox");
    for number in 1..=3 {
        assert_eq!(inbox.next().await.forwards, [forward(number, 10)]);
    }
    let back = async {
        while !a.lease().may_ask() {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    };
    tokio::time::timeout(PATIENCE, back)
        .await
        .expect("the lease is renewed");
    assert!(
        !std::iter::from_fn(|| orders.try_recv().ok())
            .any(|order| matches!(order, Instruction::Fenced(_)))
    );
}

/// More than a message may have.
const LARGE: usize = 2 << 20;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn grants_too_large_for_a_message_go_through_the_store() {
    let Some(world) = world(1, "").await else {
        return;
    };
    let fleet = world.fleet("f").await;
    let (server, _server_orders) = join(&fleet, "server", 1).await;
    let (client, _client_orders) = join(&fleet, "client", 2).await;
    let (mut asked, _handed_in) = server.serve_clients();
    let grants = vec![forward(1, LARGE).body, forward(2, 10).body];
    let work = Work {
        now_ms: 5,
        target: 3,
        grants,
        ..Work::default()
    };
    let expected = work.clone();
    let answers = tokio::spawn(async move {
        let asked = asked.recv().await.expect("a question");
        asked.answer(&work).await
    });
    let want = Want::default();
    let came = tokio::time::timeout(PATIENCE, ask(&client, &want)).await;
    let (came, bytes) = came.expect("an answer in time");
    assert_eq!(came, expected);
    let left = answers.await.expect("it answers").expect("it leaves");
    assert!(bytes == left && bytes > LARGE, "{bytes} {left}");
    // Nobody needs it any more.
    let mut objects = fleet.blobs().list("grants/").await;
    while !objects.is_empty() {
        tokio::time::sleep(Duration::from_millis(20)).await;
        objects = fleet.blobs().list("grants/").await;
    }
}

/// Until the server listens.
async fn ask(client: &portolan_fleet::Node, want: &Want) -> (Work, usize) {
    loop {
        if let Some(came) = client.ask_for_work("server", want).await {
            return came;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_return_through_the_store_is_taken_once_and_removed() {
    let Some(world) = world(1, "").await else {
        return;
    };
    let fleet = world.fleet("f").await;
    let (server, _server_orders) = join(&fleet, "server", 1).await;
    let (client, _client_orders) = join(&fleet, "client", 2).await;
    let (_asked, mut handed_in) = server.serve_clients();
    let back = forward(1, LARGE).body;
    let packed = client.pack_return("server", &back).await.expect("packs");
    assert_eq!(fleet.blobs().list("returns/").await.len(), 1);
    let takes = tokio::spawn(async move {
        let one = handed_in.recv().await.expect("a return");
        let brought = one.brought.clone();
        one.answer(true).await;
        (brought, handed_in)
    });
    let mut taken = None;
    while taken.is_none() {
        (taken, _) = client.hand_in("server", || 9, &packed).await;
    }
    assert_eq!(taken, Some(true));
    let (brought, _handed_in) = takes.await.expect("it takes it");
    assert!(brought.now_ms == 9 && brought.back == back);
    while !fleet.blobs().list("returns/").await.is_empty() {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    // Who did not hear it is told that nothing more is to be done.
    let again = tokio::time::timeout(PATIENCE, client.hand_in("server", || 9, &packed)).await;
    assert_eq!(again.expect("an answer").0, Some(false));
}
