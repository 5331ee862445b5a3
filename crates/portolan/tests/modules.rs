//! Modules: what they say is in the registry and in the archive, their links are admitted like others, and whatever a
//! program does with a document is that document's own outcome.

mod harness;

use harness::small::{Small, set};
use harness::{Ran, number, portolan, run, text};
use portolan_crawl::{Crawl, Document, Findings, FinishedPage, Module, Plan, Settings};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Arc, Mutex};

/// An answer of a media type.
fn answer(media_type: &str, body: &str) -> String {
    format!(
        "HTTP/1.1 200 OK\r\nContent-Type: {media_type}\r\nConnection: close\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    )
}

fn ask(site: &Small, arguments: &[&str]) -> Ran {
    harness::ask(&site.out(), arguments)
}

/// What `urls --json` tells, by URL.
fn urls(site: &Small) -> BTreeMap<String, Value> {
    let lines = ask(site, &["urls", "--json"]).json_lines();
    let named = |line: Value| (text(&line, "url").to_owned(), line);
    lines.into_iter().map(named).collect()
}

/// A settings file with a program that runs `script`, which is told the path of a folder beside the crawl.
fn with_program(site: &Small, script: &str, more: &str) -> String {
    let script_file = site.out().with_file_name("module.sh");
    std::fs::write(&script_file, script).expect("a script");
    let folder = script_file.parent().expect("a folder");
    site.config(&format!(
        "[[module]]\nname = \"pdf\"\ntypes = [\"application/pdf\"]\ncommand = [\"sh\", \"{}\", \"{}\"]\n{more}\n",
        script_file.display(),
        folder.display(),
    ))
}

/// Does as the document says.
const OBEDIENT: &str = r#"
read -r word
case $word in
    %PDF-die) echo 'no cross-reference table' >&2; exit 3 ;;
    %PDF-hang) sleep 611 & echo $! >"$1/begun"; wait ;;
    %PDF-flood) yes ;;
    %PDF-eat) dd if=/dev/zero of=/dev/null bs=500M count=1 2>/dev/null ;;
    %PDF-odd) echo '{"fact": "pages", "value": 3}'; echo 'pages: 3' ;;
    *)
        echo '{"fact": "pages", "value": 3}'
        echo '{"title": "A paper"}'
        echo "{\"fact\": \"environment\", \"value\": \"$(env | cut -d= -f1 | sort | tr '\n' ' ')\"}"
        echo "{\"fact\": \"files\", \"value\": $(ls -A | wc -l)}"
        echo "{\"fact\": \"at\", \"value\": \"$PORTOLAN_URL $PORTOLAN_TYPE\"}"
        echo '{"link": "found.html"}'
        echo '{"link": "/private/secret.html"}'
        echo '{"link": "http://other.test/"}'
        ;;
esac
"#;

