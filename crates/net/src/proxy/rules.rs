//! Which proxy a server is asked through, if any: what a person named, or what the environment says, as in curl.

use super::address::{Proxy, ProxyError};
use crate::http::{Origin, Scheme};
use crate::network::Network;
use std::net::IpAddr;
use std::sync::Arc;

/// The proxies of a crawl, and who is asked without one.
#[derive(Debug, Clone, Default)]
pub struct Proxies {
    http: Option<Arc<Proxy>>,
    https: Option<Arc<Proxy>>,
    without: Vec<Without>,
    resolves: bool,
}

/// Hosts that need no proxy.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Without {
    All,
    /// That name and every name below it.
    Name(String),
    Network(Network),
}

impl Proxies {
    /// All servers are asked through the proxy at `url`.
    pub fn of_url(url: &str) -> Result<Self, ProxyError> {
        let proxy = Some(Arc::new(Proxy::parse(url)?));
        Ok(Self {
            http: proxy.clone(),
            https: proxy,
            ..Self::default()
        })
    }

    /// `http_proxy` (in lower case only, for a server may set the other one), `https_proxy` and `all_proxy`, these
    /// also in upper case, and in lower case first. A variable that is empty is not there.
    pub fn from_environment(variable: impl Fn(&str) -> Option<String>) -> Result<Self, ProxyError> {
        let of = |names: &[&str]| {
            let mut found = names.iter().filter_map(|name| variable(name));
            found.find(|value| !value.is_empty())
        };
        let parse = |url: Option<String>| url.map(|url| Proxy::parse(&url)).transpose();
        let http = parse(of(&["http_proxy", "all_proxy", "ALL_PROXY"]))?;
        let https = of(&["https_proxy", "HTTPS_PROXY", "all_proxy", "ALL_PROXY"]);
        Ok(Self {
            http: http.map(Arc::new),
            https: parse(https)?.map(Arc::new),
            ..Self::default()
        })
    }

    /// But not the hosts of `list`: names, which stand for those below them too, addresses and blocks of them, between commas
    /// or blanks. `*` is everybody.
    #[must_use]
    pub fn without(mut self, list: &str) -> Self {
        let entries = list
            .split([',', ' ', '\t'])
            .filter(|entry| !entry.is_empty());
        self.without.extend(entries.map(|entry| {
            let bare = entry.trim_start_matches('[').trim_end_matches(']');
            if entry == "*" {
                Without::All
            } else if let Ok(network) = bare.parse() {
                Without::Network(network)
            } else {
                let name = entry.trim_start_matches('.').trim_end_matches('.');
                Without::Name(name.to_ascii_lowercase())
            }
        }));
        self
    }

    /// Proxies may resolve names, so that nobody here knows which address is asked.
    #[must_use]
    pub fn resolving(mut self, resolves: bool) -> Self {
        self.resolves = resolves;
        self
    }

    /// Looks up where the proxies are. One that would resolve names without leave is refused.
    pub fn located(mut self) -> Result<Self, ProxyError> {
        for slot in [&mut self.http, &mut self.https] {
            let Some(proxy) = slot else { continue };
            if proxy.wants_names && !self.resolves {
                return Err(ProxyError(format!(
                    "the proxy {proxy} would resolve names itself, and private networks could not be guarded; write socks5://, or \
                     let it (setting access.proxy_resolves)"
                )));
            }
            *slot = Some(Arc::new(Proxy::clone(proxy).located()?));
        }
        Ok(self)
    }

    /// The proxy through which `origin` is asked.
    pub(crate) fn of(&self, origin: &Origin) -> Option<&Arc<Proxy>> {
        let proxy = match origin.scheme {
            Scheme::Http | Scheme::Ftp | Scheme::Gopher | Scheme::File => self.http.as_ref()?,
            Scheme::Https => self.https.as_ref()?,
        };
        (!self.is_without(origin.host())).then_some(proxy)
    }

