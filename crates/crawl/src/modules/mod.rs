//! Processing modules: each gets the documents of the media types that it asked for, and says facts and links. They are
//! rows of one table: what Portolan reads itself (HTML, sitemaps, feeds, style sheets, listings, menus), what a user adds
//! in Rust, and programs that the settings name.
//!
//! Layout: `module` (the trait, what a module is given, and the hooks for finished pages), `findings` (what it says),
//! `table` (who reads what, and how often it failed), `own` and `html` (Portolan's own modules), `program` (a program of
//! the settings), `run` (one run of it, within its bounds), `said` (what it wrote), `runner` (the thread beside the
//! workers where programs are looked after).

mod findings;
mod html;
mod module;
mod own;
mod program;
mod run;
mod runner;
mod said;
mod table;

pub use findings::Findings;
pub(crate) use findings::Learned;
pub(crate) use html::{HtmlScan, link_kind};
pub(crate) use module::Shown;
pub use module::{Document, Extensions, FinishedPage, Module, PageHook};
pub use table::ModuleCounts;
pub(crate) use table::{Modules, Reports};
