//! How near a partition is to its limits. Upkeep measures once what is in RAM, pending and in the log, and decides
//! everything by what comes out here: no other place compares with limits.

use crate::settings::Limits;

/// With more tables of a kind than this, none is written before RAM is full, and whoever applies entries then waits
/// for them to be merged.
const MAX_TABLES: usize = 32;
/// With more than this, a clean stop waits for them to be merged.
const TABLES_AT_REST: usize = 8;

/// What there is of everything that has a limit.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Load {
    /// Records in RAM.
    pub(super) records: usize,
    /// Those among them that are newer than the tables.
    pub(super) changed: usize,
    pub(super) frontier_entries: usize,
    pub(super) bookmarks: usize,
    pub(super) news_bytes: usize,
    pub(super) pending_ops: usize,
    pub(super) pending_bytes: usize,
    /// Log folded since the last checkpoint began, and by how much the journal has grown since then.
    pub(super) log_bytes: u64,
    pub(super) journal_bytes: u64,
    /// Of the kind that has most.
    pub(super) tables: usize,
    /// Somebody outside wants a checkpoint.
    pub(super) is_asked_for: bool,
    /// A checkpoint is being written or committed.
    pub(super) is_writing: bool,
    /// Tables are being merged.
    pub(super) is_compacting: bool,
}

/// What a load comes to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Pressure {
    /// Of what only a checkpoint takes out of RAM, and of records.
    pub(super) ram: Fill,
    /// Records alone: those that need not stay should leave at once.
    pub(super) is_crowded: bool,
    pub(super) pending: Pending,
    /// A checkpoint is wanted, and may begin.
    pub(super) wants_checkpoint: bool,
    pub(super) tables: Tables,
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) enum Fill {
    Easy,
    /// Time to write, early enough that it is done before RAM is full.
    Nearly,
    /// Room for a few entries more, and no longer for what comes while something is written. A checkpoint that should
    /// have begun long ago counts as much.
    Tight,
    /// No room: whoever applies entries has to wait.
    Full,
}

/// Of the limit for operations that wait to be looked up.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) enum Pending {
    Nothing,
    Some,
    /// A third and more.
    Many,
    /// Three quarters and more.
    NearlyFull,
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) enum Tables {
    Few,
    /// More than a clean stop leaves.
    Several,
    /// The next is written only when RAM is full, and after a merge.
    TooMany,
}

impl Fill {
    /// Of RAM: asked after each entry, and all that is asked then.
    #[inline]
    pub(super) fn of(load: &Load, limits: &Limits) -> Self {
        record_fill(load, limits).max(unwritten_fill(load, limits))
    }
}

impl Pressure {
    pub(super) fn of(load: &Load, limits: &Limits) -> Self {
        let records = record_fill(load, limits);
        let tables = match load.tables {
            number if number > MAX_TABLES => Tables::TooMany,
            number if number > TABLES_AT_REST => Tables::Several,
            _ => Tables::Few,
        };
        let waits_for_merge = tables == Tables::TooMany && load.is_compacting;
        let may_begin = !load.is_writing && !waits_for_merge;
        let full_log = limits.checkpoint_log_bytes;
        let is_late = load.log_bytes >= full_log.saturating_add(full_log / 4);
        let ram = Fill::of(load, limits);
        let ram = match may_begin && is_late {
            true => ram.max(Fill::Tight),
            false => ram,
        };
        // Others have made the journal long, and what it holds for this partition keeps it from being cut.
        let holds_up_journal =
            load.log_bytes > 0 && load.journal_bytes >= limits.checkpoint_journal_bytes;
        let is_asked_for = load.is_asked_for && load.log_bytes > 0;
        let is_due =
            ram >= Fill::Nearly || load.log_bytes >= full_log || holds_up_journal || is_asked_for;
        Self {
            ram,
            is_crowded: records >= Fill::Tight,
            pending: pending_fill(load, limits),
            wants_checkpoint: may_begin && is_due,
            tables,
        }
    }
}

/// Records need room for all that are pending, and a quarter more while something is written.
#[inline(always)]
fn record_fill(load: &Load, limits: &Limits) -> Fill {
    let pending = limits.pending_ops;
    let left = limits.recent_records.saturating_sub(load.records);
    if left <= pending {
        Fill::Full
    } else if left <= pending.saturating_add(pending / 4) {
        Fill::Tight
    } else {
        Fill::Easy
    }
}

/// The fullest of what a checkpoint takes out of RAM: an eighth more than the limit may come before anybody waits.
#[inline(always)]
fn unwritten_fill(load: &Load, limits: &Limits) -> Fill {
    let changed = load.changed.saturating_add(limits.pending_ops);
    let records = fill(changed, limits.changed_records);
    let frontier = fill(load.frontier_entries, limits.frontier_entries);
    let bookmarks = fill(load.bookmarks, limits.bookmarks);
    let news = fill(load.news_bytes, limits.news_bytes);
    records.max(frontier).max(bookmarks).max(news)
}

