//! Two nodes of a fleet, one of which runs at half speed and does not say so: it gets less to carry, and that settles.

mod harness;

use harness::{Site, finish, portolan, signal, start, text};
use portolan_fleet::local::{LocalServers, nats_server};
use portolan_fleet::{Fleet, FleetStatus, NewFleet};
use portolan_simweb::{TruthQuery, WebSpec};
use std::process::Child;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use tokio::runtime::Runtime;

const PARTITIONS: usize = 24;
/// The slow node is stopped for this long, and then goes on for less: answers that come meanwhile wait for it.
const STOPPED: Duration = Duration::from_millis(360);
const GOES_ON: Duration = Duration::from_millis(240);

/// What a node held and had fetched at some time.
#[derive(Clone, Copy, Debug, Default)]
struct Seen {
    holds: usize,
    pages: u64,
}

fn seen(status: &FleetStatus, node: &str) -> Seen {
    let Some(view) = status.nodes.get(node) else {
        return Seen::default();
    };
    let reported = view.reported.as_ref();
    Seen {
        holds: view.holds,
        pages: reported.map_or(0, |reported| reported.status.pages),
    }
}

fn new_fleet(site: &Site) -> NewFleet {
    let settings = format!(
        "[scope]\nscope = \"any\"\n[politeness]\ndelay_ms = 0\nip_delay_ms = 0\nresponse_time_factor = 0.0\nbackoff_ms = 50\nbackoff_max_ms = 200\n\
         [outages]\nwait_ms = 2000\n[dns]\nresolve = [\"{}\"]\n[limits]\nthreads = 1\nconnections = 6\nturn_urls = 2\n\
         [registry]\nmemory_mb = 64\n[fleet]\nship_ms = 300\n",
        site.resolve()
    );
    let suffix = &site.web.spec().suffix;
    NewFleet {
        name: "pair".to_owned(),
        settings,
        seeds: (0..60)
            .map(|host| format!("http://h{host}.{suffix}/"))
            .collect(),
        partitions: PARTITIONS as u16,
        blobs: site.path("store").display().to_string(),
        lease_ms: 4_000,
        max_pages: None,
        link_bytes: 64 << 20,
        log_bytes: 64 << 20,
    }
}

fn node(site: &Site, servers: &LocalServers, name: &str) -> Child {
    let mut command = portolan();
    command
        .args(["node", "pair", "--json", "--node", name])
        .args(["--nats", &servers.servers().urls.join(",")])
        .arg("--dir")
        .arg(site.path(name));
    start(&mut command)
}

#[test]
fn a_node_at_half_speed_gets_less_and_keeps_that() {
    if nats_server().is_none() {
        println!("not run: no nats-server");
        assert!(std::env::var_os("CI").is_none(), "there is no nats-server");
        return;
    }
    // Answers take long beside everything else, so that connections set the pace.
    let mut spec = WebSpec::bench();
    spec.hosts = 60;
    spec.pages_per_host = 100;
    spec.links.per_page = 12;
    spec.content.page_bytes = 4_000;
    let site = Site::serve(spec.with_latency_ms(50.0));
    let runtime = Runtime::new().expect("a runtime");
    let servers = runtime
        .block_on(LocalServers::start(1, ""))
        .expect("servers");
    let fleet = runtime
        .block_on(Fleet::create(&servers.servers(), new_fleet(&site)))
        .expect("a fleet");
    let begun = Instant::now();
    let mut nodes = ["full", "half"].map(|name| node(&site, &servers, name));
    let ended = AtomicBool::new(false);
    let half = nodes[1].id();
    let history = std::thread::scope(|scope| {
        scope.spawn(|| {
            while !ended.load(Ordering::Relaxed) {
                for (word, pause) in [("STOP", STOPPED), ("CONT", GOES_ON)] {
                    signal(half, word);
                    std::thread::sleep(pause);
                }
            }
        });
        let history = watch(&runtime, &fleet, &mut nodes);
        ended.store(true, Ordering::Relaxed);
        history
    });
    for node in nodes {
        let ran = finish(node, begun).succeeded();
        assert_eq!(text(&ran.json(), "stopped_by"), "done", "{}", ran.err);
    }
    let truth = site.truth(&TruthQuery::default());
    let missed = truth.missed(&site.witness().per_url());
    assert!(missed.is_empty(), "{missed:?}");
    let report = site.witness().report();
    assert!(
        report.violations.is_empty() && report.repeats == 0,
        "{report}"
    );
    judge(&history);
}

/// Both nodes, the slow one second, each half second until one has ended.
fn watch(runtime: &Runtime, fleet: &Fleet, nodes: &mut [Child]) -> Vec<(Instant, Seen, Seen)> {
    let mut history = Vec::new();
    while nodes
        .iter_mut()
        .all(|node| matches!(node.try_wait(), Ok(None)))
    {
        if let Ok(status) = runtime.block_on(fleet.status()) {
            let moved = status.assignment.shares.iter();
            let most_moved = moved.map(|share| share.epoch).max();
            // One that goes back has been moved twice.
            assert!(most_moved <= Some(2), "{:?}", status.assignment);
            let seen = (Instant::now(), seen(&status, "full"), seen(&status, "half"));
            history.push(seen);
        }
        std::thread::sleep(Duration::from_millis(500));
    }
    history
}

fn judge(history: &[(Instant, Seen, Seen)]) {
    for (at, full, half) in history {
        println!(
            "{:5.1} s: {} and {} partitions, {} and {} pages",
            (*at - history[0].0).as_secs_f64(),
            full.holds,
            half.holds,
            full.pages,
            half.pages,
        );
    }
    let even = PARTITIONS / 2;
    let began = history
        .iter()
        .position(|(_, full, half)| full.holds + half.holds == PARTITIONS)
        .expect("all were held");
    assert!(
        history[began].2.holds.abs_diff(even) <= 2,
        "they begin alike"
    );
    let settled = history
        .iter()
        .position(|(.., half)| half.holds > 0 && half.holds <= even - 3)
        .expect("the slow node got less");
    let after = &history[settled..];
    let held: Vec<usize> = after.iter().map(|(.., half)| half.holds).collect();
    // A third is what half the speed can carry.
    assert!(
        held.iter().all(|held| (4..=even - 2).contains(held)),
        "{held:?}"
    );
    let (first, last) = (after[0], after[after.len() - 1]);
    let (full, half) = (last.1.pages - first.1.pages, last.2.pages - first.2.pages);
    assert!(
        full > 200,
        "it went on for a while: {full} and {half} pages"
    );
    let share = half as f64 / (full + half) as f64;
    assert!((0.15..0.45).contains(&share), "{share}: {full} and {half}");
}
