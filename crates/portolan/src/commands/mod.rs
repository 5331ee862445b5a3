//! One file for each command.

mod augment;
mod bench;
pub(crate) mod bench_adoption;
mod bench_archive;
mod bench_crawl;
mod bench_extract;
mod bench_freshness;
mod bench_frontier;
mod bench_frontier_server;
mod bench_graph;
mod bench_keep;
mod bench_pace;
mod bench_pages;
mod bench_registry;
mod bench_server;
mod bench_session;
mod bench_stages;
mod bench_tol;
mod check;
mod config;
mod crawl;
mod demo;
mod demo_fleet;
mod diff;
mod export;
mod fetch;
mod fleet;
mod fleet_config;
mod fleet_crawl;
mod fleet_hub;
mod fleet_index;
mod fleet_report;
mod fleet_status;
mod fleet_trace;
mod fleet_traffic;
mod freshness;
mod graph;
mod graph_input;
mod inspect;
mod links;
mod manual;
mod node;
mod order;
mod partition;
mod partition_compare;
mod partition_modes;
mod rank;
mod registry;
mod serve_frontier;
mod sessions;
mod side_by_side;
mod signal;
mod simulate;
mod simweb;
mod status;
mod url_formats;
mod url_row;
mod url_sorter;
mod urls;
mod warc;
mod why;

use std::process::ExitCode;

use crate::arguments::Command;
use crate::arguments_graph::GraphCommand;
use crate::failure::Failure;

pub(crate) fn run(command: Command) -> Result<ExitCode, Failure> {
    match command {
        Command::Crawl(arguments) => crawl::run(arguments),
        Command::Fetch(arguments) => fetch::run(&arguments),
        Command::Status(arguments) => status::run(&arguments),
        Command::Sessions(arguments) => sessions::run(&arguments),
        Command::Diff(arguments) => diff::run(&arguments),
        Command::Freshness(arguments) => freshness::run(&arguments),
        Command::Signal(arguments) => signal::run(&arguments),
        Command::Urls(arguments) => urls::run(&arguments),
        Command::Why(arguments) => why::run(&arguments),
        Command::Links(arguments) => links::run(&arguments),
        Command::Registry(arguments) => registry::run(arguments),
        Command::Warc(command) => warc::run(command),
        Command::Check(arguments) => check::run(&arguments),
        Command::Node(arguments) => node::run(&arguments),
        Command::Fleet(command) => fleet::run(command),
        Command::ServeFrontier(arguments) => serve_frontier::run(&arguments),
        Command::Augment(arguments) => augment::run(&arguments),
        Command::Config(arguments) => config::run(&arguments),
        Command::Completions(arguments) => manual::completions(&arguments),
        Command::Man(arguments) => manual::man(&arguments),
        Command::Simulate(arguments) => simulate::run(&arguments),
        Command::Simweb(arguments) => simweb::run(arguments),
        Command::Demo(arguments) => demo::run(arguments),
        Command::Bench(command) => bench::run(command),
        Command::Graph(command) => match command {
            GraphCommand::Graph(arguments) => graph::run(&arguments),
            GraphCommand::Partition(arguments) => partition::run(&arguments),
            GraphCommand::Order(arguments) => order::run(&arguments),
            GraphCommand::Rank(arguments) => rank::run(&arguments),
            GraphCommand::Export(command) => export::run(&command),
        },
    }
}
