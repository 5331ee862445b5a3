//! Seed-servers decide, crawl-clients fetch, each a process of its own, over a real nats-server: complete, polite, and nothing
//! twice but what a lost client had not brought back.

mod harness;

use harness::small::{self, Small};
use harness::{Ran, Site, finish, number, portolan, signal, text, wait_until};
use portolan_fleet::local::{LocalServers, nats_server};
use portolan_fleet::{Fleet, FleetStatus, NewFleet, NodeStatus};
use portolan_simweb::{Fault, TruthQuery, UrlKind, UrlTruth, WebSpec, WitnessReport};
use std::collections::BTreeSet;
use std::process::Child;
use std::time::{Duration, Instant};
use tokio::runtime::Runtime;

const NAME: &str = "sails";
const PATIENCE: Duration = Duration::from_secs(60);

/// A seed-server's partitions, a simulated Web, and the servers between them.
struct World {
    site: Site,
    fleet: Fleet,
    servers: LocalServers,
    // Last: what is above needs it.
    runtime: Runtime,
}

struct Node {
    child: Child,
    begun: Instant,
}

/// What tests differ in.
struct Setup {
    /// In front of the settings.
    more: &'static str,
    scope: &'static str,
    timeout_ms: u64,
    grant_ms: u64,
    /// Instead of the simulated Web: seeds, and where all hosts are.
    elsewhere: Option<(Vec<String>, String)>,
}

impl Default for Setup {
    fn default() -> Self {
        Self {
            more: "",
            scope: "any",
            timeout_ms: 3_000,
            grant_ms: 1_000,
            elsewhere: None,
        }
    }
}

fn spec() -> WebSpec {
    let mut spec = WebSpec::demo()
        .with_hosts(20)
        .with_pages_per_host(30)
        .with_latency_ms(15.0);
    spec.odd.host_share = 0.1;
    spec.faults.retry_after_s = 0;
    spec.faults.errors = vec![Fault::NotFound, Fault::ServerError, Fault::TooManyThenOk];
    spec
}

