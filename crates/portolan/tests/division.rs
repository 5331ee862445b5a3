//! Who fetches what: a crawl that is steered by an earlier session's part vector treats the Web as any other does,
//! and every site is where the vector, the hash or its discoverer says, also after kills.

mod harness;

use harness::{
    QUICK, Ran, Site, ask, finish, number, portolan, run, signal, start, text, wait_until,
};
use portolan_crawl::Crawl;
use portolan_graph::{PartVector, Unlisted, VectorPartitioner};
use portolan_model::{PartitionId, Partitioner, UrlKey};
use portolan_simweb::{TruthQuery, WebSpec};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

const PARTS: u16 = 3;
const KILLS: u64 = 8;
const START_LIMIT: Duration = Duration::from_secs(20);
const SETTLE: Duration = Duration::from_millis(60);

fn small() -> WebSpec {
    let mut spec = WebSpec::demo().with_hosts(14).with_pages_per_host(25);
    spec.faults.retry_after_s = 0;
    spec
}

fn with_vector(path: &Path, unlisted: &str) -> String {
    format!(
        "{QUICK}[partition]\nmethod = \"vector\"\nvector = {:?}\nunlisted = {unlisted:?}\n",
        path.to_str().expect("a path in UTF-8")
    )
}

/// An earlier session and the part vector that it gives.
fn session_and_vector(site: &Site) -> PathBuf {
    let earlier = site.path("earlier");
    let mut first = portolan();
    first
        .arg("crawl")
        .arg(site.web.spec().home_url())
        .args(["--scope", "any", "--delay", "0s", "--json", "--resolve"])
        .arg(site.resolve())
        .arg("--config")
        .arg(site.config(QUICK))
        .arg("--out")
        .arg(&earlier);
    run(&mut first).succeeded();
    let vector = site.path("parts.pv");
    cut(&[&earlier], "site", &vector);
    vector
}

fn cut(inputs: &[&Path], by: &str, out: &Path) {
    let mut command = portolan();
    command.arg("partition").args(inputs);
    command.args(["--by", by, "--parts", "3", "--json", "--out"]);
    run(command.arg(out)).succeeded();
}

/// A part vector that lists three of the hosts.
fn vector_of_three(site: &Site, by: &str) -> PathBuf {
    let mut nodes = String::new();
    for host in 0..3 {
        nodes += &format!("{host}\thttp://h{host}.{}/\t100\n", site.web.spec().suffix);
    }
    let (nodes_file, edges_file) = (site.path("nodes.tsv"), site.path("edges.tsv"));
    std::fs::write(&nodes_file, nodes).expect("written");
    std::fs::write(&edges_file, "0\t1\n1\t2\n").expect("written");
    let vector = site.path(&format!("three-{by}.pv"));
    cut(&[&nodes_file, &edges_file], by, &vector);
    vector
}

/// Which partitions know URLs of a host.
fn partitions_of_hosts(site: &Site) -> BTreeMap<String, BTreeSet<u64>> {
    let mut found: BTreeMap<String, BTreeSet<u64>> = BTreeMap::new();
    for (url, record) in site.urls() {
        let host = url.split('/').nth(2).expect("a host").to_owned();
        let partition = number(&record, "partition");
        found.entry(host).or_default().insert(partition);
    }
    found
}

/// A host as the crawl of `site` knows it.
fn key<'a>(site: &Site, host_name: &'a str) -> UrlKey<'a> {
    let ids = Crawl::identities(&site.out()).expect("its secret");
    UrlKey {
        doc: portolan_model::DocId(0),
        host: ids.host(host_name),
        url: "",
        host_name,
    }
}

fn expected(partitioner: &dyn Partitioner, key: UrlKey<'_>) -> u64 {
    u64::from(partitioner.part_of(key, PartitionId(0)).0)
}

fn by_hash(vector: &Path) -> VectorPartitioner {
    let vector = PartVector::open(vector).expect("a part vector");
    VectorPartitioner::new(vector, Unlisted::SiteHash, 0)
}

fn complete_and_polite(site: &Site) {
    let truth = site.truth(&TruthQuery::default());
    let missed = truth.missed(&site.witness().per_url());
    assert!(missed.is_empty(), "{missed:?}");
    let witness = site.witness().report();
    assert!(witness.is_clean(), "{witness}");
    assert_eq!(witness.repeats, 0, "{witness}");
    assert_eq!(witness.most_at_once, 1, "{witness}");
}

