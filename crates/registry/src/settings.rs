//! Settings of a registry, and what they come to for one partition.

use crate::frontier::{BOOKMARK_BYTES, FRONTIER_ENTRY_BYTES};
use crate::recent::{Recent, SLOT_BYTES};
use portolan_model::{Identities, Order};
use serde::{Deserialize, Serialize};

/// Plain data; fixed while a registry is open. `partitions`, `order` and `ids` are fixed for its life. A settings file has
/// the first four; whoever opens the registry knows the others.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct RegistrySettings {
    pub partitions: u16,
    /// RAM for records, pending links, frontier entries and news of hosts, of all partitions
    /// together. Filters come on top as URLs become known, 1.3 bytes for each, up to this again (with
    /// more URLs than that, some tables have none, and new URLs are looked up in them on disk); so do
    /// sparse indexes (16 to 24 bytes for each 4 KB of table), the host queue (`hosts_in_ram`, 50
    /// bytes each) and some 2 MB of buffers a partition.
    #[serde(rename = "memory_mb", with = "mebibytes")]
    pub memory_bytes: u64,
    /// A checkpoint is written when a partition has folded this much log since the last, or all partitions together
    /// this much each.
    #[serde(rename = "checkpoint_log_mb", with = "mebibytes")]
    pub checkpoint_log_bytes: u64,
    /// Keep the journal's segments that checkpoints have made superfluous.
    pub keep_log: bool,
    /// Which crawl a registry that is made now belongs to. A registry that exists keeps its own.
    #[serde(skip)]
    pub crawl_id: u64,
    /// What a host's queue is sorted by. Fixed for a registry's life, like `partitions`: its state was
    /// folded so.
    #[serde(skip)]
    pub order: Order,
    /// By what documents and hosts are known in it: the crawl's secret. The registry keeps its mark alone.
    #[serde(skip)]
    pub ids: Identities,
    /// Queued hosts held in RAM, of all partitions together; the rest wait in a file.
    #[serde(skip)]
    pub hosts_in_ram: usize,
    /// URLs of a host that are read ahead from disk.
    #[serde(skip)]
    pub prefetch_urls: usize,
    /// How long a host waits after a crash if no request to it was recorded: one may have been
    /// made and lost.
    #[serde(skip)]
    pub unknown_delay_ms: u32,
    /// Hosts whose last request failed need not wait for the rest of their back-off, only for their
    /// delay and for what the server itself asked for. So it is after a clean stop in any case; this
    /// says the same for the time after a crash.
    #[serde(skip)]
    pub retry_now: bool,
    /// No host's pause is longer, but for the delay in force: a "not before" further away is cut when
    /// it is read.
    #[serde(skip)]
    pub longest_pause_ms: u64,
    /// It is one of a fleet: it holds the partitions that it has adopted, and begins with none. Frames of its journal up to
    /// this number are shipped. `None`: it holds all partitions.
    #[serde(skip)]
    pub shipped_frames: Option<u64>,
    /// Merges are done by who wants them, and not by threads of their own: everything happens in one order.
    #[serde(skip)]
    pub merge_inline: bool,
}

impl Default for RegistrySettings {
    fn default() -> Self {
        Self {
            partitions: 4,
            memory_bytes: 128 << 20,
            checkpoint_log_bytes: 64 << 20,
            keep_log: false,
            crawl_id: 0,
            order: Order::default(),
            ids: Identities::PUBLIC,
            hosts_in_ram: 250_000,
            prefetch_urls: 16,
            unknown_delay_ms: 1_000,
            retry_now: false,
            longest_pause_ms: 86_400_000,
            shipped_frames: None,
            merge_inline: false,
        }
    }
}

/// Bytes here, MiB in a settings file.
mod mebibytes {
    use serde::de::{Deserialize, Deserializer, Error};
    use serde::ser::Serializer;

    pub(super) fn serialize<S: Serializer>(bytes: &u64, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_u64(bytes >> 20)
    }

    pub(super) fn deserialize<'d, D: Deserializer<'d>>(from: D) -> Result<u64, D::Error> {
        let bytes = u64::deserialize(from)?.checked_mul(1 << 20);
        bytes.ok_or_else(|| D::Error::custom("this is more than any machine has"))
    }
}

/// One partition's share. Of changed records, frontier entries, bookmarks and news there may be an eighth more before
/// anybody waits for them to be written.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    /// Records in RAM.
    pub(crate) recent_records: usize,
    /// Those among them that are newer than the tables.
    pub(crate) changed_records: usize,
    pub(crate) pending_ops: usize,
    pub(crate) pending_bytes: usize,
    pub(crate) frontier_entries: usize,
    pub(crate) news_bytes: usize,
    pub(crate) checkpoint_log_bytes: u64,
    /// The same of the journal, which all partitions share.
    pub(crate) checkpoint_journal_bytes: u64,
    pub(crate) hosts_in_ram: usize,
    pub(crate) prefetch_urls: usize,
    pub(crate) windows: usize,
    pub(crate) bookmarks: usize,
    pub(crate) known_filter_bytes: usize,
    pub(crate) due_filter_bytes: usize,
    pub(crate) host_filter_bytes: usize,
    pub(crate) longest_pause_ms: u64,
}

impl Limits {
    pub(crate) fn of(settings: &RegistrySettings) -> Self {
        let partitions = usize::from(settings.partitions.max(1));
        let memory = settings.memory_bytes as usize / partitions;
        let percent = |share: usize| memory / 100 * share;
        // Changed records are copied to be written: they are the half that may not be dropped.
        let recent_records = (percent(42) / SLOT_BYTES / Recent::slots_for(4) * 4).max(16);
        let changed_records = recent_records / 2;
        Self {
            recent_records,
            changed_records,
            pending_ops: (changed_records / 6).max(1),
            pending_bytes: percent(8),
            // As many again may be on their way to disk.
            frontier_entries: (percent(16) / (2 * FRONTIER_ENTRY_BYTES)).max(8),
            news_bytes: percent(4).max(4096),
            checkpoint_log_bytes: settings.checkpoint_log_bytes,
            checkpoint_journal_bytes: settings
                .checkpoint_log_bytes
                .saturating_mul(partitions as u64),
            hosts_in_ram: (settings.hosts_in_ram / partitions).max(4),
            prefetch_urls: settings.prefetch_urls.max(1),
            windows: (percent(1) / 512).max(4),
            // As many again may be on their way to disk.
            bookmarks: (percent(2) / (2 * BOOKMARK_BYTES)).max(8),
            known_filter_bytes: percent(80),
            due_filter_bytes: percent(20),
            host_filter_bytes: percent(4),
            longest_pause_ms: settings.longest_pause_ms,
        }
    }

    /// A reader's copy holds the log's tail in RAM, whatever it comes to.
    pub(crate) fn for_reading() -> Self {
        Self {
            recent_records: 0,
            changed_records: usize::MAX / 2,
            pending_ops: usize::MAX / 4,
            pending_bytes: usize::MAX,
            frontier_entries: usize::MAX,
            news_bytes: usize::MAX,
            checkpoint_log_bytes: u64::MAX,
            checkpoint_journal_bytes: u64::MAX,
            hosts_in_ram: usize::MAX,
            prefetch_urls: 16,
            windows: 16,
            bookmarks: usize::MAX / 4,
            known_filter_bytes: 0,
            due_filter_bytes: 0,
            host_filter_bytes: 0,
            longest_pause_ms: u64::MAX,
        }
    }
}
