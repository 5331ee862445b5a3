//! Settings of the archive: plain data, read once.

/// Sizes, names and compression. All fixed when the crawl starts.
#[derive(Clone, Debug)]
pub struct ArchiveSettings {
    /// First part of every file name: letters, digits, `.`, `_` and `-`.
    pub prefix: String,
    /// A file that has reached this size is closed and the next one begun.
    pub rotate_bytes: u64,
    /// How records lie in the files. A crawl may go on with another choice than it began with.
    pub compression: Compression,
    /// Deflate level 0 (stored) to 12 (slowest). Every level is libdeflate's.
    pub compression_level: u8,
    /// Compress bodies again that came compressed: content-encoded ones, images, video, archives.
    pub recompress_encoded: bool,
    /// Lines of the warcinfo record at the head of every file: operator, user agent, robots policy …
    pub info: Vec<(String, String)>,
    /// RAM of the table of payloads already stored.
    pub seen_ram_bytes: usize,
}

impl Default for ArchiveSettings {
    fn default() -> Self {
        Self {
            prefix: "portolan".to_owned(),
            rotate_bytes: 1 << 30,
            compression: Compression::Gzip,
            compression_level: 1,
            recompress_encoded: false,
            info: Vec::new(),
            seen_ram_bytes: 32 << 20,
        }
    }
}

/// How records lie in the files.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
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
