//! What is written is read back: headers, bodies, digests and index, for odd heads and any body.

mod support;

use portolan_archive::{ArchiveSettings, Capture, Compression, RecordBuilder, SeenRecord};
use portolan_archive::{Cat, Part, WarcReader, cat, list, verify};
use portolan_model::{LinkKind, Truncation};
use proptest::prelude::*;
use std::io::Read;
use support::{AT_MS, HEAD, builder, capture, files, page, recover, surt, tempdir};

const URL: &str = "http://a.test/page";

/// Writes one capture into a new archive and returns the payload as read back, after verifying.
fn written_and_read(capture: &Capture<'_>, settings: &ArchiveSettings) -> Vec<u8> {
    let dir = tempdir();
    let (mut writer, _) = recover(dir.path(), settings.clone(), None);
    let built = RecordBuilder::new(settings, 1)
        .expect("good settings")
        .build(capture, [("http://a.test/", LinkKind::Anchor)]);
    let position = writer.append(&built).expect("append");
    writer.finish().expect("finish");
    let path = files(&dir.path().join("archive")).remove(0);
    let report = verify(&path).expect("readable");
    assert!(report.is_sound(), "{report:#?}");
    assert_eq!(report.records, 4);
    assert_eq!(
        report.digests_checked, 5,
        "one of warcinfo, request and metadata, two of the response"
    );
    assert_eq!(
        position.end,
        std::fs::metadata(&path).expect("a file").len()
    );
    let mut payload = Vec::new();
    cat(
        &path,
        Cat::Offset(position.offset),
        Part::Payload,
        &mut payload,
    )
    .expect("readable")
    .expect("found");
    payload
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_body_and_any_head(
        body in proptest::collection::vec(any::<u8>(), 0..3000),
        head in proptest::collection::vec(any::<u8>(), 0..300),
        level in 0u8..=13,
    ) {
        let settings = match level {
            13 => ArchiveSettings { compression: Compression::None, ..ArchiveSettings::default() },
            _ => ArchiveSettings { compression_level: level, ..ArchiveSettings::default() },
        };
        let odd = capture(URL, "test,a)/page", &head, &body);
        prop_assert_eq!(written_and_read(&odd, &settings), body);
    }

    /// Heads that look like heads: the pieces that matter, in any order.
    #[test]
    fn heads_of_odd_lines(
        lines in proptest::collection::vec(
            prop_oneof![
                Just("HTTP/1.1 200 OK\r\n"), Just("Content-Length: 3\r\n"), Just("content-length:9\n"),
                Just("Transfer-Encoding: chunked\r\n"), Just(" folded\r\n"), Just("\t\r\n"), Just("\n"),
                Just("Content-Encoding: gzip\r\n"), Just("no colon\r\n"), Just(": no name\r\n"),
                Just("Content-Type: image/png\r\n"), Just("\u{3000}\r\n"), Just("A: b\rc\0\r\n"),
            ],
            0..8,
        ),
        body in "[a-z]{0,12}",
    ) {
        let head = lines.concat();
        let odd = capture(URL, "test,a)/page", head.as_bytes(), body.as_bytes());
        prop_assert_eq!(written_and_read(&odd, &ArchiveSettings::default()), body.as_bytes());
    }
}

#[test]
fn large_bodies_stay_whole() {
    let mut body = Vec::new();
    for n in 0..2_000_000u32 {
        body.extend_from_slice(&n.wrapping_mul(2_654_435_761).to_le_bytes());
    }
    let large = capture(URL, "test,a)/page", HEAD, &body);
    assert_eq!(written_and_read(&large, &ArchiveSettings::default()), body);
}

