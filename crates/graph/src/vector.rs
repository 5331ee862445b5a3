//! Part vectors: the last session's cut as the next session's map. What the vector does not list goes
//! to whoever finds it first, or by the site hash, and then to nobody else.

use std::collections::HashMap;
use std::path::Path;
use std::sync::{RwLock, RwLockWriteGuard};

use portolan_model::{PartitionId, Partitioner, SiteHash, UrlKey};

use crate::cut::{Cut, Unit};
use crate::error::{GraphError, Result};
use crate::graph::WebGraph;
use crate::table::{Kind, Table, page_key, site_key};

/// A part for each page or each site of a graph, in a file.
#[derive(Debug)]
pub struct PartVector {
    table: Table,
}

impl PartVector {
    /// Returns how many pages had the URL of another page, which decides for both.
    pub fn write(path: &Path, graph: &WebGraph, cut: &Cut, seed: u64) -> Result<u64> {
        let pages = &graph.pages;
        if !pages.have_urls() {
            return Err(GraphError::Request(
                "a part vector lists URLs, and this graph has none".to_owned(),
            ));
        }
        let mut entries: Vec<(u64, u16)> = match cut.unit {
            Unit::Page => (0..pages.count())
                .map(|page| {
                    let key = page_key(pages.url(page).unwrap_or(""));
                    (key, cut.part_of[page as usize])
                })
                .collect(),
            Unit::Site => (0..pages.sites())
                .map(|site| {
                    let key = site_key(pages.site_name(site));
                    (key, cut.part_of[site as usize])
                })
                .collect(),
        };
        let before = entries.len();
        entries.sort_unstable();
        entries.dedup_by_key(|entry| entry.0);
        let kind = match cut.unit {
            Unit::Page => Kind::PartsOfPages,
            Unit::Site => Kind::PartsOfSites,
        };
        Table::write(path, kind, u32::from(cut.parts), seed, &entries)?;
        Ok((before - entries.len()) as u64)
    }

    pub fn open(path: &Path) -> Result<Self> {
        let table = Table::open(path)?;
        if table.kind == Kind::Ranks {
            return Err(GraphError::damaged(
                path,
                "this is a rank table, not a part vector",
            ));
        }
        if table.values == 0 || table.values > u32::from(u16::MAX) {
            return Err(GraphError::damaged(
                path,
                "it has an impossible number of parts",
            ));
        }
        Ok(Self { table })
    }

    pub fn parts(&self) -> u16 {
        // Checked when it was opened.
        self.table.values as u16
    }

    pub fn unit(&self) -> Unit {
        match self.table.kind {
            Kind::PartsOfSites => Unit::Site,
            _ => Unit::Page,
        }
    }

    pub fn len(&self) -> usize {
        self.table.len()
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Tells part vectors apart.
    pub fn checksum(&self) -> u64 {
        self.table.checksum()
    }

    /// None if it is not listed.
    pub fn find(&self, url: UrlKey<'_>) -> Option<PartitionId> {
        self.table.find(self.key(url)).map(PartitionId)
    }

    /// What it goes by: a hash of the URL, or of its site's name.
    pub fn key(&self, url: UrlKey<'_>) -> u64 {
        match self.unit() {
            Unit::Page => page_key(url.url),
            Unit::Site => site_key(url.host_name),
        }
    }
}

/// Who gets what the part vector does not list.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Unlisted {
    /// Whoever finds it first, as in the data-parallel paper.
    Discoverer,
    SiteHash,
}

/// A part vector as the crawler uses it.
#[derive(Debug)]
pub struct VectorPartitioner {
    vector: PartVector,
    unlisted: Unlisted,
    hash: SiteHash,
    claims: RwLock<Claims>,
    max_claims: usize,
}

/// A page or site that the vector does not list, and who found it first.
pub type Claim = (u64, PartitionId);

/// Asked by all parts, so that nobody else fetches what one of them has claimed.
#[derive(Debug, Default)]
struct Claims {
    owners: HashMap<u64, PartitionId>,
    /// Made since they were last taken.
    news: Vec<Claim>,
}

impl VectorPartitioner {
    /// More than `max_claims` are not remembered: what comes after goes by the site hash, which needs
    /// no memory. For the same answers it must stay the same.
    pub fn new(vector: PartVector, unlisted: Unlisted, max_claims: usize) -> Self {
        Self {
            hash: SiteHash {
                parts: vector.parts(),
                seed: vector.table.seed,
            },
            vector,
            unlisted,
            claims: RwLock::default(),
            max_claims,
        }
    }

    /// With what was claimed before.
    #[must_use]
    pub fn with_claims(mut self, earlier: impl Iterator<Item = Claim>) -> Self {
        let claims = self
            .claims
            .get_mut()
            .unwrap_or_else(|poisoned| poisoned.into_inner());
        claims.owners.extend(earlier);
        self
    }

    /// Claims since the last call, in the order in which they were made. Whoever relies on one must have
    /// it written first.
    pub fn take_claims(&self) -> Vec<Claim> {
        let read = self
            .claims
            .read()
            .unwrap_or_else(|poisoned| poisoned.into_inner());
        if read.news.is_empty() {
            return Vec::new();
        }
        drop(read);
        std::mem::take(&mut self.write().news)
    }

    fn claimed(&self, url: UrlKey<'_>, discoverer: PartitionId) -> PartitionId {
        let key = self.vector.key(url);
        let known = self
            .claims
            .read()
            .unwrap_or_else(|poisoned| poisoned.into_inner())
            .owners
            .get(&key)
            .copied();
        if let Some(owner) = known {
            return owner;
        }
        let mut claims = self.write();
        // Somebody may have been quicker.
        if let Some(&owner) = claims.owners.get(&key) {
            return owner;
        }
        if claims.owners.len() >= self.max_claims || discoverer.0 >= self.vector.parts() {
            return self.hash.part_of(url, discoverer);
        }
        claims.owners.insert(key, discoverer);
        claims.news.push((key, discoverer));
        discoverer
    }

    fn write(&self) -> RwLockWriteGuard<'_, Claims> {
        self.claims
            .write()
            .unwrap_or_else(|poisoned| poisoned.into_inner())
    }
}

impl Partitioner for VectorPartitioner {
    fn parts(&self) -> u16 {
        self.vector.parts()
    }

    fn part_of(&self, url: UrlKey<'_>, discoverer: PartitionId) -> PartitionId {
        match (self.vector.find(url), self.unlisted) {
            (Some(part), _) => part,
            (None, Unlisted::SiteHash) => self.hash.part_of(url, discoverer),
            (None, Unlisted::Discoverer) => self.claimed(url, discoverer),
        }
    }
}
