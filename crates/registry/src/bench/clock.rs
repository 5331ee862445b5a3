//! What the system says of this process: CPU time, memory, and what kept it waiting.

use rustix::time::{ClockId, clock_gettime};
use std::fs;

/// User and system time of this process, all threads together.
pub fn process_cpu_us() -> f64 {
    micros_of(ClockId::ProcessCPUTime)
}

/// The same of this thread.
pub fn thread_cpu_us() -> f64 {
    micros_of(ClockId::ThreadCPUTime)
}

fn micros_of(clock: ClockId) -> f64 {
    let time = clock_gettime(clock);
    time.tv_sec as f64 * 1e6 + time.tv_nsec as f64 / 1e3
}

/// The most memory that was resident so far; 0 where the system does not tell.
pub fn peak_rss_bytes() -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find(|line| line.starts_with("VmHWM:"));
    let kilobytes = line.and_then(|line| line.split_whitespace().nth(1)?.parse::<u64>().ok());
    kilobytes.unwrap_or(0) * 1024
}

/// What has kept this thread from running, apart from its own waiting.
#[derive(Clone, Debug, Default)]
pub struct Waits {
    /// Ready to run, while all processors had something else to do.
    queued_ms: f64,
    /// By processor: what the host of this virtual machine gave to others.
    stolen_ms: Vec<f64>,
}

impl Waits {
    /// So far; nothing where the system does not tell.
    pub fn so_far() -> Self {
        let schedule = fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
        let queued_ns = schedule.split_whitespace().nth(1);
        let processors = fs::read_to_string("/proc/stat").unwrap_or_default();
        Self {
            queued_ms: queued_ns.and_then(|ns| ns.parse().ok()).unwrap_or(0.0) / 1e6,
            stolen_ms: stolen_ms(&processors),
        }
    }

    /// How much of `wall_ms`, in which the thread ran for `cpu_ms`, its processor may have been stolen: as much as the one
    /// that was stolen longest since `before`, but nothing that the thread ran or was queued. Time that it waited for a
    /// disk meanwhile is not told from that.
    pub fn stolen_since(&self, before: &Self, wall_ms: f64, cpu_ms: f64) -> f64 {
        let pairs = self.stolen_ms.iter().zip(&before.stolen_ms);
        let stolen = pairs.map(|(now, then)| now - then).fold(0.0, f64::max);
        let untold = wall_ms - cpu_ms - (self.queued_ms - before.queued_ms);
        stolen.min(untold).max(0.0)
    }
}

/// Of `/proc/stat`, which counts hundredths of a second.
fn stolen_ms(stat: &str) -> Vec<f64> {
    const STOLEN_FIELD: usize = 8;
    stat.lines()
        .filter(|line| line.starts_with("cpu") && !line.starts_with("cpu "))
        .map(|line| line.split_whitespace().nth(STOLEN_FIELD))
        .map(|ticks| ticks.and_then(|ticks| ticks.parse().ok()).unwrap_or(0.0) * 10.0)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_cannot_be_told_otherwise_was_stolen() {
        let stat = "cpu  9 9 9 9 9 9 9 9 0 0\ncpu0 1 2 3 4 5 6 7 8 0 0\ncpu1 1 2 3 4 5 6 7 10 0 0\nintr 5\n";
        assert_eq!(stolen_ms(stat), [80.0, 100.0]);
        let waits = |queued_ms, stolen_ms: [f64; 2]| Waits {
            queued_ms,
            stolen_ms: stolen_ms.to_vec(),
        };
        let before = waits(1.0, [80.0, 100.0]);
        let after = waits(11.0, [110.0, 150.0]);
        assert_eq!(after.stolen_since(&before, 100.0, 20.0), 50.0);
        assert_eq!(after.stolen_since(&before, 60.0, 20.0), 30.0);
        assert_eq!(after.stolen_since(&before, 20.0, 20.0), 0.0);
        assert_eq!(Waits::default().stolen_since(&before, 20.0, 20.0), 0.0);
    }
}
