//! A list of sites: host names, and domains with all that is below them.

use super::ScopeError;
use portolan_model::Canonicalizer;
use std::collections::HashSet;

#[derive(Debug, Clone)]
pub(crate) struct Sites {
    hosts: HashSet<Box<str>>,
    /// From `*.example.org`: the name and everything below it.
    domains: HashSet<Box<str>>,
}

impl Sites {
    /// `None` for an empty list, which says nothing.
    pub(crate) fn new(
        setting: &'static str,
        patterns: &[String],
    ) -> Result<Option<Self>, ScopeError> {
        let mut sites = Self {
            hosts: HashSet::new(),
            domains: HashSet::new(),
        };
        for pattern in patterns {
            let (name, set) = match pattern.trim().strip_prefix("*.") {
                Some(domain) => (domain, &mut sites.domains),
                None => (pattern.trim(), &mut sites.hosts),
            };
            let host = canonical_host(name).ok_or_else(|| ScopeError::Site {
                setting,
                text: pattern.clone(),
            })?;
            set.insert(host);
        }
        Ok((!patterns.is_empty()).then_some(sites))
    }

    pub(crate) fn hold(&self, host: &str) -> bool {
        self.hosts.contains(host)
            || (!self.domains.is_empty()
                && names_above(host).any(|name| self.domains.contains(name)))
    }
}

/// As it stands in canonical URLs; `None` if it is more or less than a host name.
fn canonical_host(name: &str) -> Option<Box<str>> {
    let has_port = name.contains(':') && !name.ends_with(']');
    if name.is_empty() || has_port || name.contains(['/', '\\', '?', '#', '@', '*']) {
        return None;
    }
    let url = Canonicalizer::default().parse(&format!("http://{name}/"));
    url.ok().map(|url| url.host().into())
}

/// The host's own name, then each name above it: `a.b.c`, `b.c`, `c`.
fn names_above(host: &str) -> impl Iterator<Item = &str> {
    std::iter::successors(Some(host), |name| {
        name.split_once('.').map(|(_, above)| above)
    })
}
