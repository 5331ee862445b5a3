//! Pages for the benches that need no network: HTML files of a folder, or of the simulated Web.

use std::fs;
use std::path::{Path, PathBuf};

use portolan_crawl::CrawlError;
use portolan_model::{CanonicalUrl, Canonicalizer};
use portolan_simweb::{Web, WebSpec};

use crate::failure::Failure;

/// What a bench holds in RAM at most; further files are left out.
const MAX_BYTES: u64 = 1 << 30;
/// Folders in folders that are looked into.
const MAX_DEPTH: usize = 32;
/// Pages of the simulated Web that are made.
const MADE_HOSTS: u32 = 10;
const MADE_PAGES: u32 = 100;

pub(super) struct BenchPage {
    pub(super) url: CanonicalUrl,
    pub(super) body: Vec<u8>,
}

/// The `.html` and `.htm` files below a folder.
pub(super) fn from_folder(folder: &Path) -> Result<Vec<BenchPage>, Failure> {
    let mut files = Vec::new();
    list(folder, MAX_DEPTH, &mut files)?;
    files.sort();
    let (mut pages, mut bytes) = (Vec::new(), 0);
    for path in &files {
        let body =
            fs::read(path).map_err(|e| Failure::usage(format!("{}: {e}", path.display())))?;
        bytes += body.len() as u64;
        if bytes > MAX_BYTES {
            break;
        }
        let name = path.strip_prefix(folder).unwrap_or(path);
        let url = url(&format!("http://pages.example/{}", name.display()))?;
        pages.push(BenchPage { url, body });
    }
    if pages.is_empty() {
        return Err(Failure::usage(format!(
            "{}: there are no .html files",
            folder.display()
        )));
    }
    Ok(pages)
}

/// Pages as `bench crawl` fetches them.
pub(super) fn made() -> Result<Vec<BenchPage>, Failure> {
    let spec = WebSpec::bench()
        .with_hosts(MADE_HOSTS)
        .with_pages_per_host(MADE_PAGES);
    let web = Web::new(spec).map_err(Failure::failed)?;
    let places = (0..MADE_HOSTS).flat_map(|host| (0..MADE_PAGES).map(move |page| (host, page)));
    places
        .map(|(host, page)| {
            Ok(BenchPage {
                url: url(&web.page_url(host, page))?,
                body: web.page_body(host, page),
            })
        })
        .collect()
}

fn url(text: &str) -> Result<CanonicalUrl, Failure> {
    Canonicalizer::default()
        .parse_seed(text)
        .map_err(|e| CrawlError::Input(format!("{text}: {e}")).into())
}

fn list(folder: &Path, depth: usize, files: &mut Vec<PathBuf>) -> Result<(), Failure> {
    let wrong = |e: std::io::Error| Failure::usage(format!("{}: {e}", folder.display()));
    for entry in fs::read_dir(folder).map_err(wrong)? {
        let path = entry.map_err(wrong)?.path();
        let is_page = path.extension().is_some_and(|extension| {
            extension.eq_ignore_ascii_case("html") || extension.eq_ignore_ascii_case("htm")
        });
        // Links to folders are not followed: they may lead in a circle.
        if path.is_dir() && !path.is_symlink() && depth > 0 {
            list(&path, depth - 1, files)?;
        } else if is_page && path.is_file() {
            files.push(path);
        }
    }
    Ok(())
}
