//! Tables of links (`.tol`) of sites that have them: fetched before their documents, so that what a document names is under
//! way while the document is still coming. A table is a request to the host like any other.
//!
//! A site is believed until a document comes that does not have what its table says, or has more. What is known of a site
//! is in the record of its robots.txt, so it is durable; which documents wait for being compared is known in RAM alone.

mod compare;
mod memory;

use std::ops::ControlFlow;

use encoding_rs::UTF_8;
use portolan_content::{Table, Tol};
use portolan_model::{CanonicalUrl, DocId, LinkKind, RobotsRecord, SiteTables, Standing};
use portolan_net::{BodySink, Decoder, Method, Response};
use portolan_registry::{Due, Entry};

pub(crate) use self::compare::HeadTells;
use self::memory::MISSES;
pub(crate) use self::memory::{Site, TableMemory};
use crate::answered::VisitRecords;
use crate::asker::{Answer, Asked};
use crate::links::{PageLinks, RawLinks};
use crate::robots::Rules;
use crate::settings::TolUse;
use crate::turn::Visitor;

/// What is longer of a table is not fetched; one that is cut is not used.
const MAX_TABLE_BYTES: usize = 4 << 20;

impl Visitor {
    /// Read the document's table of links, if its site has such tables and it is worth while. `false`: the document has to wait, because
    /// its host was asked.
    pub(crate) async fn read_table(
        &mut self,
        due: &Due,
        url: &CanonicalUrl,
        rules: &Rules,
    ) -> bool {
        if self.shared.settings.content.tol == TolUse::Never {
            return true;
        }
        let Some(table) = self.wanted_table(due, url, rules) else {
            return true;
        };
        let at_ms = self.shared.wall_ms();
        let metrics = &self.shared.metrics;
        metrics.add(&metrics.tables_asked, 1);
        let mut sink = UpTo::default();
        let delay_ms = rules.crawl_delay_ms;
        let answer = match self.ask(&table, Method::Get, &mut sink, delay_ms).await {
            Ok(Asked::Answer(answer)) => answer,
            Ok(Asked::Later) => return false,
            Err(error) => {
                // The document is next, whatever became of its table.
                let now_ms = self.shared.now_ms();
                self.client
                    .tables
                    .borrow_mut()
                    .expect(due.doc, now_ms, None);
                tracing::debug!(%table, %error, "no table of links");
                if !self.asker.blameless {
                    self.log_pulse().await;
                }
                return false;
            }
        };
        self.take_table(due, url, rules, (&table, answer, at_ms))
            .await;
        !self.asker.must_wait()
    }

    /// The table to be asked for before the document, if any.
    fn wanted_table(&self, due: &Due, url: &CanonicalUrl, rules: &Rules) -> Option<CanonicalUrl> {
        // The links of a document that was there before are known, and one that failed has had its table read.
        let is_first = due.last.is_none() && due.attempts == 0;
        let is_page = due.kind != LinkKind::Sitemap && due.kind != LinkKind::Embed;
        if !is_first || !is_page || !url.scheme().is_http() {
            return None;
        }
        let table = table_of(Table::Tol, url)?;
        let has_tables = match self.site(url).tables.tol {
            Standing::Served => true,
            Standing::Missing | Standing::Lied => false,
            Standing::Unknown => {
                rules.robots.tells_of(Table::Tol, url.path())
                    || self.shared.settings.content.tol == TolUse::Probe
            }
        };
        let mut memory = self.client.tables.borrow_mut();
        let is_wanted = has_tables
            && rules.robots.allows(table.path_and_query())
            && !memory.is_awaited(due.doc)
            && memory.has_room(self.shared.now_ms());
        is_wanted.then_some(table)
    }

    /// What is known of the tables of `url`'s site.
    pub(crate) fn site(&self, url: &CanonicalUrl) -> Site {
        let mut memory = self.client.tables.borrow_mut();
        if let Some(site) = memory.sites.get(url.origin()) {
            return *site;
        }
        let tables = known_tables(&self.turn.robots, url.origin());
        let site = Site {
            tables,
            ..Site::default()
        };
        memory.sites.insert(url.origin().to_owned(), site);
        site
    }

