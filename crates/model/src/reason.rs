//! Why a URL was not fetched, or was asked for and did not become a document.

use std::fmt;

/// What a reason implies for the URL that has it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Cause {
    /// Excluded by settings alone, before anything was asked of the server.
    Settings,
    /// Excluded when its turn came.
    Turn,
    /// Asked for, in vain.
    Answer,
    /// Fetched, but not kept as a document.
    Content,
}

macro_rules! reasons {
    ($($cause:ident {
        $($(#[$doc:meta])* $name:ident = $number:literal, $word:literal, $sentence:literal;)*
    })*) => {
        /// Recorded with every URL that is neither visited nor due. The numbers are written to
        /// disk: append, never renumber.
        #[derive(Clone, Copy, PartialEq, Eq, Debug, Hash, PartialOrd, Ord)]
        #[repr(u8)]
        pub enum Reason {
            $($($(#[$doc])* $name = $number,)*)*
        }

        // On disk 0 says that there is none.
        $($(const _: () = assert!(Reason::$name as u8 != 0);)*)*

        impl Reason {
            pub const ALL: &'static [Reason] = &[$($(Reason::$name,)*)*];

            pub fn from_u8(value: u8) -> Option<Self> {
                match value {
                    $($($number => Some(Reason::$name),)*)*
                    _ => None,
                }
            }

            /// When it was that the URL was given up, and by whom.
            pub const fn cause(self) -> Cause {
                match self {
                    $($(Reason::$name)|* => Cause::$cause,)*
                }
            }

            /// A short name for tables and JSON.
            pub const fn name(self) -> &'static str {
                match self {
                    $($(Reason::$name => $word,)*)*
                }
            }

            /// A sentence for a person.
            pub const fn sentence(self) -> &'static str {
                match self {
                    $($(Reason::$name => $sentence,)*)*
                }
            }
        }
    };
}

reasons! {
    Settings {
        OutOfScope = 1, "scope", "it is outside the crawl's scope";
        ExcludeRule = 2, "exclude-rule", "an exclude rule matches it";
        NotIncluded = 3, "not-included", "no include rule matches it";
        SiteShutOut = 4, "site-shut-out", "its site is shut out";
        DirectoryDepth = 5, "directory-depth", "its directories are nested too deep";
        LinkDepth = 6, "link-depth", "it is too many links away from a seed";
        UrlLength = 7, "url-length", "its URL is too long";
        RepeatedSegments = 8, "repeated-segments", "its path repeats the same segment too often";
        QueryRule = 9, "query-rule", "its query breaks a rule";
        ReservedUrlText = 10, "reserved-url-text", "its URL contains a reserved string";
        NotFetchable = 11, "not-fetchable", "its scheme or port cannot be crawled";
        ContentTypeByName = 12, "unwanted-extension", "its name says that its content type is not wanted";
        NoFollow = 13, "nofollow", "only links marked nofollow point at it";
        HostBudget = 14, "host-budget", "its host has used up its budget of pages";
        Port = 15, "port", "its port is that of another service, not of a Web server";
        EmbedsOff = 16, "embeds-off", "pages embed it, and content.embeds is off";
        SitemapsOff = 17, "sitemaps-off", "it is a sitemap, and robots.sitemaps is off";
        SitemapDepth = 28, "sitemap-depth", "it is named by sitemap indexes that are nested too deep";
        WaitsForItsShare = 29, "waits-for-its-share", "it is new, and waits for the share of the rate that new pages have";
    }
    Turn {
        Robots = 32, "robots", "robots.txt forbids it";
        RobotsUnreachable = 33, "robots-unreachable", "robots.txt of its host could not be read, so nothing may be fetched there";
        PrivateAddress = 34, "private-address", "its host resolves to a private address that nobody named";
    }
    Answer {
        Dns = 64, "dns", "its host name could not be resolved";
        Connect = 65, "connect", "no connection to its host could be made";
        Tls = 66, "tls", "the TLS handshake failed";
        Timeout = 67, "timeout", "the server did not answer in time";
        BrokenHttp = 68, "broken-http", "the answer was not HTTP";
        ConnectionLost = 69, "connection-lost", "the connection was lost before the answer began";
        HttpClientError = 70, "http-4xx", "the server answered with a client error";
        HttpServerError = 71, "http-5xx", "the server answered with a server error";
        TooManyRequests = 72, "too-many-requests", "the server asked for fewer requests";
        HostDown = 73, "host-down", "its host failed for too long";
        BadRedirect = 74, "bad-redirect", "it redirects to nowhere";
        TooManyRedirects = 75, "too-many-redirects", "it is at the end of too many redirects";
        UnknownHost = 76, "unknown-host", "the DNS says that its host does not exist";
        Unavailable = 77, "unavailable", "the server said that it is unavailable for now";
        TlsExpired = 78, "tls-expired", "its server's certificate has expired, or is not valid yet";
        TlsSelfSigned = 79, "tls-self-signed", "its server signed its certificate itself";
        TlsUnknownIssuer = 80, "tls-unknown-issuer", "nobody who is trusted signed its server's certificate";
        TlsWrongHost = 81, "tls-wrong-host", "its server's certificate is for another host";
    }
    Content {
        ContentType = 96, "content-type", "its content type is not wanted";
        ReservedText = 98, "reserved-text", "the page contains a reserved string";
        NoArchive = 99, "noarchive", "the page asks not to be archived";
    }
}

// Registries of every version agree on what other settings may lift.
const _: () = {
    let mut at = 0;
    while at < Reason::ALL.len() {
        let reason = Reason::ALL[at];
        assert!(reason.is_liftable() == ((reason as u8) < Reason::Robots as u8));
        at += 1;
    }
};

impl Reason {
    /// Settings alone decided so, before anything was asked of the server: a later link, or other settings, may lift it.
    pub const fn is_liftable(self) -> bool {
        matches!(self.cause(), Cause::Settings)
    }

    /// The host could not be reached at all, so that no URL was asked for.
    pub fn is_before_asking(self) -> bool {
        matches!(
            self,
            Reason::Dns
                | Reason::UnknownHost
                | Reason::Connect
                | Reason::Tls
                | Reason::TlsExpired
                | Reason::TlsSelfSigned
                | Reason::TlsUnknownIssuer
                | Reason::TlsWrongHost
        )
    }

    /// The server is busy or closed for now, and says so itself. That is never a page's failure.
    pub fn is_wish_for_rest(self) -> bool {
        matches!(self, Reason::TooManyRequests | Reason::Unavailable)
    }

    /// The reason of a name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL
            .iter()
            .copied()
            .find(|reason| reason.name() == name)
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_round_trip_and_names_are_distinct() {
        let mut names = std::collections::HashSet::new();
        for &reason in Reason::ALL {
            assert_eq!(Reason::from_u8(reason as u8), Some(reason));
            assert_eq!(Reason::from_name(reason.name()), Some(reason));
            assert!(names.insert(reason.name()));
        }
        assert_eq!(Reason::from_u8(0), None);
    }
}
