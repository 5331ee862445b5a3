//! A URL in canonical form: its text and where its parts begin. How a text gets here is the
//! canonicalizer's business.

use super::{CanonicalUrlError, MAX_URL_BYTES, Scheme, surt};
use crate::{DocId, HostId, Identities};
use std::cmp::Ordering;
use std::fmt;
use std::hash::{Hash, Hasher};

/// A URL in canonical form: of a `Scheme`, no fragment, no user name, and only one spelling.
///
/// Holds one string and four offsets: parts are slices, and cloning copies one string.
#[derive(Clone)]
pub struct CanonicalUrl {
    text: String,
    host_end: u32,
    path_start: u32,
    /// Of the `?`, or the length where there is no query.
    query_start: u32,
    port: u16,
}

impl CanonicalUrl {
    /// For text that came out of `as_str` or `into_string` before, as from the registry. Checks the
    /// structure (scheme, host, port, path), not the spelling; text from elsewhere needs a
    /// `Canonicalizer`.
    pub fn from_canonical(text: String) -> Result<Self, CanonicalUrlError> {
        Self::from_structure(text).ok_or(CanonicalUrlError::NotCanonical)
    }

    /// The parts as the canonicalizer laid them down: `path_start` behind the authority,
    /// `query_start` at the `?` or at the end.
    pub(super) fn from_parts(
        text: String,
        host_end: usize,
        port: u16,
        path_start: usize,
        query_start: usize,
    ) -> Self {
        debug_assert!(text.len() <= MAX_URL_BYTES);
        Self {
            text,
            // MAX_URL_BYTES keeps all of them far within u32.
            host_end: host_end as u32,
            path_start: path_start as u32,
            query_start: query_start as u32,
            port,
        }
    }

    pub fn as_str(&self) -> &str {
        &self.text
    }

    pub fn into_string(self) -> String {
        self.text
    }

    pub fn scheme(&self) -> Scheme {
        let text = self.text.as_bytes();
        match text[0] {
            b'h' if text[4] == b's' => Scheme::Https,
            b'h' => Scheme::Http,
            b'g' => Scheme::Gopher,
            _ if text[1] == b't' => Scheme::Ftp,
            _ => Scheme::File,
        }
    }

    pub fn is_https(&self) -> bool {
        self.text.as_bytes()[4] == b's'
    }

    /// The host name without port; an IPv6 address is in brackets.
    pub fn host(&self) -> &str {
        &self.text[self.authority_start()..self.host_end as usize]
    }

    /// The port to connect to, also where the URL leaves it out.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Host and port, the scheme's own port left out.
    pub fn authority(&self) -> &str {
        &self.text[self.authority_start()..self.path_start as usize]
    }

    /// Scheme, host and port, as in `https://example.org:8443`; the scheme's own port left out.
    pub fn origin(&self) -> &str {
        &self.text[..self.path_start as usize]
    }

    pub fn path(&self) -> &str {
        &self.text[self.path_start as usize..self.query_start as usize]
    }

    /// Without the `?`; never empty.
    pub fn query(&self) -> Option<&str> {
        self.text.get(self.query_start as usize + 1..)
    }

    /// What goes on the request line.
    pub fn path_and_query(&self) -> &str {
        &self.text[self.path_start as usize..]
    }

    /// Which document it is in the crawl with these identities.
    pub fn doc_id(&self, ids: &Identities) -> DocId {
        ids.doc(&self.text)
    }

    /// By what its server is left alone after a request: see [`politeness_key`](super::politeness_key).
    pub fn politeness_key(&self) -> &str {
        match self.scheme().is_http() {
            true => self.host(),
            false => &self.text[..self.host_end as usize],
        }
    }

    /// Which server it is on in the crawl with these identities, by its politeness key.
    pub fn host_id(&self, ids: &Identities) -> HostId {
        ids.host(self.politeness_key())
    }

    /// The part of the host name that somebody registered, by the public suffix list. An IP
    /// address, or a name that is itself a public suffix, stands for itself.
    pub fn registrable_domain(&self) -> &str {
        registrable_domain(self.host())
    }

    /// Directories above the document: 0 for `/` and `/a.html`, 2 for `/a/b/` and `/a/b/c`.
    pub fn directory_depth(&self) -> usize {
        self.path().bytes().filter(|&b| b == b'/').count() - 1
    }

    /// The key of this URL in a CDXJ index, as `cdxj-indexer` and `pywb` make it. Coarser than the
    /// canonical form: `www.`, letter case and parameter order do not count there.
    pub fn surt(&self) -> String {
        surt::surt(self)
    }

    fn authority_start(&self) -> usize {
        match self.scheme() {
            Scheme::Http | Scheme::File => "http://".len(),
            Scheme::Https => "https://".len(),
            Scheme::Ftp => "ftp://".len(),
            Scheme::Gopher => "gopher://".len(),
        }
    }

    fn from_structure(text: String) -> Option<Self> {
        if text.len() > MAX_URL_BYTES || !text.bytes().all(|b| b.is_ascii_graphic() && b != b'#') {
            return None;
        }
        let (authority_start, default_port) = default_port_of(&text)?;
        let path_start = authority_start + text[authority_start..].find('/')?;
        let authority = &text[authority_start..path_start];
        let name_end = match authority.strip_prefix('[') {
            Some(rest) => rest.find(']')? + 2,
            None => authority.find(':').unwrap_or(authority.len()),
        };
        let port = match authority[name_end..].strip_prefix(':') {
            None if name_end == authority.len() => default_port,
            None => return None,
            // Written out means that it is not the default one.
            Some(digits) => digits.parse().ok().filter(|&port| port != default_port)?,
        };
        if name_end == 0 || authority.contains(['@', '?']) {
            return None;
        }
        let query_start = text[path_start..]
            .find('?')
            .map_or(text.len(), |at| path_start + at);
        if query_start + 1 == text.len() {
            return None;
        }
        Some(Self::from_parts(
            text,
            authority_start + name_end,
            port,
            path_start,
            query_start,
        ))
    }
}

