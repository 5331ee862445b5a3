//! What is said while a crawl runs, where nobody sits at a terminal. (`tests/outside/terminal.py` looks at terminals.)

mod harness;

use harness::{Site, finish, number, portolan, run, start, wait_until};
use portolan_simweb::WebSpec;
use std::time::{Duration, Instant};

/// What a crawl of ten hosts at one address says on stderr.
fn said(options: &[&str]) -> String {
    let site = Site::serve(WebSpec::small().with_hosts(10).with_pages_per_host(10));
    let mut command = portolan();
    command
        .args([
            "crawl",
            "http://h0.sim.test/",
            "--scope",
            "any",
            "--max-pages",
            "12",
        ])
        .args(["--resolve", &site.resolve()])
        .arg("--out")
        .arg(site.out())
        .args(options);
    run(&mut command).succeeded().err
}

#[test]
fn where_the_address_sets_the_pace_that_is_said_once() {
    let err = said(&["--delay", "50ms"]);
    let lines: Vec<&str> = err
        .lines()
        .filter(|l| l.contains("politeness.ip_delay_ms"))
        .collect();
    assert_eq!(lines.len(), 1, "{err}");
    assert!(lines[0].contains("rests for 250 ms"), "{err}");
    // Nothing for terminals in a pipe.
    assert!(!err.contains('\x1b') && !err.contains('\r'), "{err:?}");
    // With a longer delay of the hosts it does not rule.
    let err = said(&["--delay", "300ms"]);
    assert!(!err.contains("ip_delay_ms"), "{err}");
}

#[test]
fn a_pipe_gets_whole_lines_with_everything() {
    let err = said(&["--delay", "100ms"]);
    let line = err.lines().find(|line| line.contains(" pages  "));
    let line = line.unwrap_or_else(|| panic!("{err}"));
    for words in ["/s  ", " due", " active"] {
        assert!(line.contains(words), "{line}");
    }
}

#[test]
fn more_is_said_with_v_and_every_request_with_vv_and_a_file_takes_it() {
    let site = Site::serve(WebSpec::demo().with_hosts(6).with_pages_per_host(8));
    let file = site.path("crawl.log");
    let plain = run(&mut site.crawl());
    assert!(!plain.err.contains(" INFO "), "{}", plain.err);
    let crawl = |name: &str, options: &[&str]| {
        let mut command = portolan();
        command
            .args([
                "crawl",
                "http://h0.sim.test/",
                "--scope",
                "any",
                "--delay",
                "0s",
                "--wait",
                "1s",
            ])
            .args(["--resolve", &site.resolve()])
            .arg("--out")
            .arg(site.path(name))
            .args(options);
        run(&mut command).err
    };
    let verbose = crawl("v", &["-v"]);
    for words in [
        " INFO  the crawl begins dir=",
        " INFO  WARC file closed file=portolan-",
        " INFO  the crawl has ended",
    ] {
        assert!(verbose.contains(words), "{words}: {verbose}");
    }
    assert!(!verbose.contains(" DEBUG "), "{verbose}");
    let log = file.display().to_string();
    let err = crawl("vv", &["-vv", "--log", &log]);
    assert!(!err.contains(" INFO ") && !err.contains(" DEBUG "), "{err}");
    let lines = std::fs::read_to_string(&file).expect("a log");
    for words in [
        " DEBUG turn begins host=h0.sim.test",
        " DEBUG robots.txt read origin=http://h0.sim.test status=",
        " DEBUG answered url=http://h0.sim.test/ status=200 bytes=",
        " DEBUG turn ends host=h0.sim.test asked=",
    ] {
        assert!(lines.contains(words), "{words}: {lines}");
    }
    assert!(
        lines
            .lines()
            .all(|line| line.starts_with("20") && line.contains(" UTC ")),
        "{lines}"
    );
    // The next run adds to it; -v alone is what it holds then.
    let length = lines.len();
    crawl("v2", &["--log", &log]);
    let more = std::fs::read_to_string(&file)
        .expect("a log")
        .split_off(length);
    assert!(
        more.contains("the crawl has ended") && !more.contains(" DEBUG "),
        "{more}"
    );
    let refused = crawl("v3", &["--log", "/nowhere/crawl.log"]);
    assert!(refused.contains("--log /nowhere/crawl.log"), "{refused}");
    assert!(!site.path("v3").exists());
}

#[test]
fn hosts_that_fail_are_in_the_log_with_their_reason_and_rest() {
    let site = Site::serve(WebSpec::small().with_hosts(2).with_pages_per_host(3));
    let err = run(portolan()
        .args([
            "crawl",
            "http://gone.test/",
            "--delay",
            "0s",
            "--wait",
            "0s",
            "-v",
        ])
        .args(["--resolve", "gone.test=127.0.0.1:1"])
        .arg("--out")
        .arg(site.out()))
    .err;
    let line = err
        .lines()
        .find(|line| line.contains("the host fails and rests"));
    let line = line.unwrap_or_else(|| panic!("{err}"));
    for words in ["host=gone.test", "reason=connect", "tries=1", "rest_ms="] {
        assert!(line.contains(words), "{line}");
    }
}

#[test]
fn status_watches_until_the_crawl_has_ended() {
    let site = Site::serve(WebSpec::small().with_latency_ms(40.0));
    let begun = Instant::now();
    let child = start(&mut site.crawl());
    assert!(wait_until(Duration::from_secs(30), || {
        site.witness().report().requests > 30
    }));
    let watched = site.ask(&["status", "--watch", "200ms", "--json"]);
    let looks: Vec<serde_json::Value> = watched
        .out
        .lines()
        .map(|line| serde_json::from_str(line).expect("one object a line"))
        .collect();
    assert!(looks.len() >= 2, "{looks:?}");
    let (last, earlier) = looks.split_last().expect("looks");
    assert_eq!(last["running"], false);
    assert!(
        earlier.iter().all(|look| look["running"] == true),
        "{looks:?}"
    );
    let pages: Vec<u64> = looks.iter().map(|look| number(look, "pages")).collect();
    assert!(pages.is_sorted(), "{pages:?}");
    finish(child, begun).succeeded();
    // Then it looks once.
    let words = site.ask(&["status", "--watch"]).out;
    assert!(
        words.contains("is complete") && !words.contains('\x1b'),
        "{words}"
    );
}
