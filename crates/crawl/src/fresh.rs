//! A document as it is now: what is stored of it, with the volatile parts of the newest table that was fetched since. For
//! people who look into an archive; it reads WARC files and needs no registry.

use std::io::Write;
use std::path::{Path, PathBuf};

use portolan_archive::{Cat, Listed, list, warc_date};
use portolan_content::{Markup, MimeType, Table, Tvi};
use portolan_model::CanonicalUrl;

use crate::archived::{original, write_decoded};
use crate::error::CrawlError;

/// What was written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fresh {
    /// The document with this many new parts.
    Refreshed(usize),
    /// The document as it is stored: no table is newer.
    AsStored,
    /// The document as it is stored: the newest table does not fit it.
    Misfit,
    /// Nothing: there is no such document.
    Absent,
}

/// Writes the newest document at `url` that is in `files`, with the parts that were fetched since; or as it was at a time, by
/// what was fetched up to then.
pub fn write_fresh(
    files: &[PathBuf],
    url: &CanonicalUrl,
    as_of_ms: Option<u64>,
    out: &mut dyn Write,
) -> Result<Fresh, CrawlError> {
    let table = Table::Tvi.path_of(url.path_and_query());
    let table = table.map(|path| format!("{}{path}", url.origin()));
    let until = as_of_ms.map(warc_date);
    let (mut document, mut parts) = (Newest::default(), Newest::default());
    for path in files {
        for record in list(path)? {
            let record = record?;
            if until.as_ref().is_some_and(|until| record.date > *until) {
                continue;
            }
            if record.url == url.as_str() && is_document(&record) {
                document.offer(path, record);
            } else if Some(&record.url) == table.as_ref() && is_document(&record) {
                parts.offer(path, record);
            }
        }
    }
    let Some((stored, mime)) = document.payload(files)? else {
        return Ok(Fresh::Absent);
    };
    let is_newer = document.date() <= parts.date();
    let (fresh, document) = match parts.payload(files)?.filter(|_| is_newer) {
        None => (Fresh::AsStored, stored),
        Some((table, _)) => {
            let markup = markup_of(&mime);
            let refreshed = Tvi::parse(markup, &table).map(|tvi| tvi.put_into(markup, &stored));
            match refreshed.filter(|new| new.missing == 0 && new.replaced > 0) {
                Some(new) => (Fresh::Refreshed(new.replaced), new.document),
                None => (Fresh::Misfit, stored),
            }
        }
    };
    out.write_all(&document)
        .map_err(|source| CrawlError::File {
            path: PathBuf::from("standard output"),
            source,
        })?;
    Ok(fresh)
}

fn is_document(record: &Listed) -> bool {
    match record.kind.as_str() {
        "response" => record.status == "200",
        "revisit" => matches!(record.status.as_str(), "200" | "304"),
        _ => false,
    }
}

/// The newest record of a URL.
#[derive(Default)]
struct Newest {
    found: Option<(PathBuf, Listed)>,
}

impl Newest {
    fn offer(&mut self, path: &Path, record: Listed) {
        // Dates of WARC records sort as text.
        if self.date() <= Some(record.date.as_str()) {
            self.found = Some((path.to_owned(), record));
        }
    }

    fn date(&self) -> Option<&str> {
        self.found.as_ref().map(|(_, record)| record.date.as_str())
    }

    /// The payload, decoded, and its type.
    fn payload(&self, files: &[PathBuf]) -> Result<Option<(Vec<u8>, String)>, CrawlError> {
        let Some((path, record)) = &self.found else {
            return Ok(None);
        };
        let which = Cat::Offset(record.offset);
        let Some(message) = original(files, std::slice::from_ref(path), which)? else {
            return Ok(None);
        };
        let mime = message.values("content-type");
        let mime = mime.first().and_then(|value| MimeType::parse_header(value));
        let mut payload = Vec::new();
        write_decoded(message, &mut payload)?;
        let essence = mime.map(|mime| mime.essence().to_owned());
        Ok(Some((payload, essence.unwrap_or_default())))
    }
}

fn markup_of(mime: &str) -> Markup {
    match mime.ends_with("xml") && !mime.contains("html") {
        true => Markup::Xml,
        false => Markup::Html,
    }
}
