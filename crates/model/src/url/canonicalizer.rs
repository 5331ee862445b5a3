//! From text to canonical URL: the general way, by the WHATWG parser of the `url` crate. Everyday
//! links take the short way of `direct`, which must come to the same result.

use super::escape::SEGMENT;
use super::parameters::DropRules;
use super::{CanonicalSettings, CanonicalUrl, CanonicalUrlError, Scheme, direct};
use url::{Host, Url};

/// Longer texts are refused unread. Far above what servers take (8 KiB is common) and far below
/// what could hurt: a page may hold megabytes in one attribute.
pub const MAX_URL_BYTES: usize = 64 * 1024;

/// How two spellings become one. Set once for a crawl.
#[derive(Debug, Clone)]
pub struct Canonicalizer {
    rules: DropRules,
    also_schemes: Vec<Scheme>,
}

impl Default for Canonicalizer {
    fn default() -> Self {
        Self::new(&CanonicalSettings::default())
    }
}

impl Canonicalizer {
    pub fn new(settings: &CanonicalSettings) -> Self {
        Self {
            rules: DropRules::new(settings),
            also_schemes: settings.also_schemes.clone(),
        }
    }

    /// An absolute URL.
    pub fn parse(&self, text: &str) -> Result<CanonicalUrl, CanonicalUrlError> {
        within_limit(text)?;
        match Url::parse(text) {
            Ok(url) => self.canonical(&url),
            Err(url::ParseError::RelativeUrlWithoutBase) => Err(CanonicalUrlError::NoScheme),
            Err(error) => Err(error.into()),
        }
    }

    /// What a person types: as `parse`, but `example.org/x` and `localhost:8080` mean http.
    pub fn parse_seed(&self, text: &str) -> Result<CanonicalUrl, CanonicalUrlError> {
        let text = trimmed(text);
        if lacks_scheme(text) {
            self.parse(&format!("http://{}", text.trim_start_matches("//")))
        } else {
            self.parse(text)
        }
    }

    /// A link found on the page `base`. A link to a place on the same page gives the page.
    pub fn resolve(
        &self,
        base: &CanonicalUrl,
        href: &str,
    ) -> Result<CanonicalUrl, CanonicalUrlError> {
        within_limit(href)?;
        match direct::resolve(&self.rules, base, trimmed(href)) {
            Some(url) => Ok(url),
            None => self.resolve_by_parser(base, href),
        }
    }

    /// `resolve` without the short way, for whatever needs the parser and for comparing the two.
    fn resolve_by_parser(
        &self,
        base: &CanonicalUrl,
        href: &str,
    ) -> Result<CanonicalUrl, CanonicalUrlError> {
        // Two slashes and more lead to another host. The url crate takes more than two only behind
        // a scheme, browsers do here as well.
        if leads_to_another_host(href) {
            return self.parse(&format!("{}:{}", base.scheme(), trimmed(href)));
        }
        let base = Url::parse(base.as_str())?;
        self.canonical(&base.join(href)?)
    }

    fn canonical(&self, url: &Url) -> Result<CanonicalUrl, CanonicalUrlError> {
        let default_port = match url.scheme() {
            "http" => 80,
            "https" => 443,
            other => return self.canonical_other(url, other),
        };
        let host = host_without_root_dot(url)?;
        let mut text = String::with_capacity(url.as_str().len());
        text.push_str(url.scheme());
        text.push_str("://");
        text.push_str(host);
        let host_end = text.len();
        if let Some(port) = url.port() {
            text.push(':');
            text.push_str(&port.to_string());
        }
        let path_start = text.len();
        // The parser has seen to dots and empty paths: there is a segment, even if it is empty.
        let mut segments = url.path()[1..].split('/').peekable();
        while let Some(segment) = segments.next() {
            let start = text.len();
            push_segment(&self.rules, &mut text, segment);
            if self.rules.drops_segment(&text[start + 1..]) {
                text.truncate(start);
                if segments.peek().is_none() {
                    text.push('/');
                }
            }
        }
        let query_start = text.len();
        if let Some(query) = url.query() {
            self.rules.push_query(&mut text, query);
        }
        within_limit(&text)?;
        Ok(CanonicalUrl::from_parts(
            text,
            host_end,
            url.port().unwrap_or(default_port),
            path_start,
            query_start,
        ))
    }
}

