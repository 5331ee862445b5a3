//! After a crash the archive is what was logged, and the index says so. What was not logged is set aside, not deleted.

mod support;

use portolan_archive::{
    ArchiveError, ArchiveSettings, DurableEnd, WarcWriter, check_files, claim_archive, verify,
};
use portolan_model::{ArchivePosition, ManualClock};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use support::{AT_MS, both, builder_for, files, page, recover, surt, tempdir};

fn durable(position: &ArchivePosition) -> Option<DurableEnd> {
    Some(DurableEnd {
        file: position.file,
        end: position.end,
    })
}

/// An archive of `pages` pages left as a crash leaves it: synced, not finished.
fn crashed(root: &Path, pages: usize, settings: &ArchiveSettings) -> Vec<ArchivePosition> {
    let (mut writer, _) = recover(root, settings.clone(), None);
    let mut builder = builder_for(settings);
    let positions = (0..pages)
        .map(|number| writer.append(&page(&mut builder, number)).expect("append"))
        .collect();
    writer.sync().expect("sync");
    positions
}

fn index_lines(root: &Path) -> Vec<String> {
    let text = fs::read_to_string(root.join("index.cdxj")).expect("a merged index");
    text.lines().map(str::to_owned).collect()
}

fn sound(root: &Path) {
    for path in warcs(root) {
        let report = verify(&path).expect("readable");
        assert!(report.is_sound(), "{report:#?}");
    }
}

fn copy(from: &Path, to: &Path) {
    for dir in ["archive", "index"] {
        fs::create_dir_all(to.join(dir)).expect("create");
        for file in files(&from.join(dir)) {
            let name = file.file_name().expect("a name");
            fs::copy(&file, to.join(dir).join(name)).expect("copy");
        }
    }
}

/// What recovery has set aside.
fn set_aside(root: &Path) -> Vec<(PathBuf, Vec<u8>)> {
    let dir = root.join("archive/set-aside");
    if !dir.exists() {
        return Vec::new();
    }
    let warcs = files(&dir).into_iter();
    let warcs = warcs.filter(|path| path.extension().is_none_or(|e| e != "cdxj"));
    warcs
        .map(|path| (path.clone(), fs::read(path).expect("read")))
        .collect()
}

/// The WARC files that the crawl goes on with.
fn warcs(root: &Path) -> Vec<PathBuf> {
    let mut warcs = files(&root.join("archive"));
    warcs.retain(|path| path.is_file());
    warcs
}

/// The file torn at every byte: above what was logged it is cut, below it recovery says so.
#[test]
fn every_truncation_point() {
    for settings in both(&ArchiveSettings::default()) {
        truncated_everywhere(&settings);
    }
}

fn truncated_everywhere(settings: &ArchiveSettings) {
    let master = tempdir();
    let positions = crashed(master.path(), 3, settings);
    let logged = &positions[1];
    let warc = files(&master.path().join("archive")).remove(0);
    let part = files(&master.path().join("index")).remove(0);
    let whole = fs::read(&warc).expect("read");
    let lines = fs::read(&part).expect("read");
    let mut expected = None;
    for length in 0..=whole.len() {
        let dir = tempdir();
        copy(master.path(), dir.path());
        let torn = dir
            .path()
            .join("archive")
            .join(warc.file_name().expect("a name"));
        fs::write(&torn, &whole[..length]).expect("write");
        // The part file is torn somewhere else.
        let part = dir
            .path()
            .join("index")
            .join(part.file_name().expect("a name"));
        fs::write(&part, &lines[..length * 7919 % (lines.len() + 1)]).expect("write");

        let clock = Arc::new(ManualClock::at(AT_MS));
        let recovered = WarcWriter::recover(
            dir.path(),
            settings.clone(),
            durable(logged),
            &surt,
            clock,
            7,
        );
        if (length as u64) < logged.end {
            let Err(ArchiveError::CutShort {
                found, logged: end, ..
            }) = recovered
            else {
                panic!("a file cut to {length} was taken for whole");
            };
            assert_eq!((found, end), (length as u64, logged.end));
            continue;
        }
        let (writer, recovery) = recovered.expect("recover");
        // Whole records are set aside, byte for byte; only the torn one is cut.
        let aside = set_aside(dir.path());
        let kept: u64 = aside.iter().map(|(_, bytes)| bytes.len() as u64).sum();
        assert_eq!(recovery.set_aside_bytes, kept);
        assert_eq!(recovery.cut_bytes, length as u64 - logged.end - kept);
        assert!(kept == 0 || whole[logged.end as usize..].starts_with(&aside[0].1));
        if length == whole.len() {
            assert_eq!((recovery.cut_bytes, recovery.set_aside_files), (0, 1));
            assert_eq!(recovery.set_aside_records, 3);
        }
        for (path, _) in &aside {
            let report = verify(path).expect("readable");
            assert!(report.is_sound(), "{report:#?}");
            assert_eq!(report.records, recovery.set_aside_records);
        }
        assert_eq!(recovery.faults, 0);
        writer.finish().expect("finish");
        assert_eq!(
            fs::read(&torn).expect("read"),
            &whole[..logged.end as usize]
        );
        let found = index_lines(dir.path());
        assert_eq!(found.len(), 2);
        assert_eq!(expected.get_or_insert_with(|| found.clone()), &found);
    }
    println!("{} truncation points", whole.len() + 1);
}