#[test]
fn a_response_says_what_was_captured() {
    let dir = tempdir();
    let (mut writer, _) = recover(dir.path(), ArchiveSettings::default(), None);
    let capture = Capture {
        truncated: Some(Truncation::Length),
        resource_type: None,
        identified_type: Some("application/pdf"),
        protocol: Some("h2"),
        ..capture(URL, "test,a)/page", HEAD, b"hello")
    };
    let position = writer
        .append(&builder().build(&capture, [("http://a.test/b c", LinkKind::Redirect)]))
        .expect("append");
    writer.finish().expect("finish");
    let path = files(&dir.path().join("archive")).remove(0);

    let mut text = Vec::new();
    let record = cat(&path, Cat::Url(URL), Part::Record, &mut text)
        .expect("readable")
        .expect("found");
    let text = String::from_utf8(text).expect("ASCII");
    assert_eq!(record.offset, position.offset);
    for (name, value) in [
        ("WARC-Type", "response"),
        ("WARC-Date", "2023-11-14T22:13:20.123Z"),
        ("WARC-Target-URI", URL),
        ("WARC-IP-Address", "192.0.2.7"),
        ("WARC-Protocol", "h2"),
        ("WARC-Truncated", "length"),
        ("WARC-Identified-Payload-Type", "application/pdf"),
        (
            "WARC-Payload-Digest",
            "sha1:VL2MMHO4YXUKFWV63YHTWSBM3GXKSQ2N",
        ),
        ("Content-Type", "application/http;msgtype=response"),
    ] {
        assert_eq!(record.header(name), Some(value), "{name}");
    }
    assert!(text.starts_with("WARC/1.1\r\nWARC-Type: response\r\nWARC-Record-ID: <urn:uuid:"));
    assert!(text.ends_with(
        "\r\n\r\nHTTP/1.1 200 OK\r\nContent-Type: text/html; charset=utf-8\r\nX-Crawler-Transfer-Encoding: chunked\r\nContent-Length: 5\r\n\r\nhello\r\n\r\n"
    ));

    let mut reader = WarcReader::open(&path).expect("open");
    let mut last = None;
    let mut block = String::new();
    while let Some(record) = reader.next_record().expect("read") {
        block.clear();
        reader.block().read_to_string(&mut block).expect("text");
        last = Some(record);
    }
    let metadata = last.expect("records");
    assert_eq!(metadata.kind(), "metadata");
    assert_eq!(
        metadata.header("WARC-Concurrent-To"),
        record.header("WARC-Record-ID")
    );
    assert_eq!(
        block,
        "via: http://a.test/\r\ndepth: 1\r\nfetchTimeMs: 12\r\ncharset: utf-8\r\ntitle: A title\r\nsimhash: 0000000000001234\r\noddity: bare-lf\r\noutlink: http://a.test/b%20c R Location:\r\n"
    );
}

#[test]
fn a_revisit_keeps_the_head_and_names_the_first() {
    let dir = tempdir();
    let (mut writer, _) = recover(dir.path(), ArchiveSettings::default(), None);
    let first = SeenRecord {
        url: "http://b.test/".to_owned(),
        at_ms: AT_MS - 1000,
    };
    // The body is gone by the time a copy is found out; the head must not say that it was empty.
    let key = surt(URL);
    let whole = builder().build(&capture(URL, &key, HEAD, b"hello"), []);
    let bodiless = Capture {
        sha1: Some(whole.payload_sha1()),
        ..capture(URL, &key, HEAD, b"")
    };
    let built = builder().build_revisit(&bodiless, 5, &first, []);
    assert!(built.is_revisit());
    let position = writer.append(&built).expect("append");
    let finished = writer.finish().expect("finish");
    let path = files(&dir.path().join("archive")).remove(0);
    let report = verify(&path).expect("readable");
    assert!(report.is_sound(), "{report:#?}");
    let mut block = Vec::new();
    let record = cat(&path, Cat::Offset(position.offset), Part::Block, &mut block)
        .expect("readable")
        .expect("found");
    assert!(block.ends_with(b"Content-Length: 5\r\n\r\n"));
    for (name, value) in [
        ("WARC-Type", "revisit"),
        (
            "WARC-Profile",
            "http://netpreserve.org/warc/1.1/revisit/identical-payload-digest",
        ),
        ("WARC-Refers-To-Target-URI", "http://b.test/"),
        ("WARC-Refers-To-Date", "2023-11-14T22:13:19.123Z"),
        (
            "WARC-Payload-Digest",
            "sha1:VL2MMHO4YXUKFWV63YHTWSBM3GXKSQ2N",
        ),
    ] {
        assert_eq!(record.header(name), Some(value), "{name}");
    }
    let index = std::fs::read_to_string(finished.index).expect("an index");
    assert!(
        index.contains("\"mime\": \"warc/revisit\", \"status\": \"200\""),
        "{index}"
    );
}

