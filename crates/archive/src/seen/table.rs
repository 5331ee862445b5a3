//! The table: newest entries in RAM, older ones in runs, all of them in the text.

use super::SeenRecord;
use super::manifest::Manifest;
use super::merge::{MergeJob, MergedRun};
use super::run::{Run, RunWriter};
use super::text::{Entry, MAX_URL_BYTES};
use crate::append_file::{AppendFile, sync_dir};
use crate::error::ArchiveError;
use crate::open::no_links;
use crate::settings::DurableEnd;
use portolan_model::ArchivePosition;
use std::collections::HashMap;
use std::fs;
use std::path::{Path, PathBuf};

/// A run is merged with the newer ones when it is less than this many times as large as they are
/// together; so there are few, and an entry is merged a few times only.
const GROWTH: u64 = 4;
/// From this many runs on a merge is not put off.
const MAX_RUNS: usize = 16;
const MIN_RAM_BYTES: usize = 64 << 10;

pub struct ContentSeen {
    dir: PathBuf,
    text: AppendFile,
    manifest: Manifest,
    /// As in the manifest.
    runs: Vec<Run>,
    /// Fingerprint -> offset in the text, of entries in no run yet.
    newest: HashMap<u64, u64>,
    newest_limit: usize,
    last_position: Option<DurableEnd>,
    merging: bool,
}

impl ContentSeen {
    /// Opens or creates the table in `dir`. `durable` is the end of the archive as recovered: what
    /// the table knows of records beyond it is forgotten, because they were cut off.
    pub fn open(
        dir: &Path,
        ram_bytes: usize,
        durable: Option<DurableEnd>,
    ) -> Result<Self, ArchiveError> {
        fs::create_dir_all(dir).map_err(ArchiveError::io("create", dir))?;
        if let Some(parent) = dir.parent().filter(|path| !path.as_os_str().is_empty()) {
            sync_dir(parent)?;
        }
        if durable.is_none() {
            clear(dir)?;
        }
        let manifest = Manifest::load(dir)?;
        let mut runs = Vec::new();
        for meta in &manifest.runs {
            runs.extend(Run::open(dir, meta)?);
        }
        let path = dir.join("text");
        let text_length = fs::metadata(&path).map_or(0, |metadata| metadata.len());
        let newest_limit = newest_limit(ram_bytes);
        let mut seen = Self {
            dir: dir.to_owned(),
            text: AppendFile::open_at(&path, text_length)?,
            manifest: Manifest {
                runs: runs.iter().map(|run| run.meta.clone()).collect(),
                ..manifest
            },
            runs,
            newest: HashMap::with_capacity(newest_limit),
            newest_limit,
            last_position: None,
            merging: false,
        };
        if let Some(durable) = durable {
            seen.forget_beyond(durable)?;
        }
        seen.remove_other_files()?;
        Ok(seen)
    }

    /// The first record with this payload.
    pub fn lookup(
        &self,
        fingerprint: u64,
        sha1: &[u8; 20],
    ) -> Result<Option<SeenRecord>, ArchiveError> {
        if let Some(&offset) = self.newest.get(&fingerprint)
            && let Some(record) = self.record_at(offset, sha1)?
        {
            return Ok(Some(record));
        }
        for run in self.runs.iter().rev() {
            if let Some(offset) = run.find(fingerprint)?
                && let Some(record) = self.record_at(offset, sha1)?
            {
                return Ok(Some(record));
            }
        }
        Ok(None)
    }

    /// Remembers a payload that was stored in full. Call it in the order in which the records were
    /// appended, after appending: a copy then never precedes what it refers to, whatever a crash
    /// cuts off. Out of order, or with a fingerprint that is taken, nothing happens.
    pub fn insert(
        &mut self,
        fingerprint: u64,
        sha1: &[u8; 20],
        url: &str,
        at_ms: u64,
        position: &ArchivePosition,
    ) -> Result<(), ArchiveError> {
        let position = DurableEnd {
            file: position.file,
            end: position.end,
        };
        if self.last_position.is_some_and(|last| position < last)
            || url.len() > MAX_URL_BYTES
            || self.newest.contains_key(&fingerprint)
        {
            return Ok(());
        }
        if self.newest.len() >= self.newest_limit {
            self.write_run(self.text.len())?;
            if self.runs.len() >= MAX_RUNS {
                self.maintain()?;
            }
        }
        let entry = Entry {
            fingerprint,
            sha1: *sha1,
            position,
            record: SeenRecord {
                url: url.to_owned(),
                at_ms,
            },
        }
        .encode();
        self.text.make_room(entry.len())?;
        let offset = self.text.len();
        self.text.push(&entry);
        self.newest.insert(fingerprint, offset);
        self.last_position = Some(position);
        Ok(())
    }

