//! Damage to every kind of file, in a crawl that has ended and in one that was killed: a byte flipped, the half cut off,
//! the file removed. `check` says so, going on refuses or tells, and nothing panics or deletes what was archived.

mod harness;

use harness::{QUICK, Site, finish, portolan, run, signal, start, wait_until};
use portolan_simweb::{Fault, WebSpec};
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// Cases that run at once: they wait for processes mostly.
const AT_ONCE: usize = 4;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Damage {
    Flip,
    Cut,
    Remove,
}

/// What `check` cannot know.
struct Excuse {
    kind: &'static str,
    damage: &'static [Damage],
    /// In a crawl that has ended, too.
    ended: bool,
}

const EXCUSES: [Excuse; 8] = [
    // Without a checkpoint all is made again from the log, where that is whole.
    excuse("manifest", &[Damage::Remove], true),
    // The end of a log that nothing says was ever longer: what a crash leaves.
    excuse("log", &[Damage::Flip, Damage::Cut], false),
    // What a crash leaves of it; it is no record of truth.
    excuse("text", &[Damage::Flip, Damage::Cut], false),
    // Without it all URLs are judged again.
    excuse("judged", &[Damage::Remove], true),
    // The list of what the table of payloads holds is there for certain only after an end in order.
    excuse("MANIFEST", &[Damage::Remove], false),
    // Of a crawl that was cut off there is no merged index, or an old one; and others are made when it goes on.
    excuse(
        "index.cdxj",
        &[Damage::Flip, Damage::Cut, Damage::Remove],
        false,
    ),
    excuse("cdxj", &[Damage::Remove], false),
    // Without WARC files beside it there would be nothing to tell.
    excuse("lock", &[Damage::Flip, Damage::Cut, Damage::Remove], true),
];

const fn excuse(kind: &'static str, damage: &'static [Damage], ended: bool) -> Excuse {
    Excuse {
        kind,
        damage,
        ended,
    }
}

fn spec() -> WebSpec {
    let mut spec = WebSpec::demo()
        .with_hosts(8)
        .with_pages_per_host(24)
        .with_latency_ms(15.0);
    spec.faults.errors = vec![Fault::NotFound, Fault::ServerError];
    spec
}

/// With a checkpoint behind it.
fn crawled() -> Site {
    let site = Site::serve(spec());
    let more = "[archive]\nfile_bytes = 60000\ncommit_ms = 20\n[registry]\npartitions = 2\n[limits]\nconnections = 8\n";
    let config = site.config(&format!("{QUICK}{more}"));
    let mut command = site.crawl();
    run(command
        .arg("--config")
        .arg(config)
        .args(["--max-pages", "60"]))
    .succeeded();
    site
}

#[test]
fn damage_to_a_crawl_that_has_ended() {
    let site = crawled();
    run(site.resume().args(["--max-pages", "0"])).succeeded();
    damage_everything(&site, true);
}

#[test]
fn damage_to_a_crawl_that_was_killed() {
    let site = crawled();
    let begun = Instant::now();
    let before = site.witness().report().requests;
    let child = start(site.resume().args(["--max-pages", "0"]));
    wait_until(Duration::from_secs(20), || {
        site.witness().report().requests > before + 50
    });
    signal(child.id(), "KILL");
    assert_eq!(finish(child, begun).code, None, "killed, not ended");
    // A file that held nothing whole is removed, and in the same second the next one would get its name.
    std::thread::sleep(Duration::from_millis(1_100));
    damage_everything(&site, false);
}

/// Small files that hold little or nothing: the table of payloads before its first run, and a list of pauses without any.
#[test]
fn emptied_and_removed_files_are_told() {
    let site = Site::serve(WebSpec::small().with_hosts(1).with_pages_per_host(5));
    run(&mut site.crawl()).succeeded();
    assert_eq!(check(&site.out()).0, Some(0));
    let text = site.out().join("seen/text");
    let bytes = fs::read(&text).expect("a table");
    assert!(!bytes.is_empty());
    fs::write(&text, b"").expect("emptied");
    let (code, said) = check(&site.out());
    assert!(code == Some(1) && said.contains("seen/text"), "{said}");
    fs::write(&text, bytes).expect("put back");
    fs::remove_file(site.out().join("pauses")).expect("removed");
    let (code, said) = check(&site.out());
    let told = said.contains("pauses") && said.contains("the file is missing");
    assert!(code == Some(1) && told, "{said}");
    run(&mut site.resume()).succeeded();
    // A table that no manifest names is what a crash leaves: a start removes it.
    let stray = site.out().join("registry/p00/known-99999999.tbl");
    fs::write(&stray, b"half a table").expect("written");
    run(&mut site.resume()).succeeded();
    assert!(!stray.exists());
    assert_eq!(check(&site.out()).0, Some(0));
}

fn damage_everything(site: &Site, ended: bool) {
    let sound = check(&site.out());
    assert_eq!(sound.0, Some(0), "{}", sound.1);
    let kinds = kinds(&site.out());
    println!("{:?}", kinds.keys().collect::<Vec<_>>());
    assert!(kinds.len() >= 16, "{kinds:?}");
    let mut cases = Vec::new();
    for (kind, path) in &kinds {
        for damage in [Damage::Flip, Damage::Cut, Damage::Remove] {
            cases.push((kind.clone(), path.clone(), damage));
        }
    }
    let next = Mutex::new(cases.into_iter());
    std::thread::scope(|scope| {
        for _ in 0..AT_ONCE {
            scope.spawn(|| {
                while let Some((kind, path, damage)) = take(&next) {
                    one_case(site, ended, &kind, &path, damage);
                }
            });
        }
    });
}

fn take<T>(from: &Mutex<impl Iterator<Item = T>>) -> Option<T> {
    from.lock().ok()?.next()
}

