//! Damaged files are named in an error; nothing panics, nothing is silently dropped.

use crate::model::{PARTITIONS, Random, Web, scratch};
use portolan_model::{Identities, Order};
use portolan_registry::{
    Damage, Opened, Registry, RegistryError, RegistrySettings, Result, Snapshot, UrlFilter, check,
};
use std::fs;
use std::path::{Path, PathBuf};

fn settings() -> RegistrySettings {
    RegistrySettings {
        partitions: PARTITIONS,
        memory_bytes: 60_000,
        checkpoint_log_bytes: 1 << 20,
        ..RegistrySettings::default()
    }
}

fn commit(opened: &mut Opened, web: &mut Web, rounds: usize) {
    for _ in 0..rounds {
        let mut batch = web.seeds();
        let url = web.url();
        let pulse = web.pulse(1);
        batch.push(web.visit(&url, pulse));
        for delivery in opened.journal.commit(batch).unwrap() {
            opened.partitions[delivery.partition.0 as usize]
                .apply(delivery.seq, &delivery.entry)
                .unwrap();
        }
    }
}

/// A registry with a checkpoint and a log after it.
fn make(dir: &Path) {
    let mut web = Web {
        random: Random(5),
        hosts: 30,
        pages: 200,
        order: Order::default(),
    };
    let mut opened = Registry::open(dir, &settings(), 0).unwrap();
    commit(&mut opened, &mut web, 60);
    for partition in &mut opened.partitions {
        partition.flush().unwrap();
    }
    drop(opened);
    // With room for all that follows: no tables are begun that no manifest names.
    let roomy = RegistrySettings {
        memory_bytes: 64 << 20,
        ..settings()
    };
    let mut opened = Registry::open(dir, &roomy, 0).unwrap();
    commit(&mut opened, &mut web, 10);
}

fn files(dir: &Path, found: &mut Vec<PathBuf>) {
    for item in fs::read_dir(dir).unwrap() {
        let path = item.unwrap().path();
        if path.is_dir() {
            files(&path, found);
        } else {
            found.push(path);
        }
    }
    found.sort();
}

fn is_journal(path: &Path) -> bool {
    path.to_str().unwrap().contains("/journal/")
}

/// Reads everything there is.
fn read_all(dir: &Path) -> Result<usize> {
    let snapshot = Snapshot::open(dir, Identities::PUBLIC)?;
    let mut pieces = 0;
    for url in snapshot.urls(UrlFilter::default()) {
        let url = url?;
        snapshot.visit(&url)?;
        snapshot.queue_position(url.doc)?;
        pieces += 1;
    }
    for links in snapshot.links() {
        links?;
        pieces += 1;
    }
    snapshot.hosts()?;
    Ok(pieces)
}

#[test]
fn a_flipped_byte_anywhere_is_found_and_its_file_named() {
    let dir = scratch();
    make(dir.path());
    let whole = read_all(dir.path()).unwrap();
    let mut random = Random(9);
    let mut all = Vec::new();
    files(dir.path(), &mut all);
    let mut damaged = 0;
    for path in all {
        let name = path.file_name().unwrap().to_str().unwrap().to_owned();
        // A lock holds nothing; a kept seed is a URL like any other to whoever reads it.
        if name == "lock" || name == "seeds" {
            continue;
        }
        let bytes = fs::read(&path).unwrap();
        for _ in 0..6 {
            if bytes.is_empty() {
                continue;
            }
            let at = random.below(bytes.len() as u64) as usize;
            let mut bad = bytes.clone();
            bad[at] ^= 1 << random.below(8);
            fs::write(&path, &bad).unwrap();
            match read_all(dir.path()) {
                Err(RegistryError::Corrupt { path: named, .. }) => {
                    let same = named.file_name() == path.file_name();
                    // A record that cannot be read is told by the name of its kind.
                    assert!(same, "{} was blamed for {name}", named.display());
                }
                Err(other) => panic!("{name}: {other}"),
                // What is left of texts that were lifted, how a URL was found, visits before the
                // last, and the last frames of a log (a torn tail) are not missed by a reader.
                Ok(pieces) => {
                    let excused = ["urls", "visits"].contains(&name.as_str());
                    assert!(
                        excused || name.ends_with(".log"),
                        "{name} at {at}: {pieces} of {whole}"
                    );
                }
            }
            damaged += 1;
        }
        fs::write(&path, &bytes).unwrap();
    }
    println!("{damaged} bytes flipped");
    assert_eq!(read_all(dir.path()).unwrap(), whole);
}

