//! Crawls that take their work from a frontier server: complete, polite and once, also when either side is killed.

mod harness;

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use harness::small::{Small, set};
use harness::{QUICK, Site, finish, portolan, run, signal, start, text, wait_until};
use portolan_simweb::{Fault, TruthQuery, WebSpec};
use portolan_urlfrontier::api::*;
use portolan_urlfrontier::{Client, ServerAddress};

const START_LIMIT: Duration = Duration::from_secs(30);

/// `portolan serve-frontier`, until it is dropped.
struct Frontier {
    child: Child,
    address: String,
}

impl Frontier {
    fn serve(dir: &Path, listen: &str) -> Self {
        let mut child = portolan()
            .args(["serve-frontier", "--listen", listen, "--dir"])
            .arg(dir)
            .stderr(Stdio::piped())
            .spawn()
            .expect("the binary runs");
        let mut said = String::new();
        let stderr = child.stderr.take().expect("a pipe");
        BufReader::new(stderr).read_line(&mut said).expect("a line");
        // "Serving the frontier in DIR on 127.0.0.1:41234: 0 URLs in 0 queues."
        let address = said.rsplit_once(" on ").and_then(|(_, rest)| {
            let (address, _) = rest.split_once(": ")?;
            Some(address.to_owned())
        });
        let address = address.unwrap_or_else(|| panic!("no address in {said:?}"));
        Self { child, address }
    }

    fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Calls to the server, as somebody else makes them.
    fn call<T>(&self, calls: impl AsyncFnOnce(Client) -> T) -> T {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .expect("a runtime");
        let address = ServerAddress {
            url: self.url(),
            ..ServerAddress::default()
        };
        runtime.block_on(async { calls(address.client().expect("a client")).await })
    }

    fn kill(&mut self) {
        signal(self.child.id(), "KILL");
        self.child.wait().expect("an end");
    }
}