/// A lost index is written again from the WARC, line by line the same.
#[test]
fn the_index_can_be_rebuilt_from_nothing() {
    for settings in both(&ArchiveSettings::default()) {
        rebuilt_from_nothing(&settings);
    }
}

fn rebuilt_from_nothing(settings: &ArchiveSettings) {
    let master = tempdir();
    let positions = crashed(master.path(), 30, settings);
    let last = positions.last().expect("pages");
    let mut seen = Vec::new();
    for damage in 0..3 {
        let dir = tempdir();
        copy(master.path(), dir.path());
        let part = files(&dir.path().join("index")).remove(0);
        match damage {
            0 => {}
            1 => fs::remove_file(&part).expect("remove"),
            _ => {
                // A hole of zeros, as file systems leave them after a power cut.
                let mut bytes = fs::read(&part).expect("read");
                bytes[2000..4096].fill(0);
                fs::write(&part, bytes).expect("write");
            }
        }
        let (writer, recovery) = recover(dir.path(), settings.clone(), durable(last));
        assert_eq!(recovery.lines_rebuilt > 0, damage > 0);
        assert_eq!(writer.finish().expect("finish").entries, 30);
        seen.push(index_lines(dir.path()));
    }
    assert_eq!(seen[0], seen[1]);
    assert_eq!(seen[0], seen[2]);
    let mut sorted = seen[0].clone();
    sorted.sort();
    assert_eq!(seen[0], sorted);
}

#[test]
fn rotation_and_what_lies_behind_the_log() {
    let [packed, plain] = both(&ArchiveSettings {
        file_bytes: 3_000,
        ..ArchiveSettings::default()
    });
    rotated(&packed, &packed);
    rotated(&plain, &plain);
    // The setting changed between two runs.
    rotated(&packed, &plain);
    rotated(&plain, &packed);
}

fn rotated(settings: &ArchiveSettings, settings_later: &ArchiveSettings) {
    let dir = tempdir();
    let positions = crashed(dir.path(), 40, settings);
    let files_before = files(&dir.path().join("archive")).len();
    assert!(files_before > 4, "{files_before}");
    let logged = positions[20];
    let before: Vec<Vec<u8>> = warcs(dir.path())
        .iter()
        .map(|path| fs::read(path).expect("read"))
        .collect();
    // In the middle of a file that was already closed.
    let (mut writer, recovery) = recover(dir.path(), settings_later.clone(), durable(&logged));
    assert_eq!(recovery.cut_bytes, 0, "all records are whole");
    assert!(recovery.set_aside_files > 2 && recovery.set_aside_records > 20);
    assert_eq!(warcs(dir.path()).len(), logged.file as usize + 1);
    // Every byte is in one of the two places.
    let later = &before[logged.file as usize + 1..];
    let tail = &before[logged.file as usize][logged.end as usize..];
    let aside: Vec<Vec<u8>> = set_aside(dir.path())
        .into_iter()
        .map(|(path, bytes)| {
            assert!(verify(&path).expect("readable").is_sound());
            bytes
        })
        .collect();
    let expected = later.iter().map(Vec::as_slice).chain([tail]);
    let expected: BTreeSet<&[u8]> = expected.filter(|bytes| !bytes.is_empty()).collect();
    let found: BTreeSet<&[u8]> = aside.iter().map(Vec::as_slice).collect();
    assert!(expected == found);

    let mut builder = builder_for(settings_later);
    let next = writer.append(&page(&mut builder, 21)).expect("append");
    assert_eq!(next.file, logged.file + 1, "a new run begins a new file");
    for number in 22..40 {
        writer.append(&page(&mut builder, number)).expect("append");
    }
    let finished = writer.finish().expect("finish");
    assert_eq!(finished.entries, 40);
    sound(dir.path());
    let lines = index_lines(dir.path());
    for number in 0..40 {
        let name = format!("/page{number}.html ");
        assert_eq!(lines.iter().filter(|line| line.contains(&name)).count(), 1);
    }
    let names: Vec<_> = files(&dir.path().join("index"));
    assert!(
        names
            .iter()
            .all(|name| name.extension().is_some_and(|e| e == "cdxj")),
        "{names:?}"
    );

    // A finished archive is recovered without a change.
    let last = finished.files as u32 - 1;
    let end = fs::metadata(&warcs(dir.path())[last as usize])
        .expect("a file")
        .len();
    let logged = Some(DurableEnd { file: last, end });
    let (writer, recovery) = recover(dir.path(), settings_later.clone(), logged);
    assert_eq!(recovery, Default::default());
    assert_eq!(writer.finish().expect("finish").entries, 40);
    assert_eq!(index_lines(dir.path()), lines);
}

