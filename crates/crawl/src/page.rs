//! An answer becomes a visit: content decoding, links, fingerprints, archive records. Everything
//! here is computed, nothing is waited for.

mod document;
mod head_first;
mod records;
mod refreshed;
mod visit;

use std::borrow::Cow;
use std::net::IpAddr;
use std::sync::Arc;

use encoding_rs::UTF_8;
use portolan_archive::RecordBuilder;
use portolan_content::{Fingerprint, MimeType};
use portolan_model::{CanonicalUrl, Canonicalizer, DocId, Outcome, PartitionId, Reason, Visit};
use portolan_net::{Decoder, Response};
use portolan_registry::Due;

pub(crate) use self::refreshed::Refreshed;
use self::visit::outcome_of;
pub(crate) use self::visit::{MAX_FIELD_BYTES, shortened, visit_of};
use crate::admission::{Admission, Page};
use crate::answered::VisitRecords;
use crate::generations::Generations;
use crate::keep::{Lastmods, Signal};
use crate::links::{PageLinks, RawLinks};
use crate::mapper::NameDrop;
use crate::metrics::Stage;
use crate::modules::{FinishedPage, Reports, Shown};
use crate::revisit::{Validators, is_same_payload, is_unchanged, not_modified, take_over};
use crate::shared::Shared;

/// URLs whose HEAD was fine and whose GET has to wait, remembered by a worker, twice over.
const HEADS_REMEMBERED: usize = 4_096;

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

/// What is logged and archived of an answer.
pub(crate) struct Processed {
    pub(crate) visit: Visit,
    pub(crate) links: PageLinks,
    pub(crate) record: Option<VisitRecords>,
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

    /// What the sitemap that was processed last says of when pages changed.
    pub(crate) fn take_lastmods(&mut self, shared: &Shared, base: &CanonicalUrl) -> Vec<Signal> {
        let admission = &self.admission;
        self.lastmods
            .take(&shared.ids, |loc| admission.resolve(base, loc))
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
            shared.widen_scope(&target);
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
