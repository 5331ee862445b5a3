//! `portolan rank`: the pages that matter most.

use std::io::Write;
use std::process::ExitCode;

use portolan_graph::{
    PageRankSettings, RankTable, back_links, by_score, harmonic, pagerank, write_rank_table,
};
use serde_json::json;

use super::graph_input::{read, replaceable};
use super::inspect;
use crate::arguments_graph::{RankArguments, RankMethod};
use crate::failure::Failure;
use crate::output::{field, noteln};

pub(crate) fn run(arguments: &RankArguments) -> Result<ExitCode, Failure> {
    replaceable("--out", arguments.out.as_ref())?;
    let graph = read(&arguments.input)?;
    let scores = match arguments.method {
        RankMethod::Backlinks => back_links(&graph.links),
        RankMethod::Pagerank => {
            let settings = PageRankSettings::default();
            let ranks = pagerank(&graph.links, &graph.links.transposed(), settings);
            if ranks.change > settings.precision {
                noteln!(
                    "note: not settled after {} rounds; the last changed {:e}",
                    ranks.rounds,
                    ranks.change
                );
            }
            ranks.scores
        }
        RankMethod::Harmonic => {
            let (scores, exact) = harmonic(&graph.links.transposed());
            if !exact {
                noteln!(
                    "note: the graph is large; distances are estimated, with an error of some percent"
                );
            }
            scores
        }
    };
    let mut out = inspect::lines();
    for page in by_score(&scores).into_iter().take(arguments.top) {
        let (score, name) = (scores[page as usize], graph.pages.name(page));
        if arguments.json {
            inspect::write_json(&mut out, &json!({ "url": name, "score": score }))?;
        } else {
            writeln!(out, "{score:<14.8}  {}", field(&name))?;
        }
    }
    out.flush()?;
    if let Some(path) = &arguments.out {
        write_rank_table(path, &graph, &scores)?;
        noteln!(
            "written: {} ({} entries)",
            path.display(),
            RankTable::open(path)?.len()
        );
    }
    Ok(ExitCode::SUCCESS)
}
