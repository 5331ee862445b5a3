//! Links, title, charset and text of an HTML page, in one pass.

use std::sync::Arc;

use portolan_content::html::{Element, Found, PageScanner, Role, ScanOptions};
use portolan_content::{MimeType, Simhash};
use portolan_model::{CanonicalUrl, LinkKind};

use super::findings::{Findings, Learned};
use super::module::{Document, Module};
use crate::links::RawLinks;
use crate::settings::Settings;

/// Reads links, title, charset and text.
#[derive(Debug)]
pub(crate) struct HtmlScan {
    options: ScanOptions,
}

impl HtmlScan {
    pub(crate) fn new(settings: &Settings) -> Self {
        Self {
            options: ScanOptions {
                embeds: settings.content.embeds,
                text: settings.content.simhash,
                product_token: Some(Arc::from(settings.identity.product.as_str())),
                max_links: u32::MAX,
                ..ScanOptions::default()
            },
        }
    }

    /// Finds links alone, and no text.
    pub(crate) fn links_only(settings: &Settings) -> Self {
        let mut scan = Self::new(settings);
        scan.options.text = false;
        scan
    }

    /// For one page of this type.
    pub(crate) fn scanner(&self, url: &CanonicalUrl, mime: Option<&MimeType>) -> PageScanner {
        let charset = mime.and_then(|mime| mime.parameter("charset"));
        let scanner = PageScanner::new(&self.options, charset);
        match url.host().rsplit_once('.') {
            Some((_, tld)) => scanner.with_top_level_domain(tld),
            None => scanner,
        }
    }

    /// Read a whole page; its links go to `raw`.
    pub(crate) fn read(
        &self,
        raw: &mut RawLinks,
        url: &CanonicalUrl,
        mime: Option<&MimeType>,
        body: &[u8],
    ) -> Learned {
        let scanner = self.scanner(url, mime);
        let mut simhash = Simhash::new();
        let summary = scanner.finish_with(body, &mut |found: Found<'_>| match found {
            Found::Link {
                element,
                role,
                href,
                nofollow,
            } => {
                raw.push(href, link_kind(element, role), nofollow);
            }
            Found::Text(text) => simhash.push_part(text),
            Found::TextBreak => simhash.end_run(),
            Found::Base(_) | Found::Title(_) | Found::Robots(_) => {}
        });
        Learned {
            charset: Some(summary.charset.encoding),
            title: summary.title.unwrap_or_default(),
            base: summary.base,
            directives: summary.robots,
            simhash: simhash.finish(),
            ..Learned::default()
        }
    }
}

impl Module for HtmlScan {
    fn name(&self) -> &str {
        "html"
    }

    fn types(&self) -> Vec<String> {
        vec!["text/html".to_owned(), "application/xhtml+xml".to_owned()]
    }

    /// It is the first that reads a document, so that there is nothing yet that it could replace.
    fn read(&self, document: &Document<'_>, findings: &mut Findings<'_>) {
        let Document {
            url, mime, body, ..
        } = *document;
        *findings.learned = HtmlScan::read(self, findings.raw, url, mime, body);
    }
}

pub(crate) fn link_kind(element: Element, role: Role) -> LinkKind {
    match element {
        _ if role == Role::Embed => LinkKind::Embed,
        Element::A => LinkKind::Anchor,
        Element::Area => LinkKind::Area,
        Element::Link => LinkKind::LinkElement,
        Element::Frame => LinkKind::Frame,
        Element::Iframe => LinkKind::Iframe,
        Element::MetaRefresh => LinkKind::Refresh,
        Element::Part(_) => LinkKind::Embed,
    }
}