#[test]
fn an_earlier_session_steers_the_next() {
    let site = Site::serve(small());
    let vector = session_and_vector(&site);
    site.witness().reset();
    let config = site.config(&with_vector(&vector, "site-hash"));
    run(site.crawl().arg("--config").arg(config)).succeeded();
    complete_and_polite(&site);
    let secret = |dir: &Path| Crawl::identities(dir).expect("a secret");
    assert_ne!(secret(&site.path("earlier")), secret(&site.out()));
    let partitioner = by_hash(&vector);
    let hosts = partitions_of_hosts(&site);
    let mut used = BTreeSet::new();
    for (host, partitions) in &hosts {
        let part = expected(&partitioner, key(&site, host));
        assert_eq!(partitions, &BTreeSet::from([part]), "{host}");
        used.insert(part);
    }
    assert_eq!(used.len(), usize::from(PARTS), "every part has work");
    // It is the vector that decided: a hash would have put some elsewhere.
    let fixed = portolan_model::FixedSiteHash { parts: PARTS };
    assert!(
        hosts
            .keys()
            .any(|host| expected(&fixed, key(&site, host))
                != expected(&partitioner, key(&site, host)))
    );
}

#[test]
fn sites_that_are_not_listed_go_by_hash() {
    let site = Site::serve(small());
    let vector = vector_of_three(&site, "site");
    let config = site.config(&with_vector(&vector, "site-hash"));
    run(site.crawl().arg("--config").arg(config)).succeeded();
    complete_and_polite(&site);
    let partitioner = by_hash(&vector);
    let hosts = partitions_of_hosts(&site);
    assert!(hosts.len() > 10);
    for (host, partitions) in hosts {
        let part = expected(&partitioner, key(&site, &host));
        assert_eq!(partitions, BTreeSet::from([part]), "{host}");
    }
}

#[test]
fn or_to_their_discoverer_and_stay_there_through_kills() {
    let mut spec = small().with_latency_ms(25.0);
    spec.odd.host_share = 0.0;
    let site = Site::serve(spec);
    let vector = vector_of_three(&site, "site");
    site.config(&format!(
        "{}[archive]\ncommit_ms = 20\n[limits]\nconnections = 6\n",
        with_vector(&vector, "discoverer")
    ));
    let mut kills = 0;
    loop {
        let begun = Instant::now();
        let mut child = start(&mut site.again());
        if kills >= KILLS {
            finish(child, begun).succeeded();
            break;
        }
        let before = site.witness().report().requests;
        wait_until(START_LIMIT, || {
            site.witness().report().requests > before + 4 * (kills + 1)
                || child.try_wait().is_ok_and(|ended| ended.is_some())
        });
        if child.try_wait().expect("our child").is_some() {
            finish(child, begun).succeeded();
            break;
        }
        signal(child.id(), "KILL");
        finish(child, begun);
        std::thread::sleep(SETTLE);
        wait_until(START_LIMIT, || {
            let seen = site.witness().report();
            seen.requests == seen.served + seen.aborted
        });
        site.witness().mark();
        kills += 1;
    }
    assert!(kills >= 4, "only {kills} kills hit a running crawl");
    let truth = site.truth(&TruthQuery::default());
    let missed = truth.missed(&site.witness().per_url());
    assert!(missed.is_empty(), "{missed:?}");
    let witness = site.witness().report();
    assert!(witness.is_clean(), "{witness}");
    assert_eq!(witness.most_at_once, 1, "{witness}");

    // One owner for each site, and it is one whose page led there.
    let urls = site.urls();
    let listed = PartVector::open(&vector).expect("a part vector");
    let by_hash = by_hash(&vector);
    let mut unlisted = BTreeMap::new();
    for (host, partitions) in partitions_of_hosts(&site) {
        assert_eq!(partitions.len(), 1, "{host} is in {partitions:?}");
        let owner = *partitions.first().expect("one");
        match listed.find(key(&site, &host)) {
            Some(part) => assert_eq!(u64::from(part.0), owner, "{host}"),
            None => {
                unlisted.insert(host, owner);
            }
        }
    }
    assert!(unlisted.len() > 8);
    let found_from_own_partition = |host: &str, owner: u64| {
        urls.keys()
            .filter(|url| url.split('/').nth(2) == Some(host))
            .any(|url| {
                let story = ask(&site.out(), &["why", url, "--json"]).json();
                story["found_on"]
                    .as_str()
                    .and_then(|page| urls.get(page))
                    .is_some_and(|page| number(page, "partition") == owner)
            })
    };
    for (host, &owner) in &unlisted {
        assert!(found_from_own_partition(host, owner), "{host}: {owner}");
    }
    let elsewhere = unlisted
        .iter()
        .filter(|(host, owner)| expected(&by_hash, key(&site, host)) != **owner)
        .count();
    assert!(elsewhere > 0, "the hash would have done the same");
}

#[track_caller]
fn refused(ran: &Ran, words: &[&str]) {
    assert_eq!(ran.code, Some(2), "{}\n{}", ran.out, ran.err);
    assert_eq!(ran.err.trim().lines().count(), 1, "{}", ran.err);
    for word in words {
        assert!(ran.err.contains(word), "{word} is not in: {}", ran.err);
    }
}

