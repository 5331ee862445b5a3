//! Tables of links (`.tol`) of sites that have them: fetched before their documents, so that what a document names is under
//! way while the document is still coming. A table is a request to the host like any other.
//!
//! A site is believed until a document comes that does not have what its table says, or has more. What is known of a site
//! is in the record of its robots.txt, so it is durable; which documents wait for being compared is known in RAM alone.

use std::collections::{HashMap, HashSet};
use std::ops::ControlFlow;

use encoding_rs::UTF_8;
use portolan_content::{Table, Tol};
use portolan_model::{
    CanonicalUrl, DocId, LinkKind, Outcome, RobotsRecord, SiteTables, Standing, Visit,
};
use portolan_net::{BodySink, Decoder, Method, Response};
use portolan_registry::{Due, Entry};

use crate::answered::VisitRecords;
use crate::asker::{Answer, Asked};
use crate::generations::Generations;
use crate::links::{PageLinks, RawLinks};
use crate::page::Processed;
use crate::robots::Rules;
use crate::settings::TolUse;
use crate::turn::Visitor;

/// What is longer of a table is not fetched; one that is cut is not used.
const MAX_TABLE_BYTES: usize = 4 << 20;
/// Tables that a site may lack in a row before it is not asked for more.
const MISSES: u8 = 3;
/// Sites that a worker knows about, twice over; of others the record is read again.
const SITES: usize = 4_096;
/// Documents whose tables were read, and which have not come yet. While there are this many, further documents are fetched without.
const MOST_AWAITED: usize = 16_384;
/// Links of theirs that are kept to be compared, over all of them.
const MOST_TARGETS: usize = 1 << 19;
/// A document that has not come for this long is forgotten where others need its place.
const FORGOTTEN_AFTER_MS: u64 = 3_600_000;

/// What a worker knows of tables, ahead of what is folded.
pub(crate) struct TableMemory {
    sites: Generations<String, Site>,
    awaited: HashMap<DocId, Awaited>,
    targets: usize,
}

#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Site {
    pub(crate) tables: SiteTables,
    /// Tables that were not there, in a row.
    misses: u8,
    tvi_misses: u8,
}

impl Site {
    /// A table of volatile parts was asked for. `is_told`: the site says that it has such tables.
    pub(crate) fn take_tvi(&mut self, status: u16, is_told: bool) {
        match status {
            200 => (self.tables.tvi, self.tvi_misses) = (Standing::Served, 0),
            // A server that asks for a rest says nothing of its tables.
            429 | 500.. => {}
            _ => {
                self.tvi_misses += 1;
                let is_sure = is_told || self.tables.tvi == Standing::Served;
                if !is_sure || self.tvi_misses >= MISSES {
                    self.tables.tvi = Standing::Missing;
                }
            }
        }
    }
}

/// A document whose table was asked for.
struct Awaited {
    since_ms: u64,
    /// Where the table's links lead; `None` if that cannot be compared.
    targets: Option<Vec<DocId>>,
}

impl Default for TableMemory {
    fn default() -> Self {
        Self {
            sites: Generations::with_bound(SITES),
            awaited: HashMap::new(),
            targets: 0,
        }
    }
}

impl TableMemory {
    /// Is there room for one more document, perhaps by forgetting old ones?
    fn has_room(&mut self, now_ms: u64) -> bool {
        if self.awaited.len() >= MOST_AWAITED {
            let targets = &mut self.targets;
            self.awaited.retain(|_, awaited| {
                let stays = awaited.since_ms + FORGOTTEN_AFTER_MS > now_ms;
                if !stays {
                    *targets -= awaited.len();
                }
                stays
            });
        }
        self.awaited.len() < MOST_AWAITED
    }

    /// Was its table asked for, and has it not come yet?
    pub(crate) fn is_awaited(&self, doc: DocId) -> bool {
        self.awaited.contains_key(&doc)
    }

