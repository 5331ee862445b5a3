//! Why a text did not become a canonical URL.

use super::{MAX_URL_BYTES, Scheme};
use thiserror::Error;

/// Why a text is not a URL that can be crawled. Each sentence stands behind the text itself, as in
/// `'example.org': it has no scheme; …`.
#[derive(Debug, Error, Clone, PartialEq, Eq)]
pub enum CanonicalUrlError {
    #[error("it is not a URL ({0}); check its spelling")]
    Parse(#[from] url::ParseError),
    #[error("it has no scheme; write http:// or https:// in front of it")]
    NoScheme,
    #[error("the scheme '{0}' cannot be crawled; http, https, ftp, gopher and file can")]
    Scheme(String),
    #[error("{0} is crawled only where urls.also_schemes = [\"{0}\"] is among the settings")]
    NotAsked(Scheme),
    #[error("it has no usable host name; write one after http:// or https://")]
    NoHost,
    #[error("it is longer than {MAX_URL_BYTES} bytes; no server takes such a URL")]
    TooLong,
    #[error("it is not in canonical form; it must be parsed first")]
    NotCanonical,
}
