//! What the commands that work on a graph share: reading it, saying what was odd, lining up tables.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use portolan_graph::{Chart, CrawlPages, GraphError, UNFETCHED, WebGraph, read_crawl, read_files};

use super::inspect;
use crate::arguments_graph::GraphInput;
use crate::failure::Failure;
use crate::output::noteln;

impl From<GraphError> for Failure {
    fn from(error: GraphError) -> Self {
        match error {
            GraphError::Request(_) | GraphError::Input { .. } | GraphError::Damaged { .. } => {
                Failure::usage(error)
            }
            // A file that is not there, or is cut: name another one.
            GraphError::Io { ref source, .. }
                if matches!(
                    source.kind(),
                    ErrorKind::NotFound
                        | ErrorKind::NotADirectory
                        | ErrorKind::IsADirectory
                        | ErrorKind::AlreadyExists
                        | ErrorKind::PermissionDenied
                        | ErrorKind::UnexpectedEof
                        | ErrorKind::InvalidData
                        | ErrorKind::InvalidInput
                ) =>
            {
                Failure::usage(error)
            }
            other => Failure::failed(other),
        }
    }
}

/// The graph; what was odd in it goes to stderr.
pub(super) fn read(input: &GraphInput) -> Result<WebGraph, Failure> {
    let graph = match input.input.as_slice() {
        [dir] if inspect::is_crawl(dir) => {
            let which = match input.unfetched {
                true => CrawlPages::Known,
                false => CrawlPages::Fetched,
            };
            read_crawl(&inspect::open(dir)?, which)?
        }
        _ if input.unfetched => {
            return Err(Failure::usage(
                "--unfetched is for the directory of a crawl; other graphs hold all their links",
            ));
        }
        paths => read_files(paths)?,
    };
    for note in &graph.notes {
        noteln!("note: {note}");
    }
    if graph.notes.iter().any(|note| note.what == UNFETCHED) {
        noteln!("note: --unfetched keeps those links");
    }
    Ok(graph)
}

/// Columns to the right, except the first.
pub(super) fn aligned(rows: &[Vec<String>]) -> String {
    let columns = rows.iter().map(Vec::len).max().unwrap_or(0);
    let width = |column: usize| {
        rows.iter()
            .filter_map(|row| row.get(column))
            .map(|text| text.chars().count())
            .max()
            .unwrap_or(0)
    };
    let widths: Vec<usize> = (0..columns).map(width).collect();
    let mut out = String::new();
    for row in rows {
        let mut line = String::new();
        for (column, text) in row.iter().enumerate() {
            let width = widths[column];
            if column == 0 {
                line.push_str(&format!("{text:<width$}"));
            } else {
                line.push_str(&format!("  {text:>width$}"));
            }
        }
        out.push_str(line.trim_end());
        out.push('\n');
    }
    out
}

pub(super) fn percent(share: f64) -> String {
    format!("{:.2}", 100.0 * share)
}

/// Refuses a name that a file cannot be written to, before there is anything to lose.
pub(super) fn replaceable(option: &str, path: Option<&PathBuf>) -> Result<(), Failure> {
    match path {
        Some(path) if path.exists() && !path.is_file() => Err(Failure::usage(format!(
            "{option} {} is no file that can be replaced; name another one",
            path.display()
        ))),
        _ => Ok(()),
    }
}

/// Makes a directory for files, before there is anything to lose.
pub(super) fn directory(option: &str, dir: &Path) -> Result<(), Failure> {
    std::fs::create_dir_all(dir)
        .map_err(|error| Failure::usage(format!("{option} {}: {error}", dir.display())))
}

pub(super) fn draw(dir: &Path, name: &str, chart: &Chart) -> Result<(), Failure> {
    let path = dir.join(format!("{name}.svg"));
    std::fs::write(&path, chart.svg())
        .map_err(|error| Failure::failed(format!("{}: {error}", path.display())))?;
    noteln!("drawn: {}", path.display());
    Ok(())
}
