//! A rude client commits each sin once, and the witness catches it; a polite one is left in peace.

mod client;

use client::{ask, connect, exchange, get, receive, send, serve};
use portolan_simweb::{
    FaultSpec, LatencySpec, RobotsSpec, Server, ServerOptions, TruthQuery, UrlKind, Verdict,
    ViolationKind, Web, WebSpec, WitnessReport,
};
use std::io::Write;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::{Duration, Instant};

fn pause(ms: u64) {
    std::thread::sleep(Duration::from_millis(ms));
}

/// Waits until the server has noted what the client has already seen or done.
fn report_when(server: &Server, ready: impl Fn(&WitnessReport) -> bool) -> WitnessReport {
    let deadline = Instant::now() + Duration::from_secs(10);
    loop {
        let report = server.witness().report();
        if ready(&report) || Instant::now() > deadline {
            return report;
        }
        pause(2);
    }
}

fn kinds(report: &WitnessReport) -> Vec<ViolationKind> {
    report.violations.iter().map(|v| v.kind).collect()
}

#[test]
fn a_polite_client_is_left_in_peace() {
    let server = serve(WebSpec::small());
    server.witness().expect_delay_ms(20);
    let mut stream = connect(server.addr());
    for target in ["/robots.txt", "/", "/no/such/page"] {
        send(&mut stream, "h0.sim.test", target);
        receive(&mut stream);
        pause(25);
    }
    let report = report_when(&server, |r| r.served == 3);
    assert!(report.is_clean(), "{report}");
    assert_eq!(
        (report.requests, report.robots_fetches, report.connections),
        (3, 1, 1)
    );
    assert_eq!(report.user_agents, [("raw-test/1".to_owned(), 1)]);
    assert!(report.min_gap_ms.expect("gaps") >= 19.0, "{report}");
    assert_eq!(report.gaps.iter().map(|g| g.count).sum::<u64>(), 2);
    assert_eq!(report.statuses.get(&200), Some(&2));
    assert!(report.to_string().contains("Nothing to complain of"));
}

#[test]
fn pages_before_robots_and_forbidden_pages_are_seen() {
    let robots = RobotsSpec {
        forbidden_share: 0.5,
        ..RobotsSpec::default()
    };
    let server = serve(WebSpec {
        hosts: 1,
        robots,
        ..WebSpec::default()
    });
    let truth = server.web().truth(&TruthQuery::default());
    get(server.addr(), "h0.sim.test", "/");
    get(server.addr(), "h0.sim.test", "/robots.txt");
    let early = report_when(&server, |r| r.served == 2);
    assert_eq!(
        (early.before_robots, early.forbidden, kinds(&early)),
        (1, 0, vec![ViolationKind::BeforeRobots])
    );
    let forbidden = truth.forbidden();
    let url = forbidden.first().expect("a forbidden page");
    let (_, target) = server.web().locate(url).expect("of this Web");
    get(server.addr(), "h0.sim.test", target);
    get(server.addr(), "h0.sim.test", &format!("/x/..{target}#utm"));
    let late = report_when(&server, |r| r.served == 4);
    assert_eq!(
        (late.before_robots, late.forbidden),
        (1, 2),
        "an alias is as forbidden as the page"
    );
    assert_eq!(late.violations[1].url, **url);
    assert!(!late.is_clean());
    assert_eq!(
        get(server.addr(), "h0.sim.test", "/decoy/c1.html").status,
        404
    );
    assert_eq!(report_when(&server, |r| r.served == 5).decoys, 1);
}