    pub(crate) fn expect(&mut self, doc: DocId, since_ms: u64, targets: Option<Vec<DocId>>) {
        let targets = targets.filter(|targets| self.targets + targets.len() <= MOST_TARGETS);
        let awaited = Awaited { since_ms, targets };
        self.targets += awaited.len();
        if let Some(before) = self.awaited.insert(doc, awaited) {
            self.targets -= before.len();
        }
    }

    /// The document has come, or never will.
    fn take(&mut self, doc: DocId) -> Option<Awaited> {
        let awaited = self.awaited.remove(&doc)?;
        self.targets -= awaited.len();
        Some(awaited)
    }
}

impl Awaited {
    fn len(&self) -> usize {
        self.targets.as_ref().map_or(0, Vec::len)
    }
}

/// What the head of a document says that matters to tables.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct HeadTells {
    /// It names the document's table of links.
    has_tol: bool,
    /// It leads on by itself, which no table knows.
    has_refresh: bool,
}

impl HeadTells {
    pub(crate) fn of(visitor: &Visitor, url: &CanonicalUrl, response: &Response) -> Self {
        if visitor.shared.settings.content.tol == TolUse::Never {
            return Self::default();
        }
        let table = table_of(Table::Tol, url);
        let bench = visitor.worker.bench.borrow();
        let is_it = |target: &str| bench.resolve(url, target) == table;
        let mut links = response.head.get_all("link").map(String::from_utf8_lossy);
        Self {
            has_tol: table.is_some() && links.any(|link| Table::Tol.is_told(&link, is_it)),
            has_refresh: response.header("refresh").is_some(),
        }
    }
}

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
                self.worker
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
        let mut memory = self.worker.tables.borrow_mut();
        let is_wanted = has_tables
            && rules.robots.allows(table.path_and_query())
            && !memory.is_awaited(due.doc)
            && memory.has_room(self.shared.now_ms());
        is_wanted.then_some(table)
    }

    /// What is known of the tables of `url`'s site.
    pub(crate) fn site(&self, url: &CanonicalUrl) -> Site {
        let mut memory = self.worker.tables.borrow_mut();
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
        self.worker
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
            self.worker
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
        let mut bench = self.worker.bench.borrow_mut();
        let base = tol.base().and_then(|base| bench.resolve(url, base));
        let told = (base.as_ref().unwrap_or(url), UTF_8, false);
        let links = bench.early_links(shared, (due, url, self.partition), told, &raw);
        let is_whole = raw.left_out() == 0 && tol.left_out() == 0;
        let targets = is_whole.then(|| links.targets.clone());
        (links, targets)
    }

    /// The document has come: is what its table said true, and does it tell that its site has tables?
    pub(crate) async fn compare_with_table(
        &mut self,
        (due, url, rules): (&Due, &CanonicalUrl, &Rules),
        head: HeadTells,
        processed: &Processed,
    ) {
        let is_over = !matches!(processed.visit.outcome, Outcome::Retry(_));
        let awaited = match is_over {
            true => self.worker.tables.borrow_mut().take(due.doc),
            false => None,
        };
        if awaited.is_none() && !head.has_tol {
            return;
        }
        let site = self.site(url);
        let mut after = site;
        let targets = awaited.and_then(|awaited| awaited.targets);
        if let Some(targets) =
            targets.filter(|_| is_whole_page(&processed.visit) && !head.has_refresh)
            && let Some(lie) = Lie::between(&targets, &processed.links)
        {
            tracing::info!(%url, wrong = lie.wrong, lacking = lie.lacking, "its table of links lied; its site is not believed any longer");
            let metrics = &self.shared.metrics;
            metrics.add(&metrics.tables_lied, 1);
            after.tables.tol = Standing::Lied;
        } else if head.has_tol && site.tables.tol == Standing::Unknown {
            after.tables.tol = Standing::Served;
        }
        let links = PageLinks::none(None);
        if site.tables != after.tables {
            self.note_site(url, rules, (site, after), links, None).await;
        }
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
        self.worker.tables.borrow_mut().sites.insert(origin, after);
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
        let mut memory = self.worker.tables.borrow_mut();
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

/// Did the page come as a whole, with all its links?
fn is_whole_page(visit: &Visit) -> bool {
    visit.is_document()
        && !visit.is_not_modified()
        && visit.truncated.is_none()
        && visit.links_left_out == 0
}

/// How a document differs from its table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Lie {
    /// Links of the table that the document does not have, ...
    wrong: usize,
    /// ... and of the document that the table does not have.
    lacking: usize,
}

