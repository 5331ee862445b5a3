//! Part vectors: the last session's cut as the next session's map. What the vector does not list goes
//! to whoever finds it first, or by the site hash, and then to nobody else.

use std::collections::HashMap;
use std::path::Path;
use std::sync::Mutex;

use portolan_model::{PartitionId, Partitioner, SiteHash, UrlKey};

use crate::cut::{Cut, Unit};
use crate::error::{GraphError, Result};
use crate::graph::WebGraph;
use crate::table::{Kind, Table};

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
                .map(|page| (pages.doc(page).0, cut.part_of[page as usize]))
                .collect(),
            Unit::Site => (0..pages.sites())
                .map(|site| {
                    let host = portolan_model::HostId::of(pages.site_name(site));
                    (host.0, cut.part_of[site as usize])
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

    /// None if it is not listed.
    pub fn find(&self, url: UrlKey<'_>) -> Option<PartitionId> {
        self.table.find(self.key(url)).map(PartitionId)
    }

    fn key(&self, url: UrlKey<'_>) -> u64 {
        match self.unit() {
            Unit::Page => url.doc.0,
            Unit::Site => url.host.0,
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

/// More claims are not remembered: what comes after goes by the site hash, which needs no memory.
pub const MAX_CLAIMS: usize = 50_000_000;

/// A part vector as the crawler uses it.
#[derive(Debug)]
pub struct VectorPartitioner {
    vector: PartVector,
    unlisted: Unlisted,
    hash: SiteHash,
    /// Who found an unlisted page (or site) first; asked by all parts, so that nobody else fetches it.
    claims: Mutex<HashMap<u64, PartitionId>>,
    max_claims: usize,
}

impl VectorPartitioner {
    pub fn new(vector: PartVector, unlisted: Unlisted) -> Self {
        Self {
            hash: SiteHash {
                parts: vector.parts(),
                seed: vector.table.seed,
            },
            vector,
            unlisted,
            claims: Mutex::new(HashMap::new()),
            max_claims: MAX_CLAIMS,
        }
    }

    #[must_use]
    pub fn with_max_claims(mut self, max_claims: usize) -> Self {
        self.max_claims = max_claims;
        self
    }

    fn claimed(&self, url: UrlKey<'_>, discoverer: PartitionId) -> PartitionId {
        let key = self.vector.key(url);
        let mut claims = self
            .claims
            .lock()
            .unwrap_or_else(|poisoned| poisoned.into_inner());
        if let Some(&owner) = claims.get(&key) {
            return owner;
        }
        if claims.len() >= self.max_claims || discoverer.0 >= self.vector.parts() {
            return self.hash.part_of(url, discoverer);
        }
        claims.insert(key, discoverer);
        discoverer
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
