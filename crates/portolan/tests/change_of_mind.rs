//! A crawl goes on with other settings: what they let in is fetched, what they keep out is not, and `why`, the report
//! and the registry say so.

mod harness;

use harness::small::{Small, set};
use harness::{Site, finish, number, portolan, run, start, text};
use portolan_simweb::WebSpec;
use serde_json::Value;
use std::collections::BTreeSet;
use std::time::{Duration, Instant};

#[track_caller]
fn judged(report: &Value, due: u64, out: u64) {
    let found = (number(report, "judged_due"), number(report, "judged_out"));
    assert_eq!(found, (due, out), "{report}");
    assert!(
        number(report, "judged") + number(report, "reread") > 0 || due + out == 0,
        "{report}"
    );
}

/// A chain of pages, and what leads beside it.
fn chain() -> Small {
    Small::serve(&[
        ("a.test/", "<a href=/1>1</a>"),
        ("a.test/1", "<a href=/2>2</a><a href=/one/x>x</a>"),
        ("a.test/2", "<a href=/3>3</a>"),
        ("a.test/3", "<a href=/4>4</a>"),
        ("a.test/4", "end"),
        ("a.test/one/x", "x"),
    ])
}

#[test]
fn a_greater_depth_goes_on_where_the_smaller_one_ended() {
    let site = chain();
    site.crawl(&["http://a.test/", "--max-depth", "1"]);
    assert_eq!(site.asked(), set(&["a.test/", "a.test/1"]));
    let report = site.crawl(&["--max-depth", "3"]);
    judged(&report, 2, 0);
    assert_eq!(site.asked(), set(&["a.test/2", "a.test/3", "a.test/one/x"]));
    assert!(site.why("http://a.test/4").contains("too many links away"));
    let config = site.config("[scope]\nmax_link_depth = -1\n");
    judged(&site.crawl(&["--config", &config]), 1, 0);
    assert_eq!(site.asked(), set(&["a.test/4"]));
}

#[test]
fn include_rules_and_seeds_count_from_the_next_run_on() {
    let site = Small::serve(&[
        (
            "a.test/",
            "<a href=/x1>x</a><a href=/y1>y</a><a href=http://b.test/y2>b</a>",
        ),
        ("a.test/x1", "x"),
        ("a.test/y1", "y"),
        ("b.test/", "b"),
        ("b.test/y2", "y"),
    ]);
    site.crawl(&["http://a.test/", "--include", "/x"]);
    assert_eq!(site.asked(), set(&["a.test/", "a.test/x1"]));
    judged(&site.crawl(&["--include", "/y"]), 1, 0);
    assert_eq!(site.asked(), set(&["a.test/y1"]));
    // A seed makes its host part of the scope, also for links that were found before.
    let ran = site.ran(&["http://b.test/"]);
    assert!(ran.err.contains("the seeds"), "{}", ran.err);
    judged(&ran.json(), 1, 0);
    assert_eq!(site.asked(), set(&["b.test/", "b.test/y2"]));
}

#[test]
fn types_limits_and_marks_count_from_the_next_run_on() {
    let pdf = "HTTP/1.1 200 OK\r\nContent-Type: application/pdf\r\nConnection: close\r\nContent-Length: 3\r\n\r\npdf";
    let png = "HTTP/1.1 200 OK\r\nContent-Type: image/png\r\nConnection: close\r\nContent-Length: 3\r\n\r\npng";
    let site = Small::serve(&[
        (
            "a.test/",
            "<a href=/d>d</a><a href=/p>p</a><a rel=nofollow href=/n>n</a><a rel=nofollow href=http://b.test/n>b</a>",
        ),
        ("a.test/d", pdf),
        ("a.test/p", png),
        ("a.test/n", "n"),
        ("b.test/n", "n"),
    ]);
    let config = site.config("[content]\ntypes = [\"text/html\"]\n");
    site.crawl(&["http://a.test/", "--config", &config]);
    assert_eq!(site.asked(), set(&["a.test/", "a.test/d", "a.test/p"]));
    let config = site.config("[content]\ntypes = [\"text/html\", \"application/pdf\"]\n");
    judged(&site.crawl(&["--config", &config]), 1, 0);
    assert_eq!(site.asked(), set(&["a.test/d"]));
    assert!(
        site.why("http://a.test/p")
            .contains("its content type is not wanted")
    );
    // A wider scope does not make a link that is marked lead anywhere.
    judged(&site.crawl(&["--scope", "any"]), 0, 0);
    assert!(site.why("http://b.test/n").contains("marked nofollow"));
    let config =
        site.config("[scope]\nrespect_nofollow = false\n[limits]\nmax_pages_per_host = 2\n");
    judged(&site.crawl(&["--config", &config]), 2, 0);
    // The host a.test had two documents.
    assert_eq!(site.asked(), set(&["b.test/n"]));
    assert!(site.why("http://a.test/n").contains("budget of pages"));
    let config = site.config("[limits]\nmax_pages_per_host = 3\n");
    judged(&site.crawl(&["--config", &config]), 1, 0);
    assert_eq!(site.asked(), set(&["a.test/n"]));
}