    /// Does a proxy resolve the origin's name, so that it is not to be resolved here?
    pub(crate) fn resolves(&self, origin: &Origin) -> bool {
        self.resolves && self.of(origin).is_some()
    }

    /// May a name be resolved here at all? For those who would do it ahead of time.
    pub fn is_resolving(&self) -> bool {
        self.resolves && (self.http.is_some() || self.https.is_some())
    }

    fn is_without(&self, host: &str) -> bool {
        let host = host.strip_suffix('.').unwrap_or(host);
        let ip = host.parse::<IpAddr>().ok();
        self.without.iter().any(|without| match without {
            Without::All => true,
            Without::Network(network) => ip.is_some_and(|ip| network.contains(ip)),
            Without::Name(name) => host
                .strip_suffix(name.as_str())
                .is_some_and(|rest| rest.is_empty() || rest.ends_with('.')),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn environment(set: &[(&str, &str)]) -> Proxies {
        let get = |name: &str| {
            let found = set.iter().find(|(known, _)| *known == name);
            found.map(|(_, value)| (*value).to_owned())
        };
        Proxies::from_environment(get).expect("proxies")
    }

    fn through(proxies: &Proxies, scheme: Scheme, host: &str) -> Option<String> {
        let origin = Origin::new(scheme, host, scheme.default_port());
        proxies.of(&origin).map(|proxy| proxy.to_string())
    }

    #[test]
    fn the_environment_means_what_it_means_to_curl() {
        let all = environment(&[
            ("ALL_PROXY", "socks5://s.test"),
            ("https_proxy", "b.test:2"),
        ]);
        assert_eq!(
            through(&all, Scheme::Http, "a.test").as_deref(),
            Some("socks5://s.test:1080")
        );
        assert_eq!(
            through(&all, Scheme::Https, "a.test").as_deref(),
            Some("http://b.test:2")
        );
        let upper = environment(&[
            ("HTTP_PROXY", "evil.test:1"),
            ("HTTPS_PROXY", "good.test:1"),
        ]);
        assert_eq!(through(&upper, Scheme::Http, "a.test"), None);
        assert!(through(&upper, Scheme::Https, "a.test").is_some());
        let both = environment(&[("https_proxy", "l.test:1"), ("HTTPS_PROXY", "u.test:1")]);
        assert_eq!(
            through(&both, Scheme::Https, "a.test").as_deref(),
            Some("http://l.test:1")
        );
        assert_eq!(
            through(&environment(&[("http_proxy", "")]), Scheme::Http, "a.test"),
            None
        );
    }

    #[test]
    fn some_need_none() {
        let list = "example.org, .test,10.0.0.0/8 ::1,192.0.2.7";
        let proxies = environment(&[("http_proxy", "p.test:1")]).without(list);
        let needs = |host| through(&proxies, Scheme::Http, host).is_some();
        for host in [
            "example.org",
            "www.example.org",
            "example.org.",
            "a.test",
            "10.1.2.3",
            "[::1]",
            "192.0.2.7",
        ] {
            assert!(!needs(host), "{host}");
        }
        for host in [
            "notexample.org",
            "example.org.evil.net",
            "11.1.2.3",
            "192.0.2.8",
        ] {
            assert!(needs(host), "{host}");
        }
        let none = Proxies::of_url("p.test:1").expect("a proxy").without("*");
        assert_eq!(through(&none, Scheme::Https, "a.net"), None);
    }

    #[test]
    fn names_are_left_to_a_proxy_only_with_leave() {
        let tor = Proxies::of_url("socks5h://127.0.0.1:9050").expect("a proxy");
        let said = tor.clone().located().expect_err("no leave").to_string();
        assert!(said.contains("access.proxy_resolves"), "{said}");
        let tor = tor.resolving(true).located().expect("leave was given");
        assert!(tor.resolves(&Origin::new(Scheme::Http, "a.test", 80)) && tor.is_resolving());
        assert!(!Proxies::default().resolving(true).is_resolving());
    }
}
