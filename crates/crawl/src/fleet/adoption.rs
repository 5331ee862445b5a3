//! Takes partitions over: folds what was shipped of them, sends again what they forward, and plants their seeds where
//! nobody has had them before.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use portolan_fleet::{Commit, Epoch};
use portolan_model::{LinkBatch, PartitionId};
use portolan_registry::{Adopter, Adoption, Chunk, Entry, Forwarded};
use tokio::sync::oneshot;

use super::agent::Agent;
use super::hearing;
use super::sending::publish;
use crate::commit::ToArchivist;
use crate::error::CrawlError;

/// A partition that is to be taken over.
#[derive(Clone, Copy, Debug)]
pub(super) struct Wanted {
    pub(super) partition: PartitionId,
    pub(super) epoch: Epoch,
    /// What was shipped of it is in the ship log up to here.
    pub(super) log_end: u64,
}

/// The registry's end for partitions that come. Held by the one who takes some over.
pub(super) struct Gate {
    pub(super) adopter: Adopter,
    pub(super) log: super::log_index::LogIndex,
}

/// One of several that are taken over together, because the same chunks have entries of them.
struct Coming {
    wanted: Wanted,
    adoption: Adoption,
    cursor: u64,
}

/// Takes all of them over, one after the other where it matters.
pub(super) async fn adopt(
    agent: &Arc<Agent>,
    gate: &mut Gate,
    wanted: Vec<Wanted>,
) -> Result<(), CrawlError> {
    let end = wanted.iter().map(|wanted| wanted.log_end).max();
    gate.log.read_to(end.unwrap_or(0)).await;
    let mut coming = Vec::new();
    let mut chunks: BTreeMap<u64, Arc<Commit>> = BTreeMap::new();
    for wanted in wanted {
        if agent.epoch_of(wanted.partition).is_some() {
            continue;
        }
        let (commits, cursor) = gate.log.of(wanted.partition, wanted.log_end);
        for (place, commit) in commits {
            chunks.insert(place, commit);
        }
        gate.adopter.prepare(wanted.partition)?;
        let adoption = gate
            .adopter
            .begin(wanted.partition, agent.shared.now_ms())?;
        coming.push(Coming {
            wanted,
            adoption,
            cursor,
        });
    }
    for commit in chunks.into_values() {
        let chunk = fetch(agent, &commit).await?;
        let folded;
        (coming, folded) = blocking(move || fold(coming, &chunk)).await?;
        publish(agent, folded).await?;
    }
    for one in coming {
        finish(agent, one).await?;
    }
    Ok(())
}

async fn fetch(agent: &Agent, commit: &Commit) -> Result<Chunk, CrawlError> {
    let key = &commit.journal;
    let Some(bytes) = agent.fleet.blobs().get(key).await else {
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
) -> Result<(Vec<Coming>, Vec<Forwarded>), CrawlError> {
    let mut folded = Vec::new();
    for one in &mut coming {
        folded.extend(one.adoption.fold(chunk)?);
    }
    Ok((coming, folded))
}

async fn finish(agent: &Arc<Agent>, coming: Coming) -> Result<(), CrawlError> {
    let Coming {
        wanted,
        adoption,
        cursor,
    } = coming;
    let Wanted {
        partition, epoch, ..
    } = wanted;
    let adopted = blocking(move || Ok(adoption.finish()?)).await?;
    let entries = adopted.applied();
    // Nothing of it was ever settled: whoever had it before never was.
    let seeds = match entries {
        0 => agent.seeds_of(partition),
        _ => Vec::new(),
    };
    if let Some(desk) = agent.membership.desk()
        && entries > 0
    {
        // Whoever had it may have granted hosts of it.
        desk.hold(partition);
    }
    agent.note_adopted(partition, epoch, cursor);
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
    tracing::info!(partition = partition.0, epoch, entries, "partition adopted");
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