    /// Merges runs until they are few, here and now. Returns how many merges it took.
    pub fn maintain(&mut self) -> Result<usize, ArchiveError> {
        let mut merges = 0;
        while let Some(job) = self.plan_merge() {
            let merged = job.run();
            // A failed merge must not be the last.
            self.merging &= merged.is_ok();
            self.adopt(merged?)?;
            merges += 1;
        }
        Ok(merges)
    }

    /// A merge that is due, to be run elsewhere; one at a time.
    pub fn plan_merge(&mut self) -> Option<MergeJob> {
        if self.merging || self.runs.len() < 2 {
            return None;
        }
        let counts: Vec<u64> = self.runs.iter().map(|run| run.meta.count).collect();
        let mut first = counts.len() - 1;
        let mut together = counts[first];
        while first > 0 && counts[first - 1] < GROWTH.saturating_mul(together.max(1)) {
            first -= 1;
            together += counts[first];
        }
        if first == counts.len() - 1 {
            return None;
        }
        self.merging = true;
        Some(MergeJob {
            dir: self.dir.clone(),
            inputs: self.manifest.runs[first..].to_vec(),
            output: self.new_run_name(),
            text_limit: u64::MAX,
        })
    }

    /// Puts a merged run in the place of those it was made of.
    pub fn adopt(&mut self, merged: MergedRun) -> Result<(), ArchiveError> {
        self.merging = false;
        let (gone, new) = match &merged.output {
            Some(output) => (&merged.inputs, Run::open(&self.dir, output)?),
            None => (&merged.damaged, None),
        };
        if merged.output.is_some() && new.is_none() {
            // It was damaged before it was used: keep the inputs.
            return Ok(());
        }
        let place = self
            .runs
            .iter()
            .position(|run| gone.contains(&run.meta))
            .unwrap_or(self.runs.len());
        self.runs.retain(|run| !gone.contains(&run.meta));
        if let Some(new) = new {
            self.runs.insert(place, new);
        }
        self.store_manifest(self.manifest.text_length)?;
        for run in gone {
            let _ = fs::remove_file(self.dir.join(&run.name));
        }
        Ok(())
    }

    /// Writes out what is buffered. Optional: without it a crash forgets a little more.
    pub fn flush(&mut self) -> Result<(), ArchiveError> {
        self.text.flush()
    }

    /// Makes all of it durable, and writes down how much it is: what is missing later can be told.
    pub fn close(mut self) -> Result<(), ArchiveError> {
        self.text.sync()?;
        self.manifest.closed_length = self.text.len();
        self.store_manifest(self.manifest.text_length)
    }

    /// Entries in RAM, and runs on disk.
    pub fn shape(&self) -> (usize, usize) {
        (self.newest.len(), self.runs.len())
    }

    fn record_at(&self, offset: u64, sha1: &[u8; 20]) -> Result<Option<SeenRecord>, ArchiveError> {
        let entry = Entry::read(&self.text, offset)?;
        Ok(entry
            .filter(|(entry, _)| entry.sha1 == *sha1)
            .map(|(entry, _)| entry.record))
    }

    /// Moves the entries in RAM, which are those of the text up to `text_end`, into a run.
    fn write_run(&mut self, text_end: u64) -> Result<(), ArchiveError> {
        let Some(last) = self.last_position.filter(|_| !self.newest.is_empty()) else {
            return Ok(());
        };
        self.text.sync()?;
        let mut pairs: Vec<(u64, u64)> = self.newest.iter().map(|(f, o)| (*f, *o)).collect();
        pairs.sort_unstable();
        let name = self.new_run_name();
        let mut out = RunWriter::create(&self.dir, name)?;
        for pair in pairs {
            out.push(pair)?;
        }
        let meta = out.finish(self.manifest.text_length, last)?;
        let run = Run::open(&self.dir, &meta)?;
        self.runs.extend(run);
        self.store_manifest(text_end)?;
        self.newest.clear();
        Ok(())
    }

