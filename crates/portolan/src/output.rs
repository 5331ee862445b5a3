//! What the program says. Whoever reads standard output may have seen enough (`portolan graph | head`):
//! that is no failure, and `println!` would make a panic of it. Text that cannot be written for
//! another reason, such as a full disk, is one. Nobody may be left to read standard error either: a
//! crawl goes on without its reader.
//!
//! Titles, headers and URLs are other people's text. All that is said passes `plain` on its way out, so
//! that none of it can move a terminal's cursor, turn the direction of a line, or hide in it.

use std::fmt;
use std::io::{self, BufWriter, IsTerminal, StdoutLock, Write};
use std::sync::{Mutex, MutexGuard};

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

/// As `eprintln!`.
macro_rules! noteln {
    ($($text:tt)*) => { $crate::output::write_note_line(format_args!($($text)*)) };
}

pub(crate) use {noteln, say, sayln};

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

pub(crate) fn write_note_line(text: fmt::Arguments<'_>) {
    // One write for one line, so that lines of several threads do not mix. The live line makes room and comes back below.
    let mut live = live_columns();
    let mut line = erase(&mut live);
    let _ = write_plain(&mut line, format!("{text}\n").as_bytes());
    let _ = io::stderr().write_all(&line);
}

/// Columns that the terminal's last line takes while it is redrawn in place; 0 where there is none.
static LIVE_COLUMNS: Mutex<usize> = Mutex::new(0);

fn live_columns() -> MutexGuard<'static, usize> {
    LIVE_COLUMNS
        .lock()
        .unwrap_or_else(|poisoned| poisoned.into_inner())
}

/// Draws the terminal's last line anew: `text` takes `columns` and is harmless already. It cannot wrap, even where the terminal
/// counts a character's columns otherwise.
pub(crate) fn draw_live(text: &str, columns: usize) {
    let mut live = live_columns();
    let mut out = erase(&mut live);
    let _ = write!(out, "\x1b[?7l{text}\x1b[?7h");
    *live = columns;
    let _ = io::stderr().write_all(&out);
}

pub(crate) fn clear_live() {
    let _ = io::stderr().write_all(&erase(&mut live_columns()));
}

/// What takes the live line away. A terminal that became narrower since has broken it into several.
fn erase(live: &mut usize) -> Vec<u8> {
    let columns = std::mem::take(live);
    if columns == 0 {
        return Vec::new();
    }
    match (columns - 1) / terminal_columns().max(1) {
        0 => b"\r\x1b[K".to_vec(),
        above => format!("\r\x1b[{above}A\x1b[J").into_bytes(),
    }
}

/// How wide the terminal is at which standard error ends, as of now.
pub(crate) fn terminal_columns() -> usize {
    /// What terminals had before they could be asked.
    const UNKNOWN: usize = 80;
    let size = terminal_size::terminal_size_of(io::stderr());
    size.map_or(UNKNOWN, |(width, _)| usize::from(width.0))
}

/// Other people's text within a line or a column: it cannot end either.
pub(crate) fn field(text: &str) -> Plain<'_> {
    Plain {
        text,
        one_line: true,
    }
}
