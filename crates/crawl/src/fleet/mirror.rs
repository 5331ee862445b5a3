//! A fleet's crawl as a directory of this machine, for the commands that look into a crawl: the registry is folded from what
//! was shipped, and WARC files are fetched as they are wanted. Brought up to date again, it folds what is new alone.
//!
//! It is a crawl's directory to everybody but to those who would go on with the crawl. What was shipped is some seconds old
//! while nodes are at work; read from the store alone, half a minute.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::SystemTime;

use futures_util::{StreamExt, TryStreamExt};
use portolan_fleet::{Checkpoint, Commit, ShipRecord, Stored, WarcChunk};
use portolan_graph::DSets;
use portolan_model::{CanonicalUrl, Canonicalizer, Clock, Identities, PartitionId, SystemClock};
use portolan_registry::{Adoption, Chunk};

use super::adoption::blocking;
use super::catalogue;
use super::gather::{self, Gathered};
use super::node::crawl_id;
use crate::assembly;
use crate::crawl::REGISTRY_DIR;
use crate::directory::{self, make_dir, replace};
use crate::error::CrawlError;
use crate::judging::{Criteria, Judged};
use crate::sealed::{seal, unseal};
use crate::secret;
use crate::settings::Settings;

/// WARC files that were fetched. Not where a crawl has its archive: some are missing.
const WARC_DIR: &str = "warc";
/// How far the ship log is folded.
const POSITION_FILE: &str = "mirrored";
/// One process at a time changes a mirror; the others wait.
const LOCK_FILE: &str = "mirror.lock";
/// Partitions that are open at once: each takes some 2 MB.
const OPEN_PARTITIONS: usize = 64;
/// Commits that are folded before their partitions are written.
const COMMITS: usize = 20_000;
/// How often what was missing in the store is looked for anew.
const ATTEMPTS: u32 = 3;
/// Chunks that are fetched ahead.
const CHUNKS_AHEAD: usize = 8;

/// See the module.
pub struct Mirror {
    stored: Stored,
    dir: PathBuf,
    /// WARC files may take this much of the disk, and always as much as one of them is long.
    max_bytes: u64,
    settings: Settings,
    warcs: BTreeMap<String, BTreeMap<u64, WarcChunk>>,
}

impl Mirror {
    /// Opens the mirror of a fleet below `cache`, or makes one there. Nothing is fetched yet.
    pub fn open(stored: Stored, cache: &Path, max_bytes: u64) -> Result<Self, CrawlError> {
        let definition = stored.definition();
        let dir = cache.join(format!("{}-{}", definition.name, definition.id));
        make_dir(&dir).map_err(|error| {
            CrawlError::Input(format!(
                "{}: {error}; name another directory for what is read of the fleet",
                cache.display()
            ))
        })?;
        let settings = Settings::with_overrides(&definition.settings)
            .map_err(|e| CrawlError::Input(e.in_file("the fleet's settings")))?;
        let mirror = Self {
            stored,
            dir,
            max_bytes,
            settings,
            warcs: BTreeMap::new(),
        };
        let _lock = mirror.lock()?;
        mirror.write_settings()?;
        Ok(mirror)
    }

    /// The crawl's directory.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// The extensions of the fleet's DSets, the first of partition 0; empty if it is divided in another way.
    pub fn dsets(&self) -> Vec<Vec<String>> {
        DSets::lines(&self.settings.dsets_text())
    }

    pub fn stored(&self) -> &Stored {
        &self.stored
    }

    /// What a crawl's directory says of the crawl, for those who look into it.
    fn write_settings(&self) -> Result<(), CrawlError> {
        let definition = self.stored.definition();
        secret::put(&self.dir, definition.secret())?;
        let canonicalizer = Canonicalizer::new(&self.settings.urls);
        let parsed = definition
            .seeds
            .iter()
            .map(|seed| canonicalizer.parse_seed(seed));
        let seeds: Vec<CanonicalUrl> = parsed.filter_map(Result::ok).collect();
        let scope = assembly::scope(&self.settings, &seeds)?;
        Judged::remember(&self.dir, &Criteria::of(&self.settings, &scope)?)?;
        directory::remember(&self.dir, &seeds, &self.settings)
    }