/// What came compressed is stored as it is, unless a setting says otherwise.
#[test]
fn encoded_bodies_are_not_deflated_again() {
    let body = b"the same again and ".repeat(500);
    let head = b"HTTP/1.1 200 OK\r\nContent-Encoding: br\r\n\r\n";
    let capture = capture(URL, "test,a)/page", head, &body);
    let size = |recompress_encoded| {
        let settings = ArchiveSettings {
            recompress_encoded,
            ..ArchiveSettings::default()
        };
        let mut builder = RecordBuilder::new(&settings, 1).expect("good settings");
        builder.build(&capture, []).bytes()
    };
    assert!(size(false) > body.len() as u64);
    assert!(size(true) < body.len() as u64 / 5);
    assert_eq!(
        written_and_read(&capture, &ArchiveSettings::default()),
        body
    );
}

#[test]
fn listed_records_lie_end_to_end() {
    let dir = tempdir();
    let (mut writer, _) = recover(dir.path(), ArchiveSettings::default(), None);
    let mut builder = builder();
    for number in 0..20 {
        writer.append(&page(&mut builder, number)).expect("append");
    }
    writer.finish().expect("finish");
    let path = files(&dir.path().join("archive")).remove(0);
    let listed: Vec<_> = list(&path)
        .expect("open")
        .collect::<Result<_, _>>()
        .expect("read");
    assert_eq!(listed.len(), 61);
    let mut end = 0;
    for record in &listed {
        assert_eq!(record.offset, end);
        end += record.length;
    }
    assert_eq!(end, std::fs::metadata(&path).expect("a file").len());
    let responses: Vec<_> = listed.iter().filter(|r| r.kind == "response").collect();
    assert_eq!(responses.len(), 20);
    assert!(
        responses
            .iter()
            .all(|r| r.status == "200" && r.mime == "text/html")
    );
    assert_eq!(responses[4].url, "http://h1.test/page4.html");
}

/// Every single byte of a small file, damaged: `verify` ends, and finds something wrong.
#[test]
fn no_damaged_byte_goes_unseen() {
    let dir = tempdir();
    let (mut writer, _) = recover(dir.path(), ArchiveSettings::default(), None);
    writer.append(&page(&mut builder(), 3)).expect("append");
    writer.finish().expect("finish");
    let path = files(&dir.path().join("archive")).remove(0);
    let sound = std::fs::read(&path).expect("read");
    let damaged = dir.path().join("damaged.warc.gz");
    let mut members = vec![0];
    members.extend(
        list(&path)
            .expect("open")
            .map(|l| l.expect("listed"))
            .map(|l| (l.offset + l.length) as usize),
    );
    let mut unseen = Vec::new();
    for at in 0..sound.len() {
        let mut bytes = sound.clone();
        bytes[at] ^= 0x20;
        std::fs::write(&damaged, &bytes).expect("write");
        if verify(&damaged).expect("readable").is_sound() {
            unseen.push(at);
        }
    }
    // Time stamp, extra flags and operating system of a gzip header carry no check and no meaning,
    // nor do the bits that fill up the last byte before the trailer, and the first byte of a stored
    // block: the request's.
    let stored = members[2];
    let free = |at: &usize| {
        let in_header = members
            .iter()
            .any(|start| (start + 4..start + 10).contains(at));
        in_header || members.contains(&(at + 9)) || *at == stored + 10
    };
    assert!(
        unseen.iter().all(free),
        "{unseen:?} of members at {members:?}"
    );
    for length in 0..sound.len() {
        std::fs::write(&damaged, &sound[..length]).expect("write");
        let report = verify(&damaged).expect("readable");
        assert_eq!(
            report.is_sound(),
            members[1..].contains(&length),
            "cut to {length}"
        );
    }
    println!(
        "{} bytes damaged, {} of them free, and {} cuts",
        sound.len(),
        unseen.len(),
        sound.len()
    );
}
