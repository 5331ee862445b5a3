//! `portolan fleet`: makes fleets, looks at them, and tells them what to do.

use std::path::Path;
use std::process::ExitCode;

use portolan_crawl::fleet::{
    VECTOR_KEY, check_for_nodes, fit_for_fleet, parts_of_vector, refuse_groups,
};
use portolan_crawl::report::bytes;
use portolan_crawl::settings::PartitionMethod;
use portolan_crawl::{Seed, Settings};
use portolan_fleet::{Fleet, FleetError, NewFleet, ServerConfig, Tier, Wish, certs};

use super::crawl::{read_seeds, read_settings};
use super::fleet_hub::{self, Named};
use super::{fleet_config, fleet_report, fleet_status, fleet_trace, fleet_traffic};
use crate::arguments_fleet_commands::{
    CertsArguments, DrainArguments, FetchArguments, FleetCommand, NamedArguments,
    NatsConfigArguments, NewArguments,
};
use crate::failure::Failure;
use crate::output::{say, sayln};

pub(crate) fn run(command: FleetCommand) -> Result<ExitCode, Failure> {
    match command {
        FleetCommand::Report(arguments) => fleet_report::report(&arguments),
        FleetCommand::Why(arguments) => fleet_report::why(&arguments),
        FleetCommand::Urls(arguments) => fleet_report::urls(arguments),
        command => act(command).map(|()| ExitCode::SUCCESS),
    }
}

fn act(command: FleetCommand) -> Result<(), Failure> {
    let wish = |fleet: &NamedArguments, wish, said: &str| {
        in_runtime(async {
            match fleet_hub::open_any(fleet).await? {
                Named::Fleet(fleet) => fleet.wish(wish).await?,
                Named::Hub(hub) => hub.wish(wish).await?,
            }
            sayln!("{said}");
            Ok(())
        })
    };
    match command {
        FleetCommand::New(arguments) if !arguments.under.groups.is_empty() => {
            in_runtime(fleet_hub::new_crawl(&arguments))
        }
        FleetCommand::New(arguments) => match arguments.under.group.clone() {
            Some(group) => in_runtime(fleet_hub::new_group(&arguments, group)),
            None => in_runtime(new(&arguments)),
        },
        FleetCommand::Status(arguments) => in_runtime(fleet_status::run(&arguments)),
        FleetCommand::Trace(arguments) => in_runtime(fleet_trace::run(&arguments)),
        FleetCommand::Traffic(arguments) => in_runtime(fleet_traffic::run(&arguments)),
        FleetCommand::Drain(arguments) => in_runtime(drain(&arguments)),
        FleetCommand::Stop(fleet) => wish(
            &fleet,
            Wish::Stop,
            "Told: nothing is asked of the Web until 'go-on'.",
        ),
        FleetCommand::GoOn(fleet) => wish(&fleet, Wish::Run, "Told: the crawl goes on."),
        FleetCommand::End(fleet) => wish(
            &fleet,
            Wish::End,
            "Told: every node ships what it has, and ends.",
        ),
        FleetCommand::Fetch(arguments) => in_runtime(fetch(&arguments)),
        FleetCommand::Certs(arguments) => make_certificates(&arguments),
        FleetCommand::NatsConfig(arguments) => nats_config(&arguments),
        FleetCommand::NewSession(fleet) => Err(Failure::usage(format!(
            "a fleet crawls in one session; a new fleet in another place ('portolan fleet new {}-2 --blobs PLACE ...') crawls \
             everything again",
            fleet.name
        ))),
        FleetCommand::Config(arguments) => in_runtime(fleet_config::run(&arguments)),
        // `run` has done these.
        FleetCommand::Report(_) | FleetCommand::Why(_) | FleetCommand::Urls(_) => Ok(()),
    }
}

fn in_runtime(work: impl Future<Output = Result<(), Failure>>) -> Result<(), Failure> {
    let mut runtime = tokio::runtime::Builder::new_current_thread();
    runtime
        .enable_all()
        .build()
        .map_err(Failure::failed)?
        .block_on(work)
}

