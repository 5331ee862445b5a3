//! What building the records of a 20 KB page costs, in CPU time of this thread. Run with --release.

use portolan_archive::{ArchiveSettings, Capture, PageFacts, RecordBuilder};
use portolan_model::LinkKind;
use sha1::{Digest, Sha1};
use std::hint::black_box;

const ROUNDS: u32 = 4_000;

fn main() {
    let body = page();
    let links: Vec<String> = (0..50)
        .map(|n| format!("http://host{}.example/some/path/page-{n}.html", n % 9))
        .collect();
    let capture = Capture {
        url: "http://host1.example/some/path/page-1.html",
        surt: "example,host1)/some/path/page-1.html",
        at_ms: 1_700_000_000_123,
        ip: Some([192, 0, 2, 7].into()),
        request_head: b"GET /some/path/page-1.html HTTP/1.1\r\nHost: host1.example\r\nUser-Agent: portolan/0.1 (+https://example.org/bot)\r\nAccept: text/html,*/*;q=0.5\r\nAccept-Encoding: gzip, br\r\n\r\n",
        response_head: b"HTTP/1.1 200 OK\r\nDate: Tue, 14 Nov 2023 22:13:20 GMT\r\nServer: nginx\r\nContent-Type: text/html; charset=utf-8\r\nTransfer-Encoding: chunked\r\nConnection: keep-alive\r\nVary: Accept-Encoding\r\nLast-Modified: Mon, 13 Nov 2023 00:00:00 GMT\r\nETag: \"abc-123\"\r\n\r\n",
        body: &body,
        sha1: Some(Sha1::digest(&body).into()),
        status: 200,
        protocol: None,
        resource_type: None,
        identified_type: Some("text/html"),
        truncated: None,
        conversions: &[],
        facts: PageFacts {
            fetch_ms: 12,
            depth: 3,
            via: Some("http://host0.example/"),
            charset: "utf-8",
            title: "A page of words",
            simhash: 77,
            refreshes: None,
            oddities: &[],
            said: &[],
        },
    };
    println!("page {} bytes, 50 outlinks", body.len());
    for level in [0, 1, 2, 6] {
        measure_build(&format!("build, level {level}"), &capture, &links, level);
    }
    let without = Capture {
        sha1: None,
        ..capture
    };
    measure_build("build, level 1, payload SHA-1 too", &without, &links, 1);
    measure_build("build, level 1, no outlinks", &capture, &[], 1);
    let encoded = Capture {
        response_head:
            b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Encoding: gzip\r\n\r\n",
        body: &body[..5_000],
        sha1: Some(Sha1::digest(&body[..5_000]).into()),
        ..capture
    };
    measure_build("build, 5 KB content-encoded, stored", &encoded, &links, 1);

    measure("  of it SHA-1 of one body", || {
        let digest: [u8; 20] = Sha1::digest(&body).into();
        black_box(digest)[0] as usize
    });
    for level in [1, 6] {
        let level_checked = libdeflater::CompressionLvl::new(level).expect("a level");
        let mut compressor = libdeflater::Compressor::new(level_checked);
        let mut out = vec![0; compressor.gzip_compress_bound(body.len())];
        measure(
            &format!("  of it deflate of the body, level {level}"),
            || compressor.gzip_compress(&body, &mut out).expect("room"),
        );
    }
}

fn measure_build(name: &str, capture: &Capture<'_>, links: &[String], level: u8) {
    let settings = ArchiveSettings {
        compression_level: level,
        ..ArchiveSettings::default()
    };
    let mut builder = RecordBuilder::new(&settings, 1).expect("good settings");
    measure(name, || {
        let links = links.iter().map(|link| (link.as_str(), LinkKind::Anchor));
        builder.build(capture, links).bytes() as usize
    });
}

fn measure(name: &str, mut work: impl FnMut() -> usize) {
    let mut bytes = work();
    let before = cpu_ns();
    for _ in 0..ROUNDS {
        bytes = black_box(work());
    }
    let each = (cpu_ns() - before) / f64::from(ROUNDS) / 1000.0;
    println!("{name:<45} {each:>7.1} µs CPU  ({bytes} bytes)");
}

/// CPU time of the only thread, from the scheduler.
fn cpu_ns() -> f64 {
    std::fs::read_to_string("/proc/self/schedstat")
        .ok()
        .and_then(|text| text.split(' ').next()?.parse().ok())
        .expect("Linux's /proc/self/schedstat")
}

/// About 20 KB of HTML with words drawn by a fixed generator: compresses like text, not like a
/// repeated line.
fn page() -> Vec<u8> {
    const SYLLABLES: [&str; 16] = [
        "an", "ter", "pol", "ka", "ri", "mon", "des", "u", "lin", "tor", "sa", "ver", "qui", "es",
        "bo", "gra",
    ];
    let mut state = 7u64;
    let mut next = |below: u64| {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) % below
    };
    let mut out =
        String::from("<!doctype html><html><head><title>A page of words</title></head><body>\n");
    while out.len() < 20_000 {
        out.push_str("<p class=\"text\">");
        for _ in 0..40 {
            for _ in 0..=next(3) {
                out.push_str(SYLLABLES[next(16) as usize]);
            }
            out.push(' ');
        }
        out.push_str(&format!(
            "<a href=\"/path/{}.html\">more</a></p>\n",
            next(1000)
        ));
    }
    out.push_str("</body></html>\n");
    out.into_bytes()
}
