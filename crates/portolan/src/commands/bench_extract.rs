//! `portolan bench extract`: what reading a page costs, from its bytes to links for the registry.

use std::process::ExitCode;

use portolan_crawl::Settings;
use portolan_crawl::bench::{ExtractCost, Extractor};
use portolan_crawl::report::{bytes, thousands};
use portolan_crawl::scope::ScopeKind;
use serde_json::json;

use super::bench::load_average;
use super::bench_pages::{self, BenchPage};
use super::bench_stages::Stages;
use crate::arguments_bench::BenchExtractArguments;
use crate::failure::Failure;
use crate::output::sayln;

/// What all rounds together cost.
#[derive(Default)]
struct Sum {
    pages: u64,
    bytes: u64,
    links: u64,
    fingerprint_ns: u64,
    scan_ns: u64,
    links_ns: u64,
    /// Scanning with the simhash switched off.
    bare_scan_ns: u64,
}

pub(crate) fn run(arguments: &BenchExtractArguments) -> Result<ExitCode, Failure> {
    let pages = bench_pages::from_folder(&arguments.folder)?;
    let sum = measure(&pages, arguments.seconds)?;
    let all_ns = sum.fingerprint_ns + sum.scan_ns + sum.links_ns;
    let cpu_ns = [
        ("fingerprint", sum.fingerprint_ns),
        ("charset and scanner", sum.bare_scan_ns),
        (
            "text and simhash",
            sum.scan_ns.saturating_sub(sum.bare_scan_ns),
        ),
        ("links, canonical and judged", sum.links_ns),
        ("all", all_ns),
    ];
    let stages = Stages {
        pages: sum.pages,
        bytes: sum.bytes,
        cpu_ns,
    };
    if arguments.json {
        let value = json!({
            "files": pages.len(), "pages": sum.pages, "body_bytes_per_page": sum.bytes / sum.pages,
            "links_per_page": sum.links as f64 / sum.pages as f64, "stages": stages.as_json(),
            "load_average": load_average(),
        });
        sayln!("{value}");
        return Ok(ExitCode::SUCCESS);
    }
    sayln!(
        "{} files, {} pages read, {} and {:.1} distinct links each, load of the machine {}",
        thousands(pages.len() as u64),
        thousands(sum.pages),
        bytes(sum.bytes / sum.pages),
        sum.links as f64 / sum.pages as f64,
        load_average()
    );
    stages.tell();
    Ok(ExitCode::SUCCESS)
}

/// Rounds over all pages, until they took long enough.
fn measure(pages: &[BenchPage], seconds: f64) -> Result<Sum, Failure> {
    let mut settings = Settings::default();
    settings.scope.scope = ScopeKind::Any;
    let seeds = [pages[0].url.clone()];
    let mut whole = Extractor::new(&settings, &seeds)?;
    settings.content.simhash = false;
    let mut bare = Extractor::new(&settings, &seeds)?;
    let mut sum = Sum::default();
    loop {
        for page in pages {
            // In turn, so that both see the same machine.
            let cost: ExtractCost = whole.read(&page.url, &page.body);
            sum.bare_scan_ns += bare.read(&page.url, &page.body).scan_ns;
            sum.pages += 1;
            sum.bytes += page.body.len() as u64;
            sum.links += cost.links;
            sum.fingerprint_ns += cost.fingerprint_ns;
            sum.scan_ns += cost.scan_ns;
            sum.links_ns += cost.links_ns;
        }
        let spent_ns = sum.fingerprint_ns + sum.scan_ns + sum.links_ns;
        if spent_ns as f64 >= seconds * 1e9 {
            return Ok(sum);
        }
    }
}
