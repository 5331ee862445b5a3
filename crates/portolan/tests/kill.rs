//! The machine's power switch: a crawl that is killed again and again ends as an undisturbed one does.

mod harness;

use harness::{Site, finish, number, run, signal, start, text, wait_until};
use portolan_simweb::{Fault, TruthQuery, WebSpec};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

const KILLS: u64 = 24;
/// Requests under way at once, so what a kill can interrupt before it is committed is known.
const CONNECTIONS: u32 = 8;
const COMMIT_MS: u64 = 20;
const SETTLE: Duration = Duration::from_millis(60);
const START_LIMIT: Duration = Duration::from_secs(20);

fn spec() -> WebSpec {
    let mut spec = WebSpec::demo()
        .with_hosts(24)
        .with_pages_per_host(50)
        .with_latency_ms(40.0);
    spec.odd.host_share = 0.1;
    spec.faults.retry_after_s = 0;
    // A page that refuses for ever is waited for, and its crawl does not end in order.
    spec.faults.errors = vec![Fault::NotFound, Fault::ServerError, Fault::TooManyThenOk];
    spec
}

fn settings() -> String {
    format!(
        "[politeness]\nbackoff_ms = 50\nbackoff_max_ms = 200\n[archive]\ncommit_ms = {COMMIT_MS}\nfile_bytes = 400000\n\
         [registry]\ncheckpoint_log_mb = 1\n[limits]\nconnections = {CONNECTIONS}\n"
    )
}

#[test]
fn kills_at_any_moment_lose_nothing_and_repeat_next_to_nothing() {
    let calm = Site::serve(spec());
    let config = calm.config(&settings());
    run(calm.crawl().arg("--config").arg(config)).succeeded();

    let site = Site::serve(spec());
    let killed = crawl_under_fire(&site);
    assert!(killed >= 20, "only {killed} kills hit a running crawl");

    same_pages(&site, &calm);
    next_to_no_repeats(&site, killed);
    archive_is_sound(&site);
    index_is_complete_and_sorted(&site);
    status_is_consistent(&site);
}

/// Pages until the first run stops in order, and leaves a checkpoint.
const PAGES_BEFORE: u64 = 500;

/// Once a checkpoint exists, most of what the log's tail says is about URLs that are on disk, and has to be looked up. Still
/// nothing whose visit was durable is fetched again, or archived again, or taken for a new payload.
#[test]
fn kills_after_a_checkpoint_repeat_next_to_nothing() {
    let mut spec = spec();
    spec.content.duplicate_share = 0.2;
    let site = Site::serve(spec);
    let config = site.config(&settings());
    let pages = PAGES_BEFORE.to_string();
    let mut command = site.crawl();
    command
        .arg("--config")
        .arg(config)
        .args(["--max-pages", &pages]);
    let first = run(&mut command).succeeded().json();
    assert_eq!(text(&first, "stopped_by"), "max-pages");
    site.witness().mark();
    let mut kills = 0;
    // Late enough that there is a log since the checkpoint, early enough that there is more to do.
    for after in [120, 60, 150, 40] {
        let begun = Instant::now();
        let mut command = site.resume();
        let child = start(command.args(["--max-pages", "0"]));
        let before = site.witness().report().requests;
        wait_until(START_LIMIT, || {
            site.witness().report().requests > before + after
        });
        signal(child.id(), "KILL");
        if finish(child, begun).code.is_some() {
            break;
        }
        std::thread::sleep(SETTLE);
        site.witness().mark();
        kills += 1;
    }
    assert!(kills >= 3, "only {kills} kills hit a running crawl");
    let mut command = site.resume();
    let last = run(command.args(["--max-pages", "0"])).succeeded().json();
    assert_eq!(text(&last, "stopped_by"), "done");
    assert_eq!(last["recovered"]["after_crash"], true, "{last}");

    next_to_no_repeats(&site, kills);
    archive_is_sound(&site);
    index_is_complete_and_sorted(&site);
    status_is_consistent(&site);
    copies_are_known(&site);
    let check = site.ask(&["check"]);
    assert!(
        check.out.ends_with("Everything is as it was written.\n"),
        "{}",
        check.out
    );
}

/// A payload is stored in full once, whatever was killed in between; other answers with it refer to that one.
fn copies_are_known(site: &Site) {
    let mut stored: BTreeMap<String, Vec<String>> = BTreeMap::new();
    let urls = site.urls();
    for record in answers(site) {
        let url = text(&record, "url").to_owned();
        let is_page = text(&record, "status") == "200" && urls.contains_key(&url);
        if text(&record, "type") == "response" && is_page {
            let digest = text(&record, "digest").to_owned();
            stored.entry(digest).or_default().push(url);
        }
    }
    let twice: Vec<_> = stored.values().filter(|urls| urls.len() > 1).collect();
    assert!(stored.len() > 100);
    assert!(twice.is_empty(), "stored in full more than once: {twice:?}");
    let copies = answers(site)
        .iter()
        .filter(|r| text(r, "type") == "revisit")
        .count();
    println!("{} payloads, {copies} copies", stored.len());
    assert!(copies > 10, "there are copies on this Web");
}

