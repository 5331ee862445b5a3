//! What can stop a crawl, in one sentence each.

use std::path::PathBuf;

use portolan_archive::ArchiveError;
use portolan_fleet::FleetError;
use portolan_registry::RegistryError;

use crate::scope::ScopeError;
use crate::settings::SettingsError;

#[derive(Debug, thiserror::Error)]
pub enum CrawlError {
    /// The person has to change something; nothing was started.
    #[error("{0}")]
    Input(String),
    /// There is nothing to look at or to go on with: nobody began a crawl in this directory.
    #[error("{} holds no crawl", .0.display())]
    NoCrawl(PathBuf),
    /// A crawl is not begun in a directory that holds other things.
    #[error("{} is not empty and holds no crawl", .0.display())]
    OtherThings(PathBuf),
    /// The crawl has to go on before anything can be said of it.
    #[error("the crawl in {} was stopped before it began, so that nothing is known yet", .0.display())]
    NotBegun(PathBuf),
    /// The crawl has to go on: then it is divided anew, and nothing is lost.
    #[error("the crawl in {} was stopped while it was divided anew; nothing is lost", .0.display())]
    HalfDivided(PathBuf),
    /// Where no page was fetched there is none to keep fresh: the crawl has to run first.
    #[error("the crawl in {} has fetched no page yet, so there is none to keep fresh", .0.display())]
    NothingFetched(PathBuf),
    /// What could be read of the payload was written; the bytes that are stored may tell more.
    #[error("the payload is broken where it should be {0}: this is what could be read of it")]
    BrokenPayload(String),
    /// The fleet, its servers or its store are not what the person said.
    #[error(transparent)]
    NoFleet(FleetError),
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
