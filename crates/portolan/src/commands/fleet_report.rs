//! `portolan fleet report`, `why` and `urls`: a fleet's crawl as what was shipped of it says, while it runs and afterwards.

use std::io::Write;
use std::process::ExitCode;

use portolan_crawl::report::{bytes, counted};
use serde_json::json;

use super::fleet_crawl::FleetCrawl;
use super::status::Figures;
use super::{fleet_status, inspect, urls, why};
use crate::arguments::UrlsArguments;
use crate::arguments_fleet_commands::{
    FleetReportArguments, FleetUrlsArguments, FleetWhyArguments,
};
use crate::failure::Failure;

pub(super) fn report(arguments: &FleetReportArguments) -> Result<ExitCode, Failure> {
    let (crawl, fleet) = FleetCrawl::of(&arguments.fleet)?;
    let status = crawl.block_on(fleet.status())?;
    let figures = Figures::of(&portolan_crawl::snapshot(&crawl.updated()?)?)?;
    let warcs = crawl.warcs()?.len() as u64;
    let mut out = inspect::lines();
    if arguments.json {
        let mut value = figures.json();
        value["fleet"] = json!(status.name);
        value["state"] = json!(status.wish);
        value["archive_files"] = json!(warcs);
        value["stored_bytes"] = json!(crawl.warc_bytes());
        inspect::write_json(&mut out, &value)?;
    } else {
        writeln!(
            out,
            "The fleet '{}' {}.",
            status.name,
            fleet_status::state(&status)
        )?;
        figures.tell(&mut out)?;
        let (files, stored) = (counted(warcs, "WARC file"), bytes(crawl.warc_bytes()));
        writeln!(
            out,
            "  {files}, {stored} stored in {}.",
            fleet.definition().blobs
        )?;
    }
    out.flush()?;
    Ok(ExitCode::SUCCESS)
}

pub(super) fn why(arguments: &FleetWhyArguments) -> Result<ExitCode, Failure> {
    let (crawl, _) = FleetCrawl::of(&arguments.fleet)?;
    why::tell_of(&crawl, &arguments.url, arguments.json)
}

pub(super) fn urls(arguments: FleetUrlsArguments) -> Result<ExitCode, Failure> {
    let (crawl, _) = FleetCrawl::of(&arguments.fleet)?;
    urls::run(&UrlsArguments {
        dir: crawl.updated()?,
        wanted: arguments.wanted,
    })
}