#[test]
fn what_embeds_are_on_for_leaves_the_queue_when_they_are_off() {
    let site = Small::serve(&[
        (
            "a.test/",
            "<link rel=stylesheet href=/s.css><img src=/i.png><a href=/1>1</a>",
        ),
        ("a.test/1", "one"),
    ]);
    let config = site.config("[content]\nembeds = true\n");
    site.crawl(&["http://a.test/", "--config", &config, "--max-pages", "1"]);
    assert_eq!(site.asked(), set(&["a.test/"]));
    let config = site.config("[content]\nembeds = false\n");
    judged(&site.crawl(&["--config", &config]), 0, 2);
    assert_eq!(site.asked(), set(&["a.test/1"]));
    assert!(
        site.why("http://a.test/s.css")
            .contains("content.embeds is off")
    );
}

/// The links are in the archive: pages, copies of pages and packed ones are read again, and their servers are asked for
/// what is new alone.
#[test]
fn embeds_that_are_turned_on_are_found_on_archived_pages() {
    let body = "<link rel=stylesheet href=s.css><img src=/i.png><a href=/x/>x</a><a href=http://b.test/>b</a>";
    let chunked = format!(
        "HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nConnection: close\r\nTransfer-Encoding: chunked\r\n\r\n{:x}\r\n{body}\r\n0\r\n\r\n",
        body.len()
    );
    let site = Small::serve(&[
        ("a.test/", &chunked),
        // The same payload: a copy, whose parts are elsewhere.
        ("a.test/x/", body),
        ("a.test/s.css", "css"),
        ("a.test/x/s.css", "css"),
        ("a.test/i.png", "png"),
    ]);
    site.crawl(&["http://a.test/"]);
    assert_eq!(site.asked(), set(&["a.test/", "a.test/x/"]));
    let config = site.config("[content]\nembeds = true\n");
    let report = site.crawl(&["--config", &config]);
    assert_eq!(
        site.asked(),
        set(&["a.test/s.css", "a.test/x/s.css", "a.test/i.png"])
    );
    judged(&report, 3, 0);
    assert_eq!(number(&report, "reread"), 2, "{report}");
    assert!(
        site.why("http://a.test/x/s.css")
            .contains("http://a.test/x/")
    );
    assert!(
        site.why("http://b.test/")
            .contains("outside the crawl's scope")
    );
    // And once is enough.
    let report = site.crawl(&[]);
    assert_eq!(
        (number(&report, "reread"), number(&report, "judged")),
        (0, 0)
    );
}

#[test]
fn links_beyond_a_limit_are_taken_from_the_archive_when_it_is_raised() {
    let site = Small::serve(&[
        (
            "a.test/",
            "<a href=/1>1</a><a href=/2>2</a><a href=/3>3</a>",
        ),
        ("a.test/1", "1"),
        ("a.test/2", "2"),
        ("a.test/3", "3"),
    ]);
    let config = site.config("[content]\nmax_links = 1\n");
    site.crawl(&["http://a.test/", "--config", &config]);
    assert_eq!(site.asked(), set(&["a.test/", "a.test/1"]));
    let config = site.config("[content]\nmax_links = 10\n");
    let report = site.crawl(&["--config", &config]);
    judged(&report, 2, 0);
    assert_eq!(number(&report, "reread"), 1, "{report}");
    assert_eq!(site.asked(), set(&["a.test/2", "a.test/3"]));
}

#[test]
fn a_style_sheet_that_nobody_looks_for_is_told_so() {
    let site = Small::serve(&[("a.test/", "<link rel=stylesheet href=/s.css>")]);
    site.crawl(&["http://a.test/"]);
    let told = site.why("http://a.test/s.css");
    assert!(told.contains("content.embeds is off"), "{told}");
    assert!(!told.contains("no page"), "{told}");
}

