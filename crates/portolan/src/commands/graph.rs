//! `portolan graph`: what a graph looks like.

use std::process::ExitCode;

use portolan_crawl::report::{bytes, thousands};
use portolan_graph::{CutGraph, Facts, Percentiles, Unit, WebGraph};
use serde_json::json;

use super::graph_input::{aligned, read};
use super::inspect;
use crate::arguments_graph::{GraphArguments, UnitArgument};
use crate::failure::Failure;
use crate::output::{field, say, sayln};

pub(crate) fn run(arguments: &GraphArguments) -> Result<ExitCode, Failure> {
    let graph = read(&arguments.input)?;
    match arguments.by {
        UnitArgument::Page => pages(&graph, arguments.json)?,
        UnitArgument::Site => sites(&graph, arguments.json)?,
    }
    Ok(ExitCode::SUCCESS)
}

fn pages(graph: &WebGraph, as_json: bool) -> Result<(), Failure> {
    let facts = Facts::of(graph);
    if as_json {
        let mut value = serde_json::to_value(&facts).map_err(Failure::failed)?;
        value["notes"] = graph
            .notes
            .iter()
            .map(|note| json!(note.to_string()))
            .collect();
        return Ok(inspect::write_json(&mut inspect::lines(), &value)?);
    }
    let share = |part: u64, of: u64| format!("{:.1} %", 100.0 * part as f64 / of.max(1) as f64);
    sayln!("pages             {}", thousands(facts.pages));
    sayln!("links             {}", thousands(facts.links));
    if let (Some(sites), Some(within)) = (facts.sites, facts.links_within_sites) {
        sayln!("sites             {}", thousands(sites));
        sayln!(
            "links in a site   {} ({})",
            thousands(within),
            share(within, facts.links)
        );
    }
    sayln!(
        "bytes             {} ({} pages of known size)",
        bytes(facts.bytes),
        thousands(facts.pages_of_known_size)
    );
    sayln!("bytes of a URL    {:.1} on average", facts.mean_url_bytes);
    sayln!(
        "weak components   {}, the largest with {} of the pages",
        thousands(facts.weak_components),
        share(facts.largest_weak, facts.pages)
    );
    sayln!(
        "strong components {}, the largest with {} of the pages",
        thousands(facts.strong_components),
        share(facts.largest_strong, facts.pages)
    );
    let mut spreads = vec![
        ("in-degree", &facts.in_degree),
        ("out-degree", &facts.out_degree),
    ];
    if let Some(spread) = &facts.pages_of_a_site {
        spreads.push(("pages of a site", spread));
    }
    print_spreads(&spreads);
    sayln!("\nmost linked pages");
    for (name, count) in &facts.most_linked {
        sayln!("{:>10}  {}", thousands(*count), field(name));
    }
    if !facts.largest_sites.is_empty() {
        sayln!("\nlargest sites (pages, bytes)");
        for (name, count, size) in &facts.largest_sites {
            sayln!(
                "{:>10}  {:>9}  {}",
                thousands(*count),
                bytes(*size),
                field(name)
            );
        }
    }
    Ok(())
}

/// The site graph: a vertex a site, links within a site left out.
fn sites(graph: &WebGraph, as_json: bool) -> Result<(), Failure> {
    let cut = CutGraph::of(graph, Unit::Site)?;
    let degrees = (0..cut.vertices()).map(|site| cut.of_vertex(site).count() as u64);
    let costs = (0..cut.vertices())
        .flat_map(|site| {
            cut.of_vertex(site)
                .filter(move |edge| edge.0 as usize > site)
        })
        .map(|(_, cost)| u64::from(cost));
    let costs: Vec<u64> = costs.collect();
    let total: u64 = costs.iter().sum();
    let of_weights =
        |number: usize| Percentiles::of(cut.weights().iter().map(|pair| pair[number]).collect());
    let (degree, cost) = (Percentiles::of(degrees.collect()), Percentiles::of(costs));
    let (size, pages) = (of_weights(0), of_weights(1));
    if as_json {
        let value = json!({
            "sites": cut.vertices(),
            "edges": cut.edges(),
            "bytes_of_urls_between_sites": total,
            "degree": degree,
            "edge_cost": cost,
            "bytes_of_a_site": size,
            "pages_of_a_site": pages,
        });
        return Ok(inspect::write_json(&mut inspect::lines(), &value)?);
    }
    sayln!("sites             {}", thousands(cut.vertices() as u64));
    sayln!("edges             {}", thousands(cut.edges()));
    sayln!("URLs on edges     {}", bytes(total));
    print_spreads(&[
        ("degree", &degree),
        ("cost of an edge", &cost),
        ("bytes of a site", &size),
        ("pages of a site", &pages),
    ]);
    Ok(())
}

fn print_spreads(spreads: &[(&str, &Percentiles)]) {
    let titles = [
        "",
        "mean",
        "median",
        "90 %",
        "99 %",
        "max",
        "zero",
        "tail exponent",
    ];
    let mut rows = vec![titles.map(str::to_owned).to_vec()];
    for (name, spread) in spreads {
        rows.push(vec![
            (*name).to_owned(),
            format!("{:.2}", spread.mean),
            thousands(spread.median),
            thousands(spread.p90),
            thousands(spread.p99),
            thousands(spread.max),
            thousands(spread.zero),
            spread
                .tail_exponent
                .map_or("-".to_owned(), |exponent| format!("{exponent:.2}")),
        ]);
    }
    say!("\n{}", aligned(&rows));
    sayln!("\ntails: how many are at least so large");
    for (name, spread) in spreads {
        let tail: Vec<String> = spread
            .at_least
            .iter()
            .map(|(floor, count)| format!("≥{}: {}", thousands(*floor), thousands(*count)))
            .collect();
        sayln!("{name:<16}  {}", tail.join("  "));
    }
}
