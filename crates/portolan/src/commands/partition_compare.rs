//! `portolan partition --compare`: the tables of the data-parallel paper.

use std::process::ExitCode;

use portolan_crawl::report::thousands;
use portolan_graph::{Cell, Chart, CompareSettings, Comparison, WebGraph, compare};

use super::graph_input::{aligned, directory, draw, percent};
use super::{inspect, partition};
use crate::arguments_graph::PartitionArguments;
use crate::failure::Failure;
use crate::output::{noteln, sayln};

/// As in the paper.
const DEFAULT_PARTS: [u16; 8] = [8, 16, 24, 32, 40, 48, 56, 64];

struct Table {
    title: &'static str,
    file: &'static str,
    unit: &'static str,
    value: fn(&Cell) -> f64,
    text: fn(&Cell) -> String,
    log_y: bool,
}

const TABLES: [Table; 3] = [
    Table {
        title: "Imbalance in bytes",
        file: "imbalance-bytes",
        unit: "% above the mean",
        value: |cell| 100.0 * cell.bytes_imbalance,
        text: |cell| percent(cell.bytes_imbalance),
        log_y: false,
    },
    Table {
        title: "Imbalance in requests",
        file: "imbalance-requests",
        unit: "% above the mean",
        value: |cell| 100.0 * cell.request_imbalance,
        text: |cell| percent(cell.request_imbalance),
        log_y: false,
    },
    Table {
        title: "Exchange volume",
        file: "exchange-volume",
        unit: "bytes",
        value: |cell| cell.exchange_bytes,
        text: |cell| thousands(cell.exchange_bytes.round() as u64),
        log_y: true,
    },
];

pub(super) fn run(arguments: &PartitionArguments, graph: &WebGraph) -> Result<ExitCode, Failure> {
    if let Some(dir) = &arguments.svg {
        directory("--svg", dir)?;
    }
    let parts = match arguments.parts.as_slice() {
        [] => DEFAULT_PARTS.to_vec(),
        some => some.to_vec(),
    };
    let settings = CompareSettings {
        parts,
        runs: arguments.runs,
        tolerance: arguments.imbalance,
        seed: arguments.seed,
        dsets: partition::dsets(arguments)?,
    };
    let result = compare(graph, &settings, |cell| {
        noteln!("{} into {} done", cell.column.name(), cell.parts);
    })?;
    if arguments.json {
        let value = serde_json::to_value(&result).map_err(Failure::failed)?;
        inspect::write_json(&mut inspect::lines(), &value)?;
    } else if arguments.csv {
        csv(&result);
    } else {
        tables(&result, settings.runs);
    }
    if let Some(dir) = &arguments.svg {
        for table in &TABLES {
            draw(dir, table.file, &chart(&result, table))?;
        }
    }
    Ok(ExitCode::SUCCESS)
}

fn tables(result: &Comparison, runs: u32) {
    let columns = result.columns();
    for table in &TABLES {
        sayln!("{} ({}), average of {runs} runs", table.title, table.unit);
        let mut rows = vec![
            std::iter::once("K".to_owned())
                .chain(columns.iter().map(|column| column.name().to_owned()))
                .collect(),
        ];
        for &parts in &result.parts {
            let mut row = vec![parts.to_string()];
            for &column in &columns {
                row.push(
                    result
                        .cell(column, parts)
                        .map_or("-".to_owned(), table.text),
                );
            }
            rows.push(row);
        }
        sayln!("{}", aligned(&rows));
    }
    for remark in &result.remarks {
        sayln!("{remark}");
    }
}

fn csv(result: &Comparison) {
    sayln!(
        "parts,column,runs,bytes_imbalance,request_imbalance,exchange_bytes,runs_within_tolerance"
    );
    for cell in &result.cells {
        sayln!(
            "{},{},{},{:.6},{:.6},{:.0},{}",
            cell.parts,
            cell.column.name(),
            cell.runs,
            cell.bytes_imbalance,
            cell.request_imbalance,
            cell.exchange_bytes,
            cell.within
        );
    }
    for remark in &result.remarks {
        noteln!("{remark}");
    }
}

fn chart(result: &Comparison, table: &Table) -> Chart {
    Chart {
        title: table.title.to_owned(),
        x_label: "parts".to_owned(),
        y_label: table.unit.to_owned(),
        log_y: table.log_y,
        series: result
            .columns()
            .into_iter()
            .map(|column| {
                let points = result
                    .parts
                    .iter()
                    .filter_map(|&parts| result.cell(column, parts))
                    .map(|cell| (f64::from(cell.parts), (table.value)(cell)))
                    .collect();
                (column.name().to_owned(), points)
            })
            .collect(),
    }
}