/// Killed while it judges, a crawl goes on judging, and ends as one that was not killed; also if a person goes back to
/// the settings that were there before.
#[test]
fn a_judging_that_is_killed_starts_again_and_ends_the_same() {
    let spec = WebSpec::small().with_hosts(12).with_pages_per_host(60);
    let home = spec.home_url();
    let crawl = |site: &Site| {
        let config = site.config("[registry]\ncheckpoint_log_mb = 1\n");
        let mut command = site.crawl_politely();
        command.args(["--delay", "0s", "--config"]).arg(config);
        run(&mut command).succeeded().json()
    };
    let calm = Site::serve(spec.clone());
    crawl(&calm);
    run(calm.resume().args(["--scope", "any"])).succeeded();
    let whole: BTreeSet<String> = calm.witness().per_url().into_keys().collect();
    assert!(whole.len() > 300, "{home}: {}", whole.len());

    let site = Site::serve(spec);
    crawl(&site);
    let host_alone: BTreeSet<String> = site.witness().per_url().into_keys().collect();
    let judged = site.out().join("judged");
    let before = std::fs::read_to_string(&judged).expect("a file");
    let is_unfinished = || {
        let now = std::fs::read_to_string(&judged);
        now.is_ok_and(|now| now.contains("unfinished = true"))
    };
    let (mut cut_off, mut ended) = (0, false);
    for wait_ms in [0, 1, 3, 6, 10, 15, 20, 30, 0, 0, 0, 0, 0, 0, 0, 0] {
        if ended && cut_off > 0 {
            break;
        }
        if ended {
            // Judging was quicker than the kill: once more from the start.
            run(site.resume().args(["--scope", "host"])).succeeded();
        }
        let begun = Instant::now();
        let mut child = start(site.resume().args(["--scope", "any"]));
        // It takes a few milliseconds only, so nobody sleeps here.
        while !is_unfinished() && begun.elapsed() < Duration::from_secs(20) {
            std::thread::yield_now();
        }
        std::thread::sleep(Duration::from_millis(wait_ms));
        child.kill().expect("it can be killed");
        finish(child, begun);
        match is_unfinished() {
            true => cut_off += 1,
            false => ended = true,
        }
    }
    assert!(cut_off > 0, "no kill came while it judged");
    site.witness().mark();
    // Back to where it was: all that the cut-off judging let in is taken out again.
    let report = run(site.resume().args(["--scope", "host"]))
        .succeeded()
        .json();
    if ended {
        // A run judged to the end and may have fetched something.
        assert!(number(&report, "judged") > 0, "{report}");
    } else {
        let now: BTreeSet<String> = site.witness().per_url().into_keys().collect();
        assert_eq!(now, host_alone);
    }
    assert_eq!(number(&report, "urls_due"), 0, "{report}");
    let after = std::fs::read_to_string(&judged).expect("a file");
    assert_eq!(before, after);
    run(site.resume().args(["--scope", "any"])).succeeded();
    let all: BTreeSet<String> = site.witness().per_url().into_keys().collect();
    assert_eq!(all, whole);
    let counts = |site: &Site| {
        let urls = site.urls();
        let of = |state: &str| urls.values().filter(|u| text(u, "state") == state).count();
        (urls.len(), of("due"), of("excluded"), of("failed"))
    };
    assert_eq!(counts(&site), counts(&calm));
    site.ask(&["check"]);
}

#[test]
fn a_wider_scope_fetches_what_was_outside_and_a_narrower_one_leaves_the_queue() {
    let site = Small::serve(&[
        (
            "www.a.test/",
            "<a href=/1>1</a><a href=http://docs.a.test/>d</a><a href=http://b.test/>b</a>",
        ),
        ("www.a.test/1", "<a href=http://docs.a.test/>d</a>"),
        (
            "docs.a.test/",
            "<a href=/2>2</a><a href=/3>3</a><a href=/4>4</a>",
        ),
        ("docs.a.test/2", "two"),
        ("docs.a.test/3", "three"),
        ("docs.a.test/4", "four"),
        ("b.test/", "b"),
    ]);
    let report = site.crawl(&["http://www.a.test/"]);
    judged(&report, 0, 0);
    assert_eq!(site.asked(), set(&["www.a.test/", "www.a.test/1"]));
    assert!(
        site.why("http://docs.a.test/")
            .contains("outside the crawl's scope")
    );
    assert!(site.out().join("judged").exists());

    // The same again costs nothing and changes nothing.
    let ran = site.ran(&[]);
    assert_eq!(number(&ran.json(), "judged"), 0);
    assert!(!ran.err.contains("judged"), "{}", ran.err);
    assert_eq!(site.asked(), set(&[]));

    let ran = site.ran(&["--scope", "domain", "--max-pages", "1"]);
    assert!(ran.err.contains("scope.scope"), "{}", ran.err);
    // The terminal tells it at once, the report at the end.
    let told = "2 URLs judged again, 1 became due, 0 left the queue.";
    assert!(ran.err.contains(told), "{}", ran.err);
    judged(&ran.json(), 1, 0);
    assert_eq!(site.asked(), set(&["docs.a.test/"]));
    assert!(
        site.why("http://b.test/")
            .contains("outside the crawl's scope")
    );

    // Three pages of docs.a.test are due, and leave the queue.
    let report = site.crawl(&["--scope", "host"]);
    judged(&report, 0, 3);
    assert_eq!(site.asked(), set(&[]));
    assert_eq!(number(&report, "urls_due"), 0);
    assert!(
        site.why("http://docs.a.test/2")
            .contains("outside the crawl's scope")
    );

    let report = site.crawl(&["--scope", "any", "--exclude", "/4$"]);
    judged(&report, 3, 0);
    assert_eq!(
        site.asked(),
        set(&["docs.a.test/2", "docs.a.test/3", "b.test/"])
    );
    assert!(
        site.why("http://docs.a.test/4")
            .contains("an exclude rule matches it")
    );
    assert_eq!(text(&report, "stopped_by"), "done");
    let mut command = portolan();
    let status = run(command.arg("status").arg(site.out())).succeeded();
    assert!(
        status
            .out
            .contains("Changed settings made 4 URLs due and took 3 URLs out of the queue."),
        "{}",
        status.out
    );
    let mut command = portolan();
    run(command.arg("check").arg(site.out())).succeeded();
}
