//! `portolan bench graph`: what building, cutting, hashing and ranking cost. CPU by the process clock;
//! memory is the peak of the whole process so far.

use std::process::ExitCode;

use portolan_crawl::report::bytes;
use portolan_crawl::{peak_rss_bytes, process_cpu_seconds};
use portolan_graph::{
    CutGraph, CutSettings, Cutter, Measure, Method, PageRankSettings, PartVector, SyntheticSpec,
    Unit, Unlisted, VectorPartitioner, WebGraph, pagerank, read_files,
};
use portolan_model::{PartitionId, Partitioner};
use serde_json::{Value, json};

use crate::arguments_graph::BenchGraphArguments;
use crate::failure::Failure;
use crate::output::{noteln, sayln};

const PARTS: u16 = 64;
const SEED: u64 = 1;
const LOOK_UPS: u32 = 2_000_000;

pub(crate) fn run(arguments: &BenchGraphArguments) -> Result<ExitCode, Failure> {
    let mut bench = Bench {
        as_json: arguments.json,
        steps: Vec::new(),
    };
    if let Some(path) = &arguments.graph {
        let graph = bench.step("read the real graph", || {
            Ok(read_files(std::slice::from_ref(path))?)
        })?;
        noteln!(
            "{} pages, {} links",
            graph.pages.count(),
            graph.links.count()
        );
        real(&mut bench, &graph)?;
    }
    let spec = SyntheticSpec {
        pages: arguments.pages,
        links: arguments.links,
        ..SyntheticSpec::default()
    };
    if arguments.pages > 0 {
        let graph = bench.step("build a synthetic graph", || Ok(spec.graph()?))?;
        noteln!(
            "{} pages, {} distinct links",
            graph.pages.count(),
            graph.links.count()
        );
        synthetic(&mut bench, &graph)?;
    }
    if arguments.json {
        sayln!("{}", json!(bench.steps));
    }
    Ok(ExitCode::SUCCESS)
}

fn real(bench: &mut Bench, graph: &WebGraph) -> Result<(), Failure> {
    let back = bench.step("turn its links around", || Ok(graph.links.transposed()))?;
    let ranks = bench.step("PageRank to 1e-9", || {
        Ok(pagerank(&graph.links, &back, PageRankSettings::default()))
    })?;
    noteln!("{} rounds", ranks.rounds);
    drop(back);
    let cut = bench.step("cut by page 64 ways", || {
        let mut cutter = Cutter::new(graph, Unit::Page)?;
        Ok(cutter.cut(&settings(Unit::Page, Method::Graph))?)
    })?;
    let measure = Measure::of(graph, &cut.pages(graph), PARTS);
    noteln!(
        "imbalance {:.2} % bytes, {:.2} % requests; exchange {}",
        100.0 * measure.bytes_imbalance,
        100.0 * measure.request_imbalance,
        bytes(measure.exchange_bytes)
    );
    Ok(())
}

fn synthetic(bench: &mut Bench, graph: &WebGraph) -> Result<(), Failure> {
    for unit in [Unit::Page, Unit::Site] {
        let cut = bench.step(&format!("hash by {} into 64", unit.name()), || {
            Ok(Cutter::new(graph, unit)?.cut(&settings(unit, Method::Hash))?)
        })?;
        if unit == Unit::Page {
            look_ups(bench, graph, &cut)?;
        }
        bench.step("measure it", || {
            Ok(Measure::of(graph, &cut.pages(graph), PARTS))
        })?;
    }
    let sites = bench.step("build the site graph", || {
        Ok(CutGraph::of(graph, Unit::Site)?)
    })?;
    noteln!("{} sites, {} edges", sites.vertices(), sites.edges());
    drop(sites);
    bench.step("build the page graph", || {
        Ok(CutGraph::of(graph, Unit::Page)?)
    })?;
    Ok(())
}

fn look_ups(bench: &mut Bench, graph: &WebGraph, cut: &portolan_graph::Cut) -> Result<(), Failure> {
    let path = std::env::temp_dir().join(format!("portolan-bench-{}.pv", std::process::id()));
    bench.step("write the part vector", || {
        Ok(PartVector::write(&path, graph, cut, SEED)?)
    })?;
    let partitioner = bench.step("open and check it", || {
        Ok(VectorPartitioner::new(
            PartVector::open(&path)?,
            Unlisted::SiteHash,
            0,
        ))
    })?;
    // Scattered over the graph, with their keys at hand, as a crawler has them.
    let stride = (graph.pages.count() / 3) | 1;
    let keys: Vec<_> = (0..LOOK_UPS)
        .map(|number| {
            let page =
                (u64::from(number) * u64::from(stride) % u64::from(graph.pages.count())) as u32;
            (graph.pages.key(page), page)
        })
        .collect();
    let before = process_cpu_seconds();
    let wrong = bench.step("look up 2 M pages in it", || {
        Ok(keys
            .iter()
            .filter(|(key, page)| {
                partitioner.part_of(*key, PartitionId(0)).0 != cut.part_of[*page as usize]
            })
            .count())
    })?;
    let spent = process_cpu_seconds() - before;
    noteln!(
        "{:.0} ns a look-up, {wrong} wrong",
        1e9 * spent / f64::from(LOOK_UPS)
    );
    std::fs::remove_file(&path)?;
    if wrong > 0 {
        return Err(Failure::failed(
            "the part vector gives other parts than it was written with",
        ));
    }
    Ok(())
}

fn settings(unit: Unit, method: Method) -> CutSettings {
    CutSettings {
        parts: PARTS,
        unit,
        method,
        tolerance: 0.05,
        seed: SEED,
    }
}

struct Bench {
    as_json: bool,
    steps: Vec<Value>,
}

impl Bench {
    fn step<T>(
        &mut self,
        name: &str,
        work: impl FnOnce() -> Result<T, Failure>,
    ) -> Result<T, Failure> {
        let before = process_cpu_seconds();
        let result = work()?;
        let (cpu, peak) = (process_cpu_seconds() - before, peak_rss_bytes());
        if !self.as_json {
            sayln!("{name:<28} {cpu:>8.2} s CPU   peak {:>9}", bytes(peak));
        }
        self.steps
            .push(json!({ "step": name, "cpu_seconds": cpu, "peak_rss_bytes": peak }));
        Ok(result)
    }
}
