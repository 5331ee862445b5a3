//! Seed-servers above seed-servers: two groups under a hub, each on a leaf nats-server of its own, crawl one Web between
//! them: complete, once, polite, allowed, each what is its own; and the hub may die meanwhile.

mod harness;

use harness::{Ran, Site, finish, number, portolan, text, wait_until};
use portolan_fleet::local::{LocalServers, nats_server};
use portolan_fleet::{Fleet, HubView};
use portolan_simweb::{Fault, TruthQuery, WebSpec, WitnessReport};
use std::collections::{BTreeMap, BTreeSet};
use std::process::Child;
use std::time::{Duration, Instant};
use tokio::runtime::Runtime;

const CRAWL: &str = "sea";
const PATIENCE: Duration = Duration::from_secs(60);
/// Of the first group's DSet, of the second one's, and of none.
const HOSTS: [std::ops::Range<u32>; 3] = [0..8, 8..16, 16..24];

struct World {
    site: Site,
    groups: [Fleet; 2],
    servers: LocalServers,
    // Last: what is above needs it.
    runtime: Runtime,
}

struct Node {
    child: Child,
    begun: Instant,
}

fn spec() -> WebSpec {
    let mut spec = WebSpec::demo()
        .with_hosts(24)
        .with_pages_per_host(30)
        .with_latency_ms(15.0);
    spec.odd.host_share = 0.1;
    spec.faults.retry_after_s = 0;
    // A page that refuses for ever is waited for.
    spec.faults.errors = vec![Fault::NotFound, Fault::ServerError, Fault::TooManyThenOk];
    spec
}

impl World {
    /// `None` where there is no nats-server; with CI set, that is a failure.
    fn new(spec: WebSpec, ip_delay_ms: u64) -> Option<Self> {
        if nats_server().is_none() {
            println!("not run: no nats-server");
            assert!(std::env::var_os("CI").is_none(), "there is no nats-server");
            return None;
        }
        let site = Site::serve(spec);
        site.witness().expect_ip_delay_ms(ip_delay_ms);
        let runtime = Runtime::new().expect("a runtime");
        let servers = runtime
            .block_on(LocalServers::start_under_a_hub(&["s1", "s2"]))
            .expect("servers");
        let block = |hosts: &std::ops::Range<u32>, group: &str| {
            let name = |host| format!("\".{}\"", site.web.host_name(host));
            let names: Vec<String> = hosts.clone().map(name).collect();
            let names = names.join(", ");
            format!("[[dset]]\nextensions = [{names}]\ngroup = \"{group}\"\n")
        };
        let blocks = block(&HOSTS[0], "s1") + &block(&HOSTS[1], "s2");
        // Without a pause between the requests to a host, none is kept for addresses either.
        let delay_ms = ip_delay_ms.min(1);
        let config = site.config(&format!(
            "{blocks}[scope]\nscope = \"any\"\n[politeness]\ndelay_ms = {delay_ms}\nip_delay_ms = {ip_delay_ms}\nresponse_time_factor = 0.0\nbackoff_ms = 50\nbackoff_max_ms = 200\n\
             [outages]\nwait_ms = 3000\n[dns]\nresolve = [\"{}\"]\n[limits]\nthreads = 1\nconnections = 16\nturn_urls = 4\n[http]\nrequest_timeout_ms = 3000\n\
             [archive]\ncommit_ms = 20\nfile_bytes = 400000\n[registry]\ncheckpoint_log_mb = 1\nmemory_mb = 64\n\
             [identity]\ncontact = \"https://example.org/crawler\"\n[fleet]\nship_ms = 300\ngrant_ms = 1000\n",
            site.resolve()
        ));
        let nats = |number: usize| servers.server(number).urls.join(",");
        let mut new = portolan();
        new.args([
            "fleet",
            "new",
            CRAWL,
            "--groups",
            "s1,s2",
            "--partitions",
            "8",
        ])
        .args(["--nats", &nats(0)])
        .arg("--config")
        .arg(&config)
        .arg(site.web.spec().home_url());
        harness::run(&mut new).succeeded();
        let groups = [1, 2].map(|number| {
            let group = format!("s{number}");
            let mut new = portolan();
            new.args(["fleet", "new", CRAWL, "--group", &group, "--lease", "3s"])
                .args(["--nats", &nats(number), "--link-disk", "1"])
                .args(["--log-disk", "1", "--up-disk", "1"])
                .arg("--blobs")
                .arg(site.path(&group));
            harness::run(&mut new).succeeded();
            let opened = Fleet::open(&servers.server(number), &format!("{CRAWL}-{group}"));
            runtime.block_on(opened).expect("the group's fleet")
        });
        Some(Self {
            site,
            groups,
            servers,
            runtime,
        })
    }

    /// A node of a group, which is 1 or 2.
    fn start(&self, group: usize, node: &str, more: &[&str]) -> Node {
        let mut command = portolan();
        command
            .args(["node", &format!("{CRAWL}-s{group}"), "--json", "-v"])
            .args(["--nats", &self.servers.server(group).urls.join(",")])
            .args(["--node", node])
            .args(more)
            .arg("--dir")
            .arg(self.site.path(&format!("s{group}-{node}")));
        Node {
            child: harness::start(&mut command),
            begun: Instant::now(),
        }
    }

