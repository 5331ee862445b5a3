//! Takes partitions over: lays out their newest checkpoints, folds what was shipped since, sends again what they forward, and plants their seeds where
//! nobody has had them before.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use futures_util::{StreamExt, TryStreamExt};
use portolan_fleet::{Commit, Epoch, StoredCheckpoint};
use portolan_model::{LinkBatch, PartitionId};
use portolan_registry::{Adopter, Adoption, Chunk, Entry, Outbound};
use tokio::sync::oneshot;
use tokio::time::Instant;

use super::agent::Agent;
use super::sending::publish;
use super::{gather, hearing};
use crate::commit::ToArchivist;
use crate::error::CrawlError;

/// Partitions, and chunks, that are fetched or written at once.
pub(super) const AT_ONCE: usize = 3;

/// A partition that is to be taken over.
#[derive(Clone, Copy, Debug)]
pub(super) struct Wanted {
    pub(super) partition: PartitionId,
    pub(super) epoch: Epoch,
    /// What was shipped of it is in the ship log up to here.
    pub(super) log_end: u64,
}

/// One of several that are taken over together, because the same chunks have entries of them.
struct Coming {
    wanted: Wanted,
    adoption: Adoption,
    cursor: u64,
    /// The checkpoint that it begins with, and its key.
    stored: Option<(StoredCheckpoint, String)>,
}

/// Takes all of them over, one after the other where it matters.
pub(super) async fn adopt(
    agent: &Arc<Agent>,
    adopter: &Arc<Adopter>,
    wanted: Vec<Wanted>,
) -> Result<(), CrawlError> {
    let end = wanted.iter().map(|wanted| wanted.log_end).max();
    let wanted = wanted.into_iter();
    let new = wanted.filter(|wanted| agent.epoch_of(wanted.partition).is_none());
    let unavailable = |error: portolan_fleet::FleetError| CrawlError::Fleet(error.to_string());
    let (begun, mut chunks) = (Instant::now(), BTreeMap::new());
    let mut laid = Vec::new();
    {
        let mut log = agent.log.lock().await;
        log.read_to(end.unwrap_or(0)).await.map_err(unavailable)?;
        for wanted in new {
            let (partition, ledger) = (wanted.partition, log.ledger());
            let checkpoints: Vec<_> = ledger.checkpoints_of(partition).cloned().collect();
            let since = ledger.commits_after(partition, 0);
            laid.push((wanted, checkpoints, since, ledger.last_of(partition).1));
        }
    }
    let laid =
        futures_util::stream::iter(laid).map(async |(wanted, checkpoints, since, cursor)| {
            let stored = gather::lay(agent, adopter, wanted.partition, checkpoints).await?;
            let (adopter, now_ms) = (Arc::clone(adopter), agent.shared.now_ms());
            let begin = move || Ok(adopter.begin(wanted.partition, now_ms)?);
            let adoption = blocking(begin).await?;
            let coming = Coming {
                wanted,
                adoption,
                cursor,
                stored,
            };
            Ok::<_, CrawlError>((coming, since))
        });
    let laid: Vec<_> = laid.buffer_unordered(AT_ONCE).try_collect().await?;
    let mut coming = Vec::new();
    for (one, since) in laid {
        let applied = one.adoption.applied();
        let of = |commit: &Commit| {
            let mut named = commit.partitions.iter();
            named.any(|it| it.id() == one.wanted.partition && it.to_seq > applied)
        };
        chunks.extend(since.into_iter().filter(|(_, commit)| of(commit)));
        coming.push(one);
    }
    let (partitions, chunks_read) = (coming.len(), chunks.len());
    let fetched = futures_util::stream::iter(chunks.into_values());
    let fetched = fetched.map(async |commit| fetch(agent, &commit).await);
    let mut fetched = std::pin::pin!(fetched.buffered(AT_ONCE));
    while let Some(chunk) = fetched.next().await {
        let chunk = chunk?;
        let folded;
        (coming, folded) = blocking(move || fold(coming, &chunk)).await?;
        publish(agent, folded).await?;
    }
    let has_clients = agent.fleet.has_clients().await.map_err(unavailable)?;
    let finished = futures_util::stream::iter(coming);
    let finished = finished
        .map(|one| finish(agent, one, has_clients))
        .buffer_unordered(AT_ONCE);
    finished.try_collect::<()>().await?;
    let ms = begun.elapsed().as_millis() as u64;
    tracing::info!(partitions, chunks_read, ms, "partitions taken over");
    Ok(())
}

