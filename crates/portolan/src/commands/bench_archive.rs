//! `portolan bench archive`: what storing a page costs: records and digests, compression, writing, index,
//! and reading all of it back with every digest checked.

use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;

use portolan_archive::{
    ArchiveSettings, Capture, Compression, PageFacts, RecordBuilder, WarcWriter, verify,
};
use portolan_crawl::bench::Extractor;
use portolan_crawl::report::{bytes, thousands};
use portolan_crawl::scope::ScopeKind;
use portolan_crawl::{Settings, thread_cpu_ns};
use portolan_model::{CanonicalUrl, LinkKind, SystemClock};
use serde_json::json;

use super::bench::{load_average, scratch};
use super::bench_stages::Stages;
use super::{bench_pages, warc};
use crate::arguments_bench::BenchArchiveArguments;
use crate::failure::Failure;
use crate::output::sayln;

/// Pages that are made durable together, as in a crawl of a few thousand pages a second.
const PAGES_PER_SYNC: u64 = 200;
const SEED: u64 = 1;

/// A page with what the archive is told of it.
struct Page {
    url: CanonicalUrl,
    surt: String,
    body: Vec<u8>,
    response_head: Vec<u8>,
    links: Vec<(String, LinkKind)>,
    title: String,
    charset: &'static str,
    simhash: u64,
}

#[derive(Default)]
struct Sum {
    pages: u64,
    body_bytes: u64,
    archive_bytes: u64,
    build_ns: u64,
    /// Building the same records without compression.
    plain_ns: u64,
    append_ns: u64,
    index_ns: u64,
    verify_ns: u64,
    digests: u64,
}

pub(crate) fn run(arguments: &BenchArchiveArguments) -> Result<ExitCode, Failure> {
    if arguments.pages == 0 {
        return Err(Failure::usage("--pages must be at least 1"));
    }
    let pages = read(arguments)?;
    let dir = scratch("bench-archive")?;
    std::fs::create_dir_all(&dir)?;
    let sum = measure(arguments, &pages, &dir);
    let _ = std::fs::remove_dir_all(&dir);
    tell(arguments, &sum?);
    Ok(ExitCode::SUCCESS)
}

/// The pages as a worker hands them to its record builder.
fn read(arguments: &BenchArchiveArguments) -> Result<Vec<Page>, Failure> {
    let pages = match &arguments.folder {
        Some(folder) => bench_pages::from_folder(folder)?,
        None => bench_pages::made()?,
    };
    let mut settings = Settings::default();
    settings.scope.scope = ScopeKind::Any;
    let mut extractor = Extractor::new(&settings, &[pages[0].url.clone()])?;
    let read = pages.into_iter().map(|page| {
        extractor.read(&page.url, &page.body);
        Page {
            surt: page.url.surt(),
            response_head: format!(
                "HTTP/1.1 200 OK\r\nContent-Type: text/html; charset=utf-8\r\nETag: \"a1b2c3\"\r\n\
                 Last-Modified: Thu, 01 Jan 2026 00:00:00 GMT\r\nContent-Length: {}\r\n\r\n",
                page.body.len()
            )
            .into_bytes(),
            links: extractor
                .links()
                .map(|(url, kind)| (url.to_owned(), kind))
                .collect(),
            title: extractor.title().to_owned(),
            charset: extractor.charset(),
            simhash: extractor.simhash(),
            url: page.url,
            body: page.body,
        }
    });
    Ok(read.collect())
}

