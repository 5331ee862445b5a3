//! Canonical URLs: WHATWG parsing, then what makes two spellings one. SURT and registrable domain.

use thiserror::Error;

/// Why a text is not a URL that can be crawled.
#[derive(Debug, Error, Clone, PartialEq, Eq)]
pub enum CanonicalUrlError {
    #[error("not a URL: {0}")]
    Parse(#[from] url::ParseError),
    #[error("the scheme '{0}' cannot be crawled; http and https can")]
    Scheme(String),
    #[error("it has no host name")]
    NoHost,
}

/// How two spellings become one. Plain settings, set once for a crawl.
#[derive(Debug, Clone, Default)]
pub struct Canonicalizer {}

/// A URL in canonical form: http or https, no fragment, no user name.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct CanonicalUrl {
    url: url::Url,
}