#[test]
fn whatever_a_program_does_is_the_outcome_of_its_document() {
    let pdf = |word: &str| answer("application/pdf", &format!("%PDF-{word}\n"));
    let links: String = ["good", "die", "hang", "flood", "eat", "odd"]
        .iter()
        .map(|word| format!("<a href=/{word}.pdf>{word}</a> "))
        .collect();
    let site = Small::serve(&[
        ("a.test/", &links),
        (
            "a.test/robots.txt",
            &answer("text/plain", "User-agent: *\nDisallow: /private/\n"),
        ),
        ("a.test/good.pdf", &pdf("1.7")),
        ("a.test/die.pdf", &pdf("die")),
        ("a.test/hang.pdf", &pdf("hang")),
        ("a.test/flood.pdf", &pdf("flood")),
        ("a.test/eat.pdf", &pdf("eat")),
        ("a.test/odd.pdf", &pdf("odd")),
        ("a.test/found.html", "found by a module"),
    ]);
    let config = with_program(
        &site,
        OBEDIENT,
        "output = \"json\"\ntimeout_ms = 2000\nmemory_mb = 100\nmax_output_bytes = 10000\n",
    );
    let mut command = site.command(&["http://a.test/", "--config", &config]);
    command.env("SECRET", "hunter2");
    let report = run(&mut command).succeeded().json();
    assert_eq!(number(&report, "pages"), 8, "{report}");
    let counts = &report["modules"]["pdf"];
    assert_eq!(
        (number(counts, "documents"), number(counts, "failed")),
        (6, 5)
    );

    let urls = urls(&site);
    let facts = |name: &str| urls[&format!("http://a.test/{name}.pdf")]["facts"].clone();
    let good = facts("good");
    assert_eq!(text(&good, "pdf.pages"), "3");
    assert_eq!(
        text(&good, "pdf.files"),
        "0",
        "the working directory is empty"
    );
    assert_eq!(
        text(&good, "pdf.at"),
        "http://a.test/good.pdf application/pdf"
    );
    // The shell may set some of its own.
    let environment = text(&good, "pdf.environment");
    let ours = [
        "HOME",
        "LANG",
        "PATH",
        "PORTOLAN_TYPE",
        "PORTOLAN_URL",
        "TMPDIR",
    ];
    assert!(
        ours.iter().all(|name| environment.contains(name)),
        "{environment}"
    );
    for other in environment.split(' ').filter(|name| !name.is_empty()) {
        let is_shells = ["PWD", "OLDPWD", "SHLVL", "_"].contains(&other);
        assert!(ours.contains(&other) || is_shells, "{environment}");
    }
    let error = |name: &str| text(&facts(name), "pdf.error").to_owned();
    assert_eq!(
        error("die"),
        "it ended with code 3: no cross-reference table"
    );
    assert_eq!(error("hang"), "it took longer than 2000 ms");
    assert_eq!(error("flood"), "it wrote more than 10000 bytes");
    assert_eq!(error("eat"), "it ended with code 1");
    assert_eq!(
        error("odd"),
        "what it wrote cannot be read: line 2 is no JSON object"
    );
    assert_eq!(facts("odd").as_object().map(|facts| facts.len()), Some(1));

    // Its links are links.
    let url = |name: &str| &urls[&format!("http://{name}")];
    assert_eq!(text(url("a.test/found.html"), "state"), "visited");
    assert_eq!(text(url("a.test/found.html"), "found_as"), "module");
    assert_eq!(number(url("a.test/found.html"), "depth"), 2);
    assert_eq!(text(url("a.test/private/secret.html"), "reason"), "robots");
    assert_eq!(text(url("other.test/"), "reason"), "scope");
    assert_eq!(text(url("a.test/good.pdf"), "title"), "A paper");
    let why = site.why("http://a.test/good.pdf");
    assert!(why.contains("pdf.pages: 3"), "{why}");
    let why = site.why("http://a.test/die.pdf");
    assert!(why.contains("pdf.error: it ended with code 3"), "{why}");
    all_is_sound(&site);

    // What it began has ended with it.
    has_ended(&site);
}

/// Has the process ended whose number a program left in the file `begun`?
fn has_ended(site: &Small) {
    let begun = std::fs::read_to_string(site.out().with_file_name("begun")).expect("a number");
    let stat = std::fs::read_to_string(format!("/proc/{}/cmdline", begun.trim()));
    assert!(
        !stat.is_ok_and(|line| line.contains("611")),
        "{begun} is alive"
    );
}

fn all_is_sound(site: &Small) {
    ask(site, &["check"]);
    ask(site, &["warc verify"]);
}

/// Bodies and some fields of the archive's records of a kind, by URL.
fn records(site: &Small, kind: &str) -> Vec<(String, String)> {
    let mut found = Vec::new();
    for file in std::fs::read_dir(site.out().join("archive")).expect("an archive") {
        let path = file.expect("a file").path();
        if !path.to_string_lossy().ends_with(".warc.gz") {
            continue;
        }
        let mut reader = portolan_archive::WarcReader::open(&path).expect("a WARC file");
        while let Some(record) = reader.next_record().expect("a sound record") {
            let mut block = String::new();
            if record.kind() == kind {
                let url = record.header("WARC-Target-URI").unwrap_or_default();
                std::io::Read::read_to_string(&mut reader.block(), &mut block).expect("text");
                found.push((url.to_owned(), block));
            }
        }
    }
    found
}

