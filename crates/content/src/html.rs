//! The streaming link scanner: reads HTML as a browser's tokenizer does, in chunks of any size, and
//! tells of links, base, title and robots rules. Builds no tree.

mod attributes;
mod context;
mod entities;
mod links;
mod names;
mod page;
mod parts;
mod reader;
mod refresh;
mod search;
mod slots;
mod sources;
mod spans;
#[doc(hidden)]
pub mod tokenizer;

#[doc(hidden)]
pub use attributes::{Attributes, Ending};
#[doc(hidden)]
pub use entities::{Place, decode_references};
pub use links::{Element, Found, Role};
#[doc(hidden)]
pub use names::Tag;
pub use page::{PageScanner, PageSummary, ScanOptions};
pub use refresh::refresh_target;
pub(crate) use spans::marked_spans;