#[inline(always)]
fn fill(found: usize, limit: usize) -> Fill {
    let eighth = limit / 8;
    if found < 7 * eighth {
        Fill::Easy
    } else if found < 8 * eighth {
        Fill::Nearly
    } else if found < 9 * eighth {
        Fill::Tight
    } else {
        Fill::Full
    }
}

fn pending_fill(load: &Load, limits: &Limits) -> Pending {
    let (ops, bytes) = (limits.pending_ops, limits.pending_bytes);
    if load.pending_ops == 0 {
        Pending::Nothing
    } else if load.pending_ops < ops / 3 && load.pending_bytes < bytes / 3 {
        Pending::Some
    } else if load.pending_ops < ops / 4 * 3 && load.pending_bytes < bytes / 4 * 3 {
        Pending::Many
    } else {
        Pending::NearlyFull
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings::RegistrySettings;

    fn limits() -> Limits {
        Limits::of(&RegistrySettings {
            partitions: 1,
            memory_bytes: 16 << 20,
            checkpoint_log_bytes: 1 << 20,
            ..RegistrySettings::default()
        })
    }

    fn pressure(load: Load) -> Pressure {
        Pressure::of(&load, &limits())
    }

    #[test]
    fn an_empty_partition_wants_nothing() {
        let easy = pressure(Load::default());
        let wanted = Pressure {
            ram: Fill::Easy,
            is_crowded: false,
            pending: Pending::Nothing,
            wants_checkpoint: false,
            tables: Tables::Few,
        };
        assert_eq!(easy, wanted);
    }

    #[test]
    fn a_checkpoint_begins_before_anybody_has_to_wait() {
        let eighth = limits().frontier_entries / 8;
        let with = |eighths: usize| {
            pressure(Load {
                frontier_entries: eighths * eighth,
                ..Load::default()
            })
        };
        let fills = [6, 7, 8, 9].map(|eighths| with(eighths).ram);
        assert_eq!(fills, [Fill::Easy, Fill::Nearly, Fill::Tight, Fill::Full]);
        assert!(!with(6).wants_checkpoint && with(7).wants_checkpoint);
    }

    #[test]
    fn nothing_begins_while_a_checkpoint_is_written() {
        let written = pressure(Load {
            news_bytes: 2 * limits().news_bytes,
            is_writing: true,
            ..Load::default()
        });
        assert_eq!(written.ram, Fill::Full);
        assert!(!written.wants_checkpoint);
    }

    #[test]
    fn a_late_checkpoint_is_a_reason_to_hold_entries_back() {
        let after = |log_bytes: u64, is_writing| {
            pressure(Load {
                log_bytes,
                is_writing,
                ..Load::default()
            })
        };
        assert_eq!(after(1 << 20, false).ram, Fill::Easy);
        assert!(after(1 << 20, false).wants_checkpoint);
        assert_eq!(after(5 << 18, false).ram, Fill::Tight);
        // It has begun: what is written will be out of RAM soon.
        assert_eq!(after(5 << 18, true).ram, Fill::Easy);
    }

    #[test]
    fn a_long_journal_asks_for_a_checkpoint_of_those_that_it_holds_something_for() {
        let with = |log_bytes| {
            pressure(Load {
                log_bytes,
                journal_bytes: limits().checkpoint_journal_bytes,
                ..Load::default()
            })
        };
        assert!(!with(0).wants_checkpoint && with(1).wants_checkpoint);
    }

    #[test]
    fn a_checkpoint_that_is_asked_for_begins_if_there_is_anything_new() {
        let with = |log_bytes| {
            pressure(Load {
                log_bytes,
                is_asked_for: true,
                ..Load::default()
            })
        };
        assert!(!with(0).wants_checkpoint && with(1).wants_checkpoint);
    }

    #[test]
    fn records_leave_room_for_what_is_pending() {
        let Limits {
            recent_records,
            pending_ops,
            ..
        } = limits();
        let with = |left: usize| {
            pressure(Load {
                records: recent_records - left,
                ..Load::default()
            })
        };
        assert_eq!(with(pending_ops).ram, Fill::Full);
        assert_eq!(with(pending_ops + 1).ram, Fill::Tight);
        assert!(with(pending_ops + 1).is_crowded);
        assert!(!with(2 * pending_ops).is_crowded);
    }

    #[test]
    fn too_many_tables_are_merged_before_another_is_written() {
        let with = |is_compacting| {
            pressure(Load {
                tables: MAX_TABLES + 1,
                is_compacting,
                log_bytes: 1 << 30,
                ..Load::default()
            })
        };
        assert!(!with(true).wants_checkpoint && with(false).wants_checkpoint);
        assert_eq!(with(true).tables, Tables::TooMany);
    }

    #[test]
    fn pending_operations_are_looked_up_well_before_their_limit() {
        let limit = limits().pending_ops;
        let with = |pending_ops| {
            pressure(Load {
                pending_ops,
                ..Load::default()
            })
            .pending
        };
        assert_eq!(with(1), Pending::Some);
        assert_eq!(with(limit / 3), Pending::Many);
        assert_eq!(with(limit / 4 * 3), Pending::NearlyFull);
    }
}
