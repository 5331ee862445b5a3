//! The `portolan` binary: what the user typed becomes what the rooms need.
//!
//! Layout: `arguments` and `arguments_graph` (the command line), `commands/` (one file for each command), `terminal`
//! (progress and figures for people), `failure` (one sentence and an exit code).

mod arguments;
mod arguments_graph;
mod commands;
mod failure;
mod terminal;

use std::process::ExitCode;

use clap::Parser;

fn main() -> ExitCode {
    let arguments = match arguments::Arguments::try_parse() {
        Ok(arguments) => arguments,
        Err(error) => {
            // clap prints help and version to stdout and mistakes to stderr.
            let _ = error.print();
            return ExitCode::from(if error.use_stderr() {
                failure::EXIT_USAGE
            } else {
                0
            });
        }
    };
    match commands::run(arguments.command) {
        Ok(code) => code,
        Err(failure) => failure.report(),
    }
}
