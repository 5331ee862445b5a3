//! Hosts that never get an answer out: silent ones, dripping ones, and those that the DNS says nothing of. How often they were asked
//! is counted apart from what healthy hosts saw.

use crate::spec::SickSpec;
use crate::web::Web;
use serde::{Deserialize, Serialize};
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SickKind {
    Silent,
    Drip,
    Lost,
}

/// A sick host, by its kind and number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sick {
    pub kind: SickKind,
    pub number: u32,
}

/// Counts at one moment.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Figures {
    /// Requests to healthy hosts.
    pub requests: u64,
    /// Connections to hosts of either kind.
    pub connections: u64,
    pub sick_requests: u64,
    /// Requests under way at once on one sick host.
    pub sick_most_at_once: u32,
    /// Since the server was started.
    pub seconds: f64,
}

const KINDS: [(SickKind, &str); 3] = [
    (SickKind::Silent, "silent"),
    (SickKind::Drip, "drip"),
    (SickKind::Lost, "lost"),
];

impl SickSpec {
    fn count(&self, kind: SickKind) -> u32 {
        match kind {
            SickKind::Silent => self.silent,
            SickKind::Drip => self.drip,
            SickKind::Lost => self.lost,
        }
    }
}

impl Web {
    /// The sick host that a `Host` header or a URL's authority names.
    pub(crate) fn sick_named(&self, authority: &str) -> Option<Sick> {
        let name = authority.split(':').next().unwrap_or_default();
        let (label, suffix) = name.trim_end_matches('.').split_once('.')?;
        if !suffix.eq_ignore_ascii_case(&self.spec.suffix) {
            return None;
        }
        let label = label.to_ascii_lowercase();
        KINDS.iter().find_map(|&(kind, start)| {
            let number: u32 = label.strip_prefix(start)?.parse().ok()?;
            (number < self.spec.sick.count(kind)).then_some(Sick { kind, number })
        })
    }

    /// The home pages of all sick hosts.
    pub fn sick_urls(&self) -> Vec<String> {
        let mut urls = Vec::new();
        for (kind, start) in KINDS {
            for n in 0..self.spec.sick.count(kind) {
                let (scheme, suffix, port) = (self.scheme, &self.spec.suffix, &self.port_part);
                urls.push(format!("{scheme}://{start}{n}.{suffix}{port}/"));
            }
        }
        urls
    }
}

/// What a dripping host sends, drop by drop: a page without an end.
pub(crate) fn drip_text() -> Vec<u8> {
    b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: 1000000\r\n\r\n<p>slowly"
        .to_vec()
}

pub(crate) fn drip_head_bytes(text: &[u8]) -> usize {
    text.windows(4)
        .position(|w| w == b"\r\n\r\n")
        .map_or(0, |at| at + 4)
}

/// The record of sick hosts.
pub(crate) struct Ward {
    requests: AtomicU64,
    most_at_once: AtomicU32,
    silent: Vec<AtomicU32>,
    drip: Vec<AtomicU32>,
}

/// A request under way, until it is dropped.
pub(crate) struct Stay<'a>(&'a AtomicU32);

impl Ward {
    pub(crate) fn new(spec: &SickSpec) -> Self {
        let beds = |count| (0..count).map(|_| AtomicU32::new(0)).collect();
        Ward {
            requests: AtomicU64::new(0),
            most_at_once: AtomicU32::new(0),
            silent: beds(spec.silent),
            drip: beds(spec.drip),
        }
    }

    pub(crate) fn admit(&self, sick: Sick) -> Option<Stay<'_>> {
        let beds = match sick.kind {
            SickKind::Silent => &self.silent,
            SickKind::Drip => &self.drip,
            SickKind::Lost => return None,
        };
        let bed = beds.get(sick.number as usize)?;
        self.requests.fetch_add(1, Relaxed);
        self.most_at_once
            .fetch_max(bed.fetch_add(1, Relaxed) + 1, Relaxed);
        Some(Stay(bed))
    }

    pub(crate) fn requests(&self) -> u64 {
        self.requests.load(Relaxed)
    }

    pub(crate) fn most_at_once(&self) -> u32 {
        self.most_at_once.load(Relaxed)
    }
}

impl Drop for Stay<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::spec::WebSpec;

    #[test]
    fn sick_hosts_are_known_by_name_and_are_no_others() {
        let mut spec = WebSpec::small();
        spec.sick.silent = 2;
        spec.sick.lost = 1;
        let web = Web::new(spec).unwrap();
        let silent = |number| {
            Some(Sick {
                kind: SickKind::Silent,
                number,
            })
        };
        assert_eq!(web.sick_named("silent1.sim.test:80"), silent(1));
        assert_eq!(web.sick_named("SILENT0.sim.test."), silent(0));
        assert_eq!(web.sick_named("silent2.sim.test"), None);
        assert_eq!(web.sick_named("drip0.sim.test"), None);
        assert_eq!(web.sick_named("h0.sim.test"), None);
        assert_eq!(web.host_named("silent1.sim.test"), None);
        assert_eq!(
            web.sick_urls(),
            [
                "http://silent0.sim.test/",
                "http://silent1.sim.test/",
                "http://lost0.sim.test/"
            ]
        );
    }
}
