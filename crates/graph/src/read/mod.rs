//! From files to a graph: text tables, WebGraph's BV files, a crawl's registry, or made up on the spot.

mod bits;
mod bv;
mod crawl;
mod lines;
mod tsv;

use std::path::{Path, PathBuf};

use crate::error::{GraphError, Result};
use crate::graph::WebGraph;
use crate::synthetic::SyntheticSpec;

pub use bv::read_bv;
pub use crawl::{CrawlPages, UNFETCHED, read_crawl};
pub use tsv::read_tsv;

/// An input of this form is a synthetic graph: `synthetic:pages=1000000,links=10000000`.
pub const SYNTHETIC_PREFIX: &str = "synthetic:";

/// Whatever graph the paths name, except a crawl's directory (see [`read_crawl`]): a directory with
/// `nodes.tsv[.gz]` and `edges.tsv[.gz]` or with one `*.graph`, these files themselves, or
/// `synthetic:...`.
pub fn read_files(paths: &[PathBuf]) -> Result<WebGraph> {
    match paths {
        [one] => {
            if let Some(text) = one.to_str().and_then(|text| text.strip_prefix(SYNTHETIC_PREFIX)) {
                return SyntheticSpec::parse(text)?.graph();
            }
            if one.is_dir() {
                return read_directory(one);
            }
            match one.extension().and_then(|extension| extension.to_str()) {
                Some("graph" | "properties") => read_bv(&one.with_extension("")),
                _ if !one.exists() => Err(GraphError::Request(format!(
                    "{} is not there",
                    one.display()
                ))),
                _ => Err(GraphError::Request(format!(
                    "{} alone is no graph; name nodes.tsv and edges.tsv, or NAME.graph, or a directory \
                     with one of them",
                    one.display()
                ))),
            }
        }
        [first, second] => {
            let name = |path: &Path| path.file_name().map(|name| name.to_string_lossy().to_lowercase());
            // In either order, if their names tell which is which.
            if name(first).is_some_and(|name| name.contains("edges"))
                && name(second).is_some_and(|name| name.contains("nodes"))
            {
                read_tsv(second, first)
            } else {
                read_tsv(first, second)
            }
        }
        _ => Err(GraphError::Request(
            "name a crawl's directory, nodes.tsv and edges.tsv, NAME.graph, or a directory with them"
                .to_owned(),
        )),
    }
}

fn read_directory(dir: &Path) -> Result<WebGraph> {
    let table = |name: &str| {
        [
            dir.join(format!("{name}.tsv")),
            dir.join(format!("{name}.tsv.gz")),
        ]
        .into_iter()
        .find(|path| path.exists())
    };
    if let (Some(nodes), Some(edges)) = (table("nodes"), table("edges")) {
        return read_tsv(&nodes, &edges);
    }
    let mut graphs: Vec<PathBuf> = std::fs::read_dir(dir)
        .map_err(GraphError::io(dir))?
        .filter_map(|entry| Some(entry.ok()?.path()))
        .filter(|path| {
            path.extension()
                .is_some_and(|extension| extension == "graph")
        })
        .collect();
    graphs.sort();
    match graphs.as_slice() {
        [one] => read_bv(&one.with_extension("")),
        [] => Err(GraphError::Request(format!(
            "{} holds no crawl, no nodes.tsv with edges.tsv, and no *.graph",
            dir.display()
        ))),
        _ => Err(GraphError::Request(format!(
            "{} holds {} graphs; name one of them",
            dir.display(),
            graphs.len()
        ))),
    }
}
