//! Pages for the benches that need no network: HTML files of a folder, or of the simulated Web.

use std::fs;
use std::path::Path;

use portolan_crawl::CrawlError;
use portolan_model::{CanonicalUrl, Canonicalizer};
use portolan_simweb::{Web, WebSpec, html_files};

use crate::failure::Failure;

/// What a bench holds in RAM at most; further files are left out.
const MAX_BYTES: u64 = 1 << 30;
/// Pages of the simulated Web that are made.
const MADE_HOSTS: u32 = 10;
const MADE_PAGES: u32 = 100;

pub(super) struct BenchPage {
    pub(super) url: CanonicalUrl,
    pub(super) body: Vec<u8>,
}

/// The `.html` and `.htm` files below a folder.
pub(super) fn from_folder(folder: &Path) -> Result<Vec<BenchPage>, Failure> {
    let wrong = |path: &Path, e| Failure::usage(format!("{}: {e}", path.display()));
    let files = html_files(folder).map_err(|(path, e)| wrong(&path, e))?;
    let (mut pages, mut bytes) = (Vec::new(), 0);
    for path in &files {
        let body = fs::read(path).map_err(|e| wrong(path, e))?;
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
