//! What a document says: its links, its charset, what it asks of robots, what modules find in it.

use std::sync::Arc;

use encoding_rs::{Encoding, UTF_8};
use memchr::memmem;
use portolan_archive::Conversion;
use portolan_content::{
    Directives, DocumentKind, MimeType, html::refresh_target, is_gzip, kind_of,
};
use portolan_model::{CanonicalUrl, LinkKind, Outcome, PartitionId, Reason, Visit};
use portolan_net::{Decoder, Head, Response};
use portolan_registry::{Due, UrlRecord};

use super::visit::{MAX_FIELD_BYTES, shortened};
use super::{Fetched, Workbench, decode_body};
use crate::admission::Page;
use crate::links::{PageLinks, RawLinks};
use crate::metrics::Stage;
use crate::modules::{Document, Learned, Modules, Reports};
use crate::settings::Settings;
use crate::shared::Shared;

/// A document as it came, before it is read.
pub(super) struct Unread<'a> {
    pub(super) url: &'a CanonicalUrl,
    pub(super) found_as: LinkKind,
    pub(super) mime: Option<&'a MimeType>,
    pub(super) head: Option<&'a Head>,
    pub(super) body: &'a [u8],
}

impl Workbench {
    /// Read a document: its links, its charset, what it asks of robots.
    pub(super) fn document(
        &mut self,
        shared: &Arc<Shared>,
        fetched: &Fetched<'_>,
        (response, mime, reports): (&Response, Option<&MimeType>, Reports),
        visit: &mut Visit,
    ) -> (PageLinks, Vec<Conversion>) {
        let settings = &shared.settings;
        let metrics = &shared.metrics;
        let body = metrics.sampled(Stage::Decode, || {
            decode_body(response, settings.http.max_decoded_bytes)
        });
        visit.body_bytes = body.len() as u64;
        let mut directives = Directives::default();
        if settings.robots.meta {
            for value in response.head.get_all("x-robots-tag") {
                directives |= Directives::from_header(value, &settings.identity.product);
            }
        }
        let unread = Unread {
            url: fetched.url,
            found_as: fetched.due.kind,
            mime,
            head: Some(&response.head),
            body: &body,
        };
        let mut facts = metrics.sampled(Stage::Scan, || {
            self.read(settings, &shared.modules, &unread, reports)
        });
        self.read_refresh(fetched.url, response);
        visit.links_left_out = self.raw.left_out();
        if settings.robots.meta {
            directives |= facts.directives;
        }
        visit.charset = facts
            .charset
            .map(|charset| charset.name().to_owned())
            .unwrap_or_default();
        visit.title = shortened(&facts.title, MAX_FIELD_BYTES).to_owned();
        visit.simhash = facts.simhash;
        visit.facts = facts.take_facts();
        let links = metrics.sampled(Stage::Links, || {
            let base = facts
                .base
                .and_then(|href| self.admission.resolve(fetched.url, &href));
            let page = Page {
                base: base.as_ref().unwrap_or(fetched.url),
                doc: fetched.due.doc,
                host: fetched.url.host_id(&shared.ids),
                partition: fetched.partition,
                kind: fetched.due.kind,
                depth: fetched.due.depth,
                score: fetched.due.score,
                charset: facts.charset.unwrap_or(UTF_8),
                nofollow: directives.nofollow,
                hops: fetched.due.hops,
            };
            let (raw, names) = (&self.raw, &mut self.names);
            self.admission.links(&shared.scope(), &page, raw, names)
        });
        visit.links = links.targets.len() as u32;
        let reserved = &settings.content.reserved_texts;
        if reserved
            .iter()
            .any(|text| memmem::find(&body, text.as_bytes()).is_some())
        {
            visit.outcome = Outcome::Excluded(Reason::ReservedText);
        } else if directives.noarchive {
            visit.outcome = Outcome::Excluded(Reason::NoArchive);
        }
        (links, facts.texts)
    }

    /// What is to be crawled of the links that were found on a page while it is still coming. `told`: what the links are
    /// relative to, what the page is encoded in, and whether it asks not to follow them.
    pub(crate) fn early_links(
        &mut self,
        shared: &Shared,
        (due, url, partition): (&Due, &CanonicalUrl, PartitionId),
        (base, charset, nofollow): (&CanonicalUrl, &'static Encoding, bool),
        raw: &RawLinks,
    ) -> PageLinks {
        let page = Page {
            base,
            doc: due.doc,
            host: url.host_id(&shared.ids),
            partition,
            kind: due.kind,
            depth: due.depth,
            score: due.score,
            charset,
            nofollow,
            hops: due.hops,
        };
        let mut links = self
            .admission
            .links(&shared.scope(), &page, raw, &mut self.names);
        links.make_early();
        links
    }

    /// The links of a document that is archived, as if it had come now.
    pub(crate) fn links_of_archived(
        &mut self,
        shared: &Shared,
        record: &UrlRecord,
        (mime, mut directives): (Option<&MimeType>, Directives),
        body: &[u8],
    ) -> Option<PageLinks> {
        let url = CanonicalUrl::from_canonical(record.url.clone()).ok()?;
        let unread = Unread {
            url: &url,
            found_as: record.kind,
            mime,
            head: None,
            body,
        };
        let modules = &shared.modules;
        let facts = self.read(&shared.settings, modules, &unread, Reports::default());
        directives |= facts.directives;
        let base = facts
            .base
            .and_then(|href| self.admission.resolve(&url, &href));
        let page = Page {
            base: base.as_ref().unwrap_or(&url),
            doc: record.doc,
            host: record.host,
            partition: PartitionId(record.partition),
            kind: record.kind,
            depth: record.depth,
            score: record.score,
            charset: facts.charset.unwrap_or(UTF_8),
            nofollow: shared.settings.robots.meta && directives.nofollow,
            hops: record.hops,
        };
        let (raw, names) = (&self.raw, &mut self.names);
        Some(self.admission.links(&shared.scope(), &page, raw, names))
    }

    /// A `Refresh` header leads on as the META of that name does. It is older than the page's BASE.
    fn read_refresh(&mut self, url: &CanonicalUrl, response: &Response) {
        let Some(value) = response.header_url("refresh") else {
            return;
        };
        if let Some(target) = refresh_target(&value)
            && let Some(target) = self.admission.resolve(url, target)
        {
            self.raw.push(target.as_str(), LinkKind::Refresh, false);
        }
    }

    /// Raw links and facts by the modules that read such documents.
    pub(super) fn read(
        &mut self,
        settings: &Settings,
        modules: &Modules,
        unread: &Unread<'_>,
        reports: Reports,
    ) -> Learned {
        let asked_as_sitemap = unread.found_as == LinkKind::Sitemap;
        let inflated;
        let (mime, body) = if asked_as_sitemap && is_gzip(unread.body) {
            // sitemap.xml.gz is a gzip file, whatever the Content-Encoding; its Content-Type speaks of
            // the wrapping.
            let most = settings.http.max_decoded_bytes;
            inflated = Decoder::decode_body("gzip", unread.body, most).0;
            (None, &inflated[..])
        } else {
            (unread.mime, unread.body)
        };
        let kind = match kind_of(mime, body) {
            DocumentKind::PlainText if asked_as_sitemap => DocumentKind::Sitemap,
            kind => kind,
        };
        let document = Document {
            url: unread.url,
            mime,
            kind,
            head: unread.head,
            body,
        };
        let (raw, lastmods) = (&mut self.raw, &mut self.lastmods);
        modules.read(raw, lastmods, &document, reports)
    }
}
