//! What the settings that hold now say of a URL that is known. Pure: who calls it reads the registry.

use std::collections::HashMap;

use portolan_model::{CanonicalUrl, DocId, Link, LinkKind, PartitionId, Reason, Verdict, Visit};
use portolan_registry::{UrlRecord, UrlState};

use super::criteria::Changes;
use crate::admission::{Admission, Sighting};
use crate::body_watch::is_wanted;
use crate::scope::Scope;
use crate::settings::Settings;

pub(crate) struct Judge<'s> {
    pub(crate) settings: &'s Settings,
    pub(crate) admission: Admission,
    pub(crate) changes: Changes,
    /// Seeds and what they redirected to, whatever else named them first.
    pub(crate) roots: HashMap<DocId, LinkKind>,
}

impl Judge<'_> {
    /// The new verdict on a URL that is due or excluded; `None` if it stays as it is. `visit` is the last one.
    pub(crate) fn judge<'u>(
        &mut self,
        scope: &Scope,
        url: &'u UrlRecord,
        visit: Option<&Visit>,
    ) -> Option<Link<'u>> {
        if !matches!(url.state, UrlState::Due | UrlState::Excluded)
            || !url.reason.is_none_or(|reason| self.may_lift(reason, visit))
        {
            return None;
        }
        let verdict = self.verdict(scope, url)?;
        let is_same = match verdict {
            Verdict::Crawl { priority } => url.state == UrlState::Due && priority == url.priority,
            Verdict::Exclude(reason) => url.reason == Some(reason),
        };
        (!is_same).then_some(Link {
            url: &url.url,
            kind: url.kind,
            depth: url.depth,
            hops: url.hops,
            verdict,
        })
    }

    /// Would a URL be crawled by the settings that hold now?
    pub(crate) fn allows(&mut self, scope: &Scope, url: &UrlRecord) -> bool {
        matches!(self.verdict(scope, url), Some(Verdict::Crawl { .. }))
    }

    fn verdict(&mut self, scope: &Scope, url: &UrlRecord) -> Option<Verdict> {
        let canonical = CanonicalUrl::from_canonical(url.url.clone()).ok()?;
        let is_foreign_sitemap = url.kind == LinkKind::Sitemap
            && url.reason == Some(Reason::OutOfScope)
            && !scope.holds_host(&canonical);
        if is_foreign_sitemap {
            return None;
        }
        let found = Sighting {
            kind: self.roots.get(&url.doc).copied().unwrap_or(url.kind),
            depth: url.depth,
            hops: url.hops,
            nofollow: url.reason == Some(Reason::NoFollow),
            discoverer: Some(PartitionId(url.partition)),
        };
        let admitted = self.admission.admit(scope, &canonical, url.doc, found);
        Some(admitted.link.verdict)
    }

    /// May the settings that hold now lift what excluded a URL? Where it was excluded because of what its server said,
    /// only if the setting that this goes by has changed.
    fn may_lift(&self, reason: Reason, visit: Option<&Visit>) -> bool {
        let changes = &self.changes;
        match reason {
            Reason::HostBudget => {
                changes.touch("limits.max_pages_per_host") || changes.touch("host")
            }
            Reason::ContentType => {
                let mime = visit.map_or("", |visit| visit.mime.as_str());
                let wanted = &self.settings.content.types;
                let may_be = wanted.is_empty() || mime.is_empty() || is_wanted(mime, wanted);
                changes.touch("content.types") && may_be
            }
            Reason::ReservedText => changes.touch("content.reserved_texts"),
            Reason::NoArchive => changes.touch("robots.meta") && !self.settings.robots.meta,
            Reason::PrivateAddress => changes.touch("dns.") || changes.touch_roots(),
            Reason::TooManyRedirects => true,
            reason => reason.is_liftable(),
        }
    }
}
