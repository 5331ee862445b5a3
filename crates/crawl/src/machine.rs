//! What the machine allows: how many files may be open, how much memory there is, and the bounds that follow where the settings
//! leave them open.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use crate::settings::Settings;

/// The soft limit is raised no further than this: nobody needs more, and some systems refuse more.
const MAX_OPEN_FILES: u64 = 1 << 20;
/// Assumed where the system does not say how much memory there is.
const UNKNOWN_MEMORY_BYTES: u64 = 2 << 30;

/// Files kept for everything but sockets, ...
const FILES_RESERVED: u64 = 128;
/// ... and for each partition's logs, tables and merges.
const FILES_PER_PARTITION: u64 = 12;
/// A look-up asks for two kinds of addresses, and asks again from a new socket if no answer comes.
const FILES_PER_LOOKUP: u64 = 8;

/// A request that makes progress may hold this much of a small body, ...
const BUSY_BYTES: u64 = 256 << 10;
/// ... one that waits for its server holds little, and one that is kept for its host's next turn holds the state of TLS.
const WAITING_BYTES: u64 = 64 << 10;

/// Raise the soft limit of open files to the hard one. Returns the limit that holds now.
pub fn raise_open_files() -> u64 {
    let limit = getrlimit(Resource::Nofile);
    let wanted = limit.maximum.unwrap_or(MAX_OPEN_FILES).min(MAX_OPEN_FILES);
    let held = limit.current.unwrap_or(MAX_OPEN_FILES);
    if held >= wanted {
        return held;
    }
    let raised = Rlimit {
        current: Some(wanted),
        maximum: limit.maximum,
    };
    match setrlimit(Resource::Nofile, raised) {
        Ok(()) => wanted,
        // The old limit still holds, and the bounds follow it.
        Err(_) => held,
    }
}

/// The memory that this process may use: the machine's, or less where its control group says so.
pub fn memory_bytes() -> u64 {
    let machine = std::fs::read_to_string("/proc/meminfo")
        .ok()
        .and_then(|text| {
            let line = text.lines().find_map(|l| l.strip_prefix("MemTotal:"))?;
            line.trim()
                .trim_end_matches("kB")
                .trim()
                .parse::<u64>()
                .ok()
        })
        .map_or(UNKNOWN_MEMORY_BYTES, |kb| kb << 10);
    group_limits().fold(machine, u64::min)
}

/// Limits of the control group and of those above it.
fn group_limits() -> impl Iterator<Item = u64> {
    let groups = std::fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
    let path = groups
        .lines()
        .find_map(|line| line.strip_prefix("0::"))
        .unwrap_or("/")
        .trim_matches('/')
        .to_owned();
    let mut folders = vec![String::new()];
    for name in path.split('/').filter(|name| !name.is_empty()) {
        folders.push(format!("{}/{name}", folders[folders.len() - 1]));
    }
    folders.into_iter().filter_map(|folder| {
        let file = format!("/sys/fs/cgroup{folder}/memory.max");
        std::fs::read_to_string(file).ok()?.trim().parse().ok()
    })
}

/// How many of everything there may be, over all workers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Bounds {
    /// Requests that make progress.
    pub(crate) connections: usize,
    /// Requests, beside those, whose servers let us wait.
    pub(crate) waiting: usize,
    /// Requests to hosts that were slow or failed before.
    pub(crate) slow: usize,
    /// Connections kept for their hosts' next turns.
    pub(crate) idle: usize,
    /// Names that are looked up at once, and those that take long.
    pub(crate) lookups: usize,
    pub(crate) slow_lookups: usize,
}

/// More open files would be needed than this process may have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TooFewFiles {
    pub allowed: u64,
    pub needed: u64,
}

impl Bounds {
    /// Do all of them fit into `files`, beside what `partitions` need?
    pub(crate) fn too_few_files(&self, partitions: u16, files: u64) -> Option<TooFewFiles> {
        let sockets = self.connections + self.waiting + self.slow + self.idle;
        let lookups = (self.lookups + self.slow_lookups) as u64 * FILES_PER_LOOKUP;
        let kept = FILES_RESERVED + u64::from(partitions) * FILES_PER_PARTITION;
        let needed = kept + sockets as u64 + lookups;
        (needed > files).then_some(TooFewFiles {
            allowed: files,
            needed,
        })
    }

