//! The data-parallel paper's tables: imbalance in bytes, imbalance in requests and exchange volume, for
//! pages and sites, cut and hashed, and for DSets.

use serde::Serialize;

use crate::cut::{CutSettings, Cutter, DSets, Measure, Method, Unit, bounds};
use crate::error::{GraphError, Result};
use crate::graph::WebGraph;

#[derive(Clone, PartialEq, Debug)]
pub struct CompareSettings {
    pub parts: Vec<u16>,
    pub runs: u32,
    pub tolerance: f64,
    pub seed: u64,
    pub dsets: DSets,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Column {
    PageGraph,
    PageHash,
    SiteGraph,
    SiteHash,
    DSet,
}

impl Column {
    pub const ALL: [Column; 5] = [
        Column::PageGraph,
        Column::PageHash,
        Column::SiteGraph,
        Column::SiteHash,
        Column::DSet,
    ];

    pub fn name(self) -> &'static str {
        match self {
            Column::PageGraph => "page graph",
            Column::PageHash => "page hash",
            Column::SiteGraph => "site graph",
            Column::SiteHash => "site hash",
            Column::DSet => "dset",
        }
    }

    fn unit(self) -> Unit {
        match self {
            Column::PageGraph | Column::PageHash => Unit::Page,
            Column::SiteGraph | Column::SiteHash | Column::DSet => Unit::Site,
        }
    }
}

/// Averages of the runs.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Cell {
    pub column: Column,
    pub parts: u16,
    pub runs: u32,
    pub bytes_imbalance: f64,
    pub request_imbalance: f64,
    pub exchange_bytes: f64,
    /// Runs in which both imbalances were within the tolerance.
    pub within: u32,
}

#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Comparison {
    pub tolerance: f64,
    pub parts: Vec<u16>,
    pub cells: Vec<Cell>,
    /// Why some cuts are not within the tolerance, or not there.
    pub remarks: Vec<String>,
}

impl Comparison {
    pub fn cell(&self, column: Column, parts: u16) -> Option<&Cell> {
        self.cells
            .iter()
            .find(|cell| cell.column == column && cell.parts == parts)
    }

    /// Columns that this graph has.
    pub fn columns(&self) -> Vec<Column> {
        Column::ALL
            .into_iter()
            .filter(|&column| self.cells.iter().any(|cell| cell.column == column))
            .collect()
    }
}

/// `progress` hears of each cell when it is done.
pub fn compare(
    graph: &WebGraph,
    settings: &CompareSettings,
    mut progress: impl FnMut(&Cell),
) -> Result<Comparison> {
    if settings.runs == 0 || settings.parts.is_empty() {
        return Err(GraphError::Request(
            "a comparison needs at least one run and one number of parts".to_owned(),
        ));
    }
    let mut remarks = Vec::new();
    let mut cells = Vec::new();
    for unit in [Unit::Page, Unit::Site] {
        let units = match unit {
            Unit::Page => graph.pages.count(),
            Unit::Site if !graph.pages.have_urls() => {
                remarks.push("No columns by site: this graph has no URLs.".to_owned());
                continue;
            }
            Unit::Site => graph.pages.sites(),
        };
        let mut cutter = Cutter::new(graph, unit)?;
        for column in Column::ALL
            .into_iter()
            .filter(|column| column.unit() == unit)
        {
            for &parts in &settings.parts {
                if u32::from(parts) > units {
                    remarks.push(format!(
                        "No cut by {} into {parts}: there are only {units}.",
                        unit.name()
                    ));
                    continue;
                }
                let cell = cell(graph, &mut cutter, settings, column, parts)?;
                if matches!(column, Column::PageGraph | Column::SiteGraph)
                    && cell.within < cell.runs
                {
                    remarks.push(excuse(graph, &cell, settings.tolerance));
                }
                progress(&cell);
                cells.push(cell);
            }
        }
    }
    Ok(Comparison {
        tolerance: settings.tolerance,
        parts: settings.parts.clone(),
        cells,
        remarks,
    })
}

fn cell(
    graph: &WebGraph,
    cutter: &mut Cutter<'_>,
    settings: &CompareSettings,
    column: Column,
    parts: u16,
) -> Result<Cell> {
    // DSets leave nothing to chance.
    let runs = if column == Column::DSet {
        1
    } else {
        settings.runs
    };
    let mut sum = Cell {
        column,
        parts,
        runs,
        bytes_imbalance: 0.0,
        request_imbalance: 0.0,
        exchange_bytes: 0.0,
        within: 0,
    };
    for run in 0..runs {
        let cut = cutter.cut(&CutSettings {
            parts,
            unit: column.unit(),
            method: match column {
                Column::PageGraph | Column::SiteGraph => Method::Graph,
                Column::PageHash | Column::SiteHash => Method::Hash,
                Column::DSet => Method::DSet(settings.dsets.clone()),
            },
            tolerance: settings.tolerance,
            seed: settings.seed + u64::from(run),
        })?;
        let measure = Measure::of(graph, &cut.pages(graph), parts);
        sum.bytes_imbalance += measure.bytes_imbalance / f64::from(runs);
        sum.request_imbalance += measure.request_imbalance / f64::from(runs);
        sum.exchange_bytes += measure.exchange_bytes as f64 / f64::from(runs);
        sum.within += u32::from(measure.within(settings.tolerance));
    }
    Ok(sum)
}

/// Why a cut is not within the tolerance.
pub(crate) fn excuse(graph: &WebGraph, cell: &Cell, tolerance: f64) -> String {
    let unit = cell.column.unit();
    let bound = bounds(graph, unit, cell.parts);
    let missed = format!(
        "{} into {}: {} of {} cuts within {:.1} %",
        cell.column.name(),
        cell.parts,
        cell.within,
        cell.runs,
        100.0 * tolerance
    );
    let impossible = |least: f64, of: &str, name: &str| {
        format!(
            "{missed}. None can be: {name} alone makes one part's {of} {:.1} % more than the mean.",
            100.0 * least
        )
    };
    if bound.bytes > tolerance {
        impossible(bound.bytes, "bytes", &bound.heaviest_by_bytes)
    } else if bound.requests > tolerance {
        impossible(bound.requests, "requests", &bound.heaviest_by_requests)
    } else if bound.both > tolerance {
        format!(
            "{missed}. None can be: no division keeps bytes and requests both within {:.1} %.",
            100.0 * bound.both
        )
    } else {
        format!("{missed}; no better one was found, which does not say that there is none.")
    }
}