fn measure(arguments: &BenchArchiveArguments, pages: &[Page], dir: &Path) -> Result<Sum, Failure> {
    let settings = ArchiveSettings {
        compression_level: arguments.compression_level,
        ..ArchiveSettings::default()
    };
    let plain = ArchiveSettings {
        compression: Compression::None,
        ..settings.clone()
    };
    let surt = |url: &str| url.to_owned();
    let clock = Arc::new(SystemClock::start());
    let mut builder = RecordBuilder::new(&settings, SEED).map_err(Failure::usage)?;
    let mut plain_builder = RecordBuilder::new(&plain, SEED).map_err(Failure::usage)?;
    let (mut writer, _) =
        WarcWriter::recover(dir, settings, None, &surt, clock, SEED).map_err(Failure::usage)?;
    let mut sum = Sum::default();
    for (number, page) in (0..arguments.pages).zip(pages.iter().cycle()) {
        // Distinct times, so that records of a page that comes again have ids of their own.
        let capture = capture(page, 1_700_000_000_000 + number);
        let links = || page.links.iter().map(|(url, kind)| (url.as_str(), *kind));
        let begun_ns = thread_cpu_ns();
        let built = builder.build(&capture, links());
        let built_ns = thread_cpu_ns();
        std::hint::black_box(plain_builder.build(&capture, links()));
        let plain_ns = thread_cpu_ns();
        writer.append(&built).map_err(Failure::failed)?;
        if (number + 1).is_multiple_of(PAGES_PER_SYNC) {
            writer.sync().map_err(Failure::failed)?;
        }
        sum.append_ns += thread_cpu_ns() - plain_ns;
        sum.plain_ns += plain_ns - built_ns;
        sum.build_ns += built_ns - begun_ns;
        sum.body_bytes += page.body.len() as u64;
        sum.pages += 1;
    }
    let begun_ns = thread_cpu_ns();
    let finished = writer.finish().map_err(Failure::failed)?;
    sum.index_ns = thread_cpu_ns() - begun_ns;
    sum.archive_bytes = finished.bytes;
    let begun_ns = thread_cpu_ns();
    for file in warc::files(&[dir.to_owned()])? {
        let report = verify(&file).map_err(Failure::failed)?;
        if !report.is_sound() {
            return Err(Failure::failed(format!(
                "{} faults in {}: the figures would be worth nothing",
                report.findings_total,
                file.display()
            )));
        }
        sum.digests += report.digests_checked;
    }
    sum.verify_ns = thread_cpu_ns() - begun_ns;
    Ok(sum)
}

fn capture(page: &Page, at_ms: u64) -> Capture<'_> {
    Capture {
        url: page.url.as_str(),
        surt: &page.surt,
        at_ms,
        ip: Some([127, 0, 0, 1].into()),
        request_head:
            b"GET /some/page.html HTTP/1.1\r\nHost: h17.sim.test\r\nUser-Agent: portolan/0.1.0\r\n\
            Accept: text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8\r\n\
            Accept-Encoding: gzip, deflate, br, zstd\r\n\r\n",
        response_head: &page.response_head,
        body: &page.body,
        sha1: None,
        status: 200,
        protocol: None,
        resource_type: None,
        identified_type: None,
        truncated: None,
        conversions: &[],
        facts: PageFacts {
            fetch_ms: 1,
            depth: 3,
            via: None,
            charset: page.charset,
            title: &page.title,
            simhash: page.simhash,
            refreshes: None,
            oddities: &[],
            said: &[],
        },
    }
}

fn tell(arguments: &BenchArchiveArguments, sum: &Sum) {
    let cpu_ns = [
        ("records and digests", sum.plain_ns),
        ("compression", sum.build_ns.saturating_sub(sum.plain_ns)),
        ("writing, syncs included", sum.append_ns),
        ("index, sorted and merged", sum.index_ns),
        ("all of these", sum.build_ns + sum.append_ns + sum.index_ns),
        ("verify, every digest", sum.verify_ns),
    ];
    let stages = Stages {
        pages: sum.pages,
        bytes: sum.body_bytes,
        cpu_ns,
    };
    if arguments.json {
        let value = json!({
            "pages": sum.pages, "body_bytes_per_page": sum.body_bytes / sum.pages,
            "compression_level": arguments.compression_level, "stored_bytes": sum.archive_bytes,
            "digests_checked": sum.digests, "stages": stages.as_json(), "load_average": load_average(),
        });
        sayln!("{value}");
        return;
    }
    sayln!(
        "{} pages of {}, level {}: {} of archive, {} digests right, load of the machine {}",
        thousands(sum.pages),
        bytes(sum.body_bytes / sum.pages),
        arguments.compression_level,
        bytes(sum.archive_bytes),
        thousands(sum.digests),
        load_average()
    );
    stages.tell();
}
