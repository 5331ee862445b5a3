//! A registry that nobody crawls by: it folds what was shipped of a fleet's crawl, so that the crawl can be looked into
//! from a machine that is none of its nodes. It has no journal; a [`crate::Snapshot`] reads its checkpoints.

use crate::adopt::{Adopter, Adoption};
use crate::error::{At, Result};
use crate::files::{make_dir, replace_file};
use crate::lock::DirLock;
use crate::merger::Mergers;
use crate::meta::settle_meta;
use crate::registry::{Opener, partition_dir};
use crate::settings::RegistrySettings;
use portolan_model::PartitionId;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

/// Says that a registry's directory is a mirror.
const MARK: &str = "mirror";

/// A mirror, open for whoever brings it up to date.
#[derive(Debug)]
pub struct Mirror {
    adopter: Arc<Adopter>,
}

impl Mirror {
    /// Opens the mirror in `dir`, or makes one there. One process at a time; `settings` are those of the crawl's nodes.
    pub fn open(dir: &Path, settings: &RegistrySettings) -> Result<Self> {
        make_dir(dir)?;
        let lock = Arc::new(DirLock::take(dir)?);
        let meta = settle_meta(dir, settings)?;
        replace_file(dir, MARK, b"portolan mirror\n")?;
        let settings = RegistrySettings {
            partitions: meta.partitions,
            shipped_frames: Some(0),
            ..settings.clone()
        };
        let mergers = Mergers::start(settings.partitions, Some(lock)).at(dir)?;
        let opener = Opener {
            dir: dir.to_path_buf(),
            settings,
            mergers,
            journal_bytes: Arc::new(AtomicU64::new(0)),
        };
        Ok(Self {
            // Nothing is asked for here.
            adopter: Arc::new(Adopter::new(opener, 0)?),
        })
    }

    /// Makes an empty partition where there is none, for whoever reads all of them.
    pub fn make_partition(&self, id: PartitionId) -> Result<()> {
        make_dir(&partition_dir(self.adopter.registry(), id.0))
    }

    /// Opens a partition as it was left. Fold into it what was shipped since, and `finish`: until then nothing has
    /// changed.
    pub fn begin(&self, id: PartitionId, now_ms: u64) -> Result<Adoption> {
        self.make_partition(id)?;
        self.adopter.begin(id, now_ms)
    }

    /// For a partition that is to begin from a checkpoint: see `Adopter::prepare`.
    pub fn adopter(&self) -> &Arc<Adopter> {
        &self.adopter
    }
}

/// Has it no journal?
pub(crate) fn is_mirror(dir: &Path) -> bool {
    dir.join(MARK).exists()
}