pub(super) async fn open(fleet: &NamedArguments) -> Result<Fleet, Failure> {
    fleet_hub::open_group(fleet).await
}

async fn new(arguments: &NewArguments) -> Result<(), Failure> {
    let settings = settings_of(arguments)?;
    refuse_groups(&settings)?;
    let (partitions, vector) = division(arguments, &settings)?;
    let seeds = seeds(arguments, &settings)?;
    let lease_ms = lease_ms(arguments)?;
    let count = seeds.len();
    let new = NewFleet {
        name: arguments.name.clone(),
        settings: toml::to_string(&settings).map_err(Failure::failed)?,
        seeds,
        partitions,
        blobs: place(arguments)?,
        lease_ms,
        max_pages: arguments.max_pages,
        link_bytes: arguments.link_disk << 30,
        log_bytes: arguments.log_disk << 30,
    };
    let fleet = Fleet::create(&arguments.servers.servers(), new).await?;
    if let Some(vector) = vector {
        fleet.blobs().put(VECTOR_KEY, vector.into()).await;
    }
    sayln!(
        "Made the fleet '{}': {} partitions, {count} seeds. On each machine: portolan node {0} --dir DIR, with the same \
         --nats and certificates.",
        arguments.name,
        partitions
    );
    Ok(())
}

/// What all nodes will use, if a fleet can have it.
pub(super) fn settings_of(arguments: &NewArguments) -> Result<Settings, Failure> {
    let settings = read_settings(arguments.config.as_deref(), Settings::default())?;
    settings.check().map_err(Failure::usage)?;
    fit_for_fleet(&settings)?;
    refuse_limits_of_one_machine(&settings)?;
    Ok(settings)
}

pub(super) fn lease_ms(arguments: &NewArguments) -> Result<u64, Failure> {
    let lease_ms = u64::try_from(arguments.lease.as_millis()).unwrap_or(u64::MAX);
    match (3_000..=600_000).contains(&lease_ms) {
        true => Ok(lease_ms),
        false => Err(Failure::usage("--lease: from 3s to 10m")),
    }
}

/// How many partitions there are, and the part vector that says so, if one does.
pub(super) fn division(
    arguments: &NewArguments,
    settings: &Settings,
) -> Result<(u16, Option<Vec<u8>>), Failure> {
    if settings.partition.method == PartitionMethod::Vector {
        let path = Path::new(&settings.partition.vector);
        let parts = parts_of_vector(path)?;
        let vector = std::fs::read(path)
            .map_err(|e| Failure::usage(format!("partition.vector {}: {e}", path.display())))?;
        return Ok((parts, Some(vector)));
    }
    let sets = settings.dset.len();
    if sets > usize::from(arguments.partitions) {
        return Err(Failure::usage(format!(
            "--partitions {}: there are {sets} [[dset]] blocks, and each is a partition; give --partitions {sets} or more",
            arguments.partitions
        )));
    }
    Ok((arguments.partitions, None))
}

/// Each node would count for itself.
fn refuse_limits_of_one_machine(settings: &Settings) -> Result<(), Failure> {
    let limits = &settings.limits;
    if limits.max_pages > 0 {
        return Err(Failure::usage(
            "limits.max_pages: a fleet's limit of documents is for all nodes together; give --max-pages instead",
        ));
    }
    if limits.time_limit_s > 0.0 {
        return Err(Failure::usage(
            "limits.time_limit_s: a fleet has no limit of time; 'portolan fleet end' ends it",
        ));
    }
    Ok(())
}

/// All machines name the store alike: a relative directory would be another one on each.
pub(super) fn place(arguments: &NewArguments) -> Result<String, Failure> {
    // The command line wants it wherever it is used.
    let blobs = arguments.blobs.as_deref().unwrap_or_default();
    if blobs.contains("://") || blobs.is_empty() {
        return Ok(blobs.to_owned());
    }
    let absolute = std::path::absolute(blobs)
        .map_err(|error| Failure::usage(format!("--blobs {blobs}: {error}")))?;
    Ok(absolute.display().to_string())
}

