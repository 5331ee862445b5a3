//! A module for documents in Markdown, and a crawl with it: `cargo run --example markdown -- https://example.org/`.

use portolan_crawl::{Crawl, CrawlError, Document, Findings, Module, Plan, Settings};

struct Markdown;

impl Module for Markdown {
    fn name(&self) -> &str {
        "markdown"
    }

    fn types(&self) -> Vec<String> {
        vec!["text/markdown".to_owned(), "text/x-markdown".to_owned()]
    }

    fn read(&self, document: &Document<'_>, findings: &mut Findings<'_>) {
        let text = document.text();
        let headings: Vec<&str> = text.lines().filter_map(|l| l.strip_prefix("# ")).collect();
        findings.title(headings.first().unwrap_or(&""));
        findings.fact("headings", headings.len());
        // [text](target)
        for piece in text.split("](").skip(1) {
            if let Some((target, _)) = piece.split_once(')') {
                findings.link(target);
            }
        }
    }
}

fn main() -> Result<(), CrawlError> {
    let seeds = std::env::args().skip(1);
    let plan = Plan::new("crawl", seeds, Settings::default()).module(Markdown);
    let report = Crawl::start(plan)?.join()?;
    println!("{report}");
    Ok(())
}
