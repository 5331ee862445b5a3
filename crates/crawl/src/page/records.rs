//! The archive records of answers.

use std::net::IpAddr;

use portolan_archive::Conversion;
use portolan_model::{CanonicalUrl, Outcome, Visit};
use portolan_net::Response;

use super::{Fetched, Workbench};
use crate::answered::{Answered, VisitRecords};
use crate::links::PageLinks;
use crate::shared::Shared;

impl Workbench {
    pub(super) fn record(
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
}
