//! The scrub: reads every file of a registry from end to end and compares what it finds with the checksums and the
//! manifests. For a registry that nobody has open; changes nothing, and holds one file's index in RAM at a time.

use crate::error::{RegistryError, Result};
use crate::files::{Scan, Shape, Table};
use crate::frontier::ENTRIES;
use crate::held::read_held;
use crate::hosts::STATES;
use crate::lock::DirLock;
use crate::log::{Arrival, Entry, JournalReader, Moved, Positions, list_segments};
use crate::manifest::Manifest;
use crate::meta::Meta;
use crate::registry::{journal_dir, partition_dir};
use crate::sieve::RECORDS;
use crate::stats::Stats;
use crate::texts::scrub_texts;
use portolan_model::Identities;
use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// What was found out about the files of one kind.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Checked {
    /// The name of the files, or the first part of it.
    pub kind: &'static str,
    pub files: u64,
    pub bytes: u64,
    pub damage: Vec<Damage>,
    /// Bytes that a crash left at the journal's end. That is no damage: the next opening cuts them off.
    pub torn_bytes: u64,
}

/// A file that does not hold what was written to it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Damage {
    pub path: PathBuf,
    /// The first damage that was found; what follows it in a file that only grows was not looked at.
    pub offset: u64,
    pub what: String,
}

impl Checked {
    fn of(kind: &'static str) -> Self {
        Self {
            kind,
            files: 0,
            bytes: 0,
            damage: Vec::new(),
            torn_bytes: 0,
        }
    }

    /// Looks at one file. What is wrong with it is noted; an error is one that ends all looking.
    fn note(&mut self, path: &Path, looked: Result<()>) {
        if let Ok(metadata) = fs::metadata(path) {
            self.files += 1;
            self.bytes += metadata.len();
        }
        if let Err(error) = looked {
            self.damage.push(damage(path, error));
        }
    }
}

fn damage(path: &Path, error: RegistryError) -> Damage {
    let (path, offset, what) = match error {
        RegistryError::Corrupt { path, offset, what } => (path, offset, what),
        RegistryError::Io { path, source } if source.kind() == io::ErrorKind::NotFound => {
            (path, 0, "the file is missing".to_owned())
        }
        RegistryError::Io { path, source } => (path, 0, source.to_string()),
        other => (path.to_path_buf(), 0, other.to_string()),
    };
    Damage { path, offset, what }
}

/// What a scrub of a registry came to.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RegistryCheck {
    pub kinds: Vec<Checked>,
    /// How far answers are archived in each file of the archive, by the file's number; `None` if that cannot be told,
    /// because the journal or a manifest is damaged.
    pub archive_files: Option<Vec<(u32, u64)>>,
    /// Which crawl the registry belongs to, if its meta is sound.
    pub crawl_id: Option<u64>,
    /// The last user of the registry closed it.
    pub closed: bool,
}

/// Reads all of the registry in `dir`. `ids` is what it should have been made with, if that is known.
pub fn check(dir: &Path, ids: Option<Identities>) -> RegistryCheck {
    let mut meta = Checked::of("meta");
    let known = match ids {
        Some(ids) => Meta::of(dir, ids),
        None => Meta::read(dir),
    };
    let partitions = known.as_ref().map_or(0, |meta| meta.partitions);
    let crawl_id = known.as_ref().ok().map(|meta| meta.crawl_id);
    meta.note(&dir.join("meta"), known.map(|_| ()));
    let mut kinds = Kinds::default();
    let mut manifests = BTreeMap::new();
    // Of a list that cannot be read, the journal tells.
    let held = read_held(&journal_dir(dir)).ok().flatten();
    let held = held.map(|held| held.into_iter().map(|id| id.0).collect());
    for id in held.unwrap_or_else(|| (0..partitions).collect::<Vec<_>>()) {
        let manifest = kinds.partition(&partition_dir(dir, id));
        manifests.insert(id, manifest);
    }
    let stats = match partitions {
        0 => Stats::default(),
        _ => kinds.journal(&journal_dir(dir), manifests),
    };
    let is_whole = |kind: &Checked| kind.damage.is_empty();
    let told = is_whole(&meta) && is_whole(&kinds.0[MANIFEST]) && is_whole(&kinds.0[JOURNAL]);
    let mut all = vec![meta];
    all.extend(kinds.0);
    RegistryCheck {
        kinds: all,
        archive_files: told.then_some(stats.archive_files),
        crawl_id,
        closed: !DirLock::is_left(dir),
    }
}

const MANIFEST: usize = 0;
const JOURNAL: usize = 1;
const KNOWN: usize = 2;
const DUE: usize = 3;
const HOSTS_KIND: usize = 4;
const URLS: usize = 5;
const VISITS: usize = 6;
const LINKS: usize = 7;
const SEEDS: usize = 8;
const CLAIMS: usize = 9;

struct Kinds([Checked; 10]);

impl Default for Kinds {
    fn default() -> Self {
        let names = [
            "manifest", "journal", "known", "due", "hosts", "urls", "visits", "links", "seeds",
            "claims",
        ];
        Self(names.map(Checked::of))
    }
}