#[test]
fn overlap_is_seen_across_connections_and_in_a_pipeline() {
    let latency = LatencySpec {
        mean_ms: 400.0,
        ..LatencySpec::default()
    };
    let server = serve(WebSpec {
        hosts: 2,
        latency,
        ..WebSpec::default()
    });
    for host in ["h0.sim.test", "h1.sim.test"] {
        get(server.addr(), host, "/robots.txt");
    }
    let (mut one, mut two) = (connect(server.addr()), connect(server.addr()));
    send(&mut one, "h0.sim.test", "/");
    send(&mut two, "h1.sim.test", "/");
    receive(&mut one);
    receive(&mut two);
    let separate = report_when(&server, |r| r.served == 4);
    assert_eq!(
        (separate.overlaps, separate.most_at_once),
        (0, 1),
        "two hosts may be asked at once"
    );
    send(&mut one, "h0.sim.test", "/a");
    pause(20);
    send(&mut two, "h0.sim.test", "/b");
    receive(&mut one);
    receive(&mut two);
    let both = report_when(&server, |r| r.served == 6);
    assert_eq!(
        (
            both.overlaps,
            both.most_at_once,
            both.most_connections_on_a_host
        ),
        (1, 2, 2)
    );
    assert!(kinds(&both).contains(&ViolationKind::Overlap));
    one.write_all(b"GET /c HTTP/1.1\r\nHost: h1.sim.test\r\n\r\nGET /d HTTP/1.1\r\nHost: h1.sim.test\r\nConnection: close\r\n\r\n")
        .expect("sent");
    let piped = report_when(&server, |r| r.served == 8);
    assert_eq!((piped.served, piped.overlaps), (8, 2));
    let hosts = server.witness().per_host();
    assert_eq!(hosts.iter().map(|h| h.overlaps).collect::<Vec<_>>(), [1, 1]);
}

#[test]
fn haste_is_measured_against_crawl_delay_retry_after_and_the_expected_delay() {
    let robots = RobotsSpec {
        crawl_delay_share: 1.0,
        crawl_delay_s: 1.0,
        ..RobotsSpec::default()
    };
    let server = serve(WebSpec {
        hosts: 1,
        robots,
        ..WebSpec::default()
    });
    assert!(
        get(server.addr(), "h0.sim.test", "/robots.txt")
            .text()
            .contains("Crawl-delay: 1")
    );
    get(server.addr(), "h0.sim.test", "/");
    pause(1_010);
    get(server.addr(), "h0.sim.test", "/a");
    pause(50);
    get(server.addr(), "h0.sim.test", "/b");
    let report = report_when(&server, |r| r.served == 4);
    assert_eq!(
        (report.short_gaps, report.short_gaps_after_robots),
        (2, 1),
        "{report}"
    );
    let detail = &report.violations.last().expect("a violation").detail;
    assert!(detail.contains("1000 ms asked for"), "{detail}");

    let faults = FaultSpec {
        error_share: 1.0,
        errors: vec![portolan_simweb::Fault::Unavailable],
        ..FaultSpec::default()
    };
    let server = serve(WebSpec {
        hosts: 1,
        faults,
        ..WebSpec::default()
    });
    let truth = server.web().truth(&TruthQuery::default());
    let errors = truth.of_kind(UrlKind::Error);
    let (_, target) = server
        .web()
        .locate(errors.first().expect("an error"))
        .expect("of this Web");
    get(server.addr(), "h0.sim.test", "/robots.txt");
    assert_eq!(get(server.addr(), "h0.sim.test", target).status, 503);
    pause(1_010);
    assert_eq!(get(server.addr(), "h0.sim.test", target).status, 503);
    assert_eq!(report_when(&server, |r| r.served == 3).short_gaps, 0);
    pause(100);
    get(server.addr(), "h0.sim.test", "/");
    let report = report_when(&server, |r| r.served == 4);
    assert_eq!(
        (report.short_gaps, report.retries, report.repeats),
        (1, 1, 0),
        "{report}"
    );

    let server = serve(WebSpec::small());
    server.witness().expect_delay_ms(5_000);
    get(server.addr(), "h0.sim.test", "/robots.txt");
    get(server.addr(), "h1.sim.test", "/robots.txt");
    assert_eq!(report_when(&server, |r| r.served == 2).short_gaps, 0);
    get(server.addr(), "h1.sim.test", "/");
    assert_eq!(report_when(&server, |r| r.served == 3).short_gaps, 1);
}

