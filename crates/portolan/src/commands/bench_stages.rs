//! The table of a bench that needs no network: what each stage costs.

use serde_json::{Map, Value, json};

use crate::output::sayln;

/// What stages cost over all `pages` pages, in nanoseconds of CPU.
pub(super) struct Stages<const N: usize> {
    pub(super) pages: u64,
    pub(super) bytes: u64,
    pub(super) cpu_ns: [(&'static str, u64); N],
}

impl<const N: usize> Stages<N> {
    pub(super) fn as_json(&self) -> Map<String, Value> {
        let stages = self.rows().map(|(name, us, mb)| {
            let value = json!({ "cpu_us_per_page": us, "mb_per_second": mb });
            (name.to_owned(), value)
        });
        stages.collect()
    }

    pub(super) fn tell(&self) {
        sayln!("  µs CPU a page      MB/s");
        for (name, us, mb) in self.rows() {
            sayln!("  {us:>13.1}  {mb:>8.0}  {name}");
        }
    }

    /// Microseconds a page, and megabytes a second.
    fn rows(&self) -> impl Iterator<Item = (&'static str, f64, f64)> {
        self.cpu_ns.iter().map(|&(name, ns)| {
            let us_per_page = ns as f64 / 1e3 / self.pages as f64;
            let mb_per_second = self.bytes as f64 / 1e6 / (ns.max(1) as f64 / 1e9);
            (name, us_per_page, mb_per_second)
        })
    }
}
