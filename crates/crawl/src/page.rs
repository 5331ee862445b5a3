//! An answer becomes a visit: content decoding, links, fingerprints, archive records. Everything
//! here is computed, nothing is waited for.

use std::borrow::Cow;
use std::net::IpAddr;
use std::sync::Arc;

use encoding_rs::{Encoding, UTF_8};
use memchr::memmem;
use portolan_archive::Conversion;
use portolan_archive::RecordBuilder;
use portolan_content::{
    Directives, DocumentKind, Fingerprint, MimeType, html::refresh_target, is_gzip, kind_of,
};
use portolan_model::{
    CanonicalUrl, Canonicalizer, DocId, LinkKind, Outcome, PartitionId, Reason, Visit,
};
use portolan_net::{Decoder, Head, Response};
use portolan_registry::{Due, LastCheck, UrlRecord};

use crate::admission::{Admission, Page};
use crate::answered::{Answered, VisitRecords};
use crate::generations::Generations;
use crate::keep::{Lastmods, Signal};
use crate::links::{PageLinks, RawLinks};
use crate::mapper::NameDrop;
use crate::metrics::Stage;
use crate::modules::{Document, FinishedPage, Learned, Modules, Reports, Shown};
use crate::revisit::{Validators, is_same_payload, is_unchanged, not_modified, take_over};
use crate::settings::{HeadFirst, Settings};
use crate::shared::Shared;

/// URLs whose HEAD was fine and whose GET has to wait, remembered by a worker, twice over.
const HEADS_REMEMBERED: usize = 4_096;

/// Longest validators and titles that are kept in a visit.
pub(crate) const MAX_FIELD_BYTES: usize = 512;

/// What a worker processes answers with: buffers and tables that are used again and again.
pub(crate) struct Workbench {
    raw: RawLinks,
    admission: Admission,
    names: NameDrop,
    builder: RecordBuilder,
    heads: Generations<DocId, ()>,
    /// What the sitemap that was read last says of when pages changed.
    lastmods: Lastmods,
}

/// An answer on its way to becoming a visit.
pub(crate) struct Fetched<'a> {
    pub(crate) due: &'a Due,
    pub(crate) url: &'a CanonicalUrl,
    pub(crate) partition: PartitionId,
    pub(crate) at_ms: u64,
    pub(crate) ip: Option<IpAddr>,
    /// The body was not wanted.
    pub(crate) refused: Option<Reason>,
    /// The host had not failed when it was asked.
    pub(crate) host_was_well: bool,
    /// Where the links of the last check led, if there was one.
    pub(crate) known_links: Vec<DocId>,
}

/// A document as it came, before it is read.
struct Unread<'a> {
    url: &'a CanonicalUrl,
    found_as: LinkKind,
    mime: Option<&'a MimeType>,
    head: Option<&'a Head>,
    body: &'a [u8],
}

/// What is logged and archived of an answer.
pub(crate) struct Processed {
    pub(crate) visit: Visit,
    pub(crate) links: PageLinks,
    pub(crate) record: Option<VisitRecords>,
}

/// A document that is stored, with new parts.
pub(crate) struct Refreshed {
    /// With what is known of the document as it was.
    pub(crate) visit: Visit,
    pub(crate) saved_bytes: u64,
    /// Where the links of the last check led.
    pub(crate) known_links: Vec<DocId>,
    pub(crate) mime: Option<MimeType>,
    /// What the stored head asks of robots.
    pub(crate) directives: Directives,
    pub(crate) document: Vec<u8>,
    /// What programs said of it.
    pub(crate) reports: Reports,
}

impl Workbench {
    pub(crate) fn new(
        shared: &Shared,
        canonicalizer: Canonicalizer,
        builder: RecordBuilder,
        names: NameDrop,
    ) -> Self {
        Self {
            raw: RawLinks::default(),
            admission: shared.admission(canonicalizer),
            names,
            builder,
            heads: Generations::with_bound(HEADS_REMEMBERED),
            lastmods: Lastmods::wanted(shared.keeper.is_some()),
        }
    }

