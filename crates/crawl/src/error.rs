//! What can stop a crawl, in one sentence each.

use std::path::PathBuf;

use portolan_archive::ArchiveError;
use portolan_registry::RegistryError;

use crate::scope::ScopeError;
use crate::settings::SettingsError;

#[derive(Debug, thiserror::Error)]
pub enum CrawlError {
    /// The person has to change something; nothing was started.
    #[error("{0}")]
    Input(String),
    #[error("{path}: {source}")]
    File {
        path: PathBuf,
        source: std::io::Error,
    },
    #[error(transparent)]
    Archive(#[from] ArchiveError),
    #[error("{0}")]
    Registry(#[from] RegistryError),
    /// This node's life in its fleet is over: what it had not shipped has never happened. It may join anew.
    #[error("the fleet goes on without this node: {0}")]
    Fenced(String),
    /// What the fleet's servers or its store hold is not what was put there.
    #[error("{0}")]
    Fleet(String),
    /// A person stopped it before the crawl ran.
    #[error("{0}")]
    Stopped(String),
    /// A part of the crawler died; the crawl stops rather than going on without it.
    #[error("internal error: {0}; please report it, the crawl can be resumed")]
    Internal(String),
}

impl From<SettingsError> for CrawlError {
    fn from(error: SettingsError) -> Self {
        CrawlError::Input(error.to_string())
    }
}

impl From<ScopeError> for CrawlError {
    fn from(error: ScopeError) -> Self {
        CrawlError::Input(error.to_string())
    }
}