    /// After a crash: cuts off what the archive no longer holds, and takes up the entries that
    /// were in RAM.
    fn forget_beyond(&mut self, durable: DurableEnd) -> Result<(), ArchiveError> {
        let found_length = self.text.len();
        let covered = self.manifest.text_length.min(found_length);
        // Entries are in the archive's order: the first beyond its end ends the table. Only the
        // run that holds it, if any, and the text behind the runs have to be walked.
        let beyond = self.runs.iter().find(|run| run.meta.last > durable);
        let mut at = beyond.map_or(covered, |run| run.meta.text_from.min(covered));
        self.last_position = self
            .runs
            .iter()
            .map(|run| run.meta.last)
            .take_while(|last| *last <= durable)
            .last();
        while let Some((entry, length)) = Entry::read(&self.text, at)? {
            if entry.position > durable {
                break;
            }
            if at >= covered {
                if self.newest.len() >= self.newest_limit {
                    self.write_run(at)?;
                }
                self.newest.entry(entry.fingerprint).or_insert(at);
            }
            self.last_position = Some(entry.position);
            at += length;
        }
        if at < self.manifest.text_length {
            self.cut_runs(at, durable)?;
        }
        if at < found_length {
            // Old entries must not come back to life behind newer, shorter ones.
            let path = self.text.path().to_owned();
            no_links()
                .write(true)
                .open(&path)
                .and_then(|file| {
                    file.set_len(at)?;
                    file.sync_all()
                })
                .map_err(ArchiveError::io("cut", &path))?;
            self.text = AppendFile::open_at(&path, at)?;
        }
        Ok(())
    }

    /// Takes entries from `text_end` on out of the runs.
    fn cut_runs(&mut self, text_end: u64, durable: DurableEnd) -> Result<(), ArchiveError> {
        while let Some(run) = self.runs.pop() {
            let meta = run.meta.clone();
            if meta.text_from >= text_end {
                continue;
            }
            let job = MergeJob {
                dir: self.dir.clone(),
                inputs: vec![meta],
                output: self.new_run_name(),
                text_limit: text_end,
            };
            if let Some(mut output) = job.run()?.output {
                output.last = self.last_position.unwrap_or(durable);
                let cut = Run::open(&self.dir, &output)?;
                self.runs.extend(cut);
            }
            break;
        }
        self.store_manifest(text_end)
    }

    fn store_manifest(&mut self, text_length: u64) -> Result<(), ArchiveError> {
        self.manifest.text_length = text_length;
        self.manifest.runs = self.runs.iter().map(|run| run.meta.clone()).collect();
        self.manifest.store(&self.dir)
    }

    fn new_run_name(&mut self) -> String {
        self.manifest.next_run += 1;
        format!("run-{:06}", self.manifest.next_run)
    }

    /// Runs that no manifest names: of a merge that was cut short, or of one before the last.
    fn remove_other_files(&self) -> Result<(), ArchiveError> {
        let named = |name: &str| self.manifest.runs.iter().any(|run| run.name == name);
        for name in run_files(&self.dir)? {
            if !named(&name) {
                let path = self.dir.join(name);
                fs::remove_file(&path).map_err(ArchiveError::io("remove", &path))?;
            }
        }
        Ok(())
    }
}

/// Half of the RAM for the map, which doubles when it grows; the rest for sorting it and for
/// buffers.
fn newest_limit(ram_bytes: usize) -> usize {
    const SLOT_BYTES: usize = size_of::<(u64, u64)>() + 1;
    let slots = ram_bytes.max(MIN_RAM_BYTES) / 2 / SLOT_BYTES;
    let slots = 1 << slots.ilog2();
    slots / 8 * 7
}

/// Empties the table: of an archive without logged records nothing is known.
fn clear(dir: &Path) -> Result<(), ArchiveError> {
    let mut names = run_files(dir)?;
    // First the manifest, so that what is left is never taken for whole.
    names.insert(0, "MANIFEST".to_owned());
    names.push("text".to_owned());
    for name in names {
        let path = dir.join(name);
        match fs::remove_file(&path) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                return Err(ArchiveError::io("remove", &path)(error));
            }
            _ => {}
        }
    }
    Ok(())
}

fn run_files(dir: &Path) -> Result<Vec<String>, ArchiveError> {
    let mut names = Vec::new();
    for entry in fs::read_dir(dir).map_err(ArchiveError::io("list", dir))? {
        let entry = entry.map_err(ArchiveError::io("list", dir))?;
        if let Some(name) = entry.file_name().to_str()
            && name.starts_with("run-")
        {
            names.push(name.to_owned());
        }
    }
    Ok(names)
}
