//! Against a real server, in this process.

use std::future::Future;
use std::sync::Arc;

use portolan_urlfrontier::api::{KnownUrlItem, UrlItem, UrlStatusRequest, url_item};
use portolan_urlfrontier::{Client, ServerOptions, serve};

use super::*;

const PAGE: &str = "http://a.test/";

fn settings(address: std::net::SocketAddr) -> FrontierServerSettings {
    FrontierServerSettings {
        url: format!("http://{address}"),
        ..crate::Settings::default().frontier_server
    }
}

/// Serves a frontier while `calls` goes on.
async fn beside_a_server<F: Future<Output = ()>>(calls: impl FnOnce(FrontierServerSettings) -> F) {
    let dir = tempfile::tempdir().expect("a directory");
    let options = ServerOptions {
        dir: dir.path().to_owned(),
        listen: "127.0.0.1:0".parse().expect("an address"),
        memory: 16 << 20,
        tls: None,
        token: None,
        insecure: false,
        log_levels: Arc::new(|_, _| {}),
    };
    let (tell, told) = oneshot::channel();
    let serving = serve(options, std::future::pending(), |address, _| {
        let _ = tell.send(address);
    });
    let calling = async { calls(settings(told.await.expect("an address"))).await };
    tokio::select! {
        ended = serving => panic!("the server has ended: {ended:?}"),
        () = calling => {}
    }
}

async fn date_of(client: &mut Client, url: &str) -> u64 {
    let asked = UrlStatusRequest {
        url: url.to_owned(),
        ..UrlStatusRequest::default()
    };
    let item = client.get_url_status(asked).await.expect("a URL");
    match item.into_inner() {
        UrlItem {
            item:
                Some(url_item::Item::Known(KnownUrlItem {
                    refetchable_from_date,
                    ..
                })),
            ..
        } => refetchable_from_date,
        other => panic!("{other:?} is not known"),
    }
}

fn visit() -> News {
    News::Visit {
        settled: Some(Settled {
            url: PAGE.to_owned(),
            for_others: false,
        }),
        links: vec![PAGE.to_owned()],
    }
}

async fn end(granted: &Granted) {
    let (sender, _) = oneshot::channel();
    granted.tell(News::End(sender)).await;
}

/// The renewal was decided while the URL was outstanding, and is told after its visit.
#[tokio::test(flavor = "multi_thread")]
async fn a_renewal_does_not_take_a_visit_back() {
    beside_a_server(async |settings: FrontierServerSettings| {
        let (granted, mut returning) =
            tokio::task::block_in_place(|| Granted::begin(&settings).expect("a crawl's side"));
        let info = UrlInfo {
            url: PAGE.to_owned(),
            ..UrlInfo::default()
        };
        let grant = Grant {
            info: info.clone(),
            until: 0,
        };
        granted.outstanding().insert(PAGE.to_owned(), vec![grant]);
        granted.tell(visit()).await;
        granted
            .tell(News::Renew(vec![(PAGE.to_owned(), info)], u64::MAX / 2))
            .await;
        end(&granted).await;
        returning.live().await.expect("an end");
        let mut client = address(&settings)
            .and_then(|address| address.client().map_err(of_frontier))
            .expect("a client");
        assert_eq!(date_of(&mut client, PAGE).await, 0);
    })
    .await;
}

/// A server that takes connections and never says a word.
#[tokio::test(start_paused = true)]
async fn a_crawl_that_ends_waits_only_so_long_for_a_silent_server() {
    let silent = tokio::net::TcpListener::bind("127.0.0.1:0")
        .await
        .expect("a port");
    let settings = settings(silent.local_addr().expect("an address"));
    let begun = std::thread::spawn(move || Granted::begin(&settings)).join();
    let (granted, mut returning) = begun.expect("no panic").expect("a crawl's side");
    for _ in 0..10 * 256 {
        granted.tell(visit()).await;
    }
    end(&granted).await;
    granted.note_ending();
    let begun = Instant::now();
    returning.live().await.expect("an end");
    assert!(begun.elapsed() < FAREWELL * 2, "{:?}", begun.elapsed());
}
