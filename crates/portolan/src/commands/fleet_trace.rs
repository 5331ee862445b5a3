//! `portolan fleet trace`: how many connections each crawl-client has and is told to have, and its pages, over time: as CSV, and
//! drawn as in WEB-SAILOR's figures 4 and 6.

use std::collections::BTreeMap;
use std::io::Write;
use std::path::Path;
use std::time::{Duration, Instant};

use portolan_fleet::{FleetStatus, NodeStatus, Wish};
use portolan_graph::Chart;

use super::fleet::open;
use super::graph_input::replaceable;
use crate::arguments_sailor::TraceArguments;
use crate::failure::Failure;
use crate::output::{noteln, sayln};

/// Looking is work for the servers.
const LEAST_PAUSE: Duration = Duration::from_millis(200);
/// More looks than anybody can see in a chart; a longer trace goes on in the CSV alone.
const MOST_POINTS: usize = 100_000;

type Points = Vec<(f64, f64)>;

/// What is drawn.
#[derive(Default)]
struct Lines {
    connections: BTreeMap<String, Points>,
    targets: BTreeMap<String, Points>,
    pages: BTreeMap<String, Points>,
    looks: usize,
}

pub(super) async fn run(arguments: &TraceArguments) -> Result<(), Failure> {
    for file in [
        &arguments.csv,
        &arguments.connections_svg,
        &arguments.pages_svg,
    ] {
        replaceable("a file of the trace", file.as_ref())?;
    }
    let fleet = open(&arguments.fleet).await?;
    let mut csv = match &arguments.csv {
        Some(path) => Some(std::fs::File::create(path).map_err(|e| not_written(path, &e))?),
        None => None,
    };
    let head = "seconds,node,role,connections,target,told,pages,pages_per_s";
    tell(arguments, csv.as_mut(), head)?;
    let (begun, mut lines) = (Instant::now(), Lines::default());
    loop {
        let status = fleet.status().await?;
        let seconds = begun.elapsed().as_secs_f64();
        for (name, node) in fetching(&status) {
            let row = format!(
                "{seconds:.1},{name},{},{},{},{},{},{:.1}",
                node.role, node.connections, node.target, node.pace, node.pages, node.pages_per_s
            );
            tell(arguments, csv.as_mut(), &row)?;
        }
        lines.add(&status, seconds);
        let ended = matches!(status.wish, Wish::End | Wish::Complete);
        let is_time = arguments
            .time_limit
            .is_some_and(|limit| begun.elapsed() >= limit);
        if ended || is_time {
            break;
        }
        tokio::time::sleep(arguments.every.max(LEAST_PAUSE)).await;
    }
    lines.draw(arguments)
}

/// Nodes that ask the Web.
fn fetching(status: &FleetStatus) -> impl Iterator<Item = (&String, &NodeStatus)> {
    status.nodes.iter().filter_map(|(name, node)| {
        let reported = node.reported.as_ref()?;
        let is_fetching = node.alive && reported.status.role != "seed-server";
        is_fetching.then_some((name, &reported.status))
    })
}

fn tell(
    arguments: &TraceArguments,
    csv: Option<&mut std::fs::File>,
    row: &str,
) -> Result<(), Failure> {
    match (csv, &arguments.csv) {
        (Some(file), Some(path)) => writeln!(file, "{row}").map_err(|e| not_written(path, &e)),
        _ => {
            sayln!("{row}");
            Ok(())
        }
    }
}

impl Lines {
    fn add(&mut self, status: &FleetStatus, seconds: f64) {
        self.looks += 1;
        if self.looks > MOST_POINTS {
            return;
        }
        let mut total = 0;
        for (name, node) in &status.nodes {
            let Some(reported) = &node.reported else {
                continue;
            };
            let (now, is_here) = (&reported.status, node.alive);
            if now.role == "seed-server" {
                continue;
            }
            total += now.pages;
            let put = |lines: &mut BTreeMap<String, Points>, value: f64| {
                lines
                    .entry(name.clone())
                    .or_default()
                    .push((seconds, value));
            };
            if is_here {
                put(&mut self.connections, now.connections as f64);
                put(&mut self.targets, now.target as f64);
            }
            put(&mut self.pages, now.pages as f64);
        }
        let sum = self.pages.entry("all".to_owned()).or_default();
        sum.push((seconds, total as f64));
    }

    fn draw(self, arguments: &TraceArguments) -> Result<(), Failure> {
        if let Some(path) = &arguments.connections_svg {
            let named = |what: &str, lines: BTreeMap<String, Points>| {
                let named = lines.into_iter();
                named
                    .map(|(name, points)| (format!("{name} {what}"), points))
                    .collect::<Vec<_>>()
            };
            let mut series = named("told", self.targets);
            series.extend(named("busy", self.connections));
            write(
                path,
                "Connections: hurry up, slow down",
                "connections",
                series,
            )?;
        }
        if let Some(path) = &arguments.pages_svg {
            let series = self.pages.into_iter().collect();
            write(path, "Pages over time", "pages", series)?;
        }
        Ok(())
    }
}

fn write(
    path: &Path,
    title: &str,
    y_label: &str,
    series: Vec<(String, Points)>,
) -> Result<(), Failure> {
    let chart = Chart {
        title: title.to_owned(),
        x_label: "seconds".to_owned(),
        y_label: y_label.to_owned(),
        log_y: false,
        series,
    };
    std::fs::write(path, chart.svg()).map_err(|e| not_written(path, &e))?;
    noteln!("written: {}", path.display());
    Ok(())
}

fn not_written(path: &Path, error: &std::io::Error) -> Failure {
    Failure::failed(format!("{}: {error}", path.display()))
}
