//! Throws away what no partition needs: the beginning of the ship log, once a summary of it is in the store; chunks of
//! journals; pieces of checkpoints; and what was put into the store by nodes that were lost before they could tell of
//! it. WARC files stay.
//!
//! The coordinator's node does it. Two at once do no harm, nor does one that is late: see `Ledger`.

use super::Inner;
use crate::budget;
use crate::checkpoint::{CHECKPOINTS, JOURNALS, StoredCheckpoint};
use crate::error::FleetError;
use crate::fleet::{Fleet, ShipLog};
use crate::log_reader::{SUMMARIES, SummaryPlace, pack};
use crate::nats::{PATIENCE, patiently};
use crate::protocol::Ledger;
use crate::records::{ShipRecord, Shipped};
use crate::told::Copier;
use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;

/// Garbage is looked for this often at most, in leases.
const SWEEP_LEASES: u32 = 2;

struct Trimmer {
    fleet: Fleet,
    log: ShipLog,
    /// The newest summary, and the revision of its key.
    summary: Ledger,
    place: SummaryPlace,
    revision: u64,
    /// What came after it.
    tail: VecDeque<Shipped>,
    /// All of it.
    now: Ledger,
    /// What the newest checkpoints name, by the keys of their manifests.
    named: HashMap<String, Vec<String>>,
    /// Something was said since the last sweep that makes garbage.
    is_stale: bool,
}

impl Inner {
    /// Copies the ship log to the store, and trims it, for as long as this node coordinates.
    pub(super) async fn copy_and_trim(self: Arc<Self>) {
        let pause = Duration::from_millis(self.fleet.definition().lease_ms);
        let mut copier = Copier::new(self.fleet.clone());
        let (mut trimmer, mut swept) = (None, Instant::now());
        loop {
            match copier.copy().await {
                Ok(copied) => {
                    let sweeps = swept.elapsed() >= pause * SWEEP_LEASES;
                    if let Err(error) =
                        Trimmer::trim(&mut trimmer, &self.fleet, copied, sweeps).await
                    {
                        tracing::debug!(%error, "the ship log is not trimmed");
                        trimmer = None;
                    } else if sweeps {
                        swept = Instant::now();
                    }
                }
                Err(error) => tracing::debug!(%error, "the ship log was not copied to the store"),
            }
            tokio::time::sleep(pause).await;
        }
    }
}

impl Trimmer {
    async fn begin(fleet: &Fleet) -> Result<Self, FleetError> {
        let (revision, place, summary) = fleet.summary().await?;
        Ok(Self {
            log: fleet.ship_log(place.to + 1),
            fleet: fleet.clone(),
            now: summary.clone(),
            summary,
            place,
            revision,
            tail: VecDeque::new(),
            named: HashMap::new(),
            is_stale: true,
        })
    }

    /// One pass of `known`, or of one that begins. What is not copied stays in the log.
    async fn trim(
        known: &mut Option<Self>,
        fleet: &Fleet,
        copied: u64,
        sweeps: bool,
    ) -> Result<(), FleetError> {
        let trimmer = match known {
            Some(trimmer) => trimmer,
            None => known.insert(Self::begin(fleet).await?),
        };
        trimmer.read().await?;
        if fleet.definition().max_pages.is_some() {
            // Who is lost settles nothing itself.
            budget::settle(fleet.main(), trimmer.now.settled_pages()).await?;
        }
        if trimmer.is_stale {
            trimmer.summarize(copied).await?;
            if sweeps {
                trimmer.sweep().await?;
                trimmer.is_stale = false;
            }
        }
        Ok(())
    }

    /// All that is in the log now.
    async fn read(&mut self) -> Result<(), FleetError> {
        let end = self.fleet.ship_log_end().await?;
        while self.now.to() < end {
            let next = tokio::time::timeout(PATIENCE, self.log.next()).await;
            let Ok(shipped) = next else { break };
            self.now.fold(&shipped);
            self.is_stale |= matches!(
                shipped.record,
                ShipRecord::Checkpoint(_) | ShipRecord::Sealed { .. } | ShipRecord::Joined { .. }
            );
            self.tail.push_back(shipped);
        }
        // Whoever trims says so first: nothing was missed so far.
        self.has_not_changed().await
    }

