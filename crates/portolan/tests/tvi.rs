//! Tables of volatile parts: in a new session they are fetched instead of their documents. The witness judges.

mod harness;

use harness::{QUICK, Site, ask, number, run, text};
use portolan_archive::WarcReader;
use portolan_simweb::{TablesSpec, Told, WebSpec};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

const HOSTS: u32 = 5;
const PAGES: u32 = 8;

/// Every page has a part that is another one in each generation; nothing else changes.
fn site(told: Told, misfit_share: f64) -> Site {
    let mut spec = WebSpec::small()
        .with_hosts(HOSTS)
        .with_pages_per_host(PAGES);
    spec.content.page_bytes = 20_000;
    spec.content.gzip_share = 0.4;
    spec.robots.forbidden_share = 0.0;
    (spec.changes.changed_share, spec.changes.gone_share) = (0.0, 0.0);
    spec.tables = TablesSpec {
        tvi_share: 1.0,
        misfit_share,
        told,
        ..TablesSpec::default()
    };
    Site::serve(spec)
}

fn first_session(site: &Site, tvi: &str) {
    let config = site.config(&format!("{QUICK}[content]\ntvi = \"{tvi}\"\n"));
    run(site.crawl().arg("--config").arg(config)).succeeded();
    assert!(tables(site).is_empty(), "there is nothing to refresh yet");
}

/// The next session in the next generation; its report.
fn next_session(site: &Site) -> Value {
    site.web.set_generation(site.web.generation() + 1);
    site.witness().reset();
    let report = run(site.resume().arg("--new-session")).succeeded().json();
    let seen = site.witness().report();
    assert!(seen.is_clean() && seen.repeats_in_one_epoch == 0, "{seen}");
    report
}

/// Tables that were asked for, as the URLs of their documents.
fn tables(site: &Site) -> BTreeSet<String> {
    let asked = site.witness().per_url().into_keys();
    asked
        .filter_map(|url| url.strip_suffix(".tvi").map(str::to_owned))
        .map(|url| url.strip_suffix("index.html").unwrap_or(&url).to_owned())
        .collect()
}

fn documents(site: &Site) -> BTreeSet<String> {
    let asked = site.witness().per_url().into_keys();
    asked
        .filter(|url| !url.ends_with(".tvi") && !url.ends_with("/robots.txt"))
        .collect()
}

fn sessions(site: &Site) -> Vec<Value> {
    site.ask(&["sessions", "--json"]).json_lines()
}