/// What a scrub finds.
fn scrub(dir: &Path) -> Vec<Damage> {
    check(dir, None)
        .kinds
        .into_iter()
        .flat_map(|kind| kind.damage)
        .collect()
}

/// The scrub reads what no reader would miss, too: each file, every byte of it that a manifest or the log names.
#[test]
fn the_scrub_finds_every_damage_and_changes_nothing() {
    let dir = scratch();
    make(dir.path());
    assert_eq!(scrub(dir.path()), []);
    let kinds = check(dir.path(), None).kinds;
    assert!(kinds.iter().all(|kind| kind.files > 0), "{kinds:?}");
    let mut random = Random(10);
    let mut all = Vec::new();
    files(dir.path(), &mut all);
    let (mut flipped, mut torn) = (0, 0);
    for path in all {
        let name = path.file_name().unwrap().to_str().unwrap().to_owned();
        let bytes = fs::read(&path).unwrap();
        if name == "lock" || name == "spill" || bytes.is_empty() {
            continue;
        }
        for _ in 0..12 {
            let at = random.below(bytes.len() as u64) as usize;
            let mut bad = bytes.clone();
            bad[at] ^= 1 << random.below(8);
            fs::write(&path, &bad).unwrap();
            let found = scrub(dir.path());
            let torn_bytes: u64 = check(dir.path(), None)
                .kinds
                .iter()
                .map(|kind| kind.torn_bytes)
                .sum();
            if torn_bytes > 0 && found.is_empty() {
                // The last frames of a log: nothing says that they were ever whole.
                assert!(name.ends_with(".log"), "{name} at {at}");
                torn += 1;
            } else {
                assert_eq!(found[0].path, path, "flipped at {at}");
                flipped += 1;
            }
            assert_eq!(fs::read(&path).unwrap(), bad);
        }
        fs::write(&path, &bytes[..bytes.len() / 2]).unwrap();
        assert!(!scrub(dir.path()).is_empty(), "{name} was cut");
        fs::remove_file(&path).unwrap();
        let found = scrub(dir.path());
        // Without a checkpoint everything is made again from the log, if that is whole.
        assert!(
            !found.is_empty() || name == "manifest",
            "{name} was removed"
        );
        fs::write(&path, &bytes).unwrap();
    }
    println!("{flipped} flips found, {torn} taken for torn tails");
    assert!(flipped > 100 && torn < flipped / 10);
    assert_eq!(scrub(dir.path()), []);
}

#[test]
fn without_its_meta_a_registry_is_not_made_anew() {
    let dir = scratch();
    make(dir.path());
    fs::remove_file(dir.path().join("meta")).unwrap();
    let error = Registry::open(dir.path(), &settings(), 0).unwrap_err();
    assert!(error.to_string().contains("the file is missing"), "{error}");
}

#[test]
fn a_torn_tail_is_told() {
    let dir = scratch();
    make(dir.path());
    let opened = Registry::open(dir.path(), &settings(), 0).unwrap();
    assert_eq!((opened.torn_log_bytes, opened.after_crash), (0, true));
    drop(opened);
    let mut all = Vec::new();
    files(dir.path(), &mut all);
    let log = all.iter().rfind(|path| is_journal(path)).unwrap();
    let mut bytes = fs::read(log).unwrap();
    bytes.extend_from_slice(b"half a frame");
    fs::write(log, bytes).unwrap();
    let opened = Registry::open(dir.path(), &settings(), 0).unwrap();
    assert_eq!(opened.torn_log_bytes, 12);
    drop(opened);
    let opened = Registry::open(dir.path(), &settings(), 0).unwrap();
    assert_eq!(opened.torn_log_bytes, 0, "it was cut off");
}

