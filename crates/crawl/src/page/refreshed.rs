//! A document whose volatile parts alone were fetched becomes a visit.

use encoding_rs::UTF_8;
use portolan_content::{Directives, MimeType};
use portolan_model::{CanonicalUrl, DocId, PartitionId, Visit};
use portolan_registry::{Due, LastCheck};

use super::document::Unread;
use super::visit::{MAX_FIELD_BYTES, shortened};
use super::{Processed, Workbench, show};
use crate::admission::Page;
use crate::links::PageLinks;
use crate::modules::{Reports, Shown};
use crate::shared::Shared;

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
}
