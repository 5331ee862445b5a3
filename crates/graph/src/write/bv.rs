//! WebGraph's BV format with intervals and gaps but without references to other rows: larger than the
//! original's files, and read by the same programs. With `.offsets` for random access and `.urls`.

use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};

use super::GraphRows;
use crate::error::{GraphError, Result};

const ZETA_K: u32 = 3;
const MIN_INTERVAL: usize = 4;
const BUFFER_BYTES: usize = 1 << 18;

/// `base` is the path without extension. Returns the files written.
pub fn write_bv(graph: &dyn GraphRows, base: &Path) -> Result<Vec<PathBuf>> {
    let with = |suffix: &str| {
        let mut name = base.as_os_str().to_owned();
        name.push(suffix);
        PathBuf::from(name)
    };
    let [rows, offsets, properties, urls] =
        [".graph", ".offsets", ".properties", ".urls"].map(with);
    let arcs = write_rows(graph, &rows, &offsets).map_err(GraphError::io(&rows))?;
    let text = format!(
        "#BVGraph properties\nversion=0\ngraphclass=it.unimi.dsi.webgraph.BVGraph\nnodes={}\narcs={arcs}\n\
         windowsize=0\nmaxrefcount=0\nminintervallength={MIN_INTERVAL}\nzetak={ZETA_K}\ncompressionflags=\n",
        graph.pages()
    );
    std::fs::write(&properties, text).map_err(GraphError::io(&properties))?;
    let mut files = vec![rows, offsets, properties];
    if write_urls(graph, &urls).map_err(GraphError::io(&urls))? {
        files.push(urls);
    }
    Ok(files)
}

fn write_rows(graph: &dyn GraphRows, rows: &Path, offsets: &Path) -> std::io::Result<u64> {
    let mut out = BitWriter::create(rows)?;
    let mut offsets = BitWriter::create(offsets)?;
    let (mut row, mut arcs, mut last) = (Vec::new(), 0, 0);
    offsets.gamma(0)?;
    for page in 0..graph.pages() {
        graph.row(page, &mut row);
        arcs += row.len() as u64;
        write_row(&mut out, page, &row)?;
        offsets.gamma(out.bits - last)?;
        last = out.bits;
    }
    offsets.finish()?;
    out.finish()?;
    Ok(arcs)
}

fn write_row(out: &mut BitWriter, page: u32, row: &[u32]) -> std::io::Result<()> {
    out.gamma(row.len() as u64)?;
    if row.is_empty() {
        return Ok(());
    }
    let mut intervals: Vec<(u32, usize)> = Vec::new();
    let mut residuals: Vec<u32> = Vec::new();
    let mut start = 0;
    while start < row.len() {
        let mut end = start + 1;
        while end < row.len() && row[end] == row[end - 1] + 1 {
            end += 1;
        }
        if end - start >= MIN_INTERVAL {
            intervals.push((row[start], end - start));
        } else {
            residuals.extend_from_slice(&row[start..end]);
        }
        start = end;
    }
    out.gamma(intervals.len() as u64)?;
    let mut next: Option<i64> = None;
    for &(left, length) in &intervals {
        let left = i64::from(left);
        out.gamma(match next {
            None => natural(left - i64::from(page)),
            Some(next) => (left - next - 1) as u64,
        })?;
        out.gamma((length - MIN_INTERVAL) as u64)?;
        next = Some(left + length as i64);
    }
    let mut previous: Option<u32> = None;
    for &to in &residuals {
        out.zeta(match previous {
            None => natural(i64::from(to) - i64::from(page)),
            Some(previous) => u64::from(to - previous - 1),
        })?;
        previous = Some(to);
    }
    Ok(())
}

/// Was there any?
fn write_urls(graph: &dyn GraphRows, path: &Path) -> std::io::Result<bool> {
    let mut url = String::new();
    graph.page(0, &mut url);
    if url.is_empty() {
        return Ok(false);
    }
    let mut out = BufWriter::with_capacity(BUFFER_BYTES, File::create(path)?);
    for page in 0..graph.pages() {
        graph.page(page, &mut url);
        writeln!(out, "{url}")?;
    }
    out.flush()?;
    Ok(true)
}

fn natural(number: i64) -> u64 {
    if number >= 0 {
        2 * number as u64
    } else {
        2 * number.unsigned_abs() - 1
    }
}

struct BitWriter {
    out: BufWriter<File>,
    buffer: u8,
    filled: u32,
    bits: u64,
}

impl BitWriter {
    fn create(path: &Path) -> std::io::Result<Self> {
        Ok(Self {
            out: BufWriter::with_capacity(BUFFER_BYTES, File::create(path)?),
            buffer: 0,
            filled: 0,
            bits: 0,
        })
    }

    fn put(&mut self, value: u64, count: u32) -> std::io::Result<()> {
        for at in (0..count).rev() {
            self.buffer = self.buffer << 1 | (value >> at & 1) as u8;
            self.filled += 1;
            if self.filled == 8 {
                self.out.write_all(&[self.buffer])?;
                (self.buffer, self.filled) = (0, 0);
            }
        }
        self.bits += u64::from(count);
        Ok(())
    }

    fn gamma(&mut self, value: u64) -> std::io::Result<()> {
        let width = (value + 1).ilog2();
        self.put(1, width + 1)?;
        self.put(value + 1 - (1 << width), width)
    }

    fn zeta(&mut self, value: u64) -> std::io::Result<()> {
        let value = value + 1;
        let h = value.ilog2() / ZETA_K;
        self.put(1, h + 1)?;
        let left = 1_u64 << (h * ZETA_K);
        if value - left < left {
            self.put(value - left, h * ZETA_K + ZETA_K - 1)
        } else {
            self.put(value, h * ZETA_K + ZETA_K)
        }
    }

    fn finish(mut self) -> std::io::Result<()> {
        if self.filled > 0 {
            let padding = 8 - self.filled;
            self.put(0, padding)?;
        }
        self.out.flush()
    }
}
