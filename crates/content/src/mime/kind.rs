//! Which parser a body gets. The Content-Type is a hint, and a wrong one is common: where it is missing,
//! general or a kind of markup, the first bytes decide.

use super::MimeType;
use super::sniff::{is_html_start, skip_whitespace, sniff, utf8_by_bom};

/// What a body is to be read as.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum DocumentKind {
    Html,
    /// A sitemap or sitemap index in XML. One in plain text looks like any text: only who asked for it
    /// knows.
    Sitemap,
    /// RSS or Atom.
    Feed,
    PlainText,
    /// A style sheet. Only its Content-Type tells it from other text.
    Css,
    /// The listing of a directory, of an FTP server or of this machine.
    Listing,
    /// A menu of a Gopher server.
    GopherMenu,
    /// Nothing that we read links from.
    Other,
}

/// How far the root element of an XML document is looked for.
const KIND_BYTES: usize = 4096;

/// Chooses from the Content-Type, if there was one that could be parsed, and the body's start (512 bytes are
/// plenty, up to 4 KiB are looked at).
pub fn kind_of(content_type: Option<&MimeType>, first_bytes: &[u8]) -> DocumentKind {
    let raw = &first_bytes[..first_bytes.len().min(KIND_BYTES)];
    let text = &*utf8_by_bom(raw);
    let Some(mime) = content_type else {
        return by_content(raw, text);
    };
    match mime.essence() {
        "text/html" | "application/xhtml+xml" => match by_root(text) {
            Some(kind) => kind,
            None if is_foreign(raw) => DocumentKind::Other,
            None => DocumentKind::Html,
        },
        "text/plain"
        | "application/octet-stream"
        | "binary/octet-stream"
        | "application/unknown"
        | "unknown/unknown"
        | "application/force-download"
        | "*/*" => by_content(raw, text),
        "text/css" => DocumentKind::Css,
        "text/ftp-dir-listing" => DocumentKind::Listing,
        "application/gopher-menu" => DocumentKind::GopherMenu,
        "text/markdown" | "text/x-markdown" => DocumentKind::PlainText,
        "application/rss+xml" | "application/atom+xml" | "application/rdf+xml" | "text/rss" => {
            match by_root(text) {
                Some(kind) => kind,
                None if is_html_start(text) => DocumentKind::Html,
                None => DocumentKind::Feed,
            }
        }
        _ if mime.is_xml() => match by_root(text) {
            Some(kind) => kind,
            None if is_html_start(text) && root_name(text).is_none() => DocumentKind::Html,
            None => DocumentKind::Other,
        },
        _ => DocumentKind::Other,
    }
}

fn by_content(raw: &[u8], text: &[u8]) -> DocumentKind {
    if let Some(kind) = by_root(text) {
        return kind;
    }
    if is_html_start(text) {
        return DocumentKind::Html;
    }
    match sniff(raw) {
        "text/plain" => DocumentKind::PlainText,
        _ => DocumentKind::Other,
    }
}

/// Labelled as a page, but with the signature of something else.
fn is_foreign(raw: &[u8]) -> bool {
    let essence = sniff(raw);
    !essence.starts_with("text/") && essence != "application/octet-stream"
}

fn by_root(text: &[u8]) -> Option<DocumentKind> {
    let name = root_name(text)?;
    let local = match memchr::memrchr(b':', name) {
        Some(at) => &name[at + 1..],
        None => name,
    };
    let is = |word: &str| local.eq_ignore_ascii_case(word.as_bytes());
    if is("urlset") || is("sitemapindex") {
        Some(DocumentKind::Sitemap)
    } else if is("rss") || is("feed") || (is("rdf") && has_rss_namespace(text)) {
        Some(DocumentKind::Feed)
    } else if is("html") {
        Some(DocumentKind::Html)
    } else {
        None
    }
}

/// RDF is a feed only where it uses the vocabulary of RSS 1.0 or 0.90.
fn has_rss_namespace(text: &[u8]) -> bool {
    let has = |needle: &[u8]| memchr::memmem::find(text, needle).is_some();
    has(b"purl.org/rss/1.0/") || has(b"my.netscape.com/rdf/simple/0.9")
}

/// The name of the first element, past declarations, comments and a document type.
fn root_name(text: &[u8]) -> Option<&[u8]> {
    let mut rest = skip_whitespace(text);
    loop {
        let after = |end: &[u8]| memchr::memmem::find(rest, end).map(|at| at + end.len());
        let end = if rest.starts_with(b"<?") {
            after(b"?>")?
        } else if rest.starts_with(b"<!--") {
            after(b"-->")?
        } else if rest.starts_with(b"<!") {
            let tag_end = after(b">")?;
            match memchr::memchr(b'[', &rest[..tag_end]) {
                // An internal subset has tags of its own.
                Some(_) => after(b"]>").or_else(|| after(b"] >"))?,
                None => tag_end,
            }
        } else {
            break;
        };
        rest = skip_whitespace(&rest[end..]);
    }
    let name = rest.strip_prefix(b"<")?;
    let is_name = |b: &u8| b.is_ascii_alphanumeric() || matches!(b, b':' | b'_' | b'-' | b'.');
    let end = name.iter().position(|b| !is_name(b)).unwrap_or(name.len());
    (end > 0).then_some(&name[..end])
}
