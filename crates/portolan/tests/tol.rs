//! Tables of links: read before their documents where a site has them, believed until one lies. The witness judges.

mod harness;

use harness::{QUICK, Site, number, run, text};
use portolan_simweb::{RequestRecord, TablesSpec, Told, TruthQuery, UrlCount, WebSpec};
use std::collections::BTreeMap;

const HOSTS: u32 = 12;

fn spec(told: Told) -> WebSpec {
    let mut spec = WebSpec::small().with_hosts(HOSTS).with_pages_per_host(12);
    spec.links.off_host_share = 0.5;
    spec.content.gzip_share = 0.3;
    spec.tables = TablesSpec {
        tol_share: 0.6,
        lying_share: 0.4,
        told,
        ..TablesSpec::default()
    };
    spec
}

fn config(site: &Site, tol: &str) -> std::path::PathBuf {
    site.config(&format!("{QUICK}[content]\ntol = \"{tol}\"\n"))
}

fn is_table(url: &str) -> bool {
    url.ends_with(".tol")
}

/// The hosts whose tables lie.
fn liars(site: &Site) -> Vec<u32> {
    (0..HOSTS)
        .filter(|&host| site.web.tables_lie(host))
        .collect()
}

fn tables_asked(asked: &BTreeMap<String, UrlCount>, site: &Site, host: u32) -> usize {
    let own = format!("http://{}/", site.web.host_name(host));
    let mut urls = asked.keys();
    urls.by_ref()
        .filter(|url| url.starts_with(&own) && is_table(url))
        .count()
}

#[test]
fn tables_come_before_their_documents_and_liars_are_found_out() {
    for (told, tol) in [
        (Told::Robots, "told"),
        (Told::Header, "told"),
        (Told::Nowhere, "probe"),
    ] {
        let site = Site::serve(spec(told));
        site.witness().record_requests(10_000);
        let report = run(site.crawl().arg("--config").arg(config(&site, tol)))
            .succeeded()
            .json();
        let seen = site.witness().report();
        assert!(
            seen.is_clean() && seen.repeats_in_one_epoch == 0,
            "{told:?}: {seen}"
        );
        let asked = site.witness().per_url();
        let truth = site.truth(&TruthQuery::default());
        let missed = truth.missed(&asked);
        assert!(missed.is_empty(), "{told:?}: {missed:?}");

        let requests = site.witness().requests();
        let begun: BTreeMap<&str, &RequestRecord> = requests
            .iter()
            .map(|request| (request.url.as_str(), request))
            .collect();
        for table in requests
            .iter()
            .filter(|request| is_table(&request.url) && request.status == 200)
        {
            let page = table.url.strip_suffix(".tol").unwrap_or_default();
            let page = page.strip_suffix("index.html").unwrap_or(page);
            assert!(table.end_us <= begun[page].begin_us, "{table:?}");
        }
        let liars = liars(&site);
        assert!(!liars.is_empty(), "there is somebody to be found out");
        for host in 0..HOSTS {
            let count = tables_asked(&asked, &site, host);
            match site.web.has_tables(host) {
                // One probe a site, and nothing where nobody said anything.
                false => assert!(
                    count <= usize::from(tol == "probe"),
                    "{told:?} h{host}: {count}"
                ),
                true if liars.contains(&host) => {
                    assert_eq!(count, 1, "{told:?}: h{host} is not asked again")
                }
                true => assert!(count > 2, "{told:?} h{host}: {count}"),
            }
        }
        assert_eq!(number(&report, "tables_lied"), liars.len() as u64);
        assert!(number(&report, "table_links") > 0);

        let page = site.web.page_url(liars[0], 0);
        let why = site.ask(&["why", &page]).out;
        assert!(
            why.contains("Its site's tables of links are not believed"),
            "{why}"
        );
        assert_eq!(
            site.ask(&["why", "--json", &page]).json()["site_tol"],
            "lied"
        );

        let calm = Site::serve(spec(told));
        run(calm.crawl().arg("--config").arg(config(&calm, "never"))).succeeded();
        assert_eq!(
            back_links(&site),
            back_links(&calm),
            "{told:?}: links count once"
        );
        assert_eq!(tables_asked(&calm.witness().per_url(), &calm, 0), 0);
    }
}

/// Of what pages name; a lie is named by no page.
fn back_links(site: &Site) -> BTreeMap<String, u64> {
    let urls = site.urls().into_iter();
    let counts = urls.map(|(url, line)| (url, number(&line, "back_links")));
    counts.filter(|(url, _)| !url.contains("/lie/")).collect()
}

#[test]
fn a_liar_stays_disbelieved_in_the_next_session_and_a_lie_says_where_it_is_from() {
    let mut spec = spec(Told::Robots);
    spec.tables.tol_share = 1.0;
    spec.tables.lying_share = 1.0;
    spec.robots.forbidden_share = 0.0;
    let site = Site::serve(spec);
    run(site.crawl().arg("--config").arg(config(&site, "told"))).succeeded();
    let tables = |site: &Site| {
        let asked = site.witness().per_url();
        (0..HOSTS)
            .map(|host| tables_asked(&asked, site, host))
            .sum::<usize>()
    };
    let before = tables(&site);
    assert_eq!(before, HOSTS as usize);
    let urls = site.urls();
    let lie = urls
        .keys()
        .find(|url| url.contains("/lie/"))
        .expect("a lie was believed");
    let why = site.ask(&["why", lie]).out;
    assert!(
        why.contains("First found in the table of links of"),
        "{why}"
    );
    assert!(why.contains("Back-links so far: 0."), "{why}");
    assert_eq!(text(&urls[lie], "state"), "failed");
    site.witness().reset();
    run(site.resume().arg("--new-session")).succeeded();
    assert_eq!(tables(&site), 0, "nobody is believed");
}

#[test]
fn a_table_that_robots_txt_forbids_is_not_asked_for() {
    let mut spec = spec(Told::Robots);
    spec.robots.forbidden_share = 0.3;
    spec.tables.lying_share = 0.0;
    let site = Site::serve(spec);
    run(site.crawl().arg("--config").arg(config(&site, "told"))).succeeded();
    let seen = site.witness().report();
    assert_eq!(seen.forbidden, 0, "{seen}");
    assert!(seen.is_clean(), "{seen}");
}
