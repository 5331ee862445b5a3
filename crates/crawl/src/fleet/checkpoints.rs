//! Puts checkpoints of this node's partitions into the store, one after the other and not faster than a bound, and tells
//! of them in the ship log. A checkpoint holds only what was shipped, so that its loss would cost nothing but time.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use portolan_fleet::{Checkpoint, Epoch, ShipError, ShipRecord, StoredCheckpoint, Upload};
use portolan_model::PartitionId;
use portolan_registry::checkpoint_files;
use tokio::time::Instant;

use super::adoption::blocking;
use super::agent::{Agent, Matter};
use super::upload::{Putting, upload};
use crate::error::CrawlError;

const LOOK_EVERY: Duration = Duration::from_millis(100);
const TRY_AGAIN: Duration = Duration::from_millis(500);
/// Partitions that write a checkpoint at once because they were asked for one.
const ASKED_AT_ONCE: usize = 4;
/// A partition that was asked for a checkpoint and wrote none is asked again after this time.
const ASKED: Duration = Duration::from_secs(30);
/// A checkpoint is told of twice: then it is the newest one and the one before it, and nothing older is needed.
const TELLS: u32 = 2;
/// Before a partition goes, its next holder is waited for so long to have the checkpoint.
const PREPARE: Duration = Duration::from_secs(90);
/// A partition is taken over in no time if its checkpoint is smaller, and if no more entries have come since.
const SMALL_BYTES: u64 = 4 << 20;
const FEW_ENTRIES: u64 = 10_000;

/// What the store has of the partitions that are here.
#[derive(Debug)]
pub(super) struct Checkpoints {
    pub(super) registry: PathBuf,
    /// Held while one is told of, and while a partition is let go: none is told of a partition that has gone.
    telling: tokio::sync::Mutex<()>,
    kept: Mutex<BTreeMap<PartitionId, Kept>>,
    /// Bytes and objects that were put into the store.
    put: (AtomicU64, AtomicU64),
    /// Those that are to go as soon as a checkpoint of them is there.
    hurried: Mutex<BTreeSet<PartitionId>>,
}

