//! Doors, connections and the pause afterwards, without a socket.

use crate::rig::{Rig, Says, gaps_ms, links_to};

#[test]
fn hosts_at_one_address_are_asked_one_after_the_other() {
    let mut rig = Rig::at_one_address(|seen| match (&seen.host[..], &seen.path[..]) {
        ("a.test", "/") => links_to(&["http://b.test/", "http://c.test/"]),
        (_, "/robots.txt") => Says::status(404),
        _ => Says::page("nothing"),
    });
    rig.settings.politeness.delay_ms = 10;
    rig.settings.politeness.ip_delay_ms = 700;
    let report = rig.crawl(&["http://a.test/"]);
    assert_eq!(report.pages, 3);
    let (seen, gaps) = (rig.seen(), gaps_ms(&rig.seen()));
    for (two, gap) in seen.windows(2).zip(gaps) {
        let is_other = two[0].host != two[1].host;
        assert!(!is_other || gap >= 700, "{two:?}");
    }
}

#[test]
fn a_server_that_is_slow_to_answer_is_left_alone_in_proportion() {
    let mut rig = Rig::new(|seen| match &seen.path[..] {
        "/robots.txt" => Says::status(404),
        "/" => Says::Later(3_000, Box::new(links_to(&["/1"]))),
        _ => Says::page("nothing"),
    });
    rig.settings.politeness.delay_ms = 10;
    rig.settings.politeness.response_time_factor = 2.0;
    rig.crawl(&["http://a.test/"]);
    let pages = rig.pages();
    // 3 s until it answered, and twice that of rest.
    assert!(pages[1].at_ms - pages[0].at_ms >= 9_000, "{pages:?}");
}

#[test]
fn a_connection_that_was_closed_meanwhile_is_replaced_and_nobody_is_blamed() {
    let mut rig = Rig::new(|seen| match (&seen.path[..], seen.connection) {
        ("/robots.txt", _) => Says::status(404),
        ("/", _) => links_to(&["/1"]),
        (_, 1) => Says::Nothing,
        _ => Says::page("nothing"),
    });
    rig.settings.politeness.delay_ms = 50;
    let report = rig.crawl(&["http://a.test/"]);
    assert_eq!((report.pages, report.failed), (2, 0));
}

#[test]
fn a_host_that_fails_is_asked_again_after_pauses_that_grow() {
    let mut rig = Rig::new(|seen| match (&seen.path[..], seen.before) {
        ("/robots.txt", 0..4) => Says::Nothing,
        ("/robots.txt", _) => Says::status(404),
        _ => Says::page("here at last"),
    });
    rig.settings.politeness.delay_ms = 10;
    rig.settings.politeness.backoff_ms = 1_000;
    let report = rig.crawl(&["http://a.test/"]);
    assert_eq!(report.pages, 1);
    let gaps = gaps_ms(&rig.seen());
    assert!(gaps[..4].windows(2).all(|two| two[0] <= two[1]), "{gaps:?}");
    assert!(gaps[0] >= 1_000 && gaps[3] >= 4_000, "{gaps:?}");
}
