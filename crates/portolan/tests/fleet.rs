//! One crawl by several nodes, each a process of its own, over a real nats-server and a store in a directory: complete,
//! polite, and nothing twice but what a node that was lost had not shipped.

mod harness;

use harness::{Ran, Site, finish, number, portolan, signal, text, wait_until};
use portolan_fleet::local::{LocalServers, nats_server};
use portolan_fleet::{Fleet, FleetStatus, NewFleet, Servers};
use portolan_simweb::{Fault, TruthQuery, WebSpec, WitnessReport};
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::{Child, Command};
use std::time::{Duration, Instant};
use tokio::runtime::Runtime;

const NAME: &str = "sea";
const PATIENCE: Duration = Duration::from_secs(60);
const SHIP_MS: u64 = 300;

/// Servers, a fleet, a simulated Web.
struct World {
    site: Site,
    fleet: Fleet,
    servers: LocalServers,
    // Last: what is above needs it.
    runtime: Runtime,
}

/// A node that runs.
struct Node {
    child: Child,
    begun: Instant,
}

fn spec() -> WebSpec {
    let mut spec = WebSpec::demo()
        .with_hosts(24)
        .with_pages_per_host(40)
        .with_latency_ms(20.0);
    spec.odd.host_share = 0.1;
    spec.faults.retry_after_s = 0;
    // A page that refuses for ever is waited for.
    spec.faults.errors = vec![Fault::NotFound, Fault::ServerError, Fault::TooManyThenOk];
    spec
}

impl World {
    /// `None` where there is no nats-server; with CI set, that is a failure.
    fn new(spec: WebSpec, ip_delay_ms: u64) -> Option<Self> {
        Self::with(spec, ip_delay_ms, "", None)
    }

    /// With more settings of `[fleet]`, and a limit of pages.
    fn with(spec: WebSpec, ip_delay_ms: u64, more: &str, max_pages: Option<u64>) -> Option<Self> {
        if nats_server().is_none() {
            println!("not run: no nats-server");
            assert!(std::env::var_os("CI").is_none(), "there is no nats-server");
            return None;
        }
        let site = Site::serve(spec);
        let runtime = Runtime::new().expect("a runtime");
        let servers = runtime
            .block_on(LocalServers::start(1, ""))
            .expect("servers");
        site.witness().expect_ip_delay_ms(ip_delay_ms);
        // Without a pause between the requests to a host, none is kept for addresses either.
        let delay_ms = ip_delay_ms.min(1);
        let settings = format!(
            "[scope]\nscope = \"any\"\n[politeness]\ndelay_ms = {delay_ms}\nip_delay_ms = {ip_delay_ms}\nresponse_time_factor = 0.0\nbackoff_ms = 50\nbackoff_max_ms = 200\n\
             [outages]\nwait_ms = 3000\n[dns]\nresolve = [\"{}\"]\n[limits]\nthreads = 2\nconnections = 16\n\
             [archive]\ncommit_ms = 20\nfile_bytes = 400000\n[registry]\ncheckpoint_log_mb = 1\nmemory_mb = 64\n\
             [identity]\ncontact = \"https://example.org/crawler\"\n[fleet]\nship_ms = {SHIP_MS}\n{more}\n",
            site.resolve()
        );
        let new = NewFleet {
            name: NAME.to_owned(),
            settings,
            seeds: vec![site.web.spec().home_url()],
            partitions: 12,
            blobs: site.path("store").display().to_string(),
            lease_ms: 3_000,
            max_pages,
            link_bytes: 64 << 20,
            log_bytes: 64 << 20,
        };
        let fleet = runtime
            .block_on(Fleet::create(&servers.servers(), new))
            .expect("a fleet");
        Some(Self {
            site,
            fleet,
            servers,
            runtime,
        })
    }

    fn servers(&self) -> Servers {
        self.servers.servers()
    }

    fn dir(&self, node: &str) -> PathBuf {
        self.site.path(node)
    }

    fn start(&self, node: &str) -> Node {
        Node {
            child: harness::start(&mut self.command(node)),
            begun: Instant::now(),
        }
    }

    fn command(&self, node: &str) -> Command {
        let mut command = portolan();
        command
            .args(["node", NAME, "--json", "-v"])
            .args(["--nats", &self.servers().urls.join(",")])
            .args(["--node", node])
            .arg("--dir")
            .arg(self.dir(node));
        command
    }

