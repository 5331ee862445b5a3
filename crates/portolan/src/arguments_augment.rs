//! The command line of `portolan augment`.

use std::path::PathBuf;

use clap::Args;

/// Write tables of links (.tol) and of volatile parts (.tvi) beside the documents of a static site.
#[derive(Args)]
#[command(after_help = "Examples:\n  \
    portolan augment public\n  \
    portolan augment public --base https://example.org/docs/   # links to example.org are internal\n\n\
    HTML files (.html, .htm, .xhtml) get NAME.tol, which lists their links; so do feeds (.xml, .rss, .atom). A document with volatile\n\
    parts gets NAME.tvi as well, which holds these parts alone. In HTML a part is <span id=ID class=volatile> or <span id=Vol1>, in XML\n\
    an element <Vol1>. A file is written only if it differs, so that dates and ETags of the others stay. docs/tol.md tells the formats,\n\
    and how a server tells crawlers of them. 'portolan crawl' does not read them yet.\n\n\
    Exit code: 0 in order, 1 if a file cannot be written, 2 if the folder is not there or holds no such documents.")]
pub(crate) struct AugmentArguments {
    /// The folder that a site was built into
    pub(crate) folder: PathBuf,
    /// Where the folder is served; without it, every link that names a host is external
    #[arg(long, value_name = "URL")]
    pub(crate) base: Option<String>,
    /// Print one JSON object
    #[arg(long)]
    pub(crate) json: bool,
}