    /// What a person is told who asks on a server.
    fn status(&self, server: usize, name: &str) -> String {
        let mut status = portolan();
        status
            .args(["fleet", "status", name, "--nats"])
            .arg(self.servers.server(server).urls.join(","));
        harness::run(&mut status).succeeded().out
    }

    fn hub_of(&self, group: usize) -> HubView {
        let status = self.runtime.block_on(self.groups[group - 1].status());
        status.expect("a status").hub.expect("it has a hub")
    }

    /// Requests to the hosts of a group's DSet.
    fn requests(&self, group: usize) -> u64 {
        let hosts: BTreeSet<String> = HOSTS[group - 1]
            .clone()
            .map(|host| self.site.web.host_name(host))
            .collect();
        let asked = self.site.witness().per_host().into_iter();
        asked
            .filter(|host| hosts.contains(&host.host))
            .map(|host| host.requests)
            .sum()
    }

    /// By host: which groups have answers of it in their archives, and how many.
    fn archived(&self) -> BTreeMap<String, BTreeMap<usize, usize>> {
        let mut archived: BTreeMap<String, BTreeMap<usize, usize>> = BTreeMap::new();
        for group in [1, 2] {
            let dir = self.site.path(&format!("fetched-{group}"));
            let mut fetch = portolan();
            fetch
                .args(["fleet", "fetch", &format!("{CRAWL}-s{group}")])
                .arg(&dir)
                .args(["--nats", &self.servers.server(group).urls.join(",")]);
            harness::run(&mut fetch).succeeded();
            for verdict in harness::ask(&dir, &["warc verify", "--json"]).json_lines() {
                assert_eq!(verdict["sound"], true, "{verdict}");
            }
            for record in harness::ask(&dir, &["warc list", "--json"]).json_lines() {
                if matches!(text(&record, "type"), "response" | "revisit") {
                    let host = text(&record, "url").split('/').nth(2).expect("a host");
                    let of = archived.entry(host.to_owned()).or_default();
                    *of.entry(group).or_default() += 1;
                }
            }
        }
        archived
    }

    /// Everything was fetched, by the rules, once, and by the group whose it is.
    #[track_caller]
    fn judge(&self) -> WitnessReport {
        let truth = self.site.truth(&TruthQuery::default());
        let missed = truth.missed(&self.site.witness().per_url());
        assert!(missed.is_empty(), "{missed:?}");
        let report = self.site.witness().report();
        println!("{} requests, {} repeats", report.requests, report.repeats);
        assert!(report.violations.is_empty(), "{report}");
        assert_eq!(report.repeats, 0, "{report}");
        let archived = self.archived();
        for (host, groups) in &archived {
            assert_eq!(groups.len(), 1, "{host} is in both archives: {groups:?}");
        }
        for group in [1, 2] {
            for host in HOSTS[group - 1].clone() {
                let name = self.site.web.host_name(host);
                let groups = archived.get(&name);
                let by: Vec<_> = groups.into_iter().flat_map(BTreeMap::keys).collect();
                assert!(by.is_empty() || by == [&group], "{name}: {groups:?}");
            }
        }
        let of = |group: usize| {
            let hosts = archived.values().filter(|by| by.contains_key(&group));
            hosts.count()
        };
        println!("hosts: {} by s1, {} by s2", of(1), of(2));
        assert!(of(1) >= 6 && of(2) >= 6, "{archived:?}");
        report
    }
}

impl Node {
    #[track_caller]
    fn finish(self) -> Ran {
        finish(self.child, self.begun)
    }

    /// Ends with the crawl; how many requests it made.
    #[track_caller]
    fn ends_with_the_crawl(self) -> u64 {
        let ran = self.finish().succeeded();
        let report = ran.json();
        assert_eq!(text(&report, "stopped_by"), "done", "{}", ran.err);
        number(&report, "requests_this_run")
    }
}

/// WEB-SAILOR's figure 5: S1 and S2, each with clients of its own, under S12. The seed is one of S1's: all that S2's clients
/// fetch has come down to it, and what they find of S1's DSet goes up.
#[test]
fn two_seed_servers_under_a_hub_fetch_everything_once() {
    let Some(world) = World::new(spec(), 0) else {
        return;
    };
    let server = ["--role", "seed-server"];
    let client = ["--role", "crawl-client", "--connections", "6"];
    let servers = [1, 2].map(|group| world.start(group, "server", &server));
    let clients = [(1, "c11"), (1, "c12"), (2, "c21")];
    let clients = clients.map(|(group, name)| world.start(group, name, &client));
    let met = wait_until(PATIENCE, || world.status(0, CRAWL).contains("sea-s2 ("));
    assert!(met, "{}", world.status(0, CRAWL));
    for server in servers {
        assert_eq!(
            server.ends_with_the_crawl(),
            0,
            "a server asks nothing of the Web"
        );
    }
    let shares = clients.map(Node::ends_with_the_crawl);
    assert!(shares.iter().all(|share| *share > 20), "{shares:?}");
    world.judge();
    let said = world.status(0, CRAWL);
    println!("{said}{}", world.status(2, "sea-s2"));
    assert!(
        said.contains("The crawl 'sea' of 2 groups is complete."),
        "{said}"
    );
    for group in [1, 2] {
        let up = world.hub_of(group).up;
        assert!(up.values().all(|messages| *messages == 0), "{up:?}");
    }
}