    fn lock(&self) -> Result<File, CrawlError> {
        let path = self.dir.join(LOCK_FILE);
        let mut options = directory::no_links();
        let opened = options.create(true).truncate(false).write(true).open(&path);
        let locked = opened.and_then(|file| file.lock().map(|()| file));
        locked.map_err(at(&path))
    }

    /// Folds what was shipped since the last time.
    pub async fn update(&self) -> Result<(), CrawlError> {
        let _lock = self.lock()?;
        let registry = self.open_registry()?;
        let mut attempts = 0;
        loop {
            self.lay_checkpoints(&registry).await?;
            attempts += 1;
            match self.fold_news(&registry).await {
                // It went between the reading of the log and its own: newer checkpoints do without it.
                Err(CrawlError::Fleet(why)) if attempts < ATTEMPTS => {
                    tracing::debug!(why, "the mirror is brought up to date once more");
                }
                ended => return ended,
            }
        }
    }

    /// Lays out the newest checkpoints of partitions whose chunks since the last time may be gone: those of which two
    /// checkpoints have been told since, that are both ahead of what is here.
    async fn lay_checkpoints(
        &self,
        registry: &Arc<portolan_registry::Mirror>,
    ) -> Result<(), CrawlError> {
        let mut newest: BTreeMap<u16, (Option<Checkpoint>, Checkpoint)> = BTreeMap::new();
        let mut records = self
            .stored
            .records(self.position()?)
            .await
            .map_err(unread)?;
        while let Some(shipped) = records.next().await.map_err(unread)? {
            if let ShipRecord::Checkpoint(told) = shipped.record {
                let known = newest.remove(&told.partition);
                newest.insert(told.partition, (known.map(|(_, known)| known), told));
            }
        }
        for (older, newest) in newest.into_values() {
            let partition = PartitionId(newest.partition);
            let least = older.as_ref().map_or(0, |older| older.seq.min(newest.seq));
            let (opening, now_ms) = (Arc::clone(registry), SystemClock::start().wall_ms());
            let here = blocking(move || Ok(opening.begin(partition, now_ms)?.applied())).await?;
            if least <= here {
                continue;
            }
            let mut gathered = Gathered::Nothing;
            for told in [Some(newest), older].into_iter().flatten() {
                let whole = gather::gather(
                    self.stored.blobs(),
                    registry.adopter(),
                    &told,
                    &mut gathered,
                );
                if whole.await?
                    && let Gathered::Whole(stored) = &gathered
                {
                    gather::take(registry.adopter(), partition, stored).await?;
                    break;
                }
            }
        }
        Ok(())
    }

    async fn fold_news(&self, registry: &Arc<portolan_registry::Mirror>) -> Result<(), CrawlError> {
        let mut records = self
            .stored
            .records(self.position()?)
            .await
            .map_err(unread)?;
        let mut commits = Vec::new();
        loop {
            let next = records.next().await.map_err(unread)?;
            let (last, ended) = (next.as_ref().map(|shipped| shipped.seq), next.is_none());
            if let Some(ShipRecord::Commit(commit)) = next.map(|shipped| shipped.record) {
                commits.push(Arc::new(commit));
            }
            if ended || commits.len() >= COMMITS {
                self.fold_all(registry, std::mem::take(&mut commits))
                    .await?;
                let position = last.unwrap_or(records.end());
                let text = seal(&format!("{position}\n"));
                replace(&self.dir, POSITION_FILE, text.as_bytes())?;
            }
            if ended {
                return Ok(());
            }
        }
    }

    fn position(&self) -> Result<u64, CrawlError> {
        let path = self.dir.join(POSITION_FILE);
        if !path.exists() {
            return Ok(0);
        }
        let sealed = directory::read(&path)?;
        let text = unseal(
            &sealed,
            &path,
            ", or remove the directory: it is fetched again",
        )?;
        Ok(text.trim().parse().unwrap_or(0))
    }

