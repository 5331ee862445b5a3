//! Pauses that no stop and no crash may shorten. A host's pause is recorded with the next visit, but
//! that is late: the answer that asked for it may never be committed, and of a HEAD, a robots.txt on
//! its way or a request that was given up nothing is ever committed. Whatever is longer than what a
//! host is left alone for after a crash in any case is therefore written here at once, before the
//! answer is used.
//!
//! The file `pauses` holds 32 bytes each: the host, from when and until when by the time of day, a
//! checksum. It is read when the crawl goes on, and rewritten without those that are over when it has
//! grown; a torn end is passed over.

use std::collections::HashMap;
use std::fs::{File, OpenOptions};
use std::io::Write;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use portolan_model::{Clock, HostId};
use xxhash_rust::xxh3::xxh3_64;

use crate::error::CrawlError;

pub(crate) const PAUSES_FILE: &str = "pauses";
const NEW_FILE: &str = "pauses.new";
const RECORD_BYTES: usize = 32;

/// Of more hosts than this at once, those whose pauses are over soonest are left out.
const MAX_HOSTS: usize = 1 << 18;

/// The file may have this many records more than twice those that were kept when it was last rewritten.
const MORE_RECORDS: u64 = 4_096;

/// The two clocks have come apart by more than they do by themselves.
const APART_MS: i64 = 100;

pub(crate) struct Pauses {
    dir: PathBuf,
    clock: Arc<dyn Clock>,
    /// The crawl's time less the time of day, at the beginning.
    apart_ms: i64,
    book: Mutex<Book>,
    /// Something was written that is not synced.
    dirty: AtomicBool,
}

struct Book {
    file: File,
    records: u64,
    /// The file is rewritten when it has more records than this.
    most_records: u64,
}

/// A host's pause, by the time of day.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Pause {
    host: HostId,
    from_ms: u64,
    until_ms: u64,
}

impl Pauses {
    /// Opens or makes the file. Also gives the pauses that are not over, by the crawl's time.
    pub(crate) fn open(
        dir: &Path,
        clock: Arc<dyn Clock>,
    ) -> Result<(Self, Vec<(HostId, u64)>), CrawlError> {
        let path = dir.join(PAUSES_FILE);
        let at = |source| CrawlError::File {
            path: path.clone(),
            source,
        };
        let bytes = match std::fs::read(&path) {
            Ok(bytes) => bytes,
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => Vec::new(),
            Err(e) => return Err(at(e)),
        };
        let (now_ms, wall_ms) = (clock.now_ms(), clock.wall_ms());
        let left = left_of(&bytes, wall_ms);
        let file = rewritten(dir, &left).map_err(at)?;
        std::fs::rename(dir.join(NEW_FILE), &path).map_err(at)?;
        File::open(dir).and_then(|dir| dir.sync_all()).map_err(at)?;
        let resting = left.iter().map(|pause| {
            let left_ms = pause.left_ms(wall_ms).unwrap_or(0);
            (pause.host, now_ms + left_ms + 1)
        });
        let resting = resting.collect();
        let records = left.len() as u64;
        let pauses = Self {
            dir: dir.to_owned(),
            apart_ms: apart_ms(&*clock),
            clock,
            book: Mutex::new(Book {
                file,
                records,
                most_records: 2 * records + MORE_RECORDS,
            }),
            dirty: AtomicBool::new(false),
        };
        Ok((pauses, resting))
    }

    /// For who leaves nothing behind: what is noted is forgotten.
    pub(crate) fn forgotten(clock: Arc<dyn Clock>) -> Result<Self, CrawlError> {
        let path = PathBuf::from("/dev/null");
        let file = OpenOptions::new().write(true).open(&path);
        let file = file.map_err(|source| CrawlError::File {
            path: path.clone(),
            source,
        })?;
        Ok(Self {
            dir: path,
            apart_ms: apart_ms(&*clock),
            clock,
            book: Mutex::new(Book {
                file,
                records: 0,
                most_records: u64::MAX,
            }),
            dirty: AtomicBool::new(false),
        })
    }

    /// The host is to be left alone for `pause_ms` from now on: known from here on to whoever starts
    /// after a kill, and after a power cut once it is synced.
    pub(crate) fn note(&self, host: HostId, pause_ms: u64) -> Result<(), CrawlError> {
        let from_ms = self.clock.wall_ms();
        let pause = Pause {
            host,
            from_ms,
            until_ms: from_ms.saturating_add(pause_ms),
        };
        let mut book = self.book();
        book.file
            .write_all(&pause.encode())
            .map_err(|e| self.at(e))?;
        book.records += 1;
        drop(book);
        self.dirty.store(true, Ordering::Release);
        Ok(())
    }

