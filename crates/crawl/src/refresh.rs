//! Volatile parts (`.tvi`): of a document that was fetched before, its table alone is fetched, and the stored document with the
//! new parts is what the document is now. A table that does not fit the stored document, or none, means that the document is fetched whole.

use std::borrow::Cow;

use portolan_archive::{Cat, Message, warc_path};
use portolan_content::{Directives, Fingerprint, Markup, Table, Tvi};
use portolan_model::{CanonicalUrl, Standing, Visit};
use portolan_net::{Decoder, Method, Response};
use portolan_registry::{Due, LastCheck};

use crate::asker::{Answer, Asked};
use crate::error::CrawlError;
use crate::links::PageLinks;
use crate::page::{Processed, Refreshed};
use crate::robots::Rules;
use crate::settings::TolUse;
use crate::stored::Stored;
use crate::tables::{UpTo, table_of};
use crate::turn::Visitor;

/// One check in this number fetches the document whole: a table says nothing of the rest of it.
const WHOLE_EVERY: u32 = 5;

/// How many checks that stored no payload are gone back over to the one that did.
const MOST_STEPS_BACK: usize = 16;

/// What came of a table of volatile parts.
pub(crate) enum Refresh {
    /// Nothing that helps: the document is to be fetched.
    Whole,
    /// The host was asked; the document has to wait.
    Later,
    Done(Box<Processed>),
}

/// The document that is stored, and how to ask for its parts.
struct Before {
    table: CanonicalUrl,
    stored: Stored,
    markup: Markup,
    /// The check whose payload it is.
    check: Visit,
}

impl Visitor {
    /// Refresh a document by its table, if its site has such tables and the stored document has volatile parts.
    pub(crate) async fn refresh_parts(
        &mut self,
        due: &Due,
        url: &CanonicalUrl,
        rules: &Rules,
    ) -> Refresh {
        let is_on = self.shared.settings.content.tvi != TolUse::Never;
        let Some(last) = due.last.as_deref().filter(|_| is_on) else {
            return Refresh::Whole;
        };
        let before = match self.before(due, last, url, rules) {
            Ok(Some(before)) => before,
            Ok(None) => return Refresh::Whole,
            Err(error) => {
                // The document comes from the Web instead.
                tracing::warn!(%url, %error, "what is stored of it cannot be read");
                return Refresh::Whole;
            }
        };
        let metrics = &self.shared.metrics;
        metrics.add(&metrics.parts_asked, 1);
        let at_ms = self.shared.wall_ms();
        let mut sink = UpTo::default();
        let delay_ms = rules.crawl_delay_ms;
        match self
            .ask(&before.table, Method::Get, &mut sink, delay_ms)
            .await
        {
            Ok(Asked::Answer(answer)) => {
                self.take_parts((due, last, url, rules), before, answer, at_ms)
                    .await
            }
            Ok(Asked::Later) => Refresh::Later,
            Err(error) => {
                tracing::debug!(table = %before.table, %error, "no table of volatile parts");
                self.go_on_whole(due);
                if !self.asker.blameless {
                    self.log_pulse().await;
                }
                Refresh::Later
            }
        }
    }

    /// What is stored of the document, if its table is worth a request.
    fn before(
        &self,
        due: &Due,
        last: &LastCheck,
        url: &CanonicalUrl,
        rules: &Rules,
    ) -> Result<Option<Before>, CrawlError> {
        let visit = &last.visit;
        let standing = self.site(url).tables.tvi;
        let is_whole = visit.is_document() && visit.truncated.is_none();
        if due.attempts > 0
            || !url.scheme().is_http()
            || !is_whole
            || visit.duplicate_of.is_some()
            || visit.history.checks.is_multiple_of(WHOLE_EVERY)
            || matches!(standing, Standing::Missing | Standing::Lied)
        {
            return Ok(None);
        }
        let (Some(table), Some(markup)) = (table_of(Table::Tvi, url), markup_of(&visit.mime))
        else {
            return Ok(None);
        };
        let is_asked = self.client.tables.borrow().is_awaited(due.doc);
        if is_asked || !rules.robots.allows(table.path_and_query()) {
            return Ok(None);
        }
        let Some((stored, check)) = self.stored(visit)? else {
            return Ok(None);
        };
        let is_told = || {
            let bench = self.client.bench.borrow();
            let is_it = |target: &str| bench.resolve(url, target).as_ref() == Some(&table);
            stored
                .links
                .iter()
                .any(|link| Table::Tvi.is_told(link, is_it))
        };
        let has_tables = standing == Standing::Served
            || rules.robots.tells_of(Table::Tvi, url.path())
            || self.shared.settings.content.tvi == TolUse::Probe
            || is_told();
        if !has_tables || Tvi::of_document(markup, &stored.body).is_empty() {
            return Ok(None);
        }
        Ok(Some(Before {
            table,
            stored,
            markup,
            check,
        }))
    }

