//! `portolan signal`: tells a crawl that pages have changed.

use std::io::{BufRead, Read};
use std::net::SocketAddr;
use std::path::Path;
use std::process::ExitCode;

use portolan_crawl::report::{counted, thousands};
use portolan_crawl::{PingOptions, leave_signals, receive_pings};
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

use crate::arguments_freshness::SignalArguments;
use crate::failure::Failure;
use crate::log;
use crate::output::{noteln, sayln};

/// A file larger than this is a mistake.
const FILE_MAX_BYTES: u64 = 1 << 28;

pub(crate) fn run(arguments: &SignalArguments) -> Result<ExitCode, Failure> {
    let dir = &arguments.dir;
    if let Some(listen) = arguments.listen {
        return listen_for_pings(arguments, listen);
    }
    for (given, option) in [
        (!arguments.trust.is_empty(), "--trust"),
        (arguments.verbose, "--verbose"),
        (arguments.quiet, "--quiet"),
    ] {
        if given {
            return Err(Failure::usage(format!(
                "{option} is for pings, which --listen hears"
            )));
        }
    }
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

/// Sites say by IndexNow what has changed, until Ctrl-C.
fn listen_for_pings(arguments: &SignalArguments, listen: SocketAddr) -> Result<ExitCode, Failure> {
    log::begin(u8::from(arguments.verbose), None)?;
    let trusted = arguments.trust.iter().map(|text| text.parse());
    let options = PingOptions {
        dir: arguments.dir.clone(),
        listen,
        trusted: trusted
            .collect::<Result<_, _>>()
            .map_err(|e| Failure::usage(format!("--trust: {e}")))?,
    };
    let (stop, told) = tokio::sync::oneshot::channel();
    let mut signals = Signals::new([SIGINT, SIGTERM]).map_err(Failure::failed)?;
    std::thread::spawn(move || {
        if signals.forever().next().is_some() {
            let _ = stop.send(());
        }
    });
    let stop = async {
        let _ = told.await;
    };
    let begun = |address| {
        if !arguments.quiet {
            noteln!("Pings are heard at http://{address}/indexnow.");
        }
    };
    let counts = receive_pings(options, stop, begun)?;
    if !arguments.quiet {
        noteln!(
            "{} heard, {} taken, with {}.",
            counted(counts.pings, "ping"),
            thousands(counts.taken),
            counted(counts.urls, "URL")
        );
    }
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
