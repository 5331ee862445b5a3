//! `portolan fleet` for crawls of several groups: makes them and their groups, and says how the groups are.

use std::io::Write;

use portolan_crawl::fleet::owners_of;
use portolan_crawl::report::{bytes, counted, duration, thousands};
use portolan_fleet::{
    Fleet, FleetError, GroupView, Hub, HubStatus, HubView, NewCrawl, NewGroup, Wish, fleet_name,
};

use super::fleet::{division, lease_ms, place, seeds, settings_of};
use crate::arguments_fleet_commands::{NamedArguments, NewArguments};
use crate::failure::Failure;
use crate::output::sayln;

/// A group's coordinator meets the hub each second; one that was not heard of for this long is behind.
const SILENT_S: f64 = 10.0;

/// What a name stands for on some servers.
pub(super) enum Named {
    Fleet(Fleet),
    /// A crawl of several groups.
    Hub(Box<Hub>),
}

/// A fleet, or a crawl of several groups on the hub's servers.
pub(super) async fn open_any(named: &NamedArguments) -> Result<Named, Failure> {
    let servers = named.servers.servers();
    match Fleet::open(&servers, &named.name).await {
        Ok(fleet) => Ok(Named::Fleet(fleet)),
        Err(unknown @ FleetError::Unknown(_)) => match Hub::open(&servers, &named.name).await {
            Ok(hub) => Ok(Named::Hub(Box::new(hub))),
            Err(FleetError::Unknown(_)) => Err(unknown.into()),
            Err(error) => Err(error.into()),
        },
        Err(error) => Err(error.into()),
    }
}

/// What can only be said of one group.
pub(super) async fn open_group(named: &NamedArguments) -> Result<Fleet, Failure> {
    match open_any(named).await? {
        Named::Fleet(fleet) => Ok(fleet),
        Named::Hub(hub) => Err(Failure::usage(format!(
            "'{0}' is a crawl of several groups; ask one of them: {0}-{1}, on its own servers",
            named.name,
            hub.definition().groups.join(&format!(", {}-", named.name))
        ))),
    }
}

pub(super) async fn new_crawl(arguments: &NewArguments) -> Result<(), Failure> {
    let settings = settings_of(arguments)?;
    let groups = &arguments.under.groups;
    let owners = owners_of(&settings, groups, arguments.partitions)?;
    let (partitions, _) = division(arguments, &settings)?;
    let seeds = seeds(arguments, &settings)?;
    let count = seeds.len();
    let new = NewCrawl {
        name: arguments.name.clone(),
        settings: toml::to_string(&settings).map_err(Failure::failed)?,
        seeds,
        partitions,
        groups: groups.clone(),
        owners,
    };
    Hub::create(&arguments.servers.servers(), new).await?;
    sayln!(
        "Made the crawl '{0}' of {1} groups: {partitions} partitions, {count} seeds. On each group's servers: portolan fleet \\
         new {0} --group {2} --blobs PLACE, with --nats and certificates.",
        arguments.name,
        groups.len(),
        groups.join("|")
    );
    Ok(())
}

pub(super) async fn new_group(arguments: &NewArguments, group: String) -> Result<(), Failure> {
    let new = NewGroup {
        crawl: arguments.name.clone(),
        group,
        hub_domain: arguments.under.hub_domain.clone(),
        blobs: place(arguments)?,
        lease_ms: lease_ms(arguments)?,
        max_pages: arguments.max_pages,
        link_bytes: arguments.link_disk << 30,
        log_bytes: arguments.log_disk << 30,
        up_bytes: arguments.under.up_disk << 30,
    };
    let fleet = Fleet::create_group(&arguments.servers.servers(), new).await?;
    let definition = fleet.definition();
    sayln!(
        "Made the fleet '{0}': {1} of {2} partitions. On each machine: portolan node {0} --dir DIR, with the same --nats and \\
         certificates.",
        definition.name,
        definition.own_partitions(),
        definition.partitions
    );
    Ok(())
}

/// How all groups are.
pub(super) fn write(out: &mut impl Write, status: &HubStatus) -> Result<(), Failure> {
    let state = match status.wish {
        Wish::Run => "is at work",
        Wish::Stop => "is stopped, and can go on",
        Wish::End => "was ended",
        Wish::Complete => "is complete",
    };
    let figures = || {
        let reports = status.groups.values().filter_map(|it| it.reported.as_ref());
        reports.map(|report| &report.figures)
    };
    let sum = |of: fn(&portolan_fleet::GroupFigures) -> u64| figures().map(of).sum::<u64>();
    let rate: f64 = figures().map(|of| of.pages_per_s).sum();
    writeln!(
        out,
        "The crawl '{}' of {} {state}.",
        status.name,
        counted(status.groups.len() as u64, "group")
    )?;
    writeln!(
        out,
        "  {} known: {} visited, {} due; {rate:.1} documents a second.",
        counted(sum(|of| of.known), "URL"),
        thousands(sum(|of| of.visited)),
        thousands(sum(|of| of.due)),
    )?;
    for (group, view) in &status.groups {
        write_group(out, &status.name, group, view)?;
    }
    Ok(())
}

fn write_group(
    out: &mut impl Write,
    crawl: &str,
    group: &str,
    view: &GroupView,
) -> Result<(), Failure> {
    write!(
        out,
        "  {} ({}): ",
        fleet_name(crawl, group),
        counted(view.partitions as u64, "partition")
    )?;
    let Some(report) = &view.reported else {
        writeln!(out, "the hub has never heard of it")?;
        return Ok(());
    };
    let figures = &report.figures;
    write!(
        out,
        "{}, {} visited, {} due, {:.1} documents a second; links that wait: {} to go up ({}), {} to come down",
        counted(figures.nodes as u64, "node"),
        thousands(figures.visited),
        thousands(figures.due),
        figures.pages_per_s,
        counted(figures.up.values().sum(), "message"),
        bytes(figures.up_bytes),
        thousands(view.down),
    )?;
    if view.silent_s >= SILENT_S {
        write!(
            out,
            "; the hub has heard nothing for {}",
            duration(view.silent_s)
        )?;
    }
    writeln!(out)?;
    Ok(())
}

/// A group and its hub, as a line of the group's status.
pub(super) fn write_hub(out: &mut impl Write, hub: &HubView) -> Result<(), Failure> {
    write!(
        out,
        "  Group '{}' of crawl '{}' under the hub '{}': ",
        hub.group, hub.crawl, hub.domain
    )?;
    match &hub.contact {
        None => write!(out, "no coordinator has met it yet")?,
        Some(_) if hub.silent_s >= SILENT_S => write!(
            out,
            "no coordinator has looked for it for {}",
            duration(hub.silent_s)
        )?,
        Some(contact) if contact.trouble.is_empty() => write!(out, "it answers")?,
        Some(contact) => write!(
            out,
            "away for {} ({})",
            duration(contact.away_s),
            contact.trouble
        )?,
    }
    let waits =
        |(group, messages): (&String, &u64)| format!("{} for {group}", thousands(*messages));
    let waiting: Vec<_> = hub.up.iter().map(waits).collect();
    write!(
        out,
        "; messages of links that wait to go up: {} ({})",
        waiting.join(", "),
        bytes(hub.up_bytes)
    )?;
    let not_taken = hub.contact.iter().flat_map(|contact| &contact.not_taken);
    for (group, why) in not_taken {
        write!(out, "; {group} takes none: {why}")?;
    }
    writeln!(out, ".")?;
    Ok(())
}