#[test]
fn repeats_tell_their_epochs() {
    let server = serve(WebSpec::small());
    let (addr, host) = (server.addr(), "h0.sim.test");
    get(addr, host, "/robots.txt");
    get(addr, host, "/");
    get(addr, host, "/robots.txt");
    assert_eq!(
        report_when(&server, |r| r.served == 3).repeats,
        0,
        "robots.txt may be read again"
    );
    get(addr, host, "/?utm_source=elsewhere");
    let first = report_when(&server, |r| r.served == 4);
    assert_eq!(
        (first.repeats, first.repeats_in_one_epoch, first.aliases),
        (1, 1, 1)
    );
    assert_eq!(server.witness().mark(), 1);
    get(addr, host, "/");
    let second = report_when(&server, |r| r.served == 5);
    assert_eq!((second.repeats, second.repeats_in_one_epoch), (2, 1));
    assert_eq!(
        (second.repeated[1].first_epoch, second.repeated[1].epoch),
        (0, 1)
    );
    let urls = server.witness().per_url();
    let home = urls["http://h0.sim.test/"];
    assert_eq!(
        (
            home.requests,
            home.served,
            home.first_epoch,
            home.last_epoch
        ),
        (3, 3, 0, 1)
    );
    exchange(
        addr,
        "HEAD / HTTP/1.1\r\nHost: h0.sim.test\r\nConnection: close\r\n\r\n",
    );
    ask(
        addr,
        host,
        "/",
        "If-Modified-Since: Thu, 01 Jan 2026 00:00:00 GMT\r\n",
    );
    let third = report_when(&server, |r| r.served == 7);
    assert_eq!((third.repeats, third.heads, third.conditionals), (2, 1, 1));
    server.witness().reset();
    let blank = server.witness().report();
    assert_eq!((blank.requests, blank.repeats, blank.epoch), (0, 0, 0));
    assert!(server.witness().per_url().is_empty());
}

#[test]
fn a_client_that_dies_is_counted_as_aborted_and_overlaps_nothing() {
    let latency = LatencySpec {
        mean_ms: 800.0,
        ..LatencySpec::default()
    };
    let server = serve(WebSpec {
        hosts: 1,
        latency,
        ..WebSpec::default()
    });
    get(server.addr(), "h0.sim.test", "/robots.txt");
    let mut stream = connect(server.addr());
    send(&mut stream, "h0.sim.test", "/");
    pause(50);
    drop(stream);
    assert_eq!(report_when(&server, |r| r.aborted == 1).aborted, 1);
    server.witness().mark();
    get(server.addr(), "h0.sim.test", "/");
    let report = report_when(&server, |r| r.served == 2);
    assert_eq!((report.requests, report.served, report.aborted), (3, 2, 1));
    assert_eq!((report.overlaps, report.repeats), (0, 0), "{report}");
}

#[test]
fn addresses_are_judged_on_their_own() {
    let web = Arc::new(Web::new(WebSpec::small()).expect("sound"));
    let ips: Vec<IpAddr> = [1, 2]
        .map(|n| IpAddr::V4(Ipv4Addr::new(127, 0, 0, n)))
        .into();
    let server = Server::start_with(
        web.clone(),
        &ServerOptions {
            ips,
            threads: 2,
            ..ServerOptions::default()
        },
    )
    .expect("started");
    server.witness().expect_ip_delay_ms(5_000);
    let addrs = server.addrs().to_vec();
    assert_eq!((addrs.len(), addrs[0].port()), (2, addrs[1].port()));
    get(addrs[0], "h0.sim.test", "/robots.txt");
    get(addrs[1], "h1.sim.test", "/robots.txt");
    assert!(
        report_when(&server, |r| r.served == 2)
            .ips
            .iter()
            .all(|ip| ip.short_gaps == 0)
    );
    get(addrs[1], "h2.sim.test", "/robots.txt");
    let report = report_when(&server, |r| r.served == 3);
    let figures: Vec<_> = report
        .ips
        .iter()
        .map(|ip| (ip.requests, ip.short_gaps))
        .collect();
    assert_eq!((figures, report.short_gaps), (vec![(1, 0), (2, 1)], 0));
    let public = ServerOptions {
        ips: vec![IpAddr::V4(Ipv4Addr::UNSPECIFIED)],
        ..ServerOptions::default()
    };
    assert!(Server::start_with(web, &public).is_err());
}