    /// Does a HEAD save bytes here? Not if one was already made.
    pub(crate) fn wants_head_first(
        &mut self,
        settings: &Settings,
        url: &CanonicalUrl,
        due: &Due,
    ) -> bool {
        // A sitemap is read whatever its head says.
        if due.kind == LinkKind::Sitemap {
            return false;
        }
        let worth_it = match settings.http.head_first {
            HeadFirst::Never => false,
            HeadFirst::Always => true,
            HeadFirst::ByLook => !settings.content.types.is_empty() && looks_heavy(url.path()),
        };
        worth_it && self.heads.get(&due.doc).is_none()
    }

    pub(crate) fn head_was_fine(&mut self, doc: DocId) {
        self.heads.insert(doc, ());
    }

    pub(crate) fn resolve(&self, base: &CanonicalUrl, href: &str) -> Option<CanonicalUrl> {
        self.admission.resolve(base, href)
    }

    /// The whole way of an answer, beside what the last check found.
    pub(crate) fn process(
        &mut self,
        shared: &Arc<Shared>,
        fetched: &Fetched<'_>,
        response: Response,
        reports: Reports,
    ) -> Processed {
        let last = fetched.due.last.as_deref();
        if let Some(last) = last
            && response.status() == 304
            && Validators::of(last).is_some()
        {
            return not_modified(shared, fetched, response, last);
        }
        let mut processed = self.process_whole(shared, fetched, response, reports);
        let visit = &mut processed.visit;
        let same = last.is_some_and(|last| {
            let before = &last.visit;
            let is_same_redirect = (300..400).contains(&visit.status)
                && visit.status == before.status
                && processed.links.targets == fetched.known_links;
            is_same_redirect
                || visit.is_gone() && before.is_gone()
                || is_same_payload(visit, before)
        });
        let before = last.map(|last| (last.at, &last.visit));
        visit.follow(shared.session, before, same);
        if same {
            let facts_before = last.map(|last| &last.visit.facts);
            if let Some(VisitRecords::Answer {
                copy: Some(copy), ..
            }) = &mut processed.record
                && facts_before == Some(&visit.facts)
            {
                // They were stored then.
                copy.texts.clear();
            }
            processed.links = PageLinks::none(Some(fetched.due.doc));
        } else if !fetched.known_links.is_empty() {
            processed.links.leave_out(&fetched.known_links);
        }
        processed
    }

    fn process_whole(
        &mut self,
        shared: &Arc<Shared>,
        fetched: &Fetched<'_>,
        response: Response,
        reports: Reports,
    ) -> Processed {
        let settings = &shared.settings;
        let status = response.status();
        let mime = response
            .header("content-type")
            .and_then(MimeType::parse_header);
        let mut visit = visit_of(fetched, &response, mime.as_ref());
        let is_last = visit.attempt >= settings.limits.max_attempts;
        visit.outcome = outcome_of(status, is_last, is_last && fetched.host_was_well);
        let mut links = PageLinks::none(Some(fetched.due.doc));
        let mut texts = Vec::new();
        if let Some(reason) = fetched.refused {
            visit.outcome = Outcome::Excluded(reason);
        }
        if visit.outcome != Outcome::Fetched && !matches!(visit.outcome, Outcome::Failed(_)) {
            return Processed {
                visit,
                links,
                record: None,
            };
        }
        visit.fingerprint = Fingerprint::of(&response.body);
        if let Some(last) = fetched.due.last.as_deref()
            && is_unchanged(shared, &response, &visit, &last.visit)
        {
            take_over(&mut visit, &last.visit);
        } else if (300..400).contains(&status) {
            links = self.redirect(shared, fetched, &response, &mut visit);
        } else if (200..300).contains(&status) {
            let document = (&response, mime.as_ref(), reports);
            (links, texts) = self.document(shared, fetched, document, &mut visit);
        }
        if matches!(visit.outcome, Outcome::Excluded(_)) {
            return Processed {
                visit,
                links,
                record: None,
            };
        }
        show(shared, fetched.url, Shown::Answer(&response), &visit);
        // Outside of HTTP there is nothing to keep of an answer without a document.
        let is_kept = fetched.url.scheme().is_http() || status == 200;
        let record = is_kept.then(|| {
            shared.metrics.sampled(Stage::Record, || {
                self.record(shared, fetched, (response, texts), &visit, &links)
            })
        });
        Processed {
            visit,
            links,
            record,
        }
    }