    /// Makes durable what was noted, and the file small again if it has grown. May wait for the disk.
    pub(crate) fn sync(&self) -> Result<(), CrawlError> {
        if !self.dirty.swap(false, Ordering::AcqRel) {
            return Ok(());
        }
        let (file, records) = {
            let book = self.book();
            if book.records <= book.most_records {
                (book.file.try_clone().map_err(|e| self.at(e))?, None)
            } else {
                let file = File::open(self.dir.join(PAUSES_FILE));
                (file.map_err(|e| self.at(e))?, Some(book.records))
            }
        };
        match records {
            None => file.sync_data().map_err(|e| self.at(e)),
            Some(records) => self.rewrite(&file, records).map_err(|e| self.at(e)),
        }
    }

    /// Has the machine's clock been set since the crawl began? Times that were recorded then say less
    /// than they should to whoever starts next.
    pub(crate) fn clock_was_set(&self) -> bool {
        (apart_ms(&*self.clock) - self.apart_ms).abs() > APART_MS
    }

    /// Others may note meanwhile: what they add to the old file is carried over at the end.
    fn rewrite(&self, old: &File, records: u64) -> std::io::Result<()> {
        let mut bytes = vec![0; records as usize * RECORD_BYTES];
        old.read_exact_at(&mut bytes, 0)?;
        let left = left_of(&bytes, self.clock.wall_ms());
        let mut new = rewritten(&self.dir, &left)?;
        let mut book = self.book();
        let mut since = vec![0; (book.records - records) as usize * RECORD_BYTES];
        old.read_exact_at(&mut since, bytes.len() as u64)?;
        new.write_all(&since)?;
        std::fs::rename(self.dir.join(NEW_FILE), self.dir.join(PAUSES_FILE))?;
        let kept = left.len() as u64;
        *book = Book {
            file: new.try_clone()?,
            records: kept + book.records - records,
            most_records: 2 * kept + MORE_RECORDS,
        };
        drop(book);
        new.sync_data()?;
        File::open(&self.dir)?.sync_all()
    }

    fn book(&self) -> MutexGuard<'_, Book> {
        self.book.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn at(&self, source: std::io::Error) -> CrawlError {
        CrawlError::File {
            path: self.dir.join(PAUSES_FILE),
            source,
        }
    }
}

impl Pause {
    fn encode(&self) -> [u8; RECORD_BYTES] {
        let mut bytes = [0; RECORD_BYTES];
        let numbers = [self.host.0, self.from_ms, self.until_ms];
        for (place, number) in bytes.chunks_exact_mut(8).zip(numbers) {
            place.copy_from_slice(&number.to_le_bytes());
        }
        let check = xxh3_64(&bytes[..24]);
        bytes[24..].copy_from_slice(&check.to_le_bytes());
        bytes
    }

    fn decode(bytes: &[u8]) -> Option<Self> {
        let number = |n: usize| bytes[n * 8..].first_chunk().map(|b| u64::from_le_bytes(*b));
        let whole = number(3)? == xxh3_64(&bytes[..24]);
        whole.then_some(Self {
            host: HostId(number(0)?),
            from_ms: number(1)?,
            until_ms: number(2)?,
        })
    }

    /// How much of it is left at `wall_ms`. If that is before it began, the clock was set back: all of
    /// it, for nobody knows better.
    fn left_ms(&self, wall_ms: u64) -> Option<u64> {
        let left_ms = self.until_ms.checked_sub(wall_ms.max(self.from_ms))?;
        (left_ms > 0).then_some(left_ms)
    }
}

/// Of each host, the pause that lasts longest. Records that cannot be read are passed over.
fn left_of(bytes: &[u8], wall_ms: u64) -> Vec<Pause> {
    let mut hosts: HashMap<HostId, (u64, Pause)> = HashMap::new();
    for pause in bytes.chunks_exact(RECORD_BYTES).filter_map(Pause::decode) {
        if let Some(left_ms) = pause.left_ms(wall_ms) {
            let longest = hosts.entry(pause.host).or_insert((left_ms, pause));
            if left_ms > longest.0 {
                *longest = (left_ms, pause);
            }
        }
    }
    let mut left: Vec<(u64, Pause)> = hosts.into_values().collect();
    if left.len() > MAX_HOSTS {
        left.sort_unstable_by_key(|(left_ms, _)| std::cmp::Reverse(*left_ms));
        left.truncate(MAX_HOSTS);
    }
    left.into_iter().map(|(_, pause)| pause).collect()
}

/// A new file beside the old one, durable but for its name, to be appended to.
fn rewritten(dir: &Path, pauses: &[Pause]) -> std::io::Result<File> {
    let path = dir.join(NEW_FILE);
    match std::fs::remove_file(&path) {
        Err(e) if e.kind() != std::io::ErrorKind::NotFound => return Err(e),
        _ => {}
    }
    let mut file = OpenOptions::new()
        .append(true)
        .create_new(true)
        .open(&path)?;
    let bytes: Vec<u8> = pauses.iter().flat_map(Pause::encode).collect();
    file.write_all(&bytes)?;
    file.sync_data()?;
    Ok(file)
}

