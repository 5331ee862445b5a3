//! `portolan urls`: the URLs of a crawl with their state, sorted, in several formats.

use std::fs::File;
use std::io::{BufWriter, IsTerminal, Write};
use std::path::PathBuf;
use std::process::ExitCode;

use portolan_registry::{UrlFilter, UrlState};

use super::graph_input::replaceable;
use super::inspect;
use super::url_formats::{LineTable, ParquetTable};
use super::url_row::UrlRow;
use super::url_sorter::{MEMORY_BYTES, Row as SortedRow, Sorted, Sorter};
use crate::arguments::{StateArgument, UrlsArguments, UrlsFormat};
use crate::failure::Failure;
use crate::output::PlainText;

pub(crate) fn run(arguments: &UrlsArguments) -> Result<ExitCode, Failure> {
    let wanted = &arguments.wanted;
    let format = match wanted.json {
        true => UrlsFormat::Jsonl,
        false => wanted.format,
    };
    if let Some(host) = &wanted.host
        && (host.is_empty() || host.contains('/'))
    {
        return Err(Failure::usage(format!(
            "--host '{host}' is no host; write its name alone, such as www.example.org"
        )));
    }
    if format == UrlsFormat::Parquet && wanted.out.is_none() && std::io::stdout().is_terminal() {
        return Err(Failure::usage(
            "Parquet is not for a terminal; name a file with --out, or use '>'",
        ));
    }
    replaceable("--out", wanted.out.as_ref())?;
    let rows = sorted(arguments)?;
    match (&wanted.out, format) {
        (None, UrlsFormat::Parquet) => write_parquet(std::io::stdout(), rows)?,
        (None, _) => write_lines(inspect::lines(), format, rows)?,
        (Some(path), _) => {
            let named = |e| Failure::failed(format!("--out {}: {e}", path.display()));
            let file = BufWriter::with_capacity(1 << 16, File::create(path).map_err(named)?);
            match format {
                UrlsFormat::Parquet => write_parquet(file, rows)?,
                _ => write_lines(PlainText(file), format, rows)?,
            }
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// All rows that are asked for, by URL.
fn sorted(arguments: &UrlsArguments) -> Result<Sorted, Failure> {
    let snapshot = inspect::open(&arguments.dir)?;
    let wanted = &arguments.wanted;
    let filter = UrlFilter {
        state: wanted.state.map(|state| match state {
            StateArgument::Visited => UrlState::Visited,
            StateArgument::Due => UrlState::Due,
            StateArgument::Failed => UrlState::Failed,
            StateArgument::Excluded => UrlState::Excluded,
        }),
        host: wanted.host.as_ref().map(|host| host.to_ascii_lowercase()),
    };
    let mut sorter = Sorter::new(MEMORY_BYTES);
    for record in snapshot.urls(filter) {
        let record = record.map_err(Failure::failed)?;
        let visit = snapshot.visit(&record).map_err(Failure::failed)?;
        let row = UrlRow::of(record, visit);
        let value = serde_json::to_vec(&row).map_err(Failure::failed)?;
        sorter.push(row.url.as_bytes(), &value).map_err(unsorted)?;
    }
    sorter.finish().map_err(unsorted)
}

fn unsorted(error: std::io::Error) -> Failure {
    let dir: PathBuf = std::env::temp_dir();
    Failure::failed(format!(
        "the URLs could not be sorted in {}: {error}; TMPDIR names another directory",
        dir.display()
    ))
}

fn write_lines(out: impl Write, format: UrlsFormat, rows: Sorted) -> Result<(), Failure> {
    let mut table = match format {
        UrlsFormat::Csv => LineTable::csv(out)?,
        UrlsFormat::Jsonl => LineTable::Jsonl(out),
        UrlsFormat::Text | UrlsFormat::Parquet => LineTable::Tabs(out),
    };
    for row in rows {
        table.push(&decoded(row)?)?;
    }
    Ok(table.finish()?)
}

fn write_parquet(out: impl Write + Send, rows: Sorted) -> Result<(), Failure> {
    let mut table = ParquetTable::new(out)?;
    for row in rows {
        table.push(decoded(row)?)?;
    }
    Ok(table.finish()?)
}

fn decoded(row: std::io::Result<SortedRow>) -> Result<UrlRow, Failure> {
    let (_, value) = row.map_err(unsorted)?;
    serde_json::from_slice(&value).map_err(Failure::failed)
}