#[test]
fn a_new_session_fetches_the_parts_alone_and_shows_the_document_as_it_is_now() {
    for (told, tvi) in [
        (Told::Robots, "told"),
        (Told::Header, "told"),
        (Told::Nowhere, "probe"),
    ] {
        let site = site(told, 0.0);
        first_session(&site, tvi);
        let report = next_session(&site);
        let refreshed = tables(&site);
        let whole = documents(&site);
        assert!(
            refreshed.len() as u32 > HOSTS * PAGES / 2,
            "{told:?}: {refreshed:?}"
        );
        assert!(
            refreshed.is_disjoint(&whole),
            "{told:?}: no document beside its table"
        );
        assert_eq!((refreshed.len() + whole.len()) as u32, HOSTS * PAGES);
        assert_eq!(number(&report, "parts_refreshed"), refreshed.len() as u64);
        assert!(number(&report, "parts_saved_bytes") > 0);

        let lines = sessions(&site);
        assert_eq!(number(&lines[1], "pages"), u64::from(HOSTS * PAGES));
        assert_eq!(number(&lines[1], "refreshed"), refreshed.len() as u64);
        assert_eq!(number(&lines[1], "changed"), u64::from(HOSTS * PAGES));
        let spent = number(&lines[1], "wire_bytes") + number(&lines[1], "saved_bytes");
        let before = number(&lines[0], "wire_bytes");
        assert!(spent.abs_diff(before) < before / 10, "{lines:?}");
        assert!(number(&lines[1], "wire_bytes") < before / 2, "{lines:?}");

        // Generation 2: the newest parts count.
        next_session(&site);
        let page = refreshed.iter().next().expect("some");
        let cat = |how: &str| site.ask(&["warc cat", "--url", page, how]).out;
        let (stored, fresh) = (cat("--payload"), cat("--fresh"));
        assert!(
            stored.contains("as of 0") && fresh.contains("as of 2"),
            "{fresh}"
        );
        assert_eq!(stored.replace("as of 0", "as of 2"), fresh);

        // So do sessions that are compared.
        let diff = site
            .ask(&["diff", "1", "3", "--url", page, "--json"])
            .json();
        let lines = |key: &str| diff[key].to_string();
        assert!(lines("before").contains("as of 0"), "{diff}");
        assert!(lines("after").contains("as of 2"), "{diff}");
        let diff = site
            .ask(&["diff", "1", "2", "--url", page, "--json"])
            .json();
        assert!(diff["after"].to_string().contains("as of 1"), "{diff}");

        every_table_refers_to_its_document(&site, &refreshed);
        ask(&site.out(), &["check"]);
        ask(&site.out(), &["warc verify"]);
        let why = site.ask(&["why", page]).out;
        assert!(
            why.contains("its volatile parts alone were fetched"),
            "{why}"
        );
        assert_eq!(text(&site.urls()[page], "state"), "visited");
    }
}

/// The metadata record of each table names the record of the document that the table refreshes.
fn every_table_refers_to_its_document(site: &Site, refreshed: &BTreeSet<String>) {
    let mut documents = BTreeMap::new();
    let mut references = Vec::new();
    let files: BTreeSet<String> = site
        .records()
        .iter()
        .map(|record| text(record, "file").to_owned())
        .collect();
    for file in files {
        let mut reader = WarcReader::open(Path::new(&file)).expect("a WARC file");
        while let Some(record) = reader.next_record().expect("a sound record") {
            let header = |name: &str| record.header(name).unwrap_or_default().to_owned();
            let (url, id) = (header("WARC-Target-URI"), header("WARC-Record-ID"));
            match (record.kind(), header("WARC-Refers-To")) {
                ("response", _) => drop(documents.insert(id, url)),
                ("metadata", document) if url.ends_with(".tvi") => references.push((url, document)),
                _ => {}
            }
        }
    }
    assert!(
        references.len() >= 2 * refreshed.len(),
        "one in each session"
    );
    for (table, document) in references {
        let document = &documents[&document];
        assert!(
            refreshed.contains(document) && table.starts_with(document),
            "{table} {document}"
        );
    }
}

#[test]
fn a_table_that_does_not_fit_means_that_the_document_is_fetched_whole() {
    let site = site(Told::Robots, 1.0);
    first_session(&site, "told");
    let report = next_session(&site);
    let (asked, whole) = (tables(&site), documents(&site));
    assert!(!asked.is_empty());
    assert_eq!(
        whole.len() as u32,
        HOSTS * PAGES,
        "every document comes whole"
    );
    assert_eq!(number(&report, "parts_refreshed"), 0);
    let page = asked.iter().next().expect("some");
    let shown = site.ask(&["warc cat", "--url", page, "--fresh"]).out;
    assert!(shown.contains("as of 1"), "{shown}");
}

#[test]
fn every_fifth_check_fetches_the_document_whole() {
    let site = site(Told::Robots, 0.0);
    first_session(&site, "told");
    let mut refreshed = Vec::new();
    for _ in 0..5 {
        refreshed.push(number(&next_session(&site), "parts_refreshed"));
    }
    assert!(
        refreshed[..4]
            .iter()
            .all(|&count| count == refreshed[0] && count > 0),
        "{refreshed:?}"
    );
    assert_eq!(refreshed[4], 0, "{refreshed:?}");
}