    /// The payload that a check found, and the check that stored it.
    fn stored(&self, visit: &Visit) -> Result<Option<(Stored, Visit)>, CrawlError> {
        let mut check = visit.clone();
        for _ in 0..MOST_STEPS_BACK {
            let before = check.history.before.checked_sub(1);
            if !check.is_refreshed() {
                let Some(stored) = self.archived(&check)? else {
                    return Ok(None);
                };
                if stored.kind == "response" {
                    return Ok(Some((stored, check)));
                }
            }
            let Some(before) = before else {
                return Ok(None);
            };
            // A grant has the last check alone.
            let Some(recall) = self.client.recall() else {
                return Ok(None);
            };
            check = recall.visit_at(self.partition, before)?;
        }
        Ok(None)
    }

    /// What is archived of a check's own answer.
    fn archived(&self, check: &Visit) -> Result<Option<Stored>, CrawlError> {
        let shared = &self.shared;
        let Some(at) = check.archive.filter(|_| check.duplicate_of.is_none()) else {
            return Ok(None);
        };
        let prefix = shared.settings.archive.file_prefix();
        let Some(path) = warc_path(&shared.dir, &prefix, at.file)? else {
            return Ok(None);
        };
        match Message::open(&path, Cat::Offset(at.offset))? {
            Some(message) => Stored::read(message, &shared.settings).map(Some),
            None => Ok(None),
        }
    }

    async fn take_parts(
        &mut self,
        (due, last, url, rules): (&Due, &LastCheck, &CanonicalUrl, &Rules),
        before: Before,
        answer: Answer,
        at_ms: u64,
    ) -> Refresh {
        let response = &answer.response;
        let status = response.status();
        let document = read(before.markup, response).and_then(|tvi| {
            let refreshed = tvi.put_into(before.markup, &before.stored.body);
            let fits = refreshed.missing == 0 && refreshed.replaced > 0;
            fits.then_some(refreshed.document)
        });
        let saved_bytes = before.check.wire_bytes.saturating_sub(response.wire_bytes);
        let document = document.filter(|_| saved_bytes > 0);
        let (wire_bytes, fetch_ms) = (response.wire_bytes, response.timings.total_ms);
        let site = self.site(url);
        let mut after = site;
        after.take_tvi(status, rules.robots.tells_of(Table::Tvi, url.path()));
        let archived = self.client.bench.borrow_mut().record_parts(
            (&before.table, answer.response, answer.peer, at_ms),
            (&before.stored.id, url),
        );
        let links = PageLinks::none(None);
        self.note_site(url, rules, (site, after), links, Some(archived))
            .await;
        let Some(document) = document else {
            tracing::debug!(%url, status, "its table of volatile parts does not fit: it is fetched whole");
            self.go_on_whole(due);
            return match self.asker.must_wait() {
                true => Refresh::Later,
                false => Refresh::Whole,
            };
        };
        let metrics = &self.shared.metrics;
        metrics.add(&metrics.parts_refreshed, 1);
        metrics.add(&metrics.parts_saved_bytes, saved_bytes);
        let fingerprint = match document == before.stored.body {
            true => before.check.fingerprint,
            false => Fingerprint::of(&document),
        };
        let known_links = self.known_links(due, status);
        let (mime, body) = (before.stored.mime.as_ref(), Cow::Borrowed(&*document));
        let reports = self.shared.modules.ask_programs(url, mime, body);
        let reports = self.asker.seat.hand_over(reports).await;
        let refreshed = Refreshed {
            visit: Visit {
                at_ms,
                fetch_ms,
                wire_bytes,
                body_bytes: document.len() as u64,
                status: 200,
                attempt: due.attempts.saturating_add(1),
                depth: due.depth,
                fingerprint,
                archive: before.check.archive,
                ..last.visit.clone()
            },
            saved_bytes,
            known_links,
            mime: before.stored.mime,
            directives: match self.shared.settings.robots.meta {
                true => before.stored.directives,
                false => Directives::default(),
            },
            document,
            reports,
        };
        let mut bench = self.client.bench.borrow_mut();
        let processed = bench.refreshed(&self.shared, (due, url, self.partition), last, refreshed);
        Refresh::Done(Box::new(processed))
    }

    /// The document is next, and its table is not asked for again.
    fn go_on_whole(&self, due: &Due) {
        let now_ms = self.shared.now_ms();
        self.client
            .tables
            .borrow_mut()
            .expect(due.doc, now_ms, None);
    }
}

/// How a document of this type is written; `None` where it has no parts.
fn markup_of(mime: &str) -> Option<Markup> {
    match mime {
        _ if mime.contains("html") => Some(Markup::Html),
        _ if mime.ends_with("xml") => Some(Markup::Xml),
        _ => None,
    }
}

fn read(markup: Markup, response: &Response) -> Option<Tvi> {
    if response.status() != 200 || response.truncated.is_some() {
        return None;
    }
    let most_bytes = UpTo::MOST_BYTES as u64;
    let (body, end) = Decoder::decode_answer(&response.head, &response.body, most_bytes);
    end.ok()?;
    Tvi::parse(markup, &body)
}
