//! What speaks no HTTP: FTP, Gopher, and the files of this machine. Each gives an answer of the same shape as HTTP does: a status
//! and a media type, written here, and the bytes as they came.
//!
//! Layout: `transfer` (reading bytes to their end, to a limit, or to where they break), `ftp`, `gopher`, `file`.

mod file;
mod ftp;
mod gopher;
mod transfer;

use crate::NetError;
use crate::http::{BodySink, HttpSettings, Request, Response, Scheme, Stream};
use percent_encoding::percent_decode_str;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;

/// The media type of a directory's listing, as FTP servers write it.
const LISTING: &str = "text/ftp-dir-listing";
/// The media type of a Gopher menu.
const MENU: &str = "application/gopher-menu";

/// How a protocol's servers are reached, and who speaks it there.
#[derive(Clone, Copy)]
pub(crate) enum Speaker {
    /// Over a connection, with TLS where the scheme says so; HTTP has a folder of its own.
    Http,
    /// Over a connection to the server.
    Over(fn(Stream, Option<SocketAddr>) -> Other),
    /// On this machine, below these folders.
    Here(fn(Arc<[PathBuf]>) -> Other),
}

/// Who speaks which scheme. A new protocol is a row here, one in `portolan_model`'s table, and its module.
const SPEAKERS: [(Scheme, Speaker); 5] = [
    (Scheme::Http, Speaker::Http),
    (Scheme::Https, Speaker::Http),
    (
        Scheme::Ftp,
        Speaker::Over(|stream, peer| Other::Ftp(ftp::Ftp::new(stream, peer))),
    ),
    (
        Scheme::Gopher,
        Speaker::Over(|stream, _| Other::Gopher(gopher::Gopher::new(stream))),
    ),
    (
        Scheme::File,
        Speaker::Here(|folders| Other::Files(file::Files::new(folders))),
    ),
];

impl Speaker {
    pub(crate) fn of(scheme: Scheme) -> Self {
        SPEAKERS[scheme as usize].1
    }
}

/// A connection that speaks no HTTP.
pub(crate) enum Other {
    Ftp(ftp::Ftp),
    Gopher(gopher::Gopher),
    Files(file::Files),
}

impl Other {
    pub(crate) async fn fetch(
        &mut self,
        settings: &HttpSettings,
        request: &Request<'_>,
        sink: &mut dyn BodySink,
    ) -> Result<Response, NetError> {
        match self {
            Other::Ftp(ftp) => ftp.fetch(settings, request, sink).await,
            Other::Gopher(gopher) => gopher.fetch(settings, request, sink).await,
            Other::Files(files) => files.fetch(settings, request, sink).await,
        }
    }

    pub(crate) fn reusable(&self) -> bool {
        match self {
            Other::Ftp(ftp) => ftp.reusable(),
            Other::Gopher(_) => false,
            Other::Files(_) => true,
        }
    }
}

/// The bytes that a path of a URL stands for. `None`: there are bytes among them that no line of a protocol can hold.
fn decoded(path: &str) -> Option<Vec<u8>> {
    let bytes: Vec<u8> = percent_decode_str(path).collect();
    let has_line_end = bytes.iter().any(|b| matches!(b, b'\r' | b'\n' | 0));
    (!has_line_end).then_some(bytes)
}

/// What a file's name says of its type, where that matters to a crawler.
fn type_of_name(path: &str) -> Option<&'static str> {
    let (_, extension) = path.rsplit('/').next()?.rsplit_once('.')?;
    let known = [
        ("html", "text/html"),
        ("htm", "text/html"),
        ("xhtml", "application/xhtml+xml"),
        ("css", "text/css"),
        ("txt", "text/plain"),
        ("xml", "application/xml"),
        ("rss", "application/rss+xml"),
        ("atom", "application/atom+xml"),
        ("json", "application/json"),
        ("pdf", "application/pdf"),
        ("gz", "application/gzip"),
        ("zip", "application/zip"),
        ("gif", "image/gif"),
        ("jpg", "image/jpeg"),
        ("jpeg", "image/jpeg"),
        ("png", "image/png"),
        ("svg", "image/svg+xml"),
    ];
    let found = known
        .iter()
        .find(|(name, _)| name.eq_ignore_ascii_case(extension));
    found.map(|(_, media_type)| *media_type)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_is_in_the_order_of_the_schemes() {
        for (place, (scheme, speaker)) in SPEAKERS.iter().enumerate() {
            assert_eq!(*scheme as usize, place);
            assert_eq!(scheme.is_http(), matches!(speaker, Speaker::Http));
            let is_here = matches!(speaker, Speaker::Here(_));
            assert_eq!(scheme.is_of_this_machine(), is_here);
        }
    }
}
