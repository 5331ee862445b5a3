//! A fleet's crawl as a person looks into it from a machine that is none of its nodes: by the fleet's name while it runs, with
//! settings that change meanwhile, and by the store's URL when the servers are gone.

mod harness;

use harness::{Ran, Site, finish, number, portolan, run, start, text, wait_until};
use portolan_fleet::local::{LocalServers, nats_server};
use portolan_simweb::{TruthQuery, WebSpec};
use std::collections::BTreeSet;
use std::path::PathBuf;
use std::process::{Child, Command};
use std::time::{Duration, Instant};
use tokio::runtime::Runtime;

struct World {
    site: Site,
    servers: LocalServers,
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
        let site = Site::serve(
            WebSpec::demo()
                .with_hosts(8)
                .with_pages_per_host(12)
                .with_latency_ms(5.0),
        );
        let runtime = Runtime::new().expect("a runtime");
        let servers = runtime
            .block_on(LocalServers::start(1, ""))
            .expect("servers");
        Some(Self {
            site,
            servers,
            _runtime: runtime,
        })
    }

    fn store(&self) -> PathBuf {
        self.site.path("store")
    }

    /// With a cache of its own.
    fn portolan(&self) -> Command {
        let mut portolan = portolan();
        portolan.env("PORTOLAN_CACHE", self.site.path("cache"));
        portolan
    }

    fn fleet(&self, command: &str, more: &[&str]) -> Ran {
        let nats = self.servers.servers().urls.join(",");
        run(self
            .portolan()
            .args(["fleet", command, "sea", "--nats", &nats])
            .args(more))
    }

    fn of_store(&self, command: &[&str], more: &[&str]) -> Ran {
        run(self.portolan().args(command).arg(self.store()).args(more))
    }

    fn registry_by_name(&self, more: &[&str]) -> Ran {
        let nats = self.servers.servers().urls.join(",");
        let mut registry = self.portolan();
        run(registry
            .args(["registry", "sea", "--nats", &nats])
            .args(more))
    }

    fn make(&self) {
        let config = self.site.path("sea.toml");
        // Two DSets; what they do not list goes by hash.
        let suffix = &self.site.web.spec().suffix;
        let settings = format!(
            "[[dset]]\nextensions = [\".h0.{suffix}\", \".h1.{suffix}\"]\n[[dset]]\nextensions = [\".h2.{suffix}\"]\n[scope]\nscope = \"any\"\n[politeness]\ndelay_ms = 200\nip_delay_ms = 0\nbackoff_ms = 50\nbackoff_max_ms = 200\n\
             [outages]\nwait_ms = 500\n[dns]\nresolve = [\"{}\"]\n[limits]\nthreads = 1\n[registry]\nmemory_mb = 64\n[fleet]\nship_ms = 200\n",
            self.site.resolve()
        );
        std::fs::write(&config, settings).expect("written");
        let (config, store) = (
            config.display().to_string(),
            self.store().display().to_string(),
        );
        let home = self.site.web.spec().home_url();
        let sizes = [
            "--link-disk",
            "1",
            "--log-disk",
            "1",
            "--partitions",
            "6",
            "--lease",
            "3s",
        ];
        let made = [&["--blobs", &store, "--config", &config, &home][..], &sizes].concat();
        self.fleet("new", &made).succeeded();
    }

    fn node(&self, name: &str) -> Child {
        let nats = self.servers.servers().urls.join(",");
        let mut node = self.portolan();
        node.args(["node", "sea", "--json", "--node", name, "--nats", &nats])
            .arg("--dir");
        start(node.arg(self.site.path(name)))
    }
}

#[test]
fn a_crawl_is_looked_into_while_it_runs_and_when_the_servers_are_gone() {
    let Some(mut world) = World::new() else {
        return;
    };
    world.make();
    // Nothing is there yet, and that is told.
    assert_eq!(
        number(
            &world.fleet("report", &["--json"]).succeeded().json(),
            "pages"
        ),
        0
    );
    let begun = Instant::now();
    let nodes = ["a", "b"].map(|name| world.node(name));
    let reported = || {
        number(
            &world.fleet("report", &["--json"]).succeeded().json(),
            "pages",
        )
    };
    assert!(wait_until(Duration::from_secs(60), || reported() > 3));
    assert!(reported() < 60, "it is not slowed down");
    let known = world
        .fleet("urls", &["--state", "due", "--json"])
        .succeeded()
        .json_lines();
    assert!(!known.is_empty());
    let why = world
        .fleet("why", &[text(&known[0], "url"), "--json"])
        .succeeded()
        .json();
    assert!(!text(&why, "url").is_empty());
    let refused = world.fleet("config", &["--set", "scope.max_depth=2"]);
    assert_eq!(
        (refused.code, refused.err.lines().count()),
        (Some(2), 1),
        "{refused:?}"
    );
    world
        .fleet("config", &["--set", "politeness.delay_ms=1"])
        .succeeded();
    let printed = world.fleet("config", &[]).succeeded().out;
    assert!(printed.contains("delay_ms = 1\n"), "{printed}");
    for node in nodes {
        let ran = finish(node, begun).succeeded();
        assert_eq!(text(&ran.json(), "stopped_by"), "done", "{}", ran.err);
        assert!(ran.err.contains("settings have changed"), "{}", ran.err);
    }
    let truth = world.site.truth(&TruthQuery::default());
    let witness = world.site.witness();
    assert_eq!(witness.report().repeats, 0);
    assert!(truth.missed(&witness.per_url()).is_empty());

    // What nodes did is told when they have left, too.
    let traffic = world.fleet("traffic", &["--json"]).succeeded().json();
    let of = |node: &str, what: &str| number(&traffic["nodes"][node], what);
    assert!(of("a", "link_messages") > 0 && of("b", "link_messages") > 0);
    let report = world.fleet("report", &["--json"]).succeeded().json();
    let requests = of("a", "requests") + of("b", "requests");
    assert_eq!(requests, number(&report, "requests"), "{traffic}");
    let by_name = world.fleet("urls", &["--format", "csv"]).succeeded().out;
    let dset = format!(".h1.{}", world.site.web.spec().suffix);
    let top = ["--json", "--top", "1000", "--dset", &dset];
    let registry = world.registry_by_name(&top).succeeded();
    look_into_the_registry(&world, &registry);
    world.servers.kill(0);
    // The same without NATS, from the store alone, and into an empty cache.
    std::fs::remove_dir_all(world.site.path("cache")).expect("removed");
    let by_store = world.of_store(&["urls"], &["--format", "csv"]).succeeded();
    assert_eq!(by_name, by_store.out);
    assert!(by_store.err.contains("is read through"), "{}", by_store.err);
    let by_store = world.of_store(&["registry"], &top).succeeded();
    assert_eq!(registry.out, by_store.out);
    let rows = world
        .of_store(&["urls"], &["--state", "visited", "--json"])
        .succeeded()
        .json_lines();
    let visited: BTreeSet<&str> = rows.iter().map(|row| text(row, "url")).collect();
    for document in truth.documents() {
        assert!(
            visited.contains(document.to_string().as_str()),
            "{document}"
        );
    }
    let graph = world.of_store(&["graph"], &["--json"]).succeeded().json();
    assert_eq!(number(&graph, "pages"), visited.len() as u64);
    look_into_the_archive(&world, &visited);
}