#[test]
fn a_text_is_in_the_archive_once_and_its_beginning_in_the_registry() {
    let site = Small::serve(&[
        ("a.test/", "<a href=/a.pdf>a</a>"),
        (
            "a.test/a.pdf",
            &answer("application/octet-stream", "%PDF-1.7 one\ntwo"),
        ),
    ]);
    let script = "sed s/%PDF-1.7/text:/; printf '\\303\\244 \\377'";
    let config = with_program(&site, script, "");
    site.crawl(&["http://a.test/", "--config", &config]);
    site.asked();
    let told = |site: &Small| urls(site)["http://a.test/a.pdf"]["facts"].clone();
    // Invalid UTF-8 is told as such.
    let wanted = json!({ "pdf.text": "text: one twoä \u{fffd}", "pdf.text_bytes": "19" });
    assert_eq!(told(&site), wanted);
    let url = "http://a.test/a.pdf".to_owned();
    let texts = [(url.clone(), "text: one\ntwoä \u{fffd}".to_owned())];
    assert_eq!(records(&site, "conversion"), texts);
    let metadata = records(&site, "metadata");
    let (_, fields) = metadata.iter().find(|(of, _)| *of == url).expect("fields");
    assert!(
        fields.contains("pdf.text: text: one twoä \u{fffd}\r\n"),
        "{fields}"
    );

    // The same in a new session is not stored again, and goes on to be known.
    site.crawl(&["--new-session"]);
    assert_eq!(site.asked(), set(&["a.test/", "a.test/a.pdf"]));
    assert_eq!(told(&site), wanted);
    assert_eq!(records(&site, "conversion"), texts);
    all_is_sound(&site);

    let mut command = portolan();
    command.args([
        "fetch",
        "http://a.test/a.pdf",
        "--json",
        "--config",
        &config,
    ]);
    command.args(["--delay", "0s", "--resolve", &site.resolve()]);
    let fetched = run(&mut command).succeeded().json();
    assert_eq!(fetched["answer"]["facts"], wanted);
}

#[test]
fn a_program_that_is_not_there_is_told_before_anything_begins() {
    let site = Small::serve(&[("a.test/", "a page")]);
    let config = site.config(
        "[[module]]\ntypes = [\"application/pdf\"]\ncommand = [\"no-such-program\", \"-\"]\n",
    );
    let ran = run(&mut site.command(&["http://a.test/", "--config", &config]));
    assert_eq!(ran.code, Some(2), "{}", ran.err);
    let sentence = "module 'no-such-program': there is no program 'no-such-program' in PATH; install it, or write where it is";
    assert!(ran.err.contains(sentence), "{}", ran.err);
    assert_eq!(ran.err.lines().count(), 1, "{}", ran.err);
    assert!(!site.out().exists() && site.asked().is_empty());
}

/// With one worker: a program waits for something that happens only if others are asked meanwhile.
#[test]
fn a_program_blocks_nobody_but_its_host() {
    let pdf = answer("application/pdf", "%PDF-1.7\n");
    let site = Small::serve(&[
        ("a.test/", "<a href=/a.pdf>a</a>"),
        ("a.test/a.pdf", &pdf),
        ("b.test/", "<a href=/1>1</a>"),
        ("b.test/1", "<a href=/2>2</a>"),
        ("b.test/2", "<a href=/b.pdf>3</a>"),
        ("b.test/b.pdf", &pdf),
    ]);
    let script = "case $PORTOLAN_URL in
        */b.pdf) touch \"$1/go\" ;;
        *) until [ -e \"$1/go\" ]; do sleep 0.05; done ;;
    esac
    echo '{\"fact\": \"ended\", \"value\": true}'";
    let more = "output = \"json\"\ntimeout_ms = 60000\nat_once = 2\n[limits]\nthreads = 1\n";
    let config = with_program(&site, script, more);
    site.crawl(&["http://a.test/", "http://b.test/", "--config", &config]);
    let urls = urls(&site);
    for name in ["http://a.test/a.pdf", "http://b.test/b.pdf"] {
        assert_eq!(
            urls[name]["facts"],
            json!({ "pdf.ended": "true" }),
            "{name}"
        );
    }
}