fn apart_ms(clock: &dyn Clock) -> i64 {
    clock.now_ms() as i64 - clock.wall_ms() as i64
}

#[cfg(test)]
mod tests {
    use super::*;
    use portolan_model::ManualClock;

    const HOUR_MS: u64 = 3_600_000;
    const BEGUN_MS: u64 = 1_000 * HOUR_MS;

    fn open(dir: &Path, clock: &Arc<ManualClock>) -> (Pauses, Vec<(HostId, u64)>) {
        let clock: Arc<ManualClock> = Arc::clone(clock);
        let (pauses, mut resting) = Pauses::open(dir, clock).expect("it can be opened");
        resting.sort_unstable();
        (pauses, resting)
    }

    #[test]
    fn pauses_outlive_their_process_and_end_in_time() {
        let dir = tempfile::tempdir().expect("a directory");
        let clock = Arc::new(ManualClock::at(BEGUN_MS));
        let (pauses, resting) = open(dir.path(), &clock);
        assert_eq!(resting, []);
        pauses.note(HostId(1), 5_000).expect("written");
        pauses.note(HostId(2), 60_000).expect("written");
        pauses.note(HostId(2), 50_000).expect("written");
        drop(pauses);
        clock.advance_ms(10_000);
        let now_ms = BEGUN_MS + 10_000;
        let (_, resting) = open(dir.path(), &clock);
        assert_eq!(resting, [(HostId(2), now_ms + 50_001)]);
        clock.advance_ms(50_000);
        assert_eq!(open(dir.path(), &clock).1, []);
    }

    #[test]
    fn a_clock_that_is_set_neither_stalls_nor_shortens_them() {
        for back_ms in [HOUR_MS, 240 * HOUR_MS] {
            let dir = tempfile::tempdir().expect("a directory");
            let clock = Arc::new(ManualClock::at(BEGUN_MS));
            let (pauses, _) = open(dir.path(), &clock);
            pauses.note(HostId(1), 5_000).expect("written");
            assert!(!pauses.clock_was_set());
            clock.set_wall_ms(BEGUN_MS - back_ms);
            assert!(pauses.clock_was_set());
            // Of what was noted before, all is left; of what was noted after, the rest.
            pauses.note(HostId(2), 7_000).expect("written");
            drop(pauses);
            clock.advance_ms(1_000);
            let now_ms = BEGUN_MS + 1_000;
            let (pauses, resting) = open(dir.path(), &clock);
            let expected = [(HostId(1), now_ms + 5_001), (HostId(2), now_ms + 6_001)];
            assert_eq!(resting, expected);
            // Forwards while it runs: the crawl's time goes on as if nothing had been.
            clock.set_wall_ms(BEGUN_MS + back_ms);
            pauses.note(HostId(3), 9_000).expect("written");
            drop(pauses);
            let (_, resting) = open(dir.path(), &clock);
            assert_eq!(resting, [(HostId(3), now_ms + 9_001)]);
        }
    }

    #[test]
    fn a_file_that_grows_is_rewritten_and_loses_nothing() {
        let dir = tempfile::tempdir().expect("a directory");
        let clock = Arc::new(ManualClock::at(BEGUN_MS));
        let (pauses, _) = open(dir.path(), &clock);
        pauses.note(HostId(u64::MAX), HOUR_MS).expect("written");
        for number in 0..3 * MORE_RECORDS {
            pauses.note(HostId(number), 10).expect("written");
            clock.advance_ms(20);
            if number % 100 == 0 {
                pauses.sync().expect("synced");
            }
        }
        let length = std::fs::metadata(dir.path().join(PAUSES_FILE)).expect("it is there");
        let most = (MORE_RECORDS + 200) * RECORD_BYTES as u64;
        assert!(length.len() <= most, "{} bytes", length.len());
        pauses.note(HostId(7), HOUR_MS).expect("written");
        drop(pauses);
        let hosts: Vec<HostId> = open(dir.path(), &clock).1.iter().map(|r| r.0).collect();
        assert_eq!(hosts, [HostId(7), HostId(u64::MAX)]);
    }

    #[test]
    fn a_torn_end_and_damage_are_passed_over() {
        let dir = tempfile::tempdir().expect("a directory");
        let clock = Arc::new(ManualClock::at(BEGUN_MS));
        let (pauses, _) = open(dir.path(), &clock);
        for host in 1..=3 {
            pauses.note(HostId(host), HOUR_MS).expect("written");
        }
        drop(pauses);
        let path = dir.path().join(PAUSES_FILE);
        let mut bytes = std::fs::read(&path).expect("it is there");
        bytes[RECORD_BYTES + 20] ^= 1;
        bytes.truncate(3 * RECORD_BYTES - 1);
        std::fs::write(&path, bytes).expect("it can be written");
        let (_, resting) = open(dir.path(), &clock);
        assert_eq!(resting, [(HostId(1), BEGUN_MS + HOUR_MS + 1)]);
    }
}