/// Where the authority starts, and the port that the scheme implies.
fn default_port_of(text: &str) -> Option<(usize, u16)> {
    let (name, rest) = text.split_once(':')?;
    let scheme = Scheme::from_name(name).filter(|_| rest.starts_with("//"))?;
    Some((name.len() + "://".len(), scheme.default_port()))
}

/// Can nobody own this name, as with `co.uk` and `github.io`, or is it a single label? By the public suffix list.
pub fn is_public_suffix(name: &str) -> bool {
    psl::domain_str(name).is_none()
}

fn registrable_domain(host: &str) -> &str {
    // WHATWG hosts whose last label is a number are IPv4 addresses, without exception. A name that
    // starts with a dot is nobody's.
    let last_label = host.rsplit('.').next().unwrap_or(host);
    if host.starts_with(['[', '.']) || last_label.bytes().all(|b| b.is_ascii_digit()) {
        return host;
    }
    psl::domain_str(host).unwrap_or(host)
}

impl PartialEq for CanonicalUrl {
    fn eq(&self, other: &Self) -> bool {
        // The offsets follow from the text.
        self.text == other.text
    }
}

impl Eq for CanonicalUrl {}

impl PartialOrd for CanonicalUrl {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for CanonicalUrl {
    fn cmp(&self, other: &Self) -> Ordering {
        self.text.cmp(&other.text)
    }
}

impl Hash for CanonicalUrl {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.text.hash(state);
    }
}

impl AsRef<str> for CanonicalUrl {
    fn as_ref(&self) -> &str {
        &self.text
    }
}

impl fmt::Display for CanonicalUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl fmt::Debug for CanonicalUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "<{}>", self.text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Canonicalizer;

    fn url(text: &str) -> CanonicalUrl {
        CanonicalUrl::from_canonical(text.to_owned()).expect("canonical in this test")
    }

    #[test]
    fn parts_are_where_they_should_be() {
        let u = url("https://www.example.co.uk:8443/a/b/c.html?x=1&y=?z");
        assert_eq!((u.scheme(), u.is_https()), (Scheme::Https, true));
        assert_eq!((u.host(), u.port()), ("www.example.co.uk", 8443));
        assert_eq!(u.authority(), "www.example.co.uk:8443");
        assert_eq!(u.origin(), "https://www.example.co.uk:8443");
        assert_eq!(u.path(), "/a/b/c.html");
        assert_eq!(u.query(), Some("x=1&y=?z"));
        assert_eq!(u.path_and_query(), "/a/b/c.html?x=1&y=?z");
        assert_eq!(u.registrable_domain(), "example.co.uk");
        assert_eq!(u.directory_depth(), 2);
        let ids = Identities::PUBLIC;
        assert_eq!(u.doc_id(&ids), ids.doc(u.as_str()));
        assert_eq!(u.host_id(&ids), ids.host("www.example.co.uk"));

        let u = url("http://[::1]/");
        assert_eq!(
            (u.scheme(), u.host(), u.port()),
            (Scheme::Http, "[::1]", 80)
        );
        assert_eq!((u.authority(), u.path(), u.query()), ("[::1]", "/", None));
        assert_eq!((u.registrable_domain(), u.directory_depth()), ("[::1]", 0));
    }

    #[test]
    fn names_that_nobody_registered_stand_for_themselves() {
        for (host, domain) in [
            ("192.0.2.7", "192.0.2.7"),
            ("localhost", "localhost"),
            ("co.uk", "co.uk"),
            ("github.io", "github.io"),
            ("a.b.github.io", "b.github.io"),
            ("h1.simweb.test", "simweb.test"),
            ("xn--85x722f.xn--55qx5d.cn", "xn--85x722f.xn--55qx5d.cn"),
        ] {
            assert_eq!(
                url(&format!("http://{host}/")).registrable_domain(),
                domain,
                "{host}"
            );
        }
    }

    #[test]
    fn from_canonical_takes_what_the_canonicalizer_made() {
        for text in [
            "http://example.org/",
            "https://example.org:80/x?y",
            "http://[2001:db8::1]:8080/a%20b?c",
            "http://1.2.3.4/",
        ] {
            let made = Canonicalizer::default().parse(text).expect("a URL");
            let read = url(text);
            assert_eq!(made.as_str(), text);
            assert_eq!(
                (made.host(), made.port(), made.path(), made.query()),
                (read.host(), read.port(), read.path(), read.query())
            );
        }
    }

    #[test]
    fn from_canonical_refuses_other_structures() {
        for text in [
            "",
            "http",
            "ftps://example.org/",
            "ftp:/example.org/",
            "http://",
            "http:///",
            "http://example.org",
            "http://example.org/?",
            "http://example.org/#x",
            "http://example.org:80/",
            "http://example.org:/",
            "http://example.org:99999/",
            "http://[::1/",
            "http://[::1]x/",
            "http://me@example.org/",
            "http://example.org?x/",
            "http://example.org/a b",
            "http://example.org/ä",
        ] {
            assert_eq!(
                CanonicalUrl::from_canonical(text.to_owned()),
                Err(CanonicalUrlError::NotCanonical),
                "{text}"
            );
        }
    }
}
