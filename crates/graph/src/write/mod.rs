//! From a graph to files that other programs read. What is written row by row needs no memory, so a
//! synthetic graph of any size can be written.

mod bv;
mod metis;
#[cfg(feature = "parquet")]
mod parquet;
mod tsv;

use crate::graph::WebGraph;
use crate::synthetic::SyntheticWeb;

pub use self::metis::write_metis;
#[cfg(feature = "parquet")]
pub use self::parquet::write_parquet;
pub use bv::write_bv;
pub use tsv::write_tsv;

/// A graph that is read page by page.
pub trait GraphRows {
    fn pages(&self) -> u32;

    /// Puts its URL, if it has one, and returns its size.
    fn page(&self, page: u32, url: &mut String) -> u64;

    /// Puts its links, sorted, each once.
    fn row(&self, page: u32, row: &mut Vec<u32>);
}

impl GraphRows for WebGraph {
    fn pages(&self) -> u32 {
        self.pages.count()
    }

    fn page(&self, page: u32, url: &mut String) -> u64 {
        url.clear();
        url.push_str(self.pages.url(page).unwrap_or_default());
        self.pages.bytes(page)
    }

    fn row(&self, page: u32, row: &mut Vec<u32>) {
        row.clear();
        row.extend_from_slice(self.links.of(page));
    }
}

impl GraphRows for SyntheticWeb {
    fn pages(&self) -> u32 {
        SyntheticWeb::pages(self)
    }

    fn page(&self, page: u32, url: &mut String) -> u64 {
        self.url(page, url);
        self.bytes(page)
    }

    fn row(&self, page: u32, row: &mut Vec<u32>) {
        self.links(page, row);
    }
}