impl Lie {
    /// What a page is shown with is in no table, unless the page links to it, too. Nor is what a user's module found.
    fn between(table: &[DocId], page: &PageLinks) -> Option<Self> {
        let table: HashSet<DocId> = table.iter().copied().collect();
        let all: HashSet<DocId> = page.targets.iter().copied().collect();
        let batches =
            std::iter::once(&page.own).chain(page.forwards.iter().map(|(_, batch)| batch));
        let lacking = batches
            .flat_map(|batch| batch.iter().zip(batch.docs().unwrap_or_default()))
            .filter(|(link, doc)| {
                !matches!(link.kind, LinkKind::Embed | LinkKind::Module) && !table.contains(doc)
            })
            .count();
        let wrong = table.difference(&all).count();
        (wrong + lacking > 0).then_some(Self { wrong, lacking })
    }
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

#[cfg(test)]
mod tests {
    use super::*;
    use portolan_model::{Link, Verdict};

    fn page(links: &[(u64, LinkKind)]) -> PageLinks {
        let mut page = PageLinks::none(None);
        for &(doc, kind) in links {
            let verdict = Verdict::Crawl { priority: 0 };
            let link = Link {
                url: "http://a.test/",
                kind,
                depth: 0,
                hops: 0,
                verdict,
            };
            page.own.push_known(DocId(doc), link);
            page.targets.push(DocId(doc));
        }
        page
    }

    #[test]
    fn a_table_lies_by_what_it_adds_and_by_what_it_lacks() {
        let page = page(&[
            (1, LinkKind::Anchor),
            (2, LinkKind::Frame),
            (3, LinkKind::Embed),
            (4, LinkKind::Module),
        ]);
        let lie = |table: &[u64]| {
            let table: Vec<DocId> = table.iter().map(|&doc| DocId(doc)).collect();
            Lie::between(&table, &page).map(|lie| (lie.wrong, lie.lacking))
        };
        // What the page embeds may stand in the table, as the page may link to it, too.
        assert_eq!((lie(&[1, 2]), lie(&[2, 3, 1])), (None, None));
        assert_eq!(lie(&[1, 2, 9, 8]), Some((2, 0)));
        assert_eq!(lie(&[]), Some((0, 2)));
        assert_eq!(lie(&[1, 9]), Some((1, 1)));
    }

    #[test]
    fn documents_that_are_awaited_are_bounded_and_asked_for_once() {
        let mut memory = TableMemory::default();
        for doc in 0..MOST_AWAITED as u64 {
            assert!(memory.has_room(0));
            memory.expect(DocId(doc), 0, Some(vec![DocId(doc); 64]));
        }
        assert!(!memory.has_room(FORGOTTEN_AFTER_MS - 1));
        assert_eq!(memory.targets, MOST_TARGETS);
        let kept = memory.take(DocId(0)).expect("it was awaited");
        assert_eq!(kept.len(), 64);
        let last = memory
            .take(DocId(MOST_AWAITED as u64 - 1))
            .expect("this, too");
        assert_eq!(last.len(), 0, "no room for what it says");
        memory.expect(DocId(0), 0, None);
        memory.expect(DocId(5), FORGOTTEN_AFTER_MS, Some(vec![DocId(1)]));
        memory.expect(DocId(MOST_AWAITED as u64), 0, None);
        assert!(memory.has_room(FORGOTTEN_AFTER_MS));
        assert_eq!((memory.awaited.len(), memory.targets), (1, 1));
    }
}
