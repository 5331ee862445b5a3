//! Apache Parquet: `nodes.parquet` (id, url, bytes) and `edges.parquet` (from, to).

use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use parquet::data_type::{ByteArray, ByteArrayType, Int64Type};
use parquet::errors::ParquetError;
use parquet::file::properties::WriterProperties;
use parquet::file::writer::SerializedFileWriter;
use parquet::schema::parser::parse_message_type;

use super::GraphRows;
use crate::error::{GraphError, Result};

/// Rows that are held in memory before they are written.
const GROUP_ROWS: usize = 1 << 20;

/// Returns the files written.
pub fn write_parquet(graph: &dyn GraphRows, dir: &Path) -> Result<Vec<PathBuf>> {
    let (nodes, edges) = (dir.join("nodes.parquet"), dir.join("edges.parquet"));
    write_nodes(graph, &nodes)?;
    write_edges(graph, &edges)?;
    Ok(vec![nodes, edges])
}

fn write_nodes(graph: &dyn GraphRows, path: &Path) -> Result<()> {
    let mut out = Columns::create(
        path,
        "message node { required int64 id; required binary url (UTF8); required int64 bytes; }",
    )?;
    let mut url = String::new();
    let (mut ids, mut urls, mut sizes) = (Vec::new(), Vec::new(), Vec::new());
    for page in 0..graph.pages() {
        let bytes = graph.page(page, &mut url);
        ids.push(i64::from(page));
        urls.push(ByteArray::from(url.as_str()));
        // Sizes are below 2^40.
        sizes.push(bytes as i64);
        if ids.len() == GROUP_ROWS || page + 1 == graph.pages() {
            out.group(&[
                Column::Numbers(&ids),
                Column::Texts(&urls),
                Column::Numbers(&sizes),
            ])?;
            ids.clear();
            urls.clear();
            sizes.clear();
        }
    }
    out.close()
}

fn write_edges(graph: &dyn GraphRows, path: &Path) -> Result<()> {
    let mut out = Columns::create(
        path,
        "message edge { required int64 from; required int64 to; }",
    )?;
    let (mut from, mut to, mut row) = (Vec::new(), Vec::new(), Vec::new());
    for page in 0..graph.pages() {
        graph.row(page, &mut row);
        for &target in &row {
            from.push(i64::from(page));
            to.push(i64::from(target));
            if from.len() == GROUP_ROWS {
                out.group(&[Column::Numbers(&from), Column::Numbers(&to)])?;
                from.clear();
                to.clear();
            }
        }
    }
    if !from.is_empty() {
        out.group(&[Column::Numbers(&from), Column::Numbers(&to)])?;
    }
    out.close()
}

enum Column<'a> {
    Numbers(&'a [i64]),
    Texts(&'a [ByteArray]),
}

struct Columns {
    path: PathBuf,
    writer: SerializedFileWriter<File>,
}

impl Columns {
    fn create(path: &Path, schema: &str) -> Result<Self> {
        let file = File::create(path).map_err(GraphError::io(path))?;
        let open = || -> std::result::Result<_, ParquetError> {
            let schema = Arc::new(parse_message_type(schema)?);
            SerializedFileWriter::new(file, schema, Arc::new(WriterProperties::new()))
        };
        Ok(Self {
            writer: open().map_err(|error| failed(path, &error))?,
            path: path.to_path_buf(),
        })
    }

    fn group(&mut self, columns: &[Column<'_>]) -> Result<()> {
        let mut write = || -> std::result::Result<(), ParquetError> {
            let mut group = self.writer.next_row_group()?;
            for column in columns {
                let Some(mut writer) = group.next_column()? else {
                    break;
                };
                match column {
                    Column::Numbers(values) => {
                        writer
                            .typed::<Int64Type>()
                            .write_batch(values, None, None)?;
                    }
                    Column::Texts(values) => {
                        writer
                            .typed::<ByteArrayType>()
                            .write_batch(values, None, None)?;
                    }
                }
                writer.close()?;
            }
            group.close()?;
            Ok(())
        };
        write().map_err(|error| failed(&self.path, &error))
    }

    fn close(self) -> Result<()> {
        match self.writer.close() {
            Ok(_) => Ok(()),
            Err(error) => Err(failed(&self.path, &error)),
        }
    }
}

fn failed(path: &Path, error: &ParquetError) -> GraphError {
    GraphError::damaged(path, format!("cannot be written: {error}"))
}
