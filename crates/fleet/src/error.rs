//! What can go wrong between a person, the servers and the store: each is one sentence that names what is to be done.

use thiserror::Error;

/// Why a fleet cannot be made, found, joined or asked.
#[derive(Debug, Error)]
pub enum FleetError {
    #[error("no NATS server answers at {servers}: {why}")]
    NoServer { servers: String, why: String },
    #[error("the NATS server at {server} is {version}: 2.10 or later is needed")]
    OldServer { server: String, version: String },
    #[error("the NATS server at {0} has no JetStream for this account: start it with JetStream on")]
    NoJetStream(String),
    #[error(
        "{0} is not on this machine, and NATS would be spoken in plain text: certificates are needed, or leave to do without"
    )]
    PlainText(String),
    #[error("certificates for NATS: {0}")]
    Certificates(String),
    #[error("'{0}' is no address of a NATS server: nats://HOST:PORT or tls://HOST:PORT is wanted")]
    BadServer(String),
    #[error("'{name}' is no name for {what}: 1 to 48 letters, digits and '-' are wanted")]
    BadName { what: &'static str, name: String },
    #[error("there is a fleet '{0}' already")]
    Taken(String),
    #[error("there is a crawl '{0}' on the hub already")]
    CrawlTaken(String),
    #[error("the crawl's groups: {0}")]
    Groups(String),
    #[error("the hub, JetStream domain '{domain}', is not reached from these servers: {why}")]
    NoHub { domain: String, why: String },
    #[error("there is no fleet '{0}' on these servers")]
    Unknown(String),
    #[error(
        "'{0}' is no place for a store: a directory, file:///DIRECTORY or s3://BUCKET/PREFIX is wanted"
    )]
    BadStore(String),
    #[error("the store {store} cannot be written: {why}")]
    StoreNotWritable { store: String, why: String },
    #[error("the store {store} cannot be read: {why}")]
    StoreNotReadable { store: String, why: String },
    #[error("no fleet has anything in {0}")]
    NothingStored(String),
    #[error("{store} belongs to the fleet '{fleet}' already: name another place")]
    StoreTaken { store: String, fleet: String },
    #[error(
        "the fleet was made by a version of Portolan whose format is {theirs}, and this one's is {ours}"
    )]
    OtherFormat { theirs: u32, ours: u32 },
    #[error("the fleet's definition is damaged: {0}")]
    Damaged(String),
    #[error(
        "node '{node}' does not have the fleet's settings (its checksum {ours}, the fleet's {theirs})"
    )]
    OtherSettings {
        node: String,
        ours: String,
        theirs: String,
    },
    #[error("a node named '{0}' is in the fleet already: choose another name")]
    NodeInUse(String),
    #[error(
        "the fleet has taken the partitions of node '{0}' away while it was gone: it joins with nothing"
    )]
    Sealed(String),
    #[error("there is no node '{0}' in the fleet")]
    NoSuchNode(String),
    #[error(
        "the NATS servers have too little disk for the fleet's streams: give JetStream more (max_file_store), or the \
         fleet's links and log less"
    )]
    NoRoom,
    #[error("somebody else changed it meanwhile: try again")]
    Overtaken,
    #[error("NATS refuses: {0}")]
    Refused(String),
    #[error("NATS does not answer: {0}")]
    Unavailable(String),
    #[error(
        "the stream {stream} ends at {end}, before {cursor}: the servers have lost what they had acknowledged"
    )]
    Cut {
        stream: String,
        end: u64,
        cursor: u64,
    },
}

/// Why a record is not in the ship log.
#[derive(Debug, Error)]
pub enum ShipError {
    /// This incarnation has been sealed, or another one goes by its name. Nothing that it did since its last record
    /// counts, and no record of it will ever be taken again.
    #[error("fenced: {0}")]
    Fenced(String),
    /// It is not known whether the record arrived. Call again **with the same record** until there is another answer:
    /// a record that did arrive is recognised.
    #[error("the ship log does not answer: {0}")]
    Unavailable(String),
}

/// Why forwards were not acknowledged.
#[derive(Debug, Error)]
pub enum PublishError {
    /// The servers are away or the stream is full. Call again with the same forwards; those that did arrive are known
    /// to who hears them.
    #[error("the links' stream does not answer: {0}")]
    Unavailable(String),
}
