//! `portolan augment`: tables of links and of volatile parts beside the documents of a static site. Walks the folder and writes files; what
//! stands in them is `portolan_content`'s business.

use std::ffi::OsString;
use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use portolan_content::{Markup, Site, Tol, Tvi};
use portolan_crawl::report::{counted, thousands};
use serde_json::json;

use crate::arguments_augment::AugmentArguments;
use crate::failure::Failure;
use crate::output::{field, noteln, sayln};

/// A larger document gets no tables: it is read whole.
const MAX_DOCUMENT_BYTES: u64 = 64 << 20;

/// Folders within folders are followed this far.
const MAX_DEPTH: usize = 100;

pub(crate) fn run(arguments: &AugmentArguments) -> Result<ExitCode, Failure> {
    let folder = &arguments.folder;
    let site = match &arguments.base {
        None => Site::unknown(),
        Some(base) => {
            Site::at(base).map_err(|e| Failure::usage(format!("--base {}: {e}", field(base))))?
        }
    };
    if !folder.is_dir() {
        let what = if folder.exists() {
            "is no folder"
        } else {
            "is not there"
        };
        return Err(Failure::usage(format!("{} {what}", folder.display())));
    }
    let mut documents = Vec::new();
    list(folder, MAX_DEPTH, &mut documents)?;
    if documents.is_empty() {
        return Err(Failure::usage(format!(
            "{} holds no documents: no .html, .htm, .xhtml, .xml, .rss or .atom file",
            folder.display()
        )));
    }
    documents.sort();
    let mut tally = Tally::default();
    for document in &documents {
        tally.augment(folder, document, &site)?;
    }
    tally.tell(arguments.json);
    Ok(ExitCode::SUCCESS)
}

/// How a document is written, by its name.
fn markup_of(path: &Path) -> Option<Markup> {
    let extension = path.extension()?.to_str()?.to_ascii_lowercase();
    match &*extension {
        "html" | "htm" | "xhtml" | "xht" => Some(Markup::Html),
        "xml" | "rss" | "atom" => Some(Markup::Xml),
        _ => None,
    }
}

/// The documents in a folder and below. Links to folders are not followed, because they may lead in a circle; hidden folders
/// (`.git`) are no part of a site.
fn list(folder: &Path, depth: usize, documents: &mut Vec<PathBuf>) -> Result<(), Failure> {
    let unreadable = |e| Failure::failed(format!("{} cannot be read: {e}", folder.display()));
    for entry in fs::read_dir(folder).map_err(unreadable)? {
        let entry = entry.map_err(unreadable)?;
        let path = entry.path();
        let is_hidden = entry.file_name().as_encoded_bytes().starts_with(b".");
        if entry.file_type().map_err(unreadable)?.is_dir() {
            if depth > 0 && !is_hidden {
                list(&path, depth - 1, documents)?;
            }
        } else if markup_of(&path).is_some() && path.is_file() {
            documents.push(path);
        }
    }
    Ok(())
}

/// What was found and done.
#[derive(Default)]
struct Tally {
    documents: u64,
    tables_of_links: u64,
    internal: u64,
    external: u64,
    tables_of_parts: u64,
    parts: u64,
    written: u64,
    unchanged: u64,
    removed: u64,
    /// Documents that are too large.
    too_large: u64,
    /// Links that no table has room for.
    left_out: u64,
}

