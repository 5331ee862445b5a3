//! Opening a registry: lock the directory, load each partition's checkpoint, replay its log, and
//! pass on the forwards that a crash cut off.

use crate::error::{At, RegistryError, Result};
use crate::files::{make_dir, replace_file, sync_dir};
use crate::lock::DirLock;
use crate::log::{Durable, LogEnd, LogReader, Logs, cut_short};
use crate::manifest::Manifest;
use crate::merger::Mergers;
use crate::partition::{AfterCrash, Opening, Partition};
use crate::settings::{Limits, RegistrySettings};
use crate::stats::Stats;
use portolan_model::{Identities, Order, PartitionId};
use std::collections::{BTreeMap, HashSet, VecDeque};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

const META: &str = "meta";
/// The number is that of the format of all files; another one cannot be read.
const META_HEAD: &str = "portolan registry 6, partitions ";
/// Follows: the mark of the secret that its documents and hosts are known by.
const META_MARK: &str = ", mark ";
const META_ORDER: &str = ", order ";
const META_CRAWL: &str = ", crawl ";
const META_CHECKSUM: &str = ", checksum ";

/// The way in; see `open`.
pub struct Registry;

/// An open registry: logs for the thread that commits, partitions for those that crawl.
#[derive(Debug)]
pub struct Opened {
    pub logs: Logs,
    pub partitions: Vec<Partition>,
    /// How far durable visits name each file of the archive, by the file's number. The last is where it ends.
    pub archive_files: Vec<(u32, u64)>,
    /// Which crawl the registry belongs to.
    pub crawl_id: u64,
    /// Bytes of half-written entries that a crash left at the logs' ends, and that are cut off now.
    pub torn_log_bytes: u64,
    /// URLs that roots of the crawl's scope were named by, each once.
    pub seeds: Vec<String>,
    /// The last user of the registry did not close it.
    pub after_crash: bool,
    /// The time when it was opened: after all that are recorded, even if the clock was set back.
    pub opened_ms: u64,
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
        let mut manifests = Vec::new();
        let mut log_dirs = Vec::new();
        for id in 0..partitions {
            let log_dir = partition_dir(dir, id).join("log");
            make_dir(&log_dir)?;
            manifests.push(Manifest::read(&partition_dir(dir, id))?.unwrap_or_default());
            log_dirs.push(log_dir);
        }
        sync_dir(dir)?;
        let checkpointed: Vec<u64> = manifests.iter().map(|manifest| manifest.seq).collect();
        let durable = Arc::new(Durable::new(&checkpointed));
        let mergers = match settings.merge_inline {
            true => Mergers::inline(Some(lock.clone())),
            false => Mergers::start(settings.partitions, Some(lock.clone())).at(dir)?,
        };
        let open = |id: u16, manifest: Manifest| {
            let opening = Opening {
                id: PartitionId(id),
                dir: partition_dir(dir, id),
                partitions,
                limits: Limits::of(settings),
                order: settings.order,
                ids: settings.ids,
                read_only: false,
                opened_ms: now_ms,
                crash: after_crash.then_some(AfterCrash {
                    unknown_delay_ms: settings.unknown_delay_ms,
                }),
                keep_back_off: after_crash && !settings.retry_now,
                durable: durable.clone(),
                mergers: mergers.clone(),
            };
            sweep(&opening.dir, &manifest)?;
            replay(opening, manifest, &log_dirs[usize::from(id)])
        };
        let (mut opened, ends) = open_all(manifests, open)?;
        refuse_cut_logs(&opened, &ends, &log_dirs)?;
        let torn_log_bytes = ends.iter().map(|end| end.torn_bytes).sum();
        let segment_bytes = (settings.checkpoint_log_bytes / 4).clamp(1 << 12, 1 << 30);
        let mut logs = Logs::open(
            log_dirs.clone(),
            ends,
            segment_bytes,
            settings.keep_log,
            durable,
            lock,
        )?;
        pass_on_forwards(&mut logs, &mut opened, &log_dirs, &checkpointed)?;
        let latest_ms = opened.iter().map(Partition::latest_ms).max();
        let opened_ms = now_ms.max(latest_ms.map_or(0, |ms| ms.saturating_add(1)));
        for partition in &mut opened {
            partition.opened_at(opened_ms);
            // A visit that waits to be looked up leaves its URL due. While a crawl runs, such a URL is in flight and
            // not handed out again. After a replay nothing is in flight: it would be fetched once more.
            partition.join_all_inline()?;
        }
        let mut stats = Stats::default();
        opened.iter().for_each(|p| stats.add(&p.stats));
        Ok(Opened {
            opened_ms,
            archive_files: stats.archive_files,
            crawl_id,
            torn_log_bytes,
            seeds: all_seeds(&opened)?,
            logs,
            partitions: opened,
            after_crash,
        })
    }
}

/// Opens partitions side by side, as many at a time as there are processors: none needs another.
fn open_all(
    manifests: Vec<Manifest>,
    open: impl Fn(u16, Manifest) -> Result<(Partition, LogEnd)> + Sync,
) -> Result<(Vec<Partition>, Vec<LogEnd>)> {
    let at_once = thread::available_parallelism().map_or(1, |number| number.get());
    let next = Mutex::new((0..).zip(manifests).collect::<VecDeque<_>>());
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

/// A partition as of its manifest and its log's tail.
fn replay(opening: Opening, manifest: Manifest, log_dir: &Path) -> Result<(Partition, LogEnd)> {
    let mut partition = Partition::open(opening, manifest)?;
    let mut log = LogReader::open(log_dir, partition.applied())?;
    while let Some((seq, entry)) = log.next()? {
        partition.apply(seq, &entry)?;
        partition.tend(false)?;
    }
    Ok((partition, log.end()))
}

pub(crate) fn partition_dir(dir: &Path, id: u16) -> PathBuf {
    dir.join(format!("p{id:02}"))
}

/// What is settled when a registry is made.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Meta {
    pub(crate) partitions: u16,
    pub(crate) order: Order,
    pub(crate) crawl_id: u64,
    mark: u64,
}

