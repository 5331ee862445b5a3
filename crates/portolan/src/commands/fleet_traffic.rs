//! `portolan fleet traffic`: what the nodes of a fleet sent each other and how the work was shared out, beside what a graph of an
//! earlier session predicts. While the crawl runs, and when it has ended.

use std::collections::BTreeMap;

use portolan_crawl::Settings;
use portolan_crawl::fleet::VECTOR_KEY;
use portolan_crawl::report::{bytes, thousands};
use portolan_crawl::settings::PartitionMethod;
use portolan_fleet::{Fleet, PartitionStatus, Reported};
use portolan_graph::{
    CrawlPages, Measure, PartVector, Unlisted, VectorPartitioner, WebGraph, read_crawl,
};
use portolan_model::{FixedSiteHash, Identities, PartitionId, Partitioner, UrlKey};
use serde_json::json;

use super::fleet::open;
use super::graph_input::{aligned, percent};
use super::inspect;
use crate::arguments_sailor::TrafficArguments;
use crate::failure::Failure;
use crate::output::{say, sayln};

/// What one node did.
#[derive(Default)]
struct Row {
    bytes: u64,
    requests: u64,
    link_messages: u64,
    link_url_bytes: u64,
    link_bytes: u64,
    grant_bytes: u64,
    return_bytes: u64,
}

pub(super) async fn run(arguments: &TrafficArguments) -> Result<(), Failure> {
    let fleet = open(&arguments.fleet).await?;
    let reports = fleet.reports().await?;
    let holders = holders(&reports);
    let rows = rows(&reports, &holders);
    let predicted = match &arguments.predict {
        Some(dir) => {
            let graph = read_crawl(&inspect::open(dir)?, CrawlPages::Known)?;
            Some(predict(&fleet, &holders, &graph).await?)
        }
        None => None,
    };
    if arguments.json {
        let nodes: BTreeMap<_, _> = rows.iter().map(|(name, row)| (name, row.json())).collect();
        let value = json!({ "nodes": nodes, "predicted": predicted });
        return Ok(inspect::write_json(&mut inspect::lines(), &value)?);
    }
    say!("{}", aligned(&table(&rows)));
    let sum = |of: fn(&Row) -> u64| rows.values().map(of).sum::<u64>();
    sayln!(
        "\nimbalance: {} % in bytes, {} % in requests\nexchange:  {} of URLs, {} on the wire, in {} messages",
        percent(imbalance(&rows, |row| row.bytes)),
        percent(imbalance(&rows, |row| row.requests)),
        bytes(sum(|row| row.link_url_bytes)),
        bytes(sum(|row| row.link_bytes)),
        thousands(sum(|row| row.link_messages)),
    );
    if sum(|row| row.grant_bytes) > 0 {
        sayln!(
            "grants:    {} on the wire; returns: {} before packing",
            bytes(sum(|row| row.grant_bytes)),
            bytes(sum(|row| row.return_bytes)),
        );
    }
    if let Some(predicted) = predicted {
        let measured = sum(|row| row.link_url_bytes) as f64;
        sayln!(
            "predicted: {} of URLs in {} links; measured is {:+.1} % of that\n           imbalance {} % in bytes, {} % in requests",
            bytes(predicted.exchange_bytes),
            thousands(predicted.exchanged_links),
            100.0 * (measured / (predicted.exchange_bytes.max(1) as f64) - 1.0),
            percent(predicted.bytes_imbalance),
            percent(predicted.request_imbalance),
        );
    }
    Ok(())
}

impl Row {
    fn json(&self) -> serde_json::Value {
        json!({
            "bytes": self.bytes, "requests": self.requests, "link_messages": self.link_messages,
            "link_url_bytes": self.link_url_bytes, "link_bytes": self.link_bytes,
            "grant_bytes": self.grant_bytes, "return_bytes": self.return_bytes,
        })
    }
}

/// What each partition came to, as its last owner tells of it; others may have told of it before.
fn holders(reports: &BTreeMap<String, Reported>) -> BTreeMap<u16, (&str, PartitionStatus)> {
    let mut holders: BTreeMap<u16, (&str, PartitionStatus)> = BTreeMap::new();
    for (name, reported) in reports {
        for &told in &reported.status.partitions {
            let known = holders.entry(told.partition).or_insert((name, told));
            if known.1.epoch < told.epoch {
                *known = (name, told);
            }
        }
    }
    holders
}

