//! The roots of a crawl and what lies under them.

use super::ScopeKind;
use portolan_model::CanonicalUrl;
use std::collections::{HashMap, HashSet};
use xxhash_rust::xxh3::xxh3_64;

/// Roots by kind of scope: each kind keeps only what it has to compare. Grows with the seeds (and
/// their redirects), not with the crawl.
#[derive(Debug, Clone)]
pub(super) enum Roots {
    Hosts(HashSet<Box<str>>),
    Domains(HashSet<Box<str>>),
    /// Directories by host, each from `/` to its last `/`.
    Prefixes(HashMap<Box<str>, Vec<Box<str>>>),
    Any,
}

impl Roots {
    pub(super) fn new(kind: ScopeKind) -> Self {
        match kind {
            ScopeKind::Host => Roots::Hosts(HashSet::new()),
            ScopeKind::Domain => Roots::Domains(HashSet::new()),
            ScopeKind::Prefix => Roots::Prefixes(HashMap::new()),
            ScopeKind::Any => Roots::Any,
        }
    }

    pub(super) fn add(&mut self, root: &CanonicalUrl) {
        match self {
            Roots::Hosts(hosts) => {
                hosts.insert(root.host().into());
            }
            Roots::Domains(domains) => {
                domains.insert(root.registrable_domain().into());
            }
            Roots::Prefixes(prefixes) => {
                let directories = prefixes.entry(root.host().into()).or_default();
                let directory = directory(root.path());
                if !directories.iter().any(|d| directory.starts_with(&**d)) {
                    directories.retain(|d| !d.starts_with(directory));
                    directories.push(directory.into());
                }
            }
            Roots::Any => {}
        }
    }

    /// Tells roots from others: the same for the same roots, in whatever order they came.
    pub(super) fn digest(&self) -> u64 {
        let mut all: Vec<String> = match self {
            Roots::Hosts(names) | Roots::Domains(names) => {
                names.iter().map(|name| name.to_string()).collect()
            }
            Roots::Prefixes(prefixes) => prefixes
                .iter()
                .flat_map(|(host, directories)| {
                    directories.iter().map(move |d| format!("{host}{d}"))
                })
                .collect(),
            Roots::Any => Vec::new(),
        };
        all.sort();
        xxh3_64(all.join("\n").as_bytes())
    }

    pub(super) fn hold(&self, url: &CanonicalUrl) -> bool {
        match self {
            Roots::Hosts(hosts) => hosts.contains(url.host()),
            Roots::Domains(domains) => domains.contains(url.registrable_domain()),
            Roots::Prefixes(prefixes) => prefixes.get(url.host()).is_some_and(|directories| {
                directories.iter().any(|d| url.path().starts_with(&**d))
            }),
            Roots::Any => true,
        }
    }

    /// Whatever the path.
    pub(super) fn hold_host(&self, url: &CanonicalUrl) -> bool {
        match self {
            Roots::Prefixes(prefixes) => prefixes.contains_key(url.host()),
            _ => self.hold(url),
        }
    }
}

fn directory(path: &str) -> &str {
    path.rfind('/').map_or(path, |slash| &path[..=slash])
}
