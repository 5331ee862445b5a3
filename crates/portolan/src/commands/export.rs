//! `portolan export`: what other programs read.

use std::process::ExitCode;

use portolan_graph::{
    CutGraph, GraphRows, SYNTHETIC_PREFIX, SyntheticSpec, Unit, write_bv, write_metis,
    write_parquet, write_tsv,
};

use super::graph_input::{directory, read};
use crate::arguments_graph::{ExportCommand, FormatArgument, UnitArgument};
use crate::failure::Failure;
use crate::output::noteln;

pub(crate) fn run(command: &ExportCommand) -> Result<ExitCode, Failure> {
    let ExportCommand::Graph {
        input,
        format,
        out,
        by,
    } = command;
    if *format == FormatArgument::Metis {
        let graph = read(input)?;
        let unit = match by {
            UnitArgument::Page => Unit::Page,
            UnitArgument::Site => Unit::Site,
        };
        directory("--out", out)?;
        let path = out.join("graph.metis");
        write_metis(&CutGraph::of(&graph, unit)?, &path)?;
        noteln!("written: {}", path.display());
        return Ok(ExitCode::SUCCESS);
    }
    if *by == UnitArgument::Site {
        return Err(Failure::usage(
            "--by site is for --format metis; the other formats hold pages",
        ));
    }
    let synthetic = match input.input.as_slice() {
        [one] => one
            .to_str()
            .and_then(|text| text.strip_prefix(SYNTHETIC_PREFIX)),
        _ => None,
    };
    // A synthetic graph is written as it is made up, whatever its size.
    let graph: Box<dyn GraphRows> = match synthetic {
        Some(text) => Box::new(SyntheticSpec::parse(text)?.plan()),
        None => Box::new(read(input)?),
    };
    directory("--out", out)?;
    let files = match format {
        FormatArgument::Tsv => write_tsv(graph.as_ref(), out)?,
        FormatArgument::Webgraph => write_bv(graph.as_ref(), &out.join("graph"))?,
        FormatArgument::Parquet => write_parquet(graph.as_ref(), out)?,
        FormatArgument::Metis => Vec::new(),
    };
    for path in files {
        noteln!("written: {}", path.display());
    }
    Ok(ExitCode::SUCCESS)
}
