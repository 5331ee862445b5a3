//! Outages: servers that go away and come back, our own network that does, servers that ask for a rest, and this
//! machine's own limits. Nothing is given up that was only interrupted, and what waits is said.

mod harness;

use harness::dns::{self, Says};
use harness::{Site, finish, fixed, link::Link, number, portolan, run, start, text, wait_until};
use portolan_simweb::{Fault, TruthQuery, WebSpec};
use std::collections::HashMap;
use std::process::{Child, Command};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// Quick to notice that nothing comes, and to ask again.
const PATIENT: &str = "[politeness]\nbackoff_ms = 100\nbackoff_max_ms = 1000\nip_delay_ms = 0\nresponse_time_factor = 0.0\n\
    [http]\nconnect_timeout_ms = 1000\nfirst_byte_timeout_ms = 1000\nread_timeout_ms = 1000\n";

fn plain_web(hosts: u32, pages: u32) -> Site {
    let mut spec = WebSpec::bench();
    spec.hosts = hosts;
    spec.pages_per_host = pages;
    Site::serve(spec)
}

#[track_caller]
fn missed_nothing(site: &Site) {
    let truth = site.truth(&TruthQuery::default());
    let missed = truth.missed(&site.witness().per_url());
    assert!(missed.is_empty(), "{} missed: {missed:?}", missed.len());
    let witness = site.witness().report();
    assert_eq!(witness.forbidden + witness.overlaps, 0, "{witness}");
}

/// A crawl through `link`, with a pause of 20 ms between requests.
fn through(site: &Site, link: &Link, wait: &str) -> Command {
    let mut command = portolan();
    command
        .args([
            "crawl",
            &site.web.spec().home_url(),
            "--scope",
            "any",
            "--delay",
            "20ms",
            "--json",
            "--wait",
            wait,
        ])
        .arg("--out")
        .arg(site.out())
        .arg("--config")
        .arg(site.config(PATIENT))
        .arg("--resolve")
        .arg(format!("*.{}={}", site.web.spec().suffix, link.addr()));
    command
}

/// Starts a crawl; it has sent more than `requests` when this returns.
fn start_and_ask(site: &Site, command: &mut Command, requests: u64) -> Child {
    let child = start(command);
    let asked = || site.witness().report().requests > requests;
    assert!(wait_until(Duration::from_secs(30), asked), "it crawls");
    child
}

#[test]
fn a_server_that_is_gone_for_a_while_loses_no_page() {
    let site = plain_web(1, 150);
    let mut link = Link::to(site.server.addr());
    let begun = Instant::now();
    let child = start_and_ask(&site, &mut through(&site, &link, "60s"), 30);
    link.cut();
    std::thread::sleep(Duration::from_secs(6));
    link.mend();
    let report = finish(child, begun).succeeded().json();
    assert_eq!(text(&report, "stopped_by"), "done");
    assert_eq!(
        (number(&report, "failed"), number(&report, "urls_due")),
        (0, 0)
    );
    missed_nothing(&site);
}

#[test]
fn when_all_hosts_go_silent_it_is_our_network_and_the_crawl_says_so() {
    let site = plain_web(12, 25);
    let mut link = Link::to(site.server.addr());
    let begun = Instant::now();
    let child = start_and_ask(&site, &mut through(&site, &link, "60s"), 60);
    link.silence();
    std::thread::sleep(Duration::from_secs(5));
    link.mend();
    let ran = finish(child, begun).succeeded();
    assert!(ran.err.contains("No network since"), "{}", ran.err);
    assert!(ran.err.contains("The network is back"), "{}", ran.err);
    let report = ran.json();
    assert_eq!(text(&report, "stopped_by"), "done");
    assert_eq!(
        (number(&report, "failed"), number(&report, "urls_due")),
        (0, 0)
    );
    assert!(number(&report, "network_outages") >= 1, "{report}");
    missed_nothing(&site);
}

#[test]
fn what_waits_for_a_dead_host_is_said_and_a_later_run_asks_again() {
    let site = plain_web(1, 60);
    let mut link = Link::to(site.server.addr());
    let begun = Instant::now();
    let child = start_and_ask(&site, &mut through(&site, &link, "5s"), 20);
    link.cut();
    let ran = finish(child, begun);
    assert_eq!(ran.code, Some(3), "{}\n{}", ran.out, ran.err);
    let report = ran.json();
    assert_eq!(text(&report, "stopped_by"), "waiting");
    assert!(ran.err.contains("All that is left waits"), "{}", ran.err);
    let waiting = &report["waiting"];
    assert_eq!(number(waiting, "hosts"), 1);
    assert_eq!(number(waiting, "urls"), number(&report, "urls_due"));
    assert!(number(waiting, "urls") > 20, "{report}");
    assert_eq!(text(&waiting["most"][0], "reason"), "connect");
    let told = site.ask(&["status"]).out;
    assert!(told.contains("wait for 1 host that fail"), "{told}");

    link.mend();
    let report = run(&mut site.resume()).succeeded().json();
    assert_eq!(
        (number(&report, "failed"), number(&report, "urls_due")),
        (0, 0)
    );
    missed_nothing(&site);
}

