//! What comes sooner: each order of the frontier fetches the same pages of the same Web, but in its own order.

mod harness;

use harness::{Site, ask, number, portolan, run, text};
use portolan_simweb::WebSpec;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

const ORDERS: [&str; 5] = ["breadth", "backlinks", "opic", "site-indegree", "pagerank"];

fn web() -> WebSpec {
    // Answers take a while, so that what a page links to is known before the next is chosen.
    let mut spec = WebSpec::small()
        .with_hosts(4)
        .with_pages_per_host(200)
        .with_latency_ms(12.0);
    spec.links.per_page = 12;
    spec.links.off_host_share = 0.3;
    spec
}

/// The pages in the order in which their hosts were asked for them, and how the crawler knows them.
struct Crawled {
    sequence: Vec<String>,
    depth: BTreeMap<String, u64>,
}

fn crawl(site: &Site, order: &str, ranks: &Path, out: &Path) -> Crawled {
    site.witness().reset();
    site.witness().record_requests(100_000);
    let settings = format!(
        "[frontier]\norder = {order:?}\nranks = {ranks:?}\n[limits]\nturn_urls = 1\nconnections = 4\n\
         [archive]\ncommit_ms = 1\n"
    );
    let mut command = portolan();
    command
        .arg("crawl")
        .arg(site.web.spec().home_url())
        .args(["--scope", "any", "--delay", "0s", "--json", "--resolve"])
        .arg(site.resolve())
        .arg("--config")
        .arg(site.config(&settings))
        .arg("--out")
        .arg(out);
    run(&mut command).succeeded();
    let witness = site.witness().report();
    assert!(witness.is_clean(), "{witness}");
    assert_eq!(witness.repeats, 0, "{witness}");
    let known = ask(out, &["urls", "--json"]).json_lines();
    let depth: BTreeMap<String, u64> = known
        .iter()
        .map(|record| (text(record, "url").to_owned(), number(record, "depth")))
        .collect();
    let sequence = site
        .witness()
        .requests()
        .into_iter()
        .map(|request| request.url)
        .filter(|url| depth.contains_key(url))
        .collect();
    Crawled { sequence, depth }
}

/// Pages of a host that were fetched after a deeper one.
fn steps_back(crawled: &Crawled) -> usize {
    let mut deepest: BTreeMap<&str, u64> = BTreeMap::new();
    let mut back = 0;
    for url in &crawled.sequence {
        let host = url.split('/').nth(2).expect("a host");
        let depth = crawled.depth[url];
        let most = deepest.entry(host).or_default();
        back += usize::from(depth < *most);
        *most = depth.max(*most);
    }
    back
}

#[test]
fn breadth_first_is_first_come_first_served() {
    let site = Site::serve(web().with_hosts(1).with_pages_per_host(250));
    let none = Path::new("");
    let breadth = crawl(&site, "breadth", none, &site.path("breadth"));
    assert!(breadth.sequence.len() > 200);
    assert_eq!(steps_back(&breadth), 0);
    let backlinks = crawl(&site, "backlinks", none, &site.path("backlinks"));
    assert!(steps_back(&backlinks) > 10, "{}", steps_back(&backlinks));
}

#[test]
fn every_order_is_its_own() {
    let site = Site::serve(web());
    let first = site.path("first");
    let ranks = site.path("ranks.pv");
    let learnt = crawl(&site, "backlinks", &ranks, &first);
    ask(&first, &["rank", "--out", ranks.to_str().expect("UTF-8")]);
    let ranked: Vec<String> = ask(&first, &["rank", "--top", "2000", "--json"])
        .json_lines()
        .iter()
        .map(|page| text(page, "url").to_owned())
        .collect();
    assert!(ranked.len() > 700, "{}", ranked.len());
    let best: BTreeSet<&String> = ranked.iter().take(ranked.len() / 10).collect();

    let pages: BTreeSet<&String> = learnt.sequence.iter().collect();
    let mut sequences = BTreeMap::new();
    let mut best_found_early = BTreeMap::new();
    let mut back = BTreeMap::new();
    for order in ORDERS {
        let crawled = crawl(&site, order, &ranks, &site.path(order));
        assert_eq!(
            crawled.sequence.iter().collect::<BTreeSet<_>>(),
            pages,
            "{order}"
        );
        let early = crawled.sequence.iter().take(pages.len() / 5);
        best_found_early.insert(order, early.filter(|url| best.contains(url)).count());
        back.insert(order, steps_back(&crawled));
        sequences.insert(order, crawled.sequence);
    }
    for (order, sequence) in &sequences {
        for (other, others) in &sequences {
            assert!(order == other || sequence != others, "{order} is {other}");
        }
    }
    // It has its own copy of the ranks.
    std::fs::remove_file(&ranks).expect("it was written");
    run(portolan()
        .arg("crawl")
        .arg("--out")
        .arg(site.path("pagerank")))
    .succeeded();
    println!("pages fetched after deeper ones of their host: {back:?}");
    assert!(back["breadth"] < back["backlinks"] && back["breadth"] < back["pagerank"]);
    // Who knows the last session's ranks finds what matters sooner than who knows nothing.
    println!("of the best tenth, in the first fifth: {best_found_early:?}");
    assert!(
        ["breadth", "backlinks", "opic", "site-indegree"]
            .iter()
            .all(|order| best_found_early["pagerank"] > best_found_early[order])
    );
}
