//! `portolan fleet` as a person types it: what is made, told and refused, each refusal in one sentence.

mod harness;

use harness::{Ran, Site, number, portolan, run, text};
use portolan_fleet::local::{LocalServers, nats_server};
use portolan_fleet::{Commit, Fleet, Joining, ShipRecord, WarcChunk};
use portolan_simweb::WebSpec;
use std::path::{Path, PathBuf};
use tempfile::TempDir;
use tokio::runtime::Runtime;

struct World {
    dir: TempDir,
    servers: LocalServers,
    // Last: what is above needs it.
    runtime: Runtime,
}

impl World {
    fn new() -> Option<Self> {
        if nats_server().is_none() {
            println!("not run: no nats-server");
            assert!(std::env::var_os("CI").is_none(), "there is no nats-server");
            return None;
        }
        let runtime = Runtime::new().expect("a runtime");
        let servers = runtime
            .block_on(LocalServers::start(1, ""))
            .expect("servers");
        let dir = TempDir::new().expect("a directory");
        Some(Self {
            dir,
            servers,
            runtime,
        })
    }

    fn store(&self) -> String {
        self.dir.path().join("store").display().to_string()
    }

    fn fleet(&self, command: &str, more: &[&str]) -> Ran {
        let mut portolan = portolan();
        portolan
            .args(["fleet", command])
            .args(more)
            .args(["--nats", &self.servers.servers().urls[0]]);
        run(&mut portolan)
    }

    fn new_fleet(&self, name: &str) {
        let sizes = ["--link-disk", "1", "--log-disk", "1", "--partitions", "4"];
        let made = self.fleet(
            "new",
            &[
                &[name, "--blobs", &self.store(), "http://a.test/"][..],
                &sizes,
            ]
            .concat(),
        );
        made.succeeded();
    }

    fn status(&self, name: &str) -> serde_json::Value {
        let ran = self.fleet("status", &[name, "--json"]);
        serde_json::from_str(&ran.succeeded().out).expect("JSON")
    }
}

/// One sentence, and the exit code of bad input.
#[track_caller]
fn refused(ran: &Ran, said: &str) {
    assert_eq!(ran.code, Some(2), "{ran:?}");
    assert_eq!(ran.err.lines().count(), 1, "{}", ran.err);
    assert!(ran.err.contains(said), "{}", ran.err);
}

#[test]
fn a_fleet_is_made_looked_at_and_told_what_to_do() {
    let Some(world) = World::new() else { return };
    world.new_fleet("web");
    let status = world.status("web");
    assert_eq!(
        (
            text(&status, "wish"),
            number(&status, "free"),
            number(&status, "partitions")
        ),
        ("run", 4, 4)
    );
    for (command, wish) in [("stop", "stop"), ("go-on", "run"), ("end", "end")] {
        world.fleet(command, &["web"]).succeeded();
        assert_eq!(text(&world.status("web"), "wish"), wish);
    }
    let said = world.fleet("status", &["web", "--watch"]).succeeded().out;
    assert!(said.starts_with("The fleet 'web' was ended.\n"), "{said}");
}

#[test]
fn what_cannot_be_done_is_told_in_a_sentence() {
    let Some(world) = World::new() else { return };
    let store = world.store();
    world.new_fleet("web");
    let new = |more: &[&str]| world.fleet("new", more);
    refused(
        &new(&["web", "--blobs", &store, "http://a.test/"]),
        "there is a fleet 'web' already",
    );
    refused(
        &new(&["w b", "--blobs", &store, "http://a.test/"]),
        "'w b' is no name",
    );
    refused(&new(&["two", "--blobs", &store]), "no SEED given");
    refused(
        &new(&["two", "--blobs", &store, "http://"]),
        "the seed 'http://'",
    );
    refused(
        &new(&["two", "--blobs", "/proc/no", "http://a.test/"]),
        "cannot be written",
    );
    refused(
        &new(&["two", "--blobs", "ftp://a/b", "http://a.test/"]),
        "is no place for a store",
    );
    refused(
        &new(&["two", "--blobs", &store, "--lease", "1s", "http://a.test/"]),
        "--lease",
    );
    let config = world.dir.path().join("web.toml");
    std::fs::write(&config, "[partition]\nmethod = \"vector\"\n").expect("written");
    let config = config.display().to_string();
    refused(
        &new(&[
            "two",
            "--blobs",
            &store,
            "--config",
            &config,
            "http://a.test/",
        ]),
        "partition.method",
    );
    refused(&world.fleet("status", &["two"]), "there is no fleet 'two'");
    refused(
        &world.fleet("drain", &["web", "nobody"]),
        "there is no node 'nobody'",
    );
    let mut far = portolan();
    refused(
        &run(far.args(["fleet", "status", "web", "--nats", "nats://192.0.2.1"])),
        "plain text",
    );
    let mut nobody = portolan();
    let ran = run(nobody.args(["fleet", "status", "web", "--nats", "nats://127.0.0.1:1"]));
    assert_eq!(ran.code, Some(1));
    assert!(
        ran.err
            .contains("no NATS server answers at nats://127.0.0.1:1"),
        "{}",
        ran.err
    );
}