    fn status(&self) -> FleetStatus {
        self.runtime
            .block_on(self.fleet.status())
            .expect("a status")
    }

    fn requests(&self) -> u64 {
        self.site.witness().report().requests
    }

    fn wait_for_requests(&self, more: u64) {
        let until = self.requests() + more;
        let came = wait_until(PATIENCE, || self.requests() >= until);
        assert!(came, "no requests: {:?}", self.status());
    }

    /// The archive as it comes from the store: sound, and every visited page is in it once.
    #[track_caller]
    fn judge_archive(&self, pages: u64) {
        let dir = self.site.path("fetched");
        let mut fetch = portolan();
        fetch.args(["fleet", "fetch", NAME]).arg(&dir);
        harness::run(fetch.args(["--nats", &self.servers().urls.join(",")])).succeeded();
        let verdicts = harness::ask(&dir, &["warc verify", "--json"]).json_lines();
        assert!(!verdicts.is_empty());
        for verdict in &verdicts {
            assert_eq!(verdict["sound"], true, "{verdict}");
        }
        let mut times: BTreeMap<String, u32> = BTreeMap::new();
        for record in harness::ask(&dir, &["warc list", "--json"]).json_lines() {
            let is_answer = matches!(text(&record, "type"), "response" | "revisit");
            if is_answer && !text(&record, "url").contains("/robots") {
                *times.entry(text(&record, "url").to_owned()).or_default() += 1;
            }
        }
        let settled = times.len() as u64;
        println!("{settled} URLs are archived, {pages} pages");
        assert!(settled >= pages);
        let twice: Vec<_> = times.iter().filter(|(_, times)| **times > 1).collect();
        assert!(twice.is_empty(), "{twice:?}");
    }

    /// Objects of the store whose keys begin with this.
    fn stored(&self, prefix: &str) -> Vec<String> {
        let objects = self.runtime.block_on(self.fleet.blobs().list(prefix));
        objects.into_iter().map(|object| object.key).collect()
    }

    /// The nodes know together what one machine knows of the same Web: URLs, states and back-link counts.
    #[track_caller]
    fn judge_end_state(&self, spec: WebSpec, nodes: &[&str]) {
        let single = Site::serve(spec);
        let settings = "[politeness]\ndelay_ms = 0\nresponse_time_factor = 0.0\nbackoff_ms = 50\nbackoff_max_ms = 200\n\
                        [limits]\nthreads = 2\nconnections = 64\n";
        let mut crawl = single.crawl();
        crawl.arg("--config").arg(single.config(settings));
        harness::run(&mut crawl).succeeded();
        let expected = facts(harness::ask(&single.out(), &["urls", "--json"]));
        let mut found = BTreeMap::new();
        for node in nodes {
            let dir = self.dir(node).join("crawl");
            for (url, known) in facts(harness::ask(&dir, &["urls", "--json"])) {
                let twice = found.insert(url.clone(), known);
                assert!(twice.is_none(), "{url} is known to two nodes");
            }
        }
        same(&expected, &found);
        // And so does who comes later, though the store does not have all chunks any more.
        let mut urls = portolan();
        urls.env("PORTOLAN_CACHE", self.site.path("cache"));
        urls.args(["urls", "--json"])
            .arg(format!("file://{}", self.site.path("store").display()));
        same(&expected, &facts(harness::run(&mut urls).succeeded()));
    }

    /// Everything was fetched, by the rules; returns what the witness says.
    #[track_caller]
    fn judge(&self) -> WitnessReport {
        let truth = self.site.truth(&TruthQuery::default());
        let missed = truth.missed(&self.site.witness().per_url());
        assert!(missed.is_empty(), "{missed:?}");
        let report = self.site.witness().report();
        println!(
            "{} requests, {} repeats, {} met nobody",
            report.requests, report.repeats, report.aborted
        );
        assert!(report.violations.is_empty(), "{report}");
        assert_eq!(report.repeats_in_one_epoch, 0, "{report}");
        report
    }
}

impl Node {
    fn signal(&self, name: &str) {
        signal(self.child.id(), name);
    }

    #[track_caller]
    fn finish(self) -> Ran {
        finish(self.child, self.begun)
    }

