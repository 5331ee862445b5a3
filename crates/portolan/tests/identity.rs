//! What a document is known by is a secret of its crawl: another crawl has another, a crawl that goes on keeps its
//! own, and nothing but one file gives it away.

mod harness;

use harness::{QUICK, Ran, Site, ask, portolan, run};
use portolan_crawl::{Crawl, REGISTRY_DIR};
use portolan_model::DocId;
use portolan_registry::{Snapshot, UrlFilter};
use portolan_simweb::WebSpec;
use std::collections::BTreeMap;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

fn small() -> WebSpec {
    let mut spec = WebSpec::small().with_hosts(3).with_pages_per_host(30);
    spec.faults.retry_after_s = 0;
    spec
}

/// What the crawl in `dir` knows its URLs by.
fn docs(dir: &Path) -> BTreeMap<String, DocId> {
    let ids = Crawl::identities(dir).expect("its secret");
    let snapshot = Snapshot::open(&dir.join(REGISTRY_DIR), ids).expect("a registry");
    let urls = snapshot.urls(UrlFilter::default());
    urls.map(|record| record.expect("a record"))
        .map(|record| (record.url, record.doc))
        .collect()
}

#[track_caller]
fn refused(ran: &Ran, words: &[&str]) {
    assert_ne!(ran.code, Some(0), "{}\n{}", ran.out, ran.err);
    assert_eq!(ran.err.lines().count(), 1, "{}", ran.err);
    for word in words {
        assert!(ran.err.contains(word), "no '{word}' in {}", ran.err);
    }
}

#[test]
fn two_crawls_give_a_url_two_identities_and_a_resumed_one_keeps_them() {
    let site = Site::serve(small());
    let config = site.config(QUICK);
    run(site.crawl().arg("--config").arg(&config)).succeeded();
    let first = docs(&site.out());
    let other = site.path("other");
    let mut command = site.crawl();
    command.arg("--config").arg(&config).arg("--max-pages=20");
    std::fs::rename(site.out(), &other).expect("moved");
    run(&mut command).succeeded();
    let begun = docs(&site.out());
    assert!(begun.len() > 20, "{}", begun.len());
    for (url, doc) in &begun {
        assert_ne!(first.get(url), Some(doc), "{url}");
    }
    run(site.resume().arg("--max-pages=100000")).succeeded();
    let whole = docs(&site.out());
    assert_eq!(
        whole.keys().collect::<Vec<_>>(),
        first.keys().collect::<Vec<_>>()
    );
    for (url, doc) in &begun {
        assert_eq!(whole.get(url), Some(doc), "{url}");
    }
    // The same questions are answered by both.
    let url = site.web.spec().home_url();
    for dir in [&site.out(), &other] {
        let story = ask(dir, &["why", &url, "--json"]).json();
        assert_eq!(story["state"], "visited", "{story}");
    }
}

#[test]
fn the_secret_is_in_one_file_that_its_owner_alone_can_read() {
    let site = Site::serve(small());
    let ran = run(site.crawl().arg("--config").arg(site.config(QUICK))).succeeded();
    let path = site.out().join("secret");
    let mode = std::fs::metadata(&path)
        .expect("a file")
        .permissions()
        .mode();
    assert_eq!(mode & 0o777, 0o600, "{mode:o}");
    let text = std::fs::read_to_string(&path).expect("its text");
    let digits = text.trim_end().rsplit(' ').next().expect("digits");
    assert_eq!(digits.len(), 64, "{} digits", digits.len());
    let bytes: Vec<u8> = (0..digits.len())
        .step_by(2)
        .map(|at| u8::from_str_radix(&digits[at..at + 2], 16).expect("hexadecimal"))
        .collect();
    // As text or as bytes, and each of its four words by itself.
    let holds = |found: &[u8]| {
        let has = |wanted: &[u8]| found.windows(wanted.len()).any(|window| window == wanted);
        digits.as_bytes().chunks(16).any(&has) || bytes.chunks(8).any(&has)
    };
    assert!(holds(text.as_bytes()));
    assert!(!holds(ran.out.as_bytes()) && !holds(ran.err.as_bytes()));
    let mut files = 0;
    for file in files_below(&site.out()) {
        if file != path {
            assert!(!holds(&std::fs::read(&file).expect("bytes")), "{file:?}");
            files += 1;
        }
    }
    assert!(files > 10, "{files}");
    for record in site.records() {
        assert!(!holds(record.to_string().as_bytes()), "{record}");
    }
}

fn files_below(dir: &Path) -> Vec<PathBuf> {
    let mut files = Vec::new();
    for entry in std::fs::read_dir(dir).expect("a directory") {
        let path = entry.expect("an entry").path();
        match path.is_dir() {
            true => files.extend(files_below(&path)),
            false => files.push(path),
        }
    }
    files
}

#[test]
fn a_crawl_without_its_own_secret_is_refused_in_a_sentence() {
    let site = Site::serve(small());
    let config = site.config(QUICK);
    run(site
        .crawl()
        .arg("--config")
        .arg(&config)
        .arg("--max-pages=5"))
    .succeeded();
    let path = site.out().join("secret");
    let kept = std::fs::read_to_string(&path).expect("a secret");
    let resumed_and_asked = |words: &[&str]| {
        refused(&run(&mut site.resume()), words);
        let asked = run(portolan().arg("urls").arg(site.out()));
        assert_ne!(asked.code, Some(0), "{}", asked.out);
        assert_eq!(asked.err.lines().count(), 1, "{}", asked.err);
    };
    std::fs::remove_file(&path).expect("removed");
    resumed_and_asked(&["has no file 'secret'", "begin a new crawl"]);
    let digit = |c: char| if c == '0' { '1' } else { '0' };
    let last = kept.trim_end().chars().last().expect("a digit");
    let another = format!("{}{}\n", &kept[..kept.len() - 2], digit(last));
    std::fs::write(&path, another).expect("written");
    resumed_and_asked(&["registry/meta", "the crawl's secret is not the one"]);
    std::fs::write(&path, &kept[..40]).expect("written");
    resumed_and_asked(&["is damaged"]);
    std::fs::write(&path, &kept).expect("written");
    run(&mut site.resume()).succeeded();
}
