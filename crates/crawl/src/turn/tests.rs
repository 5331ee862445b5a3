//! Turns, without a socket.

use crate::rig::{Rig, Says, gaps_ms, links_to};
use portolan_registry::UrlState;

fn three_pages(path: &str) -> Says {
    match path {
        "/" => links_to(&["/1", "/2", "/3"]),
        "/robots.txt" => Says::status(404),
        _ => Says::page("nothing"),
    }
}

#[test]
fn a_host_rests_for_its_delay_after_each_request() {
    let mut rig = Rig::new(|seen| three_pages(&seen.path));
    rig.settings.politeness.delay_ms = 2_500;
    let report = rig.crawl(&["http://a.test/"]);
    assert_eq!(report.pages, 4);
    // robots.txt is a request like any other.
    assert_eq!(rig.seen().len(), 5);
    let gaps = gaps_ms(&rig.seen());
    assert!(gaps.iter().all(|&gap| gap >= 2_500), "{gaps:?}");
    assert!(gaps.iter().all(|&gap| gap < 2_700), "{gaps:?}");
}

#[test]
fn hosts_do_not_wait_for_each_other() {
    let mut rig = Rig::new(|seen| match (&seen.host[..], &seen.path[..]) {
        ("a.test", "/") => links_to(&["http://b.test/", "http://c.test/"]),
        (_, "/robots.txt") => Says::status(404),
        _ => Says::page("nothing"),
    });
    rig.settings.politeness.delay_ms = 10_000;
    rig.crawl(&["http://a.test/"]);
    let pages = rig.pages();
    assert_eq!(pages.len(), 3);
    // Each waits once, for its own robots.txt; both wait together.
    assert!(pages[2].at_ms - pages[1].at_ms < 1_000, "{pages:?}");
}

#[test]
fn without_a_delay_a_turn_is_several_urls_on_one_connection() {
    let mut rig = Rig::new(|seen| three_pages(&seen.path));
    rig.settings.politeness.delay_ms = 0;
    rig.crawl(&["http://a.test/"]);
    assert!(rig.seen().iter().all(|seen| seen.connection == 1));
}

#[test]
fn a_page_that_breaks_is_tried_again_behind_the_others_and_fails_in_the_end() {
    let mut rig = Rig::new(|seen| match &seen.path[..] {
        "/1" => Says::Noise,
        path => three_pages(path),
    });
    rig.settings.politeness.delay_ms = 10;
    rig.settings.politeness.backoff_ms = 100;
    rig.settings.limits.max_attempts = 3;
    rig.settings.http.http09 = false;
    let report = rig.crawl(&["http://a.test/"]);
    assert_eq!((report.pages, report.failed), (3, 1));
    // A failure that may be the host's is looked into with robots.txt, not held against the page.
    let tries = rig.paths().iter().filter(|path| *path == "/1").count();
    assert!((3..=6).contains(&tries), "{tries} tries");
    let robots = rig.seen().len() - rig.pages().len();
    assert!(robots >= 2, "{:?}", rig.seen());
    let last = rig.paths().iter().rposition(|path| path == "/3");
    let broken_again = rig.paths().iter().rposition(|path| path == "/1");
    assert!(last < broken_again, "{:?}", rig.paths());
}

#[test]
fn a_host_that_asks_for_rest_gets_it() {
    let mut rig = Rig::new(|seen| match (&seen.path[..], seen.before) {
        ("/1", 0) => Says::This(429, "Retry-After: 60\r\n".to_owned(), String::new()),
        (path, _) => three_pages(path),
    });
    rig.settings.politeness.delay_ms = 100;
    let report = rig.crawl(&["http://a.test/"]);
    assert_eq!(report.pages, 4);
    let seen = rig.seen();
    let refused = seen
        .iter()
        .position(|seen| seen.path == "/1")
        .expect("it was asked for");
    assert!(gaps_ms(&seen)[refused] >= 60_000, "{seen:?}");
}

#[test]
fn a_host_has_no_more_pages_than_its_budget() {
    let mut rig = Rig::new(|seen| three_pages(&seen.path));
    rig.settings.politeness.delay_ms = 0;
    rig.settings.limits.max_pages_per_host = 2;
    let report = rig.crawl(&["http://a.test/"]);
    assert_eq!((report.pages, report.excluded), (2, 2));
}

#[test]
fn a_redirect_is_a_link_and_both_urls_have_their_end() {
    let rig = Rig::new(|seen| match &seen.path[..] {
        "/" => Says::to("/there"),
        path => three_pages(path),
    });
    let report = rig.crawl(&["http://a.test/"]);
    assert_eq!((report.pages, report.redirects), (1, 1));
    let there = rig.url("http://a.test/there").expect("it is known");
    assert_eq!(there.state, UrlState::Visited);
}
