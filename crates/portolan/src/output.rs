//! What the program says. Whoever reads standard output may have seen enough (`portolan graph | head`):
//! that is no failure, and `println!` would make a panic of it. Text that cannot be written for
//! another reason, such as a full disk, is one. Nobody may be left to read standard error either: a
//! crawl goes on without its reader.
//!
//! Titles, headers and URLs are other people's text. All that is said passes `plain` on its way out, so
//! that none of it can move a terminal's cursor, turn the direction of a line, or hide in it.

use std::fmt;
use std::io::{self, BufWriter, IsTerminal, StdoutLock, Write};

use crate::failure::Failure;
use crate::plain::{Plain, write_plain};

/// As `print!`.
macro_rules! say {
    ($($text:tt)*) => { $crate::output::write(format_args!($($text)*)) };
}

/// As `println!`.
macro_rules! sayln {
    ($($text:tt)*) => { $crate::output::write_line(format_args!($($text)*)) };
}

/// As `eprint!`.
macro_rules! note {
    ($($text:tt)*) => { $crate::output::write_note(format_args!($($text)*)) };
}

/// As `eprintln!`.
macro_rules! noteln {
    ($($text:tt)*) => { $crate::output::write_note_line(format_args!($($text)*)) };
}

pub(crate) use {note, noteln, say, sayln};

/// Standard output in large pieces. What cannot be written at the end is a failure too.
pub(crate) struct Lines {
    out: BufWriter<StdoutLock<'static>>,
    raw: bool,
}

impl Lines {
    pub(crate) fn new() -> Self {
        let out = BufWriter::with_capacity(1 << 16, io::stdout().lock());
        Self { out, raw: false }
    }

    /// Bytes as they are, unless a person looks at them on a terminal.
    pub(crate) fn of_bytes() -> Self {
        let mut lines = Self::new();
        lines.raw = !io::stdout().is_terminal();
        lines
    }
}

impl Write for Lines {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.raw {
            return self.out.write(bytes);
        }
        write_plain(&mut self.out, bytes)?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}

impl Drop for Lines {
    fn drop(&mut self) {
        if let Err(error) = self.out.flush() {
            Failure::from(error).exit();
        }
    }
}

/// Text for a file, made as harmless as what is printed.
pub(crate) struct PlainText<W: Write>(pub(crate) W);

impl<W: Write> Write for PlainText<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        write_plain(&mut self.0, bytes)?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }
}

pub(crate) fn write(text: fmt::Arguments<'_>) {
    if let Err(error) = write_plain(&mut io::stdout(), text.to_string().as_bytes()) {
        Failure::from(error).exit();
    }
}

pub(crate) fn write_line(text: fmt::Arguments<'_>) {
    write(format_args!("{text}\n"));
}

pub(crate) fn write_note(text: fmt::Arguments<'_>) {
    let _ = write_plain(&mut io::stderr(), text.to_string().as_bytes());
}

pub(crate) fn write_note_line(text: fmt::Arguments<'_>) {
    // One write for one line, so that lines of several threads do not mix.
    let mut line = Vec::new();
    let _ = write_plain(&mut line, format!("{text}\n").as_bytes());
    let _ = io::stderr().write_all(&line);
}

/// Begins the line of a terminal's cursor anew.
pub(crate) fn clear_note_line() {
    let _ = io::stderr().write_all(b"\r\x1b[2K");
}

/// Other people's text within a line or a column: it cannot end either.
pub(crate) fn field(text: &str) -> Plain<'_> {
    Plain {
        text,
        one_line: true,
    }
}
