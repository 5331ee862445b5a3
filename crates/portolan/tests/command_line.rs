//! The contract with scripts: names, exit codes, one sentence for a mistake, one JSON object for a result.

mod harness;

use harness::{Ran, Site, finish, number, portolan, run, start, text, wait_until};
use portolan_simweb::WebSpec;
use std::io::Write;
use std::process::Stdio;
use std::time::{Duration, Instant};
use tempfile::TempDir;

fn small() -> Site {
    Site::serve(WebSpec::small().with_hosts(4).with_pages_per_host(10))
}

/// One sentence, exit code 2, nothing on stdout, no panic.
#[track_caller]
fn is_told(ran: &Ran, names: &[&str]) {
    assert_eq!(ran.code, Some(2), "{ran:?}");
    assert_eq!(ran.out, "", "{ran:?}");
    assert!(!ran.err.contains("panicked"), "{ran:?}");
    assert_eq!(
        ran.err.trim_end().lines().count(),
        1,
        "one sentence: {ran:?}"
    );
    for name in names {
        assert!(ran.err.contains(name), "'{name}' is not named: {}", ran.err);
    }
}

#[test]
fn bad_input_gets_one_sentence_and_leaves_nothing_behind() {
    let dir = TempDir::new().expect("a temporary directory");
    let at = |name: &str| dir.path().join(name).display().to_string();
    let file = |name: &str, content: &str| {
        std::fs::write(dir.path().join(name), content).expect("a file");
        at(name)
    };
    let unknown = file("unknown.toml", "[politeness]\npatience = 3\n");
    let broken = file("broken.toml", "[politeness\n");
    let wrong_type = file("type.toml", "[limits]\nmax_pages = \"many\"\n");
    let seeds = file(
        "seeds.txt",
        "# seeds\nhttp://example.org/\n\nhttp://[bad/\n",
    );
    let empty_seeds = file("empty.txt", "# nothing\n");
    let out = at("out");
    let url = "http://h0.sim.test/";
    let cases: &[(&[&str], &[&str])] = &[
        (&["http://[::bad/"], &["http://[::bad/"]),
        (&["gemini://example.org/"], &["gemini://example.org/"]),
        (
            &["mailto:someone@example.org"],
            &["mailto:someone@example.org"],
        ),
        (&[""], &["SEED", "seed"][1..]),
        (&[], &["SEED"]),
        (&[url, "--max-pages", "-1"], &["--max-pages", "-1"]),
        (&[url, "--delay", "-5s"], &["--delay", "-5s"]),
        (&[url, "--delay", "99999999999999d"], &["delay"]),
        (&[url, "--connections", "0"], &["--connections", "0"]),
        (&["http://me:secret@h0.sim.test/"], &["passwords"]),
        (&[url, "--include", "("], &["include", "("]),
        (&[url, "--exclude", "[a"], &["exclude", "[a"]),
        (&[url, "--resolve", "nonsense"], &["resolve", "nonsense"]),
        (
            &[url, "--resolve", "*.x=999.0.0.1"],
            &["resolve", "999.0.0.1"],
        ),
        (
            &[url, "--resolve", "*.x=127.0.0.1:99999"],
            &["resolve", "99999"],
        ),
        (
            &[url, "--config", &at("absent.toml")],
            &["--config", "absent.toml"],
        ),
        (
            &[url, "--config", &unknown],
            &["unknown.toml", "politeness.patience"],
        ),
        (&[url, "--config", &broken], &["broken.toml", "line 1"]),
        (
            &[url, "--config", &wrong_type],
            &["type.toml", "limits.max_pages"],
        ),
        (
            &["--seeds-file", &seeds],
            &["seeds.txt", "line 4", "http://[bad/"],
        ),
        (&["--seeds-file", &empty_seeds], &["empty.txt"]),
        (
            &["--seeds-file", &at("absent.txt")],
            &["--seeds-file", "absent.txt"],
        ),
        (&[url, "--delay", "5"], &["--delay", "5"]),
        (&[url, "--delay", "fast"], &["--delay", "fast"]),
        (
            &[url, "--time-limit", "1 week"],
            &["--time-limit", "1 week"],
        ),
        (&[url, "--scope", "planet"], &["--scope", "planet"]),
        (&[url, "--connections", "0"], &["connections"]),
        (&[url, "--max-pages", "many"], &["--max-pages", "many"]),
        (&[url, "--max-depth", "-1"], &["-1"]),
        (&[url, "--no-such-option"], &["--no-such-option"]),
        (&[url, "--user-agent", "a\nb"], &["user_agent"]),
    ];
    for (arguments, names) in cases {
        let ran = run(portolan()
            .arg("crawl")
            .args(*arguments)
            .args(["--out", &out]));
        println!("{arguments:?}: {}", ran.err.trim_end());
        is_told(&ran, names);
        assert!(
            !dir.path().join("out").exists(),
            "{arguments:?} left something behind"
        );
    }
    is_told(&run(portolan().arg("conquer")), &["conquer"]);
}

