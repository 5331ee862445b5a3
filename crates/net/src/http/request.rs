//! What is asked of a server: the origin to connect to and the request on the wire. It never
//! decides whether something may be asked.

use super::HttpSettings;
use std::fmt;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Scheme {
    Http,
    Https,
}

impl Scheme {
    pub fn name(self) -> &'static str {
        match self {
            Scheme::Http => "http",
            Scheme::Https => "https",
        }
    }

    pub fn default_port(self) -> u16 {
        match self {
            Scheme::Http => 80,
            Scheme::Https => 443,
        }
    }
}

/// Scheme, host and port: what one connection serves.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Origin {
    pub scheme: Scheme,
    /// A name or an IP literal, without the brackets of IPv6.
    host: String,
    pub port: u16,
    /// As in the Host header: brackets where needed, port where it is not the default.
    authority: String,
}

impl Origin {
    /// `host` as in a URL: an IPv6 literal may have its brackets.
    pub fn new(scheme: Scheme, host: &str, port: u16) -> Self {
        let host = host
            .strip_prefix('[')
            .and_then(|inner| inner.strip_suffix(']'))
            .unwrap_or(host);
        let mut authority = if host.contains(':') {
            format!("[{host}]")
        } else {
            host.to_owned()
        };
        if port != scheme.default_port() {
            authority.push(':');
            authority.push_str(&port.to_string());
        }
        Self {
            scheme,
            host: host.to_owned(),
            port,
            authority,
        }
    }

    pub fn host(&self) -> &str {
        &self.host
    }

    pub fn authority(&self) -> &str {
        &self.authority
    }
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}://{}", self.scheme.name(), self.authority)
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Method {
    Get,
    Head,
}

impl Method {
    pub fn name(self) -> &'static str {
        match self {
            Method::Get => "GET",
            Method::Head => "HEAD",
        }
    }
}

/// One request to the origin that a connection was made for.
#[derive(Debug, Clone, Copy)]
pub struct Request<'a> {
    pub method: Method,
    /// Path with query, as in `/a/b?c=d`.
    pub path_and_query: &'a str,
    /// The ETag of what we have, as the server wrote it.
    pub if_none_match: Option<&'a str>,
    /// The Last-Modified of what we have, as the server wrote it.
    pub if_modified_since: Option<&'a str>,
    pub referer: Option<&'a str>,
    /// Further headers.
    pub extra: &'a [(&'a str, &'a str)],
}

impl<'a> Request<'a> {
    pub fn get(path_and_query: &'a str) -> Self {
        Self {
            method: Method::Get,
            path_and_query,
            if_none_match: None,
            if_modified_since: None,
            referer: None,
            extra: &[],
        }
    }

    pub fn head(path_and_query: &'a str) -> Self {
        Self {
            method: Method::Head,
            ..Self::get(path_and_query)
        }
    }

    /// All header fields besides Host and Connection, in the order sent. Values that would end the
    /// line early (they may come from a server's earlier answer) are left out.
    pub(crate) fn for_each_field(
        &self,
        settings: &HttpSettings,
        mut field: impl FnMut(&str, &str),
    ) {
        let encodings = if settings.accept_encoding {
            "gzip, deflate, br, zstd"
        } else {
            "identity"
        };
        let fields = [
            ("User-Agent", Some(settings.user_agent.as_str())),
            ("From", Some(settings.contact.as_str())),
            ("Accept", Some(settings.accept.as_str())),
            ("Accept-Language", Some(settings.accept_language.as_str())),
            ("Accept-Encoding", Some(encodings)),
            ("Referer", self.referer),
            ("If-None-Match", self.if_none_match),
            ("If-Modified-Since", self.if_modified_since),
        ];
        let extra = self.extra.iter().map(|&(name, value)| (name, Some(value)));
        for (name, value) in fields.into_iter().chain(extra) {
            let value = value.unwrap_or("");
            if !value.is_empty() && is_one_line(name) && is_one_line(value) {
                field(name, value);
            }
        }
    }

    /// The request head in HTTP/1.1 form. `Connection` belongs to HTTP/1.x alone.
    pub(crate) fn write_head(
        &self,
        origin: &Origin,
        settings: &HttpSettings,
        names_connection: bool,
    ) -> Vec<u8> {
        let mut head = Vec::with_capacity(512);
        head.extend_from_slice(self.method.name().as_bytes());
        head.push(b' ');
        push_target(&mut head, self.path_and_query);
        head.extend_from_slice(b" HTTP/1.1\r\nHost: ");
        push_target(&mut head, origin.authority());
        self.for_each_field(settings, |name, value| {
            head.extend_from_slice(b"\r\n");
            head.extend_from_slice(name.as_bytes());
            head.extend_from_slice(b": ");
            head.extend_from_slice(value.as_bytes());
        });
        if names_connection {
            // HTTP/1.0 servers keep a connection only when asked to.
            head.extend_from_slice(b"\r\nConnection: keep-alive");
        }
        head.extend_from_slice(b"\r\n\r\n");
        head
    }
}

fn is_one_line(text: &str) -> bool {
    !text.bytes().any(|b| matches!(b, b'\r' | b'\n' | 0))
}

/// What could end the request line early is percent-encoded, whoever wrote the URL.
pub(crate) fn push_target(out: &mut Vec<u8>, text: &str) {
    for &byte in text.as_bytes() {
        if byte <= b' ' || byte == 0x7f {
            const HEX: &[u8; 16] = b"0123456789ABCDEF";
            out.extend_from_slice(&[
                b'%',
                HEX[usize::from(byte >> 4)],
                HEX[usize::from(byte & 15)],
            ]);
        } else {
            out.push(byte);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn authorities_have_brackets_and_ports_where_needed() {
        let origin = |scheme, host, port| Origin::new(scheme, host, port).to_string();
        assert_eq!(origin(Scheme::Http, "a.test", 80), "http://a.test");
        assert_eq!(origin(Scheme::Http, "a.test", 443), "http://a.test:443");
        assert_eq!(origin(Scheme::Https, "[::1]", 443), "https://[::1]");
        assert_eq!(Origin::new(Scheme::Https, "[::1]", 1).host(), "::1");
        assert_eq!(origin(Scheme::Https, "::1", 1), "https://[::1]:1");
    }

    #[test]
    fn nothing_can_be_smuggled_into_a_request() {
        let mut request = Request::get("/a b\r\nX: y");
        request.if_none_match = Some("\"x\"\r\nX-Smuggled: 1");
        request.if_modified_since = Some("Thu, 01 Jan 1970 00:00:00 GMT");
        request.extra = &[("X-Good", "1"), ("X-Bad\r\n", "1")];
        let origin = Origin::new(Scheme::Http, "a.test", 8080);
        let head = request.write_head(&origin, &HttpSettings::default(), true);
        let head = String::from_utf8(head).unwrap();
        assert!(head.starts_with("GET /a%20b%0D%0AX:%20y HTTP/1.1\r\nHost: a.test:8080\r\n"));
        assert!(!head.contains("Smuggled") && !head.contains("X-Bad"));
        assert!(head.contains("\r\nX-Good: 1\r\n"));
        assert!(head.contains("\r\nIf-Modified-Since: Thu, 01 Jan 1970 00:00:00 GMT\r\n"));
        assert!(head.ends_with("\r\n\r\n"));
        assert_eq!(head.matches("\r\n\r\n").count(), 1);
    }
}
