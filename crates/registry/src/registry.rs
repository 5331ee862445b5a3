//! Opening a registry: lock the directory, load each partition's checkpoint, and replay the journal.

use crate::adopt::Adopter;
use crate::error::{At, Result};
use crate::files::{make_dir, sync_dir};
use crate::held::read_held;
use crate::lock::DirLock;
use crate::log::{
    Durable, Exporter, Journal, JournalPlan, JournalReader, Outgoing, Positions, Settler,
};
use crate::manifest::Manifest;
use crate::merger::Mergers;
use crate::meta::{Meta, settle_meta};
use crate::partition::{AfterCrash, Opening, Partition};
use crate::replay::replay;
use crate::settings::{Limits, RegistrySettings};
use crate::state::StateOpening;
use crate::stats::Stats;
use portolan_model::PartitionId;
use std::collections::{BTreeMap, HashSet, VecDeque};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

/// The way in; see `open`.
pub struct Registry;

/// An open registry: the journal for the thread that commits, partitions for those that crawl.
#[derive(Debug)]
pub struct Opened {
    pub journal: Journal,
    pub partitions: Vec<Partition>,
    /// How far durable visits name each file of the archive, by the file's number.
    pub archive_files: Vec<(u32, u64)>,
    /// Where the archive ended when the last commit was made: file and place in it.
    pub archive_end: Option<(u32, u64)>,
    /// Which crawl the registry belongs to.
    pub crawl_id: u64,
    /// Bytes of half-written entries that a crash left at the journal's end, and that are cut off now.
    pub torn_log_bytes: u64,
    /// URLs that roots of the crawl's scope were named by, each once.
    pub seeds: Vec<String>,
    /// The last user of the registry did not close it.
    pub after_crash: bool,
    /// The time when it was opened: after all that are recorded, even if the clock was set back.
    pub opened_ms: u64,
    /// In a fleet: what ships the journal, and takes partitions in.
    pub in_fleet: Option<InFleet>,
}

/// The ends of a registry that is one of a fleet.
#[derive(Debug)]
pub struct InFleet {
    pub exporter: Exporter,
    pub settler: Settler,
    pub adopter: Adopter,
}

impl Registry {
    /// Is the registry in `dir` open in some process?
    pub fn is_open(dir: &Path) -> bool {
        DirLock::is_held(dir)
    }

    /// Was it closed by its last user?
    pub fn is_closed(dir: &Path) -> bool {
        !DirLock::is_left(dir)
    }

    /// Opens the registry in `dir`, or makes one there. `now_ms` is when: after a crash, hosts wait
    /// from then on.
    pub fn open(dir: &Path, settings: &RegistrySettings, now_ms: u64) -> Result<Opened> {
        make_dir(dir)?;
        let lock = Arc::new(DirLock::take(dir)?);
        let after_crash = lock.after_crash();
        let Meta {
            partitions,
            crawl_id,
            ..
        } = settle_meta(dir, settings)?;
        let settings = &RegistrySettings {
            partitions,
            ..settings.clone()
        };
        let journal_dir = journal_dir(dir);
        make_dir(&journal_dir)?;
        let in_fleet = settings.shipped_frames.is_some();
        let held = match in_fleet {
            true => read_held(&journal_dir)?.unwrap_or_default(),
            false => (0..partitions).map(PartitionId).collect(),
        };
        let manifests = held.iter().map(|&PartitionId(id)| {
            let home = partition_dir(dir, id);
            make_dir(&home)?;
            Ok((id, Manifest::read(&home)?.unwrap_or_default()))
        });
        let manifests = manifests.collect::<Result<Vec<_>>>()?;
        sync_dir(dir)?;
        let checkpointed: Positions = manifests.iter().map(|(id, m)| (*id, m.seq)).collect();
        let journal_bytes = Arc::new(AtomicU64::new(0));
        let durables: BTreeMap<_, _> = checkpointed
            .iter()
            .map(|(id, seq)| {
                let durable = Durable::new(seq, journal_bytes.clone());
                (PartitionId(id), Arc::new(durable))
            })
            .collect();
        let mergers = match settings.merge_inline {
            true => Mergers::inline(Some(lock.clone())),
            false => Mergers::start(settings.partitions, Some(lock.clone())).at(dir)?,
        };
        let opener = Opener {
            dir: dir.to_path_buf(),
            settings: settings.clone(),
            mergers,
            journal_bytes: journal_bytes.clone(),
        };
        let open = |id: u16, manifest: Manifest| {
            let durable = durables[&PartitionId(id)].clone();
            opener.open(PartitionId(id), manifest, durable, now_ms, after_crash)
        };
        let reader = JournalReader::open(&journal_dir, &checkpointed)?;
        let mut opened = open_all(manifests, open)?;
        let end = replay(&mut opened, reader, &journal_dir)?;
        end.refuse_if_short(&journal_dir, &checkpointed)?;
        let (torn_log_bytes, archive_end) = (end.torn_bytes, end.archive_end);
        let outgoing = settings
            .shipped_frames
            .map(|shipped| Arc::new(Outgoing::new(shipped, durables.clone())));
        let journal = Journal::open(JournalPlan {
            dir: journal_dir.clone(),
            end,
            durables: durables.clone(),
            streams: opened.iter().map(Partition::streams).collect(),
            outgoing: outgoing.clone(),
            journal_bytes,
            segment_bytes: (settings.checkpoint_log_bytes / 4).clamp(1 << 12, 1 << 30),
            keep_log: settings.keep_log,
            lock,
        })?;
        let latest_ms = opened.iter().map(Partition::latest_ms).max();
        let opened_ms = now_ms.max(latest_ms.map_or(0, |ms| ms.saturating_add(1)));
        for partition in &mut opened {
            partition.opened_at(opened_ms);
            // A visit that waits to be looked up leaves its URL due. While a crawl runs, such a URL is in flight and
            // not handed out again. After a replay nothing is in flight: it would be fetched once more.
            partition.join_all_inline()?;
        }
        let mut stats = Stats::default();
        opened.iter().for_each(|p| stats.add(p.stats()));
        Ok(Opened {
            opened_ms,
            archive_files: stats.archive_files,
            archive_end,
            crawl_id,
            torn_log_bytes,
            seeds: all_seeds(&opened)?,
            in_fleet: match outgoing {
                Some(outgoing) => Some(InFleet {
                    exporter: Exporter::new(journal_dir, outgoing.clone()),
                    settler: Settler::new(outgoing),
                    adopter: Adopter::new(opener, opened_ms)?,
                }),
                None => None,
            },
            journal,
            partitions: opened,
            after_crash,
        })
    }
}

