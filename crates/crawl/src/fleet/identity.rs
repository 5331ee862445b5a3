//! What a node's directory remembers of the fleet: which node it is, and which of its lives.

use std::fs::{File, TryLockError};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use portolan_fleet::{Definition, Incarnation};
use portolan_registry::Registry;
use serde::{Deserialize, Serialize};

use crate::crawl::REGISTRY_DIR;
use crate::directory::{make_dir, no_links, replace};
use crate::error::CrawlError;
use crate::sealed::{seal, unseal};

const FILE: &str = "node";
/// Held by the process whose directory it is.
const LOCK: &str = "lock";
/// The crawl's directory in the node's.
const CRAWL_DIR: &str = "crawl";

/// How soon a life of this process that has ended lets go of its registry, and how often that is looked for.
pub(super) const UNLOCKED_WITHIN: Duration = Duration::from_secs(60);
pub(super) const LOCK_LOOK: Duration = Duration::from_millis(100);

/// A node, as its directory knows it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Identity {
    pub(super) fleet: String,
    /// Of the fleet's definition.
    pub(super) checksum: String,
    pub(super) node: String,
    /// In hexadecimal digits: TOML's integers have a sign.
    incarnation: String,
    /// Whose WARC files are whose; known once it has joined.
    pub(super) number: Option<u16>,
}

impl Identity {
    pub(super) fn incarnation(&self) -> Incarnation {
        Incarnation::from_str_radix(&self.incarnation, 16).unwrap_or_default()
    }

    /// Makes the directory, and keeps other processes out of it until the file is closed. To be done before the fleet is
    /// joined: a second process on a directory would take the first one's lease.
    pub(super) fn lock(dir: &Path) -> Result<File, CrawlError> {
        make_dir(dir).map_err(|e| {
            CrawlError::Input(format!("{}: {e}; name another directory", dir.display()))
        })?;
        let path = dir.join(LOCK);
        let at = |source| CrawlError::File {
            path: path.clone(),
            source,
        };
        let mut options = no_links();
        let file = options.write(true).create(true).truncate(false).open(&path);
        let file = file.map_err(at)?;
        match file.try_lock() {
            Ok(()) => Ok(file),
            Err(TryLockError::WouldBlock) => Err(CrawlError::Input(format!(
                "{} is in use by a node that runs; end that one first, or name another directory",
                dir.display()
            ))),
            Err(TryLockError::Error(source)) => Err(at(source)),
        }
    }

    /// The node of this directory; a new one if it has none, or one that never joined.
    pub(super) fn open(dir: &Path, node: &str, fleet: &Definition) -> Result<Self, CrawlError> {
        match Self::read(dir)? {
            None => {
                let has_crawl = Self::crawl_dir(dir).exists();
                if has_crawl {
                    return Err(CrawlError::Input(format!(
                        "{} holds something that is no node of a fleet; name another directory",
                        dir.display()
                    )));
                }
                Self::begin(dir, node, fleet)
            }
            Some(known) if known.fleet != fleet.id => Err(CrawlError::Input(format!(
                "{} is of a node of another fleet; name another directory, or remove it",
                dir.display()
            ))),
            Some(known) if known.node != node => Err(CrawlError::Input(format!(
                "{} is node '{1}', not '{node}'; join as {1}, or name another directory",
                dir.display(),
                known.node
            ))),
            Some(known) if known.number.is_none() => Self::begin(dir, node, fleet),
            Some(known) => Ok(known),
        }
    }

    /// A new life: what the directory held is gone. Whatever counts of it was shipped.
    pub(super) fn begin(dir: &Path, node: &str, fleet: &Definition) -> Result<Self, CrawlError> {
        let crawl = Self::crawl_dir(dir);
        // A life of this process that was fenced may still be writing files of what it was taking over.
        let begun = Instant::now();
        while Registry::is_open(&crawl.join(REGISTRY_DIR)) && begun.elapsed() < UNLOCKED_WITHIN {
            std::thread::sleep(LOCK_LOOK);
        }
        match std::fs::remove_dir_all(&crawl) {
            Err(source) if source.kind() != std::io::ErrorKind::NotFound => {
                return Err(CrawlError::File {
                    path: crawl,
                    source,
                });
            }
            _ => {}
        }
        let mut drawn = [0; 8];
        getrandom::fill(&mut drawn).map_err(|e| {
            CrawlError::Internal(format!("the system gives no random numbers: {e}"))
        })?;
        let identity = Self {
            fleet: fleet.id.clone(),
            checksum: fleet.checksum(),
            node: node.to_owned(),
            incarnation: format!("{:016x}", u64::from_le_bytes(drawn)),
            number: None,
        };
        identity.write(dir)?;
        Ok(identity)
    }

    /// It has joined: its WARC files bear this number.
    pub(super) fn note_number(&mut self, dir: &Path, number: u16) -> Result<(), CrawlError> {
        self.number = Some(number);
        self.write(dir)
    }

    pub(super) fn crawl_dir(dir: &Path) -> PathBuf {
        dir.join(CRAWL_DIR)
    }

    fn write(&self, dir: &Path) -> Result<(), CrawlError> {
        let text = toml::to_string(self).map_err(|e| CrawlError::Internal(e.to_string()))?;
        replace(dir, FILE, seal(&text).as_bytes())
    }

    fn read(dir: &Path) -> Result<Option<Self>, CrawlError> {
        let path = dir.join(FILE);
        if !path.exists() {
            return Ok(None);
        }
        let sealed = crate::directory::read(&path)?;
        let text = unseal(
            &sealed,
            &path,
            "; remove the directory, and the node joins anew",
        )?;
        toml::from_str(text).map(Some).map_err(|e| {
            CrawlError::Input(format!("{}: {e}; remove the directory", path.display()))
        })
    }
}
