//! What goes wrong in the frontier itself, as opposed to with a call.

use std::net::SocketAddr;
use std::path::PathBuf;

/// Why the service could not begin, or had to end.
#[derive(Debug, thiserror::Error)]
pub enum FrontierError {
    /// The person has to change something; the sentence says what.
    #[error("{0}")]
    Input(String),
    /// Other machines can reach it, and neither has it a certificate nor was it said that the network is to be trusted.
    #[error(
        "{0} can be reached from other machines, and URLs would go over the network as plain text"
    )]
    PlainText(SocketAddr),
    /// The store could not be opened, read or written. After a write that failed, nothing more is written.
    #[error("the frontier's store in {dir}: {source}")]
    Store {
        /// The directory that the store is in.
        dir: PathBuf,
        /// What the store said.
        source: fjall::Error,
    },
    /// A record that no version of this program writes.
    #[error(
        "the frontier's store in {dir} has a damaged record of {what}; put a copy of the directory back"
    )]
    Damaged {
        /// The directory that the store is in.
        dir: PathBuf,
        /// What the record is of.
        what: &'static str,
    },
    /// The network said no.
    #[error("{0}")]
    Network(String),
    /// The thread that writes has ended, because of an error that was told where it happened.
    #[error("the frontier has stopped")]
    Stopped,
}