#[test]
fn directories_that_are_not_a_crawl_are_left_alone() {
    let dir = TempDir::new().expect("a temporary directory");
    std::fs::write(dir.path().join("thesis.txt"), "precious").expect("a file");
    let path = dir.path().display().to_string();
    is_told(
        &run(portolan().args(["crawl", "http://h0.sim.test/", "--out", &path])),
        &["--out", &path],
    );
    is_told(&run(portolan().args(["crawl", "--out", &path])), &[&path]);
    let file = dir.path().join("thesis.txt").display().to_string();
    let ran = run(portolan().args(["crawl", "http://h0.sim.test/", "--out", &file]));
    assert!(
        matches!(ran.code, Some(1 | 2)) && ran.err.lines().count() == 1,
        "{ran:?}"
    );
    for command in ["status", "urls", "links"] {
        is_told(&run(portolan().args([command, &path])), &[&path]);
    }
    is_told(
        &run(portolan().args(["why", &path, "http://h0.sim.test/"])),
        &[&path],
    );
    is_told(&run(portolan().args(["warc", "verify", &path])), &[&path]);
    let absent = dir.path().join("absent").display().to_string();
    is_told(&run(portolan().args(["status", &absent])), &[&absent]);
    is_told(&run(portolan().args(["warc", "list", &absent])), &[&absent]);
    let left: Vec<_> = std::fs::read_dir(dir.path())
        .expect("it is there")
        .collect();
    assert_eq!(left.len(), 1, "{left:?}");
}

#[test]
fn what_config_prints_is_toml_that_config_takes() {
    let site = small();
    let printed = run(portolan().arg("config")).succeeded().out;
    let table: toml::Table = printed.parse().expect("valid TOML");
    assert!(table.len() > 5);
    let file = site.config(&printed);
    let report = run(site.crawl().arg("--config").arg(&file))
        .succeeded()
        .json();
    assert_eq!(text(&report, "stopped_by"), "done");
    let again = run(portolan().arg("config").arg("--config").arg(&file)).succeeded();
    assert_eq!(again.out.parse::<toml::Table>().expect("valid TOML"), table);
}

#[test]
fn json_is_one_object_with_everything_promised() {
    let site = small();
    let ran = run(&mut site.crawl()).succeeded();
    assert_eq!(ran.out.trim_end().lines().count(), 1, "{}", ran.out);
    let report = ran.json();
    for key in [
        "pages",
        "requests",
        "wire_bytes",
        "body_bytes",
        "stored_bytes",
        "urls_known",
        "urls_due",
        "failed",
        "excluded",
        "duplicates",
        "seconds",
        "cpu_seconds",
        "peak_rss_bytes",
        "stopped_by",
    ] {
        assert!(!report[key].is_null(), "{key} is missing: {report}");
    }
    assert!(number(&report, "peak_rss_bytes") > 1_000_000);
    assert!(report["cpu_seconds"].as_f64().is_some_and(|s| s > 0.0));
    // Without it, words; with --quiet, nothing.
    let quiet = run(portolan()
        .args(["crawl", "--quiet", "--out"])
        .arg(site.out()))
    .succeeded();
    assert_eq!((quiet.out.as_str(), quiet.err.as_str()), ("", ""));
    let words = run(portolan().args(["crawl", "--out"]).arg(site.out())).succeeded();
    assert!(words.out.contains("documents archived"), "{}", words.out);
}

