//! How long the fingerprints, robots rules and sitemaps take on made-up input: `cargo run --release --example facts_speed`.

use std::hint::black_box;
use std::time::Instant;

use portolan_content::{Fingerprint, Robots, Simhash, SitemapLimits, parse_sitemap};

fn main() {
    let ascii = prose(1 << 16);
    let japanese = "航海図は多くの船乗りの報告から描かれた。".repeat((1 << 16) / 60);
    report("fingerprint, ASCII", ascii.len(), || {
        Fingerprint::of(black_box(ascii.as_bytes()))
    });
    for (name, text) in [("simhash, ASCII", &ascii), ("simhash, Japanese", &japanese)] {
        report(name, text.len(), || {
            let mut simhash = Simhash::new();
            for run in black_box(text.as_bytes()).chunks(512) {
                simhash.push_text(run);
            }
            simhash.finish()
        });
    }
    let words = ascii.split_ascii_whitespace().count();
    println!(
        "(ASCII text: {:.1} bytes a word)",
        ascii.len() as f64 / words as f64
    );

    let entry = "<url>\n<loc>https://www.example.org/catalogue/item?id=12345&amp;lang=en</loc>\n<lastmod>2024-05-06</lastmod>\n</url>\n";
    let sitemap = format!("<urlset>{}</urlset>", entry.repeat(1000));
    report("sitemap", sitemap.len(), || {
        parse_sitemap(sitemap.as_bytes(), SitemapLimits::default(), &mut |entry| {
            black_box(entry);
        })
        .entries as u64
    });

    for (name, rule) in [("prefix", "/catalogue/item-"), ("wildcard", "/*/item-")] {
        let rules: String = (0..10_000)
            .map(|i| format!("Disallow: {rule}{i}/\n"))
            .collect();
        let text = format!("User-agent: *\n{rules}");
        report(
            &format!("robots with 10,000 {name} rules, parse"),
            text.len(),
            || Robots::parse(black_box(text.as_bytes()), "portolan").rule_count() as u64,
        );
        let robots = Robots::parse(text.as_bytes(), "portolan");
        let path = "/catalogue/page-17/item-x?lang=en";
        report(
            &format!("robots with 10,000 {name} rules, one path (1 KB = 1 path)"),
            1024,
            || u64::from(robots.allows(black_box(path))),
        );
    }
}

fn report(name: &str, bytes: usize, mut job: impl FnMut() -> u64) {
    let mut best = f64::INFINITY;
    for _ in 0..200 {
        let start = Instant::now();
        black_box(job());
        best = best.min(start.elapsed().as_secs_f64());
    }
    println!(
        "{name}: {:.0} ns a KB",
        best * 1e9 / (bytes as f64 / 1024.0)
    );
}

/// Text with words of natural lengths.
fn prose(bytes: usize) -> String {
    let mut text = String::with_capacity(bytes + 16);
    let mut x = 7u64;
    while text.len() < bytes {
        x = x
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        let length = 1 + (x >> 33) % 5 + (x >> 40) % 5;
        for i in 0..length {
            text.push(char::from(b'a' + ((x >> (i * 5)) % 26) as u8));
        }
        text.push(if x >> 60 == 0 { '\n' } else { ' ' });
    }
    text
}
