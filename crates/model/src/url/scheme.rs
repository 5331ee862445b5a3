//! The schemes that can be crawled.

use serde::{Deserialize, Serialize};
use std::fmt;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Scheme {
    Http,
    Https,
    Ftp,
    Gopher,
    /// Files of this machine. Their host is called `localhost` (RFC 8089).
    File,
}

/// What everybody but the net room must know of a protocol.
struct Protocol {
    scheme: Scheme,
    name: &'static str,
    default_port: u16,
    /// Whose pauses its servers keep.
    rest: Rest,
}

/// Who is left alone after a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Rest {
    /// The Web's servers of the host, whatever their schemes and ports.
    Web,
    /// The servers of this protocol on the host. They fail and answer apart from the host's Web servers.
    Own,
    /// Nobody: it is this machine.
    Nobody,
}

/// All protocols, in the order of `Scheme`. `portolan_net::other` has who speaks them.
const PROTOCOLS: [Protocol; 5] = [
    row(Scheme::Http, "http", 80, Rest::Web),
    row(Scheme::Https, "https", 443, Rest::Web),
    row(Scheme::Ftp, "ftp", 21, Rest::Own),
    row(Scheme::Gopher, "gopher", 70, Rest::Own),
    row(Scheme::File, "file", 0, Rest::Nobody),
];

const fn row(scheme: Scheme, name: &'static str, default_port: u16, rest: Rest) -> Protocol {
    Protocol {
        scheme,
        name,
        default_port,
        rest,
    }
}

impl Scheme {
    fn protocol(self) -> &'static Protocol {
        &PROTOCOLS[self as usize]
    }

    /// As it is written in a URL.
    pub fn name(self) -> &'static str {
        self.protocol().name
    }

    /// The port where a URL names none; 0 for files, which have none.
    pub fn default_port(self) -> u16 {
        self.protocol().default_port
    }

    pub fn from_name(name: &str) -> Option<Self> {
        let row = PROTOCOLS.iter().find(|row| row.name == name);
        row.map(|row| row.scheme)
    }

    pub fn is_http(self) -> bool {
        self.protocol().rest == Rest::Web
    }

    /// Are its documents on this machine, so that nothing is resolved or connected to, and nobody needs a rest?
    pub fn is_of_this_machine(self) -> bool {
        self.protocol().rest == Rest::Nobody
    }
}

/// By what the server of a canonical URL is left alone after a request: the host's name for the Web, whatever the port
/// and the scheme, and `ftp://HOST` and the like for other protocols, whose servers answer and fail apart from the
/// host's Web servers. A part of the URL.
#[inline]
pub fn politeness_key(url: &str) -> &str {
    // Once a link: plain loops over bytes, as all delimiters are ASCII.
    let bytes = url.as_bytes();
    let (key_start, host_start) = if bytes.starts_with(b"https://") {
        (8, 8)
    } else if bytes.starts_with(b"http://") {
        (7, 7)
    } else {
        let at = bytes.windows(3).position(|three| three == b"://");
        (0, at.map_or(0, |at| at + 3))
    };
    let rest = &bytes[host_start..];
    let ends_authority = |byte: &u8| matches!(byte, b'/' | b'?' | b'#');
    let length = if rest.first() == Some(&b'[') {
        rest.iter().position(|&byte| byte == b']').map(|at| at + 1)
    } else {
        rest.iter()
            .position(|byte| *byte == b':' || ends_authority(byte))
    };
    &url[key_start..host_start + length.unwrap_or(rest.len())]
}

/// The host's name in a politeness key.
pub fn host_of_key(key: &str) -> &str {
    key.split_once("://").map_or(key, |(_, host)| host)
}

/// All politeness keys that a host's name may be in.
pub fn keys_of_host(host: &str) -> impl Iterator<Item = String> {
    let others = PROTOCOLS.iter().filter(|row| row.rest != Rest::Web);
    let others = others.map(move |row| format!("{}://{host}", row.name));
    std::iter::once(host.to_owned()).chain(others)
}

impl fmt::Display for Scheme {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_is_in_the_order_of_the_schemes() {
        for (place, row) in PROTOCOLS.iter().enumerate() {
            assert_eq!(row.scheme as usize, place);
            assert_eq!(Scheme::from_name(row.name), Some(row.scheme));
        }
        assert_eq!(Scheme::from_name("mailto"), None);
    }

    #[test]
    fn each_protocol_has_a_politeness_key_of_its_own() {
        for (url, key, host) in [
            ("https://a.test/x?y:z", "a.test", "a.test"),
            ("http://a.test:8080/", "a.test", "a.test"),
            ("http://a.test?q", "a.test", "a.test"),
            ("http://[::1]:80/x", "[::1]", "[::1]"),
            ("ftp://a.test/x", "ftp://a.test", "a.test"),
            ("ftp://a.test:2121/x", "ftp://a.test", "a.test"),
            ("gopher://[::1]:7070/1", "gopher://[::1]", "[::1]"),
            ("file://localhost/srv", "file://localhost", "localhost"),
        ] {
            assert_eq!(politeness_key(url), key, "{url}");
            assert_eq!(host_of_key(key), host);
            assert!(keys_of_host(host).any(|known| known == key));
        }
    }
}