pub(super) fn seeds(arguments: &NewArguments, settings: &Settings) -> Result<Vec<String>, Failure> {
    let typed = |text: &String| Seed {
        text: text.clone(),
        place: "the command line".to_owned(),
    };
    let mut seeds: Vec<Seed> = arguments.seeds.iter().map(typed).collect();
    if let Some(file) = &arguments.seeds_file {
        seeds.extend(read_seeds(file)?);
    }
    if seeds.is_empty() {
        return Err(Failure::usage(
            "no SEED given; name at least one URL to start from",
        ));
    }
    check_for_nodes(settings, &seeds)?;
    Ok(seeds.into_iter().map(|seed| seed.text).collect())
}

async fn drain(arguments: &DrainArguments) -> Result<(), Failure> {
    let fleet = open(&arguments.fleet).await?;
    let status = fleet.status().await?;
    if !status.nodes.contains_key(&arguments.node) {
        return Err(FleetError::NoSuchNode(arguments.node.clone()).into());
    }
    fleet.set_draining(&arguments.node, !arguments.undo).await?;
    match arguments.undo {
        true => sayln!("Told: '{}' gets partitions again.", arguments.node),
        false => sayln!(
            "Told: the partitions of '{}' go to other nodes.",
            arguments.node
        ),
    }
    Ok(())
}

async fn fetch(arguments: &FetchArguments) -> Result<(), Failure> {
    let fleet = open(&arguments.fleet).await?;
    let assembled = fleet.fetch_archive(&arguments.dir).await?;
    let index = arguments.dir.join("index.cdxj");
    let lines = super::fleet_index::write(&assembled.files, &index)?;
    sayln!(
        "{} WARC files ({}, {} of them fetched now) in {}, with an index of {lines} lines.",
        assembled.files.len(),
        bytes(assembled.bytes),
        bytes(assembled.fetched_bytes),
        arguments.dir.display()
    );
    Ok(())
}

fn make_certificates(arguments: &CertsArguments) -> Result<(), Failure> {
    let written = certs::write_certificates(&arguments.dir, &arguments.names)?;
    if written.new_authority {
        sayln!("{}: a new authority; keep its key", written.ca.display());
    }
    for (certificate, key) in written.certificates {
        sayln!("{} and {}", certificate.display(), key.display());
    }
    Ok(())
}

fn nats_config(arguments: &NatsConfigArguments) -> Result<(), Failure> {
    if !matches!(arguments.hosts.len(), 1 | 3 | 5) {
        return Err(Failure::usage(
            "name one server, three or five: of two none can be lost",
        ));
    }
    if let Some(on) = arguments
        .on
        .as_ref()
        .filter(|on| !arguments.hosts.contains(on))
    {
        return Err(Failure::usage(format!(
            "--on: '{on}' is none of the servers named"
        )));
    }
    let config = ServerConfig {
        hosts: arguments.hosts.clone(),
        host: arguments
            .on
            .clone()
            .unwrap_or_else(|| arguments.hosts[0].clone()),
        certs: arguments.certs.clone(),
        store: arguments.store.clone(),
        disk_gb: arguments.disk,
        sync_always: arguments.sync_always,
        port: arguments.port,
        cluster_port: arguments.cluster_port,
        tier: tier(arguments)?,
    };
    say!("{}", config.text()?);
    Ok(())
}

fn tier(arguments: &NatsConfigArguments) -> Result<Tier, Failure> {
    let (domain, leaf_port) = (arguments.domain.clone(), arguments.leaf_port);
    Ok(match (arguments.hub, &arguments.leaf_of[..], domain) {
        (true, _, domain) => Tier::Hub {
            domain: domain.unwrap_or_else(|| "hub".to_owned()),
            leaf_port,
        },
        (false, [], None) => Tier::Alone,
        (false, [], Some(_)) => {
            return Err(Failure::usage(
                "--domain is for a hub (--hub) and for the servers under one (--leaf-of HOST)",
            ));
        }
        (false, hub, domain) => Tier::Leaf {
            domain: domain.unwrap_or_default(),
            hub: hub.to_vec(),
            leaf_port,
        },
    })
}
