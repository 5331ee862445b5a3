//! What was promised to a host or an address holds across every stop and kill, also where nothing of the request was
//! ever committed.

mod harness;

use harness::recorder::{Asked, Place, gaps, ok, record, status};
use harness::{Site, finish, portolan, run, signal, start, text, wait_until};
use portolan_simweb::{TruthQuery, WebSpec};
use std::time::{Duration, Instant};

const LIMIT: Duration = Duration::from_secs(30);

fn spec(hosts: u32, pages: u32) -> WebSpec {
    let mut spec = WebSpec::small()
        .with_hosts(hosts)
        .with_pages_per_host(pages);
    spec.skew = 0.0;
    spec
}

/// A crawl with a delay, of which the witness knows. Hosts are spread over the addresses.
fn crawl(site: &Site, delay_ms: u64, settings: &str) -> std::process::Command {
    site.witness().expect_delay_ms(delay_ms);
    let settings =
        format!("[politeness]\nresponse_time_factor = 0.0\nbackoff_ms = 100\n{settings}");
    let mut command = portolan();
    command
        .args(["crawl", &site.web.spec().home_url(), "--json"])
        .args(["--scope", "any", "--delay", &format!("{delay_ms}ms")])
        .arg("--config")
        .arg(site.config(&settings))
        .arg("--out")
        .arg(site.out());
    for host in 0..site.web.host_count() {
        let address = site.server.addrs()[host as usize % site.server.addrs().len()];
        let name = site.web.host_name(host);
        command.arg("--resolve").arg(format!("{name}={address}"));
    }
    command
}

fn goes_on_to_the_end(site: &Site) {
    site.witness().mark();
    let report = run(&mut site.resume()).succeeded().json();
    assert_eq!(text(&report, "stopped_by"), "done");
    let witness = site.witness().report();
    assert!(witness.is_clean(), "{witness}");
    let missed = site.truth(&TruthQuery::default());
    let missed = missed.missed(&site.witness().per_url());
    assert!(missed.is_empty(), "{missed:?}");
}

#[test]
fn retry_after_holds_from_the_head_of_the_answer_on_across_a_kill() {
    let server = record(|asked: &Asked| match asked.path {
        "/robots.txt" => ok("", b""),
        "/" if asked.before == 0 => {
            asked.hold_open.set(Duration::from_secs(5));
            let mut answer = status("503 Busy", "Retry-After: 3\r\n", &[b'x'; 1_000]);
            answer.truncate(answer.len() - 900);
            answer
        }
        _ => ok("Content-Type: text/html\r\n", b"a page"),
    });
    let place = Place::new();
    let begun = Instant::now();
    let child = start(&mut place.crawl(&server, &["http://a.test/"], ""));
    assert!(wait_until(LIMIT, || server.count("a.test", "/") == 1));
    // So much time it takes to read a head and to write 32 bytes.
    std::thread::sleep(Duration::from_millis(100));
    signal(child.id(), "KILL");
    assert_eq!(finish(child, begun).code, None);
    run(&mut place.resume()).succeeded();
    let pauses = gaps(&server.seen());
    assert!(
        pauses[1] >= Duration::from_secs(3),
        "{pauses:?} {:#?}",
        server.seen()
    );
    assert!(server.count("a.test", "/") == 2, "{:#?}", server.seen());
}

#[test]
fn a_crawl_delay_that_was_never_committed_outlives_a_kill() {
    let server = record(|asked: &Asked| match (asked.host, asked.path) {
        ("slow.test", _) => {
            // Its turn goes on, so that nobody asks for a commit.
            asked.hold_open.set(Duration::from_secs(5));
            b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n".to_vec()
        }
        ("a.test", "/robots.txt") => {
            // When others have used up what was asked for before.
            std::thread::sleep(Duration::from_millis(700));
            ok("", b"User-agent: *\nCrawl-delay: 3\n")
        }
        _ => ok("Content-Type: text/html\r\n", b"a page"),
    });
    let place = Place::new();
    let settings = "[limits]\nthreads = 1\n[archive]\ncommit_ms = 60000\n";
    let mut command = place.crawl(&server, &["http://slow.test/"], settings);
    // They share an address, and yet nobody waits for another.
    place.change_settings("ip_delay_ms = 1", "ip_delay_ms = 0");
    let begun = Instant::now();
    let child = start(command.args(["http://a.test/", "http://first.test/"]));
    assert!(wait_until(LIMIT, || server.count("a.test", "/robots.txt") == 1));
    std::thread::sleep(Duration::from_millis(100));
    signal(child.id(), "KILL");
    assert_eq!(finish(child, begun).code, None);
    let mut resume = place.resume();
    let child = start(&mut resume);
    assert!(wait_until(LIMIT, || server.of("a.test").len() == 2));
    signal(child.id(), "KILL");
    finish(child, begun);
    let pauses = gaps(&server.of("a.test"));
    assert!(pauses[0] >= Duration::from_secs(3), "{pauses:?}");
}

#[test]
fn head_requests_count_across_a_stop_and_a_kill() {
    let site = Site::serve_on(spec(5, 2), 5);
    let command = &mut crawl(
        &site,
        1_000,
        "ip_delay_ms = 1\n[http]\nhead_first = \"always\"\n",
    );
    for signals in ["INT", "KILL"] {
        let before = site.witness().report().heads;
        let begun = Instant::now();
        let child = start(command);
        let headed = || site.witness().report().heads >= before + 4;
        assert!(wait_until(LIMIT, headed), "{}", site.witness().report());
        signal(child.id(), signals);
        finish(child, begun);
        site.witness().mark();
        *command = site.resume();
    }
    goes_on_to_the_end(&site);
}

#[test]
fn a_request_that_was_given_up_was_one_all_the_same() {
    let mut spec = spec(10, 2).with_latency_ms(800.0);
    spec.latency.host_spread = 0.0;
    let site = Site::serve_on(spec, 10);
    let child = start(&mut crawl(&site, 2_000, "ip_delay_ms = 1\n"));
    let begun = Instant::now();
    let under_way = || {
        let seen = site.witness().report();
        seen.requests >= seen.served + 4
    };
    assert!(wait_until(LIMIT, under_way), "{}", site.witness().report());
    signal(child.id(), "INT");
    std::thread::sleep(Duration::from_millis(120));
    signal(child.id(), "INT");
    finish(child, begun).succeeded();
    let seen = site.witness().report();
    assert!(seen.aborted > 0, "{seen}");
    goes_on_to_the_end(&site);
}

#[test]
fn an_address_is_left_alone_when_a_crawl_goes_on() {
    const IP_DELAY_MS: u64 = 700;
    let site = Site::serve(spec(3, 1));
    site.witness().expect_ip_delay_ms(IP_DELAY_MS);
    let settings = format!("ip_delay_ms = {IP_DELAY_MS}\n");
    let command = &mut crawl(&site, 50, &settings);
    for pages in ["1", "2", "3"] {
        run(command.args(["--max-pages", pages])).succeeded();
        site.witness().mark();
        *command = site.resume();
    }
    run(command.args(["--max-pages", "0"])).succeeded();
    goes_on_to_the_end(&site);
}
