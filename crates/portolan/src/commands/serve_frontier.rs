//! `portolan serve-frontier`: a frontier for other people's crawlers.

use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;

use portolan_crawl::report::counted;
use portolan_urlfrontier::{FrontierError, Level, ServerOptions, serve};
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use tracing::level_filters::LevelFilter;

use crate::arguments_frontier::ServeFrontierArguments;
use crate::failure::Failure;
use crate::log;
use crate::output::noteln;

/// Threads that may read the store at once, for calls that look at many URLs.
const READERS: usize = 8;

pub(crate) fn run(arguments: &ServeFrontierArguments) -> Result<ExitCode, Failure> {
    log::begin_adjustable(arguments.verbose, arguments.log.as_deref())?;
    let tls = match (&arguments.tls_cert, &arguments.tls_key) {
        (Some(certificate), Some(key)) => {
            Some((read("--tls-cert", certificate)?, read("--tls-key", key)?))
        }
        _ => None,
    };
    let token = arguments.token_file.as_deref();
    let options = ServerOptions {
        dir: arguments.dir.clone(),
        listen: arguments.listen,
        memory: arguments.memory_mb << 20,
        tls,
        token: token
            .map(|file| read_token("--token-file", file))
            .transpose()?,
        insecure: arguments.insecure,
        log_levels: Arc::new(set_log_level),
    };
    let (stop, told) = tokio::sync::oneshot::channel();
    let mut signals = Signals::new([SIGINT, SIGTERM]).map_err(Failure::failed)?;
    std::thread::spawn(move || {
        if signals.forever().next().is_some() {
            let _ = stop.send(());
        }
    });
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .max_blocking_threads(READERS)
        .build()
        .map_err(Failure::failed)?;
    let (quiet, dir) = (arguments.quiet, arguments.dir.display().to_string());
    let begun = move |address, found: portolan_urlfrontier::Found| {
        if !quiet {
            noteln!(
                "Serving the frontier in {dir} on {address}: {} in {}.",
                counted(found.urls, "URL"),
                counted(found.queues as u64, "queue")
            );
        }
    };
    let stop = async {
        let _ = told.await;
    };
    match runtime.block_on(serve(options, stop, begun)) {
        Ok(()) => Ok(ExitCode::SUCCESS),
        Err(error @ FrontierError::Input(_)) => Err(Failure::usage(error)),
        Err(error @ FrontierError::PlainText(_)) => Err(Failure::usage(format!(
            "{error}; give --tls-cert and --tls-key, or --insecure if the network is to be trusted"
        ))),
        Err(error) => Err(Failure::failed(error)),
    }
}

pub(super) fn read(option: &str, file: &Path) -> Result<Vec<u8>, Failure> {
    std::fs::read(file).map_err(|e| Failure::usage(format!("{option} {}: {e}", file.display())))
}

/// The only line of a file.
pub(super) fn read_token(option: &str, file: &Path) -> Result<String, Failure> {
    let text = String::from_utf8(read(option, file)?).unwrap_or_default();
    let token = text.trim();
    let is_token = !token.is_empty() && token.bytes().all(|byte| byte.is_ascii_graphic());
    if !is_token {
        return Err(Failure::usage(format!(
            "{option} {}: the file has to hold one token, of letters, digits and signs without spaces",
            file.display()
        )));
    }
    Ok(token.to_owned())
}

/// What a client of the API asked to be told of. Names of other programs' parts mean the whole of this one.
fn set_log_level(package: &str, level: Level) {
    let level = match level {
        Level::Trace => LevelFilter::TRACE,
        Level::Debug => LevelFilter::DEBUG,
        Level::Info => LevelFilter::INFO,
        Level::Warn => LevelFilter::WARN,
        Level::Error => LevelFilter::ERROR,
    };
    log::adjust(package, level);
}
