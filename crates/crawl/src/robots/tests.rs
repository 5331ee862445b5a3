//! What robots.txt decides, without a socket.

use portolan_model::Reason;

use crate::rig::{Rig, Says, gaps_ms, links_to};

#[test]
fn no_page_comes_before_robots_txt_and_none_that_it_forbids() {
    let mut rig = Rig::new(|seen| match &seen.path[..] {
        "/robots.txt" => Says::robots("User-agent: *\nDisallow: /no\n"),
        "/" => links_to(&["/yes", "/no", "/no/more"]),
        _ => Says::page("nothing"),
    });
    rig.settings.politeness.delay_ms = 0;
    let report = rig.crawl(&["http://a.test/"]);
    assert_eq!(rig.seen()[0].path, "/robots.txt");
    assert_eq!(rig.paths(), ["/", "/yes"]);
    assert_eq!(report.excluded, 2);
    let no = rig.url("http://a.test/no").expect("it is known");
    assert_eq!(no.reason, Some(Reason::Robots));
}

#[test]
fn its_crawl_delay_is_kept() {
    let mut rig = Rig::new(|seen| match &seen.path[..] {
        "/robots.txt" => Says::robots("User-agent: *\nCrawl-delay: 7\n"),
        "/" => links_to(&["/1", "/2"]),
        _ => Says::page("nothing"),
    });
    rig.settings.politeness.delay_ms = 100;
    rig.crawl(&["http://a.test/"]);
    let gaps = gaps_ms(&rig.seen());
    assert!(gaps.iter().all(|&gap| gap >= 7_000), "{gaps:?}");
}

#[test]
fn while_it_cannot_be_read_nothing_is_fetched() {
    let mut rig = Rig::new(|seen| match (&seen.path[..], seen.before) {
        ("/robots.txt", 0..2) => Says::status(503),
        ("/robots.txt", _) => Says::robots(""),
        _ => Says::page("nothing"),
    });
    rig.settings.politeness.delay_ms = 10;
    rig.settings.politeness.backoff_ms = 500;
    let report = rig.crawl(&["http://a.test/"]);
    assert_eq!(report.pages, 1);
    let seen = rig.seen();
    let first_page = seen.iter().position(|seen| seen.path == "/");
    assert_eq!(first_page, Some(3), "{seen:?}");
}

#[test]
fn it_may_be_on_another_host_which_is_left_alone_afterwards_too() {
    let mut rig = Rig::new(|seen| match (&seen.host[..], &seen.path[..]) {
        ("a.test", "/robots.txt") => Says::to("http://b.test/rules"),
        ("b.test", "/rules") => Says::robots("User-agent: *\nDisallow: /no\n"),
        (_, "/robots.txt") => Says::status(404),
        ("a.test", "/") => links_to(&["/no", "http://b.test/"]),
        _ => Says::page("nothing"),
    });
    rig.settings.politeness.delay_ms = 2_000;
    rig.crawl(&["http://a.test/"]);
    let seen = rig.seen();
    assert!(!seen.iter().any(|seen| seen.path == "/no"), "{seen:?}");
    let of_b: Vec<_> = seen
        .into_iter()
        .filter(|seen| seen.host == "b.test")
        .collect();
    assert_eq!(of_b.len(), 3);
    let gaps = gaps_ms(&of_b);
    assert!(gaps.iter().all(|&gap| gap >= 2_000), "{gaps:?}");
}

#[test]
fn a_sitemap_that_it_names_is_read_for_its_links() {
    let mut rig = Rig::new(|seen| match &seen.path[..] {
        "/robots.txt" => Says::robots("Sitemap: http://a.test/map.xml\n"),
        "/map.xml" => Says::This(
            200,
            "Content-Type: application/xml\r\n".to_owned(),
            "<urlset><url><loc>http://a.test/hidden</loc></url></urlset>".to_owned(),
        ),
        _ => Says::page("nothing"),
    });
    rig.settings.politeness.delay_ms = 0;
    let report = rig.crawl(&["http://a.test/"]);
    assert_eq!((report.pages, report.sitemaps), (2, 1));
    assert!(rig.paths().contains(&"/hidden".to_owned()));
}
