//! The tools of others find no fault with our files: `warcio check` passes, and `cdxj-indexer`
//! writes the index that we wrote. Needs PORTOLAN_PYTHON, a Python that has both.

mod support;

use portolan_archive::{ArchiveSettings, Compression, RecordBuilder, SeenRecord, verify};
use portolan_model::{LinkKind, Truncation};
use std::path::{Path, PathBuf};
use std::process::Command;
use support::{AT_MS, capture, files, recover, surt, tempdir};

/// Heads as servers send them, and worse.
const HEADS: &[&[u8]] = &[
    b"HTTP/1.1 200 OK\r\nContent-Type: text/html; charset=utf-8\r\nTransfer-Encoding: chunked\r\n\r\n",
    b"HTTP/1.0 404 Not Found\nContent-type: TEXT/HTML\n\n",
    b"HTTP/1.1 200 OK\r\nContent-Type:\r\nContent-Length: 99999\r\n\r\n",
    b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n ; charset=\"x\"\r\nContent-Encoding: gzip\r\n\r\n",
    b"HTTP/1.1 200 OK\r\nContent-Encoding: deflate\r\n\r\n",
    b"HTTP/1.1 200 OK\r\nContent-Encoding: br\r\nTransfer-Encoding: gzip, chunked\r\n\r\n",
    b"HTTP/1.1 301 Moved\r\nLocation: /x\r\nContent-Length: 0\r\nContent-Length: 0\r\n\r\n",
    b"HTTP/1.1 200 \xe9\r\nContent-Type: text/\xe9\"\\x y\r\nX-\xff: \x01\r\n\r\n",
    b"HTTP/1.1 200 OK\r\n \r\nA: b\r\n\x1f\r\nContent-Type: a/b\r\n\r\n",
    b"HTTP/2 200\r\ncontent-type: application/json\r\n\r\n",
    b"HTTP/1.1  200  OK\r\nContent-Type:text/plain;x\r\n\r\n",
    b"ICY 200 OK\r\nicy-name: x\r\n\r\n",
    b"HTTP/1.1 200",
    b"",
    b"\r\n",
    b"HTTP/1.1 204 No Content\r\nno colon here\r\n: no name\r\nContent-Type: \xc2\xa0x/y\r\n\r\n",
];

const BODIES: &[&[u8]] = &[
    b"<html><title>A</title><p>hello</p></html>",
    b"",
    b"\r\n\r\nWARC/1.1\r\nWARC-Type: response\r\n\r\n",
    b"5\r\nhello\r\n0\r\n\r\n",
    b"\x1f\x8b\x08\x00not really gzip",
    b"\x00\xff\n\r\x1a",
];

fn python() -> Option<PathBuf> {
    if let Some(python) = std::env::var_os("PORTOLAN_PYTHON") {
        return Some(PathBuf::from(python));
    }
    assert!(
        std::env::var_os("CI").is_none(),
        "PORTOLAN_PYTHON is not set in CI"
    );
    println!("not run: PORTOLAN_PYTHON names no Python with warcio and cdxj-indexer");
    None
}

/// Every head with every body, some truncated, some as revisits, in several files.
fn write_archive(root: &Path, compression: Compression) -> u64 {
    let settings = ArchiveSettings {
        file_bytes: 20_000,
        compression,
        info: vec![("operator".to_owned(), "A. Tester".to_owned())],
        ..ArchiveSettings::default()
    };
    let (mut writer, _) = recover(root, settings.clone(), None);
    let mut builder = RecordBuilder::new(&settings, 5).expect("good settings");
    for (h, head) in HEADS.iter().enumerate() {
        for (b, body) in BODIES.iter().enumerate() {
            let url = format!("http://h{b}.test/page{h}?q={b}");
            let key = surt(&url);
            let mut capture = capture(&url, &key, head, body);
            capture.at_ms += (h * 1000 + b) as u64;
            capture.truncated = [None, Some(Truncation::Disconnect)][b % 2];
            let links = [("http://a.test/x", LinkKind::Anchor)];
            let built = if (h + b) % 5 == 4 {
                let first = SeenRecord {
                    url: "http://h0.test/page0?q=0".to_owned(),
                    at_ms: AT_MS,
                };
                builder.build_revisit(&capture, body.len() as u64, &first, links)
            } else {
                builder.build(&capture, links)
            };
            writer.append(&built).expect("append");
        }
    }
    writer.finish().expect("finish").entries
}

fn run(command: &mut Command) -> String {
    let output = command.output().expect("the program runs");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(
        output.status.success() && output.stderr.is_empty(),
        "{command:?}: {text}{}",
        String::from_utf8_lossy(&output.stderr)
    );
    text
}

#[test]
fn warcio_and_cdxj_indexer_agree_with_us() {
    let Some(python) = python() else {
        return;
    };
    for compression in [Compression::Gzip, Compression::None] {
        agreed(&python, compression);
    }
}

fn agreed(python: &Path, compression: Compression) {
    let dir = tempdir();
    let entries = write_archive(dir.path(), compression);
    assert_eq!(entries as usize, HEADS.len() * BODIES.len());
    let warcs = files(&dir.path().join("archive"));
    assert!(warcs.len() > 2);
    for warc in &warcs {
        let report = verify(warc).expect("readable");
        assert!(report.is_sound(), "{report:#?}");
        let checked = run(Command::new(python)
            .args(["-m", "warcio.cli", "check", "-v"])
            .arg(warc));
        let passed = checked.matches("digest pass").count() as u64;
        let revisits = report.kinds.get("revisit").copied().unwrap_or(0);
        assert_eq!(passed + revisits, report.records, "{checked}");
    }
    let theirs = run(Command::new(python)
        .args(["-c", "from cdxj_indexer.main import main; main()", "--sort"])
        .args(&warcs));
    let ours = std::fs::read_to_string(dir.path().join("index.cdxj")).expect("an index");
    for (our, their) in ours.lines().zip(theirs.lines()) {
        assert_eq!(our, their);
    }
    assert_eq!(ours.lines().count(), theirs.lines().count());
    println!("{} files, {entries} index lines", warcs.len());
}
