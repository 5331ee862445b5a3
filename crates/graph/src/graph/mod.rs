//! The Web graph in memory: pages with sizes and sites, links between them. It does not know files.

mod components;
mod facts;
mod links;
mod pages;

use std::fmt;

pub use components::Components;
pub use facts::{Facts, Percentiles};
pub use links::{Links, LinksBuilder};
pub use pages::{ASSUMED_PAGE_BYTES, ASSUMED_URL_BYTES, MAX_PAGE_BYTES, Pages, PagesBuilder};

/// Pages and the distinct links between them.
#[derive(Debug)]
pub struct WebGraph {
    pub pages: Pages,
    pub links: Links,
    /// Where a crawl of this graph began, if that is known.
    pub seeds: Vec<u32>,
    /// What was odd in the input and went on.
    pub notes: Vec<Note>,
}

/// Something odd that was counted rather than refused.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Note {
    pub count: u64,
    pub what: String,
    /// Where it was seen first: file and line.
    pub first: Option<String>,
}

impl fmt::Display for Note {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.count, self.what)?;
        match &self.first {
            Some(place) => write!(f, " (first: {place})"),
            None => Ok(()),
        }
    }
}

/// Counts one kind of oddity.
#[derive(Debug, Default)]
pub(crate) struct Tally {
    count: u64,
    first: Option<String>,
}

impl Tally {
    pub(crate) fn add(&mut self, place: impl FnOnce() -> String) {
        self.count += 1;
        if self.first.is_none() {
            self.first = Some(place());
        }
    }

    pub(crate) fn note(self, what: &str, notes: &mut Vec<Note>) {
        if self.count > 0 {
            notes.push(Note {
                count: self.count,
                what: what.to_owned(),
                first: self.first,
            });
        }
    }
}
