//! What a user writes a module or a hook against.

use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;

use encoding_rs::{Encoding, UTF_8};
use portolan_content::{DocumentKind, MimeType, sniff};
use portolan_model::{CanonicalUrl, Fact, Visit};
use portolan_net::{Head, Response};

use super::findings::Findings;
use crate::page::decode_body;

/// Reads documents of some media types, and says facts and links.
///
/// A module is shared by all worker threads. `read` runs on the thread that fetched the document and computes; it must
/// not wait. If it panics, that is told as the document's fact `NAME.error`, and the crawl goes on.
pub trait Module: Send + Sync {
    /// What its facts begin with: letters, digits, `-` and `_`.
    fn name(&self) -> &str;

    /// The media types that it reads, such as `application/pdf` or `image/*`; `*/*` is every document. A document whose
    /// server names no type, or a general one, goes by its first bytes.
    fn types(&self) -> Vec<String>;

    /// Read a document, whatever is in it.
    fn read(&self, document: &Document<'_>, findings: &mut Findings<'_>);
}

/// A document on its way to the modules: an answer with a status of 2xx.
pub struct Document<'a> {
    pub(crate) url: &'a CanonicalUrl,
    pub(crate) mime: Option<&'a MimeType>,
    pub(crate) kind: DocumentKind,
    /// `None` where an archived document is read again.
    pub(crate) head: Option<&'a Head>,
    pub(crate) body: &'a [u8],
}

impl<'a> Document<'a> {
    /// Its canonical URL.
    pub fn url(&self) -> &'a str {
        self.url.as_str()
    }

    /// `application/pdf`, in lower case: as the server says, or by the first bytes where it says nothing of use.
    pub fn media_type(&self) -> &'a str {
        effective_type(self.mime, self.body)
    }

    /// A parameter of the Content-Type, such as `charset`.
    pub fn parameter(&self, name: &str) -> Option<&'a str> {
        self.mime?.parameter(name)
    }

    /// A header field of the answer, if it is there and is text.
    pub fn header(&self, name: &str) -> Option<&'a str> {
        self.head?.get_str(name)
    }

    /// The body without transfer coding and content encoding, cut at `http.max_decoded_bytes`.
    pub fn body(&self) -> &'a [u8] {
        self.body
    }

    /// The body as text, by the charset that the server names, or as UTF-8. What is no such text becomes U+FFFD.
    pub fn text(&self) -> Cow<'a, str> {
        let named = self.parameter("charset").map(str::as_bytes);
        let charset = named.and_then(Encoding::for_label).unwrap_or(UTF_8);
        charset.decode(self.body).0
    }
}

/// The media type that modules are chosen by.
pub(crate) fn effective_type<'a>(mime: Option<&'a MimeType>, body: &[u8]) -> &'a str {
    match mime.map(MimeType::essence) {
        None
        | Some(
            "application/octet-stream"
            | "binary/octet-stream"
            | "application/unknown"
            | "unknown/unknown"
            | "application/force-download"
            | "*/*",
        ) => sniff(body),
        Some(essence) => essence,
    }
}

/// A page that was asked for, with all that was found out about it. For [`crate::Plan::on_page`].
pub struct FinishedPage<'a> {
    pub(crate) url: &'a str,
    pub(crate) visit: &'a Visit,
    pub(crate) shown: Shown<'a>,
    pub(crate) max_decoded_bytes: u64,
}

/// What a finished page is made from.
#[derive(Clone, Copy)]
pub(crate) enum Shown<'a> {
    Answer(&'a Response),
    /// The stored document with new parts: there was no answer for the document itself.
    Document(&'a [u8]),
}

impl<'a> FinishedPage<'a> {
    fn head(&self) -> Option<&'a Head> {
        match self.shown {
            Shown::Answer(response) => Some(&response.head),
            Shown::Document(_) => None,
        }
    }

    /// Its canonical URL.
    pub fn url(&self) -> &'a str {
        self.url
    }

    /// The HTTP status; an answer of FTP, Gopher or a file has one, too.
    pub fn status(&self) -> u16 {
        self.visit.status
    }

    /// Is it a document, rather than a redirect, an error page or a sitemap? If it is not modified since an earlier
    /// session (304), it is one without a body.
    pub fn is_document(&self) -> bool {
        self.visit.is_document()
    }

    /// A header field of the answer, if it is there and is text.
    pub fn header(&self, name: &str) -> Option<&'a str> {
        self.head()?.get_str(name)
    }

    /// All header fields in order, as received. None where the volatile parts of a document alone were fetched.
    pub fn headers(&self) -> impl Iterator<Item = (&'a [u8], &'a [u8])> {
        self.head().into_iter().flat_map(Head::fields)
    }

    /// The body without transfer coding and content encoding, cut at `http.max_decoded_bytes`. Decoded anew by each call.
    pub fn body(&self) -> Cow<'a, [u8]> {
        match self.shown {
            Shown::Answer(response) => decode_body(response, self.max_decoded_bytes),
            Shown::Document(document) => Cow::Borrowed(document),
        }
    }

    /// The media type, the charset and the title; empty where there is none.
    pub fn media_type(&self) -> &'a str {
        &self.visit.mime
    }

    /// See [`FinishedPage::media_type`].
    pub fn charset(&self) -> &'a str {
        &self.visit.charset
    }

    /// See [`FinishedPage::media_type`].
    pub fn title(&self) -> &'a str {
        &self.visit.title
    }

    /// What modules said, by `MODULE.NAME`.
    pub fn facts(&self) -> &'a [Fact] {
        &self.visit.facts
    }

    /// All that is kept of the visit. Where its record is in the archive is not known yet.
    pub fn visit(&self) -> &'a Visit {
        self.visit
    }
}

/// Called with each finished page, on the thread that fetched it.
pub type PageHook = Arc<dyn Fn(&FinishedPage<'_>) + Send + Sync>;

/// What a user adds to a crawl in Rust.
#[derive(Clone, Default)]
pub struct Extensions {
    pub(crate) modules: Vec<Arc<dyn Module>>,
    pub(crate) hooks: Vec<PageHook>,
}

impl fmt::Debug for Extensions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<&str> = self.modules.iter().map(|module| module.name()).collect();
        f.debug_struct("Extensions")
            .field("modules", &names)
            .field("hooks", &self.hooks.len())
            .finish()
    }
}
