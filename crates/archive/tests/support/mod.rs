//! Captures and writers for the archive's tests.

#![allow(dead_code)] // Each test binary uses its own part of this.

use portolan_archive::{
    ArchiveSettings, Built, Capture, Compression, DurableEnd, PageFacts, RecordBuilder, Recovery,
    WarcWriter,
};
use portolan_model::{LinkKind, ManualClock};
use std::path::{Path, PathBuf};
use std::sync::Arc;

pub const AT_MS: u64 = 1_700_000_000_123;
pub const HEAD: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Type: text/html; charset=utf-8\r\nTransfer-Encoding: chunked\r\n\r\n";

pub fn capture<'a>(url: &'a str, surt: &'a str, head: &'a [u8], body: &'a [u8]) -> Capture<'a> {
    Capture {
        url,
        surt,
        at_ms: AT_MS,
        ip: Some([192, 0, 2, 7].into()),
        request_head: b"GET / HTTP/1.1\r\nHost: a.test\r\nUser-Agent: portolan\r\n\r\n",
        response_head: head,
        body,
        sha1: None,
        status: 200,
        protocol: None,
        resource_type: None,
        identified_type: None,
        truncated: None,
        conversions: &[],
        facts: PageFacts {
            fetch_ms: 12,
            depth: 1,
            via: Some("http://a.test/"),
            charset: "utf-8",
            title: "A title",
            simhash: 0x1234,
            refreshes: None,
            oddities: &["bare-lf"],
            said: &[],
        },
    }
}

/// The tests' keys: host reversed. Good for hosts without `www.` and paths in lower case.
pub fn surt(url: &str) -> String {
    let rest = url.split_once("://").map_or(url, |(_, rest)| rest);
    let (host, path) = rest.split_once('/').unwrap_or((rest, ""));
    let mut labels: Vec<&str> = host.split('.').collect();
    labels.reverse();
    format!("{})/{}", labels.join(","), path)
}

pub fn builder() -> RecordBuilder {
    builder_for(&ArchiveSettings::default())
}

pub fn builder_for(settings: &ArchiveSettings) -> RecordBuilder {
    RecordBuilder::new(settings, 42).expect("good settings")
}

/// The same settings for archives of both kinds.
pub fn both(settings: &ArchiveSettings) -> [ArchiveSettings; 2] {
    [Compression::Gzip, Compression::None].map(|compression| ArchiveSettings {
        compression,
        ..settings.clone()
    })
}

pub fn page(builder: &mut RecordBuilder, number: usize) -> Built {
    let url = format!("http://h{}.test/page{number}.html", number % 3);
    let body = format!("<p>page {number}</p>").repeat(1 + number * 7 % 50);
    let links = [
        ("http://a.test/x", LinkKind::Anchor),
        ("http://a.test/i.png", LinkKind::Embed),
    ];
    builder.build(&capture(&url, &surt(&url), HEAD, body.as_bytes()), links)
}

pub fn recover(
    root: &Path,
    settings: ArchiveSettings,
    durable: Option<DurableEnd>,
) -> (WarcWriter, Recovery) {
    let clock = Arc::new(ManualClock::at(AT_MS));
    WarcWriter::recover(root, settings, durable, &surt, clock, 7).expect("recover")
}

/// In RAM where that is possible: thousands of syncs are not what these tests are about.
pub fn tempdir() -> tempfile::TempDir {
    let dir = tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir());
    dir.expect("a temporary directory")
}

pub fn files(dir: &Path) -> Vec<PathBuf> {
    let mut files: Vec<PathBuf> = std::fs::read_dir(dir)
        .expect("a directory")
        .map(|entry| entry.expect("an entry").path())
        .collect();
    files.sort();
    files
}

/// Where the conformance data is; `None` (and a word about it) where there is none.
pub fn conformance(part: &str) -> Option<PathBuf> {
    let dir = std::env::var_os("PORTOLAN_CONFORMANCE").map_or_else(
        || {
            PathBuf::from(concat!(
                env!("CARGO_MANIFEST_DIR"),
                "/../../../shared/conformance"
            ))
        },
        PathBuf::from,
    );
    let dir = dir.join(part);
    if dir.is_dir() {
        return Some(dir);
    }
    assert!(
        std::env::var_os("CI").is_none(),
        "no conformance data in CI"
    );
    println!("not run: no conformance data");
    None
}