/// A registry that knows nothing of what is archived: all of it is kept, and others' files are left alone. Whatever
/// happens twice happens under another name.
#[test]
fn without_a_log_everything_is_set_aside() {
    let dir = tempdir();
    let mut kept = Vec::new();
    for round in 0..3_u64 {
        crashed(dir.path(), 3, &ArchiveSettings::default());
        let warc = warcs(dir.path()).remove(0);
        kept.push(fs::read(warc).expect("read"));
        fs::write(dir.path().join("archive/notes.txt"), "mine").expect("write");
        fs::write(dir.path().join("archive/portolan-other.warc.gz"), "mine").expect("write");
        let (writer, recovery) = recover(dir.path(), ArchiveSettings::default(), None);
        assert_eq!((recovery.cut_bytes, recovery.set_aside_files), (0, 1));
        assert_eq!(recovery.set_aside_records, 9, "{round}");
        assert_eq!(writer.finish().expect("finish").entries, 0);
        assert_eq!(warcs(dir.path()).len(), 2, "the others' files stay");
        for file in warcs(dir.path()) {
            fs::remove_file(file).expect("remove");
        }
    }
    let mut aside: Vec<Vec<u8>> = set_aside(dir.path()).into_iter().map(|f| f.1).collect();
    aside.sort();
    kept.sort();
    assert!(aside == kept);
}

/// Nothing in it was ever whole but what says whose file it is.
#[test]
fn a_file_without_a_whole_record_goes() {
    let dir = tempdir();
    let positions = crashed(dir.path(), 1, &ArchiveSettings::default());
    let warc = warcs(dir.path()).remove(0);
    let bytes = fs::read(&warc).expect("read");
    for length in [0, 20, positions[0].offset, positions[0].offset + 40] {
        fs::write(&warc, &bytes[..length as usize]).expect("write");
        let (_, recovery) = recover(dir.path(), ArchiveSettings::default(), None);
        assert_eq!((recovery.cut_bytes, recovery.set_aside_files), (length, 0));
        assert!(!warc.exists() && set_aside(dir.path()).is_empty());
    }
}

#[test]
fn an_archive_belongs_to_one_crawl() {
    let dir = tempdir();
    claim_archive(dir.path(), "one").expect("a new archive");
    claim_archive(dir.path(), "two").expect("without WARC files it is anybody's");
    crashed(dir.path(), 1, &ArchiveSettings::default());
    claim_archive(dir.path(), "two").expect("its own");
    let said = claim_archive(dir.path(), "one")
        .expect_err("another's")
        .to_string();
    assert!(said.contains("(two)") && said.contains("(one)"), "{said}");
    fs::remove_file(dir.path().join("archive/crawl-id")).expect("remove");
    let said = claim_archive(dir.path(), "two")
        .expect_err("nobody's")
        .to_string();
    assert!(said.contains("archive/crawl-id is missing"), "{said}");
}