impl Kinds {
    /// All files of a partition. Returns its manifest, if that is sound.
    fn partition(&mut self, dir: &Path) -> Option<Manifest> {
        let manifest = Manifest::read(dir);
        let path = dir.join("manifest");
        let found = manifest.as_ref().ok().cloned();
        self.0[MANIFEST].note(&path, manifest.map(|_| ()));
        // Without one no other file counts: all of them are made again from the journal.
        let Some(known) = found.clone()? else {
            return Some(Manifest::default());
        };
        for (kind, runs, shape) in [
            (KNOWN, &known.known_runs, RECORDS),
            (DUE, &known.due_runs, ENTRIES),
            (HOSTS_KIND, &known.host_runs, STATES),
        ] {
            for run in runs {
                let path = dir.join(format!("{}-{run:08}.tbl", self.0[kind].kind));
                let looked = scrub_table(&path, shape);
                self.0[kind].note(&path, looked);
            }
        }
        let urls = dir.join("urls");
        let looked = scrub_texts(&urls, known.texts_bytes);
        self.0[URLS].note(&urls, looked.map(|_| ()));
        let plain: fn(u64) -> u64 = |length| length;
        let targets: fn(u64) -> u64 = |targets| targets.saturating_add(1).saturating_mul(8);
        for (kind, length, body_bytes) in [
            (VISITS, known.visits_bytes, plain),
            (LINKS, known.graph_bytes, targets),
            (SEEDS, known.seeds_bytes, plain),
            (CLAIMS, known.claims_bytes, plain),
        ] {
            let path = dir.join(self.0[kind].kind);
            let looked = scrub_pieces(&path, length, body_bytes);
            self.0[kind].note(&path, looked);
        }
        Some(known)
    }

    /// The journal, by what the partitions' manifests know of it: `None` for one that cannot be read. Returns what is
    /// archived; the other counts are not exact.
    fn journal(&mut self, dir: &Path, manifests: BTreeMap<u16, Option<Manifest>>) -> Stats {
        let kind = &mut self.0[JOURNAL];
        match list_segments(dir) {
            Ok(segments) => segments
                .iter()
                .for_each(|(_, path)| kind.note(path, Ok(()))),
            Err(error) => kind.damage.push(damage(dir, error)),
        }
        let mut stats = Stats::default();
        let sound = manifests
            .into_iter()
            .filter_map(|(id, manifest)| Some((id, manifest?)));
        let sound: BTreeMap<u16, Manifest> = sound.collect();
        sound.values().for_each(|m| stats.add(&m.stats));
        match read_journal(dir, sound, &mut stats) {
            Ok(torn_bytes) => kind.torn_bytes += torn_bytes,
            Err(error) => kind.damage.push(damage(dir, error)),
        }
        stats
    }
}

/// Every segment that is there, also those that checkpoints have made superfluous. Returns the bytes of its torn end.
fn read_journal(
    dir: &Path,
    mut manifests: BTreeMap<u16, Manifest>,
    stats: &mut Stats,
) -> Result<u64> {
    read_held(dir)?;
    let known: Positions = manifests.iter().map(|(&id, m)| (id, m.seq)).collect();
    let mut journal = JournalReader::open_all(dir, &known)?;
    while let Some(commit) = journal.next()? {
        for item in commit.entries(|_| Some(0)) {
            let (id, seq, entry) = item?;
            match entry {
                Entry::Visit { visit, .. } => {
                    visit.archive.iter().for_each(|at| stats.archived(at));
                }
                Entry::Host { archive, .. } => archive.iter().for_each(|at| stats.archived(at)),
                Entry::Links {
                    source: Some(origin),
                    ..
                }
                | Entry::Heard { origin, .. } => {
                    let news = manifests.get_mut(&id.0).filter(|m| seq > m.seq);
                    let arrival = news.map(|manifest| manifest.heard.hear(&origin));
                    if matches!(arrival, Some(Arrival::Gap | Arrival::Astray)) {
                        let what = format!(
                            "entry {seq} of partition {} does not follow what was heard of partition {}",
                            id.0, origin.source.0
                        );
                        return Err(RegistryError::corrupt(dir, 0, what));
                    }
                }
                Entry::Links { .. }
                | Entry::Again { .. }
                | Entry::Judged { .. }
                | Entry::Session { .. }
                | Entry::Refresh { .. }
                | Entry::Sent { .. }
                | Entry::Claims { .. } => {}
                Entry::Moved(Moved::Counts { stats: counted, .. }) => stats.add(&counted),
                Entry::Moved(_) => {}
            }
        }
    }
    let end = journal.end();
    end.refuse_if_short(dir, &known)?;
    Ok(end.torn_bytes)
}

fn scrub_table(path: &Path, shape: Shape) -> Result<()> {
    Table::open(path.to_path_buf(), shape)?.scrub()
}

fn scrub_pieces(path: &Path, length: u64, body_bytes: fn(u64) -> u64) -> Result<()> {
    let Some(mut scan) = Scan::open(path, length)? else {
        return Ok(());
    };
    while !scan.is_at_end() {
        scan.piece(body_bytes)?;
    }
    Ok(())
}