#[test]
fn files_that_do_not_fit_are_refused_before_anything_is_written() {
    let site = Site::serve(WebSpec::small());
    let vector = vector_of_three(&site, "site");
    let whole = std::fs::read(&vector).expect("the vector");
    let try_with = |settings: &str, words: &[&str]| {
        let config = site.config(settings);
        let ran = run(site.crawl().arg("--config").arg(config));
        refused(&ran, words);
        assert!(!site.out().exists(), "something was written");
    };
    let cut_off = site.path("cut.pv");
    std::fs::write(&cut_off, &whole[..whole.len() - 9]).expect("written");
    try_with(&with_vector(&cut_off, "site-hash"), &["cut.pv", "cut off"]);
    let changed = site.path("changed.pv");
    let mut bytes = whole.clone();
    bytes[45] ^= 1;
    std::fs::write(&changed, &bytes).expect("written");
    try_with(
        &with_vector(&changed, "site-hash"),
        &["changed.pv", "checksum"],
    );
    try_with(
        &with_vector(&site.path("missing.pv"), "site-hash"),
        &["partition.vector", "missing.pv"],
    );
    try_with(
        "[partition]\nmethod = \"vector\"\n",
        &["partition.vector: it names no file"],
    );
    let pages = vector_of_three(&site, "page");
    try_with(
        &with_vector(&pages, "site-hash"),
        &["lists pages", "by site"],
    );
    try_with(
        &format!(
            "{}[registry]\npartitions = 5\n",
            with_vector(&vector, "site-hash")
        ),
        &["has 3 parts", "registry.partitions is 5"],
    );
    try_with(&with_vector(&vector, "nobody"), &["unlisted", "nobody"]);
    try_with(
        "[frontier]\norder = \"pagerank\"\n",
        &["frontier.ranks", "portolan rank"],
    );
    try_with(
        &format!("[frontier]\norder = \"pagerank\"\nranks = {vector:?}\n"),
        &["frontier.ranks", "part vector, not a rank table"],
    );
    let sets = site.path("sets.txt");
    std::fs::write(&sets, ".a\n.b\n.c\n").expect("written");
    try_with(
        &format!("[partition]\nmethod = \"dset\"\ndsets = {sets:?}\n[registry]\npartitions = 2\n"),
        &["3 DSets do not fit into 2 parts"],
    );
}

#[test]
fn a_crawl_goes_on_as_it_began() {
    let site = Site::serve(WebSpec::small());
    let vector = vector_of_three(&site, "site");
    let settings = with_vector(&vector, "discoverer");
    let config = site.config(&settings);
    run(site
        .crawl()
        .arg("--config")
        .arg(config)
        .args(["--max-pages", "5"]))
    .succeeded();
    let try_with = |settings: &str, words: &[&str]| {
        let config = site.config(&format!("{settings}\n"));
        refused(&run(site.resume().arg("--config").arg(config)), words);
    };
    try_with(
        "[partition]\nmethod = \"hash\"\n",
        &["partition.method", "fixed when a crawl begins"],
    );
    try_with(
        &with_vector(&vector, "site-hash"),
        &["partition.unlisted", "fixed"],
    );
    try_with(
        &format!("{settings}max_claims = 7\n"),
        &["partition.max_claims", "fixed"],
    );
    try_with(
        &format!("{settings}[frontier]\norder = \"breadth\"\n"),
        &["sorted by backlinks", "breadth"],
    );
    let other = site.path("other.pv");
    let mut lines = std::fs::read_to_string(site.path("nodes.tsv")).expect("nodes");
    lines += "3\thttp://other.test/\t5\n";
    std::fs::write(site.path("nodes2.tsv"), lines).expect("written");
    cut(
        &[&site.path("nodes2.tsv"), &site.path("edges.tsv")],
        "site",
        &other,
    );
    try_with(
        &with_vector(&other, "discoverer"),
        &["other.pv is not the file"],
    );
    // Without the file that was named it goes on with its own copy.
    std::fs::remove_file(&vector).expect("removed");
    let ran = run(site.resume().args(["--max-pages", "0"])).succeeded();
    assert_eq!(text(&ran.json(), "stopped_by"), "done");
    let missed: Vec<String> = {
        let truth = site.truth(&TruthQuery::default());
        let missed = truth.missed(&site.witness().per_url());
        missed.into_iter().map(str::to_owned).collect()
    };
    assert!(missed.is_empty(), "{missed:?}");
    assert_eq!(site.witness().report().repeats, 0);
}

#[test]
fn extensions_share_out_sites_too() {
    let site = Site::serve(small());
    let suffix = site.web.spec().suffix.clone();
    let sets = site.path("sets.txt");
    std::fs::write(&sets, format!(".net\n.{suffix}\n")).expect("written");
    let config = site.config(&format!(
        "{QUICK}[partition]\nmethod = \"dset\"\ndsets = {sets:?}\n[registry]\npartitions = 4\n"
    ));
    run(site.crawl().arg("--config").arg(config)).succeeded();
    complete_and_polite(&site);
    for (host, partitions) in partitions_of_hosts(&site) {
        if host.ends_with(&suffix) {
            assert_eq!(partitions, BTreeSet::from([1]), "{host}");
        }
    }
}
