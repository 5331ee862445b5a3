//! `portolan registry`: the URL-Registry as WEB-SAILOR draws it, with DocID, URL, count and visited, for all DSets or one.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use portolan_registry::{Snapshot, UrlFilter, UrlRecord, UrlState};
use serde_json::json;

use super::fleet_crawl::FleetCrawl;
use super::inspect;
use crate::arguments_fleet::ServersArguments;
use crate::arguments_fleet_commands::NamedArguments;
use crate::arguments_sailor::RegistryArguments;
use crate::failure::Failure;
use crate::output::sayln;

/// Ordered so that the most linked is last; of equals the one with the earlier URL.
type Row = (u32, Reverse<String>, u64, bool, u16);

pub(crate) fn run(arguments: RegistryArguments) -> Result<ExitCode, Failure> {
    let (sets, snapshot) = open(arguments.place, arguments.servers)?;
    let wanted = match &arguments.dset {
        Some(name) => Some(partition_of(name, &sets, &snapshot)?),
        None => None,
    };
    let rows = top(&snapshot, wanted, arguments.top)?;
    let mut out = inspect::lines();
    if !arguments.json {
        writeln!(out, "DocID\tcount\tvisited\tURL")?;
    }
    for (count, Reverse(url), doc, visited, partition) in rows {
        if arguments.json {
            let row = json!({
                "doc": format!("{doc:016x}"), "url": url, "count": count, "visited": visited, "partition": partition,
                "dset": sets.get(usize::from(partition)),
            });
            inspect::write_json(&mut out, &row)?;
        } else {
            let visited = if visited { "yes" } else { "no" };
            writeln!(out, "{doc:016x}\t{count}\t{visited}\t{url}")?;
        }
    }
    out.flush()?;
    if !arguments.json
        && let Some(set) = wanted.and_then(|partition| sets.get(usize::from(partition)))
    {
        sayln!("\nDSet {{{}}}", set.join(", "));
    }
    Ok(ExitCode::SUCCESS)
}

/// The DSets, and what is known: of a crawl's directory, of a store, or of a fleet by its name.
fn open(
    place: PathBuf,
    servers: ServersArguments,
) -> Result<(Vec<Vec<String>>, Snapshot), Failure> {
    let of_fleet = |crawl: &FleetCrawl| {
        let snapshot = portolan_crawl::snapshot(&crawl.updated()?)?;
        Ok((crawl.dsets(), snapshot))
    };
    if let Some(crawl) = FleetCrawl::at(&place)? {
        return of_fleet(&crawl);
    }
    if let Some(name) = fleet_name(&place) {
        let (crawl, _) = FleetCrawl::of(&NamedArguments { name, servers }).map_err(|failure| {
            failure.about(&format!("there is no directory '{}'", place.display()))
        })?;
        return of_fleet(&crawl);
    }
    let dir = crawl_dir(&place);
    Ok((
        portolan_crawl::dsets(&dir)?,
        portolan_crawl::snapshot(&dir)?,
    ))
}

/// What is no directory may be a fleet.
fn fleet_name(place: &Path) -> Option<String> {
    let name = place.to_str().filter(|name| !name.contains('/'))?;
    (!place.exists()).then(|| name.to_owned())
}

/// A node's directory holds its crawl's.
fn crawl_dir(dir: &Path) -> PathBuf {
    let inner = dir.join("crawl");
    match dir.join("node").is_file() && inner.is_dir() {
        true => inner,
        false => dir.to_owned(),
    }
}

fn partition_of(name: &str, sets: &[Vec<String>], snapshot: &Snapshot) -> Result<u16, Failure> {
    let extension = name.trim_start_matches('.').to_ascii_lowercase();
    let holds = |set: &Vec<String>| {
        set.iter()
            .any(|known| known.trim_start_matches('.') == extension)
    };
    if let Some(at) = sets.iter().position(holds) {
        return Ok(at as u16);
    }
    match name.parse::<u16>() {
        Ok(number) if usize::from(number) < sets.len().max(usize::from(snapshot.partitions())) => {
            Ok(number)
        }
        _ if sets.is_empty() => Err(Failure::usage(format!(
            "--dset {name}: this crawl is not divided by DSets; name a partition from 0 to {}, or leave --dset out",
            snapshot.partitions().saturating_sub(1)
        ))),
        _ => {
            let known: Vec<_> = sets.iter().map(|set| set.join(" ")).collect();
            Err(Failure::usage(format!(
                "--dset {name}: no DSet lists it; there are {}",
                known.join("; ")
            )))
        }
    }
}

/// The most linked first. In memory are only those that are shown.
fn top(snapshot: &Snapshot, wanted: Option<u16>, most: usize) -> Result<Vec<Row>, Failure> {
    let mut best: BinaryHeap<Reverse<Row>> = BinaryHeap::new();
    for record in snapshot.urls(UrlFilter::default()) {
        let record: UrlRecord = record.map_err(Failure::failed)?;
        if wanted.is_some_and(|wanted| wanted != record.partition) {
            continue;
        }
        let visited = record.state == UrlState::Visited;
        best.push(Reverse((
            record.count,
            Reverse(record.url),
            record.doc.0,
            visited,
            record.partition,
        )));
        if best.len() > most {
            best.pop();
        }
    }
    let rows = best.into_sorted_vec().into_iter();
    Ok(rows.map(|Reverse(row)| row).collect())
}
