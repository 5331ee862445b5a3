//! `portolan fleet` as a person types it: what is made, told and refused, each refusal in one sentence.

mod harness;

use harness::{Ran, Site, number, portolan, run, text, wait_until};
use portolan_fleet::local::{LocalServers, nats_server};
use portolan_fleet::{Commit, Fleet, Joining, ShipRecord, WarcChunk};
use portolan_simweb::WebSpec;
use std::io::{BufRead, BufReader, Write};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
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
        "seed 'http://' (the command line)",
    );
    refused(
        &new(&["two", "--blobs", &store, "http://127.0.0.1:1/"]),
        "port 1 is that of tcpmux",
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
    std::fs::write(&config, "[limits]\nmax_pages = 7\n").expect("written");
    let limited = config.display().to_string();
    refused(
        &new(&[
            "two",
            "--blobs",
            &store,
            "--config",
            &limited,
            "http://a.test/",
        ]),
        "--max-pages",
    );
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
        "partition.vector: it names no file",
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

/// What a server says of itself before anything else, and the answer to the first ping.
fn server_that_is(version: &'static str) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = listener.local_addr().expect("an address").port();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.expect("a connection");
            let info = format!(
                "INFO {{\"server_id\":\"S\",\"version\":\"{version}\",\"host\":\"127.0.0.1\",\"port\":{port},\"max_payload\":1048576,\"proto\":1,\"headers\":true}}\r\n"
            );
            stream.write_all(info.as_bytes()).expect("said");
            let mut lines = BufReader::new(stream.try_clone().expect("the same")).lines();
            while let Some(Ok(line)) = lines.next() {
                if line.starts_with("PING") {
                    let _ = stream.write_all(b"PONG\r\n");
                }
            }
        }
    });
    port
}

#[test]
fn servers_that_will_not_do_are_told_in_a_sentence() {
    let dir = TempDir::new().expect("a directory");
    let url = format!("nats://127.0.0.1:{}", server_that_is("2.9.10"));
    let made = |url: &str| {
        let mut portolan = portolan();
        portolan.args([
            "fleet",
            "new",
            "web",
            "--nats",
            url,
            "http://a.test/",
            "--blobs",
        ]);
        run(portolan.arg(dir.path().join("store")))
    };
    refused(&made(&url), "is 2.9.10: 2.10 or later is needed");
    let mut node = portolan();
    node.args(["node", "web", "--nats", &url, "--dir"]);
    refused(
        &run(node.arg(dir.path().join("node"))),
        "2.10 or later is needed",
    );
    assert!(!dir.path().join("node").exists());
    refused(&made("http://127.0.0.1"), "is no address of a NATS server");
    if nats_server().is_none() {
        return;
    }
    let port = TcpListener::bind("127.0.0.1:0")
        .and_then(|free| free.local_addr())
        .expect("a port")
        .port();
    let config = format!("listen: \"127.0.0.1:{port}\"\n");
    let _server = LocalServers::start_with(&config, port).expect("a server");
    let url = format!("nats://127.0.0.1:{port}");
    let come = wait_until(Duration::from_secs(20), || {
        !made(&url).err.contains("no NATS server")
    });
    assert!(come);
    refused(&made(&url), "has no JetStream");
}

/// The store says whose it is, and by which version's format.
#[test]
fn a_store_of_another_fleet_or_format_is_refused() {
    let Some(world) = World::new() else { return };
    world.new_fleet("web");
    let store = world.store();
    refused(
        &world.fleet("new", &["two", "--blobs", &store, "http://a.test/"]),
        "belongs to the fleet 'web' already",
    );
    let definition = Path::new(&store).join("fleet.json");
    let text = std::fs::read_to_string(&definition).expect("a definition");
    std::fs::write(
        &definition,
        text.replacen("\"format\":3", "\"format\":99", 1),
    )
    .expect("written");
    let mut urls = portolan();
    refused(
        &run(urls
            .env("PORTOLAN_CACHE", world.dir.path())
            .arg("urls")
            .arg(&store)),
        "whose format is 99",
    );
    refused(&world.fleet("new-session", &["web"]), "one session");
    refused(
        &world.fleet("config", &["web", "--max-pages", "5"]),
        "without a limit",
    );
}

/// Two processes with one name or one directory: the second is refused, and the first goes on.
#[test]
fn a_name_and_a_directory_are_of_one_node() {
    let Some(world) = World::new() else { return };
    let short = [
        "web",
        "--blobs",
        &world.store(),
        "--lease",
        "3s",
        "http://127.0.0.1:9999/",
    ];
    let sizes = ["--link-disk", "1", "--log-disk", "1", "--partitions", "4"];
    world
        .fleet("new", &[&short[..], &sizes].concat())
        .succeeded();
    let node = |dir: &str, name: &str| {
        let mut node = portolan();
        node.args([
            "node",
            "web",
            "--node",
            name,
            "--nats",
            &world.servers.servers().urls[0],
            "--dir",
        ]);
        node.arg(world.dir.path().join(dir));
        node
    };
    let begun = Instant::now();
    let first = harness::start(&mut node("one", "a"));
    let alive = || world.status("web")["nodes"]["a"]["alive"] == true;
    assert!(wait_until(Duration::from_secs(20), alive));
    refused(&run(&mut node("two", "a")), "choose another name");
    refused(&run(&mut node("one", "a")), "--dir");
    assert!(alive());
    harness::signal(first.id(), "INT");
    harness::finish(first, begun).succeeded();
    refused(&run(&mut node("one", "b")), "give --node a");
}