/// Runs the crawl to its end, through as many kills as it lives to see; how many there were.
fn crawl_under_fire(site: &Site) -> u64 {
    site.config(&settings());
    let mut random = Random(0x5eed);
    let mut kills = 0;
    loop {
        let begun = Instant::now();
        let mut child = start(&mut site.again());
        if kills >= KILLS {
            let ran = finish(child, begun).succeeded();
            assert_eq!(text(&ran.json(), "stopped_by"), "done");
            return kills;
        }
        // Now and then before it has done anything, mostly in the midst of work, which begins a while after a kill:
        // hosts that may have been asked just before it are left alone first.
        let moment_ms = match random.below(6) {
            0 => random.below(60),
            1 => 60 + random.below(400),
            _ => {
                let before = site.witness().report().requests;
                wait_until(START_LIMIT, || {
                    site.witness().report().requests > before + 3
                        || child.try_wait().is_ok_and(|ended| ended.is_some())
                });
                random.below(250)
            }
        };
        std::thread::sleep(Duration::from_millis(moment_ms));
        if let Some(status) = child.try_wait().expect("it is our child") {
            assert!(status.success(), "{:?}", finish(child, begun));
            return kills;
        }
        signal(child.id(), "KILL");
        let ran = finish(child, begun);
        assert_eq!(ran.code, None, "killed, not ended: {}", ran.err);
        // The server may still read what the killed one had sent, and answer nobody: that belongs to the epoch before.
        std::thread::sleep(SETTLE);
        wait_until(START_LIMIT, || {
            let seen = site.witness().report();
            seen.requests == seen.served + seen.aborted
        });
        site.witness().mark();
        kills += 1;
    }
}

fn same_pages(site: &Site, calm: &Site) {
    let truth = site.truth(&TruthQuery::default());
    let missed = truth.missed(&site.witness().per_url());
    assert!(missed.is_empty(), "{missed:?}");
    let state = |site: &Site| -> BTreeMap<String, (String, Value)> {
        site.urls()
            .into_iter()
            .map(|(url, record)| {
                (
                    url,
                    (text(&record, "state").to_owned(), record["status"].clone()),
                )
            })
            .collect()
    };
    let (killed, undisturbed) = (state(site), state(calm));
    for (url, expected) in &undisturbed {
        assert_eq!(killed.get(url), Some(expected), "{url}");
    }
    assert_eq!(killed.len(), undisturbed.len());
}

fn next_to_no_repeats(site: &Site, kills: u64) {
    let witness = site.witness().report();
    assert!(witness.is_clean(), "{witness}");
    // What is answered but not yet committed at a kill is asked for again: what was under way, and what was answered
    // while the commit before took its time, which on a machine with a busy disk is long once in a while, not often.
    let usually = u64::from(CONNECTIONS) * 2;
    let at_worst = u64::from(CONNECTIONS) * 16;
    println!(
        "{} repeats and {} answers that met nobody in {kills} kills",
        witness.repeats, witness.aborted
    );
    assert!(
        witness.repeats + witness.aborted > 0,
        "some kill hit a crawl at work: {witness}"
    );
    assert!(witness.repeats <= kills * usually, "{witness}");
    let mut in_epoch: BTreeMap<u32, u64> = BTreeMap::new();
    for repeat in &witness.repeated {
        *in_epoch.entry(repeat.first_epoch).or_default() += 1;
    }
    for (epoch, repeats) in in_epoch {
        assert!(
            repeats <= at_worst,
            "{repeats} answers of epoch {epoch} were lost"
        );
    }
}

fn archive_is_sound(site: &Site) {
    let verdicts = site.ask(&["warc verify", "--json"]).json_lines();
    assert!(verdicts.len() > 1, "the archive has several files");
    for verdict in &verdicts {
        assert_eq!(verdict["sound"], true, "{verdict}");
    }
    let mut times: BTreeMap<String, u32> = BTreeMap::new();
    for record in answers(site) {
        *times.entry(text(&record, "url").to_owned()).or_default() += 1;
    }
    let urls = site.urls();
    for (url, record) in &urls {
        let expected = u32::from(text(record, "state") == "visited");
        if expected == 1 {
            assert_eq!(times.get(url), Some(&1), "{url} is archived once");
        }
    }
    let twice: Vec<_> = times
        .iter()
        .filter(|(url, n)| **n > 1 && !url.contains("/robots"))
        .collect();
    assert!(twice.is_empty(), "{twice:?}");
}

/// Response and revisit records.
fn answers(site: &Site) -> Vec<Value> {
    let mut records = site.records();
    records.retain(|r| matches!(text(r, "type"), "response" | "revisit"));
    records
}

fn index_is_complete_and_sorted(site: &Site) {
    let index = std::fs::read_to_string(site.out().join("index.cdxj")).expect("the merged index");
    let lines: Vec<&str> = index.lines().collect();
    assert!(lines.is_sorted(), "the index is sorted");
    let mut indexed = BTreeSet::new();
    for line in &lines {
        let fields = line.splitn(3, ' ').nth(2).expect("a line has three parts");
        let fields: Value = serde_json::from_str(fields).expect("the third part is JSON");
        let place = (
            text(&fields, "filename").to_owned(),
            text(&fields, "offset").parse::<u64>().expect("a number"),
        );
        assert!(indexed.insert(place), "one line a record: {line}");
    }
    let archived: BTreeSet<(String, u64)> = answers(site)
        .iter()
        .map(|r| {
            let file = text(r, "file").rsplit('/').next().unwrap_or_default();
            (file.to_owned(), number(r, "offset"))
        })
        .collect();
    assert_eq!(indexed, archived);
}

fn status_is_consistent(site: &Site) {
    let status = site.ask(&["status", "--json"]).json();
    let urls = site.urls();
    let of_state = |state: &str| urls.values().filter(|u| text(u, "state") == state).count() as u64;
    assert_eq!(number(&status, "urls_known"), urls.len() as u64);
    assert_eq!(number(&status, "urls_due"), 0);
    for state in ["visited", "failed", "excluded"] {
        assert_eq!(number(&status, state), of_state(state), "{state}");
    }
    assert_eq!(status["running"], false);
}

/// A small generator, so that the moments are the same in every run (what they hit is not).
struct Random(u64);

impl Random {
    fn below(&mut self, bound: u64) -> u64 {
        // xorshift64
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % bound
    }
}