/// The hub's server is killed while both groups are at work. Each goes on with what is its own; what is for the other one
/// waits, and arrives when the hub is back.
#[test]
fn the_hub_dies_and_the_leaves_go_on() {
    let web = spec().with_pages_per_host(50).with_latency_ms(100.0);
    let Some(mut world) = World::new(web, 0) else {
        return;
    };
    let nodes = [(1, "a"), (1, "b"), (2, "c"), (2, "d")];
    let nodes = nodes.map(|(group, name)| world.start(group, name, &[]));
    let both = |world: &World| [1, 2].map(|group| world.requests(group));
    let begun = wait_until(PATIENCE, || both(&world).iter().all(|asked| *asked > 40));
    assert!(begun, "{:?}", both(&world));
    world.servers.kill(0);
    let before = both(&world);
    let away = wait_until(PATIENCE, || {
        let now = both(&world);
        let goes_on = (0..2).all(|group| now[group] > before[group] + 40);
        let waits = |group| {
            world
                .hub_of(group)
                .up
                .values()
                .any(|messages| *messages > 0)
        };
        goes_on && waits(1) && waits(2)
    });
    assert!(away, "{before:?} {:?} {:?}", both(&world), world.hub_of(1));
    let told = wait_until(PATIENCE, || {
        world
            .status(1, "sea-s1")
            .contains("under the hub 'hub': away for")
    });
    let said = world.status(1, "sea-s1");
    println!("{said}");
    assert!(told, "{said}");
    println!(
        "requests when the hub was killed {before:?}, before it is back {:?}",
        both(&world)
    );
    let back = Instant::now();
    world.servers.restart(0).expect("it starts");
    for node in nodes {
        node.ends_with_the_crawl();
    }
    println!(
        "the crawl ended {:.0} s after the hub's start",
        back.elapsed().as_secs_f64()
    );
    world.judge();
}

/// All hosts are at one address: nodes of both groups ask it, one at a time.
#[test]
fn an_address_is_asked_by_one_node_of_all_groups_at_a_time() {
    const PAUSE_MS: u64 = 40;
    let few = spec().with_pages_per_host(4).with_latency_ms(5.0);
    let Some(world) = World::new(few, PAUSE_MS) else {
        return;
    };
    let nodes = [(1, "a"), (2, "a")].map(|(group, name)| world.start(group, name, &[]));
    let shares = nodes.map(Node::ends_with_the_crawl);
    assert!(shares.iter().all(|share| *share > 5), "{shares:?}");
    let report = world.judge();
    let [address] = &report.ips[..] else {
        panic!("all hosts are at one address: {report}");
    };
    assert_eq!(address.most_at_once, 1, "{report}");
    assert!(address.min_gap_ms >= Some(PAUSE_MS as f64), "{report}");
}

#[test]
fn what_groups_cannot_have_is_told_in_a_sentence() {
    let Some(world) = World::new(spec(), 0) else {
        return;
    };
    let nats = |number: usize| world.servers.server(number).urls.join(",");
    let vector = world.site.path("cut.toml");
    std::fs::write(
        &vector,
        "[[dset]]\nextensions = [\"edu\"]\ngroup = \"s9\"\n",
    )
    .expect("a file");
    let vector = vector.display().to_string();
    let cases: [(usize, &[&str], &str); 5] = [
        (
            0,
            &[
                "new", "other", "--groups", "s1,s2", "--config", &vector, "a.test",
            ],
            "'s9'",
        ),
        (
            0,
            &[
                "new",
                "other",
                "--groups",
                "s1,s2,s3",
                "--partitions",
                "2",
                "a.test",
            ],
            "'s3' would have no partition",
        ),
        (
            0,
            &[
                "new", "other", "--blobs", "/tmp/x", "--config", &vector, "a.test",
            ],
            "and this fleet is alone",
        ),
        (0, &["report", CRAWL], "ask one of them: sea-s1, sea-s2"),
        (
            1,
            &["new", CRAWL, "--group", "s3", "--blobs", "/tmp/x"],
            "'s3' is none of them",
        ),
    ];
    for (server, arguments, said) in cases {
        let mut fleet = portolan();
        fleet
            .arg("fleet")
            .args(arguments)
            .args(["--nats", &nats(server)]);
        let ran = harness::run(&mut fleet);
        assert_eq!(ran.code, Some(2), "{arguments:?}: {}", ran.err);
        assert!(ran.err.contains(said), "{arguments:?}: {}", ran.err);
    }
}