/// By node, also those that have left; a crawl-client holds nothing, and has no row.
fn rows(
    reports: &BTreeMap<String, Reported>,
    holders: &BTreeMap<u16, (&str, PartitionStatus)>,
) -> BTreeMap<String, Row> {
    let mut rows = BTreeMap::new();
    for (name, reported) in reports {
        let said = &reported.status;
        if said.role == "crawl-client" {
            continue;
        }
        let sum = |of: fn(&PartitionStatus) -> f64| {
            let held = holders.values().filter(|(holder, _)| holder == name);
            held.map(|(_, told)| of(told)).sum::<f64>() as u64
        };
        let row = Row {
            bytes: sum(|of| of.bytes),
            requests: sum(|of| of.requests),
            link_messages: said.link_messages,
            link_url_bytes: said.link_url_bytes,
            link_bytes: said.link_bytes,
            grant_bytes: said.grant_bytes,
            return_bytes: said.return_bytes,
        };
        rows.insert(name.clone(), row);
    }
    rows
}

fn table(rows: &BTreeMap<String, Row>) -> Vec<Vec<String>> {
    let mut table = vec![
        [
            "node",
            "bytes",
            "of mean",
            "requests",
            "of mean",
            "messages",
            "URLs sent",
            "on the wire",
        ]
        .map(str::to_owned)
        .to_vec(),
    ];
    let count = rows.len().max(1) as f64;
    let of_mean = |value: u64, of: fn(&Row) -> u64| {
        let mean = rows.values().map(of).sum::<u64>() as f64 / count;
        match mean > 0.0 {
            true => format!("{:.1} %", 100.0 * value as f64 / mean),
            false => "-".to_owned(),
        }
    };
    for (name, row) in rows {
        table.push(vec![
            name.clone(),
            bytes(row.bytes),
            of_mean(row.bytes, |row| row.bytes),
            thousands(row.requests),
            of_mean(row.requests, |row| row.requests),
            thousands(row.link_messages),
            bytes(row.link_url_bytes),
            bytes(row.link_bytes),
        ]);
    }
    table
}

/// How far the node with most is above the mean.
fn imbalance(rows: &BTreeMap<String, Row>, of: fn(&Row) -> u64) -> f64 {
    let sum: u64 = rows.values().map(of).sum();
    let most = rows.values().map(of).max().unwrap_or(0);
    match sum {
        0 => 0.0,
        sum => most as f64 * rows.len() as f64 / sum as f64 - 1.0,
    }
}

/// What a graph says of the division of this fleet's partitions among its nodes as it is now, or was at the end.
async fn predict(
    fleet: &Fleet,
    holders: &BTreeMap<u16, (&str, PartitionStatus)>,
    graph: &WebGraph,
) -> Result<Measure, Failure> {
    let partitioner = partitioner(fleet).await?;
    let ids = Identities::of_secret(fleet.definition().secret());
    let mut numbers: BTreeMap<&str, u16> = BTreeMap::new();
    let mut node_of = Vec::new();
    for partition in 0..fleet.definition().partitions {
        let name = holders.get(&partition).map_or("", |(name, _)| name);
        let next = numbers.len() as u16;
        node_of.push(*numbers.entry(name).or_insert(next));
    }
    let part_of: Vec<u16> = (0..graph.pages.count())
        .map(|page| {
            let key = graph.pages.key(page);
            let key = UrlKey {
                host: ids.host(key.host_name),
                ..key
            };
            let part = partitioner.part_of(key, PartitionId(0));
            node_of.get(usize::from(part.0)).copied().unwrap_or(0)
        })
        .collect();
    Ok(Measure::of(graph, &part_of, numbers.len().max(1) as u16))
}

async fn partitioner(fleet: &Fleet) -> Result<Box<dyn Partitioner>, Failure> {
    let definition = fleet.definition();
    let settings = Settings::with_overrides(&definition.settings).map_err(Failure::failed)?;
    if settings.partition.method != PartitionMethod::Vector {
        return Ok(Box::new(FixedSiteHash {
            parts: definition.partitions,
        }));
    }
    let missing = || Failure::failed(format!("the store has lost {VECTOR_KEY}"));
    let bytes = fleet.blobs().get(VECTOR_KEY).await.ok_or_else(missing)?;
    let dir = std::env::temp_dir().join(format!("portolan-vector-{}", std::process::id()));
    std::fs::write(&dir, &bytes)?;
    let vector = PartVector::open(&dir);
    std::fs::remove_file(&dir)?;
    Ok(Box::new(VectorPartitioner::new(
        vector?,
        Unlisted::SiteHash,
        0,
    )))
}
