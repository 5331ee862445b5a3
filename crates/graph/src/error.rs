//! What can go wrong, each with the file and line, or the argument, at fault.

use std::io;
use std::path::{Path, PathBuf};

use portolan_registry::RegistryError;

#[derive(Debug, thiserror::Error)]
pub enum GraphError {
    #[error("{}: {source}", path.display())]
    Io { path: PathBuf, source: io::Error },
    /// A text file says something that cannot be.
    #[error("{}, line {line}: {what}", path.display())]
    Input {
        path: PathBuf,
        line: u64,
        what: String,
    },
    /// A binary file is cut, changed, or not what its name says.
    #[error("{}: {what}", path.display())]
    Damaged { path: PathBuf, what: String },
    /// What was asked for cannot be done with this graph.
    #[error("{0}")]
    Request(String),
    #[error(transparent)]
    Registry(#[from] RegistryError),
}

pub type Result<T> = std::result::Result<T, GraphError>;

impl GraphError {
    pub(crate) fn io(path: &Path) -> impl FnOnce(io::Error) -> Self {
        let path = path.to_path_buf();
        move |source| Self::Io { path, source }
    }

    pub(crate) fn input(path: &Path, line: u64, what: impl Into<String>) -> Self {
        Self::Input {
            path: path.to_path_buf(),
            line,
            what: what.into(),
        }
    }

    pub(crate) fn damaged(path: &Path, what: impl Into<String>) -> Self {
        Self::Damaged {
            path: path.to_path_buf(),
            what: what.into(),
        }
    }
}