/// What the store has of a partition.
#[derive(Clone, Debug)]
struct Kept {
    /// Under which it is here.
    epoch: Epoch,
    /// The checkpoint that was told of last, or that the partition came with.
    stored: Arc<StoredCheckpoint>,
    /// When that was, and how often.
    told: Instant,
    tells: u32,
    /// Its key; empty for one that the partition came with.
    manifest: String,
    /// Up to which entry a checkpoint was asked for, and when.
    asked: Option<(u64, Instant)>,
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Checkpoints {
    pub(super) fn new(registry: PathBuf) -> Self {
        Self {
            registry,
            telling: tokio::sync::Mutex::default(),
            kept: Mutex::default(),
            put: Default::default(),
            hurried: Mutex::default(),
        }
    }

    /// That were put into the store since the process began.
    pub(super) fn bytes(&self) -> u64 {
        self.put.0.load(Ordering::Relaxed)
    }

    /// A partition is here under an epoch, and its files are those of this checkpoint and newer ones.
    pub(super) fn begin(
        &self,
        partition: PartitionId,
        epoch: Epoch,
        from: Option<(StoredCheckpoint, String)>,
    ) {
        let (stored, manifest) = from.unwrap_or_default();
        let kept = Kept {
            epoch,
            stored: Arc::new(stored),
            told: Instant::now(),
            tells: 1,
            manifest,
            asked: None,
        };
        locked(&self.kept).insert(partition, kept);
    }

    fn of(&self, partition: PartitionId) -> Option<Kept> {
        locked(&self.kept).get(&partition).cloned()
    }

    fn change(&self, partition: PartitionId, epoch: Epoch, change: impl FnOnce(&mut Kept)) {
        let mut kept = locked(&self.kept);
        if let Some(kept) = kept.get_mut(&partition).filter(|kept| kept.epoch == epoch) {
            change(kept);
        }
    }

    /// Nothing more is told of a partition from now on.
    pub(super) async fn end(&self, partition: PartitionId, let_go: impl FnOnce()) {
        let _telling = self.telling.lock().await;
        let_go();
        locked(&self.kept).remove(&partition);
        locked(&self.hurried).remove(&partition);
    }
}

/// Keeps checkpoints of all partitions in the store, for as long as the node lives.
pub(super) async fn keep(agent: Arc<Agent>) {
    loop {
        for partition in agent.due_for_checkpoint() {
            if let Err(error) = agent.store_checkpoint(partition).await {
                match error {
                    CrawlError::Fenced(_) => return agent.end(error),
                    error => {
                        tracing::warn!(partition = partition.0, %error, "no checkpoint is put into the store");
                        tokio::time::sleep(TRY_AGAIN).await;
                    }
                }
            }
        }
        tokio::time::sleep(LOOK_EVERY).await;
    }
}

impl Agent {
    /// Asks for checkpoints where it is time, and says which are there.
    fn due_for_checkpoint(&self) -> Vec<PartitionId> {
        let settings = &self.shared.settings.fleet;
        let pause = Duration::from_secs(settings.checkpoint_s);
        let hurried = locked(&self.checkpoints.hurried).clone();
        let mut all = locked(&self.checkpoints.kept);
        let mut asked = all.values().filter(|kept| kept.asked.is_some()).count();
        let mut ready = Vec::new();
        for (&partition, kept) in all.iter_mut() {
            if self.epoch_of(partition) != Some(kept.epoch) {
                // It came back when the node was started again, and its epoch was learned only now.
                if let Some(epoch) = self.epoch_of(partition) {
                    (kept.epoch, kept.stored, kept.manifest) =
                        (epoch, Arc::default(), String::new());
                }
            }
            let (settled, there) = (
                self.settler.settled(partition),
                self.settler.checkpointed(partition),
            );
            let news = settled.saturating_sub(kept.stored.seq);
            let is_time = kept.told.elapsed() >= pause;
            let hurries = hurried.contains(&partition);
            match kept.asked {
                Some((seq, when)) if there >= seq || when.elapsed() > ASKED => {
                    ready.push(partition);
                }
                Some(_) => {}
                None if news == 0 && is_time && kept.tells < TELLS && !kept.manifest.is_empty() => {
                    ready.push(partition);
                }
                None if news > 0
                    && (hurries || is_time || news >= settings.checkpoint_entries)
                    && (hurries || asked < ASKED_AT_ONCE) =>
                {
                    self.settler.ask_for_checkpoint(partition);
                    kept.asked = Some((settled, Instant::now()));
                    asked += 1;
                }
                None => {}
            }
        }
        // Somebody waits for these.
        ready.sort_by_key(|partition| !hurried.contains(partition));
        ready
    }

    /// Puts what is new of a partition's newest checkpoint into the store, and tells of it.
    async fn store_checkpoint(&self, partition: PartitionId) -> Result<(), CrawlError> {
        let Some(kept) = self.checkpoints.of(partition) else {
            return Ok(());
        };
        let epoch = kept.epoch;
        let registry = self.checkpoints.registry.clone();
        let opened = blocking(move || Ok(checkpoint_files(&registry, partition)?)).await;
        if self.epoch_of(partition) != Some(epoch) {
            // It has gone meanwhile.
            return Ok(());
        }
        let now = Instant::now();
        let newer = opened?.filter(|opened| opened.seq > kept.stored.seq);
        let told = match newer {
            Some(opened) => {
                let at = Upload::new(partition, self.incarnation, epoch, opened.seq)
                    .map_err(|error| CrawlError::Fleet(error.to_string()))?;
                let rate = || match locked(&self.checkpoints.hurried).is_empty() {
                    true => self.shared.settings.fleet.checkpoint_mb_per_s << 20,
                    // Somebody waits.
                    false => 0,
                };
                let putting = Putting {
                    blobs: self.fleet.blobs(),
                    rate: &rate,
                    put: &self.checkpoints.put,
                };
                let stored = upload(&at, opened, &kept.stored, &putting).await?;
                Some((Arc::new(stored), at.manifest_key()))
            }
            None if kept.asked.is_none() && self.is_whole(&kept).await => {
                Some((kept.stored.clone(), kept.manifest.clone()))
            }
            None if kept.asked.is_none() => {
                // Everything is put there anew.
                self.checkpoints.begin(partition, epoch, None);
                return Ok(());
            }
            None => None,
        };
        let Some((stored, manifest)) = told else {
            self.checkpoints.change(partition, epoch, |kept| {
                (kept.asked, kept.told) = (None, now)
            });
            return Ok(());
        };
        let checkpoint = Checkpoint {
            incarnation: self.incarnation,
            partition: partition.0,
            epoch,
            seq: stored.seq,
            manifest: manifest.clone(),
            bytes: stored.bytes(),
        };
        if self.tell_checkpoint(checkpoint).await? {
            self.checkpoints.change(partition, epoch, |kept| {
                kept.tells = match kept.stored.seq == stored.seq {
                    true => kept.tells + 1,
                    false => 1,
                };
                (kept.stored, kept.manifest) = (stored, manifest);
                (kept.asked, kept.told) = (None, now);
            });
        }
        Ok(())
    }

