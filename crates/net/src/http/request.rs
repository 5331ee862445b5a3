//! What is asked of a server: the origin to connect to and the request on the wire. It never
//! decides whether something may be asked.

use super::HttpSettings;
use data_encoding::BASE64;
pub use portolan_model::url::Scheme;
use std::fmt;

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
    /// Sent as User-Agent instead of what the settings say.
    pub user_agent: Option<&'a str>,
    /// Further fields. One with the name of a usual field (Accept, say) takes that one's place.
    pub extra: &'a [Field],
}

/// A header field that a person asked for.
#[derive(Clone, PartialEq, Eq)]
pub struct Field {
    pub name: String,
    pub value: String,
    /// The value is sent, but not shown: `Response::request_head` has the word `withheld` instead.
    pub withheld: bool,
}

impl fmt::Debug for Field {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.name, self.shown())
    }
}

impl Field {
    /// The value, for whoever else may look at it.
    fn shown(&self) -> &str {
        if self.withheld {
            "withheld"
        } else {
            &self.value
        }
    }
}

/// The value of an Authorization or Proxy-Authorization field for `user:password` (RFC 7617).
pub fn basic_credentials(user_and_password: &str) -> String {
    format!("Basic {}", BASE64.encode(user_and_password.as_bytes()))
}

/// For whom a request is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Reader {
    Server,
    /// Everybody else: values that are withheld are left out.
    Archive,
}

impl<'a> Request<'a> {
    pub fn get(path_and_query: &'a str) -> Self {
        Self {
            method: Method::Get,
            path_and_query,
            if_none_match: None,
            if_modified_since: None,
            referer: None,
            user_agent: None,
            extra: &[],
        }
    }

    pub fn head(path_and_query: &'a str) -> Self {
        Self {
            method: Method::Head,
            ..Self::get(path_and_query)
        }
    }

    /// Would the archive see something else than the server?
    pub(crate) fn withholds(&self) -> bool {
        self.extra.iter().any(|field| field.withheld)
    }

    /// All header fields besides Host and Connection, in the order sent. Values that would end the
    /// line early (they may come from a server's earlier answer) are left out.
    pub(crate) fn for_each_field(
        &self,
        settings: &HttpSettings,
        reader: Reader,
        mut field: impl FnMut(&str, &str),
    ) {
        let encodings = if settings.compression {
            "gzip, deflate, br, zstd"
        } else {
            "identity"
        };
        let agent = self.user_agent.unwrap_or(&settings.agent.user_agent);
        let fields = [
            ("User-Agent", Some(agent)),
            ("From", Some(settings.agent.contact.as_str())),
            ("Accept", Some(settings.accept.as_str())),
            ("Accept-Language", Some(settings.accept_language.as_str())),
            ("Accept-Encoding", Some(encodings)),
            ("Referer", self.referer),
            ("If-None-Match", self.if_none_match),
            ("If-Modified-Since", self.if_modified_since),
        ];
        let is_replaced = |name: &str| {
            let mut extra = self.extra.iter();
            extra.any(|field| field.name.eq_ignore_ascii_case(name))
        };
        let usual = fields.into_iter().filter(|(name, _)| !is_replaced(name));
        let extra = self.extra.iter().map(|field| match reader {
            Reader::Server => (field.name.as_str(), Some(field.value.as_str())),
            Reader::Archive => (field.name.as_str(), Some(field.shown())),
        });
        for (name, value) in usual.chain(extra) {
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
        reader: Reader,
    ) -> Vec<u8> {
        let mut head = Vec::with_capacity(512);
        head.extend_from_slice(self.method.name().as_bytes());
        head.push(b' ');
        push_target(&mut head, self.path_and_query);
        head.extend_from_slice(b" HTTP/1.1\r\nHost: ");
        push_target(&mut head, origin.authority());
        self.for_each_field(settings, reader, |name, value| {
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

    fn field(name: &str, value: &str) -> Field {
        Field {
            name: name.to_owned(),
            value: value.to_owned(),
            withheld: name == "Authorization",
        }
    }

    #[test]
    fn a_field_takes_the_usual_ones_place_and_a_secret_is_for_the_server_alone() {
        let secret = basic_credentials("Aladdin:open sesame");
        assert_eq!(secret, "Basic QWxhZGRpbjpvcGVuIHNlc2FtZQ==");
        let extra = [
            field("accept", "text/plain"),
            field("Authorization", &secret),
        ];
        let request = Request {
            user_agent: Some("other/1"),
            extra: &extra,
            ..Request::get("/")
        };
        assert!(request.withholds());
        let origin = Origin::new(Scheme::Https, "a.test", 443);
        let head = |reader| {
            let head = request.write_head(&origin, &HttpSettings::default(), true, reader);
            String::from_utf8(head).unwrap()
        };
        let sent = head(Reader::Server);
        assert!(
            sent.contains(&format!("\r\nAuthorization: {secret}\r\n")),
            "{sent}"
        );
        assert!(sent.contains("\r\naccept: text/plain\r\n") && !sent.contains("\r\nAccept:"));
        assert!(sent.contains("\r\nUser-Agent: other/1\r\n"), "{sent}");
        let kept = head(Reader::Archive);
        assert!(kept.contains("\r\nAuthorization: withheld\r\n"), "{kept}");
        assert!(!format!("{request:?}").contains("QWxh"));
    }

    #[test]
    fn nothing_can_be_smuggled_into_a_request() {
        let mut request = Request::get("/a b\r\nX: y");
        request.if_none_match = Some("\"x\"\r\nX-Smuggled: 1");
        request.if_modified_since = Some("Thu, 01 Jan 1970 00:00:00 GMT");
        let extra = [field("X-Good", "1"), field("X-Bad\r\n", "1")];
        request.extra = &extra;
        let origin = Origin::new(Scheme::Http, "a.test", 8080);
        let head = request.write_head(&origin, &HttpSettings::default(), true, Reader::Server);
        let head = String::from_utf8(head).unwrap();
        assert!(head.starts_with("GET /a%20b%0D%0AX:%20y HTTP/1.1\r\nHost: a.test:8080\r\n"));
        assert!(!head.contains("Smuggled") && !head.contains("X-Bad"));
        assert!(head.contains("\r\nX-Good: 1\r\n"));
        assert!(head.contains("\r\nIf-Modified-Since: Thu, 01 Jan 1970 00:00:00 GMT\r\n"));
        assert!(head.ends_with("\r\n\r\n"));
        assert_eq!(head.matches("\r\n\r\n").count(), 1);
    }
}
