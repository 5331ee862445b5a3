//! Lines of a text file, plain or gzip by its first bytes, with their numbers.

use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};

use flate2::bufread::MultiGzDecoder;

use crate::error::{GraphError, Result};

/// A longer line is refused: a URL is at most 64 KiB, and the rest of a line is short.
const MAX_LINE_BYTES: u64 = 256 * 1024;
const BUFFER_BYTES: usize = 256 * 1024;

pub(super) struct Lines {
    path: PathBuf,
    reader: Box<dyn BufRead>,
    line: u64,
    buffer: Vec<u8>,
}

impl Lines {
    pub(super) fn open(path: &Path) -> Result<Self> {
        let file = File::open(path).map_err(GraphError::io(path))?;
        let mut reader = BufReader::with_capacity(BUFFER_BYTES, file);
        let zipped = reader
            .fill_buf()
            .map_err(GraphError::io(path))?
            .starts_with(&[0x1f, 0x8b]);
        let reader: Box<dyn BufRead> = if zipped {
            Box::new(BufReader::with_capacity(
                BUFFER_BYTES,
                MultiGzDecoder::new(reader),
            ))
        } else {
            Box::new(reader)
        };
        Ok(Self {
            path: path.to_path_buf(),
            reader,
            line: 0,
            buffer: Vec::new(),
        })
    }

    /// Go to the next line that is not empty and no comment (`#`); false at the end.
    pub(super) fn advance(&mut self) -> Result<bool> {
        loop {
            self.buffer.clear();
            self.line += 1;
            let read = (&mut self.reader)
                .take(MAX_LINE_BYTES)
                .read_until(b'\n', &mut self.buffer)
                .map_err(GraphError::io(&self.path))?;
            if read == 0 {
                return Ok(false);
            }
            if read as u64 == MAX_LINE_BYTES {
                return Err(self.wrong(format!("the line is longer than {MAX_LINE_BYTES} bytes")));
            }
            while matches!(self.buffer.last(), Some(b'\n' | b'\r')) {
                self.buffer.pop();
            }
            if !self.buffer.is_empty() && self.buffer[0] != b'#' {
                break;
            }
        }
        if std::str::from_utf8(&self.buffer).is_err() {
            return Err(self.wrong("the line is not UTF-8"));
        }
        Ok(true)
    }

    /// The line, without its end.
    pub(super) fn text(&self) -> &str {
        // Checked when the line was read.
        std::str::from_utf8(&self.buffer).unwrap_or_default()
    }

    pub(super) fn wrong(&self, what: impl Into<String>) -> GraphError {
        GraphError::input(&self.path, self.line, what)
    }

    /// `file, line N: what`.
    pub(super) fn place(&self, what: impl std::fmt::Display) -> String {
        format!("{}, line {}: {what}", self.path.display(), self.line)
    }

    pub(super) fn number(&self) -> u64 {
        self.line
    }
}
