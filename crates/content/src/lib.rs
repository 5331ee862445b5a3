//! Bytes in, facts out: what documents, robots.txt, sitemaps, feeds and content types say. Pure: no IO,
//! no clock, no other room; every input is taken to be hostile.
//!
//! Layout: `charset` (which charset a page is in, and its pieces as UTF-8), `html` (the streaming link
//! scanner), `css` (what style sheets need), `robots` (RFC 9309), `directives` (X-Robots-Tag and meta robots), `listing` (directories of FTP servers, Gopher menus), `sitemap`, `feed`, `xml`
//! (what those two share), `table`, `tol` and `tvi` (tables that a site keeps beside a document: its links, its volatile parts), `mime` (content types, sniffing, which parser a body gets), `fingerprint`
//! (exact and similar).
//!
//! # Example
//!
//! ```
//! use portolan_content::Robots;
//! use portolan_content::html::{Found, PageScanner, ScanOptions};
//!
//! let mut links = Vec::new();
//! let mut sink = |found: Found<'_>| {
//!     if let Found::Link { href, .. } = found {
//!         links.push(href.to_owned());
//!     }
//! };
//! let mut scanner = PageScanner::new(&ScanOptions::default(), Some("utf-8"));
//! // A page may come in pieces of any size.
//! scanner.feed(b"<title>Hello</title><a hre", &mut sink);
//! let summary = scanner.finish_with(b"f=/next>next</a>", &mut sink);
//! assert_eq!(links, ["/next"]);
//!
//! let robots = Robots::parse(b"User-agent: *\nDisallow: /private", "mybot");
//! assert!(robots.allows("/next") && !robots.allows("/private/x"));
//! # let _ = summary;
//! ```

pub mod charset;
mod css;
mod directives;
mod feed;
mod fingerprint;
pub mod html;
mod listing;
mod mime;
mod robots;
mod sitemap;
mod table;
mod tol;
mod tvi;
mod xml;

pub use css::{CssScanner, style_sheet_text};
pub use directives::{Directives, meta_concerns};
pub use feed::{FeedLimits, FeedLink, FeedLinkKind, FeedSummary, parse_feed};
pub use fingerprint::{Fingerprint, Simhash, distance};
pub use listing::{parse_gopher_menu, parse_listing};
pub use mime::{DocumentKind, MimeType, SNIFF_BYTES, is_gzip, kind_of, sniff};
pub use robots::{MAX_ROBOTS_BYTES, Robots, RobotsAnswer, RobotsVerdict};
pub use sitemap::{SitemapEntry, SitemapKind, SitemapLimits, SitemapSummary, parse_sitemap};
pub use table::Table;
pub use tol::{Site, SiteError, Tol, TolLink};
pub use tvi::{Markup, Refreshed, Tvi};