#[test]
fn a_synced_frame_that_is_damaged_stops_the_opening() {
    let dir = scratch();
    make(dir.path());
    let mut all = Vec::new();
    files(dir.path(), &mut all);
    let log = all.iter().rfind(|path| is_journal(path)).unwrap();
    let bytes = fs::read(log).unwrap();
    let mut bad = bytes.clone();
    // In the first frame; commits synced after it say that it was whole once.
    bad[30] ^= 4;
    fs::write(log, &bad).unwrap();
    let error = Snapshot::open(dir.path(), Identities::PUBLIC).unwrap_err();
    assert!(
        matches!(error, RegistryError::Corrupt { offset: 0, .. }),
        "{error}"
    );
    assert!(error.to_string().contains(log.to_str().unwrap()), "{error}");

    // The same damage in the last frame is a torn tail: nothing says that it was ever whole.
    let mut bad = bytes.clone();
    let last = bad.len() - 3;
    bad[last] ^= 4;
    fs::write(log, &bad).unwrap();
    Snapshot::open(dir.path(), Identities::PUBLIC).unwrap();
}

fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for item in fs::read_dir(from).unwrap() {
        let path = item.unwrap().path();
        let target = to.join(path.file_name().unwrap());
        if path.is_dir() {
            copy(&path, &target);
        } else {
            fs::copy(&path, &target).unwrap();
        }
    }
}

/// Whatever a disk loses of a log's end, the registry does not open, or it opens and goes on, and opens again.
#[test]
fn a_log_that_lost_its_end_is_refused_or_goes_on() {
    let whole = scratch();
    make(whole.path());
    let mut all = Vec::new();
    files(whole.path(), &mut all);
    all.retain(|path| path.extension().is_some_and(|extension| extension == "log"));
    let mut random = Random(11);
    let (mut refused, mut went_on) = (0, 0);
    for log in &all {
        let bytes = fs::read(log).unwrap();
        let last = bytes.len() as u64 - 1;
        let cuts = (0..6).map(|_| random.below(bytes.len() as u64));
        for cut in cuts.chain([0, last]).collect::<Vec<_>>() {
            let dir = scratch();
            copy(whole.path(), dir.path());
            let cut_log = dir.path().join(log.strip_prefix(whole.path()).unwrap());
            fs::write(&cut_log, &bytes[..cut as usize]).unwrap();
            let mut opened = match Registry::open(dir.path(), &settings(), 0) {
                Ok(opened) => opened,
                Err(error @ RegistryError::Corrupt { .. }) => {
                    assert!(error.to_string().contains("/journal"), "{error}");
                    refused += 1;
                    continue;
                }
                Err(other) => panic!("{}, cut at {cut}: {other}", log.display()),
            };
            let mut web = Web {
                random: Random(cut + 1),
                hosts: 30,
                pages: 200,
                order: Order::default(),
            };
            commit(&mut opened, &mut web, 20);
            // A reader waits for nothing that is still to be looked up.
            let known = || {
                Snapshot::open(dir.path(), Identities::PUBLIC)
                    .unwrap()
                    .stats()
                    .known
            };
            let before = known();
            drop(opened);
            drop(Registry::open(dir.path(), &settings(), 0).unwrap());
            assert_eq!(known(), before, "{}, cut at {cut}", log.display());
            went_on += 1;
        }
    }
    println!("{refused} were refused, {went_on} went on");
    assert!(refused > 0 && went_on > 0);
}

#[test]
fn ram_stays_within_its_bound() {
    let dir = scratch();
    let settings = RegistrySettings {
        partitions: PARTITIONS,
        memory_bytes: 6 << 20,
        checkpoint_log_bytes: 8 << 20,
        hosts_in_ram: 3_000,
        ..RegistrySettings::default()
    };
    let mut opened = Registry::open(dir.path(), &settings, 0).unwrap();
    let mut web = Web {
        random: Random(3),
        hosts: 20_000,
        pages: 1_000,
        order: Order::default(),
    };
    let (mut most, mut known) = (0, 0);
    for round in 0..4_000 {
        commit(&mut opened, &mut web, 1);
        for partition in &mut opened.partitions {
            partition.tend(round % 7 == 0).unwrap();
        }
        let ram: usize = opened.partitions.iter().map(|p| p.ram_bytes()).sum();
        most = most.max(ram);
        known = opened.partitions.iter().map(|p| p.stats().known).sum();
    }
    // Append buffers, the merge thread's own and the host queue come on top.
    let bound = (6 << 20) + usize::from(PARTITIONS) * (3 << 20) + 3_000 * 50;
    println!("{known} URLs, at most {most} bytes of RAM of {bound}");
    assert!(known > 30_000 && most < bound);
}
