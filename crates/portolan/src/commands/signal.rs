//! `portolan signal`: tells a crawl that pages have changed.

use std::io::{BufRead, Read};
use std::path::Path;
use std::process::ExitCode;

use portolan_crawl::leave_signals;
use portolan_crawl::report::counted;

use crate::arguments_freshness::SignalArguments;
use crate::failure::Failure;
use crate::output::sayln;

/// A file larger than this is a mistake.
const FILE_MAX_BYTES: u64 = 1 << 28;

pub(crate) fn run(arguments: &SignalArguments) -> Result<ExitCode, Failure> {
    let dir = &arguments.dir;
    let mut urls = arguments.urls.clone();
    match arguments.from.as_deref() {
        Some(from) if from.as_os_str() == "-" => {
            if !urls.is_empty() {
                leave_signals(dir, urls.iter().map(String::as_str))?;
            }
            return hear(dir);
        }
        Some(from) => urls.extend(read(from)?),
        None => {}
    }
    let count = leave_signals(dir, urls.iter().map(String::as_str))?;
    sayln!(
        "{} left for the crawl in {}.",
        counted(count as u64, "URL"),
        dir.display()
    );
    Ok(ExitCode::SUCCESS)
}

/// Each line of standard input as it comes.
fn hear(dir: &Path) -> Result<ExitCode, Failure> {
    for line in std::io::stdin().lock().lines() {
        let line = line.map_err(|e| Failure::usage(format!("--from -: {e}")))?;
        let url = line.trim();
        if !url.is_empty() {
            leave_signals(dir, std::iter::once(url))?;
        }
    }
    Ok(ExitCode::SUCCESS)
}

fn read(file: &Path) -> Result<Vec<String>, Failure> {
    let wrong = |e| Failure::usage(format!("--from {}: {e}", file.display()));
    let mut text = String::new();
    let opened = std::fs::File::open(file).map_err(wrong)?;
    opened
        .take(FILE_MAX_BYTES)
        .read_to_string(&mut text)
        .map_err(wrong)?;
    let lines = text.lines().map(str::trim).filter(|line| !line.is_empty());
    Ok(lines.map(str::to_owned).collect())
}
