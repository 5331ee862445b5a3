//! DSets: each has a URL-Registry of its own, which can be looked at.

mod harness;

use harness::{QUICK, Site, ask, number, run, text};
use portolan_simweb::{TruthQuery, WebSpec};
use serde_json::Value;
use std::collections::BTreeSet;

fn block(hosts: std::ops::Range<u32>, suffix: &str) -> String {
    let names: Vec<String> = hosts.map(|host| format!("\".h{host}.{suffix}\"")).collect();
    format!("[[dset]]\nextensions = [{}]\n", names.join(", "))
}

fn host_of(row: &Value) -> &str {
    text(row, "url").split('/').nth(2).expect("a host")
}

#[test]
fn each_dset_has_a_registry_of_its_own() {
    let mut spec = WebSpec::demo().with_hosts(12).with_pages_per_host(15);
    spec.faults.retry_after_s = 0;
    let site = Site::serve(spec);
    let suffix = site.web.spec().suffix.clone();
    let blocks = block(0..4, &suffix) + &block(4..8, &suffix);
    let config = site.config(&format!("{blocks}{QUICK}[registry]\npartitions = 4\n"));
    run(site.crawl().arg("--config").arg(config)).succeeded();
    let missed = site.truth(&TruthQuery::default());
    assert!(missed.missed(&site.witness().per_url()).is_empty());
    let witness = site.witness().report();
    assert!(witness.is_clean() && witness.repeats == 0, "{witness}");

    let rows = |dset: &str| {
        let command = ["registry", "--json", "--top", "1000", "--dset", dset];
        ask(&site.out(), &command).json_lines()
    };
    let listed = |hosts: std::ops::Range<u32>| -> BTreeSet<String> {
        hosts.map(|host| format!("h{host}.{suffix}")).collect()
    };
    let hosts_of = |dset: &str| -> BTreeSet<String> {
        rows(dset)
            .iter()
            .map(|row| host_of(row).to_owned())
            .collect()
    };
    // By an extension and by number it is the same set.
    assert_eq!(hosts_of(&format!(".h2.{suffix}")), listed(0..4));
    assert_eq!(hosts_of("1"), listed(4..8));
    // The others are in no set's registry.
    let rest = &hosts_of("2") | &hosts_of("3");
    assert_eq!(rest, listed(8..12));

    let all = rows("0");
    let counts: Vec<u64> = all.iter().map(|row| number(row, "count")).collect();
    assert!(counts.is_sorted_by(|a, b| a >= b), "{counts:?}");
    assert!(all.iter().any(|row| row["visited"] == true));
    let first = ask(&site.out(), &["registry", "--top", "1", "--dset", "0"]);
    let line = first.out.lines().nth(1).expect("a row");
    assert!(line.ends_with(text(&all[0], "url")), "{line}");
    assert!(line.starts_with(text(&all[0], "doc")), "{line}");

    // It goes on with the sets that it began with.
    let other = site.config(&block(0..3, &suffix));
    let ran = run(site.resume().arg("--config").arg(other));
    assert_eq!(ran.code, Some(2), "{}", ran.err);
    assert!(ran.err.contains("[[dset]]"), "{}", ran.err);
}
