//! The content-seen table: finds what was stored first, within its RAM, and after any crash names
//! nothing that the archive lost.

mod support;

use portolan_archive::{ContentSeen, DurableEnd};
use portolan_model::ArchivePosition;
use std::fs;
use std::path::Path;
use support::{files, tempdir};

const SMALL_RAM_BYTES: usize = 64 << 10;

/// Entry `n` ends at byte `n + 1` of archive file 0.
struct Payload {
    fingerprint: u64,
    sha1: [u8; 20],
    url: String,
    position: ArchivePosition,
}

fn payload(n: u64) -> Payload {
    let mut sha1 = [0; 20];
    sha1[..8].copy_from_slice(&n.to_le_bytes());
    Payload {
        fingerprint: n.wrapping_mul(0x9e37_79b9_7f4a_7c15),
        sha1,
        url: format!("http://h{}.test/{}", n % 7, "x".repeat((n % 300) as usize)),
        position: ArchivePosition {
            file: 0,
            offset: n,
            length: 1,
            end: n + 1,
        },
    }
}

fn insert(seen: &mut ContentSeen, n: u64) {
    let p = payload(n);
    seen.insert(p.fingerprint, &p.sha1, &p.url, 1000 + n, &p.position)
        .expect("insert");
}

fn knows(seen: &ContentSeen, n: u64) -> bool {
    let p = payload(n);
    let Some(found) = seen.lookup(p.fingerprint, &p.sha1).expect("lookup") else {
        return false;
    };
    assert_eq!(
        (found.url.as_str(), found.at_ms),
        (p.url.as_str(), 1000 + n)
    );
    assert_eq!(found.url, p.url);
    true
}

fn open(dir: &Path, end: u64) -> ContentSeen {
    ContentSeen::open(dir, SMALL_RAM_BYTES, Some(DurableEnd { file: 0, end })).expect("open")
}

#[test]
fn finds_everything_through_runs_and_merges() {
    let dir = tempdir();
    let mut seen = ContentSeen::open(dir.path(), SMALL_RAM_BYTES, None).expect("open");
    let count = 30_000;
    let mut merges = 0;
    for n in 0..count {
        insert(&mut seen, n);
        if n % 1000 == 0 {
            merges += seen.maintain().expect("maintain");
        }
    }
    let (newest, runs) = seen.shape();
    assert!(merges > 3 && runs < 8, "{merges} merges, {runs} runs");
    assert!(newest < 2_000, "RAM is bounded: {newest} entries");
    for n in 0..count {
        assert!(knows(&seen, n), "{n}");
        assert!(!knows(&seen, n + count), "{n}");
    }
    // The same fingerprint with another digest is another payload.
    let p = payload(5);
    assert_eq!(seen.lookup(p.fingerprint, &[9; 20]).expect("lookup"), None);

    seen.flush().expect("flush");
    drop(seen);
    let seen = open(dir.path(), count);
    assert!((0..count).all(|n| knows(&seen, n)));
}

/// A merge that runs elsewhere while the table is used.
#[test]
fn merges_run_beside_lookups_and_inserts() {
    let dir = tempdir();
    let mut seen = ContentSeen::open(dir.path(), SMALL_RAM_BYTES, None).expect("open");
    (0..4_000).for_each(|n| insert(&mut seen, n));
    let job = seen.plan_merge().expect("a merge is due");
    assert!(seen.plan_merge().is_none(), "one at a time");
    let elsewhere = std::thread::spawn(move || job.run());
    (4_000..8_000).for_each(|n| insert(&mut seen, n));
    assert!((0..8_000).all(|n| knows(&seen, n)));
    let merged = elsewhere.join().expect("no panic").expect("merge");
    seen.adopt(merged).expect("adopt");
    assert!((0..8_000).all(|n| knows(&seen, n)));
    seen.flush().expect("flush");
    let seen = open(dir.path(), 8_000);
    assert!((0..8_000).all(|n| knows(&seen, n)));
}