impl Tally {
    fn augment(&mut self, folder: &Path, document: &Path, site: &Site) -> Result<(), Failure> {
        let Some(markup) = markup_of(document) else {
            return Ok(());
        };
        let unreadable = |e| Failure::failed(format!("{} cannot be read: {e}", document.display()));
        if fs::metadata(document).map_err(unreadable)?.len() > MAX_DOCUMENT_BYTES {
            noteln!(
                "note: {} is larger than {} MB and gets no tables",
                document.display(),
                MAX_DOCUMENT_BYTES >> 20
            );
            self.too_large += 1;
            return Ok(());
        }
        let bytes = fs::read(document).map_err(unreadable)?;
        let below = document.strip_prefix(folder).unwrap_or(document);
        let path: Vec<_> = below
            .components()
            .map(|part| part.as_os_str().to_string_lossy())
            .collect();
        let path: Vec<&str> = path.iter().map(AsRef::as_ref).collect();
        self.documents += 1;
        let links = match markup {
            Markup::Html => Some(Tol::of_page(&bytes, site, &path)),
            Markup::Xml => Tol::of_feed(&bytes, site, &path),
        };
        if let Some(links) = &links {
            self.tables_of_links += 1;
            self.internal += links.internal().count() as u64;
            self.external += links.external().count() as u64;
            self.left_out += links.left_out() as u64;
        }
        let table = links.map(|links| links.write().into_bytes());
        self.settle(document, "tol", table, |old| Tol::parse(old).is_some())?;
        let parts = Tvi::of_document(markup, &bytes);
        self.tables_of_parts += u64::from(!parts.is_empty());
        self.parts += parts.len() as u64;
        let table = (!parts.is_empty()).then(|| parts.write());
        self.settle(document, "tvi", table, |old| {
            Tvi::parse(markup, old).is_some()
        })
    }

    /// Makes the file beside the document hold `table`. Where there is none, a table of before (which `is_ours` knows) is removed: it
    /// would say what is no longer true.
    fn settle(
        &mut self,
        document: &Path,
        extension: &str,
        table: Option<Vec<u8>>,
        is_ours: impl FnOnce(&[u8]) -> bool,
    ) -> Result<(), Failure> {
        let mut name = OsString::from(document);
        name.push(".");
        name.push(extension);
        let path = PathBuf::from(name);
        let old = fs::read(&path).ok();
        let done = match table {
            Some(table) if old.as_ref() == Some(&table) => {
                self.unchanged += 1;
                return Ok(());
            }
            Some(table) => {
                self.written += 1;
                replace(document, &path, &table)
            }
            None if old.is_some_and(|old| is_ours(&old)) => {
                self.removed += 1;
                fs::remove_file(&path)
            }
            None => return Ok(()),
        };
        done.map_err(|e| Failure::failed(format!("{} cannot be written: {e}", path.display())))
    }

    fn tell(&self, as_json: bool) {
        if as_json {
            let value = json!({
                "documents": self.documents, "tables_of_links": self.tables_of_links,
                "internal_links": self.internal, "external_links": self.external, "links_left_out": self.left_out,
                "tables_of_parts": self.tables_of_parts, "parts": self.parts,
                "written": self.written, "unchanged": self.unchanged, "removed": self.removed,
                "too_large": self.too_large,
            });
            sayln!("{value}");
            return;
        }
        sayln!("{}:", counted(self.documents, "document"));
        sayln!(
            "  {} of links: {} internal, {} external",
            counted(self.tables_of_links, "table"),
            thousands(self.internal),
            thousands(self.external)
        );
        if self.left_out > 0 {
            sayln!(
                "  {} left out: too long, or too many in one document",
                counted(self.left_out, "link")
            );
        }
        sayln!(
            "  {} of volatile parts: {}",
            counted(self.tables_of_parts, "table"),
            counted(self.parts, "part")
        );
        sayln!(
            "  {} written, {} unchanged, {} removed",
            counted(self.written, "file"),
            thousands(self.unchanged),
            thousands(self.removed)
        );
    }
}

/// Puts a whole file in place of the old one, or none: a server never sends half a table. Who may read the document may read it.
fn replace(document: &Path, path: &Path, table: &[u8]) -> io::Result<()> {
    let folder = path.parent().unwrap_or(Path::new("."));
    let mut file = tempfile::NamedTempFile::new_in(folder)?;
    file.write_all(table)?;
    file.as_file()
        .set_permissions(fs::metadata(document)?.permissions())?;
    file.as_file().sync_all()?;
    file.persist(path).map_err(|e| e.error)?;
    Ok(())
}
