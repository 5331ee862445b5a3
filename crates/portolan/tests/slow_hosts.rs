//! Hosts that never get an answer out beside healthy ones: they cost only themselves. Counted by the witness.

mod harness;

use harness::{finish, portolan, signal, start, wait_until};
use portolan_simweb::{Figures, Server, ServerOptions, Web, WebSpec, WitnessReport};
use std::net::TcpListener;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

const HEALTHY: u32 = 30;
/// Of each kind: silent, dripping, lost. Each kind alone could take all connections several times over.
const SICK: u32 = 60;
const CONNECTIONS: u32 = 16;
const DELAY_MS: u64 = 400;
const LATENCY_MS: f64 = 20.0;
const START_LIMIT: Duration = Duration::from_secs(30);
/// In which all sick hosts are met for the first time: each takes a place for `limits.patience_ms` then.
const WARM_UP: Duration = Duration::from_secs(4);
const MEASURED: Duration = Duration::from_secs(7);

struct Seen {
    /// Requests to healthy hosts while it was measured.
    requests: u64,
    end: Figures,
    report: WitnessReport,
}

/// A crawl of all hosts for a while; every name is resolved by the Web's own DNS server.
fn crawl(sick: u32, dir: &Path) -> Seen {
    let port = TcpListener::bind("127.0.0.1:0")
        .and_then(|listener| listener.local_addr())
        .expect("a free port")
        .port();
    let mut spec = WebSpec::small()
        .with_hosts(HEALTHY)
        .with_pages_per_host(100)
        .with_latency_ms(LATENCY_MS);
    spec.url_port = Some(port);
    (spec.sick.silent, spec.sick.drip) = (sick, sick);
    // Without a lost host the Web has no DNS server.
    spec.sick.lost = sick.max(1);
    let web = Arc::new(Web::new(spec).expect("a sound spec"));
    let options = ServerOptions {
        port,
        ..ServerOptions::default()
    };
    let server = Server::start_with(Arc::clone(&web), &options).expect("the port is free");
    server.witness().expect_delay_ms(DELAY_MS);
    std::fs::create_dir_all(dir).expect("a directory");
    // Sick ones first: that is the worst order.
    let mut seeds = web.sick_urls();
    seeds.truncate(3 * sick as usize);
    seeds.extend((0..HEALTHY).map(|host| web.page_url(host, 0)));
    std::fs::write(dir.join("seeds.txt"), seeds.join("\n")).expect("a file of seeds");
    let dns = server.dns_addr().expect("a DNS server");
    let settings = format!(
        "[limits]\nconnections = {CONNECTIONS}\nwaiting_connections = 100\nthreads = 2\n\
         [politeness]\ndelay_ms = {DELAY_MS}\nip_delay_ms = 0\n\
         [dns]\nservers = [\"{dns}\"]\nallow_networks = [\"127.0.0.0/8\"]\nat_once = 8\ntimeout_ms = 2000\n"
    );
    std::fs::write(dir.join("settings.toml"), settings).expect("a settings file");
    let mut command = portolan();
    command
        .args(["crawl", "--scope", "any", "--quiet", "--seeds-file"])
        .arg(dir.join("seeds.txt"))
        .arg("--config")
        .arg(dir.join("settings.toml"))
        .arg("--out")
        .arg(dir.join("crawl"));
    let begun = Instant::now();
    let child = start(&mut command);
    let id = child.id();
    // Before the first request, the names of all seeds are looked up.
    let asked = || {
        let figures = server.witness().figures();
        figures.requests + figures.sick_requests > 0
    };
    assert!(wait_until(START_LIMIT, asked), "no request came");
    std::thread::sleep(WARM_UP);
    let warm = server.witness().figures();
    std::thread::sleep(MEASURED);
    let end = server.witness().figures();
    // Twice: what is under way is given up.
    signal(id, "INT");
    std::thread::sleep(Duration::from_millis(100));
    signal(id, "INT");
    let ran = finish(child, begun);
    assert!(ran.code.is_some(), "{}", ran.err);
    Seen {
        requests: end.requests - warm.requests,
        report: server.shutdown().report(),
        end,
    }
}

#[test]
fn healthy_hosts_keep_their_rate_beside_sick_ones() {
    let dir = tempfile::tempdir().expect("a directory");
    let alone = crawl(0, &dir.path().join("alone"));
    let beside = crawl(SICK, &dir.path().join("beside"));
    // The test can tell: there was something to lose, and sick hosts were tried.
    assert!(alone.requests > 200, "{}", alone.requests);
    assert!(
        beside.end.sick_requests >= 2 * u64::from(SICK),
        "{:?}",
        beside.end
    );
    assert!(
        beside.requests * 10 >= alone.requests * 9,
        "{} requests beside sick hosts, {} alone",
        beside.requests,
        alone.requests
    );
    assert_eq!(beside.end.sick_most_at_once, 1);
    for seen in [&alone, &beside] {
        assert!(seen.report.is_clean(), "{}", seen.report);
        assert_eq!(seen.report.most_at_once, 1, "{}", seen.report);
        // Kept connections are used again: one for each host, and a few that were closed for other reasons.
        let opened = seen.end.connections - seen.end.sick_requests;
        assert!(opened <= u64::from(HEALTHY) * 2, "{:?}", seen.end);
    }
}
