//! Each call of the API, as a client sees it.

mod harness;

use std::time::Duration;

use harness::*;
use portolan_urlfrontier::Level;
use portolan_urlfrontier::api::ack_message::Status::{Ok as Taken, Skipped};
use portolan_urlfrontier::api::*;
use tonic::Code;

#[tokio::test]
async fn discovered_urls_are_taken_once_and_known_ones_always() {
    let frontier = Frontier::begin().await;
    let mut client = frontier.client.clone();
    let mut with_id = discovered("http://a.test/2", "");
    with_id.id = "second".to_owned();
    let items = vec![
        discovered("http://a.test/1", ""),
        discovered("http://a.test/1", "a.test"),
        with_id,
        known("http://a.test/1", "", 5),
        discovered("http:///no-host", ""),
        discovered("http://a.test/3", &"k".repeat(256)),
        UrlItem::default(),
    ];
    let acks = put(&mut client, items).await;
    let expected = [
        ("http://a.test/1".to_owned(), Taken),
        ("http://a.test/1".to_owned(), Skipped),
        ("second".to_owned(), Taken),
        ("http://a.test/1".to_owned(), Taken),
        ("http:///no-host".to_owned(), Skipped),
        ("http://a.test/3".to_owned(), Skipped),
        (String::new(), Skipped),
    ];
    assert_eq!(acks, expected);
    assert_eq!(stats(&mut client, "a.test", "").await.size, 2);
}

#[tokio::test]
async fn a_batch_of_discovered_urls_has_a_status_for_each() {
    let frontier = Frontier::begin().await;
    let mut client = frontier.client.clone();
    let batch = |id: &str, urls: &[&str]| DiscoveredBatch {
        id: id.to_owned(),
        items: urls.iter().map(|url| info(url, "")).collect(),
    };
    let batches = vec![
        batch("1", &["http://a.test/1", "", "http://a.test/1"]),
        batch("2", &[]),
        batch("3", &["http://a.test/1", "http://b.test/"]),
    ];
    let stream = client.put_discovered(tokio_stream::iter(batches)).await;
    let acks = all(stream.expect("acks").into_inner()).await;
    let told: Vec<_> = acks.iter().map(|ack| &ack.id[..]).collect();
    assert_eq!(told, ["1", "2", "3"]);
    let statuses: Vec<Vec<_>> = acks.iter().map(|ack| ack.statuses().collect()).collect();
    assert_eq!(
        statuses,
        [vec![Taken, Skipped, Skipped], vec![], vec![Skipped, Taken]]
    );
}

#[tokio::test]
async fn urls_come_by_their_date_and_are_leased() {
    let frontier = Frontier::begin().await;
    let mut client = frontier.client.clone();
    no_delay(&mut client).await;
    let date = now();
    let items = vec![
        known("http://a.test/later", "", date - 10),
        known("http://a.test/sooner", "", date - 1000),
        known("http://a.test/future", "", date + 1000),
        known("http://a.test/done", "", 0),
    ];
    put(&mut client, items).await;
    let first = get(&mut client, want_of("a.test", 1, 1)).await;
    assert_eq!(first, ["http://a.test/sooner"]);
    // A queue that has as many in process as are wanted of it gives nothing.
    assert!(get(&mut client, want_of("a.test", 1, 1)).await.is_empty());
    let second = get(&mut client, want_of("a.test", 2, 100)).await;
    assert_eq!(second, ["http://a.test/later"]);
    assert_eq!(stats(&mut client, "", "").await.in_process, 2);
    tokio::time::sleep(Duration::from_millis(1050)).await;
    let told = stats(&mut client, "", "").await;
    assert_eq!((told.in_process, told.size), (1, 3));
    // The lease has ended: the URL comes again, before what is later.
    let again = get(&mut client, want_of("a.test", 0, 100)).await;
    assert_eq!(again, ["http://a.test/sooner"]);
    // What is known ends its lease.
    put(&mut client, vec![known("http://a.test/sooner", "", 0)]).await;
    let told = stats(&mut client, "a.test", "").await;
    assert_eq!((told.in_process, told.size), (1, 2));
    assert_eq!(
        (told.counts["completed"], told.counts["active_queues"]),
        (2, 1)
    );
}

