//! Sorting more than fits in memory: sorted runs on disk, merged when they are read. Temporary files without names, in the
//! directory that the environment's TMPDIR says; they are gone when the program ends, however it ends.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::fs::File;
use std::io::{self, BufReader, BufWriter, Read, Seek, Write};

/// Memory for rows that are being collected.
pub(crate) const MEMORY_BYTES: usize = 64 << 20;
/// What a row costs in memory besides its bytes.
const ROW_OVERHEAD_BYTES: usize = 64;
/// More runs than this are merged into one, so that open files and read buffers stay few.
const MAX_RUNS: usize = 64;
const BUFFER_BYTES: usize = 1 << 16;

/// A key to sort by, and what belongs to it.
pub(crate) type Row = (Box<[u8]>, Box<[u8]>);

pub(crate) struct Sorter {
    memory_bytes: usize,
    held: Vec<Row>,
    held_bytes: usize,
    runs: Vec<File>,
}

impl Sorter {
    /// Holds at most about `memory_bytes` in memory.
    pub(crate) fn new(memory_bytes: usize) -> Self {
        Self {
            memory_bytes,
            held: Vec::new(),
            held_bytes: 0,
            runs: Vec::new(),
        }
    }

    pub(crate) fn push(&mut self, key: &[u8], value: &[u8]) -> io::Result<()> {
        self.held_bytes += key.len() + value.len() + ROW_OVERHEAD_BYTES;
        self.held.push((key.into(), value.into()));
        if self.held_bytes >= self.memory_bytes {
            self.spill()?;
        }
        Ok(())
    }

    /// The rows by key; rows of equal keys by value.
    pub(crate) fn finish(mut self) -> io::Result<Sorted> {
        self.held.sort_unstable();
        let held = std::mem::take(&mut self.held);
        Sorted::new(std::mem::take(&mut self.runs), held)
    }

    fn spill(&mut self) -> io::Result<()> {
        self.held.sort_unstable();
        let rows = self.held.drain(..).map(Ok);
        let run = write_run(rows)?;
        self.held_bytes = 0;
        self.runs.push(run);
        if self.runs.len() >= MAX_RUNS {
            let runs = std::mem::take(&mut self.runs);
            self.runs.push(write_run(Sorted::new(runs, Vec::new())?)?);
        }
        Ok(())
    }
}

fn write_run(rows: impl Iterator<Item = io::Result<Row>>) -> io::Result<File> {
    let mut out = BufWriter::with_capacity(BUFFER_BYTES, tempfile::tempfile()?);
    for row in rows {
        let (key, value) = row?;
        for part in [&key, &value] {
            let length = u32::try_from(part.len()).map_err(io::Error::other)?;
            out.write_all(&length.to_le_bytes())?;
            out.write_all(part)?;
        }
    }
    out.into_inner().map_err(io::IntoInnerError::into_error)
}

/// Rows in order, from runs and from memory. Ends after an error.
pub(crate) struct Sorted {
    sources: Vec<Source>,
    /// The next row of each source that has one.
    next: BinaryHeap<Reverse<(Row, usize)>>,
}

enum Source {
    Run(BufReader<File>),
    Memory(std::vec::IntoIter<Row>),
}

impl Sorted {
    fn new(runs: Vec<File>, held: Vec<Row>) -> io::Result<Self> {
        let mut sources = vec![Source::Memory(held.into_iter())];
        for mut run in runs {
            run.rewind()?;
            sources.push(Source::Run(BufReader::with_capacity(BUFFER_BYTES, run)));
        }
        let mut next = BinaryHeap::new();
        for (number, source) in sources.iter_mut().enumerate() {
            if let Some(row) = source.read()? {
                next.push(Reverse((row, number)));
            }
        }
        Ok(Self { sources, next })
    }

    fn step(&mut self) -> io::Result<Option<Row>> {
        let Some(Reverse((row, number))) = self.next.pop() else {
            return Ok(None);
        };
        if let Some(following) = self.sources[number].read()? {
            self.next.push(Reverse((following, number)));
        }
        Ok(Some(row))
    }
}

impl Iterator for Sorted {
    type Item = io::Result<Row>;

    fn next(&mut self) -> Option<Self::Item> {
        let row = self.step();
        if row.is_err() {
            self.next.clear();
        }
        row.transpose()
    }
}

impl Source {
    fn read(&mut self) -> io::Result<Option<Row>> {
        match self {
            Source::Memory(rows) => Ok(rows.next()),
            Source::Run(run) => {
                let mut length = [0; 4];
                match run.read_exact(&mut length) {
                    Err(e) if e.kind() == io::ErrorKind::UnexpectedEof => return Ok(None),
                    read => read?,
                }
                let key = read_part(run, length)?;
                run.read_exact(&mut length)?;
                Ok(Some((key, read_part(run, length)?)))
            }
        }
    }
}

fn read_part(run: &mut impl Read, length: [u8; 4]) -> io::Result<Box<[u8]>> {
    let mut part = vec![0; u32::from_le_bytes(length) as usize];
    run.read_exact(&mut part)?;
    Ok(part.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Far more runs than are kept open, and rows in memory at the end.
    #[test]
    fn rows_come_out_in_order_whatever_the_memory() {
        const ROWS: u64 = 5_000;
        let mut wanted: Vec<Row> = (0..ROWS)
            .map(|n| {
                let key = format!("http://h{}.test/{}", n * 7919 % 97, n * 31 % 1_000);
                let value = n.to_string();
                (key.into_bytes().into(), value.into_bytes().into())
            })
            .collect();
        for memory_bytes in [1, 3_000, 50_000, usize::MAX] {
            let mut sorter = Sorter::new(memory_bytes);
            for (key, value) in &wanted {
                sorter.push(key, value).expect("a temporary file");
                assert!(sorter.held_bytes < memory_bytes && sorter.runs.len() < MAX_RUNS);
            }
            let rows: io::Result<Vec<Row>> = sorter.finish().expect("runs").collect();
            let rows = rows.expect("runs can be read");
            wanted.sort();
            assert_eq!(rows, wanted);
        }
    }

    #[test]
    fn nothing_sorts_to_nothing() {
        assert_eq!(Sorter::new(10).finish().expect("nothing").count(), 0);
    }
}
