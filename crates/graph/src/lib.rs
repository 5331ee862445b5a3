//! The Web graph: build it, cut it, compare cuts, rank its pages, replay crawls of it, and write what
//! the next session is steered by.
//!
//! # Layout
//!
//! - `graph`: pages and links in memory, and what they look like at a glance.
//! - `read`: text tables, WebGraph's BV files, a crawl's registry. `synthetic`: graphs from parameters.
//! - `cut`: METIS, hashes, DSets; what a cut is worth. `compare`: the data-parallel paper's tables.
//! - `vector`: part vectors as files and as the crawler's partitioner. `table`: the files themselves.
//! - `rank`: PageRank, back-links, harmonic centrality; rankers for the frontier.
//! - `replay`: crawls of a known graph, by order and by mode of exchange.
//! - `write`: for other programs. `draw`: charts.
//!
//! # Features
//!
//! - `metis` (default): cuts by METIS, compiled from its C sources. Without it [`Method::Graph`] is refused.
//! - `parquet` (default): `write_parquet`.
//!
//! Whoever only needs part vectors, DSets and rank tables, as the crawler does, turns both off.
//!
//! # Example
//!
//! ```
//! use portolan_graph::{LinksBuilder, PageRankSettings, by_score, pagerank};
//!
//! let mut links = LinksBuilder::new(3);
//! for (from, to) in [(0, 1), (1, 0), (2, 1)] {
//!     links.push(from, to);
//! }
//! let (links, _repeated, _to_themselves) = links.finish();
//! let ranks = pagerank(&links, &links.transposed(), PageRankSettings::default());
//! // Page 1 has two links to it, and page 2 none.
//! assert_eq!(by_score(&ranks.scores), [1, 0, 2]);
//! ```

mod compare;
mod cut;
mod draw;
mod error;
mod graph;
mod rank;
mod read;
mod replay;
mod synthetic;
mod table;
mod vector;
mod write;

pub use compare::{Cell, Column, CompareSettings, Comparison, compare};
pub use cut::{
    Bound, Cut, CutGraph, CutSettings, Cutter, DSets, Measure, Method, Unit, bounds, extension_of,
    is_divisible,
};
pub use draw::Chart;
pub use error::{GraphError, Result};
pub use graph::{
    ASSUMED_PAGE_BYTES, ASSUMED_URL_BYTES, Components, Facts, Links, LinksBuilder, MAX_PAGE_BYTES,
    Note, Pages, PagesBuilder, Percentiles, WebGraph,
};
pub use rank::{
    LivePageRank, PageRank, PageRankSettings, RankTable, ScoreRanker, back_links, by_score,
    class_of_score, harmonic, pagerank, write_rank_table,
};
pub use read::{
    CrawlPages, SYNTHETIC_PREFIX, UNFETCHED, read_bv, read_crawl, read_files, read_tsv,
};
pub use replay::{
    CHECKPOINTS, Mode, ModeResult, ModeSettings, OrderResult, Orders, draw_seeds,
    draw_seeds_of_parts, replay_modes, replay_orders,
};
pub use synthetic::{SyntheticSpec, SyntheticWeb};
pub use vector::{Claim, PartVector, Unlisted, VectorPartitioner};
#[cfg(feature = "parquet")]
pub use write::write_parquet;
pub use write::{GraphRows, write_bv, write_metis, write_tsv};