#[tokio::test]
async fn queues_take_turns_within_what_is_asked_for() {
    let frontier = Frontier::begin().await;
    let mut client = frontier.client.clone();
    no_delay(&mut client).await;
    let mut items = Vec::new();
    for queue in ["a", "b", "c"] {
        for page in 0..4 {
            items.push(discovered(&format!("http://{queue}.test/{page}"), ""));
        }
    }
    put(&mut client, items).await;
    let hosts = |urls: &[String]| -> Vec<char> {
        urls.iter().map(|url| url.as_bytes()[7] as char).collect()
    };
    let first = get(&mut client, want(2, 2, 100)).await;
    assert_eq!(hosts(&first), ['a', 'a', 'b', 'b']);
    // The one that waited longest comes first.
    let second = get(&mut client, want(2, 3, 100)).await;
    assert_eq!(hosts(&second), ['c', 'c', 'c', 'a', 'a']);
    let rest = get(&mut client, want(0, 0, 0)).await;
    assert_eq!(hosts(&rest), ['b', 'b', 'c']);
    assert!(get(&mut client, want(0, 0, 0)).await.is_empty());
    // A queue without its crawl is no queue.
    let mut unclear = want_of("a.test", 1, 1);
    unclear.item = None;
    assert!(get(&mut client, unclear).await.is_empty());
}

/// More than is leased at once, of one queue and of many.
#[tokio::test]
async fn everything_comes_once_where_everything_is_asked_for() {
    let frontier = Frontier::begin().await;
    let mut client = frontier.client.clone();
    let page = |n: u32| match n % 3 {
        0 => format!("http://h{n}.test/"),
        _ => format!("http://large.test/{n}"),
    };
    let items = (0..3_000).map(|n| discovered(&page(n), "")).collect();
    put(&mut client, items).await;
    let mut urls = get(&mut client, want(0, 0, 100)).await;
    assert_eq!(urls.len(), 3_000);
    urls.sort();
    urls.dedup();
    assert_eq!(urls.len(), 3_000);
    let told = stats(&mut client, "", "").await;
    assert_eq!((told.in_process, told.number_of_queues), (3_000, 1_001));
}

#[tokio::test]
async fn crawls_are_apart_and_the_empty_name_is_the_default() {
    let frontier = Frontier::begin().await;
    let mut client = frontier.client.clone();
    assert!(crawls(&mut client).await.is_empty());
    let mut other = info("http://a.test/", "");
    other.crawl_id = "OTHER".to_owned();
    let mut explicit = info("http://a.test/", "");
    explicit.crawl_id = "DEFAULT".to_owned();
    let item = |info| UrlItem {
        item: Some(url_item::Item::Discovered(DiscoveredUrlItem {
            info: Some(info),
        })),
        ..UrlItem::default()
    };
    let items = vec![
        item(other),
        discovered("http://a.test/", ""),
        item(explicit),
    ];
    let acks = put(&mut client, items).await;
    assert_eq!(
        acks.iter().map(|ack| ack.1).collect::<Vec<_>>(),
        [Taken, Taken, Skipped]
    );
    assert_eq!(crawls(&mut client).await, ["DEFAULT", "OTHER"]);
    let told = stats(&mut client, "", "").await;
    assert_eq!((told.size, &told.crawl_id[..]), (1, "DEFAULT"));
    let mut wanted = want(0, 0, 100);
    wanted.item = Some(get_params::Item::CrawlId("OTHER".to_owned()));
    assert_eq!(get(&mut client, wanted).await, ["http://a.test/"]);
    for crawl in ["OTHER", ""] {
        let asked = DeleteCrawlMessage {
            value: crawl.to_owned(),
            local: true,
        };
        let deleted = client.delete_crawl(asked).await.expect("a number");
        assert_eq!(deleted.into_inner().value, 1);
    }
    assert!(crawls(&mut client).await.is_empty());
    assert_eq!(stats(&mut client, "", "OTHER").await.number_of_queues, 0);
    // What was deleted is new.
    let acks = put(&mut client, vec![discovered("http://a.test/", "")]).await;
    assert_eq!(acks[0].1, Taken);
}

