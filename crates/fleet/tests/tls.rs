//! Certificates and the servers' configuration, against a real server.

mod common;

use common::world;
use portolan_fleet::certs::write_certificates;
use portolan_fleet::local::{LocalServers, nats_server};
use portolan_fleet::{
    Fleet, FleetError, Hub, NewCrawl, NewFleet, NewGroup, ServerConfig, Servers, Tier, TlsFiles,
};
use std::net::TcpListener;
use std::path::Path;
use std::time::{Duration, Instant};

fn free_port() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    listener.local_addr().expect("an address").port()
}

fn files(dir: &Path, name: &str) -> TlsFiles {
    TlsFiles {
        ca: dir.join("ca.pem"),
        cert: dir.join(format!("{name}.pem")),
        key: dir.join(format!("{name}-key.pem")),
    }
}

fn servers(port: u16, tls: Option<TlsFiles>) -> Servers {
    Servers {
        urls: vec![format!("nats://localhost:{port}")],
        tls,
        insecure: false,
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn only_who_has_a_certificate_gets_in() {
    if nats_server().is_none() {
        println!("not run: no nats-server");
        assert!(std::env::var_os("CI").is_none(), "there is no nats-server");
        return;
    }
    let dir = tempfile::tempdir().expect("a directory");
    let certs = dir.path().join("certs");
    let first = write_certificates(&certs, &["localhost".to_owned()]).expect("certificates");
    assert!(first.new_authority);
    // A machine that comes later is signed by the same authority.
    let more = write_certificates(&certs, &["node-7".to_owned()]).expect("certificates");
    assert!(!more.new_authority);
    let again = write_certificates(&certs, &["node-7".to_owned()]);
    assert!(
        matches!(again, Err(FleetError::Certificates(_))),
        "{again:?}"
    );
    let strangers = dir.path().join("strangers");
    write_certificates(&strangers, &["node-7".to_owned()]).expect("certificates");
    let port = free_port();
    let config = ServerConfig {
        hosts: vec!["localhost".to_owned()],
        host: "localhost".to_owned(),
        certs: certs.clone(),
        store: dir.path().join("store"),
        disk_gb: 20,
        sync_always: true,
        port,
        cluster_port: 6222,
        tier: Tier::Alone,
    };
    let config = config
        .text()
        .expect("a configuration")
        .replace("0.0.0.0", "127.0.0.1");
    let _server = LocalServers::start_with(&config, port).expect("it starts");
    let new = NewFleet {
        name: "f".to_owned(),
        settings: String::new(),
        seeds: Vec::new(),
        partitions: 4,
        blobs: dir.path().join("blobs").display().to_string(),
        lease_ms: 3_000,
        max_pages: None,
        link_bytes: 1 << 30,
        log_bytes: 64 << 20,
    };
    let begun = Instant::now();
    let fleet = loop {
        match Fleet::create(&servers(port, Some(files(&certs, "node-7"))), new.clone()).await {
            Err(FleetError::NoServer { .. }) if begun.elapsed() < Duration::from_secs(60) => {
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
            made => break made.expect("a fleet"),
        }
    };
    assert_eq!(fleet.definition().partitions, 4);
    for tls in [None, Some(files(&strangers, "node-7"))] {
        let refused = Fleet::open(&servers(port, tls), "f").await;
        assert!(matches!(refused.err(), Some(FleetError::NoServer { .. })));
    }
    let missing = Fleet::open(&servers(port, Some(files(&certs, "node-8"))), "f").await;
    assert!(
        matches!(missing.err(), Some(FleetError::Certificates(what)) if what.contains("node-8"))
    );
}

/// The configurations of a hub and of a leaf: JetStream of the one is reached from the other, with certificates everywhere.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_leaf_reaches_its_hub() {
    if nats_server().is_none() {
        println!("not run: no nats-server");
        assert!(std::env::var_os("CI").is_none(), "there is no nats-server");
        return;
    }
    let dir = tempfile::tempdir().expect("a directory");
    let certs = dir.path().join("certs");
    write_certificates(&certs, &["localhost".to_owned()]).expect("certificates");
    let leaf_port = free_port();
    let start = |tier: Tier, name: &str| {
        let port = free_port();
        let config = ServerConfig {
            hosts: vec!["localhost".to_owned()],
            host: "localhost".to_owned(),
            certs: certs.clone(),
            store: dir.path().join(name),
            disk_gb: 20,
            sync_always: false,
            port,
            cluster_port: 6222,
            tier,
        };
        let text = config.text().expect("a configuration");
        let server = LocalServers::start_with(&text.replace("0.0.0.0", "127.0.0.1"), port);
        (server.expect("it starts"), port)
    };
    let hub = Tier::Hub {
        domain: "hub".to_owned(),
        leaf_port,
    };
    let leaf = Tier::Leaf {
        domain: "s1".to_owned(),
        hub: vec!["localhost".to_owned()],
        leaf_port,
    };
    let (_hub, hub_port) = start(hub, "hub");
    let (_leaf, leaf_port) = start(leaf, "s1");
    let tls = || Some(files(&certs, "localhost"));
    let crawl = NewCrawl {
        name: "web".to_owned(),
        settings: String::new(),
        seeds: Vec::new(),
        partitions: 2,
        groups: vec!["s1".to_owned(), "s2".to_owned()],
        owners: vec![0, 1],
    };
    let group = NewGroup {
        crawl: "web".to_owned(),
        group: "s1".to_owned(),
        hub_domain: "hub".to_owned(),
        blobs: dir.path().join("blobs").display().to_string(),
        lease_ms: 3_000,
        max_pages: None,
        link_bytes: 1 << 30,
        log_bytes: 64 << 20,
        up_bytes: 64 << 20,
    };
    let begun = Instant::now();
    let patient = || begun.elapsed() < Duration::from_secs(60);
    loop {
        match Hub::create(&servers(hub_port, tls()), crawl.clone()).await {
            Err(FleetError::NoServer { .. }) if patient() => {
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
            made => break made.map(drop).expect("a crawl"),
        }
    }
    let fleet = loop {
        match Fleet::create_group(&servers(leaf_port, tls()), group.clone()).await {
            Err(FleetError::NoServer { .. } | FleetError::NoHub { .. }) if patient() => {
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
            made => break made.expect("a group"),
        }
    };
    assert_eq!(fleet.definition().name, "web-s1");
}

#[tokio::test]
async fn plain_text_stays_on_this_machine() {
    let there = |url: &str, insecure| Servers {
        urls: vec![url.to_owned()],
        tls: None,
        insecure,
    };
    for url in [
        "nats://192.0.2.1:4222",
        "nats://a.example:4222",
        "192.0.2.1",
    ] {
        let refused = Fleet::open(&there(url, false), "f").await.err();
        assert!(
            matches!(refused, Some(FleetError::PlainText(_))),
            "{refused:?}"
        );
    }
    for url in ["http://127.0.0.1", "", "nats://"] {
        let refused = Fleet::open(&there(url, true), "f").await.err();
        assert!(
            matches!(refused, Some(FleetError::BadServer(_))),
            "{refused:?}"
        );
    }
    let nobody = Fleet::open(
        &there(&format!("nats://127.0.0.1:{}", free_port()), false),
        "f",
    )
    .await
    .err();
    assert!(
        matches!(nobody, Some(FleetError::NoServer { .. })),
        "{nobody:?}"
    );
}

#[tokio::test]
async fn servers_that_a_fleet_cannot_rely_on_are_told() {
    if nats_server().is_none() {
        println!("not run: no nats-server");
        return;
    }
    let port = free_port();
    let config = format!("listen: \"127.0.0.1:{port}\"");
    let _server = LocalServers::start_with(&config, port).expect("it starts");
    let begun = Instant::now();
    let refused = loop {
        match Fleet::open(&servers(port, None), "f").await.err() {
            Some(FleetError::NoServer { .. }) if begun.elapsed() < Duration::from_secs(60) => {
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
            refused => break refused,
        }
    };
    assert!(
        matches!(refused, Some(FleetError::NoJetStream(_))),
        "{refused:?}"
    );
}

/// What a server says of itself as a client hears it first.
#[tokio::test]
async fn a_server_that_is_too_old_is_told() {
    use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0")
        .await
        .expect("a port");
    let port = listener.local_addr().expect("an address").port();
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            tokio::spawn(async move {
                let info = r#"{"server_id":"x","version":"2.9.10","host":"127.0.0.1","port":4222,"max_payload":1048576,"headers":true,"proto":1}"#;
                let _ = stream
                    .write_all(format!("INFO {info}\r\n").as_bytes())
                    .await;
                let (read, mut write) = stream.into_split();
                let mut lines = BufReader::new(read).lines();
                while let Ok(Some(line)) = lines.next_line().await {
                    if line.starts_with("PING") {
                        let _ = write.write_all(b"PONG\r\n").await;
                    }
                }
            });
        }
    });
    let refused = Fleet::open(&servers(port, None), "f").await.err();
    let said = refused.map(|error| error.to_string()).unwrap_or_default();
    assert!(
        said.contains("2.9.10") && said.contains("2.10 or later"),
        "{said}"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_store_that_cannot_be_written_and_servers_without_room_are_told() {
    let Some(world) = world(1, "").await else {
        return;
    };
    let mut new = world.new_fleet("f");
    new.blobs = "/proc/nothing".to_owned();
    let refused = Fleet::create(&world.servers.servers(), new).await.err();
    assert!(
        matches!(refused, Some(FleetError::StoreNotWritable { .. })),
        "{refused:?}"
    );
    // More than any disk has; what was made of it sets nothing aside.
    let mut new = world.new_fleet("f");
    new.log_bytes = 1 << 60;
    let refused = Fleet::create(&world.servers.servers(), new).await.err();
    assert!(matches!(refused, Some(FleetError::NoRoom)), "{refused:?}");
    // Nothing of them is left.
    world.fleet("f").await;
}