    /// What a table says goes to the owners of what it leads to; the document is expected to say the same.
    async fn take_table(
        &mut self,
        due: &Due,
        url: &CanonicalUrl,
        rules: &Rules,
        (table, answer, at_ms): (&CanonicalUrl, Answer, u64),
    ) {
        let read = read(&answer.response);
        let status = answer.response.status();
        let (mut links, mut targets) = (PageLinks::none(Some(due.doc)), None);
        if let Some(tol) = &read {
            (links, targets) = self.links_of(tol, due, url);
            let metrics = &self.shared.metrics;
            metrics.add(&metrics.tables_read, 1);
            metrics.add(&metrics.table_links, links.len() as u64);
            tracing::debug!(%table, links = links.len(), "links come before their page");
        }
        let now_ms = self.shared.now_ms();
        self.client
            .tables
            .borrow_mut()
            .expect(due.doc, now_ms, targets);
        let site = self.site(url);
        let mut after = site;
        match (read.is_some(), site.tables.tol) {
            (true, _) => (after.tables.tol, after.misses) = (Standing::Served, 0),
            // A server that asks for a rest says nothing of its tables.
            _ if status == 429 || status >= 500 => {}
            (false, _) => {
                after.misses += 1;
                let is_told = site.tables.tol == Standing::Served
                    || rules.robots.tells_of(Table::Tol, url.path());
                if !is_told || after.misses >= MISSES {
                    after.tables.tol = Standing::Missing;
                }
            }
        }
        let archived =
            self.client
                .bench
                .borrow_mut()
                .record_plain(table, answer.response, answer.peer, at_ms);
        self.note_site(url, rules, (site, after), links, archived)
            .await;
    }

    /// A table's links as those of its document, and where all of them lead, unless some were left out.
    fn links_of(
        &self,
        tol: &Tol,
        due: &Due,
        url: &CanonicalUrl,
    ) -> (PageLinks, Option<Vec<DocId>>) {
        let shared = &self.shared;
        let mut raw = RawLinks::default();
        raw.clear(shared.settings.content.max_links);
        // The paper's two queues: links that stay on the host go first, to the log of the host's own partition.
        for link in tol.internal().chain(tol.external()) {
            raw.push(&link.href, LinkKind::Tol, link.nofollow);
        }
        let mut bench = self.client.bench.borrow_mut();
        let base = tol.base().and_then(|base| bench.resolve(url, base));
        let told = (base.as_ref().unwrap_or(url), UTF_8, false);
        let links = bench.early_links(shared, (due, url, self.partition), told, &raw);
        let is_whole = raw.left_out() == 0 && tol.left_out() == 0;
        let targets = is_whole.then(|| links.targets.clone());
        (links, targets)
    }

    /// What came of a table, with what it says of its site, durable together.
    pub(crate) async fn note_site(
        &mut self,
        url: &CanonicalUrl,
        rules: &Rules,
        (before, after): (Site, Site),
        links: PageLinks,
        record: Option<VisitRecords>,
    ) {
        let origin = url.origin().to_owned();
        self.client.tables.borrow_mut().sites.insert(origin, after);
        let changed = before.tables != after.tables;
        let robots = changed.then(|| rules.record(url.origin(), after.tables));
        if robots.is_none() && record.is_none() && links.len() == 0 {
            return;
        }
        let entry = Entry::Host {
            host: self.turn.name.clone(),
            pulse: self.asker.pulse,
            robots,
            archive: None,
            links: links.own,
            forwards: links.forwards,
        };
        self.hand_over(self.partition, entry, record).await;
    }

    /// What is known of the tables of an origin whose robots.txt is read anew. One that had none is asked again.
    pub(crate) fn tables_of(&self, origin: &str) -> SiteTables {
        let mut memory = self.client.tables.borrow_mut();
        let known = memory.sites.get(origin).map(|site| site.tables);
        let mut tables = known.unwrap_or_else(|| known_tables(&self.turn.robots, origin));
        for standing in [&mut tables.tol, &mut tables.tvi] {
            if *standing == Standing::Missing {
                *standing = Standing::Unknown;
            }
        }
        let site = Site {
            tables,
            ..Site::default()
        };
        memory.sites.insert(origin.to_owned(), site);
        tables
    }
}

fn known_tables(records: &[RobotsRecord], origin: &str) -> SiteTables {
    let record = records.iter().find(|record| record.origin == origin);
    record.map(|record| record.tables).unwrap_or_default()
}

/// The URL of a document's table.
pub(crate) fn table_of(table: Table, url: &CanonicalUrl) -> Option<CanonicalUrl> {
    let path = table.path_of(url.path_and_query())?;
    CanonicalUrl::from_canonical(format!("{}{path}", url.origin())).ok()
}

fn read(response: &Response) -> Option<Tol> {
    if response.status() != 200 || response.truncated.is_some() {
        return None;
    }
    let most_bytes = MAX_TABLE_BYTES as u64;
    let (body, end) = Decoder::decode_answer(&response.head, &response.body, most_bytes);
    end.ok()?;
    Tol::parse(&body)
}

/// Lets no more come of a table than it may have.
#[derive(Default)]
pub(crate) struct UpTo {
    bytes: usize,
}

impl UpTo {
    pub(crate) const MOST_BYTES: usize = MAX_TABLE_BYTES;
}

impl BodySink for UpTo {
    fn body(&mut self, bytes: &[u8]) -> ControlFlow<()> {
        self.bytes += bytes.len();
        match self.bytes > MAX_TABLE_BYTES {
            true => ControlFlow::Break(()),
            false => ControlFlow::Continue(()),
        }
    }
}