async fn crawls(client: &mut portolan_urlfrontier::Client) -> Vec<String> {
    let list = client.list_crawls(Local { local: false }).await;
    list.expect("crawls").into_inner().values
}

#[tokio::test]
async fn queues_are_listed_page_by_page_and_deleted() {
    let frontier = Frontier::begin().await;
    let mut client = frontier.client.clone();
    let urls = (0..5).map(|n| discovered(&format!("http://h{n}.test/"), ""));
    let done = known("http://done.test/", "", 0);
    put(&mut client, urls.chain([done]).collect()).await;
    let block = BlockQueueParams {
        key: "h1.test".to_owned(),
        time: now() + 100,
        ..Default::default()
    };
    client.block_queue_until(block).await.expect("a block");
    let mut list = async |start, size, include_inactive| {
        let asked = Pagination {
            start,
            size,
            include_inactive,
            ..Default::default()
        };
        let list = client
            .list_queues(asked)
            .await
            .expect("queues")
            .into_inner();
        assert_eq!((list.start, list.size as usize), (start, list.values.len()));
        assert_eq!(list.crawl_id, "DEFAULT");
        list.values
    };
    assert_eq!(list(0, 3, false).await, ["h0.test", "h2.test", "h3.test"]);
    assert_eq!(list(3, 3, false).await, ["h4.test"]);
    assert_eq!(list(0, 0, true).await.len(), 6);
    let deleted = client
        .delete_queue(queue("h0.test", ""))
        .await
        .expect("a number");
    assert_eq!(deleted.into_inner().value, 1);
    let deleted = client
        .delete_queue(queue("h0.test", ""))
        .await
        .expect("a number");
    assert_eq!(deleted.into_inner().value, 0);
    assert_eq!(stats(&mut client, "", "").await.number_of_queues, 5);
}

#[tokio::test]
async fn blocks_delays_limits_and_the_state_hold_urls_back() {
    let frontier = Frontier::begin().await;
    let mut client = frontier.client.clone();
    no_delay(&mut client).await;
    let pages = (0..3).map(|n| discovered(&format!("http://a.test/{n}"), ""));
    put(&mut client, pages.collect()).await;
    let block = |time| BlockQueueParams {
        key: "a.test".to_owned(),
        time,
        ..Default::default()
    };
    client
        .block_queue_until(block(now() + 100))
        .await
        .expect("a block");
    assert!(get(&mut client, want(0, 1, 1)).await.is_empty());
    client.block_queue_until(block(0)).await.expect("no block");
    client
        .set_active(Active {
            state: false,
            local: false,
        })
        .await
        .expect("a state");
    assert!(
        !client
            .get_active(Local { local: true })
            .await
            .expect("a state")
            .into_inner()
            .state
    );
    assert!(get(&mut client, want(0, 1, 1)).await.is_empty());
    client
        .set_active(Active {
            state: true,
            local: false,
        })
        .await
        .expect("a state");
    assert!(
        client
            .get_active(Local { local: true })
            .await
            .expect("a state")
            .into_inner()
            .state
    );
    let delay = QueueDelayParams {
        key: "a.test".to_owned(),
        delay_requestable: 1,
        ..Default::default()
    };
    client.set_delay(delay).await.expect("a delay");
    assert_eq!(get(&mut client, want(0, 1, 100)).await.len(), 1);
    assert!(get(&mut client, want(0, 5, 100)).await.is_empty());
    tokio::time::sleep(Duration::from_millis(1050)).await;
    let limit = |key: &str, limit| CrawlLimitParams {
        key: key.to_owned(),
        limit,
        ..Default::default()
    };
    client
        .set_crawl_limit(limit("a.test", 1))
        .await
        .expect("a limit");
    put(&mut client, vec![known("http://a.test/0", "", 0)]).await;
    assert!(get(&mut client, want(0, 5, 100)).await.is_empty());
    client
        .set_crawl_limit(limit("a.test", 2))
        .await
        .expect("a limit");
    assert_eq!(get(&mut client, want(0, 5, 100)).await.len(), 2);
    let unknown = client.set_crawl_limit(limit("nobody.test", 2)).await;
    assert_eq!(unknown.expect_err("no queue").code(), Code::NotFound);
}

