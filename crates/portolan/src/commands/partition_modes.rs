//! `portolan partition --modes`: what K processes lose and send in each mode of exchange.

use std::process::ExitCode;

use portolan_crawl::report::{bytes, thousands};
use portolan_graph::{Cutter, ModeSettings, WebGraph, draw_seeds_of_parts, replay_modes};
use serde_json::json;

use super::graph_input::{aligned, percent};
use super::{inspect, partition};
use crate::arguments_graph::PartitionArguments;
use crate::failure::Failure;
use crate::output::{say, sayln};

const DEFAULT_PARTS: [u16; 4] = [2, 4, 8, 16];

pub(super) fn run(arguments: &PartitionArguments, graph: &WebGraph) -> Result<ExitCode, Failure> {
    let all = match arguments.parts.as_slice() {
        [] => DEFAULT_PARTS.to_vec(),
        some => some.to_vec(),
    };
    let settings = ModeSettings::default();
    let mut rows = vec![
        [
            "K",
            "mode",
            "coverage %",
            "overlap %",
            "messages",
            "URLs sent",
            "bytes sent",
            "quality %",
            "of a single crawler's %",
        ]
        .map(str::to_owned)
        .to_vec(),
    ];
    let mut values = Vec::new();
    for parts in all {
        let cut_settings = partition::cut_settings(arguments, graph, parts)?;
        let cut = Cutter::new(graph, cut_settings.unit)?.cut(&cut_settings)?;
        let part_of = cut.pages(graph);
        let seeds = if graph.seeds.is_empty() {
            draw_seeds_of_parts(&part_of, parts, arguments.seeds, arguments.seed)
        } else {
            graph.seeds.clone()
        };
        for result in replay_modes(graph, &part_of, parts, &seeds, settings) {
            rows.push(vec![
                parts.to_string(),
                result.mode.name().to_owned(),
                percent(result.coverage),
                percent(result.overlap),
                thousands(result.messages),
                thousands(result.urls_sent),
                bytes(result.bytes_sent),
                percent(result.quality),
                percent(result.quality_of_single),
            ]);
            values.push(json!({ "parts": parts, "seeds": seeds.len(), "result": result }));
        }
    }
    if arguments.json {
        inspect::write_json(&mut inspect::lines(), &json!(values))?;
    } else if arguments.csv {
        for row in &rows {
            // Thousands have commas, which CSV cannot have.
            let cells: Vec<String> = row.iter().map(|text| text.replace(',', "")).collect();
            sayln!("{}", cells.join(","));
        }
    } else {
        say!("{}", aligned(&rows));
        let cut = partition::cut_settings(arguments, graph, 1)?;
        sayln!(
            "\nParts by {}, method {}; messages leave after {} pages of each process; quality is judged when {} % of the pages have been fetched.",
            cut.unit.name(),
            cut.method.name(),
            settings.exchange_every_pages,
            100.0 * settings.quality_at
        );
    }
    Ok(ExitCode::SUCCESS)
}
