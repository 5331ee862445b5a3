//! From an empty machine to a crawl that does what was meant: settings files, seeds files, the directory, the version, shells and
//! manual pages.

mod harness;

use harness::{Site, number, portolan, run};
use portolan_simweb::WebSpec;
use tempfile::TempDir;

/// One sentence on stderr, exit code 2.
#[track_caller]
fn told(arguments: &[&str]) -> String {
    let ran = run(portolan().args(arguments));
    assert_eq!((ran.code, ran.out.as_str()), (Some(2), ""), "{ran:?}");
    assert_eq!(ran.err.trim_end().lines().count(), 1, "{ran:?}");
    ran.err
}

#[test]
fn a_misspelt_name_gets_the_nearest_one() {
    let dir = TempDir::new().expect("a temporary directory");
    let config = dir.path().join("my.toml");
    std::fs::write(&config, "# mine\n[politenes]\ndelay_ms = 3\n").expect("a file");
    let config = config.display().to_string();
    for (arguments, meant) in [
        (&["crwal", "http://a.test/"][..], "did you mean 'crawl'?"),
        (&["warc", "verfy"], "did you mean 'verify'?"),
        (&["crawl", "--max-page", "3"], "did you mean '--max-pages'?"),
        (&["crawl", "--scope", "hosts"], "did you mean 'host'?"),
        (
            &["https://a.test/"],
            "did you mean 'portolan crawl https://a.test/'?",
        ),
        (
            &["crawl", "http://a.test/", "--config", &config],
            "my.toml line 2, column 2: there is no setting 'politenes'; did you mean 'politeness'?",
        ),
        (
            &["config", "--config", &config],
            "my.toml line 2, column 2: there is no setting 'politenes'; did you mean 'politeness'?",
        ),
    ] {
        let sentence = told(arguments);
        assert!(sentence.contains(meant), "{arguments:?}: {sentence}");
    }
}

#[test]
fn a_seeds_file_may_say_what_its_urls_are() {
    let site = Site::serve(WebSpec::small().with_hosts(4).with_pages_per_host(5));
    let file = site.path("seeds.txt");
    let seeds = "# two of them\nhttp://h0.sim.test/ # the first\n\nhttp://h1.sim.test/#top\t# and the second\n";
    std::fs::write(&file, seeds).expect("a file");
    let report = run(portolan()
        .args([
            "crawl",
            "--delay",
            "0s",
            "--max-depth",
            "0",
            "--json",
            "--seeds-file",
        ])
        .arg(&file)
        .arg("--out")
        .arg(site.out())
        .args(["--resolve", &site.resolve()]))
    .succeeded()
    .json();
    assert_eq!(number(&report, "pages"), 2, "{report}");
}

#[test]
fn another_site_does_not_slip_into_the_directory_that_nobody_named() {
    let site = Site::serve(WebSpec::small().with_hosts(4).with_pages_per_host(5));
    let crawl = |seeds: &[&str]| {
        let mut command = portolan();
        command
            .current_dir(site.path(""))
            .args(["crawl", "--delay", "0s", "--max-pages", "2", "--json"])
            .args(["--resolve", &site.resolve()])
            .args(seeds);
        run(&mut command)
    };
    crawl(&["http://h0.sim.test/"]).succeeded();
    // The same seed, however it is spelled, and no seed at all go on with it.
    crawl(&["h0.sim.test"]).succeeded();
    crawl(&[]).succeeded();
    let settings = || std::fs::read(site.path("crawl/seeds.txt")).expect("seeds are remembered");
    let before = settings();
    let refused = crawl(&["http://h1.sim.test/"]);
    assert_eq!(refused.code, Some(2), "{refused:?}");
    assert_eq!(refused.err.trim_end().lines().count(), 1, "{refused:?}");
    for words in [
        "http://h0.sim.test/",
        "'--out h1.sim.test'",
        "'--out ./crawl'",
    ] {
        assert!(refused.err.contains(words), "{}", refused.err);
    }
    assert_eq!(settings(), before);
    // Both ways out that the sentence names.
    crawl(&["http://h1.sim.test/", "--out", "h1.sim.test"]).succeeded();
    assert_eq!(settings(), before);
    crawl(&["http://h1.sim.test/", "--out", "./crawl"]).succeeded();
    assert_ne!(settings(), before);
}

#[test]
fn the_version_names_the_commit_where_git_knows_it() {
    let version = run(portolan().arg("--version")).succeeded().out;
    let rest = version.strip_prefix(concat!("portolan ", env!("CARGO_PKG_VERSION")));
    let rest = rest.expect("the version").trim_end();
    let head = std::process::Command::new("git")
        .args(["-C", env!("CARGO_MANIFEST_DIR"), "log", "-1", "--format=%h"])
        .output();
    match head {
        Ok(head) if head.status.success() => {
            let head = String::from_utf8_lossy(&head.stdout);
            assert!(
                rest.starts_with(&format!(" ({} 20", head.trim())),
                "{version}"
            );
        }
        // Sources without a repository.
        _ => assert!(rest.is_empty() || rest.starts_with(" ("), "{version}"),
    }
}

#[test]
fn shells_complete_what_man_explains() {
    for shell in ["bash", "zsh", "fish"] {
        let script = run(portolan().args(["completions", shell])).succeeded().out;
        for word in ["crawl", "seeds-file", "verify"] {
            assert!(script.contains(word), "{shell}: {word}");
        }
    }
    assert!(told(&["completions", "tcsh"]).contains("tcsh"));
    let page = run(portolan().args(["man", "crawl"])).succeeded().out;
    for words in [
        ".TH portolan-crawl 1",
        "\\-\\-seeds\\-file",
        "Ctrl\\-C once",
    ] {
        assert!(page.contains(words), "{words}: {page}");
    }
    assert!(told(&["man", "crwal"]).contains("crwal"));
    let dir = TempDir::new().expect("a temporary directory");
    run(portolan().args(["man", "--out"]).arg(dir.path())).succeeded();
    for name in ["portolan.1", "portolan-crawl.1", "portolan-warc-cat.1"] {
        assert!(dir.path().join(name).is_file(), "{name}");
    }
}
