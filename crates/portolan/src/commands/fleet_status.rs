//! `portolan fleet status`: how a fleet is, once or until it has ended.

use std::io::{IsTerminal, Write};
use std::time::Duration;

use portolan_crawl::report::{bytes, counted, duration, thousands};
use portolan_fleet::{FleetStatus, NodeView, Wish};

use super::fleet_hub::{self, Named, open_any};
use super::inspect;
use super::status::draw;
use crate::arguments_fleet_commands::FleetStatusArguments;
use crate::failure::Failure;

/// A node reports each second; one that has said nothing for this long is behind, and its rate counts for nothing.
const SILENT_S: f64 = 5.0;

/// Looking is work for the servers.
const LEAST_PAUSE: Duration = Duration::from_millis(200);

pub(super) async fn run(arguments: &FleetStatusArguments) -> Result<(), Failure> {
    let named = open_any(&arguments.fleet).await?;
    let in_place = arguments.watch.is_some() && std::io::stdout().is_terminal() && !arguments.json;
    let mut drawn_rows = 0;
    loop {
        let mut out = Vec::new();
        let wish = look(&named, arguments.json, &mut out).await?;
        if in_place {
            drawn_rows = draw(&out, drawn_rows)?;
        } else {
            let mut lines = inspect::lines();
            lines.write_all(&out)?;
            lines.flush()?;
        }
        let ended = matches!(wish, Wish::End | Wish::Complete);
        match arguments.watch {
            Some(every) if !ended => tokio::time::sleep(every.max(LEAST_PAUSE)).await,
            _ => return Ok(()),
        }
    }
}

/// Writes how it is, and says what is wished of it.
async fn look(named: &Named, json: bool, out: &mut Vec<u8>) -> Result<Wish, Failure> {
    let (wish, value) = match named {
        Named::Fleet(fleet) => {
            let status = fleet.status().await?;
            if !json {
                write(out, &status)?;
            }
            (status.wish, serde_json::to_value(&status))
        }
        Named::Hub(hub) => {
            let status = hub.status().await?;
            if !json {
                fleet_hub::write(out, &status)?;
            }
            (status.wish, serde_json::to_value(&status))
        }
    };
    if json {
        inspect::write_json(out, &value.map_err(Failure::failed)?)?;
    }
    Ok(wish)
}

/// In words, after the fleet's name.
pub(super) fn state(status: &FleetStatus) -> &'static str {
    let alive = status.nodes.values().filter(|node| node.alive).count();
    match status.wish {
        Wish::Run if alive == 0 => "waits for nodes",
        Wish::Run => "is at work",
        Wish::Stop => "is stopped, and can go on",
        Wish::End => "was ended",
        Wish::Complete => "is complete",
    }
}

fn write(out: &mut impl Write, status: &FleetStatus) -> Result<(), Failure> {
    let state = state(status);
    let partitions = || {
        status
            .nodes
            .values()
            .filter_map(|node| node.reported.as_ref())
            .flat_map(|r| &r.status.partitions)
    };
    let sum = |of: fn(&portolan_fleet::PartitionStatus) -> u64| partitions().map(of).sum::<u64>();
    let rate: f64 = alive_nodes(status).map(|node| node.pages_per_s).sum();
    writeln!(out, "The fleet '{}' {state}.", status.name)?;
    writeln!(
        out,
        "  {} known: {} visited, {} due; {rate:.1} documents a second.",
        counted(sum(|of| of.known), "URL"),
        thousands(sum(|of| of.visited)),
        thousands(sum(|of| of.due)),
    )?;
    writeln!(
        out,
        "  {} of {} have a node; {} of links wait ({}); {} in the ship log.",
        thousands(u64::from(status.partitions) - status.free as u64),
        counted(u64::from(status.partitions), "partition"),
        counted(status.links_waiting, "message"),
        bytes(status.links_waiting_bytes),
        counted(status.ship_records, "record"),
    )?;
    match status.pages_left {
        Some(0) => writeln!(
            out,
            "  No document may still be fetched: 'portolan fleet config {0} --max-pages N' raises the limit, 'portolan fleet end {0}' ends the crawl.",
            status.name
        )?,
        Some(left) => writeln!(out, "  {} may still be fetched.", counted(left, "document"))?,
        None => {}
    }
    if let Some(hub) = &status.hub {
        fleet_hub::write_hub(out, hub)?;
    }
    for (name, node) in &status.nodes {
        write_node(out, name, node, status.coordinator.as_deref() == Some(name))?;
    }
    Ok(())
}

fn alive_nodes(status: &FleetStatus) -> impl Iterator<Item = &portolan_fleet::NodeStatus> {
    let heard = |node: &&NodeView| node.alive && node.silent_s < SILENT_S;
    let alive = status.nodes.values().filter(heard);
    alive
        .filter_map(|node| node.reported.as_ref())
        .map(|reported| &reported.status)
}

fn write_node(
    out: &mut impl Write,
    name: &str,
    node: &NodeView,
    coordinates: bool,
) -> Result<(), Failure> {
    let state = match (node.alive, node.draining) {
        (false, _) => ", lost",
        (true, true) => ", draining",
        (true, false) => "",
    };
    let coordinates = if coordinates { ", coordinates" } else { "" };
    let role = match node
        .reported
        .as_ref()
        .map(|reported| reported.status.role.as_str())
    {
        None | Some("" | "both") => String::new(),
        Some(role) => format!(", {role}"),
    };
    write!(
        out,
        "  {name}{role}{state}{coordinates}: {}",
        counted(node.holds as u64, "partition")
    )?;
    if let Some(reported) = node
        .reported
        .as_ref()
        .filter(|reported| reported.incarnation == node.incarnation)
    {
        let status = &reported.status;
        write!(
            out,
            ", {} ({:.1} a second), {} connections, {} not shipped, {} sent, {} heard",
            counted(status.pages, "document"),
            status.pages_per_s,
            thousands(status.connections),
            bytes(status.unshipped_bytes),
            counted(status.links_sent, "link"),
            thousands(status.links_heard),
        )?;
        if status.grants > 0 {
            write!(
                out,
                ", {}, {} back, {} expired",
                counted(status.grants, "grant"),
                thousands(status.returns),
                thousands(status.expired),
            )?;
        }
        if status.target > 0 {
            write!(
                out,
                ", told to have {} connections",
                thousands(status.target)
            )?;
        }
        if status.hurries + status.slows > 0 {
            write!(
                out,
                " (hurry up: {}, slow down: {})",
                thousands(status.hurries),
                thousands(status.slows)
            )?;
        }
        if !status.trouble.is_empty() {
            write!(out, "; {}", status.trouble)?;
        }
        if node.alive && node.silent_s >= SILENT_S {
            write!(out, "; it has said nothing for {}", duration(node.silent_s))?;
        }
    }
    writeln!(out)?;
    Ok(())
}
