//! Dividing a graph among K parts: by METIS, by hash, by DSets. What a division is worth is in
//! `measure`; what it becomes for a crawler is in `vector`.

mod balance;
mod dset;
mod exhaustive;
mod joint;
mod measure;
mod multilevel;
mod search;
mod weighted;

use portolan_model::{PageHash, PartitionId, Partitioner, SiteHash};

use crate::error::{GraphError, Result};
use crate::graph::WebGraph;

pub use dset::{DSets, extension_of};
pub use measure::{Bound, Measure, bounds};
pub use multilevel::is_divisible;
pub use weighted::CutGraph;

/// What is given away as a whole.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash, PartialOrd, Ord)]
pub enum Unit {
    Page,
    Site,
}

impl Unit {
    pub fn name(self) -> &'static str {
        match self {
            Unit::Page => "page",
            Unit::Site => "site",
        }
    }
}

#[derive(Clone, PartialEq, Debug)]
pub enum Method {
    /// METIS, both weights balanced, least exchange.
    Graph,
    Hash,
    /// Sets of domain extensions; by site only.
    DSet(DSets),
}

impl Method {
    pub fn name(&self) -> &'static str {
        match self {
            Method::Graph => "graph",
            Method::Hash => "hash",
            Method::DSet(_) => "dset",
        }
    }
}

#[derive(Clone, PartialEq, Debug)]
pub struct CutSettings {
    pub parts: u16,
    pub unit: Unit,
    pub method: Method,
    /// How far above the mean a part's bytes or requests may be: 0.05 is 5 %.
    pub tolerance: f64,
    pub seed: u64,
}

/// Which part each page (or each site) belongs to.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Cut {
    pub parts: u16,
    pub unit: Unit,
    pub part_of: Vec<u16>,
}

impl Cut {
    pub fn part_of_page(&self, graph: &WebGraph, page: u32) -> u16 {
        match self.unit {
            Unit::Page => self.part_of[page as usize],
            // A cut by site is made only of graphs that have sites.
            Unit::Site => self.part_of[graph.pages.site(page).unwrap_or(0) as usize],
        }
    }

    /// The part of every page.
    pub fn pages(&self, graph: &WebGraph) -> Vec<u16> {
        (0..graph.pages.count())
            .map(|page| self.part_of_page(graph, page))
            .collect()
    }
}

/// A graph made ready to be cut again and again.
#[derive(Debug)]
pub struct Cutter<'a> {
    graph: &'a WebGraph,
    unit: Unit,
    weighted: Option<CutGraph>,
}

impl<'a> Cutter<'a> {
    pub fn new(graph: &'a WebGraph, unit: Unit) -> Result<Self> {
        if unit == Unit::Site {
            graph.pages.require_sites()?;
        }
        Ok(Self {
            graph,
            unit,
            weighted: None,
        })
    }

    fn units(&self) -> u32 {
        match self.unit {
            Unit::Page => self.graph.pages.count(),
            Unit::Site => self.graph.pages.sites(),
        }
    }

    pub fn cut(&mut self, settings: &CutSettings) -> Result<Cut> {
        let (parts, units) = (settings.parts, self.units());
        if parts == 0 {
            return Err(GraphError::Request(
                "a graph cannot be cut into 0 parts".to_owned(),
            ));
        }
        if u32::from(parts) > units {
            return Err(GraphError::Request(format!(
                "{units} {}s cannot be cut into {parts} parts; ask for {units} at most",
                self.unit.name()
            )));
        }
        if !(0.0..=10.0).contains(&settings.tolerance) || settings.tolerance == 0.0 {
            return Err(GraphError::Request(
                "the imbalance allowed must be above 0 % and at most 1000 %".to_owned(),
            ));
        }
        let part_of = match &settings.method {
            Method::Graph => {
                if self.weighted.is_none() {
                    self.weighted = Some(CutGraph::of(self.graph, self.unit)?);
                }
                match &self.weighted {
                    Some(weighted) => multilevel::cut(weighted, settings)?,
                    None => Vec::new(),
                }
            }
            Method::Hash => match self.unit {
                Unit::Page => self.by(&PageHash {
                    parts,
                    seed: settings.seed,
                }),
                Unit::Site => self.by(&SiteHash {
                    parts,
                    seed: settings.seed,
                }),
            },
            Method::DSet(_) if self.unit == Unit::Page => {
                return Err(GraphError::Request(
                    "DSets hold whole sites, so a graph is divided into them by site".to_owned(),
                ));
            }
            Method::DSet(sets) => self.by(&sets.for_graph(self.graph, parts)?),
        };
        Ok(Cut {
            parts,
            unit: self.unit,
            part_of,
        })
    }

    /// Each unit by what a partitioner says of it.
    fn by(&self, partitioner: &dyn Partitioner) -> Vec<u16> {
        let pages = &self.graph.pages;
        let nobody = PartitionId(0);
        match self.unit {
            Unit::Page => (0..pages.count())
                .map(|page| partitioner.part_of(pages.key(page), nobody).0)
                .collect(),
            Unit::Site => {
                let mut part_of = vec![u16::MAX; pages.sites() as usize];
                for page in 0..pages.count() {
                    if let Some(site) = pages.site(page)
                        && part_of[site as usize] == u16::MAX
                    {
                        part_of[site as usize] = partitioner.part_of(pages.key(page), nobody).0;
                    }
                }
                part_of
            }
        }
    }
}
