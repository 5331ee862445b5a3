//! `portolan partition`: divide a graph, and write the part vector that steers the next session.

use std::process::ExitCode;

use portolan_crawl::report::{bytes, thousands};
use portolan_graph::{
    CutSettings, Cutter, DSets, Measure, Method, PartVector, Unit, WebGraph, bounds, is_divisible,
};
use serde_json::json;

use super::graph_input::{aligned, percent, read, replaceable};
use super::{inspect, partition_compare, partition_modes};
use crate::arguments_graph::{MethodArgument, PartitionArguments, UnitArgument};
use crate::failure::Failure;
use crate::output::{noteln, say, sayln};

pub(crate) fn run(arguments: &PartitionArguments) -> Result<ExitCode, Failure> {
    replaceable("--out", arguments.out.as_ref())?;
    let graph = read(&arguments.input)?;
    if arguments.compare {
        return partition_compare::run(arguments, &graph);
    }
    if arguments.modes {
        return partition_modes::run(arguments, &graph);
    }
    let [parts] = arguments.parts.as_slice() else {
        return Err(Failure::usage(
            "say into how many parts with --parts K, or compare several with --compare",
        ));
    };
    let settings = cut_settings(arguments, &graph, *parts)?;
    let cut = Cutter::new(&graph, settings.unit)?.cut(&settings)?;
    let measure = Measure::of(&graph, &cut.pages(&graph), cut.parts);
    tell(arguments, &graph, &settings, &measure)?;
    if let Some(path) = &arguments.out {
        let shared = PartVector::write(path, &graph, &cut, settings.seed)?;
        if shared > 0 {
            noteln!("note: {shared} pages have the URL of another page, and its part");
        }
        // What was written is what will be read, or it is said now.
        let vector = PartVector::open(path)?;
        noteln!(
            "written: {} ({} entries)",
            path.display(),
            thousands(vector.len() as u64)
        );
    }
    Ok(ExitCode::SUCCESS)
}

pub(super) fn cut_settings(
    arguments: &PartitionArguments,
    graph: &WebGraph,
    parts: u16,
) -> Result<CutSettings, Failure> {
    let unit = match arguments.by {
        Some(UnitArgument::Page) => Unit::Page,
        Some(UnitArgument::Site) => Unit::Site,
        // Sites are what a polite crawler keeps whole; a graph without URLs has none.
        None if graph.pages.have_urls() => Unit::Site,
        None => Unit::Page,
    };
    Ok(CutSettings {
        parts,
        unit,
        method: match arguments.method {
            MethodArgument::Graph => Method::Graph,
            MethodArgument::Hash => Method::Hash,
            MethodArgument::Dset => Method::DSet(dsets(arguments)?),
        },
        tolerance: arguments.imbalance,
        seed: arguments.seed,
    })
}

pub(super) fn dsets(arguments: &PartitionArguments) -> Result<DSets, Failure> {
    let sets = match &arguments.dsets {
        Some(path) => DSets::read(path)?,
        None => DSets::default(),
    };
    Ok(if arguments.pack { sets.packed() } else { sets })
}

fn tell(
    arguments: &PartitionArguments,
    graph: &WebGraph,
    settings: &CutSettings,
    measure: &Measure,
) -> Result<(), Failure> {
    let bound = bounds(graph, settings.unit, settings.parts);
    let within = measure.within(settings.tolerance);
    let possible = bound.bytes.max(bound.requests) <= settings.tolerance;
    let divisible = match within {
        true => Some(true),
        false if bound.both > settings.tolerance => Some(false),
        false => is_divisible(graph, settings.unit, settings.parts, settings.tolerance),
    };
    if arguments.json {
        let value = json!({
            "parts": settings.parts,
            "by": settings.unit.name(),
            "method": settings.method.name(),
            "seed": settings.seed,
            "tolerance": settings.tolerance,
            "within_tolerance": within,
            "can_be_within_tolerance": divisible,
            "measure": measure,
            "least_possible": bound,
        });
        return Ok(inspect::write_json(&mut inspect::lines(), &value)?);
    }
    let mut rows = vec![
        ["part", "bytes", "of mean", "requests", "of mean"]
            .map(str::to_owned)
            .to_vec(),
    ];
    let mean = |weight: usize| {
        measure.loads.iter().map(|load| load[weight]).sum::<u64>() as f64
            / f64::from(settings.parts)
    };
    for (number, load) in measure.loads.iter().enumerate() {
        let of_mean = |weight: usize| match mean(weight) {
            0.0 => "-".to_owned(),
            mean => format!("{:.1} %", 100.0 * load[weight] as f64 / mean),
        };
        rows.push(vec![
            number.to_string(),
            bytes(load[0]),
            of_mean(0),
            thousands(load[1]),
            of_mean(1),
        ]);
    }
    if arguments.csv {
        for row in &rows {
            sayln!("{}", row.join(",").replace(" %", ""));
        }
        return Ok(());
    }
    say!("{}", aligned(&rows));
    sayln!(
        "\nimbalance: {} % in bytes, {} % in requests\nexchange:  {} in {} links of {}",
        percent(measure.bytes_imbalance),
        percent(measure.request_imbalance),
        bytes(measure.exchange_bytes),
        thousands(measure.exchanged_links),
        thousands(graph.links.count()),
    );
    if !within && settings.method == Method::Graph {
        let limit = percent(settings.tolerance);
        if possible && bound.both > settings.tolerance {
            sayln!(
                "not within {limit} %, and nothing can be: no division keeps bytes and requests both within {} %",
                percent(bound.both)
            );
        } else if possible && divisible == Some(false) {
            sayln!(
                "not within {limit} %, and nothing can be: every division of the {}s into {} parts was tried",
                settings.unit.name(),
                settings.parts
            );
        } else if possible {
            sayln!(
                "not within {limit} %: no better cut into {} parts was found, which does not say that there is none",
                settings.parts
            );
        } else {
            sayln!(
                "not within {limit} %, and nothing can be: by bytes {} alone, by requests {} alone make a part {} % and {} % more than the mean",
                bound.heaviest_by_bytes,
                bound.heaviest_by_requests,
                percent(bound.bytes),
                percent(bound.requests),
            );
        }
    }
    Ok(())
}
