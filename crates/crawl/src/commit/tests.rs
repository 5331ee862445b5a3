//! What is durable when a machine dies, without a socket.

use portolan_registry::UrlState;

use crate::rig::{Rig, Says, links_to};

fn many_pages(path: &str) -> Says {
    let all: Vec<String> = (0..20).map(|page| format!("/{page}")).collect();
    let all: Vec<&str> = all.iter().map(String::as_str).collect();
    match path {
        "/" => links_to(&all),
        "/robots.txt" => Says::status(404),
        _ => Says::page(path),
    }
}

#[test]
fn what_was_committed_before_a_kill_is_not_asked_for_again() {
    let mut rig = Rig::new(|seen| many_pages(&seen.path));
    rig.settings.politeness.delay_ms = 1_000;
    rig.settings.archive.commit_ms = 100;
    rig.crawl_until(&["http://a.test/"], 8_500);
    let before = rig.pages();
    assert!(before.len() > 5 && before.len() < 12, "{before:?}");
    let report = rig.crawl(&[]);
    assert!(report.recovered.after_crash);
    assert_eq!(report.pages, 21);
    let twice = rig.pages().iter().filter(|seen| seen.before > 0).count();
    assert!(twice <= 1, "{twice} pages were asked for twice");
    // After a crash the host waits its delay anew.
    let all = rig.pages();
    let rested_ms = all[before.len()].at_ms - before[before.len() - 1].at_ms;
    assert!(rested_ms >= 1_000, "{rested_ms} ms, {all:?}");
}

#[test]
fn what_was_not_committed_is_asked_for_again_and_is_there_once() {
    let mut rig = Rig::new(|seen| many_pages(&seen.path));
    rig.settings.politeness.delay_ms = 100;
    rig.settings.archive.commit_ms = 3_600_000;
    rig.crawl_until(&["http://a.test/"], 1_500);
    assert!(rig.pages().len() > 3);
    rig.settings.archive.commit_ms = 100;
    let report = rig.crawl(&[]);
    assert_eq!(report.pages, 21);
    let page = rig.url("http://a.test/7").expect("it is known");
    assert_eq!((page.state, page.attempts), (UrlState::Visited, 0));
}

#[test]
fn a_payload_that_is_known_is_stored_once() {
    let mut rig = Rig::new(|seen| match &seen.path[..] {
        "/" | "/robots.txt" => many_pages(&seen.path),
        _ => Says::page("the same on every page"),
    });
    rig.settings.politeness.delay_ms = 0;
    let report = rig.crawl(&["http://a.test/"]);
    assert_eq!((report.pages, report.duplicates), (21, 19));
}

#[test]
fn many_pages_are_one_commit_and_a_patient_archivist_ends_all_the_same() {
    let mut rig = Rig::new(|seen| many_pages(&seen.path));
    rig.settings.politeness.delay_ms = 0;
    rig.settings.archive.commit_ms = 60_000;
    let report = rig.crawl(&["http://a.test/"]);
    assert_eq!(report.pages, 21);
    // Nobody else has anything to do, so nobody waits for the minute.
    assert!(report.seconds < 30.0, "{} s", report.seconds);
}