/// By names and lengths alone.
#[test]
fn files_that_are_missing_or_changed_are_noticed() {
    let dir = tempdir();
    let settings = ArchiveSettings {
        file_bytes: 3_000,
        ..ArchiveSettings::default()
    };
    let mut logged: BTreeMap<u32, u64> = BTreeMap::new();
    for position in crashed(dir.path(), 20, &settings) {
        logged.insert(position.file, position.end);
    }
    let logged: Vec<(u32, u64)> = logged.into_iter().collect();
    let faults = |root: &Path| check_files(root, &settings.prefix, &logged).expect("a look");
    assert_eq!(faults(dir.path()), []);
    let paths = warcs(dir.path());
    let bytes = fs::read(&paths[1]).expect("read");
    fs::write(&paths[1], &bytes[1..]).expect("write");
    fs::remove_file(&paths[0]).expect("remove");
    let found = faults(dir.path());
    assert_eq!(found.len(), 2);
    assert_eq!((found[0].number, found[0].found), (0, None));
    assert_eq!(
        (found[1].number, found[1].found),
        (1, Some(logged[1].1 - 1))
    );
    fs::write(&paths[1], [&bytes[..], b"more"].concat()).expect("write");
    assert_eq!(faults(dir.path())[1].found, Some(logged[1].1 + 4));
    // The last one is still written to.
    let last = paths.last().expect("files");
    let bytes = fs::read(last).expect("read");
    fs::write(last, [&bytes[..], b"more"].concat()).expect("write");
    assert_eq!(faults(dir.path()).len(), 2);
}

#[test]
fn a_missing_file_is_named() {
    let dir = tempdir();
    let logged = Some(DurableEnd { file: 3, end: 10 });
    let clock = Arc::new(ManualClock::at(AT_MS));
    let missing = WarcWriter::recover(
        dir.path(),
        ArchiveSettings::default(),
        logged,
        &surt,
        clock,
        7,
    );
    assert!(matches!(
        missing,
        Err(ArchiveError::FileMissing { number: 3, .. })
    ));
}

#[test]
fn bad_settings_are_refused() {
    for settings in [
        ArchiveSettings {
            prefix: "../x".to_owned(),
            ..ArchiveSettings::default()
        },
        ArchiveSettings {
            prefix: String::new(),
            ..ArchiveSettings::default()
        },
        ArchiveSettings {
            compression_level: 13,
            ..ArchiveSettings::default()
        },
    ] {
        let dir = tempdir();
        let clock = Arc::new(ManualClock::at(AT_MS));
        let refused = WarcWriter::recover(dir.path(), settings, None, &surt, clock, 7);
        assert!(matches!(refused, Err(ArchiveError::Setting(_))));
    }
}

/// A node's name and numbers are its own; a file that is old enough is closed when the next record comes.
#[test]
fn a_node_has_names_and_numbers_of_its_own() {
    let settings = ArchiveSettings {
        node: "n-7".to_owned(),
        node_number: 7,
        file_age_s: 60,
        ..ArchiveSettings::default()
    };
    let dir = tempdir();
    let clock = Arc::new(ManualClock::at(AT_MS));
    let begin = |durable| {
        WarcWriter::recover(
            dir.path(),
            settings.clone(),
            durable,
            &surt,
            clock.clone(),
            7,
        )
        .expect("recover")
        .0
    };
    let mut builder = builder_for(&settings);
    let mut writer = begin(None);
    let first = writer.append(&page(&mut builder, 0)).expect("append");
    clock.advance_ms(59_999);
    let young = writer.append(&page(&mut builder, 1)).expect("append");
    clock.advance_ms(1);
    let old = writer.append(&page(&mut builder, 2)).expect("append");
    assert_eq!((first.file, young.file), (7 << 20, 7 << 20));
    assert_eq!(old.file, (7 << 20) + 1);
    writer.sync().expect("sync");
    drop(writer);
    let mut writer = begin(durable(&old));
    let next = writer.append(&page(&mut builder, 3)).expect("append");
    assert_eq!(next.file, (7 << 20) + 2);
    assert_eq!(writer.finish().expect("finish").files, 3);
    for path in warcs(dir.path()) {
        let name = path.file_name().expect("a name").to_string_lossy();
        assert!(name.starts_with("portolan-n-7-2023"), "{name}");
    }

    // Another node's number is never taken, even where this one's are used up.
    let last = DurableEnd {
        file: (8 << 20) - 1,
        end: old.end,
    };
    let used_up = tempdir();
    fs::create_dir_all(used_up.path().join("archive")).expect("a directory");
    let name = format!("portolan-n-7-20231114221320-{:05}.warc.gz", last.file);
    let bytes = fs::read(&warcs(dir.path())[1]).expect("read");
    fs::write(used_up.path().join("archive").join(name), bytes).expect("write");
    let (mut writer, _) = recover(used_up.path(), settings.clone(), Some(last));
    let refused = writer
        .append(&page(&mut builder, 4))
        .expect_err("no number");
    assert!(refused.to_string().contains("node_number"), "{refused}");
}