impl World {
    /// `None` where there is no nats-server; with CI set, that is a failure.
    fn new(spec: WebSpec, setup: Setup) -> Option<Self> {
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
        let Setup {
            more,
            scope,
            timeout_ms,
            grant_ms,
            elsewhere,
        } = setup;
        let in_simulation = || (vec![site.web.spec().home_url()], site.resolve());
        let (seeds, resolve) = elsewhere.unwrap_or_else(in_simulation);
        let settings = format!(
            "{more}[scope]\nscope = \"{scope}\"\n[politeness]\ndelay_ms = 0\nip_delay_ms = 0\nresponse_time_factor = 0.0\nbackoff_ms = 50\nbackoff_max_ms = 200\n\
             [outages]\nwait_ms = 3000\n[dns]\nresolve = [\"{resolve}\"]\n[limits]\nthreads = 1\nturn_urls = 4\n[http]\nrequest_timeout_ms = {timeout_ms}\n\
             [archive]\ncommit_ms = 20\nfile_bytes = 400000\n[registry]\ncheckpoint_log_mb = 1\nmemory_mb = 64\n\
             [identity]\ncontact = \"https://example.org/crawler\"\n[fleet]\nship_ms = 300\ngrant_ms = {grant_ms}\n"
        );
        let new = NewFleet {
            name: NAME.to_owned(),
            settings,
            seeds,
            partitions: 6,
            blobs: site.path("store").display().to_string(),
            lease_ms: 3_000,
            max_pages: None,
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

    fn start(&self, node: &str, role: &str, more: &[&str]) -> Node {
        let mut command = portolan();
        command
            .args(["node", NAME, "--json", "-v", "--role", role])
            .args(["--nats", &self.servers.servers().urls.join(",")])
            .args(["--node", node])
            .args(more)
            .arg("--dir")
            .arg(self.site.path(node));
        Node {
            child: harness::start(&mut command),
            begun: Instant::now(),
        }
    }

    fn status(&self) -> FleetStatus {
        self.runtime
            .block_on(self.fleet.status())
            .expect("a status")
    }

    /// What a node said of itself last; also one that has left.
    fn of(&self, node: &str) -> NodeStatus {
        let reports = self.runtime.block_on(self.fleet.reports());
        let reported = reports.expect("the nodes' reports").remove(node);
        reported.map(|reported| reported.status).unwrap_or_default()
    }

    fn wait_for_requests(&self, more: u64) {
        let requests = || self.site.witness().report().requests;
        let until = requests() + more;
        let came = wait_until(PATIENCE, || requests() >= until);
        assert!(came, "no requests: {:?}", self.status());
    }

    /// Everything was fetched, by the rules.
    #[track_caller]
    fn judge(&self) -> WitnessReport {
        let report = self.judge_manners();
        assert_eq!(report.repeats_in_one_epoch, 0, "{report}");
        report
    }

    /// Everything was fetched, by the rules.
    #[track_caller]
    fn judge_manners(&self) -> WitnessReport {
        let truth = self.site.truth(&TruthQuery::default());
        let missed = truth.missed(&self.site.witness().per_url());
        assert!(missed.is_empty(), "{missed:?}");
        let report = self.site.witness().report();
        assert!(report.violations.is_empty(), "{report}");
        assert_eq!(report.most_at_once, 1, "{report}");
        report
    }

    /// The archive as it comes from the store: sound, and every URL that was answered is in it.
    #[track_caller]
    fn judge_archive(&self) {
        let dir = self.site.path("fetched");
        let mut fetch = portolan();
        fetch.args(["fleet", "fetch", NAME]).arg(&dir);
        let urls = self.servers.servers().urls.join(",");
        harness::run(fetch.args(["--nats", &urls])).succeeded();
        for verdict in harness::ask(&dir, &["warc verify", "--json"]).json_lines() {
            assert_eq!(verdict["sound"], true, "{verdict}");
        }
        let records = harness::ask(&dir, &["warc list", "--json"]).json_lines();
        let answers = records
            .iter()
            .filter(|record| matches!(text(record, "type"), "response" | "revisit"));
        let archived: BTreeSet<&str> = answers.map(|record| text(record, "url")).collect();
        let truth = self.site.truth(&TruthQuery::default());
        let is_page = |(_, truth): &(&String, &UrlTruth)| {
            truth.kind == UrlKind::Document && truth.status == 200 && truth.oddity.is_none()
        };
        let asked = self.site.witness().per_url();
        let pages = truth.urls.iter().filter(is_page);
        let lacking: Vec<_> = pages
            .filter(|(url, _)| asked.contains_key(*url) && !archived.contains(url.as_str()))
            .collect();
        assert!(lacking.is_empty(), "{lacking:?}");
    }
}

impl Node {
    #[track_caller]
    fn finish(self) -> Ran {
        finish(self.child, self.begun)
    }

    /// How many documents it fetched.
    #[track_caller]
    fn ends_with_the_crawl(self) -> u64 {
        let ran = self.finish().succeeded();
        let report = ran.json();
        assert_eq!(text(&report, "stopped_by"), "done", "{}", ran.err);
        number(&report, "requests_this_run")
    }
}

#[test]
fn a_server_decides_and_two_clients_fetch_everything_once() {
    let Some(world) = World::new(spec(), Setup::default()) else {
        return;
    };
    let server = world.start("server", "seed-server", &[]);
    let clients =
        ["one", "two"].map(|name| world.start(name, "crawl-client", &["--connections", "6"]));
    // The server asked nothing of the Web.
    assert_eq!(server.ends_with_the_crawl(), 0);
    let shares = clients.map(Node::ends_with_the_crawl);
    assert!(shares.iter().all(|share| *share > 50), "{shares:?}");
    let report = world.judge();
    assert_eq!(report.repeats, 0, "{report}");
    world.judge_archive();
    let server = world.of("server");
    assert_eq!(
        (server.pages, server.partitions.len()),
        (0, 6),
        "{server:?}"
    );
    assert_eq!(server.expired, 0, "{server:?}");
    assert_eq!(server.grants, server.returns, "{server:?}");
}

#[test]
fn what_a_lost_client_had_not_brought_is_granted_again() {
    let Some(world) = World::new(spec(), Setup::default()) else {
        return;
    };
    let server = world.start("server", "seed-server", &[]);
    let [lost, other] =
        ["lost", "other"].map(|name| world.start(name, "crawl-client", &["--connections", "4"]));
    world.wait_for_requests(120);
    signal(lost.child.id(), "KILL");
    lost.finish();
    world.site.witness().mark();
    server.ends_with_the_crawl();
    other.ends_with_the_crawl();
    let report = world.judge();
    // Its turns under way and those that were not shipped yet, each of a few URLs.
    assert!(report.repeats <= 100, "{report}");
    assert!(world.of("server").expired > 0);
    world.judge_archive();
}

#[test]
fn clients_come_and_go_while_the_crawl_runs() {
    let Some(world) = World::new(spec().with_pages_per_host(40), Setup::default()) else {
        return;
    };
    let server = world.start("server", "seed-server", &[]);
    let leaves = world.start("leaves", "crawl-client", &["--connections", "3"]);
    world.wait_for_requests(80);
    let joins = world.start("joins", "crawl-client", &["--connections", "3"]);
    let has_pages = wait_until(PATIENCE, || world.of("joins").pages > 10);
    assert!(has_pages, "{:?}", world.status());
    signal(leaves.child.id(), "INT");
    let report = leaves.finish().succeeded().json();
    assert_eq!(text(&report, "stopped_by"), "signal");
    server.ends_with_the_crawl();
    joins.ends_with_the_crawl();
    let report = world.judge();
    assert_eq!(report.repeats, 0, "{report}");
    world.judge_archive();
}

/// A node that is killed and comes back does not know what it had granted.
#[test]
fn a_server_that_comes_back_leaves_alone_what_clients_may_be_asking() {
    let spec = spec()
        .with_hosts(24)
        .with_pages_per_host(6)
        .with_latency_ms(1_500.0);
    let setup = Setup {
        timeout_ms: 10_000,
        grant_ms: 6_000,
        ..Setup::default()
    };
    let Some(world) = World::new(spec, setup) else {
        return;
    };
    // It fetches, too: one host at a time.
    let both = ["--connections", "1"];
    let server = world.start("server", "both", &both);
    let client = world.start("client", "crawl-client", &["--connections", "8"]);
    let granted = wait_until(PATIENCE, || {
        world.wait_for_requests(1);
        world.of("client").connections >= 3
    });
    assert!(granted, "{:?}", world.status());
    signal(server.child.id(), "KILL");
    server.finish();
    world.site.witness().mark();
    let server = world.start("server", "both", &both);
    server.ends_with_the_crawl();
    client.ends_with_the_crawl();
    // Nobody was asked by two at once. What came back by grants that it did not know is asked for once more.
    let report = world.judge_manners();
    assert!(report.repeats <= 60, "{report}");
}

/// Whatever client reads the first page of a host that a seed redirects to.
#[test]
fn what_lies_where_seeds_redirect_to_is_fetched_by_all_clients() {
    const SITES: usize = 6;
    let mut pages = Vec::new();
    for site in 0..SITES {
        let www = format!("www.s{site}.test");
        let moved = format!(
            "HTTP/1.1 301 Moved Permanently\r\nLocation: http://{www}/\r\nConnection: close\r\nContent-Length: 0\r\n\r\n"
        );
        pages.push((format!("s{site}.test/"), moved));
        let links: String = (0..5)
            .map(|page| format!("<a href=/{page}>{page}</a>"))
            .collect();
        pages.push((format!("{www}/"), links));
        for page in 0..5 {
            let body = format!("<a href=/{page}/more>more</a>");
            pages.push((format!("{www}/{page}"), body));
            pages.push((format!("{www}/{page}/more"), "the end".to_owned()));
        }
    }
    let pages: Vec<(&str, &str)> = pages
        .iter()
        .map(|(url, body)| (url.as_str(), body.as_str()))
        .collect();
    let small = Small::serve(&pages);
    let seeds = (0..SITES).map(|site| format!("http://s{site}.test/"));
    let setup = Setup {
        scope: "host",
        elsewhere: Some((seeds.collect(), small.resolve())),
        ..Setup::default()
    };
    let Some(world) = World::new(spec().with_hosts(1), setup) else {
        return;
    };
    let server = world.start("server", "seed-server", &[]);
    let clients = ["one", "two", "three"]
        .map(|name| world.start(name, "crawl-client", &["--connections", "2"]));
    server.ends_with_the_crawl();
    for client in clients {
        client.ends_with_the_crawl();
    }
    let all: Vec<&str> = pages.iter().map(|(url, _)| *url).collect();
    assert_eq!(small.asked(), small::set(&all));
}

#[test]
fn a_lost_server_does_not_hold_up_what_is_for_the_other() {
    let setup = Setup {
        grant_ms: 60_000,
        ..Setup::default()
    };
    let spec = spec().with_hosts(40).with_pages_per_host(200);
    let Some(world) = World::new(spec, setup) else {
        return;
    };
    let [lost, stays] = ["lost", "stays"].map(|name| world.start(name, "seed-server", &[]));
    let client = world.start("client", "crawl-client", &["--connections", "12"]);
    let both_grant = wait_until(PATIENCE, || {
        world.of("lost").returns > 10 && world.of("stays").returns > 10
    });
    assert!(both_grant, "{:?}", world.status());
    signal(lost.child.id(), "KILL");
    lost.finish();
    let before = world.of("stays").returns;
    // What was granted by the lost one would be tried for a minute.
    let goes_on = wait_until(Duration::from_secs(30), || {
        world.of("stays").returns > before + 200
    });
    assert!(goes_on, "{:?}", world.status());
    let report = world.site.witness().report();
    assert!(report.violations.is_empty(), "{report}");
    assert_eq!(report.repeats, 0, "{report}");
    for node in [stays, client] {
        signal(node.child.id(), "KILL");
        node.finish();
    }
}

/// Many hosts have a robots.txt that is odd: several redirect to another host's.
fn judge_robots_elsewhere(nodes: &[(&str, &str)]) {
    let mut spec = spec().with_hosts(40).with_pages_per_host(6);
    spec.robots.odd_share = 0.9;
    let Some(world) = World::new(spec, Setup::default()) else {
        return;
    };
    let started: Vec<_> = nodes
        .iter()
        .map(|(node, role)| world.start(node, role, &["--connections", "8"]))
        .collect();
    for node in started {
        node.ends_with_the_crawl();
    }
    world.judge();
}

#[test]
fn peers_read_a_robots_txt_that_redirects_to_anothers_host() {
    judge_robots_elsewhere(&[("one", "both"), ("two", "both")]);
}

#[test]
fn clients_read_a_robots_txt_that_redirects_to_another_host() {
    judge_robots_elsewhere(&[
        ("server", "seed-server"),
        ("one", "crawl-client"),
        ("two", "crawl-client"),
    ]);
}

/// How long a crawl goes on after every URL was asked for at least once. Some pages are refused for ever, with "ask again
/// at once".
fn goes_on_for(nodes: &[(&str, &str)]) -> Option<Duration> {
    let mut spec = spec();
    spec.faults.error_share = 0.2;
    spec.faults.errors = vec![Fault::NotFound, Fault::TooMany];
    let world = World::new(spec, Setup::default())?;
    let nodes: Vec<_> = nodes
        .iter()
        .map(|(name, role)| world.start(name, role, &[]))
        .collect();
    let truth = world.site.truth(&TruthQuery::default());
    let has_asked_all = || {
        let asked = world.site.witness().per_url();
        truth.missed(&asked).is_empty()
    };
    assert!(wait_until(PATIENCE, has_asked_all), "{:?}", world.status());
    let begun = Instant::now();
    for node in nodes {
        node.ends_with_the_crawl();
    }
    let took = begun.elapsed();
    let report = world.judge();
    println!("{took:?}: {report}");
    Some(took)
}

/// For URLs that are due once more beside those that are refused, 3 s of waiting for these, and some looks at all partitions, on
/// a busy machine.
const END_WITHIN: Duration = Duration::from_secs(45);

#[test]
fn what_clients_are_refused_for_ever_does_not_hold_the_end_up() {
    let nodes = [
        ("server", "seed-server"),
        ("one", "crawl-client"),
        ("two", "crawl-client"),
    ];
    if let Some(took) = goes_on_for(&nodes) {
        assert!(took < END_WITHIN, "{took:?}");
    }
}

#[test]
fn what_peers_are_refused_for_ever_does_not_hold_the_end_up() {
    if let Some(took) = goes_on_for(&[("one", "both"), ("two", "both")]) {
        assert!(took < END_WITHIN, "{took:?}");
    }
}
