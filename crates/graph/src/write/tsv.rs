//! `nodes.tsv` (id, URL, bytes) and `edges.tsv` (from, to).

use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};

use super::GraphRows;
use crate::error::{GraphError, Result};

const BUFFER_BYTES: usize = 1 << 18;

/// Returns the files written.
pub fn write_tsv(graph: &dyn GraphRows, dir: &Path) -> Result<Vec<PathBuf>> {
    let (nodes, edges) = (dir.join("nodes.tsv"), dir.join("edges.tsv"));
    write_nodes(graph, &nodes).map_err(GraphError::io(&nodes))?;
    write_edges(graph, &edges).map_err(GraphError::io(&edges))?;
    Ok(vec![nodes, edges])
}

fn write_nodes(graph: &dyn GraphRows, path: &Path) -> std::io::Result<()> {
    let mut out = BufWriter::with_capacity(BUFFER_BYTES, File::create(path)?);
    let mut url = String::new();
    for page in 0..graph.pages() {
        let bytes = graph.page(page, &mut url);
        if url.is_empty() {
            // The format wants a URL; this one is as good as the number, and parses.
            url = format!("http://unnamed.invalid/{page}");
        }
        writeln!(out, "{page}\t{url}\t{bytes}")?;
    }
    out.flush()
}

fn write_edges(graph: &dyn GraphRows, path: &Path) -> std::io::Result<()> {
    let mut out = BufWriter::with_capacity(BUFFER_BYTES, File::create(path)?);
    let mut row = Vec::new();
    for page in 0..graph.pages() {
        graph.row(page, &mut row);
        for to in &row {
            writeln!(out, "{page}\t{to}")?;
        }
    }
    out.flush()
}
