//! Fetches a partition's checkpoint from the store, before the partition comes or when it does. What was fetched for an
//! earlier checkpoint is not fetched again.

use std::collections::{BTreeMap, HashSet};
use std::fs::{self, File, OpenOptions};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use futures_util::{StreamExt, TryStreamExt};
use portolan_fleet::{Blobs, Checkpoint, Piece, ShipRecord, StoredCheckpoint, StoredFile};
use portolan_model::PartitionId;
use portolan_registry::Adopter;
use tokio::task::AbortHandle;
use tokio::time::Instant;

use super::adoption::blocking;
use super::agent::Agent;
use crate::error::CrawlError;

/// Pieces that are fetched at once.
const AT_ONCE: usize = 4;
/// Who prepares for a partition looks this often whether there is a newer checkpoint of it.
const LOOK_EVERY: Duration = Duration::from_millis(500);
/// A partition that has not come after this time may come all the same, but is not prepared for any more.
const PATIENCE: Duration = Duration::from_secs(180);

/// What has been fetched for a partition that may come.
#[derive(Debug, Default)]
pub(super) enum Gathered {
    #[default]
    Nothing,
    Whole(StoredCheckpoint),
    /// The partition has come, and has the files.
    Taken,
}

/// By partition. Whoever fetches for one holds its lock meanwhile.
#[derive(Debug, Default)]
pub(super) struct Gathering {
    places: Mutex<BTreeMap<PartitionId, Arc<tokio::sync::Mutex<Gathered>>>>,
    /// Which checkpoint is here whole, by its last entry.
    prepared: Mutex<BTreeMap<PartitionId, u64>>,
    tasks: Mutex<BTreeMap<PartitionId, AbortHandle>>,
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Gathering {
    fn place(&self, partition: PartitionId) -> Arc<tokio::sync::Mutex<Gathered>> {
        locked(&self.places).entry(partition).or_default().clone()
    }

    /// For who waits to let a partition go.
    pub(super) fn prepared(&self) -> Vec<(u16, u64)> {
        let prepared = locked(&self.prepared);
        prepared.iter().map(|(id, seq)| (id.0, *seq)).collect()
    }

    /// This life of the node is over: what is below its directory is another one's from now on.
    pub(super) fn stop(&self) {
        locked(&self.tasks).values().for_each(AbortHandle::abort);
    }

    fn forget(&self, partition: PartitionId) {
        locked(&self.places).remove(&partition);
        locked(&self.prepared).remove(&partition);
    }
}

/// Fetches what there is of a partition that may come, and what comes meanwhile; in a task of its own.
pub(super) fn prepare(agent: &Arc<Agent>, adopter: &Arc<Adopter>, partition: PartitionId) {
    let mut tasks = locked(&agent.gathering.tasks);
    // Two would be in each other's way.
    if tasks.get(&partition).is_none_or(AbortHandle::is_finished) {
        let task = keep_fetching(Arc::clone(agent), Arc::clone(adopter), partition);
        tasks.insert(partition, tokio::spawn(task).abort_handle());
    }
}

async fn keep_fetching(agent: Arc<Agent>, adopter: Arc<Adopter>, partition: PartitionId) {
    let begun = Instant::now();
    let place = agent.gathering.place(partition);
    while begun.elapsed() < PATIENCE && agent.epoch_of(partition).is_none() {
        match newest(&agent, partition).await {
            Ok(Some(newest)) => {
                let mut gathered = place.lock().await;
                if matches!(*gathered, Gathered::Taken) {
                    return;
                }
                let blobs = agent.fleet.blobs();
                match gather(blobs, &adopter, &newest, &mut gathered).await {
                    Ok(true) => {
                        locked(&agent.gathering.prepared).insert(partition, newest.seq);
                    }
                    // It was of yesterday.
                    Ok(false) => {}
                    Err(error) => {
                        tracing::warn!(partition = partition.0, %error, "no checkpoint is fetched beforehand");
                        return;
                    }
                }
            }
            Ok(None) => {}
            Err(error) => {
                tracing::debug!(partition = partition.0, %error, "the ship log was not read")
            }
        }
        tokio::time::sleep(LOOK_EVERY).await;
    }
}

async fn newest(agent: &Agent, partition: PartitionId) -> Result<Option<Checkpoint>, CrawlError> {
    let mut log = agent.log.lock().await;
    log.read_all()
        .await
        .map_err(|error| CrawlError::Fleet(error.to_string()))?;
    Ok(log.ledger().checkpoints_of(partition).next().cloned())
}

/// Lays out the newest checkpoint of a partition that can be had, or nothing where there never was one. Gives what was
/// laid out.
pub(super) async fn lay(
    agent: &Agent,
    adopter: &Arc<Adopter>,
    partition: PartitionId,
    checkpoints: Vec<Checkpoint>,
) -> Result<Option<(StoredCheckpoint, String)>, CrawlError> {
    let place = agent.gathering.place(partition);
    let mut gathered = place.lock().await;
    let mut laid = None;
    for checkpoint in &checkpoints {
        let whole = gather(agent.fleet.blobs(), adopter, checkpoint, &mut gathered).await?;
        if let (true, Gathered::Whole(stored)) = (whole, &*gathered) {
            laid = Some((stored.clone(), checkpoint.manifest.clone()));
            break;
        }
        check_not_fenced(agent).await?;
        let (partition, key) = (partition.0, &checkpoint.manifest);
        tracing::warn!(partition, key, "a checkpoint in the store is not whole");
    }
    *gathered = Gathered::Taken;
    agent.gathering.forget(partition);
    match (&laid, checkpoints.len()) {
        (Some((stored, _)), _) => take(adopter, partition, stored).await?,
        // All entries are still in the chunks until a second one is there.
        (None, 0 | 1) => drop(adopter.prepare(partition)?),
        (None, _) => {
            return Err(CrawlError::Fleet(format!(
                "both checkpoints of partition {} are damaged in {}; put them back from a copy",
                partition.0,
                agent.fleet.blobs().place()
            )));
        }
    }
    Ok(laid)
}

/// Has a checkpoint that was gathered whole take the place of a partition's directory.
pub(super) async fn take(
    adopter: &Arc<Adopter>,
    partition: PartitionId,
    stored: &StoredCheckpoint,
) -> Result<(), CrawlError> {
    let (adopter, manifest) = (Arc::clone(adopter), stored.manifest.clone());
    blocking(move || {
        portolan_registry::lay_manifest(&adopter.gathering(partition), &manifest)?;
        Ok(adopter.take(partition)?)
    })
    .await
}

/// An object that is not there any more may be one that nobody needs, because others have gone on without this node.
pub(super) async fn check_not_fenced(agent: &Agent) -> Result<(), CrawlError> {
    let last = agent.fleet.last_shipped(agent.node.name()).await;
    let Ok(Some(last)) = last else {
        return Ok(());
    };
    let is_sealed = matches!(last.record, ShipRecord::Sealed { .. });
    match is_sealed || last.record.incarnation() != agent.incarnation {
        true => Err(CrawlError::Fenced(
            "others have gone on without this node".to_owned(),
        )),
        false => Ok(()),
    }
}

/// Makes the partition's directory for what may come hold a checkpoint, but for its manifest. False if something of it is
/// missing in the store.
pub(super) async fn gather(
    blobs: &Blobs,
    adopter: &Adopter,
    checkpoint: &Checkpoint,
    gathered: &mut Gathered,
) -> Result<bool, CrawlError> {
    let Some(object) = blobs.get(&checkpoint.manifest).await else {
        return Ok(false);
    };
    let Ok(wanted) = StoredCheckpoint::from_object(&object) else {
        return Ok(false);
    };
    // Until all of it is here, nobody knows what is.
    let known = match std::mem::take(gathered) {
        Gathered::Whole(known) if known == wanted => {
            *gathered = Gathered::Whole(known);
            return Ok(true);
        }
        Gathered::Whole(known) => Some(known),
        _ => None,
    };
    let dir = adopter.gathering(PartitionId(checkpoint.partition));
    let (into, files) = (dir.clone(), wanted.files.clone());
    let missing = blocking(move || make_ready(&into, known, &files)).await?;
    let fetched = futures_util::stream::iter(missing)
        .map(|missing| missing.fetch(blobs))
        .buffer_unordered(AT_ONCE)
        .try_fold(true, async |all, fetched| Ok(all && fetched))
        .await?;
    if !fetched {
        return Ok(false);
    }
    let files: Vec<PathBuf> = wanted
        .files
        .iter()
        .map(|file| dir.join(&file.name))
        .collect();
    blocking(move || files.iter().try_for_each(|path| sync(path))).await?;
    *gathered = Gathered::Whole(wanted);
    Ok(true)
}

/// A piece that is to be fetched.
struct Missing {
    path: PathBuf,
    offset: u64,
    piece: Piece,
}

impl Missing {
    async fn fetch(self, blobs: &Blobs) -> Result<bool, CrawlError> {
        let bytes = blobs.get(&self.piece.key).await;
        let Some(bytes) = bytes.filter(|bytes| bytes.len() as u64 == self.piece.bytes) else {
            return Ok(false);
        };
        blocking(move || write(&self.path, self.offset, &bytes)).await?;
        Ok(true)
    }
}

/// Removes from `dir` what does not belong to the checkpoint, and says which pieces are missing.
fn make_ready(
    dir: &Path,
    known: Option<StoredCheckpoint>,
    files: &[StoredFile],
) -> Result<Vec<Missing>, CrawlError> {
    let known = match known {
        Some(known) => known.files,
        None => {
            match fs::remove_dir_all(dir) {
                Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                    return Err(at(dir)(error));
                }
                _ => fs::create_dir_all(dir).map_err(at(dir))?,
            }
            Vec::new()
        }
    };
    let named: HashSet<&str> = files.iter().map(|file| file.name.as_str()).collect();
    for file in known
        .iter()
        .filter(|file| !named.contains(file.name.as_str()))
    {
        let path = dir.join(&file.name);
        fs::remove_file(&path).map_err(at(&path))?;
    }
    let mut missing = Vec::new();
    for file in files {
        let same = known.iter().find(|known| known.name == file.name);
        let same = same.map_or(&[][..], |known| &known.pieces);
        let same = same.iter().zip(&file.pieces);
        let same = same.take_while(|(known, wanted)| known == wanted).count();
        let mut offset: u64 = file.pieces[..same].iter().map(|piece| piece.bytes).sum();
        let path = dir.join(&file.name);
        let opened = OpenOptions::new()
            .create(true)
            .truncate(false)
            .write(true)
            .open(&path);
        opened
            .and_then(|opened| opened.set_len(offset))
            .map_err(at(&path))?;
        for piece in &file.pieces[same..] {
            missing.push(Missing {
                path: path.clone(),
                offset,
                piece: piece.clone(),
            });
            offset += piece.bytes;
        }
    }
    Ok(missing)
}

fn write(path: &Path, offset: u64, bytes: &Bytes) -> Result<(), CrawlError> {
    let opened = OpenOptions::new().write(true).open(path);
    opened
        .and_then(|file| file.write_all_at(bytes, offset))
        .map_err(at(path))
}

fn sync(path: &Path) -> Result<(), CrawlError> {
    let opened = File::open(path);
    opened.and_then(|file| file.sync_all()).map_err(at(path))
}

fn at(path: &Path) -> impl Fn(std::io::Error) -> CrawlError {
    move |source| CrawlError::File {
        path: path.to_owned(),
        source,
    }
}