#[test]
fn another_process_can_ask() {
    let server = serve(WebSpec::small());
    let addr = server.addr();
    let control = |path: &str| get(addr, "127.0.0.1", path);
    assert_eq!(control("/-/record?max=10").status, 200);
    assert_eq!(control("/-/expect?delay_ms=5000").status, 200);
    get(addr, "h0.sim.test", "/robots.txt");
    assert_eq!(control("/-/mark").text(), "1");
    get(addr, "h0.sim.test", "/");
    report_when(&server, |r| r.served == 2);
    let report: WitnessReport = serde_json::from_str(&control("/-/witness").text()).expect("JSON");
    assert_eq!(
        (
            report.requests,
            report.epoch,
            report.short_gaps,
            report.bad_requests
        ),
        (2, 1, 1, 0)
    );
    assert!(control("/-/report").text().contains("cause for complaint"));
    let log: Vec<portolan_simweb::RequestRecord> =
        serde_json::from_str(&control("/-/requests").text()).expect("JSON");
    assert_eq!(
        log.iter().map(|r| (r.status, r.epoch)).collect::<Vec<_>>(),
        [(200, 0), (200, 1)]
    );
    let spec: WebSpec = serde_json::from_str(&control("/-/spec").text()).expect("JSON");
    assert_eq!(spec, WebSpec::small());
    let truth: portolan_simweb::Truth =
        serde_json::from_str(&control("/-/truth?scope=any").text()).expect("JSON");
    assert_eq!(truth, server.web().truth(&TruthQuery::default()));
    let urls: serde_json::Value = serde_json::from_str(&control("/-/urls").text()).expect("JSON");
    assert_eq!(urls["http://h0.sim.test/"]["served"], 1);
    assert_eq!(control("/-/reset").status, 200);
    assert_eq!(server.witness().report().requests, 0);
    assert_eq!(control("/nothing").status, 421);
}

#[test]
fn shutdown_ends_connections_and_keeps_the_record() {
    let server = serve(WebSpec::small());
    let addr: SocketAddr = server.addr();
    let mut stream = connect(addr);
    send(&mut stream, "h0.sim.test", "/robots.txt");
    receive(&mut stream);
    let witness = server.shutdown();
    assert_eq!(
        std::io::Read::read(&mut stream, &mut [0; 8]).unwrap_or(0),
        0
    );
    assert!(std::net::TcpStream::connect(addr).is_err());
    assert_eq!(witness.report().requests, 1);
}

#[test]
fn the_verdict_counts_what_was_fetched_of_what_there_is() {
    let server = serve(WebSpec::small().with_hosts(1).with_pages_per_host(4));
    let name = server.web().host_name(0);
    get(server.addr(), &name, "/robots.txt");
    let begun = Verdict::of(server.web(), server.witness());
    let (all, none) = (begun.required, begun.fetched);
    assert!(all >= 3 && none == 0 && begun.requests == 1, "{begun:?}");
    for _ in 0..2 {
        get(server.addr(), &name, "/");
    }
    let asked = get(server.addr(), "127.0.0.1", "/-/verdict");
    let verdict: Verdict = serde_json::from_slice(&asked.body).expect("JSON");
    assert_eq!((verdict.fetched, verdict.required), (1, all));
    assert_eq!((verdict.repeats, verdict.requests), (1, 3));
    assert!(
        verdict.seconds > 0.0 && verdict.seconds < 60.0,
        "{verdict:?}"
    );
}