#[test]
fn a_host_is_given_up_after_a_time_only_and_asked_again_by_the_next_run() {
    let site = plain_web(1, 60);
    let mut link = Link::to(site.server.addr());
    let begun = Instant::now();
    let more = format!("{PATIENT}[outages]\ngive_up_ms = 2000\n");
    let mut command = through(&site, &link, "60s");
    site.config(&more);
    let child = start_and_ask(&site, &mut command, 20);
    link.cut();
    let report = finish(child, begun).succeeded().json();
    assert_eq!(text(&report, "stopped_by"), "done");
    assert_eq!(number(&report["given_up"], "hosts"), 1);
    assert_eq!(
        number(&report["given_up"], "urls"),
        number(&report, "urls_due")
    );
    link.mend();
    let report = run(&mut site.resume()).succeeded().json();
    assert_eq!(number(&report, "urls_due"), 0);
    missed_nothing(&site);
}

#[test]
fn refusals_are_never_failures_of_a_page() {
    let mut spec = WebSpec::small();
    spec.faults.error_share = 0.4;
    spec.faults.errors = vec![Fault::UnavailableThenOk, Fault::TooManyThenOk];
    spec.faults.retry_after_s = 0;
    spec.faults.recover_after = 4;
    let site = Site::serve(spec);
    let config = site
        .config("[politeness]\nbackoff_ms = 5\nbackoff_max_ms = 20\n[limits]\nmax_attempts = 1\n");
    let report = run(site.crawl().arg("--config").arg(config))
        .succeeded()
        .json();
    for reason in ["too-many-requests", "unavailable"] {
        assert_eq!(report["reasons"][reason].as_u64(), None, "{report}");
    }
    missed_nothing(&site);
}

/// How often each path was asked for.
type Asked = HashMap<String, u32>;

/// `/` names pages; `/sick` answers as `sick` says until it is healed.
fn one_sick_page(sick: &'static str) -> (fixed::Fixed, Arc<AtomicBool>, Arc<Mutex<Asked>>) {
    let healed = Arc::new(AtomicBool::new(false));
    let asked: Arc<Mutex<Asked>> = Arc::default();
    let (well, count) = (Arc::clone(&healed), Arc::clone(&asked));
    let server = fixed::serve(move |path| {
        *count.lock().unwrap().entry(path.to_owned()).or_default() += 1;
        match path {
            "/robots.txt" => {
                fixed::page("User-agent: *\nDisallow:\n").replace("text/html", "text/plain")
            }
            "/" => {
                fixed::page("<a href=/sick>x</a><a href=/a>a</a><a href=/b>b</a><a href=/c>c</a>")
            }
            "/sick" if !well.load(Ordering::SeqCst) => sick.to_owned(),
            _ => fixed::page(&format!("<p>{path}</p>")),
        }
    });
    (server, healed, asked)
}

fn crawl_fixed(server: &fixed::Fixed, dir: &TempDir, more: &[&str]) -> harness::Ran {
    let config = dir.path().join("settings.toml");
    std::fs::write(&config, PATIENT).expect("a settings file");
    let mut command = portolan();
    command
        .args(["crawl", "--delay", "0s", "--json", "--wait", "20s"])
        .arg("--config")
        .arg(config)
        .arg("--out")
        .arg(dir.path().join("crawl"))
        .args(["--resolve", &format!("*.test={}", server.addr)])
        .args(more);
    run(&mut command)
}

#[test]
fn a_page_that_breaks_its_server_is_blamed_alone_and_asked_again_on_demand() {
    for sick in [
        "HTTP/1.1 500 Broken\r\nConnection: close\r\nContent-Length: 0\r\n\r\n",
        // Nothing but the end of the connection.
        "",
    ] {
        let (server, healed, asked) = one_sick_page(sick);
        let dir = TempDir::new().expect("a directory");
        let report = crawl_fixed(&server, &dir, &["http://www.test/"])
            .succeeded()
            .json();
        assert_eq!(text(&report, "stopped_by"), "done");
        assert_eq!(
            (number(&report, "pages"), number(&report, "failed")),
            (4, 1),
            "{report}"
        );
        let tries = asked.lock().unwrap()["/sick"];
        assert!((3..=4).contains(&tries), "{asked:?}");

        healed.store(true, Ordering::SeqCst);
        let report = crawl_fixed(&server, &dir, &[]).succeeded().json();
        assert_eq!(number(&report, "failed"), 1, "nobody asked for it");
        let report = crawl_fixed(&server, &dir, &["--retry-failed", "dns"])
            .succeeded()
            .json();
        assert_eq!(
            (number(&report, "failed"), number(&report, "retried")),
            (1, 0)
        );
        let report = crawl_fixed(&server, &dir, &["--retry-failed"])
            .succeeded()
            .json();
        assert_eq!(
            (number(&report, "failed"), number(&report, "retried")),
            (0, 1)
        );
        assert_eq!(number(&report, "pages"), 5);
        let ran = crawl_fixed(&server, &dir, &["--retry-failed", "tiredness"]);
        assert_eq!(ran.code, Some(2));
        assert!(ran.err.contains("'tiredness' is no reason"), "{}", ran.err);
    }
}

