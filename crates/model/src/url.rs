//! Canonical URLs: WHATWG parsing, then what makes two spellings one; SURT and registrable domain.
//! No scope rules here: whether a URL is wanted is the crawl's business.
//!
//! Layout: `canonical` (the URL itself), `canonicalizer` (text to canonical URL), `direct` (the same
//! for everyday links, without the general parser), `escape` (percent-encoding), `parameters`
//! (tracking and session parameters), `scheme` (what can be crawled, and who is left alone after a request), `href` (prefilter), `surt` (key for CDXJ), `error`.

mod canonical;
mod canonicalizer;
mod direct;
mod error;
mod escape;
mod href;
mod parameters;
mod scheme;
mod surt;

pub use canonical::{CanonicalUrl, is_public_suffix};
pub use canonicalizer::{Canonicalizer, MAX_URL_BYTES};
pub use error::CanonicalUrlError;
pub use href::is_crawlable_href;
pub use parameters::CanonicalSettings;
pub use scheme::{Scheme, host_of_key, keys_of_host, politeness_key};
