//! One file for each command.

mod bench;
mod config;
mod crawl;
mod demo;
mod inspect;
mod links;
mod simweb;
mod status;
mod urls;
mod warc;
mod why;

use std::process::ExitCode;

use crate::arguments::Command;
use crate::failure::Failure;

pub(crate) fn run(command: Command) -> Result<ExitCode, Failure> {
    match command {
        Command::Crawl(arguments) => crawl::run(arguments),
        Command::Status(arguments) => status::run(&arguments),
        Command::Urls(arguments) => urls::run(&arguments),
        Command::Why(arguments) => why::run(&arguments),
        Command::Links(arguments) => links::run(&arguments),
        Command::Warc(command) => warc::run(command),
        Command::Config(arguments) => config::run(&arguments),
        Command::Simweb(arguments) => simweb::run(arguments),
        Command::Demo(arguments) => demo::run(arguments),
        Command::Bench(command) => bench::run(command),
    }
}