fn one_case(site: &Site, ended: bool, kind: &str, path: &Path, damage: Damage) {
    let place = format!("{kind}, {damage:?}, ended: {ended}");
    let home = TempDir::new().expect("a temporary directory");
    let dir = home.path().join("crawl");
    copy(&site.out(), &dir);
    let hit = dir.join(path);
    let bytes = fs::read(&hit).expect("read");
    match damage {
        Damage::Flip => {
            let mut bytes = bytes;
            let middle = bytes.len() / 2;
            bytes[middle] ^= 4;
            fs::write(&hit, bytes).expect("written");
        }
        Damage::Cut => fs::write(&hit, &bytes[..bytes.len() / 2]).expect("written"),
        Damage::Remove => fs::remove_file(&hit).expect("removed"),
    }
    let warcs = warcs(&dir);
    let (code, said) = check(&dir);
    let excused = EXCUSES.iter().any(|excuse| {
        excuse.kind == kind && excuse.damage.contains(&damage) && (excuse.ended || !ended)
    });
    if kind == "crawl.toml" && damage == Damage::Remove {
        assert_eq!(code, Some(2), "{place}: {said}");
    } else if excused {
        assert!(matches!(code, Some(0 | 1)), "{place}: {said}");
    } else {
        assert_eq!(code, Some(1), "{place}: {said}");
        let name = path
            .file_name()
            .and_then(|name| name.to_str())
            .expect("a name");
        // A file that is gone is told by its number, or by the directory that it is missing from.
        let told = said.contains(name) || damage == Damage::Remove || kind == "secret";
        assert!(told, "{place}: {said}");
    }

    let mut command = portolan();
    command.arg("crawl").arg("--out").arg(&dir);
    let ran = run(command.args(["--json", "--time-limit", "500ms"]));
    assert!(
        ran.code.is_some_and(|code| code <= 3),
        "{place}: {}",
        ran.err
    );
    assert!(!ran.err.contains("panicked"), "{place}: {}", ran.err);
    if matches!(ran.code, Some(1 | 2)) {
        assert!(ran.err.contains("portolan: "), "{place}: {}", ran.err);
    }
    nothing_is_lost(&dir, &warcs, &place);
}

/// Every byte of every WARC file is where it was, but for what a crash left at the end of the last one.
fn nothing_is_lost(dir: &Path, before: &BTreeMap<PathBuf, Vec<u8>>, place: &str) {
    let after = warcs(dir);
    let aside: u64 = after
        .iter()
        .filter(|(path, _)| path.starts_with("archive/set-aside"))
        .map(|(_, bytes)| bytes.len() as u64)
        .sum();
    let last = before.keys().next_back();
    let mut gone = 0;
    for (path, bytes) in before {
        let now = after.get(path).map_or(&[][..], Vec::as_slice);
        assert!(bytes.starts_with(now), "{place}: {}", path.display());
        let missing = (bytes.len() - now.len()) as u64;
        gone += missing;
        assert!(
            missing == 0 || aside > 0 || Some(path) == last,
            "{place}: {}",
            path.display()
        );
    }
    // A record of this Web, half written.
    const TORN_MAX: u64 = 40_000;
    assert!(
        gone <= aside + TORN_MAX,
        "{place}: {gone} bytes are gone, {aside} set aside"
    );
}

fn warcs(dir: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut found = BTreeMap::new();
    for home in ["archive", "archive/set-aside"] {
        let Ok(items) = fs::read_dir(dir.join(home)) else {
            continue;
        };
        for item in items {
            let path = item.expect("an entry").path();
            if path.to_string_lossy().ends_with(".warc.gz") {
                let name = path.strip_prefix(dir).expect("below").to_owned();
                found.insert(name, fs::read(&path).expect("read"));
            }
        }
    }
    found
}

/// The largest file of each kind, without those that hold nothing.
fn kinds(dir: &Path) -> BTreeMap<String, PathBuf> {
    let mut all = Vec::new();
    files(dir, &mut all);
    let mut kinds: BTreeMap<String, (u64, PathBuf)> = BTreeMap::new();
    for path in all {
        let bytes = fs::metadata(&path).expect("a file").len();
        let path = path.strip_prefix(dir).expect("below").to_owned();
        let name = path
            .file_name()
            .and_then(|name| name.to_str())
            .expect("a name");
        let kind = match name.rsplit_once('.') {
            Some((_, "log")) => "log",
            Some((_, "gz")) => "warc",
            Some((_, "part")) => "part",
            Some((stem, "tbl")) => stem.split('-').next().unwrap_or_default(),
            Some((_, "cdxj")) if name != "index.cdxj" => "cdxj",
            _ => name,
        };
        // They tell of nothing that is not elsewhere.
        if bytes == 0 || ["report.json", "lock", "spill", "part"].contains(&kind) {
            continue;
        }
        let largest = kinds.entry(kind.to_owned()).or_default();
        if bytes > largest.0 {
            *largest = (bytes, path);
        }
    }
    kinds
        .into_iter()
        .map(|(kind, (_, path))| (kind, path))
        .collect()
}

fn files(dir: &Path, found: &mut Vec<PathBuf>) {
    for item in fs::read_dir(dir).expect("a directory") {
        let path = item.expect("an entry").path();
        if path.is_dir() {
            files(&path, found);
        } else {
            found.push(path);
        }
    }
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

/// Exit code and what was said.
fn check(dir: &Path) -> (Option<i32>, String) {
    let mut command = portolan();
    let ran = run(command.arg("check").arg(dir));
    assert!(!ran.err.contains("panicked"), "{}", ran.err);
    (ran.code, format!("{}{}", ran.out, ran.err))
}
