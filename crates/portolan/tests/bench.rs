//! The benches run, and what they measured was a right crawl.

use serde_json::Value;
use std::path::Path;
use std::process::{Command, Output};

fn bench(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_portolan"))
        .arg("bench")
        .args(arguments)
        .output()
        .expect("portolan runs")
}

fn json(arguments: &[&str]) -> Value {
    let output = bench(&[arguments, &["--json"]].concat());
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(
        output.status.success(),
        "{arguments:?}: {text}{}",
        String::from_utf8_lossy(&output.stderr)
    );
    serde_json::from_str(&text).expect("one JSON object")
}

fn number(value: &Value) -> f64 {
    value
        .as_f64()
        .unwrap_or_else(|| panic!("{value} is no number"))
}

/// A folder with pages whose links lead nowhere in particular.
fn folder(dir: &Path) {
    std::fs::create_dir_all(dir.join("below")).expect("a folder");
    for (name, text) in [
        (
            "one.html",
            "<head><title>One</title></head><p>first page <a href=two.html>two</a> <a href=/x>x</a>",
        ),
        (
            "two.htm",
            "<a href=one.html#part>one</a> <a href='http://elsewhere.example/'>else</a>",
        ),
        (
            "below/three.html",
            "<!doctype html><html><head></head><body>third</body></html>",
        ),
        ("notes.txt", "no page"),
    ] {
        std::fs::write(dir.join(name), text).expect("written");
    }
}

#[test]
fn every_kind_of_crawl_is_right() {
    let dir = tempfile::tempdir().expect("a directory");
    folder(dir.path());
    let pages = dir.path().display().to_string();
    let plain = json(&["crawl", "--hosts=4", "--pages=20"]);
    for (options, connections) in [
        (vec!["--no-compression", "--threads=2"], 4.0..60.0),
        (vec!["--gzip"], 4.0..60.0),
        // 84 requests, at most ten on each of them.
        (vec!["--tls"], 9.0..60.0),
        (vec!["--pages-from", &pages], 4.0..60.0),
    ] {
        let run = json(&[&["crawl", "--hosts=4", "--pages=20"], &options[..]].concat());
        let witness = &run["witness"];
        assert_eq!(
            (&witness["required"], &witness["fetched"]),
            (&80.into(), &80.into())
        );
        assert_eq!(run["pages"], 80, "{options:?}");
        assert!(
            connections.contains(&number(&witness["connections"])),
            "{options:?}: {witness}"
        );
        assert!(number(&run["cpu_us_per_page"]) > 0.0);
        let smaller =
            number(&run["wire_bytes_per_page"]) < 0.6 * number(&plain["wire_bytes_per_page"]);
        assert_eq!(
            smaller,
            options != ["--no-compression", "--threads=2"] && options != ["--tls"]
        );
        let larger = number(&run["stored_bytes"]) > 2.0 * number(&plain["stored_bytes"]);
        assert_eq!(larger, options[0] == "--no-compression", "{options:?}");
    }
}

#[test]
fn extract_and_archive_tell_what_a_page_costs() {
    let dir = tempfile::tempdir().expect("a directory");
    folder(dir.path());
    let pages = dir.path().display().to_string();
    let extract = json(&["extract", &pages, "--seconds=0.01"]);
    assert_eq!(extract["files"], 3);
    // Two, two and none.
    assert_eq!(number(&extract["links_per_page"]), 4.0 / 3.0);
    assert!(number(&extract["stages"]["all"]["cpu_us_per_page"]) > 0.0);
    for arguments in [
        vec!["archive", "--pages=30"],
        vec!["archive", &pages, "--pages=30"],
    ] {
        let archive = json(&arguments);
        // A response with two digests, a request and a metadata record, and one warcinfo.
        assert_eq!(archive["digests_checked"], 30 * 4 + 1, "{archive}");
    }
}

#[test]
fn freshness_tells_policies_and_picks() {
    let told = json(&[
        "freshness",
        "--pages=200",
        "--days=50",
        "--seeds=1",
        "--urls=20000",
    ]);
    let policies = told["policies"].as_array().expect("policies");
    // Seven policies on six populations.
    assert_eq!(policies.len(), 42);
    let of = |population: &str, policy: &str| {
        let is_it = |row: &&Value| row["population"] == population && row["policy"] == policy;
        number(&policies.iter().find(is_it).expect("a row")["freshness"])
    };
    assert!(of("log-normal", "ours") > of("log-normal", "proportional"));
    assert_eq!(told["bytes_per_url"], 24);
    assert_eq!(told["picks"][0]["urls"], 20_000);
    assert!(number(&told["picks"][0]["pick_us"]) > 0.0);
}

#[test]
fn mistakes_are_named() {
    for (arguments, word) in [
        (vec!["extract", "/nowhere"], "/nowhere"),
        (vec!["crawl", "--pages-from", "/nowhere"], "/nowhere"),
        (vec!["crawl", "--hosts=0"], "hosts is 0"),
        (vec!["archive", "--pages=0"], "--pages"),
        (vec!["archive", "--compression-level=13"], "13"),
        (vec!["freshness", "--pages=0"], "--pages"),
        (vec!["freshness", "--days=NaN"], "--days"),
        (vec!["freshness", "--rate=1e300"], "--rate"),
        (vec!["freshness", "--urls=0"], "--urls"),
    ] {
        let output = bench(&arguments);
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}: {said}");
        assert!(said.contains(word), "{arguments:?}: {said}");
        assert_eq!(said.trim_end().lines().count(), 1, "{said}");
    }
}