#[test]
fn certificates_and_a_servers_configuration_are_written() {
    let dir = TempDir::new().expect("a directory");
    let certs = dir.path().join("certs");
    let make = |name: &str| run(portolan().args(["fleet", "certs"]).arg(&certs).arg(name));
    make("nats1.lan").succeeded();
    for file in ["ca.pem", "ca-key.pem", "nats1.lan.pem", "nats1.lan-key.pem"] {
        assert!(certs.join(file).exists(), "{file}");
    }
    make("node1").succeeded();
    refused(&make("node1"), "node1-key.pem");
    refused(&make("a/b"), "'a/b' is no host's name");
    let config = |hosts: &[&str]| run(portolan().args(["fleet", "nats-config"]).args(hosts));
    let three = config(&["a.lan", "b.lan", "c.lan", "--on", "b.lan", "--disk", "7"]);
    let said = three.succeeded().out;
    for part in [
        "server_name: \"b.lan\"",
        "nats-route://c.lan:6222",
        "max_file_store: 7GB",
        "verify_and_map: true",
    ] {
        assert!(said.contains(part), "{part}: {said}");
    }
    refused(&config(&["a.lan", "b.lan"]), "one server, three or five");
    refused(
        &config(&["a.lan", "--on", "b.lan"]),
        "'b.lan' is none of the servers",
    );
}

/// The WARC files of a crawl, shipped in pieces, come back byte for byte, with the index that the crawl wrote.
#[test]
fn pages_come_back_from_the_store() {
    let Some(world) = World::new() else { return };
    let site = Site::serve(
        WebSpec::demo()
            .with_hosts(3)
            .with_pages_per_host(10)
            .with_latency_ms(0.0),
    );
    run(&mut site.crawl()).succeeded();
    world.new_fleet("web");
    let archive = site.out().join("archive");
    let files: Vec<PathBuf> = std::fs::read_dir(&archive)
        .expect("an archive")
        .map(|entry| entry.expect("an entry").path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "gz"))
        .collect();
    assert!(!files.is_empty());
    world.runtime.block_on(ship(&world, &files));
    let pages = world.dir.path().join("pages");
    let fetch = || world.fleet("fetch", &["web", &pages.display().to_string()]);
    fetch().succeeded();
    for file in &files {
        let name = file.file_name().expect("a name");
        assert!(read(file) == read(&pages.join(name)), "{name:?}");
    }
    assert!(read(&site.out().join("index.cdxj")) == read(&pages.join("index.cdxj")));
    run(portolan().args(["warc", "verify"]).arg(&pages)).succeeded();
    let again = fetch().succeeded().out;
    assert!(again.contains("0 bytes of them fetched now"), "{again}");
}

fn read(path: &Path) -> Vec<u8> {
    std::fs::read(path).expect("a file")
}

async fn ship(world: &World, files: &[PathBuf]) {
    let fleet = Fleet::open(&world.servers.servers(), "web")
        .await
        .expect("the fleet");
    let joining = Joining {
        node: "a".to_owned(),
        incarnation: 1,
        fresh: true,
        place: "a".to_owned(),
        checksum: fleet.definition().checksum(),
        weight: 1.0,
    };
    let (node, _orders) = fleet.join(joining).await.expect("it joins");
    // What was never told of is not fetched.
    fleet
        .blobs()
        .put("warc/never-told.warc.gz/000000000000", "torn".into())
        .await;
    for (frame, file) in (1..).zip(files) {
        let name = file
            .file_name()
            .expect("a name")
            .to_string_lossy()
            .into_owned();
        let bytes = read(file);
        let mut chunks = Vec::new();
        for (at, piece) in (0..).zip(bytes.chunks(bytes.len().div_ceil(3))) {
            let offset = at * bytes.len().div_ceil(3) as u64;
            let key = format!("warc/{name}/{offset:012}");
            fleet.blobs().put(&key, piece.to_vec().into()).await;
            chunks.push(WarcChunk {
                file: name.clone(),
                offset,
                bytes: piece.len() as u64,
                key,
            });
        }
        let commit = Commit {
            incarnation: 1,
            first_frame: frame,
            last_frame: frame,
            journal: String::new(),
            warc: chunks,
            archive_end: None,
            pages: 0,
            partitions: Vec::new(),
        };
        node.ship(ShipRecord::Commit(commit))
            .await
            .expect("it ships");
    }
    node.leave().await;
}
