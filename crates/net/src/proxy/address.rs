//! A proxy's URL: what it speaks, where it is, and who we say that we are.

use crate::http::basic_credentials;
use std::fmt;
use std::net::{SocketAddr, ToSocketAddrs};
use thiserror::Error;

/// Where a URL names no port; as in curl.
const DEFAULT_PORT: u16 = 1080;
const DEFAULT_TLS_PORT: u16 = 443;

/// A proxy that cannot be used, in one sentence without its password.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("{0}")]
pub struct ProxyError(pub(crate) String);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Http,
    /// HTTP, and the way to the proxy is TLS.
    Https,
    Socks5,
}

#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Proxy {
    pub(crate) kind: Kind,
    /// Without the brackets of IPv6.
    pub(crate) host: String,
    pub(crate) port: u16,
    /// User and password.
    pub(crate) credentials: Option<(String, String)>,
    /// The URL says that the proxy is to resolve names (`socks5h`).
    pub(crate) wants_names: bool,
    /// The proxy's own, once they were looked up.
    pub(crate) addresses: Vec<SocketAddr>,
}

/// Without the password.
impl fmt::Debug for Proxy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")
    }
}

impl fmt::Display for Proxy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let scheme = match (self.kind, self.wants_names) {
            (Kind::Http, _) => "http",
            (Kind::Https, _) => "https",
            (Kind::Socks5, false) => "socks5",
            (Kind::Socks5, true) => "socks5h",
        };
        match self.host.contains(':') {
            true => write!(f, "{scheme}://[{}]:{}", self.host, self.port),
            false => write!(f, "{scheme}://{}:{}", self.host, self.port),
        }
    }
}

impl Proxy {
    /// `[SCHEME://][USER:PASSWORD@]HOST[:PORT]`; without a scheme it is an HTTP proxy.
    pub(crate) fn parse(url: &str) -> Result<Self, ProxyError> {
        let wrong = |what: &str| {
            // The text may hold a password: all before the last '@' is left out.
            let shown = url.rsplit('@').next().unwrap_or_default();
            ProxyError(format!("the proxy '{shown}' {what}"))
        };
        let (scheme, rest) = url.split_once("://").unwrap_or(("http", url));
        let (kind, wants_names) = match scheme.to_ascii_lowercase().as_str() {
            "http" => (Kind::Http, false),
            "https" => (Kind::Https, false),
            "socks5" => (Kind::Socks5, false),
            "socks5h" => (Kind::Socks5, true),
            _ => {
                return Err(wrong(
                    "must begin with http://, https://, socks5:// or socks5h://",
                ));
            }
        };
        let (user, place) = match rest.rsplit_once('@') {
            Some((user, place)) => (Some(user), place),
            None => (None, rest),
        };
        let place = place.strip_suffix('/').unwrap_or(place);
        let (host, port) = match place.rsplit_once(':') {
            Some((host, port)) if !place.ends_with(']') => {
                let port = port.parse().ok().filter(|&port| port != 0);
                (
                    host,
                    port.ok_or_else(|| wrong("has no port that there is"))?,
                )
            }
            _ if kind == Kind::Https => (place, DEFAULT_TLS_PORT),
            _ => (place, DEFAULT_PORT),
        };
        let host = host.trim_start_matches('[').trim_end_matches(']');
        if host.is_empty() || host.contains(['/', '?', '#', ' ']) {
            return Err(wrong("must be written as in http://proxy.example.org:3128"));
        }
        let credentials = user.map(|user| {
            let (user, password) = user.split_once(':').unwrap_or((user, ""));
            (decoded(user), decoded(password))
        });
        if let Some((user, password)) = &credentials {
            let is_odd = |text: &str| text.len() > 255 || text.bytes().any(|b| b < 0x20);
            if user.is_empty() || is_odd(user) || is_odd(password) {
                return Err(wrong("has a user or a password that cannot be sent"));
            }
        }
        Ok(Self {
            kind,
            host: host.to_owned(),
            port,
            credentials,
            wants_names,
            addresses: Vec::new(),
        })
    }

    /// Looks the proxy's own name up, once: it is what a person named, so no guard is asked.
    pub(crate) fn located(mut self) -> Result<Self, ProxyError> {
        let addresses = (self.host.as_str(), self.port).to_socket_addrs();
        let addresses = addresses.map_err(|e| ProxyError(format!("the proxy {self}: {e}")))?;
        self.addresses = addresses.collect();
        Ok(self)
    }

    /// The value of a Proxy-Authorization field.
    pub(crate) fn authorization(&self) -> Option<String> {
        let (user, password) = self.credentials.as_ref()?;
        Some(basic_credentials(&format!("{user}:{password}")))
    }
}

/// Without percent-encoding; what is no UTF-8 then stays as it was.
fn decoded(text: &str) -> String {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((&first, after)) = rest.split_first() {
        let hex = after.get(..2).filter(|_| first == b'%');
        let hex = hex.and_then(|hex| std::str::from_utf8(hex).ok());
        match hex.and_then(|hex| u8::from_str_radix(hex, 16).ok()) {
            Some(byte) => {
                bytes.push(byte);
                rest = &after[2..];
            }
            None => {
                bytes.push(first);
                rest = after;
            }
        }
    }
    String::from_utf8(bytes).unwrap_or_else(|_| text.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_of_proxies_are_read_as_curl_reads_them() {
        let of = |url: &str| Proxy::parse(url).expect(url);
        let plain = of("proxy.test");
        assert_eq!((plain.kind, plain.port), (Kind::Http, 1080));
        assert_eq!(of("http://proxy.test:3128/").port, 3128);
        assert_eq!(of("https://proxy.test").port, 443);
        let socks = of("socks5h://al%3Aice:p%40ss@[::1]:9050");
        assert_eq!((socks.host.as_str(), socks.port), ("::1", 9050));
        assert_eq!(socks.credentials, Some(("al:ice".into(), "p@ss".into())));
        assert!(socks.wants_names && !of("socks5://a.test").wants_names);
        assert_eq!(format!("{socks:?}"), "socks5h://[::1]:9050");
    }

    #[test]
    fn mistakes_are_told_without_the_password() {
        for url in [
            "socks4://u:s3cret@a.test",
            "http://u:s3cret@a.test:0",
            "http://u:s3cret@",
            "http://:s3cret@a.test:1",
            "http://u:s3cret@a.test/path",
        ] {
            let said = Proxy::parse(url).expect_err(url).to_string();
            assert!(
                said.starts_with("the proxy ") && !said.contains("s3cret"),
                "{said}"
            );
        }
    }
}