    /// Has the store all of a checkpoint?
    async fn is_whole(&self, kept: &Kept) -> bool {
        let pieces = kept.stored.files.iter().flat_map(|file| &file.pieces);
        for piece in pieces {
            if self.fleet.blobs().bytes_of(&piece.key).await != Some(piece.bytes) {
                tracing::warn!(piece.key, "a piece of a checkpoint is missing");
                return false;
            }
        }
        self.fleet.blobs().bytes_of(&kept.manifest).await.is_some()
    }

    /// False if the partition has gone meanwhile.
    async fn tell_checkpoint(&self, checkpoint: Checkpoint) -> Result<bool, CrawlError> {
        let _telling = self.checkpoints.telling.lock().await;
        let (partition, seq) = (PartitionId(checkpoint.partition), checkpoint.seq);
        if self.epoch_of(partition) != Some(checkpoint.epoch) {
            return Ok(false);
        }
        let bytes = checkpoint.bytes;
        let record = ShipRecord::Checkpoint(checkpoint);
        loop {
            match self.node.ship(record.clone()).await {
                Ok(_) => break self.clear_trouble(Matter::ShipLog),
                Err(ShipError::Fenced(why)) => return Err(CrawlError::Fenced(why)),
                Err(ShipError::Unavailable(why)) => {
                    self.set_trouble(Matter::ShipLog, why);
                    tokio::time::sleep(TRY_AGAIN).await;
                }
            }
        }
        tracing::info!(
            partition = partition.0,
            seq,
            bytes,
            "checkpoint in the store"
        );
        Ok(true)
    }

    /// Before a partition goes: has the store, and then its next holder, have nearly all of it, while the crawl goes on
    /// here. Nobody waits for what takes no time.
    pub(super) async fn make_ready(&self, partition: PartitionId, epoch: Epoch, to: Option<&str>) {
        let until = Instant::now() + PREPARE;
        let waits = || Instant::now() < until && self.epoch_of(partition) == Some(epoch);
        let settled = self.settler.settled(partition);
        let stored = |stored: &Checkpoints| stored.of(partition).map(|kept| kept.stored);
        let known = stored(&self.checkpoints).unwrap_or_default();
        let few = FEW_ENTRIES.min(self.shared.settings.fleet.checkpoint_entries);
        if settled.saturating_sub(known.seq) < few && known.bytes() < SMALL_BYTES {
            return;
        }
        let Some(to) = to else {
            return;
        };
        locked(&self.checkpoints.hurried).insert(partition);
        let mut seq = known.seq;
        while settled.saturating_sub(seq) >= few && waits() {
            tokio::time::sleep(LOOK_EVERY).await;
            seq = stored(&self.checkpoints).map_or(0, |stored| stored.seq);
        }
        locked(&self.checkpoints.hurried).remove(&partition);
        while waits() {
            let prepared = self.fleet.prepared_by(to).await;
            if prepared
                .get(&partition.0)
                .is_some_and(|there| *there >= seq)
            {
                return;
            }
            tokio::time::sleep(TRY_AGAIN).await;
        }
        tracing::debug!(partition = partition.0, to, "it goes unprepared");
    }
}
