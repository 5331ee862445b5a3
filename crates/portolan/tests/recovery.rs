//! Recovery deletes nothing on suspicion: a registry that is gone, is older or is another's costs no record, and what was
//! done is told.

mod harness;

use harness::{QUICK, Site, number, portolan, run, text};
use portolan_simweb::{Fault, WebSpec};
use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

fn spec() -> WebSpec {
    let mut spec = WebSpec::demo().with_hosts(8).with_pages_per_host(20);
    spec.odd.host_share = 0.0;
    spec.faults.retry_after_s = 0;
    // A page that refuses for ever is waited for, and its crawl does not end in order.
    spec.faults.errors = vec![Fault::NotFound, Fault::ServerError, Fault::TooManyThenOk];
    spec
}

/// A finished crawl, and its registry as it was in the midst of it.
fn crawled_with_an_older_registry() -> Site {
    let site = Site::serve(spec());
    let config = site.config(&format!("{QUICK}[archive]\nfile_bytes = 60000\n"));
    let mut command = site.crawl();
    run(command
        .arg("--config")
        .arg(config)
        .args(["--max-pages", "40"]))
    .succeeded();
    copy(&site.out().join("registry"), &site.path("older"));
    run(site.resume().args(["--max-pages", "0"])).succeeded();
    site
}

fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).expect("a directory");
    for item in fs::read_dir(from).expect("a directory") {
        let path = item.expect("an entry").path();
        let target = to.join(path.file_name().expect("a name"));
        if path.is_dir() {
            copy(&path, &target);
        } else {
            fs::copy(&path, &target).expect("copied");
        }
    }
}

/// URL and time of every whole answer under `dir`, also of those that are set aside.
fn archived(dir: &Path) -> BTreeSet<(String, String)> {
    let mut found = BTreeSet::new();
    for dir in [dir.join("archive"), dir.join("archive/set-aside")] {
        if !dir.is_dir() {
            continue;
        }
        let mut command = portolan();
        let listed = run(command.args(["warc", "list", "--json"]).arg(&dir)).succeeded();
        for record in listed.json_lines() {
            if matches!(text(&record, "type"), "response" | "revisit") {
                let digest = text(&record, "digest").to_owned();
                found.insert((text(&record, "url").to_owned(), digest));
            }
        }
    }
    found
}

/// Every file under `dir` with its bytes' length and time: what a refusal must not touch.
fn files(dir: &Path) -> BTreeSet<(String, Vec<u8>)> {
    let mut found = BTreeSet::new();
    for item in fs::read_dir(dir).expect("a directory") {
        let path = item.expect("an entry").path();
        if path.is_dir() {
            found.extend(files(&path));
        } else if path.file_name().is_some_and(|name| name != "lock") {
            found.insert((path.display().to_string(), fs::read(&path).expect("read")));
        }
    }
    found
}

#[test]
fn without_its_registry_an_archive_is_left_alone() {
    let site = crawled_with_an_older_registry();
    fs::remove_dir_all(site.out().join("registry")).expect("removed");
    let before = files(&site.out());
    let refused = run(&mut site.resume());
    assert_eq!(refused.code, Some(2), "{}", refused.err);
    let said = &refused.err;
    assert!(
        said.contains("registry is missing, but") && said.contains("WARC files"),
        "{said}"
    );
    assert!(said.contains("put the registry back from a copy"), "{said}");
    assert!(files(&site.out()) == before, "nothing was touched");
    assert!(!site.out().join("registry").exists());
}

#[test]
fn an_older_registry_costs_no_record() {
    let site = crawled_with_an_older_registry();
    let before = archived(&site.out());
    let pages_before = site.urls().len();
    fs::remove_dir_all(site.out().join("registry")).expect("removed");
    copy(&site.path("older"), &site.out().join("registry"));
    let mut command = site.resume();
    let ran = run(command.args(["--max-pages", "0"])).succeeded();
    let report = ran.json();
    assert!(
        number(&report["recovered"], "set_aside_records") > 100,
        "{report}"
    );
    assert_eq!(number(&report["recovered"], "torn_archive_bytes"), 0);
    assert!(
        ran.err.contains("whole records that no log entry names"),
        "{}",
        ran.err
    );
    let after = archived(&site.out());
    let lost: Vec<_> = before.difference(&after).collect();
    assert!(lost.is_empty(), "{lost:?}");
    assert_eq!(site.urls().len(), pages_before);
    // What is set aside are sound WARC files, and the crawl is whole without them.
    let mut command = portolan();
    command.args(["warc", "verify"]);
    run(command.arg(site.out().join("archive/set-aside"))).succeeded();
    site.ask(&["check"]);
    let saved = fs::read_to_string(site.out().join("report.json")).expect("a report");
    assert!(saved.contains("\"set_aside_records\""), "{saved}");
}

