//! A Web that changes: pages have versions, and the generation of the Web says which. Seeded like everything else: the
//! same spec and generation give the same bytes. In generation 0 nothing has changed.

use crate::seed::Draw;
use crate::web::{Web, push_number};
use serde::{Deserialize, Serialize};
use std::sync::atomic::Ordering;

/// What happens to pages from one generation to the next. The first page of a host stays.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ChangeSpec {
    /// The share of pages that change.
    pub changed_share: f64,
    /// The share of pages that vanish, for good: half of them answer 404, half 410.
    pub gone_share: f64,
    /// The share of pages that have neither ETag nor Last-Modified.
    pub no_validators_share: f64,
}

impl Default for ChangeSpec {
    fn default() -> Self {
        ChangeSpec {
            changed_share: 0.1,
            gone_share: 0.02,
            no_validators_share: 0.0,
        }
    }
}

/// A page as of a generation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Version {
    /// How often it has changed.
    pub(crate) number: u32,
    pub(crate) gone: bool,
}

impl Version {
    /// What tells a version from the one before, at the end of the body.
    pub(crate) fn write(self, body: &mut Vec<u8>) {
        if self.number > 0 {
            body.extend_from_slice(b"<!-- version ");
            push_number(body, u64::from(self.number));
            body.extend_from_slice(b" -->\n");
        }
    }

    /// A day for each version, from the first of January 2026 on.
    pub(crate) fn last_modified(self) -> String {
        const DAYS: [&str; 7] = ["Thu", "Fri", "Sat", "Sun", "Mon", "Tue", "Wed"];
        let day = self.number % 28;
        let name = DAYS[day as usize % 7];
        format!("{name}, {:02} Jan 2026 00:00:00 GMT", day + 1)
    }
}

impl Web {
    /// Lets the Web change: pages are from now on what they are in this generation.
    pub fn set_generation(&self, generation: u32) {
        self.generation.store(generation, Ordering::SeqCst);
    }

    pub fn generation(&self) -> u32 {
        self.generation.load(Ordering::SeqCst)
    }

    /// What has become of a page by now: how often it changed, and whether it is gone.
    pub fn changes(&self, host: u32, page: u32) -> (u32, bool) {
        let version = self.version(host, page);
        (version.number, version.gone)
    }

    pub(crate) fn version(&self, host: u32, page: u32) -> Version {
        let spec = &self.spec.changes;
        let mut version = Version::default();
        for generation in 1..=self.generation() {
            let seed = self.spec.seed ^ u64::from(generation) << 32;
            let drawn = Draw::at(seed, u64::from(host), u64::from(page), 0x60).unit();
            if drawn < spec.gone_share && page != 0 {
                version.gone = true;
            } else if drawn < spec.gone_share + spec.changed_share {
                version.number += 1;
            }
        }
        version.number += self.moved(host, page);
        version
    }

    pub(crate) fn lacks_validators(&self, host: u32, page: u32) -> bool {
        let share = self.spec.changes.no_validators_share;
        share > 0.0
            && Draw::at(self.spec.seed, u64::from(host), u64::from(page), 0x61).unit() < share
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::WebSpec;

    #[test]
    fn a_generation_changes_its_share_of_pages_and_what_is_gone_stays_gone() {
        let spec = WebSpec {
            hosts: 4,
            pages_per_host: 500,
            ..WebSpec::default()
        };
        let web = Web::new(spec).expect("a sound spec");
        let count = |web: &Web| {
            let all = (0..4).flat_map(|host| (0..500).map(move |page| (host, page)));
            let versions: Vec<Version> = all.map(|(h, p)| web.version(h, p)).collect();
            let changed = versions.iter().filter(|v| v.number > 0).count();
            (changed, versions.iter().filter(|v| v.gone).count())
        };
        assert_eq!(count(&web), (0, 0));
        web.set_generation(1);
        let (changed, gone) = count(&web);
        assert!(
            (120..280).contains(&changed) && (15..80).contains(&gone),
            "{changed} {gone}"
        );
        web.set_generation(2);
        let (later, more_gone) = count(&web);
        assert!(later > changed && more_gone >= gone);
        assert_eq!(
            Version {
                number: 9,
                gone: false
            }
            .last_modified(),
            "Sat, 10 Jan 2026 00:00:00 GMT"
        );
    }
}