#[test]
fn running_out_of_descriptors_is_nobodys_failure() {
    let site = plain_web(100, 6);
    let mut command = Command::new("sh");
    let crawl = format!(
        "ulimit -n 110; exec {} crawl {} --scope any --delay 0s --json --connections 200 --wait 20s --out {} --config {} --resolve '{}'",
        env!("CARGO_BIN_EXE_portolan"),
        site.web.spec().home_url(),
        site.out().display(),
        site.config("[registry]\npartitions = 2\n").display(),
        site.resolve(),
    );
    let ran = run(command.args(["-c", &crawl])).succeeded();
    let report = ran.json();
    assert_eq!(
        (number(&report, "failed"), number(&report, "urls_due")),
        (0, 0),
        "{report}"
    );
    missed_nothing(&site);
}

#[test]
fn a_name_that_does_not_exist_is_believed_sooner_than_one_that_nobody_answers_for() {
    for (link, code, ended, part, reason) in [
        ("nobody.example", 0, "done", "given_up", "unknown-host"),
        ("silent.example", 3, "waiting", "waiting", "dns"),
    ] {
        let names = dns::serve(|name, _| match name {
            "silent.example" => Says::Nothing,
            _ => Says::NoAddress,
        });
        let server = fixed::serve(move |path| match path {
            "/" => fixed::page(&format!("<a href=http://{link}/x>x</a>")),
            _ => "HTTP/1.1 404 No\r\nConnection: close\r\nContent-Length: 0\r\n\r\n".to_owned(),
        });
        let dir = TempDir::new().expect("a directory");
        let config = dir.path().join("settings.toml");
        let settings = format!(
            "{PATIENT}[dns]\nservers = [\"{names}\"]\ntimeout_ms = 400\nttl_negative_ms = 100\n\
             [outages]\nunknown_host_give_up_ms = 1500\nwait_ms = 4000\n"
        );
        std::fs::write(&config, settings).expect("a settings file");
        let ran = run(portolan()
            .args(["crawl", "http://www.test/", "--scope", "any", "--json"])
            .args(["--delay", "0s", "--out"])
            .arg(dir.path().join("crawl"))
            .arg("--config")
            .arg(&config)
            .args(["--resolve", &format!("*.test={}", server.addr)]));
        assert_eq!(ran.code, Some(code), "{}\n{}", ran.out, ran.err);
        let report = ran.json();
        assert_eq!(text(&report, "stopped_by"), ended, "{report}");
        let hosts = &report[part];
        assert_eq!((number(hosts, "hosts"), number(hosts, "urls")), (1, 1));
        assert_eq!(text(&hosts["most"][0], "reason"), reason);
    }
}

/// Links that are on their way to the registry are not yet due, and yet the crawl is not at its end.
#[test]
fn a_crawl_that_waits_for_nobody_ends_only_when_nothing_is_left() {
    let site = plain_web(8, 20);
    let mut command = portolan();
    command.args(["crawl", "--json", "--scope=any", "--delay=0s", "--wait=0s"]);
    command.arg("--out").arg(site.out());
    command.arg("--resolve").arg(site.resolve());
    command.arg(site.web.spec().home_url());
    let report = run(&mut command).succeeded().json();
    assert_eq!(text(&report, "stopped_by"), "done", "{report}");
    missed_nothing(&site);
}

#[test]
fn many_partitions_do_under_a_low_limit_of_open_files() {
    let site = plain_web(60, 8);
    let crawl = format!(
        "ulimit -n 1024; exec {} crawl {} --scope any --delay 0s --json --wait 20s --out {} --config {} --resolve '{}'",
        env!("CARGO_BIN_EXE_portolan"),
        site.web.spec().home_url(),
        site.out().display(),
        site.config("[registry]\npartitions = 192\nmemory_mb = 16\n")
            .display(),
        site.resolve(),
    );
    let ran = run(Command::new("sh").args(["-c", &crawl])).succeeded();
    assert!(ran.err.contains("may have 1,024 files open"), "{}", ran.err);
    assert_eq!(number(&ran.json(), "urls_due"), 0);
    missed_nothing(&site);
    site.ask(&["status"]);
}
