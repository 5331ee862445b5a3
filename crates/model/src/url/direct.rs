//! The short way for everyday links: resolves a link against its page in one pass, without the
//! general parser. Takes only what it surely understands and leaves the rest (`None`) to the parser;
//! a property test holds the two ways to the same result.

use super::canonicalizer::push_segment;
use super::escape::escaped_byte;
use super::parameters::DropRules;
use super::{CanonicalUrl, MAX_URL_BYTES};

/// RFC 1035; longer names and labels are left to the parser.
const MAX_HOST_BYTES: usize = 253;
const MAX_LABEL_BYTES: usize = 63;

/// `href` is trimmed.
pub(super) fn resolve(rules: &DropRules, base: &CanonicalUrl, href: &str) -> Option<CanonicalUrl> {
    if !base.scheme().is_http() {
        return None;
    }
    let href = before(href, b'#');
    let (target, query) = match href.as_bytes().iter().position(|&b| b == b'?') {
        Some(at) => (&href[..at], Some(&href[at + 1..])),
        None => (href, None),
    };
    let mut draft = Draft {
        rules,
        // Room for a few escapes; a text of many is rare and may grow.
        text: String::with_capacity(base.as_str().len() + href.len() + 8),
        host_end: 0,
        port: base.port(),
        path_start: 0,
    };

    if let Some(path) = target.strip_prefix(base.origin()).filter(|p| is_rooted(p)) {
        draft.start_at(base);
        draft.push_path(path.get(1..).unwrap_or(""))?;
    } else if let Some(rest) = target.strip_prefix("https://") {
        draft.push_elsewhere("https://", 443, rest)?;
    } else if let Some(rest) = target.strip_prefix("http://") {
        draft.push_elsewhere("http://", 80, rest)?;
    } else if let Some(rest) = target.strip_prefix("//") {
        let (scheme, port) = if base.is_https() {
            ("https://", 443)
        } else {
            ("http://", 80)
        };
        draft.push_elsewhere(scheme, port, rest)?;
    } else if let Some(path) = target.strip_prefix('/') {
        draft.start_at(base);
        draft.push_path(path)?;
    } else if target.is_empty() {
        draft.start_at(base);
        draft.text.push_str(base.path());
        if query.is_none() {
            return Some(base.clone());
        }
    } else {
        // A colon in the first segment may end a scheme.
        if before(target, b'/').contains(':') {
            return None;
        }
        draft.start_at(base);
        let directory = base.path().rfind('/').unwrap_or(0);
        draft.text.push_str(&base.path()[..directory]);
        draft.push_path(target)?;
    }
    draft.finish(query)
}

struct Draft<'a> {
    rules: &'a DropRules,
    text: String,
    host_end: usize,
    port: u16,
    path_start: usize,
}

impl Draft<'_> {
    fn start_at(&mut self, base: &CanonicalUrl) {
        self.text.push_str(base.origin());
        self.path_start = self.text.len();
        self.host_end = self.path_start - (base.authority().len() - base.host().len());
    }

    /// Another host: `rest` is what follows the two slashes.
    fn push_elsewhere(&mut self, scheme: &str, port: u16, rest: &str) -> Option<()> {
        let host = before(rest, b'/');
        if !is_everyday_host(host) {
            return None;
        }
        self.text.push_str(scheme);
        self.text.push_str(host);
        self.port = port;
        self.host_end = self.text.len();
        self.path_start = self.text.len();
        self.push_path(rest.get(host.len() + 1..).unwrap_or(""))
    }

    /// Appends the segments of `path`, its leading slash left out, to the directories that are
    /// there.
    fn push_path(&mut self, path: &str) -> Option<()> {
        let mut segments = path.split('/').peekable();
        while let Some(segment) = segments.next() {
            let is_last = segments.peek().is_none();
            match dots(segment.as_bytes()) {
                0 => {
                    let start = self.text.len() + 1;
                    if !push_segment(self.rules, &mut self.text, segment)
                        || self.rules.drops_segment(&self.text[start..])
                    {
                        return None;
                    }
                    continue;
                }
                1 => {}
                _ => {
                    let parent = self.text[self.path_start..].rfind('/').unwrap_or(0);
                    self.text.truncate(self.path_start + parent);
                }
            }
            if is_last {
                self.text.push('/');
            }
        }
        Some(())
    }

    fn finish(mut self, query: Option<&str>) -> Option<CanonicalUrl> {
        let query_start = self.text.len();
        if let Some(query) = query {
            let met = self.rules.push_query(&mut self.text, query);
            if met.parser_only {
                return None;
            }
        }
        if self.text.len() > MAX_URL_BYTES {
            return None;
        }
        Some(CanonicalUrl::from_parts(
            self.text,
            self.host_end,
            self.port,
            self.path_start,
            query_start,
        ))
    }
}

/// The text up to the first `end`, or all of it.
fn before(text: &str, end: u8) -> &str {
    match text.as_bytes().iter().position(|&b| b == end) {
        Some(at) => &text[..at],
        None => text,
    }
}

fn is_rooted(path: &str) -> bool {
    path.is_empty() || path.starts_with('/')
}

/// 1 for `.`, 2 for `..`, each dot possibly written `%2e`; 0 for any other segment.
fn dots(segment: &[u8]) -> usize {
    let mut count = 0;
    let mut rest = segment;
    while let Some(&first) = rest.first() {
        if first == b'.' {
            rest = &rest[1..];
        } else if escaped_byte(rest) == Some(b'.') {
            rest = &rest[3..];
        } else {
            return 0;
        }
        count += 1;
    }
    if count <= 2 { count } else { 0 }
}

/// A plain name in lower case that no step of the parser changes or refuses: no escapes, no
/// Punycode (which has to be checked), no number at the end (which would be an IPv4 address).
fn is_everyday_host(host: &str) -> bool {
    if host.len() > MAX_HOST_BYTES {
        return false;
    }
    let mut last_starts_with = 0;
    for label in host.as_bytes().split(|&b| b == b'.') {
        let plain = !label.is_empty()
            && label.len() <= MAX_LABEL_BYTES
            && !label.starts_with(b"xn--")
            && label
                .iter()
                .all(|b| matches!(b, b'a'..=b'z' | b'0'..=b'9' | b'-' | b'_'));
        if !plain {
            return false;
        }
        last_starts_with = label[0];
    }
    last_starts_with.is_ascii_lowercase()
}
