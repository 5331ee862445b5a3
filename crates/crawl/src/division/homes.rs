//! In a fleet: who fetches a site that the part vector does not list. Its home decides, a partition that every node computes
//! from its name; see `portolan_registry::Homes`. Everything here is in the homes' logs, or follows from where links came by.

use std::collections::HashMap;
use std::sync::{PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use portolan_graph::PartVector;
use portolan_model::{CanonicalUrl, Identities, LinkBatch, PartitionId, Partitioner, UrlKey};
use portolan_registry::{Claim, Homes, Sorted};

/// A part vector, and what homes have decided beyond it.
#[derive(Debug)]
pub(crate) struct FoundSites {
    vector: PartVector,
    ids: Identities,
    /// A home with as many claims gives sites to nobody else any more: they stay with it, and need no memory.
    most: usize,
    known: RwLock<Known>,
}

#[derive(Debug, Default)]
struct Known {
    /// What the homes have decided that this node holds.
    homes: HashMap<PartitionId, HashMap<u64, PartitionId>>,
    /// What was decided elsewhere, as far as links have come from there. It never changes, so it may be forgotten.
    elsewhere: HashMap<u64, PartitionId>,
}

impl FoundSites {
    /// The fleet remembers `max_claims` sites in all.
    pub(super) fn new(vector: PartVector, ids: Identities, max_claims: u32) -> Self {
        let most = max_claims as usize / usize::from(vector.parts().max(1));
        Self {
            vector,
            ids,
            most,
            known: RwLock::default(),
        }
    }

    fn known(&self) -> RwLockReadGuard<'_, Known> {
        self.known.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> RwLockWriteGuard<'_, Known> {
        self.known.write().unwrap_or_else(PoisonError::into_inner)
    }

    fn home_of(&self, url: UrlKey<'_>) -> PartitionId {
        // By its name, as the vector lists it: its servers of other protocols are the same site.
        PartitionId::of(self.ids.host(url.host_name), self.vector.parts())
    }

    /// Who fetches this URL; `None` if that is not known here.
    pub(super) fn owner_of(&self, url: UrlKey<'_>) -> Option<PartitionId> {
        if let Some(listed) = self.vector.find(url) {
            return Some(listed);
        }
        let site = self.vector.key(url);
        let known = self.known();
        let home = known.homes.get(&self.home_of(url));
        let decided = home.and_then(|home| home.get(&site));
        decided.or_else(|| known.elsewhere.get(&site)).copied()
    }
}

impl Partitioner for FoundSites {
    fn parts(&self) -> u16 {
        self.vector.parts()
    }

    /// Where links go: to the owner, or to the home, which knows the owner.
    fn part_of(&self, url: UrlKey<'_>, _: PartitionId) -> PartitionId {
        self.owner_of(url).unwrap_or_else(|| self.home_of(url))
    }
}

impl Homes for FoundSites {
    fn begin(&self, home: PartitionId, claims: Vec<Claim>) {
        self.write()
            .homes
            .insert(home, claims.into_iter().collect());
    }

    fn end(&self, home: PartitionId) {
        self.write().homes.remove(&home);
    }

    fn sort(&self, at: PartitionId, by: PartitionId, links: LinkBatch) -> Sorted {
        let mut claims = Vec::new();
        let sorted = Sorted::by(at, &links, |url| {
            // What is in a log is canonical.
            let Ok(url) = CanonicalUrl::from_canonical(url.to_owned()) else {
                return at;
            };
            let key = UrlKey::of(&url, &self.ids);
            if self.vector.find(key).is_some() {
                return at;
            }
            let site = self.vector.key(key);
            if self.home_of(key) != at {
                // Its home has sent it here.
                self.learn(site, at);
                return at;
            }
            let known = self.known().homes.get(&at).map(|home| {
                let is_full = home.len() >= self.most;
                (home.get(&site).copied(), is_full)
            });
            match known {
                Some((Some(owner), _)) => owner,
                Some((None, false)) => {
                    claims.push((site, by));
                    if let Some(home) = self.write().homes.get_mut(&at) {
                        home.insert(site, by);
                    }
                    by
                }
                Some((None, true)) | None => at,
            }
        });
        Sorted { claims, ..sorted }
    }
}

impl FoundSites {
    fn learn(&self, site: u64, owner: PartitionId) {
        if self.known().elsewhere.contains_key(&site) {
            return;
        }
        let mut known = self.write();
        if known.elsewhere.len() >= self.most {
            known.elsewhere.clear();
        }
        known.elsewhere.insert(site, owner);
    }
}