/// What `portolan registry` tells of the first DSet: its two hosts and nothing else, the most linked first, and all of it.
#[track_caller]
fn look_into_the_registry(world: &World, registry: &Ran) {
    let rows = registry.json_lines();
    let host_of = |url: &str| url.split('/').nth(2).map(str::to_owned);
    let hosts: BTreeSet<_> = rows
        .iter()
        .filter_map(|row| host_of(text(row, "url")))
        .collect();
    let suffix = &world.site.web.spec().suffix;
    let listed = ["h0", "h1"].map(|host| format!("{host}.{suffix}"));
    assert_eq!(hosts, BTreeSet::from(listed));
    let counts: Vec<u64> = rows.iter().map(|row| number(row, "count")).collect();
    assert!(counts.is_sorted_by(|a, b| a >= b), "{counts:?}");
    let visited: BTreeSet<&str> = rows
        .iter()
        .filter(|row| row["visited"] == true)
        .map(|row| text(row, "url"))
        .collect();
    let truth = world.site.truth(&TruthQuery::default());
    for document in truth.documents() {
        let url = document.to_string();
        let is_listed = host_of(&url).is_some_and(|host| hosts.contains(&host));
        assert!(!is_listed || visited.contains(url.as_str()), "{url}");
    }
    let nats = world.servers.servers().urls.join(",");
    let unknown = run(world
        .portolan()
        .args(["registry", "no-such-sea", "--nats", &nats]));
    assert_eq!(unknown.err.lines().count(), 1, "{}", unknown.err);
    assert!(
        unknown.err.contains("there is no directory 'no-such-sea'"),
        "{}",
        unknown.err
    );
    assert_ne!(unknown.code, Some(0));
}

#[track_caller]
fn look_into_the_archive(world: &World, visited: &BTreeSet<&str>) {
    let verdicts = world
        .of_store(&["warc", "verify"], &["--json"])
        .succeeded()
        .json_lines();
    assert!(verdicts.len() >= 2);
    assert!(
        verdicts.iter().all(|verdict| verdict["sound"] == true),
        "{verdicts:?}"
    );
    let listed = world
        .of_store(&["warc", "list"], &["--json"])
        .succeeded()
        .json_lines();
    let archived: BTreeSet<&str> = listed.iter().map(|record| text(record, "url")).collect();
    assert!(visited.is_subset(&archived));
    let home = world.site.web.spec().home_url();
    let page = world
        .of_store(&["warc", "cat"], &["--url", &home, "--payload"])
        .succeeded()
        .out;
    assert!(page.contains("<html"), "{page}");
    // The index that the last node has merged has a line for each answer.
    let catalogue = world.store().join("catalogue");
    let names = std::fs::read_dir(&catalogue).expect("a catalogue");
    let names = names.map(|entry| entry.expect("an entry").path());
    let said: Vec<_> = names
        .filter(|path| path.extension().is_some_and(|e| e == "json"))
        .collect();
    assert_eq!(said.len(), 1, "{said:?}");
    let of: serde_json::Value =
        serde_json::from_slice(&std::fs::read(&said[0]).expect("read")).expect("JSON");
    let answers = listed
        .iter()
        .filter(|record| matches!(text(record, "type"), "response" | "revisit"));
    assert_eq!(number(&of, "lines"), answers.count() as u64);
}

#[test]
fn a_store_that_is_none_is_told_in_a_sentence() {
    let site = Site::serve(WebSpec::demo().with_hosts(1).with_pages_per_host(2));
    for (command, place, said) in [
        (
            &["graph"][..],
            "file:///proc/self/no-store",
            "no fleet has anything in",
        ),
        (
            &["urls"][..],
            &format!("file://{}", site.path("empty").display()),
            "no fleet has anything in",
        ),
        (
            &["warc", "list"][..],
            "s3:///web",
            "is no place for a store",
        ),
    ] {
        let ran = run(portolan()
            .env("PORTOLAN_CACHE", site.path("cache"))
            .args(command)
            .arg(place));
        assert_eq!((ran.code, ran.err.lines().count()), (Some(2), 1), "{ran:?}");
        assert!(ran.err.contains(said), "{}", ran.err);
    }
}
