//! Real pages from a folder, served in the place of made-up ones: what made-up text cannot show, markup
//! as people write it, is measured with them.

use crate::links::Link;
use crate::seed::mix;
use crate::spec::SpecError;
use crate::web::Web;
use std::fs;
use std::path::{Path, PathBuf};

/// Pages of the folder that are kept in RAM, by number and by bytes; further ones are left out.
const MAX_PAGES: usize = 100_000;
const MAX_BYTES: u64 = 4 << 30;
/// Folders in folders that are looked into.
const MAX_DEPTH: usize = 32;
/// How far into a page its HEAD element is looked for.
const HEAD_SEARCHED_BYTES: usize = 8 * 1024;
/// The links that the pages came with resolve to this host, which is no part of the Web.
const ELSEWHERE: &str = "http://pages.example/";

/// The HTML files of a folder.
pub(crate) struct Library {
    pages: Vec<Vec<u8>>,
}

impl Library {
    /// Reads every `.html` and `.htm` file below `folder`, in the order of their paths.
    pub(crate) fn read(folder: &str) -> Result<Self, SpecError> {
        let wrong =
            |path: &Path, what: String| SpecError::PagesFrom(format!("{}: {what}", path.display()));
        let root = Path::new(folder);
        let files = html_files(root).map_err(|(path, e)| wrong(&path, e.to_string()))?;
        let mut library = Library { pages: Vec::new() };
        let mut bytes = 0;
        for path in files.iter().take(MAX_PAGES) {
            let file = fs::read(path).map_err(|e| wrong(path, e.to_string()))?;
            bytes += file.len() as u64;
            if bytes > MAX_BYTES {
                break;
            }
            let name = path.strip_prefix(root).unwrap_or(path);
            library
                .pages
                .push(with_base(&file, &name.to_string_lossy()));
        }
        if library.pages.is_empty() {
            return Err(wrong(root, "there are no .html files".to_owned()));
        }
        Ok(library)
    }
}

impl Web {
    /// One of the library's pages with the links of this page behind it, as absolute URLs: the page's
    /// own links lead out of this Web.
    pub(crate) fn write_real(
        &self,
        library: &Library,
        host: u32,
        page: u32,
        links: &mut Vec<Link>,
        out: &mut Vec<u8>,
    ) {
        let bits = mix(self.spec.seed, u64::from(host), u64::from(page), 0x54);
        let real = &library.pages[(bits % library.pages.len() as u64) as usize];
        self.links(host, page, links);
        out.reserve(real.len() + 100 * links.len());
        out.extend_from_slice(real);
        out.extend_from_slice(b"\n<p>");
        for link in links {
            out.extend_from_slice(b"<a href=\"");
            out.extend_from_slice(self.page_url(link.host, link.page).as_bytes());
            out.extend_from_slice(b"\">on</a>\n");
        }
        out.extend_from_slice(b"</p>\n");
    }
}

/// The `.html` and `.htm` files below a folder, in the order of their paths; or the folder that
/// could not be read.
pub fn html_files(folder: &Path) -> Result<Vec<PathBuf>, (PathBuf, std::io::Error)> {
    let mut files = Vec::new();
    list(folder, MAX_DEPTH, &mut files)?;
    files.sort();
    Ok(files)
}

fn list(
    folder: &Path,
    depth: usize,
    files: &mut Vec<PathBuf>,
) -> Result<(), (PathBuf, std::io::Error)> {
    let entries = fs::read_dir(folder).map_err(|e| (folder.to_owned(), e))?;
    for entry in entries {
        let path = entry.map_err(|e| (folder.to_owned(), e))?.path();
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

/// The file with a BASE element as the first thing in its HEAD, or in front where it has none.
fn with_base(file: &[u8], name: &str) -> Vec<u8> {
    let at = head_end(file).unwrap_or_else(|| {
        let bom = b"\xef\xbb\xbf";
        if file.starts_with(bom) { bom.len() } else { 0 }
    });
    // Names hold anything; what matters is that relative links have a folder to start from.
    let folder: String = name
        .chars()
        .filter(|c| c.is_ascii_alphanumeric() || "/._-".contains(*c))
        .collect();
    let mut page = Vec::with_capacity(file.len() + 64);
    page.extend_from_slice(&file[..at]);
    page.extend_from_slice(format!("<base href=\"{ELSEWHERE}{folder}\">").as_bytes());
    page.extend_from_slice(&file[at..]);
    page
}

/// Where the tag `<head …>` ends.
fn head_end(file: &[u8]) -> Option<usize> {
    let start = &file[..file.len().min(HEAD_SEARCHED_BYTES)];
    let at = start
        .windows(6)
        .position(|w| w[..5].eq_ignore_ascii_case(b"<head") && !w[5].is_ascii_alphanumeric())?;
    let end = start[at..].iter().position(|b| *b == b'>')?;
    Some(at + end + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_base_comes_first() {
        let base = "<base href=\"http://pages.example/a/b.html\">";
        for (file, page) in [
            (
                "<HEAD lang=en><base href=/>",
                format!("<HEAD lang=en>{base}<base href=/>"),
            ),
            ("<header><p>", format!("{base}<header><p>")),
            ("\u{feff}<p>", format!("\u{feff}{base}<p>")),
            ("", base.to_owned()),
        ] {
            assert_eq!(with_base(file.as_bytes(), "a/b.html"), page.as_bytes());
        }
    }
}
