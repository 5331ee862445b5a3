//! A fleet that is divided by a part vector and gives the sites that this does not list to whoever finds them first: each site
//! has one partition, mostly one whose page led there, also where nodes are killed and their partitions go to others.

mod harness;

use harness::{Ran, Site, finish, number, portolan, run, signal, start, text, wait_until};
use portolan_crawl::Crawl;
use portolan_fleet::local::{LocalServers, nats_server};
use portolan_graph::PartVector;
use portolan_model::{DocId, PartitionId, UrlKey};
use portolan_simweb::{TruthQuery, WebSpec, WitnessReport};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::process::Child;
use std::time::{Duration, Instant};
use tokio::runtime::Runtime;

const PARTS: u16 = 8;
/// The part vector lists as many hosts, one for each part.
const LISTED: u32 = PARTS as u32;
/// Sites that are asked how they were found.
const LOOKED_AT: usize = 6;
const PATIENCE: Duration = Duration::from_secs(60);

/// Sites that the part vector does not list.
#[derive(Debug, Default)]
struct Sites {
    unlisted: usize,
    /// The first of them, and those of these that a page of another site in their own partition led to.
    looked_at: usize,
    found: usize,
    /// They are not in the partition that a hash of their name says.
    away: usize,
}

impl Sites {
    #[track_caller]
    fn went_to_their_finders(&self) {
        assert!(self.unlisted > 30, "{self:?}");
        assert_eq!(self.found, LOOKED_AT, "{self:?}");
        assert!(2 * self.away > self.unlisted, "{self:?}");
    }
}

struct World {
    site: Site,
    servers: LocalServers,
    vector: PathBuf,
    // Last: what is above needs it.
    _runtime: Runtime,
}

impl World {
    fn new() -> Option<Self> {
        if nats_server().is_none() {
            println!("not run: no nats-server");
            assert!(std::env::var_os("CI").is_none(), "there is no nats-server");
            return None;
        }
        let mut spec = WebSpec::demo()
            .with_hosts(48)
            .with_pages_per_host(25)
            .with_latency_ms(10.0);
        spec.odd.host_share = 0.0;
        spec.faults.retry_after_s = 0;
        let site = Site::serve(spec);
        let runtime = Runtime::new().expect("a runtime");
        let servers = runtime
            .block_on(LocalServers::start(1, ""))
            .expect("servers");
        let vector = vector(&site);
        Some(Self {
            site,
            servers,
            vector,
            _runtime: runtime,
        })
    }

    fn fleet(&self, command: &str, more: &[&str]) -> Ran {
        let nats = self.servers.servers().urls.join(",");
        run(portolan()
            .env("PORTOLAN_CACHE", self.site.path("cache"))
            .args(["fleet", command, "found", "--nats", &nats])
            .args(more))
    }

    /// `claims`: the number of sites that are remembered.
    fn make(&self, claims: u32) {
        let config = self.site.config(&format!(
            "[politeness]\ndelay_ms = 0\nip_delay_ms = 0\nresponse_time_factor = 0.0\nbackoff_ms = 50\nbackoff_max_ms = 400\n\
             [http]\nrequest_timeout_ms = 3000\n[outages]\nwait_ms = 2000\n[scope]\nscope = \"any\"\n[dns]\nresolve = [\"{}\"]\n[limits]\nthreads = 1\nconnections = 8\n\
             [registry]\nmemory_mb = 64\ncheckpoint_log_mb = 1\n[archive]\ncommit_ms = 20\n[fleet]\nship_ms = 200\ngrant_ms = 1000\ncheckpoint_s = 2\n\
             [partition]\nmethod = \"vector\"\nvector = {:?}\nunlisted = \"discoverer\"\nmax_claims = {claims}\n",
            self.site.resolve(),
            self.vector.to_str().expect("a path in UTF-8"),
        ));
        let (config, store) = (
            config.display().to_string(),
            self.site.path("store").display().to_string(),
        );
        let home = self.site.web.spec().home_url();
        let made = ["--blobs", &store, "--config", &config, &home];
        let sizes = ["--link-disk", "1", "--log-disk", "1", "--lease", "3s"];
        self.fleet("new", &[&made[..], &sizes].concat()).succeeded();
    }

    fn node(&self, name: &str, role: &str) -> Child {
        let nats = self.servers.servers().urls.join(",");
        start(
            portolan()
                .args(["node", "found", "--json", "--node", name, "--nats", &nats])
                .args(["--role", role])
                .arg("--dir")
                .arg(self.site.path(name)),
        )
    }

    fn wait_for_requests(&self, more: u64) {
        let requests = || self.site.witness().report().requests;
        let until = requests() + more;
        assert!(wait_until(PATIENCE, || requests() >= until), "{until}");
    }

    #[track_caller]
    fn judge(&self) -> WitnessReport {
        let truth = self.site.truth(&TruthQuery::default());
        let missed = truth.missed(&self.site.witness().per_url());
        assert!(missed.is_empty(), "{missed:?}");
        let report = self.site.witness().report();
        assert!(report.violations.is_empty(), "{report}");
        assert_eq!(report.repeats_in_one_epoch, 0, "{report}");
        assert_eq!(report.most_at_once, 1, "{report}");
        report
    }