    /// Ends with the crawl; how many pages it has fetched.
    #[track_caller]
    fn ends_with_the_crawl(self) -> u64 {
        let ran = self.finish().succeeded();
        let report = ran.json();
        assert_eq!(text(&report, "stopped_by"), "done", "{}", ran.err);
        number(&report, "pages_this_run")
    }
}

#[test]
fn two_nodes_fetch_everything_once() {
    let Some(world) = World::new(spec(), 0) else {
        return;
    };
    let nodes = [world.start("a"), world.start("b")];
    let shares = nodes.map(Node::ends_with_the_crawl);
    assert!(shares.iter().all(|share| *share > 50), "{shares:?}");
    let report = world.judge();
    assert_eq!(report.repeats, 0, "{report}");
    world.judge_archive(shares.iter().sum());
}

#[test]
fn an_address_is_asked_by_one_node_at_a_time() {
    const PAUSE_MS: u64 = 40;
    let few = spec()
        .with_hosts(8)
        .with_pages_per_host(12)
        .with_latency_ms(5.0);
    let Some(world) = World::new(few, PAUSE_MS) else {
        return;
    };
    let nodes = [world.start("a"), world.start("b")];
    let shares = nodes.map(Node::ends_with_the_crawl);
    assert!(shares.iter().all(|share| *share > 5), "{shares:?}");
    let report = world.judge();
    assert_eq!(report.repeats, 0, "{report}");
    let [address] = &report.ips[..] else {
        panic!("all hosts are at one address: {report}");
    };
    assert_eq!(address.most_at_once, 1, "{report}");
    assert!(address.min_gap_ms >= Some(PAUSE_MS as f64), "{report}");
}

/// Requests that may be made again when a node is lost: what it fetched since it shipped last, which on a busy machine is
/// some ship intervals ago, and what was under way.
fn at_most_unshipped(report: &WitnessReport, losses: u64) {
    let bound = losses * 150;
    assert!(
        report.repeats <= bound,
        "{} of {bound}: {report}",
        report.repeats
    );
}

#[test]
fn a_killed_node_comes_back_and_repeats_next_to_nothing() {
    let Some(world) = World::new(spec(), 0) else {
        return;
    };
    let (one, other) = (world.start("a"), world.start("b"));
    world.wait_for_requests(150);
    one.signal("KILL");
    one.finish();
    world.site.witness().mark();
    let again = world.start("a");
    again.ends_with_the_crawl();
    other.ends_with_the_crawl();
    let report = world.judge();
    // What was under way, and what was answered and not committed yet.
    assert!(report.repeats <= 64, "{report}");
}

#[test]
fn what_a_lost_node_had_shipped_is_not_fetched_again() {
    let Some(world) = World::new(spec(), 0) else {
        return;
    };
    let nodes = ["a", "b", "c"].map(|name| world.start(name));
    world.wait_for_requests(200);
    let [lost, others @ ..] = nodes;
    lost.signal("KILL");
    lost.finish();
    std::fs::remove_dir_all(world.dir("a")).expect("its directory");
    world.site.witness().mark();
    for node in others {
        node.ends_with_the_crawl();
    }
    at_most_unshipped(&world.judge(), 1);
    // What was not shipped is in no archive.
    world.judge_archive(300);
}

#[test]
fn a_node_that_leaves_and_one_that_joins_repeat_nothing() {
    let Some(world) = World::new(spec(), 0) else {
        return;
    };
    let (leaving, staying) = (world.start("a"), world.start("b"));
    world.wait_for_requests(150);
    let joining = world.start("c");
    world.wait_for_requests(150);
    leaving.signal("INT");
    let report = leaving.finish().succeeded().json();
    assert_eq!(text(&report, "stopped_by"), "signal");
    staying.ends_with_the_crawl();
    joining.ends_with_the_crawl();
    let report = world.judge();
    assert_eq!(report.repeats, 0, "{report}");
}

