//! A page that was fetched in an earlier session: what it is asked with, and when it counts as unchanged. Then its links
//! are known, and what was found out about it holds.

use portolan_model::{Outcome, Visit};
use portolan_net::Response;
use portolan_registry::LastCheck;

use crate::answered::{Answered, VisitRecords};
use crate::links::PageLinks;
use crate::modules::Shown;
use crate::page::{Fetched, Processed, show, visit_of};
use crate::shared::Shared;

/// What a request is made conditional by: the server need not send what it has sent before.
#[derive(Debug, Clone, Default)]
pub(crate) struct Validators {
    pub(crate) etag: Option<String>,
    pub(crate) last_modified: Option<String>,
}

impl Validators {
    /// `None` if the last check has none, or not the whole of what was there.
    pub(crate) fn of(last: &LastCheck) -> Option<Self> {
        let visit = &last.visit;
        // With new parts it is another document than the validators speak of.
        let is_whole =
            visit.truncated.is_none() && visit.archive.is_some() && !visit.is_refreshed();
        let has_content = visit.is_document() || visit.is_source();
        let given = |text: &str| (!text.is_empty()).then(|| text.to_owned());
        let validators = Self {
            etag: given(&visit.etag),
            last_modified: given(&visit.last_modified),
        };
        let is_any = validators.etag.is_some() || validators.last_modified.is_some();
        (is_whole && has_content && is_any).then_some(validators)
    }
}

/// What the server says is as it was: a visit with what is known of the page.
pub(crate) fn not_modified(
    shared: &Shared,
    fetched: &Fetched<'_>,
    response: Response,
    last: &LastCheck,
) -> Processed {
    let mut visit = visit_of(fetched, &response, None);
    let before = &last.visit;
    take_over(&mut visit, before);
    visit.mime.clone_from(&before.mime);
    visit.sha1 = before.sha1;
    visit.fingerprint = before.fingerprint;
    visit.duplicate_of = before.duplicate_of;
    // A server need not say again what it said before.
    for (now, then) in [
        (&mut visit.etag, &before.etag),
        (&mut visit.last_modified, &before.last_modified),
    ] {
        if now.is_empty() {
            now.clone_from(then);
        }
    }
    visit.follow(shared.session, Some((last.at, before)), true);
    show(shared, fetched.url, Shown::Answer(&response), &visit);
    let (answered, _) = Answered::of(fetched.url, fetched.ip, response);
    let since_ms = match before.is_not_modified() {
        true if before.history.changed_ms > 0 => before.history.changed_ms,
        _ => before.at_ms,
    };
    Processed {
        visit,
        links: PageLinks::none(Some(fetched.due.doc)),
        record: Some(VisitRecords::NotModified {
            answered: Box::new(answered),
            since_ms,
        }),
    }
}

/// Need an answer not be read for links, since it is what was read before, and is to be read the same way?
pub(crate) fn is_unchanged(
    shared: &Shared,
    response: &Response,
    visit: &Visit,
    before: &Visit,
) -> bool {
    let says_more = ["x-robots-tag", "refresh"]
        .iter()
        .any(|name| response.header(name).is_some());
    is_same_payload(visit, before)
        && !says_more
        && !shared.modules.has_others()
        && shared.settings.content.reserved_texts.is_empty()
}

pub(crate) fn is_same_payload(visit: &Visit, before: &Visit) -> bool {
    let has_content = |visit: &Visit| visit.is_document() || visit.is_source();
    visit.fingerprint != 0
        && visit.fingerprint == before.fingerprint
        && visit.mime == before.mime
        && visit.is_sitemap == before.is_sitemap
        && visit.truncated.is_none()
        && before.truncated.is_none()
        && visit.outcome == Outcome::Fetched
        && has_content(visit)
        && has_content(before)
}

/// What was found out about a page when it was read.
pub(crate) fn take_over(visit: &mut Visit, before: &Visit) {
    visit.body_bytes = before.body_bytes;
    visit.charset.clone_from(&before.charset);
    visit.title.clone_from(&before.title);
    visit.simhash = before.simhash;
    visit.links = before.links;
    visit.links_left_out = before.links_left_out;
    visit.facts.clone_from(&before.facts);
}