impl Drop for Frontier {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn spec() -> WebSpec {
    let mut spec = WebSpec::demo()
        .with_hosts(8)
        .with_pages_per_host(25)
        .with_latency_ms(5.0);
    spec.faults.retry_after_s = 0;
    // A page that refuses for ever is waited for, and its crawl does not end in order.
    spec.faults.errors = vec![Fault::NotFound, Fault::ServerError, Fault::TooManyThenOk];
    spec
}

fn from(frontier: &Frontier, mut crawl: Command, site: &Site) -> Command {
    let lease = format!("{QUICK}[frontier_server]\nlease_s = 10\n");
    crawl
        .arg("--config")
        .arg(site.config(&lease))
        .args(["--frontier-server", &frontier.url()]);
    crawl
}

fn missed(site: &Site) -> Vec<String> {
    let truth = site.truth(&TruthQuery::default());
    let seen = site.witness().per_url();
    truth
        .missed(&seen)
        .into_iter()
        .map(ToOwned::to_owned)
        .collect()
}

#[test]
fn a_crawl_that_a_server_feeds_is_complete_polite_and_once() {
    let site = Site::serve(spec());
    let frontier = Frontier::serve(&site.path("frontier"), "127.0.0.1:0");
    let report = run(&mut from(&frontier, site.crawl(), &site))
        .succeeded()
        .json();
    assert_eq!(text(&report, "stopped_by"), "done");
    let missed = missed(&site);
    assert!(missed.is_empty(), "{missed:?}");
    let witness = site.witness().report();
    assert!(witness.is_clean(), "{witness}");
    assert_eq!((witness.repeats, witness.most_at_once), (0, 1), "{witness}");

    // Another crawl finds nothing left to do at the server, and asks for nothing.
    let before = site.witness().report().requests;
    let mut command = from(&frontier, portolan_crawl_to(&site, "second"), &site);
    // A run that fetched nothing at all says so by its exit code.
    let ran = run(&mut command);
    assert_eq!(ran.code, Some(1), "{}", ran.err);
    assert_eq!(text(&ran.json(), "stopped_by"), "done");
    assert_eq!(site.witness().report().requests, before);
}

/// The same crawl into another directory.
fn portolan_crawl_to(site: &Site, name: &str) -> Command {
    let mut command = portolan();
    command
        .arg("crawl")
        .arg(site.web.spec().home_url())
        .arg("--out")
        .arg(site.path(name))
        .args(["--resolve", &site.resolve(), "--wait", "3s", "--json"])
        .args(["--scope", "any", "--delay", "0s"]);
    command
}

#[test]
fn killed_crawls_and_servers_lose_nothing_and_repeat_next_to_nothing() {
    let site = Site::serve(spec());
    let dir = site.path("frontier");
    let mut frontier = Frontier::serve(&dir, "127.0.0.1:0");
    let listen = frontier.address.clone();
    let mut kills = 0;
    for after in [40, 60] {
        let begun = Instant::now();
        let child = start(&mut from(&frontier, site.again_from(), &site));
        let before = site.witness().report().requests;
        wait_until(START_LIMIT, || {
            site.witness().report().requests > before + after
        });
        // The server first: what the crawl has for it then has no taker.
        if kills == 1 {
            frontier.kill();
            frontier = Frontier::serve(&dir, &listen);
            std::thread::sleep(Duration::from_millis(300));
        }
        signal(child.id(), "KILL");
        if finish(child, begun).code.is_some() {
            break;
        }
        std::thread::sleep(Duration::from_millis(100));
        site.witness().mark();
        kills += 1;
    }
    assert!(kills == 2, "only {kills} kills hit a running crawl");
    let last = run(&mut from(&frontier, site.again_from(), &site))
        .succeeded()
        .json();
    assert_eq!(text(&last, "stopped_by"), "done");
    let missed = missed(&site);
    assert!(missed.is_empty(), "{missed:?}");
    let witness = site.witness().report();
    assert_eq!(
        witness.forbidden + witness.overlaps + witness.repeats_in_one_epoch,
        0,
        "{witness}"
    );
    // What was not committed when its crawl was killed.
    assert!(witness.repeats <= 16 * kills, "{witness}");
}

trait AgainFrom {
    fn again_from(&self) -> Command;
}

impl AgainFrom for Site {
    fn again_from(&self) -> Command {
        match self.out().join("crawl.toml").exists() {
            true => self.resume(),
            false => self.crawl(),
        }
    }
}

/// Two crawls share one server's work: together they have everything, and no page is fetched by both.
#[test]
fn two_crawls_share_a_server() {
    let site = Site::serve(spec());
    let frontier = Frontier::serve(&site.path("frontier"), "127.0.0.1:0");
    let begun = Instant::now();
    let crawls = ["one", "two"].map(|name| {
        let mut command = from(&frontier, portolan_crawl_to(&site, name), &site);
        start(&mut command)
    });
    for child in crawls {
        finish(child, begun).succeeded();
    }
    let missed = missed(&site);
    assert!(missed.is_empty(), "{missed:?}");
    let pages = |url: &String| !url.ends_with("/robots.txt") && !url.contains("sitemap");
    let seen = site.witness().per_url();
    let truth = site.truth(&TruthQuery::default());
    let twice: Vec<_> = seen
        .iter()
        .filter(|(url, _)| pages(url) && truth.urls.get(*url).is_some_and(|t| t.status == 200))
        .filter(|(_, count)| count.served > 1)
        .map(|(url, _)| url)
        .collect();
    assert!(twice.is_empty(), "{twice:?}");
}

fn info(url: &str) -> UrlInfo {
    UrlInfo {
        url: url.to_owned(),
        ..UrlInfo::default()
    }
}

/// Date 0: done.
fn known(url: &str, date: u64) -> UrlItem {
    UrlItem {
        item: Some(url_item::Item::Known(KnownUrlItem {
            info: Some(info(url)),
            refetchable_from_date: date,
        })),
        ..UrlItem::default()
    }
}

async fn put(client: &mut Client, items: Vec<UrlItem>) {
    let acks = client.put_ur_ls(tokio_stream::iter(items)).await;
    let mut acks = acks.expect("acks").into_inner();
    while acks.message().await.expect("an ack").is_some() {}
}

async fn get(client: &mut Client, per_queue: u32) -> Vec<String> {
    let asked = GetParams {
        max_urls_per_queue: per_queue,
        item: Some(get_params::Item::CrawlId(String::new())),
        ..GetParams::default()
    };
    let urls = client.get_ur_ls(asked).await;
    let mut urls = urls.expect("URLs").into_inner();
    let mut all = Vec::new();
    while let Some(info) = urls.message().await.expect("a URL") {
        all.push(info.url);
    }
    all
}

async fn stats(client: &mut Client) -> Stats {
    let asked = QueueWithinCrawlParams::default();
    let stats = client.get_stats(asked).await;
    stats.expect("statistics").into_inner()
}

/// A server that others work with is measured without harm to them.
#[test]
fn a_bench_leaves_other_crawls_and_their_delays_alone() {
    let dir = tempfile::tempdir().expect("a directory");
    let frontier = Frontier::serve(&dir.path().join("frontier"), "127.0.0.1:0");
    frontier.call(async |mut client| {
        let pages = (0..3).map(|n| known(&format!("http://a.test/{n}"), 1));
        put(&mut client, pages.collect()).await;
    });
    let mut bench = portolan();
    bench
        .args(["bench", "frontier-server", "--urls", "2000"])
        .args(["--hosts", "20", "--get-s", "5", "--json"])
        .args(["--server", &frontier.url()]);
    let figures = run(&mut bench).succeeded().json();
    assert_eq!(figures["get"]["urls"], 200, "{figures}");
    frontier.call(async |mut client| {
        assert_eq!(stats(&mut client).await.in_process, 0);
        assert_eq!(get(&mut client, 1).await.len(), 1);
        // The queue rests for the second that it has by default.
        assert!(get(&mut client, 3).await.is_empty());
        let crawls = client.list_crawls(Local { local: false }).await;
        assert_eq!(crawls.expect("crawls").into_inner().values, ["DEFAULT"]);
    });
}

/// A crawl of a Web of a few pages, with the scope and the delay that it has by default, and a short lease.
fn from_small(frontier: &Frontier, small: &Small, settings: &str, arguments: &[&str]) -> Command {
    let config = small.config(&format!("{settings}\n[frontier_server]\nlease_s = 10\n"));
    let mut command = small.command(arguments);
    command
        .args(["--config", &config])
        .args(["--frontier-server", &frontier.url()]);
    command
}

async fn date_of(client: &mut Client, url: &str) -> u64 {
    let asked = UrlStatusRequest {
        url: url.to_owned(),
        ..UrlStatusRequest::default()
    };
    let item = client.get_url_status(asked).await.expect("a URL");
    match item.into_inner().item {
        Some(url_item::Item::Known(known)) => known.refetchable_from_date,
        other => panic!("{other:?} is not known"),
    }
}

fn now() -> u64 {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    now.expect("a time").as_secs()
}

/// What the scope leaves out goes back soon, and the crawl ends all the same, but not before what is its own has come: although others fetched
/// some of what it gave back, so that fewer URLs are left than it gave back.
#[test]
fn what_is_left_to_others_is_told_from_what_is_to_come() {
    let small = Small::serve(&[("a.test/", "home"), ("a.test/late", "late")]);
    let frontier = Frontier::serve(&small.out().with_extension("frontier"), "127.0.0.1:0");
    let others = [1, 2, 3].map(|n| format!("http://other{n}.test/"));
    let late = "http://a.test/late";
    frontier.call(async |mut client| {
        let mut items: Vec<_> = others.iter().map(|url| known(url, 1)).collect();
        items.push(known(late, now() + 8));
        put(&mut client, items).await;
    });
    let begun = Instant::now();
    let child = start(&mut from_small(&frontier, &small, "", &["http://a.test/"]));
    frontier.call(async |mut client| {
        let mut given_back = 0;
        while given_back < others.len() {
            assert!(
                begun.elapsed() < START_LIMIT,
                "{given_back} were given back"
            );
            tokio::time::sleep(Duration::from_millis(20)).await;
            given_back = 0;
            for url in &others {
                let date = date_of(&mut client, url).await;
                assert!(date < now() + 100, "not for {} s", date - now());
                given_back += usize::from(date > 1);
            }
        }
        let done = others[..2].iter().map(|url| known(url, 0));
        put(&mut client, done.collect()).await;
    });
    let report = finish(child, begun).succeeded().json();
    assert_eq!(text(&report, "stopped_by"), "done");
    assert_eq!(small.asked(), set(&["a.test/", "a.test/late"]));
    frontier.call(async |mut client| {
        assert_eq!(date_of(&mut client, late).await, 0);
        assert_eq!(stats(&mut client).await.size, 1);
    });
}

/// A crawl's own budget is no reason that nobody fetches a page.
#[test]
fn what_a_budget_leaves_is_for_others() {
    let links = r#"<a href="/1">1</a><a href="/2">2</a><a href="/3">3</a>"#;
    let small = Small::serve(&[
        ("a.test/", links),
        ("a.test/1", "one"),
        ("a.test/2", "two"),
        ("a.test/3", "three"),
    ]);
    let frontier = Frontier::serve(&small.out().with_extension("frontier"), "127.0.0.1:0");
    let settings = "[limits]\nmax_pages_per_host = 2";
    let mut crawl = from_small(&frontier, &small, settings, &["http://a.test/"]);
    let report = run(&mut crawl).succeeded().json();
    assert_eq!(text(&report, "stopped_by"), "done");
    assert_eq!(small.asked().len(), 2);
    frontier.call(async |mut client| {
        let told = stats(&mut client).await;
        assert_eq!((told.size, told.counts["completed"]), (2, 2));
    });
}

/// A page whose type is not wanted was fetched, and that is all that it is for this crawl, also if the server grants it once more.
#[test]
fn what_was_excluded_by_its_content_is_not_fetched_again() {
    let data = "HTTP/1.1 200 OK\r\nContent-Type: application/x-data\r\nConnection: close\r\nContent-Length: 2\r\n\r\n{}";
    let small = Small::serve(&[
        ("a.test/", r#"<a href="/data">data</a>"#),
        ("a.test/data", data),
    ]);
    let frontier = Frontier::serve(&small.out().with_extension("frontier"), "127.0.0.1:0");
    let settings = "[content]\ntypes = [\"text/html\"]";
    run(&mut from_small(
        &frontier,
        &small,
        settings,
        &["http://a.test/"],
    ))
    .succeeded();
    assert_eq!(small.asked(), set(&["a.test/", "a.test/data"]));
    let why = small.why("http://a.test/data");
    assert!(why.contains("content type"), "{why}");
    let data = "http://a.test/data";
    frontier.call(async |mut client| put(&mut client, vec![known(data, 1)]).await);
    let ran = run(&mut from_small(&frontier, &small, settings, &[]));
    assert_eq!(text(&ran.json(), "stopped_by"), "done");
    assert_eq!(small.asked(), set(&[]));
    frontier.call(async |mut client| assert_eq!(date_of(&mut client, data).await, 0));
}

/// Seeds, and what they redirect to, are as in any crawl: other hosts come into scope by them, and no include rule has to fit.
#[test]
fn seeds_stay_seeds_also_where_they_redirect_to_other_hosts() {
    let to = |url: &str| {
        format!(
            "HTTP/1.1 301 Moved\r\nLocation: {url}\r\nConnection: close\r\nContent-Length: 0\r\n\r\n"
        )
    };
    let small = Small::serve(&[
        ("a.test/", &to("http://b.test/")),
        ("b.test/", &to("http://c.test/")),
        (
            "c.test/",
            r#"<a href="/in">in</a><a href="/out">out</a><a href="http://d.test/in">other</a>"#,
        ),
        ("c.test/in", "in"),
    ]);
    let frontier = Frontier::serve(&small.out().with_extension("frontier"), "127.0.0.1:0");
    let settings = "[scope]\ninclude = [\"/in$\"]";
    let mut crawl = from_small(&frontier, &small, settings, &["http://a.test/"]);
    let report = run(&mut crawl).succeeded().json();
    assert_eq!(text(&report, "stopped_by"), "done");
    assert_eq!(
        small.asked(),
        set(&["a.test/", "b.test/", "c.test/", "c.test/in"])
    );
}