#[test]
fn a_crawl_can_be_asked_while_it_runs_and_afterwards() {
    let site = Site::serve(WebSpec::small().with_latency_ms(40.0));
    let begun = Instant::now();
    let child = start(&mut site.crawl());
    assert!(wait_until(Duration::from_secs(30), || {
        site.witness().report().requests > 60
    }));
    let status = site.ask(&["status", "--json"]).json();
    assert_eq!(status["running"], true, "{status}");
    assert!(site.ask(&["status"]).out.contains("is running"));
    let running = site.urls();
    assert!(!running.is_empty());
    assert!(
        site.ask(&["why", "http://h0.sim.test/"])
            .out
            .contains("was fetched")
    );
    site.ask(&["links"]);
    let second = run(&mut site.resume());
    assert!(
        matches!(second.code, Some(1 | 2)),
        "one process a crawl: {second:?}"
    );
    assert_eq!(second.err.lines().count(), 1, "{second:?}");
    finish(child, begun).succeeded();

    let urls = site.urls();
    assert!(urls.len() >= running.len());
    let status = site.ask(&["status", "--json"]).json();
    assert_eq!(status["running"], false);
    assert!(site.ask(&["status"]).out.contains("is complete"));
    assert_eq!(number(&status, "urls_known"), urls.len() as u64);
    for state in ["visited", "due", "failed", "excluded"] {
        let listed = site.ask(&["urls", "--state", state]).out;
        let expected = urls.values().filter(|u| text(u, "state") == state).count();
        assert_eq!(listed.lines().count(), expected, "{state}");
        assert!(listed.lines().all(|line| line.starts_with(state)));
    }
    let of_host = site.ask(&["urls", "--host", "h3.sim.test"]).out;
    assert!(!of_host.is_empty());
    assert!(
        of_host.lines().all(|line| line.contains("//h3.sim.test/")),
        "{of_host}"
    );

    let mut wrong = portolan();
    wrong.arg("urls").arg(site.out());
    let told = run(wrong.args(["--host", "http://h3.sim.test/"]));
    is_told(&told, &["--host", "http://h3.sim.test/"]);
    let mut page = portolan();
    page.args(["warc", "cat"]).arg(site.out());
    let page = run(page.args(["--url", "h0.sim.test", "--payload"])).succeeded();
    assert!(page.out.contains("<html"), "{}", page.out);

    let links = site.ask(&["links", "--json"]).json_lines();
    let mut home = links
        .iter()
        .filter(|l| text(l, "from") == "http://h0.sim.test/");
    let target = text(home.next().expect("the home page links somewhere"), "to").to_owned();
    assert!(urls.contains_key(&target), "{target}");
    let why = site.ask(&["why", &target]).out;
    assert!(
        why.contains("First found as a link") && why.contains("Back-links so far"),
        "{why}"
    );
    let unknown = "http://h0.sim.test/no-such-page";
    let why = run(portolan().arg("why").arg(site.out()).arg(unknown));
    assert_eq!(why.code, Some(1), "scripts can tell: {why:?}");
    assert!(why.out.contains("not known"), "{why:?}");
    let forbidden = urls
        .values()
        .find(|u| u["reason"] == "robots")
        .expect("something is forbidden");
    let why = site.ask(&["why", text(forbidden, "url")]).out;
    assert!(why.contains("robots"), "{why}");
}

