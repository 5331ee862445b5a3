//! The formats of `portolan urls`: lines with tabs for people and `cut`, CSV, a JSON object a line, and Parquet.

use std::io::{self, Write};
use std::sync::Arc;

use parquet::data_type::{BoolType, ByteArray, ByteArrayType, Int64Type};
use parquet::errors::ParquetError;
use parquet::file::properties::WriterProperties;
use parquet::file::writer::{SerializedFileWriter, SerializedRowGroupWriter};
use parquet::schema::parser::parse_message_type;

use super::url_row::{COLUMNS, Cell, Kind, UrlRow, facts_text};
use crate::output::field;

/// Rows that are held in memory before they are written as one group of a Parquet file.
const GROUP_ROWS: usize = 1 << 16;

/// A table of URLs that is being written, a row a line.
pub(crate) enum LineTable<W: Write> {
    Tabs(W),
    Csv(W),
    Jsonl(W),
}

impl<W: Write> LineTable<W> {
    /// With a first line of names.
    pub(crate) fn csv(mut out: W) -> io::Result<Self> {
        let names: Vec<&str> = COLUMNS.iter().map(|(name, ..)| *name).collect();
        writeln!(out, "{}", names.join(","))?;
        Ok(LineTable::Csv(out))
    }

    pub(crate) fn push(&mut self, row: &UrlRow) -> io::Result<()> {
        match self {
            LineTable::Tabs(out) => {
                let dash = |text: &Option<String>| text.clone().unwrap_or_else(|| "-".to_owned());
                let status = row.status.map(|status| status.to_string());
                writeln!(
                    out,
                    "{}\t{}\t{}\t{}\t{}\t{}\t{}",
                    row.state,
                    dash(&row.reason),
                    field(&row.url),
                    dash(&status),
                    field(&dash(&row.mime)),
                    row.depth,
                    field(&dash(&row.title)),
                )
            }
            LineTable::Csv(out) => {
                let cells: Vec<String> = row.cells().iter().map(csv_cell).collect();
                writeln!(out, "{}", cells.join(","))
            }
            LineTable::Jsonl(out) => {
                serde_json::to_writer(&mut *out, row)?;
                out.write_all(b"\n")
            }
        }
    }

    pub(crate) fn finish(self) -> io::Result<()> {
        let (LineTable::Tabs(mut out) | LineTable::Csv(mut out) | LineTable::Jsonl(mut out)) = self;
        out.flush()
    }
}

/// As RFC 4180 wants it; control characters are spelled, so that a row is one line.
fn csv_cell(cell: &Cell<'_>) -> String {
    match cell {
        Cell::Nothing => String::new(),
        Cell::Number(number) => number.to_string(),
        Cell::Flag(flag) => flag.to_string(),
        Cell::Text(text) => quoted(text),
        Cell::Facts(facts) => quoted(&facts_text(facts)),
    }
}

fn quoted(text: &str) -> String {
    let text = field(text).to_string();
    match text.contains([',', '"']) {
        true => format!("\"{}\"", text.replace('"', "\"\"")),
        false => text,
    }
}

fn schema() -> String {
    let columns = COLUMNS.map(|(name, kind, optional)| {
        let presence = if optional { "optional" } else { "required" };
        match kind {
            Kind::Text => format!("{presence} binary {name} (UTF8);"),
            Kind::Number => format!("{presence} int64 {name};"),
            Kind::Flag => format!("{presence} boolean {name};"),
        }
    });
    format!("message url {{ {} }}", columns.join(" "))
}

/// A Parquet file that is being written. Rows are collected until they make a group.
pub(crate) struct ParquetTable<W: Write + Send> {
    writer: SerializedFileWriter<W>,
    rows: Vec<UrlRow>,
}

impl<W: Write + Send> ParquetTable<W> {
    pub(crate) fn new(out: W) -> io::Result<Self> {
        let open = || -> Result<_, ParquetError> {
            let schema = Arc::new(parse_message_type(&schema())?);
            SerializedFileWriter::new(out, schema, Arc::new(WriterProperties::new()))
        };
        Ok(Self {
            writer: open().map_err(io::Error::other)?,
            rows: Vec::new(),
        })
    }

    pub(crate) fn push(&mut self, row: UrlRow) -> io::Result<()> {
        self.rows.push(row);
        if self.rows.len() == GROUP_ROWS {
            self.write_group().map_err(io::Error::other)?;
        }
        Ok(())
    }

    pub(crate) fn finish(mut self) -> io::Result<()> {
        let mut finish = || -> Result<(), ParquetError> {
            if !self.rows.is_empty() {
                self.write_group()?;
            }
            self.writer.finish()?;
            Ok(())
        };
        finish().map_err(io::Error::other)?;
        self.writer.inner_mut().flush()
    }

    fn write_group(&mut self) -> Result<(), ParquetError> {
        let rows = std::mem::take(&mut self.rows);
        let cells: Vec<_> = rows.iter().map(UrlRow::cells).collect();
        let mut group = self.writer.next_row_group()?;
        for (at, (_, kind, optional)) in COLUMNS.iter().enumerate() {
            let column = cells.iter().map(|row| &row[at]);
            // 1 where a cell holds something.
            let levels: Vec<i16> = column
                .clone()
                .map(|cell| i16::from(*cell != Cell::Nothing))
                .collect();
            let levels = optional.then_some(levels.as_slice());
            write_column(&mut group, *kind, column, levels)?;
        }
        group.close()?;
        Ok(())
    }
}

fn write_column<'a, W: Write + Send>(
    group: &mut SerializedRowGroupWriter<'_, W>,
    kind: Kind,
    column: impl Iterator<Item = &'a Cell<'a>>,
    levels: Option<&[i16]>,
) -> Result<(), ParquetError> {
    let Some(mut writer) = group.next_column()? else {
        return Ok(());
    };
    match kind {
        Kind::Text => {
            let texts = column.filter_map(|cell| match cell {
                Cell::Text(text) => Some(ByteArray::from(*text)),
                Cell::Facts(facts) => Some(ByteArray::from(facts_text(facts).into_bytes())),
                _ => None,
            });
            let texts: Vec<ByteArray> = texts.collect();
            let typed = writer.typed::<ByteArrayType>();
            typed.write_batch(&texts, levels, None)?;
        }
        Kind::Number => {
            let numbers = column.filter_map(|cell| match cell {
                // Counts, sizes and times are far below 2^63.
                Cell::Number(number) => Some(*number as i64),
                _ => None,
            });
            let numbers: Vec<i64> = numbers.collect();
            let typed = writer.typed::<Int64Type>();
            typed.write_batch(&numbers, levels, None)?;
        }
        Kind::Flag => {
            let flags = column.filter_map(|cell| match cell {
                Cell::Flag(flag) => Some(*flag),
                _ => None,
            });
            let flags: Vec<bool> = flags.collect();
            let typed = writer.typed::<BoolType>();
            typed.write_batch(&flags, levels, None)?;
        }
    }
    writer.close()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cells_of_csv_are_quoted_where_they_must_be() {
        for (text, cell) in [
            ("plain", "plain"),
            ("a, b", "\"a, b\""),
            ("say \"hi\"", "\"say \"\"hi\"\"\""),
            ("two\nlines", "two\\u000alines"),
        ] {
            assert_eq!(csv_cell(&Cell::Text(text)), cell);
        }
        assert_eq!(csv_cell(&Cell::Nothing), "");
    }
}