async fn fetch(agent: &Agent, commit: &Commit) -> Result<Chunk, CrawlError> {
    let key = &commit.journal;
    let Some(bytes) = agent.fleet.blobs().get(key).await else {
        gather::check_not_fenced(agent).await?;
        return Err(CrawlError::Fleet(format!(
            "{key} is missing from {}, and partitions that it has entries of cannot be taken over; put it back from a copy",
            agent.fleet.blobs().place()
        )));
    };
    Ok(Chunk::read(bytes.to_vec(), Path::new(key))?)
}

fn fold(
    mut coming: Vec<Coming>,
    chunk: &Chunk,
) -> Result<(Vec<Coming>, Vec<Outbound>), CrawlError> {
    let mut folded = Vec::new();
    for one in &mut coming {
        folded.extend(one.adoption.fold(chunk)?);
    }
    Ok((coming, folded))
}

async fn finish(agent: &Arc<Agent>, coming: Coming, has_clients: bool) -> Result<(), CrawlError> {
    let Coming {
        wanted,
        adoption,
        cursor,
        stored,
    } = coming;
    let Wanted {
        partition, epoch, ..
    } = wanted;
    let adopted = blocking(move || Ok(adoption.finish()?)).await?;
    let entries = adopted.applied();
    let from_checkpoint = stored.as_ref().map_or(0, |(stored, _)| stored.seq);
    // Nothing of it was ever settled: whoever had it before never was.
    let seeds = match entries {
        0 => agent.seeds_of(partition),
        _ => Vec::new(),
    };
    if let Some(desk) = agent.membership.desk()
        && epoch > 1
    {
        // Whoever had it may have granted hosts of it, even if nothing was shipped.
        desk.hold(partition, has_clients);
    }
    agent.note_adopted(partition, epoch, cursor, stored);
    let (done, adopted_by_journal) = oneshot::channel();
    let told = ToArchivist::Adopt {
        partition: Box::new(adopted),
        seeds,
        done,
    };
    if !agent.membership.tell_archivist(told).await || adopted_by_journal.await.is_err() {
        // The crawl ends.
        return Ok(());
    }
    tracing::info!(
        partition = partition.0,
        epoch,
        entries,
        from_checkpoint,
        "partition adopted"
    );
    agent.node.adopted(partition, epoch);
    hearing::begin(agent, partition, cursor);
    Ok(())
}

impl Agent {
    /// The seeds of a partition, as entries of it.
    fn seeds_of(&self, partition: PartitionId) -> Vec<Entry> {
        let mut admission = self.shared.admission(self.canonicalizer.clone());
        let scope = self.shared.scope();
        let mut links = LinkBatch::new(None);
        links.set_vote(admission.vote_of_seeds(self.seeds.len()));
        for seed in &self.seeds {
            let admitted = admission.seed(&scope, seed);
            if admitted.owner == partition {
                links.push(admitted.link);
            }
        }
        match links.is_empty() {
            true => Vec::new(),
            false => vec![Entry::Links {
                source: None,
                links,
            }],
        }
    }
}

/// What takes long or waits for the disk.
pub(super) async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, CrawlError> + Send + 'static,
) -> Result<T, CrawlError> {
    let worked = tokio::task::spawn_blocking(work).await;
    worked.unwrap_or_else(|_| {
        Err(CrawlError::Internal(
            "a part of the node's agent died".to_owned(),
        ))
    })
}