    /// Every site is in one partition.
    #[track_caller]
    fn judge_sites(&self) -> Sites {
        let rows = self.fleet("urls", &["--json"]).succeeded().json_lines();
        let by_url: BTreeMap<&str, &Value> =
            rows.iter().map(|row| (text(row, "url"), row)).collect();
        assert_eq!(by_url.len(), rows.len(), "a URL is in two partitions");
        let mut sites: BTreeMap<&str, (BTreeSet<u64>, Vec<&str>)> = BTreeMap::new();
        for (&url, row) in &by_url {
            let host = url.split('/').nth(2).expect("a host");
            let (partitions, urls) = sites.entry(host).or_default();
            partitions.insert(number(row, "partition"));
            urls.push(url);
        }
        let listed = PartVector::open(&self.vector).expect("a part vector");
        let mirror = self.mirror();
        let ids = Crawl::identities(&mirror).expect("the fleet's secret");
        let mut told = Sites::default();
        for (host, (partitions, urls)) in sites {
            assert_eq!(partitions.len(), 1, "{host} is in {partitions:?}");
            let owner = partitions.first().copied().expect("one");
            let key = UrlKey {
                doc: DocId(0),
                host: ids.host(host),
                url: "",
                host_name: host,
            };
            if let Some(part) = listed.find(key) {
                assert_eq!(u64::from(part.0), owner, "{host}");
                continue;
            }
            told.unlisted += 1;
            let home = PartitionId::of(key.host, PARTS);
            told.away += usize::from(u64::from(home.0) != owner);
            if told.looked_at == LOOKED_AT {
                continue;
            }
            told.looked_at += 1;
            let led_here = |url: &&str| {
                let story = self.fleet("why", &[url, "--json"]).succeeded().json();
                let page = story["found_on"].as_str().and_then(|page| by_url.get(page));
                let is_another = |page: &&&Value| text(page, "url").split('/').nth(2) != Some(host);
                page.filter(is_another)
                    .is_some_and(|page| number(page, "partition") == owner)
            };
            told.found += usize::from(urls.iter().any(led_here));
        }
        told
    }

    /// Where `fleet urls` has put what it read from the store.
    fn mirror(&self) -> PathBuf {
        let cache = std::fs::read_dir(self.site.path("cache")).expect("a cache");
        let mut dirs = cache.map(|entry| entry.expect("an entry").path());
        dirs.find(|path| path.is_dir()).expect("the fleet's")
    }
}

/// A part vector of `PARTS` parts that lists few hosts.
fn vector(site: &Site) -> PathBuf {
    let suffix = &site.web.spec().suffix;
    let node = |host: u32| format!("{host}\thttp://h{host}.{suffix}/\t100\n");
    let nodes: String = (0..LISTED).map(node).collect();
    let (nodes_file, edges_file) = (site.path("nodes.tsv"), site.path("edges.tsv"));
    std::fs::write(&nodes_file, nodes).expect("written");
    let edges: String = (1..LISTED)
        .map(|host| format!("{}\t{host}\n", host - 1))
        .collect();
    std::fs::write(&edges_file, edges).expect("written");
    let vector = site.path("few.pv");
    let parts = PARTS.to_string();
    run(portolan()
        .arg("partition")
        .args([&nodes_file, &edges_file])
        .args(["--by", "site", "--parts", &parts, "--json", "--out"])
        .arg(&vector))
    .succeeded();
    vector
}

#[track_caller]
fn ends_with_the_crawl(node: Child, begun: Instant) {
    let ran = finish(node, begun).succeeded();
    assert_eq!(text(&ran.json(), "stopped_by"), "done", "{}", ran.err);
}

#[test]
fn sites_go_to_who_finds_them_while_nodes_die() {
    let Some(world) = World::new() else {
        return;
    };
    world.make(1_000);
    let begun = Instant::now();
    let stays = world.node("stays", "both");
    let mut killed = world.node("killed", "both");
    let mut lost = world.node("lost", "both");
    world.wait_for_requests(150);
    // One comes back with its disk, the other's partitions are taken over.
    for node in [&mut killed, &mut lost] {
        signal(node.id(), "KILL");
        let ended = node.wait().expect("it ends");
        assert!(!ended.success());
        world.site.witness().mark();
        world.wait_for_requests(30);
    }
    std::fs::remove_dir_all(world.site.path("lost")).expect("its disk");
    let killed = world.node("killed", "both");
    for node in [stays, killed] {
        ends_with_the_crawl(node, begun);
    }
    let report = world.judge();
    assert!(report.repeats <= 300, "{report}");
    let sites = world.judge_sites();
    println!("{sites:?}: {report}");
    sites.went_to_their_finders();
}

#[test]
fn seed_servers_and_crawl_clients_do_the_same() {
    let Some(world) = World::new() else {
        return;
    };
    world.make(1_000);
    let begun = Instant::now();
    let nodes = [
        ("one", "seed-server"),
        ("two", "seed-server"),
        ("client", "crawl-client"),
    ];
    let nodes = nodes.map(|(name, role)| world.node(name, role));
    for node in nodes {
        ends_with_the_crawl(node, begun);
    }
    let report = world.judge();
    assert_eq!(report.repeats, 0, "{report}");
    world.judge_sites().went_to_their_finders();
}

#[test]
fn a_home_that_is_full_keeps_what_comes_after() {
    let Some(world) = World::new() else {
        return;
    };
    // Two for each home.
    world.make(2 * u32::from(PARTS));
    let begun = Instant::now();
    for node in ["one", "two"].map(|name| world.node(name, "both")) {
        ends_with_the_crawl(node, begun);
    }
    let report = world.judge();
    assert_eq!(report.repeats, 0, "{report}");
    let sites = world.judge_sites();
    assert!(sites.unlisted > 30, "{sites:?}");
    assert!(
        (1..=2 * usize::from(PARTS)).contains(&sites.away),
        "{sites:?}"
    );
}
