//! What a client was told is still true after kill -9.

mod harness;

use std::time::Duration;

use harness::*;
use portolan_urlfrontier::api::*;

/// Not a test: the server that the tests here kill.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "a server for the tests here"]
async fn child_server() {
    serve_as_child().await;
}

#[tokio::test]
async fn delays_blocks_limits_leases_and_the_state_survive_a_kill() {
    let home = tempfile::tempdir().expect("a directory");
    let dir = home.path().join("frontier");
    let server = Killable::begin(&dir).await;
    let mut client = server.client.clone();
    no_delay(&mut client).await;
    let hosts = ["delayed", "blocked", "limited", "leased", "free"];
    let pages = hosts
        .iter()
        .flat_map(|host| (0..3).map(move |n| format!("http://{host}.test/{n}")));
    put(&mut client, pages.map(|url| discovered(&url, "")).collect()).await;
    put(&mut client, vec![known("http://limited.test/0", "", 0)]).await;
    let delay = QueueDelayParams {
        key: "delayed.test".to_owned(),
        delay_requestable: 1000,
        ..Default::default()
    };
    client.set_delay(delay).await.expect("a delay");
    assert_eq!(
        get(&mut client, want_of("delayed.test", 1, 1)).await.len(),
        1
    );
    let block = BlockQueueParams {
        key: "blocked.test".to_owned(),
        time: now() + 1000,
        ..Default::default()
    };
    client.block_queue_until(block).await.expect("a block");
    let limit = CrawlLimitParams {
        key: "limited.test".to_owned(),
        limit: 1,
        ..Default::default()
    };
    client.set_crawl_limit(limit).await.expect("a limit");
    let long = get(&mut client, want_of("leased.test", 1, 1000)).await;
    assert_eq!(long, ["http://leased.test/0"]);
    let short = get(&mut client, want_of("leased.test", 2, 2)).await;
    assert_eq!(short, ["http://leased.test/1", "http://leased.test/2"]);
    let inactive = Active {
        state: false,
        local: false,
    };
    client.set_active(inactive).await.expect("a state");
    server.kill();

    let server = Killable::begin(&dir).await;
    let mut client = server.client.clone();
    let active = client.get_active(Local::default()).await.expect("a state");
    assert!(!active.into_inner().state);
    assert!(get(&mut client, want(0, 0, 100)).await.is_empty());
    let told = stats(&mut client, "leased.test", "").await;
    assert_eq!((told.size, told.in_process), (3, 3));
    let told = stats(&mut client, "limited.test", "").await;
    assert_eq!((told.size, told.counts["completed"]), (2, 1));
    let active = Active {
        state: true,
        local: false,
    };
    client.set_active(active).await.expect("a state");
    // All but the free queue are held back.
    let mut free = get(&mut client, want(0, 0, 1)).await;
    free.retain(|url| !url.contains("leased"));
    assert_eq!(free.len(), 3);
    assert!(free.iter().all(|url| url.contains("free")), "{free:?}");
    // The default delay of none is remembered, and a short lease ends although its server was killed.
    tokio::time::sleep(Duration::from_millis(2000)).await;
    let again = get(&mut client, want_of("leased.test", 10, 1000)).await;
    assert_eq!(again, short);
    server.kill();

    let server = Killable::begin(&dir).await;
    let told = stats(&mut server.client.clone(), "leased.test", "").await;
    assert_eq!((told.size, told.in_process), (3, 3));
    server.kill();
}

/// Killed while URLs come in: all that was acknowledged is there, the counts are those of what is there, and it goes on.
#[tokio::test(flavor = "multi_thread")]
async fn what_was_acknowledged_survives_a_kill() {
    let home = tempfile::tempdir().expect("a directory");
    let dir = home.path().join("frontier");
    let mut acknowledged = Vec::new();
    for round in 0..3_u64 {
        let server = Killable::begin(&dir).await;
        let mut client = server.client.clone();
        let endless = (0_u64..).map(move |n| {
            let url = format!("http://h{}.test/{round}/{n}", n % 50);
            match n % 3 {
                0 => known(&url, "", 0),
                _ => discovered(&url, ""),
            }
        });
        let stream = client.put_ur_ls(tokio_stream::iter(endless)).await;
        let mut stream = stream.expect("acks").into_inner();
        let mut left = 2_000 + 777 * round;
        while left > 0 {
            let ack = stream.message().await.expect("a message").expect("an ack");
            acknowledged.push(ack.id);
            left -= 1;
        }
        server.kill();
    }
    let server = Killable::begin(&dir).await;
    let mut client = server.client.clone();
    let asked = ListUrlParams {
        size: u32::MAX,
        ..Default::default()
    };
    let stream = client.list_ur_ls(asked).await.expect("URLs");
    let listed = all(stream.into_inner()).await;
    let urls: std::collections::HashSet<&str> =
        listed.iter().map(|item| &info_of(item).0.url[..]).collect();
    assert_eq!(urls.len(), listed.len());
    let lost: Vec<_> = acknowledged
        .iter()
        .filter(|url| !urls.contains(&url[..]))
        .collect();
    assert!(
        lost.is_empty(),
        "{} URLs are lost: {:?}",
        lost.len(),
        lost[0]
    );
    let done = listed.iter().filter(|item| info_of(item).1 == 0).count() as u64;
    let told = stats(&mut client, "", "").await;
    assert_eq!(told.counts["completed"], done);
    assert_eq!(told.size, listed.len() as u64 - done);
    assert_eq!(
        get(&mut client, want(0, 0, 100)).await.len() as u64,
        told.size
    );
    server.kill();
}

/// A queue that was deleted is swept away after a kill, too, and does not come back.
#[tokio::test]
async fn deleted_queues_stay_deleted() {
    let home = tempfile::tempdir().expect("a directory");
    let dir = home.path().join("frontier");
    let server = Killable::begin(&dir).await;
    let mut client = server.client.clone();
    let page = |n: u32| discovered(&format!("http://a.test/{n}"), "");
    put(&mut client, (0..5_000).map(page).collect()).await;
    let deleted = client
        .delete_queue(queue("a.test", ""))
        .await
        .expect("a number");
    assert_eq!(deleted.into_inner().value, 5_000);
    server.kill();
    let server = Killable::begin(&dir).await;
    let mut client = server.client.clone();
    assert_eq!(stats(&mut client, "", "").await.number_of_queues, 0);
    let acks = put(&mut client, vec![page(1)]).await;
    assert_eq!(acks[0].1, ack_message::Status::Ok);
    assert_eq!(get(&mut client, want(0, 0, 1)).await, ["http://a.test/1"]);
    server.kill();
}
