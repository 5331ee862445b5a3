//! What the system says of this process: CPU time, memory.

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