#[tokio::test]
async fn urls_are_looked_at_with_their_metadata() {
    let frontier = Frontier::begin().await;
    let mut client = frontier.client.clone();
    let mut told = info("http://a.test/told", "");
    let values = vec!["seed".to_owned(), "other".to_owned()];
    told.metadata.insert(
        "source".to_owned(),
        StringList {
            values: values.clone(),
        },
    );
    let told = UrlItem {
        item: Some(url_item::Item::Discovered(DiscoveredUrlItem {
            info: Some(told),
        })),
        ..UrlItem::default()
    };
    let later = now() + 3600;
    put(
        &mut client,
        vec![
            told,
            known("http://a.test/later", "", later),
            known("http://a.test/done", "", 0),
        ],
    )
    .await;
    let mut status = async |url: &str, key: &str| {
        let asked = UrlStatusRequest {
            url: url.to_owned(),
            key: key.to_owned(),
            ..Default::default()
        };
        client
            .get_url_status(asked)
            .await
            .map(tonic::Response::into_inner)
    };
    for _ in 0..2 {
        let item = status("http://a.test/told", "a.test").await.expect("a URL");
        let (info, date) = info_of(&item);
        assert_eq!((&info.key[..], &info.crawl_id[..]), ("a.test", "DEFAULT"));
        assert_eq!(info.metadata["source"].values, values);
        assert!(date.abs_diff(now()) < 60 && item.creation_date.abs_diff(now()) < 60);
        // Under lease, they are where the lease is.
        get(&mut frontier.client.clone(), want(1, 1, 100)).await;
    }
    assert_eq!(
        info_of(&status("http://a.test/later", "").await.expect("a URL")).1,
        later
    );
    assert_eq!(
        info_of(&status("http://a.test/done", "").await.expect("a URL")).1,
        0
    );
    for (url, key) in [
        ("http://a.test/unknown", ""),
        ("http://a.test/told", "b.test"),
    ] {
        assert_eq!(
            status(url, key).await.expect_err("nothing").code(),
            Code::NotFound
        );
    }
    assert_eq!(
        status("http://", "").await.expect_err("nothing").code(),
        Code::InvalidArgument
    );
}

