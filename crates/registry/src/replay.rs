//! Folding the journal when a registry is opened: it is read once, and each partition folds what is tagged with its
//! number. Partitions fold side by side, on as many threads as there are processors.

use crate::error::{At, RegistryError, Result};
use crate::log::{Commit, Entry, JournalEnd, JournalReader};
use crate::partition::Partition;
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, sync_channel};
use std::thread;

/// Commits that are read and not folded by all yet: they bound the RAM that a replay takes.
const COMMITS_AHEAD: usize = 4;

/// Brings `partitions` to the end of the journal in `dir`.
pub(crate) fn replay(
    partitions: &mut [Partition],
    mut reader: JournalReader,
    dir: &Path,
) -> Result<JournalEnd> {
    let processors = thread::available_parallelism().map_or(1, |number| number.get());
    let threads = processors.min(partitions.len()).max(1);
    let mut groups: Vec<BTreeMap<u16, &mut Partition>> = Vec::new();
    groups.resize_with(threads, BTreeMap::new);
    for (at, partition) in partitions.iter_mut().enumerate() {
        groups[at % threads].insert(partition.id().0, partition);
    }
    thread::scope(|scope| {
        let (mut commits, mut folders) = (Vec::new(), Vec::new());
        for mut group in groups {
            let (sender, receiver) = sync_channel::<Arc<Commit>>(COMMITS_AHEAD);
            let fold = move || fold_all(&mut group, &receiver);
            let folder = thread::Builder::new().spawn_scoped(scope, fold);
            folders.push(folder.at(dir)?);
            commits.push(sender);
        }
        let read = loop {
            match reader.next() {
                Ok(None) => break Ok(()),
                Err(error) => break Err(error),
                Ok(Some(commit)) => {
                    let commit = Arc::new(commit);
                    let given = commits.iter().all(|to| to.send(commit.clone()).is_ok());
                    if !given {
                        // A partition could not fold; its thread says why.
                        break Ok(());
                    }
                }
            }
        };
        drop(commits);
        for folder in folders {
            folder.join().map_err(|_| RegistryError::MergerDied)??;
        }
        read
    })?;
    Ok(reader.end())
}

fn fold_all(
    group: &mut BTreeMap<u16, &mut Partition>,
    commits: &Receiver<Arc<Commit>>,
) -> Result<()> {
    for commit in commits {
        let known = group.iter().map(|(&id, p)| (id, p.applied())).collect();
        fold_commit(&commit, &known, |id, seq, entry| {
            let Some(partition) = group.get_mut(&id) else {
                return Ok(());
            };
            partition.apply(seq, entry)?;
            partition.tend(false)
        })?;
    }
    Ok(())
}

/// Has `fold` fold what a commit holds for the partitions in `known`, beyond the last entry that each knows.
pub(crate) fn fold_commit(
    commit: &Commit,
    known: &BTreeMap<u16, u64>,
    mut fold: impl FnMut(u16, u64, &Entry) -> Result<()>,
) -> Result<()> {
    for item in commit.entries(|id| known.get(&id.0).copied()) {
        let (id, seq, entry) = item?;
        fold(id.0, seq, &entry)?;
    }
    Ok(())
}
