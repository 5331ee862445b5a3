//! What the program says. Whoever reads standard output may have seen enough (`portolan graph | head`):
//! that is no failure, and `println!` would make a panic of it. Text that cannot be written for
//! another reason, such as a full disk, is one. Nobody may be left to read standard error either: a
//! crawl goes on without its reader.

use std::fmt;
use std::io::{self, BufWriter, StdoutLock, Write};

use crate::failure::Failure;

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
pub(crate) struct Lines(BufWriter<StdoutLock<'static>>);

impl Lines {
    pub(crate) fn new() -> Self {
        Lines(BufWriter::with_capacity(1 << 16, io::stdout().lock()))
    }
}

impl Write for Lines {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }
}

impl Drop for Lines {
    fn drop(&mut self) {
        if let Err(error) = self.0.flush() {
            Failure::from(error).exit();
        }
    }
}

pub(crate) fn write(text: fmt::Arguments<'_>) {
    if let Err(error) = io::stdout().write_fmt(text) {
        Failure::from(error).exit();
    }
}

pub(crate) fn write_line(text: fmt::Arguments<'_>) {
    write(format_args!("{text}\n"));
}

pub(crate) fn write_note(text: fmt::Arguments<'_>) {
    let _ = std::io::stderr().write_fmt(text);
}

pub(crate) fn write_note_line(text: fmt::Arguments<'_>) {
    // One write for one line, so that lines of several threads do not mix.
    let _ = std::io::stderr().write_all(format!("{text}\n").as_bytes());
}
