//! Links, title, charset and text of an HTML page, in one pass.

use std::sync::Arc;

use encoding_rs::Encoding;
use portolan_content::html::{Element, Found, PageScanner, Role, ScanOptions};
use portolan_content::{Directives, MimeType, Simhash};
use portolan_model::{CanonicalUrl, LinkKind};

use crate::links::RawLinks;
use crate::settings::Settings;

/// What a page says besides its links.
#[derive(Debug, Default)]
pub(crate) struct HtmlFacts {
    /// `None` for what is not HTML.
    pub(crate) charset: Option<&'static Encoding>,
    pub(crate) title: String,
    /// The first BASE, relative to the page's URL.
    pub(crate) base: Option<String>,
    pub(crate) directives: Directives,
    /// 0 where there is no text.
    pub(crate) simhash: u64,
}

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

    /// Read a whole page; its links go to `raw`.
    pub(crate) fn read(
        &self,
        raw: &mut RawLinks,
        url: &CanonicalUrl,
        mime: Option<&MimeType>,
        body: &[u8],
    ) -> HtmlFacts {
        let charset = mime.and_then(|mime| mime.parameter("charset"));
        let mut scanner = PageScanner::new(&self.options, charset);
        if let Some((_, tld)) = url.host().rsplit_once('.') {
            scanner = scanner.with_top_level_domain(tld);
        }
        let mut simhash = Simhash::new();
        let summary = scanner.finish_with(body, &mut |found: Found<'_>| match found {
            Found::Link {
                element,
                role,
                href,
                nofollow,
            } => {
                raw.push(href, kind_of(element, role), nofollow);
            }
            Found::Text(text) => simhash.push_part(text),
            Found::TextBreak => simhash.end_run(),
            Found::Base(_) | Found::Title(_) | Found::Robots(_) => {}
        });
        HtmlFacts {
            charset: Some(summary.charset.encoding),
            title: summary.title.unwrap_or_default(),
            base: summary.base,
            directives: summary.robots,
            simhash: simhash.finish(),
        }
    }
}

fn kind_of(element: Element, role: Role) -> LinkKind {
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
