//! Rankers that know more than a URL's own links: what the last session found out, and what the whole graph
//! fetched so far says. Those that the registry folds by itself are in `model`.

use std::collections::HashMap;
use std::path::Path;

use portolan_model::{DocId, Known, MAX_CLASS, Order, Ranker};

use super::pagerank::{PageRankSettings, pagerank};
use crate::error::{GraphError, Result};
use crate::graph::LinksBuilder;
use crate::table::{Kind, Table, page_key};

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
    fn given(&self, page: Known, _: &str) -> Option<u8> {
        Some(self.classes.get(&page.doc.0).copied().unwrap_or(0))
    }

    fn class(&self, _: u32, _: u32) -> u8 {
        0
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

    /// None if it is not listed.
    pub fn find(&self, canonical_url: &str) -> Option<u8> {
        let class = self.table.find(page_key(canonical_url));
        class.map(|class| class as u8)
    }

    pub fn len(&self) -> usize {
        self.table.len()
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl Ranker for RankTable {
    fn given(&self, _: Known, url: &str) -> Option<u8> {
        self.find(url)
    }

    fn class(&self, back_links: u32, score: u32) -> u8 {
        Order::Pagerank.class(back_links, score)
    }
}

/// PageRank of the part of the graph that has been fetched, computed anew whenever that has grown by
/// a tenth. It needs all links in memory and moves pages that nobody linked to just then, so it is no
/// [`Ranker`]: replays can afford it, a frontier whose memory is bounded cannot.
#[derive(Debug, Default)]
pub struct LivePageRank {
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

impl LivePageRank {
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

impl LivePageRank {
    /// `page` was fetched and has these links. Pages whose class may be another one now are added to
    /// `changed`.
    pub fn fetched(&mut self, page: Known, links: &[Known], changed: &mut Vec<DocId>) {
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

    pub fn class(&self, page: Known) -> u8 {
        match self.numbers.get(&page.doc.0) {
            Some(&number) => self.classes[number as usize],
            None => 0,
        }
    }
}