#[test]
fn seeds_come_from_a_file_or_standard_input() {
    let site = small();
    let list = "# hosts\r\nhttp://h0.sim.test/\r\n\r\n  h1.sim.test  \n";
    let file = site.path("seeds.txt");
    std::fs::write(&file, list).expect("a file");
    let crawl = |name: &str| {
        let mut command = portolan();
        command
            .args([
                "crawl",
                "--max-depth",
                "0",
                "--delay",
                "0s",
                "--json",
                "--resolve",
                &site.resolve(),
            ])
            .arg("--out")
            .arg(site.path(name));
        command
    };
    let report = run(crawl("one").arg("--seeds-file").arg(&file))
        .succeeded()
        .json();
    assert_eq!(number(&report, "pages"), 2);
    let begun = Instant::now();
    let mut child = start(
        crawl("two")
            .args(["--seeds-file", "-"])
            .stdin(Stdio::piped()),
    );
    let mut stdin = child.stdin.take().expect("it is piped");
    stdin.write_all(list.as_bytes()).expect("it reads");
    drop(stdin);
    let report = finish(child, begun).succeeded().json();
    assert_eq!(number(&report, "pages"), 2);
}

#[test]
fn every_kind_of_scope() {
    let site = Site::serve(WebSpec::small().with_hosts(8).with_pages_per_host(30));
    let hosts_of = |scope: &str, seed: &str| {
        let out = site.path(&format!("scope-{scope}"));
        let mut command = portolan();
        command
            .args(["crawl", seed, "--scope", scope, "--delay", "0s", "--json"])
            .args(["--resolve", &site.resolve(), "--out"])
            .arg(&out);
        run(&mut command).succeeded();
        let urls = harness::ask(&out, &["urls", "--json", "--state", "visited"]).json_lines();
        urls.iter()
            .map(|u| text(u, "url").to_owned())
            .collect::<Vec<_>>()
    };
    let host = hosts_of("host", "http://h0.sim.test/");
    assert!(
        host.len() > 10 && host.iter().all(|u| u.starts_with("http://h0.sim.test/")),
        "{host:?}"
    );
    let domain = hosts_of("domain", "http://h0.sim.test/");
    assert!(domain.len() > 100 && domain.iter().any(|u| u.starts_with("http://h5.sim.test/")));
    let any = hosts_of("any", "http://h0.sim.test/");
    assert_eq!(any.len(), domain.len(), "all of this Web is one domain");
    let below = "http://h0.sim.test/d0/";
    let links = harness::ask(&site.path("scope-host"), &["links", "--json"]).json_lines();
    let is_below = |link: &serde_json::Value, end: &str| {
        let url = text(link, end);
        url.starts_with(below) && host.iter().any(|visited| visited == url)
    };
    let link = links
        .iter()
        .find(|link| is_below(link, "from") && is_below(link, "to"));
    let prefix = hosts_of("prefix", text(link.expect("a link below /d0/"), "from"));
    assert!(
        prefix.len() > 1 && prefix.iter().all(|u| u.starts_with(below)),
        "{prefix:?}"
    );
    assert!(site.witness().report().is_clean() || site.witness().report().repeats > 0);
}

/// A pipe that nobody reads any more, as `| head` leaves it.
fn nobody() -> Stdio {
    let (reader, writer) = std::io::pipe().expect("a pipe");
    drop(reader);
    writer.into()
}

#[test]
fn a_reader_that_goes_away_is_no_failure() {
    let site = small();
    let mut crawl = site.crawl();
    crawl.stdout(nobody()).stderr(nobody());
    let ended = crawl.status().expect("portolan starts");
    assert_eq!(ended.code(), Some(0), "the crawl goes on unheard");
    let status = site.ask(&["status", "--json"]).succeeded().json();
    assert_eq!(number(&status, "urls_due"), 0);

    let out = site.out().display().to_string();
    let questions: &[&[&str]] = &[
        &["status", &out],
        &["urls", &out],
        &["links", &out, "--json"],
        &["graph", &out],
        &["partition", &out, "--parts", "2", "--by", "page"],
        &[
            "partition",
            &out,
            "--compare",
            "--parts",
            "2",
            "--runs",
            "1",
        ],
        &["order", &out, "--compare"],
        &["rank", &out],
        &["warc", "list", &out],
        &["config"],
        &["--help"],
    ];
    for &question in questions {
        let mut command = portolan();
        let asked = command.args(question).stdout(nobody()).output();
        let asked = asked.expect("portolan starts");
        let said = String::from_utf8_lossy(&asked.stderr);
        assert_eq!(asked.status.code(), Some(0), "{question:?}: {said}");
        assert!(!said.contains("panicked"), "{question:?}: {said}");
    }
}