/// A machine that stood still past its lease wakes up after others have its partitions: it asks nothing more for them,
/// and nothing that it had not shipped counts.
#[test]
fn a_node_that_slept_past_its_lease_joins_anew() {
    let Some(world) = World::new(spec().with_pages_per_host(60), 0) else {
        return;
    };
    let (sleeper, other) = (world.start("a"), world.start("b"));
    world.wait_for_requests(200);
    sleeper.signal("STOP");
    std::thread::sleep(Duration::from_millis(100));
    world.site.witness().mark();
    let lost = wait_until(PATIENCE, || {
        let status = world.status();
        let holds = |name: &str| status.nodes.get(name).map_or(0, |node| node.holds);
        holds("a") == 0 && holds("b") == 12
    });
    assert!(lost, "{:?}", world.status());
    sleeper.signal("CONT");
    let ran = sleeper.finish().succeeded();
    assert!(ran.err.contains("joins anew"), "{}", ran.err);
    other.ends_with_the_crawl();
    at_most_unshipped(&world.judge(), 1);
}

#[test]
fn a_second_process_on_a_directory_does_not_disturb_the_first() {
    let Some(world) = World::new(spec().with_hosts(8), 0) else {
        return;
    };
    let node = world.start("a");
    world.wait_for_requests(40);
    let second = harness::run(&mut world.command("a"));
    assert_eq!(second.code, Some(2), "{}", second.err);
    assert!(second.err.contains("is in use by a node"), "{}", second.err);
    let ran = node.finish().succeeded();
    assert!(!ran.err.contains("joins anew"), "{}", ran.err);
    let report = world.judge();
    assert_eq!(report.repeats, 0, "{report}");
}

/// While the store takes nothing, pages gather on the node's disk up to a bound; then nothing is fetched, and the status
/// says so.
#[test]
fn fetching_stops_at_a_bound_of_disk() {
    const BOUND: u64 = 1 << 20;
    let Some(world) = World::with(
        spec().with_pages_per_host(120),
        0,
        "max_unshipped_mb = 1",
        None,
    ) else {
        return;
    };
    let node = world.start("a");
    world.wait_for_requests(50);
    let (store, away) = (world.site.path("store"), world.site.path("away"));
    let archived = || {
        let files = std::fs::read_dir(world.dir("a").join("crawl/archive")).expect("an archive");
        let length = |file: std::io::Result<std::fs::DirEntry>| {
            let found = file.and_then(|file| file.metadata());
            found.map_or(0, |found| found.len())
        };
        files.map(length).sum::<u64>()
    };
    std::fs::rename(&store, &away).expect("its store");
    // No object can be put below a file.
    std::fs::write(&store, "").expect("a file in its place");
    let before = archived();
    let mut said = String::new();
    let full = wait_until(PATIENCE, || {
        let status = world.status();
        let reported = status.nodes["a"].reported.as_ref();
        said = reported.map_or_else(String::new, |told| told.status.trouble.clone());
        said.contains("is not shipped")
    });
    assert!(full && said.contains("the store"), "{said}");
    std::thread::sleep(Duration::from_millis(300));
    let requests = world.requests();
    std::thread::sleep(Duration::from_secs(1));
    assert_eq!(world.requests(), requests);
    let grown = archived() - before;
    // What was under way is archived, too.
    assert!((BOUND / 4..3 * BOUND).contains(&grown), "{grown} bytes");
    std::fs::remove_file(&store).expect("it can go");
    std::fs::rename(&away, &store).expect("its store is back");
    node.ends_with_the_crawl();
    let report = world.judge();
    assert_eq!(report.repeats, 0, "{report}");
}

/// What does not depend on who fetched a page, and when.
type Facts = (String, String, u64, u64);

/// Of what `portolan urls --json` prints.
fn facts(ran: Ran) -> BTreeMap<String, Facts> {
    let rows = ran.json_lines().into_iter();
    let known = rows.map(|row| {
        let mut back_links = number(&row, "back_links");
        // A robots.txt that is asked for again, because its host fails, names its sitemaps again.
        if text(&row, "found_as") == "sitemap" && number(&row, "depth") == 0 {
            back_links = back_links.min(1);
        }
        let text_of = |name: &str| row[name].as_str().unwrap_or_default().to_owned();
        let status = row["status"].as_u64().unwrap_or(0);
        let facts = (text_of("state"), text_of("reason"), status, back_links);
        (text_of("url"), facts)
    });
    known.collect()
}

#[track_caller]
fn same(expected: &BTreeMap<String, Facts>, found: &BTreeMap<String, Facts>) {
    let other: Vec<_> = expected
        .iter()
        .filter(|(url, known)| found.get(*url) != Some(known))
        .map(|(url, known)| (url, known, found.get(url)))
        .collect();
    let (urls, differ) = (expected.len(), other.len());
    assert!(other.is_empty(), "{differ} of {urls}: {:?}", other.first());
    assert_eq!(found.len(), urls);
}

