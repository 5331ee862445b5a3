//! A document has come: does it say what its table said, and does it tell of tables?

use std::collections::HashSet;

use portolan_content::Table;
use portolan_model::{CanonicalUrl, DocId, LinkKind, Outcome, Standing, Visit};
use portolan_net::Response;
use portolan_registry::Due;

use super::table_of;
use crate::links::PageLinks;
use crate::page::Processed;
use crate::robots::Rules;
use crate::settings::TolUse;
use crate::turn::Visitor;

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
        let bench = visitor.client.bench.borrow();
        let is_it = |target: &str| bench.resolve(url, target) == table;
        let mut links = response.head.get_all("link").map(String::from_utf8_lossy);
        Self {
            has_tol: table.is_some() && links.any(|link| Table::Tol.is_told(&link, is_it)),
            has_refresh: response.header("refresh").is_some(),
        }
    }
}

impl Visitor {
    /// The document has come: is what its table said true, and does it tell that its site has tables?
    pub(crate) async fn compare_with_table(
        &mut self,
        (due, url, rules): (&Due, &CanonicalUrl, &Rules),
        head: HeadTells,
        processed: &Processed,
    ) {
        let is_over = !matches!(processed.visit.outcome, Outcome::Retry(_));
        let awaited = match is_over {
            true => self.client.tables.borrow_mut().take(due.doc),
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
}