impl Meta {
    pub(crate) fn read(dir: &Path) -> Result<Self> {
        let path = dir.join(META);
        let bytes = fs::read(&path).at(&path)?;
        let text = std::str::from_utf8(&bytes).ok();
        text.and_then(Self::parse).ok_or_else(|| {
            let what = "it does not describe a registry of this version of Portolan";
            RegistryError::corrupt(&path, 0, what)
        })
    }

    /// What the registry in `dir` was made with, if these are its identities.
    pub(crate) fn of(dir: &Path, ids: Identities) -> Result<Self> {
        let meta = Self::read(dir)?;
        if meta.mark != ids.mark() {
            let what = "the crawl's secret is not the one that this registry was made with";
            return Err(RegistryError::corrupt(&dir.join(META), 0, what));
        }
        Ok(meta)
    }

    fn text(&self) -> String {
        let (partitions, mark, order) = (self.partitions, self.mark, self.order.name());
        let id = self.crawl_id;
        let text = format!(
            "{META_HEAD}{partitions}{META_MARK}{mark:016x}{META_ORDER}{order}{META_CRAWL}{id:016x}"
        );
        let crc = crc32fast::hash(text.as_bytes());
        format!("{text}{META_CHECKSUM}{crc:08x}\n")
    }

    fn parse(text: &str) -> Option<Self> {
        let (said, _) = text.split_once(META_CHECKSUM)?;
        let (rest, id) = said.strip_prefix(META_HEAD)?.split_once(META_CRAWL)?;
        let (rest, order) = rest.split_once(META_ORDER)?;
        let (number, mark) = rest.split_once(META_MARK)?;
        let meta = Self {
            partitions: number.parse().ok().filter(|&number| number > 0)?,
            order: Order::from_name(order)?,
            crawl_id: u64::from_str_radix(id, 16).ok()?,
            mark: u64::from_str_radix(mark, 16).ok()?,
        };
        (meta.text() == text).then_some(meta)
    }
}

/// The number of partitions and the order of queues are settled when a registry is made.
fn settle_meta(dir: &Path, settings: &RegistrySettings) -> Result<Meta> {
    let path = dir.join(META);
    if path.exists() {
        let known = Meta::of(dir, settings.ids)?;
        if known.order != settings.order {
            return Err(RegistryError::Settings {
                path: dir.to_path_buf(),
                what: format!(
                    "its queues are sorted by {}, and cannot go on sorted by {}",
                    known.order.name(),
                    settings.order.name()
                ),
            });
        }
        return Ok(known);
    }
    if partition_dir(dir, 0).exists() {
        // It is durable before there is any partition.
        return Err(RegistryError::corrupt(&path, 0, "the file is missing"));
    }
    if settings.partitions == 0 {
        return Err(RegistryError::Settings {
            path,
            what: "a registry needs at least one partition".to_owned(),
        });
    }
    let meta = Meta {
        partitions: settings.partitions,
        order: settings.order,
        crawl_id: settings.crawl_id,
        mark: settings.ids.mark(),
    };
    replace_file(dir, META, meta.text().as_bytes())?;
    Ok(meta)
}

/// Deletes what a crash left half-made.
fn sweep(dir: &Path, manifest: &Manifest) -> Result<()> {
    let tables = |name: &str, ids: &[u64]| -> Vec<String> {
        ids.iter().map(|id| format!("{name}-{id:08}.tbl")).collect()
    };
    let named: HashSet<String> = [
        tables("known", &manifest.known_runs),
        tables("due", &manifest.due_runs),
        tables("hosts", &manifest.host_runs),
    ]
    .concat()
    .into_iter()
    .collect();
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

/// Links are passed on only once they are safe in their source's log. Where another partition has heard
/// more than a log holds, what follows in that log would be taken for what was heard, and be lost.
fn refuse_cut_logs(partitions: &[Partition], ends: &[LogEnd], log_dirs: &[PathBuf]) -> Result<()> {
    for (source, (end, log_dir)) in ends.iter().zip(log_dirs).enumerate() {
        let heard = partitions.iter().map(|partition| partition.heard()[source]);
        let heard = heard.max().unwrap_or(0);
        if heard > end.seq {
            let path = end.segment.as_ref().map_or(log_dir, |(path, _)| path);
            let length = end.segment.as_ref().map_or(0, |(_, length)| *length);
            let what = cut_short(end.seq, heard);
            return Err(RegistryError::corrupt(path, length, what));
        }
    }
    Ok(())
}

/// Entries after the last checkpoint whose links for others did not reach the others' logs. Earlier
/// ones did: a checkpoint is committed only after them.
fn pass_on_forwards(
    logs: &mut Logs,
    partitions: &mut [Partition],
    log_dirs: &[PathBuf],
    checkpointed: &[u64],
) -> Result<()> {
    for source in 0..partitions.len() {
        let id = partitions[source].id();
        let mut log = LogReader::open(&log_dirs[source], checkpointed[source])?;
        while let Some((seq, mut entry)) = log.next()? {
            let forwards = entry.take_forwards();
            for (destination, links) in crate::log::one_per_destination(forwards) {
                let partition = &mut partitions[usize::from(destination.0)];
                if partition.heard()[source] < seq {
                    let delivery = logs.forward((id, seq), destination, links)?;
                    partition.apply(delivery.seq, &delivery.entry)?;
                    partition.tend(false)?;
                }
            }
        }
    }
    logs.note_forwarded();
    logs.sync()
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
