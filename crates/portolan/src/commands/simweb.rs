//! `portolan simweb`: serve a simulated Web and tell how it was treated.

use std::net::{IpAddr, Ipv4Addr};
use std::process::ExitCode;

use portolan_simweb::{ServerOptions, StopHandle, WebSpec, run as serve};
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

use crate::arguments::{SimwebArguments, WebArguments};
use crate::failure::Failure;
use crate::output::say;

pub(crate) fn run(arguments: SimwebArguments) -> Result<ExitCode, Failure> {
    let spec = spec(&arguments.web)?;
    let options = ServerOptions {
        ips: addresses(arguments.web.addresses),
        port: arguments.port,
        threads: arguments.web.server_threads,
        tls: spec.tls,
    };
    let stop = StopHandle::new();
    let stopper = stop.clone();
    let mut signals = Signals::new([SIGINT, SIGTERM]).map_err(Failure::failed)?;
    std::thread::spawn(move || {
        if signals.forever().next().is_some() {
            stopper.stop();
        }
    });
    serve(spec, &options, &stop, &mut std::io::stdout()).map_err(Failure::usage)?;
    Ok(ExitCode::SUCCESS)
}

/// 127.0.0.1, 127.0.0.2, …
fn addresses(count: u8) -> Vec<IpAddr> {
    (1..=count.max(1))
        .map(|last| IpAddr::V4(Ipv4Addr::new(127, 0, 0, last)))
        .collect()
}

/// The preset with what was asked for instead.
fn spec(arguments: &WebArguments) -> Result<WebSpec, Failure> {
    let mut spec = WebSpec::preset(&arguments.preset).map_err(Failure::usage)?;
    if let Some(hosts) = arguments.hosts {
        spec = spec.with_hosts(hosts);
    }
    if let Some(pages) = arguments.pages {
        spec = spec.with_pages_per_host(pages);
    }
    if let Some(seed) = arguments.seed {
        spec = spec.with_seed(seed);
    }
    if arguments.set.is_empty() {
        spec.check().map_err(Failure::usage)?;
        return Ok(spec);
    }
    let mut table = toml::Table::try_from(&spec).map_err(Failure::failed)?;
    for assignment in &arguments.set {
        if assignment == "help" {
            // Asked for, like --help: there is nothing more to do.
            say!("# The parameters of a Web and their values here.\n{table}");
            std::process::exit(0);
        }
        assign(&mut table, assignment)?;
    }
    let spec: WebSpec = table
        .try_into()
        .map_err(|e| Failure::usage(format!("--set: {e}").trim().replace('\n', " ")))?;
    spec.check().map_err(Failure::usage)?;
    Ok(spec)
}

/// `latency.mean_ms=5`
fn assign(table: &mut toml::Table, assignment: &str) -> Result<(), Failure> {
    let wrong = |what: &str| Failure::usage(format!("--set {assignment}: {what}"));
    let (name, value) = assignment
        .split_once('=')
        .ok_or_else(|| wrong("write it as name=value"))?;
    let mut place = &mut *table;
    let mut parts = name.split('.').peekable();
    while let Some(part) = parts.next() {
        if parts.peek().is_none() {
            let old = place.get(part).cloned();
            let parsed = format!("x = {value}").parse::<toml::Table>().ok();
            let mut new = parsed
                .and_then(|mut t| t.remove("x"))
                .unwrap_or_else(|| toml::Value::String(value.to_owned()));
            if let (Some(toml::Value::Float(_)), toml::Value::Integer(whole)) = (&old, &new) {
                new = toml::Value::Float(*whole as f64);
            }
            place.insert(part.to_owned(), new);
            return Ok(());
        }
        place = place
            .get_mut(part)
            .and_then(toml::Value::as_table_mut)
            .ok_or_else(|| wrong("there is no such parameter; '--set help' lists them"))?;
    }
    Err(wrong("there is no such parameter; '--set help' lists them"))
}