#[test]
fn a_crawl_that_is_stopped_leaves_no_program_behind() {
    let site = Small::serve(&[("a.test/", &answer("application/pdf", "%PDF-hang\n"))]);
    let config = with_program(&site, OBEDIENT, "output = \"json\"\ntimeout_ms = 600000\n");
    let crawl = harness::start(&mut site.command(&["http://a.test/", "--config", &config]));
    let begun = site.out().with_file_name("begun");
    let is_begun = || std::fs::read_to_string(&begun).is_ok_and(|text| text.ends_with('\n'));
    let limit = std::time::Duration::from_secs(60);
    assert!(harness::wait_until(limit, is_begun), "the program began");
    // The second time what is under way is given up.
    harness::signal(crawl.id(), "INT");
    std::thread::sleep(std::time::Duration::from_millis(300));
    harness::signal(crawl.id(), "INT");
    harness::finish(crawl, std::time::Instant::now());
    has_ended(&site);
    let urls = urls(&site);
    assert_eq!(
        text(&urls["http://a.test/"], "state"),
        "due",
        "it comes again"
    );
}

#[test]
fn no_more_runs_are_under_way_at_once_than_the_settings_say() {
    let pdf = answer("application/pdf", "%PDF-1.7\n");
    let hosts: Vec<String> = (0..6).map(|n| format!("h{n}.test/a.pdf")).collect();
    let pages: Vec<(&str, &str)> = hosts.iter().map(|url| (url.as_str(), &*pdf)).collect();
    let site = Small::serve(&pages);
    // A folder can be made once.
    let script = "mkdir \"$1/busy\" && sleep 0.1 && rmdir \"$1/busy\" || exit 1; echo alone";
    let config = with_program(&site, script, "at_once = 1");
    let seeds: Vec<String> = hosts.iter().map(|url| format!("http://{url}")).collect();
    let mut arguments: Vec<&str> = seeds.iter().map(String::as_str).collect();
    arguments.extend(["--config", &config]);
    let report = site.crawl(&arguments);
    assert_eq!(report["modules"]["pdf"]["failed"], 0, "{report}");
    assert_eq!(number(&report["modules"]["pdf"], "documents"), 6);
}

#[test]
fn the_example_program_reads_markdown() {
    let body = "# First *things*\n\nA [link](/two) and text.\n\n# Second\n- [more](three.html)\n";
    let site = Small::serve(&[
        ("a.test/", &answer("text/markdown", body)),
        ("a.test/two", "two"),
        ("a.test/three.html", "three"),
    ]);
    let program = Path::new(env!("CARGO_MANIFEST_DIR")).join("../crawl/examples/markdown.sh");
    let config = site.config(&format!(
        "[[module]]\ntypes = [\"text/markdown\"]\ncommand = [\"{}\"]\noutput = \"json\"\n",
        program.display()
    ));
    site.crawl(&["http://a.test/", "--config", &config]);
    assert_eq!(
        site.asked(),
        set(&["a.test/", "a.test/two", "a.test/three.html"])
    );
    let urls = urls(&site);
    let row = &urls["http://a.test/"];
    assert_eq!(row["facts"], json!({ "markdown.headings": "2" }));
    assert_eq!(text(row, "title"), "First *things*");
}

/// Reads numbers, and panics where there is none.
struct Numbers;

impl Module for Numbers {
    fn name(&self) -> &str {
        "numbers"
    }