/// Partitions are taken over from checkpoints, by nodes that have never seen the beginning of the ship log: it is gone.
#[test]
fn a_lost_node_is_replaced_from_checkpoints_and_a_log_without_beginning() {
    let web = || spec().with_pages_per_host(70).with_latency_ms(120.0);
    let frequent = "checkpoint_s = 1\ncheckpoint_entries = 25";
    let Some(world) = World::with(web(), 0, frequent, None) else {
        return;
    };
    let (lost, staying) = (world.start("a"), world.start("b"));
    let trimmed = wait_until(PATIENCE, || !world.stored("log/").is_empty());
    assert!(trimmed, "{:?}", world.status());
    let joining = world.start("c");
    let came = wait_until(PATIENCE, || {
        world
            .status()
            .nodes
            .get("c")
            .is_some_and(|node| node.holds > 1)
    });
    assert!(came, "{:?}", world.status());
    lost.signal("KILL");
    lost.finish();
    std::fs::remove_dir_all(world.dir("a")).expect("its directory");
    world.site.witness().mark();
    let journal = world.stored("journal/").len();
    let mut said = String::new();
    for node in [staying, joining] {
        let ran = node.finish().succeeded();
        assert_eq!(text(&ran.json(), "stopped_by"), "done", "{}", ran.err);
        said += &ran.err;
    }
    let from_checkpoints = said
        .lines()
        .filter(|line| line.contains("partition adopted"))
        .filter(|line| !line.contains("from_checkpoint 0") && !line.contains("from_checkpoint=0"))
        .inspect(|line| println!("{line}"))
        .count();
    assert!(from_checkpoints >= 3, "{said}");
    let records = world.status().ship_records;
    println!(
        "{from_checkpoints} partitions from checkpoints, {journal} chunks at the loss, {records} records at the end"
    );
    at_most_unshipped(&world.judge(), 1);
    world.judge_archive(300);
    world.judge_end_state(web(), &["b", "c"]);
}

/// Not a page more than was allowed is archived, and none that a lost node had taken is missing in the end. A limit can be
/// raised while nodes wait at it.
#[test]
fn a_limit_of_pages_is_kept_when_a_node_is_lost_and_can_be_raised() {
    const LIMIT: u64 = 250;
    const RAISED: u64 = 400;
    let Some(world) = World::with(spec(), 0, "", Some(LIMIT)) else {
        return;
    };
    let fleet = |arguments: &[&str]| {
        let mut command = portolan();
        command.env("PORTOLAN_CACHE", world.site.path("cache"));
        command.args(["fleet", arguments[0], NAME]);
        command.args(["--nats", &world.servers().urls.join(",")]);
        harness::run(command.args(&arguments[1..])).succeeded()
    };
    let pages = || number(&fleet(&["report", "--json"]).json(), "pages");
    let (lost, staying) = (world.start("a"), world.start("b"));
    world.wait_for_requests(80);
    lost.signal("KILL");
    lost.finish();
    std::fs::remove_dir_all(world.dir("a")).expect("its directory");
    let another = world.start("c");
    let stands_at = |limit: u64| {
        let mut least = 0;
        let came = wait_until(PATIENCE, || {
            least = pages();
            assert!(least <= limit, "{least} of {limit}");
            // A node whose hosts have no more keeps what it took until the end.
            least + 100 >= limit && world.status().pages_left == Some(0)
        });
        assert!(came, "{least} of {limit}: {:?}", world.status());
    };
    stands_at(LIMIT);
    let told = fleet(&["status"]).out;
    assert!(told.contains("No document may still be fetched"), "{told}");
    fleet(&["config", "--max-pages", &RAISED.to_string()]);
    stands_at(RAISED);
    fleet(&["end"]);
    for node in [staying, another] {
        node.finish().succeeded();
    }
    let in_the_end = pages();
    println!("{in_the_end} pages of {RAISED}");
    assert!(
        (RAISED - 100..=RAISED).contains(&in_the_end),
        "{in_the_end}"
    );
    assert!(world.site.witness().report().violations.is_empty());
}
