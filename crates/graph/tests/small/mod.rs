//! Small graphs for the tests, and where the real ones are.
#![allow(dead_code, reason = "each test file uses some of these")]

use std::path::PathBuf;

use portolan_graph::{LinksBuilder, PagesBuilder, WebGraph};

/// Pages as (URL, bytes), links by number.
pub fn graph(pages: &[(&str, u64)], links: &[(u32, u32)]) -> WebGraph {
    let mut builder = PagesBuilder::default();
    for (url, bytes) in pages {
        let host = url["http://".len()..].split('/').next().expect("a host");
        builder.push(url, host, Some(*bytes));
    }
    let mut notes = Vec::new();
    let pages = builder.finish(&mut notes).expect("pages");
    let mut builder = LinksBuilder::new(pages.count());
    for &(from, to) in links {
        builder.push(from, to);
    }
    WebGraph {
        pages,
        links: builder.finish().0,
        seeds: Vec::new(),
        notes,
    }
}

/// Pages of equal weight, each on a site of its own, with URLs of equal length.
pub fn plain(pages: u32, links: &[(u32, u32)]) -> WebGraph {
    let urls: Vec<String> = (0..pages)
        .map(|n| format!("http://h{n:03}.test/"))
        .collect();
    let pages: Vec<(&str, u64)> = urls.iter().map(|url| (url.as_str(), 100)).collect();
    graph(&pages, links)
}

/// The directory of a real graph; none (said) where there is no data, which is a failure in CI.
pub fn real(name: &str) -> Option<PathBuf> {
    let default = concat!(env!("CARGO_MANIFEST_DIR"), "/../../../shared/graphs");
    let root =
        std::env::var_os("PORTOLAN_GRAPHS").map_or_else(|| PathBuf::from(default), PathBuf::from);
    let path = root.join(name);
    if path.exists() {
        return Some(path);
    }
    assert!(
        std::env::var_os("CI").is_none(),
        "no graph at {}",
        path.display()
    );
    println!("not run: no graph at {}", path.display());
    None
}