/// What every partition of a registry is opened with.
#[derive(Debug)]
pub(crate) struct Opener {
    pub(crate) dir: PathBuf,
    pub(crate) settings: RegistrySettings,
    pub(crate) mergers: Mergers,
    pub(crate) journal_bytes: Arc<AtomicU64>,
}

impl Opener {
    /// `after_crash`: requests may have been made that nobody recorded.
    pub(crate) fn open(
        &self,
        id: PartitionId,
        manifest: Manifest,
        durable: Arc<Durable>,
        now_ms: u64,
        after_crash: bool,
    ) -> Result<Partition> {
        let settings = &self.settings;
        let home = partition_dir(&self.dir, id.0);
        sweep(&home, &manifest)?;
        let opening = Opening {
            state: StateOpening {
                id,
                dir: home,
                limits: Limits::of(settings),
                order: settings.order,
                ids: settings.ids,
                writers: Some(self.mergers.clone()),
                in_fleet: settings.shipped_frames.is_some(),
            },
            opened_ms: now_ms,
            crash: after_crash.then_some(AfterCrash {
                unknown_delay_ms: settings.unknown_delay_ms,
            }),
            keep_back_off: after_crash && !settings.retry_now,
            durable,
            mergers: self.mergers.clone(),
        };
        Partition::open(opening, manifest)
    }
}

/// Opens partitions side by side, as many at a time as there are processors: none needs another.
fn open_all(
    manifests: Vec<(u16, Manifest)>,
    open: impl Fn(u16, Manifest) -> Result<Partition> + Sync,
) -> Result<Vec<Partition>> {
    let at_once = thread::available_parallelism().map_or(1, |number| number.get());
    let next = Mutex::new(VecDeque::from(manifests));
    let take = || {
        let mut next = next.lock().unwrap_or_else(PoisonError::into_inner);
        next.pop_front()
    };
    let opened = Mutex::new(BTreeMap::new());
    let work = || {
        while let Some((id, manifest)) = take() {
            let result = open(id, manifest);
            let mut opened = opened.lock().unwrap_or_else(PoisonError::into_inner);
            opened.insert(id, result);
        }
    };
    thread::scope(|scope| {
        for _ in 1..at_once {
            // Where there can be no more threads, there are fewer.
            let _ = thread::Builder::new().spawn_scoped(scope, work);
        }
        work();
    });
    let opened = opened.into_inner().unwrap_or_else(PoisonError::into_inner);
    opened.into_values().collect()
}

pub(crate) fn partition_dir(dir: &Path, id: u16) -> PathBuf {
    dir.join(format!("p{id:02}"))
}

pub(crate) fn journal_dir(dir: &Path) -> PathBuf {
    dir.join("journal")
}

/// Deletes what a crash left half-made.
fn sweep(dir: &Path, manifest: &Manifest) -> Result<()> {
    let named: HashSet<String> = manifest.files().into_iter().map(|(name, _)| name).collect();
    for item in fs::read_dir(dir).at(dir)? {
        let path = item.at(dir)?.path();
        let name = path.file_name().and_then(|name| name.to_str());
        let stray = name.is_some_and(|name| {
            (name.ends_with(".tbl") && !named.contains(name)) || name.ends_with(".new")
        });
        if stray {
            match fs::remove_file(&path) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => {
                    return Err(error).at(&path);
                }
                _ => {}
            }
        }
    }
    Ok(())
}

fn all_seeds(partitions: &[Partition]) -> Result<Vec<String>> {
    let mut known = HashSet::new();
    let mut seeds = Vec::new();
    for partition in partitions {
        for seed in partition.seeds()? {
            if known.insert(seed.clone()) {
                seeds.push(seed);
            }
        }
    }
    Ok(seeds)
}