/// Whatever was persisted: entries of records that were cut off are gone, for good.
#[test]
fn nothing_beyond_the_archives_end() {
    let master = tempdir();
    let mut seen = ContentSeen::open(master.path(), SMALL_RAM_BYTES, None).expect("open");
    (0..5_000).for_each(|n| insert(&mut seen, n));
    seen.maintain().expect("maintain");
    (5_000..7_000).for_each(|n| insert(&mut seen, n));
    seen.flush().expect("flush");
    drop(seen);
    for end in [1, 2, 700, 4_999, 5_000, 5_001, 6_500, 6_999, 7_000] {
        let dir = tempdir();
        for file in files(master.path()) {
            fs::copy(&file, dir.path().join(file.file_name().expect("a name"))).expect("copy");
        }
        let mut seen = open(dir.path(), end);
        for n in 0..7_000 {
            assert_eq!(
                knows(&seen, n),
                n < end,
                "{n} with the archive's end at {end}"
            );
        }
        // The next run reaches further; what was forgotten must not come back.
        insert(&mut seen, 10_000);
        seen.flush().expect("flush");
        drop(seen);
        let seen = open(dir.path(), 20_000);
        for n in 0..7_000 {
            assert_eq!(knows(&seen, n), n < end, "{n} in the run after, end {end}");
        }
        assert!(knows(&seen, 10_000));
    }
}

#[test]
fn without_a_logged_record_nothing_is_known() {
    let dir = tempdir();
    let mut seen = ContentSeen::open(dir.path(), SMALL_RAM_BYTES, None).expect("open");
    (0..3_000).for_each(|n| insert(&mut seen, n));
    drop(seen);
    let seen = ContentSeen::open(dir.path(), SMALL_RAM_BYTES, None).expect("open");
    assert!((0..3_000).all(|n| !knows(&seen, n)));
}

/// Each file torn or flipped at many places: it opens, and what it says is true.
#[test]
fn torn_and_damaged_files_are_noticed() {
    let master = tempdir();
    let mut seen = ContentSeen::open(master.path(), SMALL_RAM_BYTES, None).expect("open");
    (0..6_000).for_each(|n| insert(&mut seen, n));
    seen.flush().expect("flush");
    drop(seen);
    let mut cases = 0;
    for file in files(master.path()) {
        let whole = fs::read(&file).expect("read");
        for part in 0..5 {
            let at = whole.len() * part / 5;
            let mut flipped = whole.clone();
            flipped[at] ^= 0x41;
            for bytes in [&whole[..at], &flipped[..]] {
                let dir = tempdir();
                for other in files(master.path()) {
                    let to = dir.path().join(other.file_name().expect("a name"));
                    fs::copy(&other, to).expect("copy");
                }
                let to = dir.path().join(file.file_name().expect("a name"));
                fs::write(to, bytes).expect("write");
                let mut seen = open(dir.path(), 6_000);
                // `knows` compares all that is found.
                for n in (0..6_000).step_by(3) {
                    knows(&seen, n);
                }
                seen.maintain().expect("maintain");
                (6_000..8_000).for_each(|n| insert(&mut seen, n));
                assert!((6_000..8_000).step_by(9).all(|n| knows(&seen, n)));
                cases += 1;
            }
        }
    }
    println!("{cases} damaged tables");
}

#[test]
fn a_lost_manifest_is_made_again_from_the_text() {
    let dir = tempdir();
    let mut seen = ContentSeen::open(dir.path(), SMALL_RAM_BYTES, None).expect("open");
    (0..6_000).for_each(|n| insert(&mut seen, n));
    seen.flush().expect("flush");
    drop(seen);
    fs::remove_file(dir.path().join("MANIFEST")).expect("remove");
    let seen = open(dir.path(), 6_000);
    assert!((0..6_000).all(|n| knows(&seen, n)));
}

#[test]
fn out_of_order_is_not_remembered() {
    let dir = tempdir();
    let mut seen = ContentSeen::open(dir.path(), SMALL_RAM_BYTES, None).expect("open");
    insert(&mut seen, 5);
    insert(&mut seen, 3);
    insert(&mut seen, 6);
    assert!(knows(&seen, 5) && !knows(&seen, 3) && knows(&seen, 6));
}
