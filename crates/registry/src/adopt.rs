//! Taking a partition over from another node of a fleet while the crawl goes on: its files are laid out, what was shipped
//! since is folded, and the whole becomes a checkpoint before the journal has its first entry for it.

use crate::error::{At, RegistryError, Result};
use crate::files::{make_dir, sync_dir};
use crate::log::{Chunk, Durable, Forwarded};
use crate::manifest::Manifest;
use crate::partition::Partition;
use crate::registry::{Opener, partition_dir};
use portolan_model::PartitionId;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Takes partitions in. Made by `Registry::open` in a fleet.
#[derive(Debug)]
pub struct Adopter {
    opener: Opener,
    run_ms: u64,
}

/// A partition on its way into this registry. Dropped, it leaves nothing that counts.
#[derive(Debug)]
pub struct Adoption {
    partition: Partition,
    durable: Arc<Durable>,
    now_ms: u64,
    run_ms: u64,
}

/// Where files of partitions are gathered that may come.
fn coming_dir(registry: &Path) -> PathBuf {
    registry.join("coming")
}

impl Adopter {
    pub(crate) fn new(opener: Opener, run_ms: u64) -> Result<Self> {
        let coming = coming_dir(&opener.dir);
        match fs::remove_dir_all(&coming) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error).at(&coming),
            _ => Ok(Self { opener, run_ms }),
        }
    }

    /// The registry's directory.
    pub(crate) fn registry(&self) -> &Path {
        &self.opener.dir
    }

    /// Empties the directory of a partition that is not held, and says where it is: the files of a checkpoint may be laid
    /// there before `begin`.
    pub fn prepare(&self, id: PartitionId) -> Result<PathBuf> {
        let settings = &self.opener.settings;
        if id.0 >= settings.partitions {
            return Err(RegistryError::NoPartition(id.0));
        }
        let dir = partition_dir(&self.opener.dir, id.0);
        match fs::remove_dir_all(&dir) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error).at(&dir),
            _ => make_dir(&dir)?,
        }
        Ok(dir)
    }

    /// Where the files of a partition that may come can be gathered beforehand; `take` has them used. What was gathered
    /// before the registry was opened is gone.
    pub fn gathering(&self, id: PartitionId) -> PathBuf {
        coming_dir(&self.opener.dir).join(format!("p{:02}", id.0))
    }

    /// Has what was gathered for a partition take the place of its directory, instead of `prepare`.
    pub fn take(&self, id: PartitionId) -> Result<()> {
        let dir = self.prepare(id)?;
        let gathered = self.gathering(id);
        fs::rename(&gathered, &dir).at(&gathered)?;
        sync_dir(&self.opener.dir)
    }

    /// Opens what has been laid out, or an empty partition. All its hosts wait their delay from `now_ms` on: nobody knows what was
    /// asked of them last.
    pub fn begin(&self, id: PartitionId, now_ms: u64) -> Result<Adoption> {
        let dir = partition_dir(&self.opener.dir, id.0);
        let manifest = Manifest::read(&dir)?.unwrap_or_default();
        let journal_bytes = self.opener.journal_bytes.clone();
        let durable = Arc::new(Durable::new(manifest.seq, journal_bytes));
        let partition = self
            .opener
            .open(id, manifest, durable.clone(), now_ms, true)?;
        Ok(Adoption {
            partition,
            durable,
            now_ms,
            run_ms: self.run_ms,
        })
    }
}

impl Adoption {
    /// The last entry that is folded.
    pub fn applied(&self) -> u64 {
        self.partition.applied()
    }

    /// Folds the partition's entries of a chunk. One that is missing before them is an error, and what is known already is
    /// passed over. Returns what they forward to others, which may not have arrived: it is to be sent again, and
    /// acknowledged before `finish`.
    pub fn fold(&mut self, chunk: &Chunk) -> Result<Vec<Forwarded>> {
        let (id, known) = (self.partition.id(), self.applied());
        for item in chunk.entries_of(id, known) {
            let (seq, entry) = item?;
            self.partition.apply(seq, &entry)?;
            self.partition.tend(false)?;
        }
        chunk.forwards(|source| (source == id).then_some(known))
    }

    /// Everything that was shipped is folded, and everything that it forwards has been acknowledged. Writes the checkpoint from which
    /// this registry goes on; `Journal::adopt` takes the partition in.
    pub fn finish(mut self) -> Result<Partition> {
        self.durable.settle(self.partition.applied());
        self.partition.join_all_inline()?;
        self.partition.flush()?;
        let after_all = self.partition.latest_ms().saturating_add(1);
        self.partition.opened_at(self.now_ms.max(after_all));
        self.partition.joins_run(self.run_ms);
        Ok(self.partition)
    }
}
