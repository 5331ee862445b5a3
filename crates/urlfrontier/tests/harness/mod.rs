//! A frontier to call, in this process or in one of its own that can be killed.

#![allow(dead_code)]

use std::net::SocketAddr;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use portolan_urlfrontier::api::*;
use portolan_urlfrontier::{Client, Level, ServerAddress, ServerOptions, serve};
use tempfile::TempDir;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

pub fn options(dir: &Path) -> ServerOptions {
    ServerOptions {
        dir: dir.to_owned(),
        listen: "127.0.0.1:0".parse().expect("an address"),
        memory: 32 << 20,
        tls: None,
        token: None,
        insecure: false,
        log_levels: Arc::new(|_, _| {}),
    }
}

/// A server in this process.
pub struct Frontier {
    pub dir: TempDir,
    pub address: SocketAddr,
    pub client: Client,
    pub levels: Arc<Mutex<Vec<(String, Level)>>>,
    stop: Option<oneshot::Sender<()>>,
    serving: JoinHandle<()>,
}

impl Frontier {
    pub async fn begin() -> Self {
        let dir = tempfile::tempdir().expect("a directory");
        let levels: Arc<Mutex<Vec<_>>> = Arc::default();
        let heard = levels.clone();
        let mut options = options(dir.path());
        options.log_levels = Arc::new(move |package: &str, level| {
            heard
                .lock()
                .expect("a lock")
                .push((package.to_owned(), level));
        });
        let (address, stop, serving) = serve_here(options).await;
        Self {
            dir,
            client: client(address),
            address,
            levels,
            stop: Some(stop),
            serving,
        }
    }

    /// Ends in order, and gives the directory back.
    pub async fn end(mut self) -> TempDir {
        drop(self.client);
        let _ = self.stop.take().map(|stop| stop.send(()));
        self.serving.await.expect("an end");
        self.dir
    }
}

pub async fn serve_here(
    options: ServerOptions,
) -> (SocketAddr, oneshot::Sender<()>, JoinHandle<()>) {
    let (stop, told) = oneshot::channel::<()>();
    let (tell, address) = oneshot::channel();
    let serving = tokio::spawn(async move {
        let stop = async {
            let _ = told.await;
        };
        let begun = |address, _| {
            let _ = tell.send(address);
        };
        serve(options, stop, begun).await.expect("a server");
    });
    (address.await.expect("an address"), stop, serving)
}

pub fn client(address: SocketAddr) -> Client {
    let address = ServerAddress {
        url: format!("http://{address}"),
        ..ServerAddress::default()
    };
    address.client().expect("a client")
}

/// The same program again, as a server that can be killed. `child_server` in the test's file is its body.
pub struct Killable {
    child: Child,
    pub client: Client,
}

const CHILD_DIR: &str = "PORTOLAN_FRONTIER_CHILD";

impl Killable {
    pub async fn begin(dir: &Path) -> Self {
        let said = dir.with_extension("address");
        let _ = std::fs::remove_file(&said);
        let child = Command::new(std::env::current_exe().expect("this program"))
            .args(["--exact", "child_server", "--ignored", "--nocapture"])
            .env(CHILD_DIR, dir)
            .stdout(Stdio::null())
            .spawn()
            .expect("a child");
        let begun = Instant::now();
        let address = loop {
            match std::fs::read_to_string(&said) {
                Ok(text) if text.ends_with('\n') => break text,
                _ => assert!(begun.elapsed() < Duration::from_secs(60), "no server"),
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        };
        let address = address.trim().parse().expect("an address");
        Self {
            child,
            client: client(address),
        }
    }

    /// SIGKILL.
    pub fn kill(mut self) {
        self.child.kill().expect("a kill");
        self.child.wait().expect("a death");
    }
}

/// The body of `child_server`.
pub async fn serve_as_child() {
    let Some(dir) = std::env::var_os(CHILD_DIR) else {
        return;
    };
    let dir = Path::new(&dir);
    let said = dir.with_extension("address");
    let begun = move |address: SocketAddr, _| {
        std::fs::write(said, format!("{address}\n")).expect("a file");
    };
    serve(options(dir), std::future::pending(), begun)
        .await
        .expect("a server");
}

pub fn now() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    now.expect("a time").as_secs()
}

pub fn info(url: &str, key: &str) -> UrlInfo {
    UrlInfo {
        url: url.to_owned(),
        key: key.to_owned(),
        ..UrlInfo::default()
    }
}

pub fn discovered(url: &str, key: &str) -> UrlItem {
    UrlItem {
        item: Some(url_item::Item::Discovered(DiscoveredUrlItem {
            info: Some(info(url, key)),
        })),
        ..UrlItem::default()
    }
}

pub fn known(url: &str, key: &str, date: u64) -> UrlItem {
    UrlItem {
        item: Some(url_item::Item::Known(KnownUrlItem {
            info: Some(info(url, key)),
            refetchable_from_date: date,
        })),
        ..UrlItem::default()
    }
}

pub fn info_of(item: &UrlItem) -> (&UrlInfo, u64) {
    match &item.item {
        Some(url_item::Item::Known(known)) => (
            known.info.as_ref().expect("an info"),
            known.refetchable_from_date,
        ),
        other => panic!("{other:?} is not known"),
    }
}

/// Puts URLs, and returns what was acknowledged, in order.
pub async fn put(client: &mut Client, items: Vec<UrlItem>) -> Vec<(String, ack_message::Status)> {
    let count = items.len();
    let stream = client.put_ur_ls(tokio_stream::iter(items)).await;
    let acks = all(stream.expect("acks").into_inner()).await;
    assert_eq!(acks.len(), count);
    acks.into_iter()
        .map(|ack| (ack.id.clone(), ack.status()))
        .collect()
}

pub async fn all<T>(mut stream: tonic::Streaming<T>) -> Vec<T> {
    let mut all = Vec::new();
    while let Some(message) = stream.message().await.expect("a message") {
        all.push(message);
    }
    all
}

/// What a call asks for: this many queues, and URLs of each, under lease for so many seconds.
pub fn want(queues: u32, per_queue: u32, lease: u32) -> GetParams {
    GetParams {
        max_urls_per_queue: per_queue,
        max_queues: queues,
        delay_requestable: lease,
        item: Some(get_params::Item::AnyCrawlId(AnyCrawlId {})),
        ..GetParams::default()
    }
}

pub fn want_of(key: &str, per_queue: u32, lease: u32) -> GetParams {
    GetParams {
        key: key.to_owned(),
        item: Some(get_params::Item::CrawlId(String::new())),
        ..want(0, per_queue, lease)
    }
}

/// The URLs that a call gets.
pub async fn get(client: &mut Client, asked: GetParams) -> Vec<String> {
    let stream = client.get_ur_ls(asked).await.expect("URLs");
    let infos = all(stream.into_inner()).await;
    infos.into_iter().map(|info| info.url).collect()
}

pub async fn stats(client: &mut Client, key: &str, crawl: &str) -> Stats {
    let asked = queue(key, crawl);
    client
        .get_stats(asked)
        .await
        .expect("statistics")
        .into_inner()
}

pub fn queue(key: &str, crawl: &str) -> QueueWithinCrawlParams {
    QueueWithinCrawlParams {
        key: key.to_owned(),
        crawl_id: crawl.to_owned(),
        local: false,
    }
}

/// No pause between two times that queues give.
pub async fn no_delay(client: &mut Client) {
    let asked = QueueDelayParams::default();
    client.set_delay(asked).await.expect("a delay");
}
