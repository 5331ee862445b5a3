//! Workers and the end of a crawl, without a socket.

use crate::rig::{Rig, Says, links_to};

/// Ten hosts, each with a page that leads to the next.
fn chain(host: &str, path: &str) -> Says {
    let number: u32 = host
        .trim_start_matches('h')
        .trim_end_matches(".test")
        .parse()
        .unwrap_or(0);
    match path {
        "/robots.txt" => Says::status(404),
        "/" if number < 9 => links_to(&["/own", &format!("http://h{}.test/", number + 1)]),
        _ => Says::page("nothing"),
    }
}

#[test]
fn a_crawl_of_several_workers_ends_when_nothing_is_due_with_any() {
    for threads in [1, 2, 3] {
        let mut rig = Rig::new(|seen| chain(&seen.host, &seen.path));
        rig.settings.limits.threads = threads;
        rig.settings.registry.partitions = 5;
        rig.settings.politeness.delay_ms = 300;
        let report = rig.crawl(&["http://h0.test/"]);
        assert_eq!(report.pages, 19, "{threads} threads");
        assert_eq!(report.urls_due, 0);
        let mut asked: Vec<_> = rig.seen().into_iter().map(|s| (s.host, s.path)).collect();
        let all = asked.len();
        asked.sort();
        asked.dedup();
        assert_eq!(asked.len(), all, "something was asked for twice");
    }
}

#[test]
fn a_client_that_knows_nothing_but_its_grants_crawls_the_same() {
    let crawl = |delay_ms, wired| {
        let mut rig = Rig::new(|seen| chain(&seen.host, &seen.path));
        rig.settings.limits.threads = 2;
        rig.settings.registry.partitions = 3;
        rig.settings.politeness.delay_ms = delay_ms;
        rig.wired = wired;
        let report = rig.crawl(&["http://h0.test/"]);
        assert_eq!(report.pages, 19);
        rig.seen()
    };
    for delay_ms in [0, 300] {
        assert_eq!(crawl(delay_ms, true), crawl(delay_ms, false));
    }
}

#[test]
fn the_same_chance_gives_the_same_crawl() {
    let run = || {
        let mut rig = Rig::new(|seen| chain(&seen.host, &seen.path));
        rig.settings.limits.threads = 2;
        rig.crawl(&["http://h0.test/"]);
        rig.seen()
    };
    assert_eq!(run(), run());
}

#[test]
fn with_one_place_hosts_are_asked_one_after_the_other() {
    let mut rig = Rig::new(|seen| match &seen.path[..] {
        "/" => Says::Later(1_000, Box::new(chain(&seen.host, "/"))),
        path => chain(&seen.host, path),
    });
    rig.settings.limits.connections = 1;
    rig.settings.limits.waiting_connections = 1;
    rig.settings.limits.slow_connections = 1;
    rig.settings.politeness.delay_ms = 0;
    let report = rig.crawl(&["http://h0.test/"]);
    assert_eq!(report.pages, 19);
}
