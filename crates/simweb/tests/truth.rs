//! The computed truth against a walk over the wire: both must name the same URLs.

mod client;
mod crawler;

use client::serve;
use crawler::{Found, Walk};
use portolan_simweb::{OddSpec, Scope, Truth, TruthQuery, UrlKind, Via, Web, WebSpec};
use sha1::{Digest, Sha1};
use std::collections::BTreeSet;

fn quick(spec: WebSpec) -> WebSpec {
    WebSpec {
        odd: OddSpec {
            drip_pause_ms: 0,
            endless_bytes: 50_000,
            ..spec.odd.clone()
        },
        ..spec
    }
}

fn walk(spec: &WebSpec, query: &TruthQuery) -> (Truth, Found) {
    let server = serve(spec.clone());
    let truth = server.web().truth(query);
    let walk = Walk {
        addr: server.addr(),
        token: "portolan",
        one_host: query.scope == Scope::Host,
        nofollow: query.nofollow,
        images: query.images,
    };
    let seed = query
        .seeds
        .first()
        .cloned()
        .unwrap_or_else(|| spec.home_url());
    let found = walk.run(&seed);
    let report = server.witness().report();
    assert_eq!(
        (
            report.forbidden,
            report.before_robots,
            report.decoys,
            report.aliases
        ),
        (0, 0, 0, 0),
        "{report}"
    );
    (truth, found)
}

fn compare(truth: &Truth, found: &Found) {
    let same = |what: &str, expected: BTreeSet<&str>, got: BTreeSet<&str>| {
        let missing: Vec<_> = expected.difference(&got).take(5).collect();
        let surplus: Vec<_> = got.difference(&expected).take(5).collect();
        assert!(
            missing.is_empty() && surplus.is_empty(),
            "{what}: missing {missing:?}, surplus {surplus:?}"
        );
    };
    let keys = |set: &BTreeSet<String>| -> BTreeSet<String> { set.clone() };
    same(
        "documents",
        truth.documents(),
        keys(&found.documents).iter().map(String::as_str).collect(),
    );
    same(
        "redirects",
        truth.redirects(),
        found.redirects.keys().map(String::as_str).collect(),
    );
    same(
        "errors",
        truth.errors(),
        found.errors.keys().map(String::as_str).collect(),
    );
    same(
        "forbidden",
        truth.forbidden(),
        found.forbidden.iter().map(String::as_str).collect(),
    );
    same(
        "sitemaps",
        truth.of_kind(UrlKind::Sitemap),
        found.sitemaps.iter().map(String::as_str).collect(),
    );
    for (url, to) in &found.redirects {
        assert_eq!(truth.urls[url].redirects_to.as_ref(), Some(to), "{url}");
    }
    for (url, status) in &found.errors {
        assert_eq!(truth.urls[url].status, *status, "{url}");
    }
    let mut compared = 0;
    for (url, body) in &found.bodies {
        let truth = &truth.urls[url];
        if let Some(expected) = truth.body.as_ref()
            && !truth.oddity.is_some_and(|o| o.damages())
        {
            let hex: String = Sha1::digest(body)
                .iter()
                .map(|b| format!("{b:02x}"))
                .collect();
            assert_eq!(
                (expected.bytes, &expected.sha1),
                (body.len() as u64, &hex),
                "{url}"
            );
            compared += 1;
        }
    }
    let documents = found.documents.len();
    println!("{documents} documents found, {compared} bodies compared");
    assert!(compared * 2 > documents);
}

#[test]
fn a_walk_of_the_odd_web_finds_exactly_the_truth() {
    for seed in [1, 2] {
        let spec = quick(WebSpec::odd())
            .with_seed(seed)
            .with_hosts(40)
            .with_pages_per_host(40);
        let (truth, found) = walk(
            &spec,
            &TruthQuery {
                digests: true,
                ..TruthQuery::default()
            },
        );
        compare(&truth, &found);
        assert!(truth.duplicates() > 10, "{}", truth.duplicates());
        let kinds = [
            UrlKind::Document,
            UrlKind::Redirect,
            UrlKind::Error,
            UrlKind::Forbidden,
            UrlKind::Sitemap,
            UrlKind::Feed,
        ];
        for kind in kinds {
            assert!(!truth.of_kind(kind).is_empty(), "{kind:?}");
        }
        let vias: BTreeSet<Via> = truth.urls.values().filter_map(|t| t.via).collect();
        println!("ways of discovery: {vias:?}");
        assert!(vias.len() >= 12, "{vias:?}");
        assert!(!truth.trap_prefixes.is_empty());
    }
}

#[test]
fn a_walk_that_follows_everything_finds_more_and_exactly_the_truth() {
    let spec = quick(WebSpec::odd())
        .with_seed(3)
        .with_hosts(30)
        .with_pages_per_host(40);
    let query = TruthQuery {
        nofollow: true,
        images: true,
        digests: true,
        ..TruthQuery::default()
    };
    let (truth, found) = walk(&spec, &query);
    compare(&truth, &found);
    let strict = Web::new(spec).expect("sound").truth(&TruthQuery::default());
    assert!(strict.urls.len() < truth.urls.len());
    assert!(truth.urls.values().any(|t| t.via == Some(Via::Image)));
    assert!(truth.urls.values().any(|t| t.via == Some(Via::RelNofollow)));
}

#[test]
fn a_walk_of_the_demo_finds_exactly_the_truth() {
    let spec = quick(WebSpec::demo()).with_latency_ms(0.0);
    let (truth, found) = walk(
        &spec,
        &TruthQuery {
            digests: true,
            ..TruthQuery::default()
        },
    );
    compare(&truth, &found);
    assert!(
        truth.documents().len() > 1_500,
        "{}",
        truth.documents().len()
    );
}

#[test]
fn a_host_is_reached_from_its_own_home_page() {
    let spec = quick(WebSpec::odd()).with_seed(4).with_hosts(20);
    for host in [0, 4, 7] {
        let web = Web::new(spec.clone()).expect("sound");
        let seeds = vec![web.page_url(host, 0)];
        let query = TruthQuery {
            seeds,
            scope: Scope::Host,
            digests: true,
            ..TruthQuery::default()
        };
        let (truth, found) = walk(&spec, &query);
        let name = format!("http://{}/", web.host_name(host));
        assert!(truth.urls.keys().all(|url| url.starts_with(&name)));
        if truth.documents().len() > 5 {
            compare(&truth, &found);
        }
    }
}

#[test]
fn plain_webs_are_connected_whole() {
    for (hosts, pages, skew) in [
        (1, 1, 0.0),
        (1, 700, 0.0),
        (3, 2, 0.0),
        (200, 7, 0.0),
        (50, 60, 0.8),
    ] {
        let spec = WebSpec {
            hosts,
            pages_per_host: pages,
            skew,
            ..WebSpec::default()
        };
        let web = Web::new(spec).expect("sound");
        let truth = web.truth(&TruthQuery::default());
        assert_eq!(
            truth.documents().len() as u64,
            web.page_count(),
            "{hosts} hosts, {pages} pages"
        );
        for host in [0, hosts / 2, hosts - 1] {
            let seeds = vec![web.page_url(host, 0)];
            let truth = web.truth(&TruthQuery {
                seeds,
                scope: Scope::Host,
                ..TruthQuery::default()
            });
            assert!(
                truth.documents().len() > usize::from(pages > 1) && truth.forbidden().is_empty()
            );
        }
    }
}
