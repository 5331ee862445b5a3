//! What is archived of a URL, for people who look into a crawl: where its redirect leads, and its payload as a reader
//! of the page would see it. It reads WARC files, those of other crawlers too, and needs no registry.

use std::io::{self, Write};
use std::path::{Path, PathBuf};

use portolan_archive::{Cat, Message};
use portolan_model::{CanonicalUrl, Canonicalizer};
use portolan_net::{Decoder, url_text};

use crate::error::CrawlError;

/// Where the redirect that is stored at `offset` of a WARC file leads from `url`; `None` if it names no URL.
pub fn redirect_target(
    warc: &Path,
    offset: u64,
    url: &CanonicalUrl,
    canonicalizer: &Canonicalizer,
) -> Result<Option<CanonicalUrl>, CrawlError> {
    let Some(message) = Message::open(warc, Cat::Offset(offset))? else {
        return Ok(None);
    };
    let locations = message.values("location");
    let target = locations
        .first()
        .and_then(|location| canonicalizer.resolve(url, &url_text(location)).ok());
    Ok(target)
}

/// Writes the payload of the first record that `which` names, without transfer coding and content encoding. A revisit
/// stands for the payload of an earlier record, which is looked for in the same files. `false` if there is no such record.
pub fn write_payload(
    files: &[PathBuf],
    which: Cat<'_>,
    out: &mut dyn Write,
) -> Result<bool, CrawlError> {
    let Some(message) = original(files, files, which)? else {
        return Ok(false);
    };
    write_decoded(message, out)?;
    Ok(true)
}

/// The first record in `these` that `which` names, or, if that is a revisit, the record in `files` that it stands for.
pub(crate) fn original(
    files: &[PathBuf],
    these: &[PathBuf],
    which: Cat<'_>,
) -> Result<Option<Message>, CrawlError> {
    let Some(message) = first(these, which)? else {
        return Ok(None);
    };
    if message.record.kind() != "revisit" {
        return Ok(Some(message));
    }
    let revisit = message.record;
    let found = first(files, Cat::Original(&revisit))?.ok_or_else(|| {
        CrawlError::Input(format!(
            "this is a copy of {}, which is not in these files; name the directory that holds all files of the crawl",
            revisit
                .header("WARC-Refers-To-Target-URI")
                .unwrap_or("an earlier record"),
        ))
    })?;
    Ok(Some(found))
}

fn first(files: &[PathBuf], which: Cat<'_>) -> Result<Option<Message>, CrawlError> {
    for path in files {
        if let Some(message) = Message::open(path, which)? {
            return Ok(Some(message));
        }
    }
    Ok(None)
}

pub(crate) fn write_decoded(message: Message, out: &mut dyn Write) -> Result<(), CrawlError> {
    let values = message.values("content-encoding");
    let contents = values.iter().map(|value| String::from_utf8_lossy(value));
    let mut encodings: Vec<String> = contents.map(String::from).collect();
    encodings.extend(message.transfer_encodings());
    let encodings = encodings.join(",");
    // Nothing is kept, so that nothing need be limited.
    let mut decoder = Decoder::for_encoding(&encodings, u64::MAX);
    let mut decoded = Vec::new();
    let mut broken = false;
    message.read_payload(true, &mut |piece| {
        let Some(decoder) = &mut decoder else {
            return out.write_all(piece);
        };
        broken |= decoder.push(piece, &mut decoded).is_err();
        out.write_all(&decoded)?;
        decoded.clear();
        Ok(())
    })?;
    if broken || decoder.is_some_and(|mut decoder| decoder.finish().is_err()) {
        out.flush().map_err(output)?;
        return Err(CrawlError::BrokenPayload(encodings));
    }
    out.flush().map_err(output)
}

fn output(source: io::Error) -> CrawlError {
    CrawlError::File {
        path: PathBuf::from("standard output"),
        source,
    }
}