#[test]
#[cfg(target_os = "linux")]
fn output_that_cannot_be_written_is_a_failure() {
    let full = std::fs::File::options().write(true).open("/dev/full");
    let full = full.expect("/dev/full");
    let site = small();
    run(&mut site.crawl()).succeeded();
    let out = site.out().display().to_string();
    let questions: &[&[&str]] = &[
        &["config"],
        &["--help"],
        &["status", &out],
        &["status", &out, "--json"],
        &["why", &out, "http://h0.sim.test/"],
        &["urls", &out],
        &["graph", &out],
    ];
    for &question in questions {
        let full = full.try_clone().expect("another handle");
        let mut command = portolan();
        let asked = command.args(question).stdout(full).output();
        let asked = asked.expect("portolan starts");
        let said = String::from_utf8_lossy(&asked.stderr);
        assert_eq!(asked.status.code(), Some(1), "{question:?}: {said}");
        assert!(said.contains("No space left"), "{question:?}: {said}");
    }
}

#[test]
fn a_settings_file_changes_what_it_names_when_a_crawl_goes_on() {
    let site = small();
    let mut first = site.crawl();
    first.args(["--contact", "me@example.org", "--max-pages", "5"]);
    run(&mut first).succeeded();
    let saved = || std::fs::read_to_string(site.out().join("crawl.toml")).expect("settings");
    let begun = saved();

    // What is settled when a crawl begins is refused, and nothing is changed by trying.
    for (text, name) in [
        ("[archive]\nprefix = \"zzz\"\n", "archive.prefix"),
        ("[archive]\nprefix = \"a/b\"\n", "archive.prefix"),
        ("[archive]\nnode = \"n7\"\n", "archive.node"),
        ("[archive]\nnode_number = 7\n", "archive.node_number"),
        ("[registry]\npartitions = 3\n", "registry.partitions"),
        ("[robots]\ncache_ms = 0\n", "robots.cache_ms"),
    ] {
        let config = site.config(text);
        let ran = run(portolan()
            .arg("crawl")
            .arg("--out")
            .arg(site.out())
            .arg("--config")
            .arg(config));
        is_told(&ran, &[name]);
        assert_eq!(saved(), begun, "after {text}");
    }

    let config = site.config("[limits]\nmax_pages = 0\nmax_redirects = 3\n");
    let mut on = portolan();
    on.arg("crawl")
        .arg("--out")
        .arg(site.out())
        .arg("--config")
        .arg(config);
    let ran = run(on.arg("--json")).succeeded();
    assert_eq!(text(&ran.json(), "stopped_by"), "done");
    let changed = saved();
    let differ: Vec<&str> = begun
        .lines()
        .zip(changed.lines())
        .filter(|(before, after)| before != after)
        .map(|(_, after)| after)
        // The checksum differs, of course.
        .filter(|after| !after.starts_with('#'))
        .collect();
    assert_eq!(differ, ["max_redirects = 3"]);
}

#[test]
fn an_index_that_lost_its_end_is_found_and_made_again() {
    let site = small();
    run(&mut site.crawl()).succeeded();
    let merged = site.out().join("index.cdxj");
    let whole = std::fs::read(&merged).expect("an index");
    let dir = std::fs::read_dir(site.out().join("index")).expect("indexes");
    let index = dir.map(|entry| entry.expect("an entry").path()).next();
    let index = index.expect("the index of the only file");
    let lines = std::fs::read(&index).expect("lines");
    std::fs::write(&index, &lines[..lines.len() / 2]).expect("half of it");

    let verify = || run(portolan().args(["warc", "verify"]).arg(site.out()));
    let ran = verify();
    assert_eq!(ran.code, Some(1), "{ran:?}");
    assert!(
        ran.out.contains(&index.display().to_string()),
        "{}",
        ran.out
    );

    std::fs::remove_file(&index).expect("deleted");
    run(&mut site.resume()).succeeded();
    assert_eq!(verify().code, Some(0));
    assert_eq!(std::fs::read(&merged).expect("an index"), whole);
}