impl Canonicalizer {
    /// Outside of http there are no parameters: a name is taken as it is, and a question mark belongs to it.
    fn canonical_other(&self, url: &Url, scheme: &str) -> Result<CanonicalUrl, CanonicalUrlError> {
        let Some(scheme) = Scheme::from_name(scheme) else {
            return Err(CanonicalUrlError::Scheme(scheme.to_owned()));
        };
        if !self.also_schemes.contains(&scheme) {
            return Err(CanonicalUrlError::NotAsked(scheme));
        }
        let mut text = format!("{scheme}://");
        match (scheme, url.host_str().unwrap_or("")) {
            (Scheme::File, "" | "localhost") => text.push_str("localhost"),
            (Scheme::File, _) | (_, "") => return Err(CanonicalUrlError::NoHost),
            (_, host) => text.push_str(without_root_dot(&Host::parse(host)?.to_string())?),
        }
        let host_end = text.len();
        let port = url.port().unwrap_or(scheme.default_port());
        if port != scheme.default_port() {
            text.push(':');
            text.push_str(&port.to_string());
        }
        let path_start = text.len();
        let mut path = url.path();
        if scheme == Scheme::Ftp {
            // How it is to be transferred (RFC 1738) is no part of its name.
            path = path.rsplit_once(";type=").map_or(path, |(name, _)| name);
        }
        for segment in path.strip_prefix('/').unwrap_or(path).split('/') {
            text.push('/');
            SEGMENT.push(&mut text, segment);
        }
        if let Some(query) = url.query().filter(|_| scheme != Scheme::File) {
            text.push_str("%3F");
            SEGMENT.push(&mut text, query);
        }
        within_limit(&text)?;
        let end = text.len();
        Ok(CanonicalUrl::from_parts(
            text, host_end, port, path_start, end,
        ))
    }
}

/// Appends `/` and a segment that is not `.` or `..`. Returns whether it held nothing that the
/// WHATWG parser should have seen first. A session's segment is dropped by the caller: a `..` behind it
/// would otherwise take the segment before it.
pub(super) fn push_segment(rules: &DropRules, out: &mut String, segment: &str) -> bool {
    out.push('/');
    let start = out.len();
    let met = SEGMENT.push(out, segment);
    // Cutting must not leave a dot segment, whose meaning would be another document.
    if met.semicolon && !out[start..].starts_with(".;") && !out[start..].starts_with("..;") {
        rules.cut_semicolon_parameters(out, start);
    }
    !met.parser_only
}

/// The name without the dot that stands for the root of DNS. A name of dots alone is none, and
/// several dots at the end cannot be resolved.
fn host_without_root_dot(url: &Url) -> Result<&str, CanonicalUrlError> {
    without_root_dot(url.host_str().ok_or(CanonicalUrlError::NoHost)?)
}

fn without_root_dot(host: &str) -> Result<&str, CanonicalUrlError> {
    let host = host.strip_suffix('.').unwrap_or(host);
    if host.is_empty() || host.ends_with('.') {
        return Err(CanonicalUrlError::NoHost);
    }
    Ok(host)
}

/// Without the characters that the WHATWG parser trims.
fn trimmed(text: &str) -> &str {
    text.trim_matches(|c: char| c <= ' ')
}

fn within_limit(text: &str) -> Result<(), CanonicalUrlError> {
    if text.len() > MAX_URL_BYTES {
        return Err(CanonicalUrlError::TooLong);
    }
    Ok(())
}

/// Does it start with two slashes, of either kind? Tabs and line ends do not count.
fn leads_to_another_host(href: &str) -> bool {
    let mut seen = trimmed(href)
        .bytes()
        .filter(|b| !matches!(b, b'\t' | b'\n' | b'\r'));
    let mut is_slash = || seen.next().is_some_and(|b| matches!(b, b'/' | b'\\'));
    is_slash() && is_slash()
}

/// Does a person mean a host where the parser would see a scheme, or none? Only a port follows a
/// host's colon, and a scheme is followed by something else.
fn lacks_scheme(text: &str) -> bool {
    if text.is_empty() {
        return false;
    }
    let end = text.find(['/', '?', '#', '\\']).unwrap_or(text.len());
    match text[..end].split_once(':') {
        None => true,
        Some(_) if text.starts_with('[') => true,
        Some((host, port)) => {
            !host.is_empty() && !port.is_empty() && port.bytes().all(|b| b.is_ascii_digit())
        }
    }
}

#[cfg(test)]
mod tests;