#[tokio::test]
async fn urls_are_listed_counted_and_filtered() {
    let frontier = Frontier::begin().await;
    let mut client = frontier.client.clone();
    let page = |n: u32| discovered(&format!("http://h{}.test/Page/{n:03}", n % 3), "");
    put(&mut client, (0..300).map(page).collect()).await;
    let mut list = async |start, size, key: &str, filter: Option<&str>, ignore_case| {
        let asked = ListUrlParams {
            start,
            size,
            key: key.to_owned(),
            filter: filter.map(ToOwned::to_owned),
            ignore_case: Some(ignore_case),
            ..Default::default()
        };
        let stream = client.list_ur_ls(asked).await.expect("URLs");
        let items = all(stream.into_inner()).await;
        items
            .iter()
            .map(|item| info_of(item).0.url.clone())
            .collect::<Vec<_>>()
    };
    let all_of_them = list(0, 1000, "", None, false).await;
    assert_eq!((all_of_them.len(), all_of_them.is_sorted()), (300, true));
    assert_eq!(list(0, 0, "", None, false).await.len(), 100);
    assert_eq!(
        list(150, 10, "", Some(" "), false).await,
        all_of_them[150..160]
    );
    assert_eq!(
        list(0, 1000, "h1.test", None, false).await,
        all_of_them[100..200]
    );
    assert_eq!(list(1, 5, "", Some("page/00"), true).await.len(), 5);
    assert!(list(0, 1000, "", Some("page/00"), false).await.is_empty());
    assert!(list(0, 1000, "h9.test", None, false).await.is_empty());
    let mut count = async |key: &str, filter: Option<&str>, ignore_case| {
        let asked = CountUrlParams {
            key: key.to_owned(),
            filter: filter.map(ToOwned::to_owned),
            ignore_case: Some(ignore_case),
            ..Default::default()
        };
        client
            .count_ur_ls(asked)
            .await
            .expect("a number")
            .into_inner()
            .value
    };
    assert_eq!(count("", None, false).await, 300);
    assert_eq!(count("h2.test", None, false).await, 100);
    assert_eq!(count("", Some("PAGE/00"), true).await, 10);
    assert_eq!(count("", Some("PAGE/00"), false).await, 0);
}

#[tokio::test]
async fn old_urls_are_purged_wherever_they_wait() {
    let frontier = Frontier::begin().await;
    let mut client = frontier.client.clone();
    let page = |n: u32| discovered(&format!("http://a.test/{n}"), "");
    put(
        &mut client,
        (0..1200)
            .map(page)
            .chain([known("http://b.test/", "", 0)])
            .collect(),
    )
    .await;
    assert_eq!(get(&mut client, want_of("a.test", 10, 100)).await.len(), 10);
    let mut purge = async |key: &str, days| {
        let asked = PurgeUrlParams {
            key: key.to_owned(),
            days,
            ..Default::default()
        };
        client
            .purge_ur_ls(asked)
            .await
            .expect("a number")
            .into_inner()
            .value
    };
    assert_eq!(purge("", 1).await, 0);
    // They are older than no days once a second has begun after theirs.
    tokio::time::sleep(Duration::from_millis(1100)).await;
    assert_eq!(purge("a.test", 0).await, 1200);
    let mut client = frontier.client.clone();
    let told = stats(&mut client, "a.test", "").await;
    assert_eq!((told.size, told.in_process), (0, 0));
    assert_eq!(stats(&mut client, "", "").await.counts["completed"], 1);
}

#[tokio::test]
async fn nodes_and_log_levels() {
    let frontier = Frontier::begin().await;
    let mut client = frontier.client.clone();
    let nodes = client
        .list_nodes(Empty {})
        .await
        .expect("nodes")
        .into_inner();
    assert_eq!(nodes.values, [frontier.address.to_string()]);
    let asked = LogLevelParams {
        package: "crawlercommons.urlfrontier".to_owned(),
        level: Level::Debug.into(),
        local: true,
    };
    client.set_log_level(asked).await.expect("a level");
    let heard = frontier.levels.lock().expect("a lock").clone();
    assert_eq!(
        heard,
        [("crawlercommons.urlfrontier".to_owned(), Level::Debug)]
    );
}

/// A client that goes away in the middle costs what it was sent last, and nothing else.
#[tokio::test]
async fn a_client_that_goes_away_takes_little_with_it() {
    let frontier = Frontier::begin().await;
    let mut client = frontier.client.clone();
    let page = |n: u32| discovered(&format!("http://a.test/{}/{n}", "x".repeat(200)), "");
    put(&mut client, (0..20_000).map(page).collect()).await;
    let mut stream = client
        .get_ur_ls(want(0, 0, 1000))
        .await
        .expect("URLs")
        .into_inner();
    stream.message().await.expect("a message").expect("a URL");
    drop(stream);
    tokio::time::sleep(Duration::from_millis(200)).await;
    let told = stats(&mut client, "", "").await;
    assert!(told.in_process < 10_000, "{} are leased", told.in_process);
    assert_eq!(told.size, 20_000);
}