    fn types(&self) -> Vec<String> {
        vec!["text/plain".to_owned()]
    }

    fn read(&self, document: &Document<'_>, findings: &mut Findings<'_>) {
        let text = document.text();
        let number: u32 = text.trim().parse().expect("a number");
        findings.fact("number", number);
        findings.fact("server", document.header("x-server").unwrap_or("none"));
        findings.link(&format!("/{}", number + 1));
        findings.nofollow_link("/nofollow");
    }
}

#[test]
fn modules_and_hooks_in_rust_are_part_of_a_crawl() {
    let plain = |body: &str| {
        answer("text/plain; charset=utf-16le", body)
            .replace("Connection", "X-Server: s\r\nConnection")
    };
    let site = Small::serve(&[
        (
            "a.test/",
            "<title>Home</title><a href=/1>1</a> <a href=/gone>2</a> <a href=/moved>3</a>",
        ),
        ("a.test/1", &plain("1\0")),
        ("a.test/2", &plain("x\0")),
        (
            "a.test/moved",
            "HTTP/1.1 301 Moved\r\nLocation: /1\r\nConnection: close\r\nContent-Length: 0\r\n\r\n",
        ),
    ]);
    let settings = format!(
        "[politeness]\ndelay_ms = 0\n[dns]\nresolve = [\"{}\"]\n[outages]\nwait_ms = 3000\n",
        site.resolve()
    );
    let settings = Settings::with_overrides(&settings).expect("settings");
    let seen = Arc::new(Mutex::new(BTreeMap::new()));
    let shown = Arc::clone(&seen);
    let plan = Plan::new(site.out(), ["http://a.test/"], settings)
        .module(Numbers)
        .on_page(move |page: &FinishedPage<'_>| {
            let facts: Vec<String> = page
                .facts()
                .iter()
                .map(|fact| format!("{}={}", fact.name, fact.value))
                .collect();
            let what = format!(
                "{} {} {} {} {}",
                page.status(),
                page.is_document(),
                page.title(),
                page.body().len(),
                facts.join(" ")
            );
            let before = shown
                .lock()
                .expect("no panic")
                .insert(page.url().to_owned(), what);
            assert_eq!(before, None, "{} was shown twice", page.url());
        });
    let report = Crawl::start(plan).and_then(Crawl::join).expect("a crawl");
    let counts = report.modules["numbers"];
    assert_eq!((counts.documents, counts.failed), (2, 1));
    let seen = seen.lock().expect("no panic").clone();
    let wanted = [
        ("http://a.test/", "200 true Home 76 "),
        (
            "http://a.test/1",
            "200 true  2 numbers.number=1 numbers.server=s",
        ),
        ("http://a.test/2", "200 true  2 numbers.error=it panicked"),
        ("http://a.test/gone", "404 false  0 "),
        ("http://a.test/moved", "301 false  0 "),
    ];
    let wanted = wanted.map(|(url, what)| (url.to_owned(), what.to_owned()));
    assert_eq!(seen, BTreeMap::from(wanted));
    let urls = urls(&site);
    assert_eq!(text(&urls["http://a.test/nofollow"], "reason"), "nofollow");
    assert_eq!(
        text(&urls["http://a.test/2"]["facts"], "numbers.error"),
        "it panicked"
    );

    // A hook that panics is the caller's mistake.
    let plan = Plan::new(
        site.out().with_file_name("second"),
        ["http://a.test/"],
        Settings::with_overrides(&format!(
            "[politeness]\ndelay_ms = 0\n[dns]\nresolve = [\"{}\"]\n",
            site.resolve()
        ))
        .expect("settings"),
    )
    .on_page(|_| panic!("on purpose"));
    let failed = Crawl::start(plan)
        .and_then(Crawl::join)
        .expect_err("it stopped");
    assert!(
        failed
            .to_string()
            .contains("a hook for pages panicked at http://a.test/"),
        "{failed}"
    );
}
