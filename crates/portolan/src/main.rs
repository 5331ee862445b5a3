//! The `portolan` binary: what the user typed becomes what the rooms need.
//!
//! Layout: `advice` (what to type about an error), `arguments` and `arguments_*` (the command line), `commands/` (one file for each command), `terminal`
//! (progress and figures for people), `output` (what is said, and where), `failure` (one sentence and an exit code), `log` (what -v tells), `memory` (what
//! the allocator is told).

#![deny(clippy::print_stderr, clippy::print_stdout)]

mod advice;
mod arguments;
mod arguments_access;
mod arguments_augment;
mod arguments_bench;
mod arguments_fleet;
mod arguments_fleet_commands;
mod arguments_freshness;
mod arguments_frontier;
mod arguments_graph;
mod arguments_sailor;
mod arguments_simulate;
mod commands;
mod failure;
mod log;
mod memory;
mod output;
mod plain;
mod terminal;

use std::process::ExitCode;

use clap::Parser;
use clap::error::{ContextKind, ContextValue, ErrorKind};

fn main() -> ExitCode {
    memory::give_large_buffers_back();
    // Crawls and simulated Webs have thousands of connections.
    portolan_crawl::raise_open_files();
    let arguments = match arguments::Arguments::try_parse() {
        Ok(arguments) => arguments,
        Err(error) if error.use_stderr() => {
            return failure::Failure::usage(mistake(&error)).report();
        }
        Err(error) => {
            // Help or the version, asked for.
            return match error.print() {
                Ok(()) => ExitCode::SUCCESS,
                Err(error) => failure::Failure::from(error).report(),
            };
        }
    };
    match commands::run(arguments.command) {
        Ok(code) => code,
        Err(failure) => failure.report(),
    }
}

/// What clap says of a mistake in several paragraphs, in one sentence. Who typed nothing gets the help.
fn mistake(error: &clap::Error) -> String {
    let text = error.to_string();
    if error.kind() == ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand {
        return format!(
            "No command given. Try 'portolan --help'.\n\n{}",
            text.trim_end()
        );
    }
    let first = text.split("\n\n").next().unwrap_or_default();
    let words: Vec<&str> = first.split_whitespace().collect();
    let sentence = words.join(" ");
    format!(
        "{}; {}--help shows what can be written",
        sentence.trim_start_matches("error: "),
        meant(error)
    )
}

/// What may have been meant, where a name was misspelt or the command left out.
fn meant(error: &clap::Error) -> String {
    let suggested = [
        ContextKind::SuggestedSubcommand,
        ContextKind::SuggestedArg,
        ContextKind::SuggestedValue,
    ];
    let names = suggested
        .into_iter()
        .find_map(|kind| match error.get(kind) {
            Some(ContextValue::String(name)) => Some(format!("'{name}'")),
            Some(ContextValue::Strings(names)) if !names.is_empty() => {
                Some(format!("'{}'", names.join("' or '")))
            }
            _ => None,
        });
    match (names, error.get(ContextKind::InvalidSubcommand)) {
        (Some(names), _) => format!("did you mean {names}? "),
        (None, Some(ContextValue::String(word))) if word.contains("://") => {
            format!("did you mean 'portolan crawl {word}'? ")
        }
        (None, _) => String::new(),
    }
}