/// URLs of one queue that are so long that a server cannot send many of them ahead of their reader.
async fn long_urls(client: &mut portolan_urlfrontier::Client, count: u32) {
    let page = |n: u32| discovered(&format!("http://a.test/{}/{n}", "x".repeat(10_000)), "");
    put(client, (0..count).map(page).collect()).await;
}

#[tokio::test]
async fn a_call_that_is_read_slowly_gets_no_url_twice_and_ends() {
    let frontier = Frontier::begin().await;
    let mut client = frontier.client.clone();
    long_urls(&mut client, 1_500).await;
    // What is sent first is long no longer leased when the last piece is asked for.
    let stream = client.get_ur_ls(want(0, 0, 1)).await.expect("URLs");
    let mut stream = stream.into_inner();
    let mut seen = std::collections::HashSet::new();
    while let Some(info) = stream.message().await.expect("a message") {
        let number = seen.len();
        assert!(seen.insert(info.url), "number {number} came before");
        if seen.len().is_multiple_of(400) {
            tokio::time::sleep(Duration::from_millis(1100)).await;
        }
    }
    assert_eq!(seen.len(), 1_500);
}

#[tokio::test]
async fn a_block_ends_a_queue_in_the_middle_of_a_call() {
    let frontier = Frontier::begin().await;
    let mut client = frontier.client.clone();
    long_urls(&mut client, 3_000).await;
    let stream = client.get_ur_ls(want(0, 0, 100)).await.expect("URLs");
    let mut stream = stream.into_inner();
    stream.message().await.expect("a message").expect("a URL");
    let block = BlockQueueParams {
        key: "a.test".to_owned(),
        time: now() + 100,
        ..Default::default()
    };
    client.block_queue_until(block).await.expect("a block");
    let rest = all(stream).await.len();
    assert!(
        rest < 2_000,
        "{rest} more came from a queue that is blocked"
    );
}

/// As many threads as the program has for looking at URLs.
const READERS: usize = 8;

#[test]
fn lists_that_nobody_reads_keep_nobody_waiting() {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .max_blocking_threads(READERS)
        .enable_all()
        .build()
        .expect("a runtime");
    runtime.block_on(async {
        let frontier = Frontier::begin().await;
        let mut client = frontier.client.clone();
        let with_metadata = |n: u32| {
            let mut item = discovered(&format!("http://a.test/{n:04}"), "");
            if let Some(url_item::Item::Discovered(DiscoveredUrlItem { info: Some(info) })) =
                &mut item.item
            {
                let values = vec!["x".repeat(2_000)];
                info.metadata
                    .insert("text".to_owned(), StringList { values });
            }
            item
        };
        put(&mut client, (0..5_000).map(with_metadata).collect()).await;
        let everything = || ListUrlParams {
            size: 5_000,
            ..Default::default()
        };
        let mut unread = Vec::new();
        for _ in 0..READERS + 1 {
            // A connection of its own has a window of its own.
            let mut client = harness::client(frontier.address);
            let list = client.list_ur_ls(everything()).await;
            unread.push((client, list.expect("URLs").into_inner()));
        }
        tokio::time::sleep(Duration::from_millis(500)).await;
        let asked = UrlStatusRequest {
            url: "http://a.test/0001".to_owned(),
            ..Default::default()
        };
        let status = tokio::time::timeout(Duration::from_secs(10), client.get_url_status(asked));
        status.await.expect("an answer in time").expect("a URL");
        // And each of them is whole, once it is read.
        let (_, list) = unread.pop().expect("a list");
        let items = all(list).await;
        let urls: Vec<_> = items
            .iter()
            .map(|item| info_of(item).0.url.clone())
            .collect();
        assert_eq!((urls.len(), urls.is_sorted()), (5_000, true));
    });
}

