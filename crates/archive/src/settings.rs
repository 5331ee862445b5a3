//! Settings of the archive: plain data, read once.

use serde::{Deserialize, Serialize};

/// Sizes, names, compression, and what whoever commits wants to know. All fixed when the crawl starts.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ArchiveSettings {
    /// First part of every file name: letters, digits, `.`, `_` and `-`.
    pub prefix: String,
    /// The machine's name, the second part of every file name; empty where there is one machine only.
    pub node: String,
    /// The machine's number among those that crawl together: `FILES_A_NODE` file numbers are its own.
    pub node_number: u16,
    /// A file that has reached this size is closed and the next one begun.
    pub file_bytes: u64,
    /// So is a file that is this old when the next record comes; 0 is no limit.
    pub file_age_s: u64,
    /// How records lie in the files. A crawl may go on with another choice than it began with.
    pub compression: Compression,
    /// Deflate level 0 (stored) to 12 (slowest). Every level is libdeflate's.
    pub compression_level: u8,
    /// What waits to become durable is committed after this time, or when it has become this much.
    pub commit_ms: u64,
    pub commit_bytes: usize,
    /// Payloads that are stored already become revisit records.
    pub deduplicate: bool,
    /// Who runs the crawl, for the warcinfo records; empty: not said.
    pub operator: String,
    /// Compress bodies again that came compressed: content-encoded ones, images, video, archives.
    #[serde(skip)]
    pub recompress_encoded: bool,
    /// Lines of the warcinfo record at the head of every file: operator, user agent, robots policy …
    #[serde(skip)]
    pub info: Vec<(String, String)>,
    /// RAM of the table of payloads already stored.
    #[serde(skip)]
    pub seen_ram_bytes: usize,
}

impl Default for ArchiveSettings {
    fn default() -> Self {
        Self {
            prefix: "portolan".to_owned(),
            node: String::new(),
            node_number: 0,
            file_bytes: 1 << 30,
            file_age_s: 0,
            compression: Compression::Gzip,
            compression_level: 1,
            commit_ms: 200,
            commit_bytes: 8_388_608,
            deduplicate: true,
            operator: String::new(),
            recompress_encoded: false,
            info: Vec::new(),
            seen_ram_bytes: 32 << 20,
        }
    }
}

impl ArchiveSettings {
    /// What the names of this machine's WARC files begin with.
    pub fn file_prefix(&self) -> String {
        file_prefix(&self.prefix, &self.node)
    }
}

/// File numbers of one node: node n has those from n times this. A visit names its file by number alone, so no two
/// nodes of a crawl may give the same.
pub const FILES_A_NODE: u32 = 1 << 20;

/// The largest `node_number`: with it, file numbers end where 32 bits do.
pub const MAX_NODE_NUMBER: u16 = (u32::MAX / FILES_A_NODE) as u16;

/// What the names of a node's files begin with, up to the timestamp.
pub fn file_prefix(prefix: &str, node: &str) -> String {
    match node {
        "" => prefix.to_owned(),
        node => format!("{prefix}-{node}"),
    }
}

/// How records lie in the files.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Compression {
    /// A gzip member a record, in files named `.warc.gz`.
    Gzip,
    /// As they are, in files named `.warc`.
    None,
}

impl Compression {
    /// What the names of files end with.
    pub(crate) fn suffix(self) -> &'static str {
        match self {
            Compression::Gzip => ".warc.gz",
            Compression::None => ".warc",
        }
    }

    /// The compression of a file of ours, by its name.
    pub(crate) fn of_name(name: &str) -> Option<Self> {
        [Compression::Gzip, Compression::None]
            .into_iter()
            .find(|compression| name.ends_with(compression.suffix()))
    }
}

/// Up to where the archive is named by logged visits: the last visit's file and the end of its
/// last record. What lies beyond was never logged: its URLs are fetched again.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct DurableEnd {
    pub file: u32,
    pub end: u64,
}
