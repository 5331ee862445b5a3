//! The text format of METIS: vertices from 1 on, two weights each, edges with their costs.

use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::Path;

use crate::cut::CutGraph;
use crate::error::{GraphError, Result};

pub fn write_metis(graph: &CutGraph, path: &Path) -> Result<()> {
    write(graph, path).map_err(GraphError::io(path))
}

fn write(graph: &CutGraph, path: &Path) -> std::io::Result<()> {
    let mut out = BufWriter::new(File::create(path)?);
    writeln!(
        out,
        "% vertices edges format weights; weights are bytes and requests, costs bytes of URLs"
    )?;
    writeln!(out, "{} {} 011 2", graph.vertices(), graph.edges())?;
    for (vertex, [bytes, requests]) in graph.weights().iter().enumerate() {
        write!(out, "{bytes} {requests}")?;
        for (other, cost) in graph.of_vertex(vertex) {
            write!(out, " {} {cost}", other + 1)?;
        }
        writeln!(out)?;
    }
    out.flush()
}
