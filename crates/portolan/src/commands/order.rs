//! `portolan order`: how soon the important pages are there, by order.

use std::process::ExitCode;

use portolan_crawl::report::thousands;
use portolan_graph::{CHECKPOINTS, Chart, Orders, draw_seeds, replay_orders};
use portolan_model::Order;

use super::graph_input::{aligned, directory, draw, read};
use super::inspect;
use crate::arguments_graph::OrderArguments;
use crate::failure::Failure;
use crate::output::{noteln, sayln};

pub(crate) fn run(arguments: &OrderArguments) -> Result<ExitCode, Failure> {
    let graph = read(&arguments.input)?;
    if let Some(dir) = &arguments.svg {
        directory("--svg", dir)?;
    }
    let seeds = if graph.seeds.is_empty() {
        draw_seeds(&graph, arguments.seeds, arguments.seed)
    } else {
        graph.seeds.clone()
    };
    let orders: Vec<Order> = if arguments.compare {
        if !graph.pages.have_urls() {
            noteln!("note: no order by site-indegree: this graph has no URLs");
        }
        Order::ALL
            .into_iter()
            .filter(|&order| order != Order::SiteIndegree || graph.pages.have_urls())
            .collect()
    } else {
        vec![arguments.by]
    };
    let result = replay_orders(&graph, &seeds, &orders)?;
    if arguments.json {
        let value = serde_json::to_value(&result).map_err(Failure::failed)?;
        inspect::write_json(&mut inspect::lines(), &value)?;
    } else {
        tell(&result);
    }
    if let Some(dir) = &arguments.svg {
        let chart = Chart {
            title: "PageRank fetched, by order".to_owned(),
            x_label: "% of the pages fetched".to_owned(),
            y_label: "% of total PageRank".to_owned(),
            log_y: false,
            series: result
                .results
                .iter()
                .map(|result| (result.order.name().to_owned(), result.curve.clone()))
                .collect(),
        };
        draw(dir, "order", &chart)?;
    }
    Ok(ExitCode::SUCCESS)
}

fn tell(result: &Orders) {
    sayln!(
        "{} of {} pages can be reached from {} seeds; shares are of these.\n",
        thousands(result.reachable),
        thousands(result.pages),
        result.seeds
    );
    for (title, of_most) in [
        ("% of PageRank after % of the pages".to_owned(), false),
        (
            format!(
                "% of the {} most linked pages",
                thousands(result.most_linked_pages)
            ),
            true,
        ),
    ] {
        sayln!("{title}");
        let mut rows = vec![
            std::iter::once("order".to_owned())
                .chain(
                    CHECKPOINTS
                        .iter()
                        .map(|share| format!("{} %", 100.0 * share)),
                )
                .collect(),
        ];
        for order in &result.results {
            let shares = if of_most {
                &order.most_linked
            } else {
                &order.pagerank
            };
            rows.push(
                std::iter::once(order.order.name().to_owned())
                    .chain(shares.iter().map(|share| format!("{:.1}", 100.0 * share)))
                    .collect(),
            );
        }
        sayln!("{}", aligned(&rows));
    }
}