    /// Read a document: its links, its charset, what it asks of robots.
    fn document(
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

    /// What the sitemap that was processed last says of when pages changed.
    pub(crate) fn take_lastmods(&mut self, shared: &Shared, base: &CanonicalUrl) -> Vec<Signal> {
        let admission = &self.admission;
        self.lastmods
            .take(&shared.ids, |loc| admission.resolve(base, loc))
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

    /// A visit of a document whose parts alone were fetched. It is read like one that came whole, if the parts are new.
    pub(crate) fn refreshed(
        &mut self,
        shared: &Shared,
        (due, url, partition): (&Due, &CanonicalUrl, PartitionId),
        last: &LastCheck,
        new: Refreshed,
    ) -> Processed {
        let mut visit = new.visit;
        let same = visit.fingerprint == last.visit.fingerprint;
        let mut links = PageLinks::none(Some(due.doc));
        if !same {
            let unread = Unread {
                url,
                found_as: due.kind,
                mime: new.mime.as_ref(),
                head: None,
                body: &new.document,
            };
            let mut facts = self.read(&shared.settings, &shared.modules, &unread, new.reports);
            visit.title = shortened(&facts.title, MAX_FIELD_BYTES).to_owned();
            visit.simhash = facts.simhash;
            visit.facts = facts.take_facts();
            let base = facts
                .base
                .and_then(|href| self.admission.resolve(url, &href));
            let directives = new.directives | facts.directives;
            let page = Page {
                base: base.as_ref().unwrap_or(url),
                doc: due.doc,
                host: url.host_id(&shared.ids),
                partition,
                kind: due.kind,
                depth: due.depth,
                score: due.score,
                charset: facts.charset.unwrap_or(UTF_8),
                nofollow: shared.settings.robots.meta && directives.nofollow,
                hops: due.hops,
            };
            let (raw, names) = (&self.raw, &mut self.names);
            links = self.admission.links(&shared.scope(), &page, raw, names);
            visit.links = links.targets.len() as u32;
            visit.links_left_out = self.raw.left_out();
            links.leave_out(&new.known_links);
        }
        visit.follow(shared.session, Some((last.at, &last.visit)), same);
        visit.history.saved_bytes = new.saved_bytes;
        show(shared, url, Shown::Document(&new.document), &visit);
        Processed {
            visit,
            links,
            record: None,
        }
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
    fn read(
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

    fn redirect(
        &mut self,
        shared: &Arc<Shared>,
        fetched: &Fetched<'_>,
        response: &Response,
        visit: &mut Visit,
    ) -> PageLinks {
        let none = PageLinks::none(Some(fetched.due.doc));
        let Some(location) = response.header_url("location") else {
            if visit.status != 304 {
                visit.outcome = Outcome::Failed(Reason::BadRedirect);
            }
            return none;
        };
        let Some(target) = self.admission.resolve(fetched.url, &location) else {
            visit.outcome = Outcome::Failed(Reason::BadRedirect);
            return none;
        };
        if target.doc_id(&shared.ids) == fetched.due.doc {
            // It leads to itself, as cookie walls do; to ask again would change nothing.
            visit.outcome = Outcome::Failed(Reason::BadRedirect);
            return none;
        }
        if fetched.due.kind.is_seed() {
            // `http://example.org` works where the site lives at `https://www.example.org`.
            let mut scope = shared
                .scope
                .write()
                .unwrap_or_else(|poisoned| poisoned.into_inner());
            scope.add_root(&target);
            if let Some(membership) = &shared.membership {
                membership.note_root(&target);
            }
        }
        let page = Page {
            base: fetched.url,
            doc: fetched.due.doc,
            host: fetched.url.host_id(&shared.ids),
            partition: fetched.partition,
            kind: fetched.due.kind,
            depth: fetched.due.depth,
            score: fetched.due.score,
            charset: UTF_8,
            nofollow: false,
            hops: fetched.due.hops,
        };
        visit.links = 1;
        self.admission.redirect(&shared.scope(), &page, &target)
    }

    fn record(
        &mut self,
        shared: &Shared,
        fetched: &Fetched<'_>,
        (response, texts): (Response, Vec<Conversion>),
        visit: &Visit,
        links: &PageLinks,
    ) -> VisitRecords {
        let (mut answered, body) = Answered::of(fetched.url, fetched.ip, response);
        answered.texts = texts;
        let capture = answered.capture(fetched.url.as_str(), visit, Some(&body));
        let outlinks = links.iter().map(|link| (link.url, link.kind));
        let built = self.builder.build(&capture, outlinks);
        let may_be_copy =
            shared.settings.archive.deduplicate && visit.is_document() && !body.is_empty();
        // A revisit record has a head of HTTP, which a resource has not.
        let may_be_copy = may_be_copy && fetched.url.scheme().is_http();
        VisitRecords::Answer {
            built,
            copy: may_be_copy.then(|| Box::new(answered)),
        }
    }

    /// The record of something that is not a visit of a queued URL: robots.txt. `None`: there was no document, and no HTTP that
    /// says so.
    pub(crate) fn record_plain(
        &mut self,
        url: &CanonicalUrl,
        response: Response,
        ip: Option<IpAddr>,
        at_ms: u64,
    ) -> Option<VisitRecords> {
        if !url.scheme().is_http() && response.status() != 200 {
            return None;
        }
        let visit = Visit {
            status: response.status(),
            fetch_ms: response.timings.total_ms,
            truncated: response.truncated,
            ..Visit::without_answer(at_ms, Outcome::Fetched)
        };
        let (answered, body) = Answered::of(url, ip, response);
        let capture = answered.capture(url.as_str(), &visit, Some(&body));
        Some(VisitRecords::Answer {
            built: self.builder.build(&capture, []),
            copy: None,
        })
    }

    /// The record of a table of volatile parts, which refers to the document by the id of its record.
    pub(crate) fn record_parts(
        &mut self,
        (table, response, ip, at_ms): (&CanonicalUrl, Response, Option<IpAddr>, u64),
        (id, document): (&str, &CanonicalUrl),
    ) -> VisitRecords {
        let visit = Visit {
            status: response.status(),
            fetch_ms: response.timings.total_ms,
            truncated: response.truncated,
            ..Visit::without_answer(at_ms, Outcome::Fetched)
        };
        let (answered, body) = Answered::of(table, ip, response);
        let mut capture = answered.capture(table.as_str(), &visit, Some(&body));
        capture.facts.refreshes = Some((id, document.as_str()));
        VisitRecords::Answer {
            built: self.builder.build(&capture, []),
            copy: None,
        }
    }

    /// The sitemaps that a robots.txt names, by owner.
    pub(crate) fn sitemap_links(
        &mut self,
        shared: &Shared,
        robots_url: &CanonicalUrl,
        ours: PartitionId,
        sitemaps: &[String],
    ) -> PageLinks {
        self.admission
            .sitemaps(&shared.scope(), robots_url, ours, sitemaps)
    }
}

/// What the programs say that read documents such as this.
pub(crate) async fn ask_programs(
    shared: &Shared,
    fetched: &Fetched<'_>,
    response: &Response,
) -> Reports {
    let is_document = (200..300).contains(&response.status()) && fetched.refused.is_none();
    if !shared.modules.has_programs() || !is_document {
        return Reports::default();
    }
    let mime = response
        .header("content-type")
        .and_then(MimeType::parse_header);
    let body = decode_body(response, shared.settings.http.max_decoded_bytes);
    let modules = &shared.modules;
    modules.ask_programs(fetched.url, mime.as_ref(), body).await
}

/// Show what came to those who asked for it.
pub(crate) fn show(shared: &Shared, url: &CanonicalUrl, shown: Shown<'_>, visit: &Visit) {
    if !shared.modules.has_hooks() {
        return;
    }
    let page = FinishedPage {
        url: url.as_str(),
        visit,
        shown,
        max_decoded_bytes: shared.settings.http.max_decoded_bytes,
    };
    if let Err(error) = shared.modules.show(&page) {
        shared.fail(error);
    }
}

/// The body as a reader sees it, cut at `max_bytes`. A broken stream gives what came before the
/// break.
pub(crate) fn decode_body(response: &Response, max_bytes: u64) -> Cow<'_, [u8]> {
    Decoder::decode_answer(&response.head, &response.body, max_bytes).0
}

pub(crate) fn visit_of(
    fetched: &Fetched<'_>,
    response: &Response,
    mime: Option<&MimeType>,
) -> Visit {
    let field =
        |name: &str| shortened(response.header_str(name).unwrap_or(""), MAX_FIELD_BYTES).to_owned();
    Visit {
        status: response.status(),
        attempt: fetched.due.attempts.saturating_add(1),
        depth: fetched.due.depth,
        fetch_ms: response.timings.total_ms,
        wire_bytes: response.wire_bytes,
        body_bytes: response.body.len() as u64,
        truncated: response.truncated,
        mime: mime
            .map(|mime| mime.essence().to_owned())
            .unwrap_or_default(),
        etag: field("etag"),
        last_modified: field("last-modified"),
        is_sitemap: fetched.due.kind == LinkKind::Sitemap,
        ..Visit::without_answer(fetched.at_ms, Outcome::Fetched)
    }
}

/// What a status means for the URL.
/// `is_last`: the page was asked for as often as a page is. `is_to_blame`: so it was, and its host
/// answers others.
fn outcome_of(status: u16, is_last: bool, is_to_blame: bool) -> Outcome {
    let unless = |enough: bool, reason| {
        if enough {
            Outcome::Failed(reason)
        } else {
            Outcome::Retry(reason)
        }
    };
    match status {
        // A server that asks for a rest says nothing of the page.
        429 => Outcome::Retry(Reason::TooManyRequests),
        503 => Outcome::Retry(Reason::Unavailable),
        408 | 425 => unless(is_last, Reason::HttpClientError),
        400..500 => Outcome::Failed(Reason::HttpClientError),
        500 | 502 | 504 => unless(is_to_blame, Reason::HttpServerError),
        500..600 => Outcome::Failed(Reason::HttpServerError),
        200..400 => Outcome::Fetched,
        _ => Outcome::Failed(Reason::BrokenHttp),
    }
}

/// Names of files that are large and rarely text.
fn looks_heavy(path: &str) -> bool {
    const HEAVY: [&str; 24] = [
        "7z", "avi", "bin", "bz2", "deb", "dmg", "doc", "docx", "exe", "flac", "gz", "iso", "jar",
        "mkv", "mov", "mp3", "mp4", "mpg", "pdf", "rpm", "tar", "wav", "xz", "zip",
    ];
    let name = path.rsplit('/').next().unwrap_or("");
    name.rsplit_once('.').is_some_and(|(_, extension)| {
        HEAVY
            .iter()
            .any(|heavy| heavy.eq_ignore_ascii_case(extension))
    })
}

/// At most `bytes` bytes of a text, cut between characters.
pub(crate) fn shortened(text: &str, bytes: usize) -> &str {
    if text.len() <= bytes {
        return text;
    }
    let mut end = bytes;
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    &text[..end]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statuses_become_outcomes() {
        let first = |status| outcome_of(status, false, false);
        assert_eq!(first(200), Outcome::Fetched);
        assert_eq!(first(301), Outcome::Fetched);
        assert_eq!(first(404), Outcome::Failed(Reason::HttpClientError));
        assert_eq!(first(500), Outcome::Retry(Reason::HttpServerError));
        assert_eq!(first(501), Outcome::Failed(Reason::HttpServerError));
        assert_eq!(first(999), Outcome::Failed(Reason::BrokenHttp));
        // Tried often enough, while the host failed for others, too.
        assert_eq!(
            outcome_of(500, true, false),
            Outcome::Retry(Reason::HttpServerError)
        );
        assert_eq!(
            outcome_of(500, true, true),
            Outcome::Failed(Reason::HttpServerError)
        );
        // A wish for rest is never a page's failure.
        assert_eq!(
            outcome_of(503, true, true),
            Outcome::Retry(Reason::Unavailable)
        );
        assert_eq!(
            outcome_of(429, true, true),
            Outcome::Retry(Reason::TooManyRequests)
        );
    }

    #[test]
    fn texts_are_cut_between_characters() {
        assert_eq!(shortened("añb", 2), "a");
        assert_eq!(shortened("añb", 3), "añ");
        assert_eq!(shortened("abc", 9), "abc");
    }

    #[test]
    fn heavy_names_are_known_by_their_extension() {
        assert!(looks_heavy("/a/b.PDF") && looks_heavy("/x.tar.gz"));
        assert!(!looks_heavy("/pdf") && !looks_heavy("/a.html") && !looks_heavy("/"));
    }
}
