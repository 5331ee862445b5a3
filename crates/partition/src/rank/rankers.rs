//! Rankers: what is known of the graph becomes the class by which the frontier sorts. Those that learn
//! while a crawl runs keep a figure for each known URL, so their memory grows with the crawl.

use std::collections::{HashMap, HashSet};
use std::path::Path;

use portolan_model::{BacklinkRanker, DocId, HostId, Known, MAX_CLASS, Ranker};

use super::pagerank::{PageRankSettings, pagerank};
use crate::error::{GraphError, Result};
use crate::graph::LinksBuilder;
use crate::table::{Kind, Table};

/// Classes for each doubling of a score.
const CLASSES_A_DOUBLING: f64 = 3.0;
/// The class of a page of average score.
const MEAN_CLASS: f64 = 16.0;

/// From a score to a class: three classes for each doubling, so that the frontier's order is the
/// score's within 26 %.
pub fn class_of_score(score: f64, mean: f64) -> u8 {
    if score <= 0.0 || mean <= 0.0 {
        return 0;
    }
    (MEAN_CLASS + CLASSES_A_DOUBLING * (score / mean).log2()).clamp(0.0, f64::from(MAX_CLASS)) as u8
}

/// Scores that are known beforehand, by document.
#[derive(Debug)]
pub struct ScoreRanker {
    classes: HashMap<u64, u8>,
}

impl ScoreRanker {
    pub fn new(scores: impl Iterator<Item = (DocId, f64)> + Clone) -> Self {
        let (mut sum, mut count) = (0.0, 0_u64);
        for (_, score) in scores.clone() {
            sum += score;
            count += 1;
        }
        let mean = sum / count.max(1) as f64;
        Self {
            classes: scores
                .map(|(doc, score)| (doc.0, class_of_score(score, mean)))
                .collect(),
        }
    }
}

impl Ranker for ScoreRanker {
    fn fetched(&mut self, _: Known, _: &[Known], _: &mut Vec<DocId>) {}

    fn class(&self, page: Known, _: u32) -> u8 {
        self.classes.get(&page.doc.0).copied().unwrap_or(0)
    }
}

/// The last session's ranks from a file; pages that it does not list go by back-links.
#[derive(Debug)]
pub struct RankTable {
    table: Table,
}

impl RankTable {
    pub fn open(path: &Path) -> Result<Self> {
        let table = Table::open(path)?;
        if table.kind != Kind::Ranks {
            return Err(GraphError::damaged(
                path,
                "this is a part vector, not a rank table",
            ));
        }
        Ok(Self { table })
    }

    pub fn find(&self, doc: DocId) -> Option<u8> {
        self.table.find(doc.0).map(|class| class as u8)
    }