    fn open_registry(&self) -> Result<Arc<portolan_registry::Mirror>, CrawlError> {
        let definition = self.stored.definition();
        let ids = Identities::of_secret(definition.secret());
        let identity = (ids, crawl_id(definition));
        let settings = assembly::registry(&self.settings, definition.partitions, identity);
        let opened = portolan_registry::Mirror::open(&self.dir.join(REGISTRY_DIR), &settings)?;
        // All are there, for whoever reads them.
        for id in 0..definition.partitions {
            opened.make_partition(PartitionId(id))?;
        }
        Ok(Arc::new(opened))
    }

    /// Folds commits that follow each other in the ship log.
    async fn fold_all(
        &self,
        registry: &Arc<portolan_registry::Mirror>,
        commits: Vec<Arc<Commit>>,
    ) -> Result<(), CrawlError> {
        let named = commits.iter().flat_map(|commit| entries_of(commit));
        let partitions: BTreeSet<PartitionId> = named.collect();
        let partitions: Vec<PartitionId> = partitions.into_iter().collect();
        for group in partitions.chunks(OPEN_PARTITIONS) {
            self.fold_group(registry, group, &commits).await?;
        }
        Ok(())
    }

    async fn fold_group(
        &self,
        registry: &Arc<portolan_registry::Mirror>,
        group: &[PartitionId],
        commits: &[Arc<Commit>],
    ) -> Result<(), CrawlError> {
        let (opening, ids) = (Arc::clone(registry), group.to_vec());
        let now_ms = SystemClock::start().wall_ms();
        let mut adoptions = blocking(move || {
            let opened = ids.into_iter().map(|id| Ok(opening.begin(id, now_ms)?));
            opened.collect::<Result<Vec<_>, CrawlError>>()
        })
        .await?;
        let applied = adoptions.iter().map(|adoption| adoption.applied());
        let applied: BTreeMap<PartitionId, u64> = group.iter().copied().zip(applied).collect();
        let has_some = |commit: &&Arc<Commit>| {
            let mut named = commit.partitions.iter();
            named.any(|it| {
                let here = applied.get(&it.id());
                it.from_seq <= it.to_seq && here.is_some_and(|here| it.to_seq > *here)
            })
        };
        let chunks = commits.iter().filter(has_some).cloned();
        let fetched =
            futures_util::stream::iter(chunks).map(async |commit| self.chunk(&commit).await);
        let mut fetched = std::pin::pin!(fetched.buffered(CHUNKS_AHEAD));
        while let Some(chunk) = fetched.try_next().await? {
            adoptions = blocking(move || fold(adoptions, &chunk)).await?;
        }
        blocking(move || {
            for adoption in adoptions {
                adoption.finish()?;
            }
            Ok(())
        })
        .await
    }

    async fn chunk(&self, commit: &Commit) -> Result<Chunk, CrawlError> {
        let key = &commit.journal;
        let Some(bytes) = self.stored.blobs().get(key).await else {
            let place = self.stored.blobs().place();
            return Err(CrawlError::Fleet(format!(
                "{key} is missing from {place}; put it back from a copy"
            )));
        };
        Ok(Chunk::read(bytes.to_vec(), Path::new(key))?)
    }

    /// The names of all WARC files, sorted, as of this call.
    pub async fn list_warcs(&mut self) -> Result<Vec<String>, CrawlError> {
        self.warcs = self.stored.warc_chunks().await.map_err(unread)?.0;
        Ok(self.warcs.keys().cloned().collect())
    }