    async fn has_not_changed(&mut self) -> Result<(), FleetError> {
        match self.fleet.summary_place().await {
            (revision, place) if place == self.place => {
                self.revision = revision;
                Ok(())
            }
            _ => Err(FleetError::Refused(
                "another node trims the ship log".to_owned(),
            )),
        }
    }

    /// Puts into the store what nobody needs word for word, and has it go from the log.
    async fn summarize(&mut self, copied: u64) -> Result<(), FleetError> {
        let (_, assignment) = self.fleet.assignment().await?;
        // A coordinator reads on from what the assignment accounts for, and who copies from what is copied.
        let to = (self.now.ground() - 1).min(assignment.log).min(copied);
        if to <= self.place.to {
            return Ok(());
        }
        while let Some(shipped) = self.tail.pop_front_if(|shipped| shipped.seq <= to) {
            self.summary.fold(&shipped);
        }
        let drawn = u64::from_le_bytes(crate::definition::random()?);
        let place = SummaryPlace {
            to: self.summary.to(),
            key: format!("{SUMMARIES}{:020}-{drawn:016x}", self.summary.to()),
        };
        let blobs = self.fleet.blobs();
        blobs.put(&place.key, pack(&self.summary).into()).await;
        if self.fleet.note_summary(&place, self.revision).await? {
            self.place = place;
        }
        self.has_not_changed().await?;
        tracing::info!(to, "the ship log is trimmed");
        self.purge().await
    }

    async fn purge(&self) -> Result<(), FleetError> {
        let bus = self.fleet.bus();
        let unavailable =
            |error: &dyn std::fmt::Display| FleetError::Unavailable(error.to_string());
        let stream = bus.js.get_stream_no_info(bus.names.ship_stream()).await;
        let stream = stream.map_err(|error| unavailable(&error))?;
        for (node, from) in self.now.trimmed_by(self.place.to) {
            patiently(|| async {
                let purge = stream
                    .purge()
                    .filter(bus.names.ship_subject(node))
                    .sequence(from);
                purge.await.map_err(|error| unavailable(&error)).map(drop)
            })
            .await?;
        }
        Ok(())
    }

    /// Deletes what is in the store and is needed by nobody.
    async fn sweep(&mut self) -> Result<(), FleetError> {
        let blobs = self.fleet.blobs().clone();
        let mut spent: Vec<String> = Vec::new();
        for object in blobs.list(JOURNALS).await {
            if self.now.is_spent_chunk(&object.key) {
                spent.push(object.key);
            }
        }
        // Listed first: what is put meanwhile is not in it.
        let listed = blobs.list(CHECKPOINTS).await;
        if let Some(named) = self.named().await {
            let pieces = listed.into_iter().map(|object| object.key);
            spent.extend(pieces.filter(|key| self.now.is_spent_piece(key, &named)));
        }
        for object in blobs.list(SUMMARIES).await {
            let to = object.key.strip_prefix(SUMMARIES);
            let to = to.and_then(|name| name.split('-').next()?.parse::<u64>().ok());
            if to.is_some_and(|to| to < self.place.to) {
                spent.push(object.key);
            }
        }
        if !spent.is_empty() {
            tracing::info!(
                objects = spent.len(),
                "what nobody needs goes from the store"
            );
        }
        for key in spent {
            blobs.delete(&key).await;
        }
        Ok(())
    }

    /// The objects that the newest checkpoints name. `None` if one of them cannot be read: then nothing is known to be
    /// garbage.
    async fn named(&mut self) -> Option<HashSet<String>> {
        let manifests: HashSet<String> = self
            .now
            .checkpoints()
            .map(|checkpoint| checkpoint.manifest.clone())
            .collect();
        self.named
            .retain(|manifest, _| manifests.contains(manifest));
        for manifest in &manifests {
            if self.named.contains_key(manifest) {
                continue;
            }
            let object = self.fleet.blobs().get(manifest).await;
            let Some(Ok(stored)) = object.map(|bytes| StoredCheckpoint::from_object(&bytes)) else {
                tracing::warn!(manifest, "a checkpoint cannot be read from the store");
                return None;
            };
            let files = stored.files.into_iter();
            let pieces = files.flat_map(|file| file.pieces).map(|piece| piece.key);
            self.named.insert(manifest.clone(), pieces.collect());
        }
        let pieces = self.named.values().flatten().cloned();
        Some(manifests.iter().cloned().chain(pieces).collect())
    }
}