#[tokio::test]
async fn more_metadata_than_clients_can_take_are_skipped() {
    let frontier = Frontier::begin().await;
    let mut client = frontier.client.clone();
    let with_metadata = |url: &str, bytes: usize| {
        let mut info = info(url, "");
        let values = vec!["x".repeat(bytes)];
        info.metadata
            .insert("text".to_owned(), StringList { values });
        UrlItem {
            item: Some(url_item::Item::Discovered(DiscoveredUrlItem {
                info: Some(info),
            })),
            ..UrlItem::default()
        }
    };
    let small = (0..12).map(|n| with_metadata(&format!("http://a.test/{n}"), 1 << 20));
    let acks = put(&mut client, small.collect()).await;
    assert!(acks.iter().all(|ack| ack.1 == Taken));
    let acks = put(
        &mut client,
        vec![with_metadata("http://a.test/large", 2 << 20)],
    )
    .await;
    assert_eq!(acks[0].1, Skipped);
    // They come although together they are larger than a piece of a call.
    assert_eq!(get(&mut client, want(0, 0, 100)).await.len(), 12);
}

/// More leases than are returned at once.
#[tokio::test]
async fn all_that_was_leased_comes_back() {
    let frontier = Frontier::begin().await;
    let mut client = frontier.client.clone();
    no_delay(&mut client).await;
    let page = |n: u32| discovered(&format!("http://a.test/{n}"), "");
    put(&mut client, (0..12_000).map(page).collect()).await;
    assert_eq!(get(&mut client, want(0, 0, 1)).await.len(), 12_000);
    tokio::time::sleep(Duration::from_millis(1_100)).await;
    let mut urls = get(&mut client, want(0, 0, 100)).await;
    urls.sort();
    urls.dedup();
    assert_eq!(urls.len(), 12_000);
    assert_eq!(stats(&mut client, "", "").await.in_process, 12_000);
}

/// A message that the server does not read ends the stream with an error, behind the answers to what came before it.
#[tokio::test]
async fn a_message_that_cannot_be_read_is_told_behind_the_answers() {
    let frontier = Frontier::begin().await;
    let mut client = frontier.client.clone();
    let mut large = info("http://a.test/large", "");
    let values = vec!["x".repeat(5 << 20)];
    large
        .metadata
        .insert("text".to_owned(), StringList { values });
    let item = |info| UrlItem {
        item: Some(url_item::Item::Discovered(DiscoveredUrlItem {
            info: Some(info),
        })),
        ..UrlItem::default()
    };
    let items = [
        info("http://a.test/1", ""),
        large.clone(),
        info("http://a.test/2", ""),
    ];
    let stream = client.put_ur_ls(tokio_stream::iter(items.map(item))).await;
    let mut acks = stream.expect("acks").into_inner();
    let first = acks.message().await.expect("an ack").expect("an ack");
    assert_eq!((&first.id[..], first.status()), ("http://a.test/1", Taken));
    let told = acks.message().await.expect_err("an error");
    assert_eq!(told.code(), Code::OutOfRange, "{told}");
    let batch = |info: UrlInfo| DiscoveredBatch {
        id: info.url.clone(),
        items: vec![info],
    };
    let batches = [info("http://a.test/3", ""), large].map(batch);
    let stream = client.put_discovered(tokio_stream::iter(batches)).await;
    let mut acks = stream.expect("acks").into_inner();
    let first = acks.message().await.expect("an ack").expect("an ack");
    assert_eq!(first.id, "http://a.test/3");
    acks.message().await.expect_err("an error");
    assert_eq!(stats(&mut client, "", "").await.size, 2);
}