    /// Fetches WARC files that `list_warcs` has named and that are wanted at once. Others that are here go where all together
    /// would be more than may be; those that were used last stay.
    pub async fn together(&self, names: &[String]) -> Result<Vec<PathBuf>, CrawlError> {
        let _lock = self.lock()?;
        let dir = self.dir.join(WARC_DIR);
        make_dir(&dir).map_err(at(&dir))?;
        let mut wanted = Vec::new();
        for name in names {
            let Some(chunks) = self.warcs.get(name) else {
                return Err(CrawlError::Input(format!(
                    "{name} is none of the fleet's WARC files"
                )));
            };
            wanted.push((dir.join(name), chunks));
        }
        let bytes = wanted.iter().map(|(_, chunks)| length(chunks)).sum();
        let paths: BTreeSet<&Path> = wanted.iter().map(|(path, _)| path.as_path()).collect();
        self.make_room(&dir, &paths, bytes)?;
        for (path, chunks) in &wanted {
            self.stored
                .assemble_file(path, chunks.values())
                .await
                .map_err(unread)?;
            let used = File::options().write(true).open(path);
            used.and_then(|file| file.set_modified(SystemTime::now()))
                .map_err(at(path))?;
        }
        Ok(wanted.into_iter().map(|(path, _)| path).collect())
    }

    /// Bytes of all WARC files that `list_warcs` has named.
    pub fn warc_bytes(&self) -> u64 {
        self.warcs.values().map(length).sum()
    }

    /// The name of the WARC file of a number, where `list_warcs` has named it.
    pub fn warc_of(&self, number: u32) -> Option<&str> {
        let is_it = |name: &&String| portolan_archive::number_of_warc(name) == Some(number);
        self.warcs.keys().find(is_it).map(String::as_str)
    }

    /// One index over all WARC files, as of now: `index.cdxj` in the crawl's directory.
    pub async fn index(&self) -> Result<PathBuf, CrawlError> {
        let _lock = self.lock()?;
        let path = self.dir.join("index.cdxj");
        let log = self
            .stored
            .records(u64::MAX)
            .await
            .map_err(unread)?
            .log_end();
        let blobs = self.stored.blobs();
        if catalogue::fetch(blobs, log, &path).await?.is_none() {
            let (merged, ..) =
                catalogue::merge(&self.stored, &self.dir.join("index"), &BTreeMap::new()).await?;
            fs::rename(&merged, &path).map_err(at(&path))?;
        }
        Ok(path)
    }

    /// Removes what was not used for the longest time, but for what is wanted now.
    fn make_room(
        &self,
        dir: &Path,
        wanted: &BTreeSet<&Path>,
        bytes: u64,
    ) -> Result<(), CrawlError> {
        let mut others = Vec::new();
        for entry in fs::read_dir(dir).map_err(at(dir))? {
            let entry = entry.map_err(at(dir))?;
            let found = entry.metadata().map_err(at(dir))?;
            if !wanted.contains(entry.path().as_path()) {
                let used = found.modified().map_err(at(dir))?;
                others.push((used, found.len(), entry.path()));
            }
        }
        others.sort();
        let mut all: u64 = others.iter().map(|(_, bytes, _)| bytes).sum();
        for (_, length, path) in others {
            if all.saturating_add(bytes) <= self.max_bytes {
                break;
            }
            fs::remove_file(&path).map_err(at(&path))?;
            all -= length;
        }
        Ok(())
    }
}

fn length(chunks: &BTreeMap<u64, WarcChunk>) -> u64 {
    chunks.values().map(|chunk| chunk.bytes).sum()
}

/// The partitions that a commit has entries of.
fn entries_of(commit: &Commit) -> impl Iterator<Item = PartitionId> {
    let named = commit.partitions.iter();
    named
        .filter(|named| named.from_seq <= named.to_seq)
        .map(|named| named.id())
}

fn fold(mut adoptions: Vec<Adoption>, chunk: &Chunk) -> Result<Vec<Adoption>, CrawlError> {
    for adoption in &mut adoptions {
        // What it forwards has come to others, and is in their logs.
        adoption.fold(chunk)?;
    }
    Ok(adoptions)
}

fn unread(error: portolan_fleet::FleetError) -> CrawlError {
    CrawlError::Fleet(error.to_string())
}

fn at(path: &Path) -> impl Fn(std::io::Error) -> CrawlError {
    move |source| CrawlError::File {
        path: path.to_owned(),
        source,
    }
}
