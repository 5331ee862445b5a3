//! What is said while a crawl runs, where nobody sits at a terminal. (`tests/outside/terminal.py` looks at terminals.)

mod harness;

use harness::{Site, portolan, run};
use portolan_simweb::WebSpec;

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