    /// What the settings say, and where they say 0, what `files` and `memory_bytes` allow.
    pub(crate) fn of(settings: &Settings, partitions: u16, files: u64, memory_bytes: u64) -> Self {
        let reserved = FILES_RESERVED + u64::from(partitions) * FILES_PER_PARTITION;
        let sockets = files.saturating_sub(reserved).max(files / 4);
        let limits = &settings.limits;
        let or = |said: usize, most: u64, by_files: u64, by_memory: u64, least: u64| match said {
            0 => most.min(by_files).min(by_memory).max(least) as usize,
            said => said,
        };
        let waiting_memory = memory_bytes / 64 / WAITING_BYTES;
        let connections = or(
            limits.connections,
            1_024,
            sockets / 8,
            memory_bytes / 8 / BUSY_BYTES,
            16,
        );
        let left = sockets.saturating_sub(connections as u64);
        let lookups = (sockets / 24 / FILES_PER_LOOKUP).max(4) as usize;
        let lookups = settings.dns.at_once.min(lookups);
        Self {
            connections,
            waiting: or(
                limits.waiting_connections,
                4_096,
                left / 4,
                waiting_memory,
                16,
            ),
            slow: match limits.slow_connections {
                0 => (connections / 8).max(1),
                said => said,
            },
            idle: or(limits.idle_connections, 4_096, left / 4, waiting_memory, 16),
            lookups,
            slow_lookups: lookups * 3,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bounds(files: u64, memory_mb: u64) -> Bounds {
        Bounds::of(&Settings::default(), 8, files, memory_mb << 20)
    }

    #[test]
    fn a_large_machine_is_used_and_a_small_one_not_overrun() {
        let large = bounds(20_000, 16 << 10);
        assert_eq!((large.connections, large.waiting), (1_024, 4_096));
        assert_eq!((large.slow, large.idle, large.lookups), (128, 4_096, 64));
        // 512 MB: 64 of them at most for bodies, 8 for those who wait.
        let little_memory = bounds(20_000, 512);
        assert_eq!(little_memory.connections, 256);
        assert_eq!((little_memory.waiting, little_memory.idle), (128, 128));
    }

    #[test]
    fn all_of_them_together_fit_into_the_open_files() {
        for files in [256, 1_024, 4_096, 20_000, 1 << 20] {
            let all = bounds(files, 64 << 10);
            let lookups = (all.lookups + all.slow_lookups) as u64 * FILES_PER_LOOKUP;
            let used = (all.connections + all.waiting + all.slow + all.idle) as u64 + lookups;
            assert!(used <= files - files / 8, "{files}: {all:?} take {used}");
        }
    }

    #[test]
    fn the_number_of_files_that_is_needed_is_named_where_it_is_too_low() {
        assert_eq!(bounds(20_000, 16 << 10).too_few_files(8, 20_000), None);
        let mut settings = Settings::default();
        settings.limits.connections = 2_000;
        let said = Bounds::of(&settings, 192, 1_024, 16 << 30);
        let told = said.too_few_files(192, 1_024).expect("too few");
        assert_eq!(told.allowed, 1_024);
        assert!((4_432..6_000).contains(&told.needed), "{told:?}");
    }

    #[test]
    fn what_is_said_holds() {
        let mut settings = Settings::default();
        settings.limits.connections = 7;
        settings.limits.waiting_connections = 5;
        settings.limits.slow_connections = 3;
        settings.limits.idle_connections = 2;
        let said = Bounds::of(&settings, 8, 20_000, 16 << 30);
        assert_eq!(
            (said.connections, said.waiting, said.slow, said.idle),
            (7, 5, 3, 2)
        );
    }

    #[test]
    fn the_machine_says_something() {
        assert!(raise_open_files() >= 64);
        assert!(memory_bytes() > 1 << 20);
    }
}