#[test]
fn registry_and_archive_of_two_crawls_refuse_each_other() {
    let one = crawled_with_an_older_registry();
    let other = crawled_with_an_older_registry();
    fs::remove_dir_all(one.out().join("archive")).expect("removed");
    copy(&other.out().join("archive"), &one.out().join("archive"));
    let before = files(&one.out());
    let refused = run(&mut one.resume());
    assert_eq!(refused.code, Some(1), "{}", refused.err);
    assert!(
        refused.err.contains("is the archive of another crawl"),
        "{}",
        refused.err
    );
    let lost: Vec<_> = files(&one.out())
        .symmetric_difference(&before)
        .cloned()
        .collect();
    let lost: Vec<_> = lost.iter().map(|(name, _)| name).collect();
    assert!(lost.is_empty(), "{lost:?}");
}

#[test]
fn settings_that_were_emptied_or_cut_are_refused() {
    let site = crawled_with_an_older_registry();
    for name in ["crawl.toml", "seeds.txt"] {
        let path = site.out().join(name);
        let whole = fs::read(&path).expect("read");
        let half = whole.iter().position(|&b| b == b'\n').expect("a line") + 1;
        for (cut, said) in [
            (0, "is empty"),
            (half, "is cut off"),
            (whole.len() - 1, "checksum"),
        ] {
            fs::write(&path, &whole[..cut]).expect("cut");
            let refused = run(&mut site.resume());
            assert_eq!(refused.code, Some(2), "{}", refused.err);
            let expected = format!("{name} {said}");
            let is_said = refused.err.contains(&expected)
                || (said == "checksum" && refused.err.contains("was changed or damaged"));
            assert!(is_said, "{expected}: {}", refused.err);
            assert_eq!(fs::read(&path).expect("read"), &whole[..cut]);
            // Looking does no harm, and says so too.
            let mut command = portolan();
            let checked = run(command.arg("check").arg(site.out()));
            assert_eq!(checked.code, Some(1), "{}", checked.out);
            assert!(checked.out.contains("settings  DAMAGED"), "{}", checked.out);
        }
        fs::write(&path, &whole).expect("restored");
    }
    site.ask(&["check"]);
}

/// A WARC file that is gone, or shorter, or changed; an index that is gone or changed.
#[test]
fn missing_and_changed_files_of_the_archive_are_noticed() {
    let site = crawled_with_an_older_registry();
    let listed = |dir: &str| {
        let items = fs::read_dir(site.out().join(dir)).expect("a directory");
        let mut paths: Vec<_> = items.map(|item| item.expect("an entry").path()).collect();
        paths.retain(|path| path.is_file() && !path.ends_with("crawl-id"));
        paths.sort();
        paths
    };
    let (warcs, indexes) = (listed("archive"), listed("index"));
    assert!(warcs.len() > 3 && warcs.len() == indexes.len());
    let merged = site.out().join("index.cdxj");
    let verdicts = |what: &str| {
        let mut verify = portolan();
        let verify = run(verify.args(["warc", "verify"]).arg(site.out()));
        let mut check = portolan();
        let check = run(check.arg("check").arg(site.out()));
        assert_eq!((verify.code, check.code), (Some(1), Some(1)), "{what}");
        for said in [verify.out, check.out] {
            assert!(said.contains(what), "{what}: {said}");
        }
    };
    let damaged = |path: &Path, bytes: Option<Vec<u8>>, what: &str| {
        let whole = fs::read(path).expect("read");
        match bytes {
            None => fs::remove_file(path).expect("removed"),
            Some(bytes) => fs::write(path, bytes).expect("written"),
        }
        verdicts(what);
        fs::write(path, whole).expect("restored");
    };
    let bytes = |path: &Path| fs::read(path).expect("read");
    let half = |path: &Path| Some(bytes(path)[..bytes(path).len() / 2].to_vec());
    damaged(&warcs[0], None, "WARC file number 0 is missing");
    damaged(&warcs[1], half(&warcs[1]), "its end is missing");
    damaged(&indexes[0], None, "the file is missing");
    damaged(&merged, None, "the file is missing");
    // One letter of one line: of a digest, say.
    let mut line = bytes(&indexes[1]);
    let at = line
        .windows(5)
        .position(|five| five == b"sha1:")
        .expect("a digest")
        + 7;
    line[at] = if line[at] == b'A' { b'B' } else { b'A' };
    damaged(&indexes[1], Some(line), "1 are broken");
    damaged(&merged, half(&merged), "lines are missing");
    site.ask(&["check"]);
    site.ask(&["warc verify"]);

    // Starting looks at names and lengths, tells, and goes on; a missing index is made again.
    let kept = bytes(&warcs[0]);
    fs::remove_file(&warcs[0]).expect("removed");
    fs::remove_file(&indexes[1]).expect("removed");
    let ran = run(&mut site.resume()).succeeded();
    assert!(
        ran.err.contains("WARC file number 0 is missing"),
        "{}",
        ran.err
    );
    let report = ran.json();
    assert_eq!(
        report["recovered"]["archive_faults"]
            .as_array()
            .map(Vec::len),
        Some(1)
    );
    assert_eq!(number(&report["recovered"], "indexes_written"), 1);
    fs::write(&warcs[0], kept).expect("restored");
    run(&mut site.resume()).succeeded();
    site.ask(&["check"]);
}