    pub fn len(&self) -> usize {
        self.table.len()
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl Ranker for RankTable {
    fn fetched(&mut self, page: Known, links: &[Known], changed: &mut Vec<DocId>) {
        BacklinkRanker.fetched(page, links, changed);
    }

    fn class(&self, page: Known, back_links: u32) -> u8 {
        self.find(page.doc)
            .unwrap_or_else(|| BacklinkRanker.class(page, back_links))
    }
}

/// Online page importance, after Abiteboul, Preda and Cobena: every page has some cash, a page that is
/// fetched gives its cash to its links, the richest is fetched next.
#[derive(Debug, Default)]
pub struct OpicRanker {
    cash: HashMap<u64, f64>,
}

/// What a page has that nobody has given anything yet.
const FIRST_CASH: f64 = 1.0;

impl Ranker for OpicRanker {
    fn fetched(&mut self, page: Known, links: &[Known], changed: &mut Vec<DocId>) {
        let cash = self.cash.insert(page.doc.0, 0.0).unwrap_or(FIRST_CASH);
        if links.is_empty() {
            return;
        }
        let share = cash / links.len() as f64;
        for link in links {
            *self.cash.entry(link.doc.0).or_insert(0.0) += share;
            changed.push(link.doc);
        }
    }

    fn class(&self, page: Known, _: u32) -> u8 {
        // Cash is scaled so that what a page of 64 links gives to each of them is the mean.
        class_of_score(
            self.cash.get(&page.doc.0).copied().unwrap_or(FIRST_CASH),
            FIRST_CASH / 64.0,
        )
    }
}

/// How many other sites link to the page's site.
#[derive(Debug, Default)]
pub struct SiteIndegreeRanker {
    pairs: HashSet<(u64, u64)>,
    counts: HashMap<u64, u32>,
    pages: HashMap<u64, Vec<DocId>>,
    known: HashSet<u64>,
}

impl Ranker for SiteIndegreeRanker {
    fn fetched(&mut self, page: Known, links: &[Known], changed: &mut Vec<DocId>) {
        for link in links {
            let HostId(site) = link.host;
            if self.known.insert(link.doc.0) {
                self.pages.entry(site).or_default().push(link.doc);
                changed.push(link.doc);
            }
            if page.host != link.host && self.pairs.insert((page.host.0, site)) {
                let count = self.counts.entry(site).or_default();
                *count += 1;
                // The class is a logarithm: only a doubling changes it, so all this is linear.
                if count.is_power_of_two()
                    && let Some(pages) = self.pages.get(&site)
                {
                    changed.extend(pages);
                }
            }
        }
    }

    fn class(&self, page: Known, _: u32) -> u8 {
        let count = self.counts.get(&page.host.0).copied().unwrap_or(0);
        count.checked_ilog2().map_or(0, |log| log as u8 + 1)
    }
}

/// PageRank of the part of the graph that has been fetched, computed anew whenever that has grown by
/// a tenth.
#[derive(Debug, Default)]
pub struct LivePageRankRanker {
    numbers: HashMap<u64, u32>,
    docs: Vec<DocId>,
    links: Vec<(u32, u32)>,
    fetched: u64,
    due: u64,
    classes: Vec<u8>,
}

const FIRST_COMPUTATION: u64 = 50;
/// The frontier needs no more.
const LIVE_PRECISION: f64 = 1e-4;

impl LivePageRankRanker {
    fn number(&mut self, doc: DocId) -> u32 {
        let next = self.docs.len() as u32;
        let number = *self.numbers.entry(doc.0).or_insert(next);
        if number == next {
            self.docs.push(doc);
            // Until it is computed: what a page has that few link to.
            self.classes.push(class_of_score(0.5, 1.0));
        }
        number
    }

    fn compute(&mut self) {
        let mut builder = LinksBuilder::new(self.docs.len() as u32);
        for &(from, to) in &self.links {
            builder.push(from, to);
        }
        let (links, _, _) = builder.finish();
        let settings = PageRankSettings {
            precision: LIVE_PRECISION,
            ..PageRankSettings::default()
        };
        let ranks = pagerank(&links, &links.transposed(), settings);
        let mean = 1.0 / self.docs.len() as f64;
        self.classes = ranks
            .scores
            .iter()
            .map(|&score| class_of_score(score, mean))
            .collect();
    }
}

impl Ranker for LivePageRankRanker {
    fn fetched(&mut self, page: Known, links: &[Known], changed: &mut Vec<DocId>) {
        let from = self.number(page.doc);
        for link in links {
            let to = self.number(link.doc);
            self.links.push((from, to));
            changed.push(link.doc);
        }
        self.fetched += 1;
        if self.fetched >= self.due.max(FIRST_COMPUTATION) {
            self.due = self.fetched + self.fetched.div_ceil(10);
            self.compute();
            changed.clear();
            changed.extend(&self.docs);
        }
    }

    fn class(&self, page: Known, _: u32) -> u8 {
        match self.numbers.get(&page.doc.0) {
            Some(&number) => self.classes[number as usize],
            None => 0,
        }
    }
}
