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

impl Scheme {
    /// As it is written in a URL.
    pub fn name(self) -> &'static str {
        match self {
            Scheme::Http => "http",
            Scheme::Https => "https",
            Scheme::Ftp => "ftp",
            Scheme::Gopher => "gopher",
            Scheme::File => "file",
        }
    }

    /// The port where a URL names none; 0 for files, which have none.
    pub fn default_port(self) -> u16 {
        match self {
            Scheme::Http => 80,
            Scheme::Https => 443,
            Scheme::Ftp => 21,
            Scheme::Gopher => 70,
            Scheme::File => 0,
        }
    }

    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|scheme| scheme.name() == name)
    }

    pub fn is_http(self) -> bool {
        matches!(self, Scheme::Http | Scheme::Https)
    }

    const ALL: [Self; 5] = [
        Scheme::Http,
        Scheme::Https,
        Scheme::Ftp,
        Scheme::Gopher,
        Scheme::File,
    ];
}

impl fmt::Display for Scheme {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
