//! `portolan fleet config`: the settings of a fleet, and changing them while it runs.

use portolan_crawl::report::thousands;
use portolan_fleet::{Fleet, FleetError};

use super::fleet::open;
use crate::arguments_fleet_commands::FleetConfigArguments;
use crate::failure::Failure;
use crate::output::{say, sayln};

pub(super) async fn run(arguments: &FleetConfigArguments) -> Result<(), Failure> {
    let fleet = open(&arguments.fleet).await?;
    if let Some(pages) = arguments.max_pages {
        if !fleet.set_max_pages(pages).await? {
            return Err(Failure::usage(format!(
                "--max-pages: '{}' was made without a limit of documents, and its nodes count none; 'fleet stop' and 'fleet end' \
                 stop it",
                arguments.fleet.name
            )));
        }
        sayln!("Told: {} documents in all.", thousands(pages));
    }
    if arguments.set.is_empty() {
        if arguments.max_pages.is_none() {
            print(&fleet).await?;
        }
        return Ok(());
    }
    change(&fleet, &arguments.set).await
}

/// What was fixed when the fleet was made is in comments: the rest is a settings file.
async fn print(fleet: &Fleet) -> Result<(), Failure> {
    let definition = fleet.definition();
    let limit = definition
        .max_pages
        .map_or_else(|| "no limit".to_owned(), thousands);
    say!(
        "# The fleet '{}', made by version {}: {} partitions, {} seeds, a lease of {} s, {limit} of documents.\n\
         # Store: {}\n{}",
        definition.name,
        definition.program,
        definition.partitions,
        definition.seeds.len(),
        definition.lease_ms as f64 / 1e3,
        definition.blobs,
        fleet.settings().await?.1,
    );
    Ok(())
}

/// Each node takes them over when it sees them.
async fn change(fleet: &Fleet, set: &[String]) -> Result<(), Failure> {
    loop {
        let (version, text) = fleet.settings().await?;
        let changed = portolan_crawl::fleet::change_settings(&text, set).map_err(|error| {
            let error = format!("--set {error}");
            match error.contains("limits.max_pages") {
                true => Failure::usage(format!("{error} (--max-pages)")),
                false => Failure::usage(error),
            }
        })?;
        match fleet.change_settings(version, &changed).await {
            Ok(()) => break,
            // Somebody else changed some meanwhile.
            Err(FleetError::Overtaken) => {}
            Err(error) => return Err(error.into()),
        }
    }
    sayln!("Told: each node takes the new settings over within seconds.");
    Ok(())
}
