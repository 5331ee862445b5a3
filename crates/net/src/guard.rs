//! Keeps links from leading into private networks and to services that are no Web servers. It judges
//! addresses and ports, at the moment of connecting; it resolves nothing and never looks at URLs.

use crate::network::Network;
use portolan_model::service_of_port;
use std::collections::{HashMap, HashSet};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use thiserror::Error;

/// An address that may not be connected to.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("{host} is at {address}, {kind}; only what seeds or settings name is asked there")]
pub struct Refused {
    pub host: String,
    pub address: IpAddr,
    /// What kind of address it is, as in "a private address".
    pub kind: &'static str,
}

/// A port that no Web server has.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error(
    "port {port} is that of {service}, not of a Web server; scope.also_ports = [{port}] would allow it"
)]
pub struct RefusedPort {
    pub port: u16,
    pub service: &'static str,
}

/// Which addresses and ports may be connected to: all public addresses, those that a person named, and
/// every port that a Web server may have.
#[derive(Debug, Clone, Default)]
pub struct Guard {
    allow_private: bool,
    named_networks: Vec<Network>,
    named_hosts: HashMap<String, Vec<IpAddr>>,
    allowed_ports: HashSet<u16>,
}

impl Guard {
    /// `named_hosts` are host names or IP literals that a person typed (seeds), without port, and the
    /// addresses that each had then. Such a host may be at other addresses of the same kind later (an
    /// intranet server moves within its private network), but not at those of another kind.
    pub fn new(
        allow_private: bool,
        named_networks: Vec<Network>,
        named_hosts: impl IntoIterator<Item = (String, Vec<IpAddr>)>,
    ) -> Self {
        let mut guard = Self {
            allow_private,
            named_networks,
            ..Self::default()
        };
        guard.name_hosts(named_hosts);
        guard
    }

    /// More hosts that a person named, as in [`Guard::new`].
    pub fn name_hosts(&mut self, hosts: impl IntoIterator<Item = (String, Vec<IpAddr>)>) {
        let lower = |host: &str| bare_host(host).to_ascii_lowercase();
        let hosts = hosts.into_iter().map(|(host, ips)| (lower(&host), ips));
        self.named_hosts.extend(hosts);
    }

    /// Ports that may be connected to, whatever service usually has them.
    #[must_use]
    pub fn with_ports(mut self, ports: impl IntoIterator<Item = u16>) -> Self {
        self.allowed_ports.extend(ports);
        self
    }

    /// May this port, which a URL names, be connected to?
    pub fn check_port(&self, port: u16) -> Result<(), RefusedPort> {
        match service_of_port(port) {
            Some(service) if !self.allowed_ports.contains(&port) => {
                Err(RefusedPort { port, service })
            }
            _ => Ok(()),
        }
    }

    /// May `host` be connected to at `ip`? `named` says that the address itself came from a person
    /// (by a `ResolveRule`).
    pub fn check(&self, host: &str, ip: IpAddr, named: bool) -> Result<(), Refused> {
        if named || self.allow_private {
            return Ok(());
        }
        let Some(kind) = special(ip) else {
            return Ok(());
        };
        let host = bare_host(host);
        let had_such =
            |addresses: &Vec<IpAddr>| addresses.iter().any(|&a| special(a) == Some(kind));
        let is_named = self
            .named_hosts
            .get(&host.to_ascii_lowercase())
            .is_some_and(had_such)
            || self.named_networks.iter().any(|n| n.contains(ip));
        if is_named {
            return Ok(());
        }
        Err(Refused {
            host: host.to_owned(),
            address: ip,
            kind,
        })
    }
}

/// Without the brackets of an IPv6 literal and the dot that ends a fully qualified name.
fn bare_host(host: &str) -> &str {
    let host = host.strip_prefix('[').unwrap_or(host);
    let host = host.strip_suffix(']').unwrap_or(host);
    host.strip_suffix('.').unwrap_or(host)
}

/// The kind of a special-purpose address, or `None` for one of the public Internet.
pub fn special(ip: IpAddr) -> Option<&'static str> {
    match ip {
        IpAddr::V4(ip) => special_v4(ip),
        IpAddr::V6(ip) => special_v6(ip),
    }
}

/// After the IANA registry of special-purpose IPv4 addresses.
fn special_v4(ip: Ipv4Addr) -> Option<&'static str> {
    Some(match ip.octets() {
        [0, 0, 0, 0] => "the unspecified address",
        [0, ..] => "an address of this network",
        [10, ..] | [172, 16..=31, ..] | [192, 168, ..] => "a private address",
        [100, 64..=127, ..] => "a carrier's shared address",
        [127, ..] => "a loopback address",
        [169, 254, ..] => "a link-local address",
        [192, 0, 0, _] => "an address of protocol assignments",
        [192, 0, 2, _] | [198, 51, 100, _] | [203, 0, 113, _] => "an address for documentation",
        [192, 88, 99, _] => "a 6to4 relay address",
        [198, 18..=19, ..] => "an address for benchmarks",
        [224..=239, ..] => "a multicast address",
        [255, 255, 255, 255] => "the broadcast address",
        [240..=255, ..] => "a reserved address",
        _ => return None,
    })
}

/// After the IANA registry of special-purpose IPv6 addresses. Where an IPv4 address is embedded it
/// decides, because that is where the packets end up.
fn special_v6(ip: Ipv6Addr) -> Option<&'static str> {
    if ip.is_unspecified() {
        return Some("the unspecified address");
    }
    if ip.is_loopback() {
        return Some("a loopback address");
    }
    let s = ip.segments();
    let embedded_at = |n: usize| {
        let [a, b] = s[n].to_be_bytes();
        let [c, d] = s[n + 1].to_be_bytes();
        Ipv4Addr::new(a, b, c, d)
    };
    match s {
        // IPv4-mapped, IPv4-compatible, IPv4-translated.
        [0, 0, 0, 0, 0, 0xffff, ..] | [0, 0, 0, 0, 0, 0, ..] | [0, 0, 0, 0, 0xffff, 0, ..] => {
            special_v4(embedded_at(6))
        }
        // NAT64 with the well-known prefix; with the local prefix the network is private anyway.
        [0x64, 0xff9b, 0, 0, 0, 0, ..] => special_v4(embedded_at(6)),
        [0x64, 0xff9b, 1, ..] => Some("a local NAT64 address"),
        // 6to4.
        [0x2002, ..] => special_v4(embedded_at(1)),
        // Teredo: the client's IPv4 address is stored inverted.
        [0x2001, 0, ..] => special_v4(Ipv4Addr::from_bits(!embedded_at(6).to_bits()))
            .or_else(|| special_v4(embedded_at(2))),
        [0x100, 0, 0, 0, ..] => Some("an address that discards"),
        [0x2001, 2, 0, ..] => Some("an address for benchmarks"),
        [0x2001, 0xdb8, ..] | [0x3fff, 0..=0xfff, ..] => Some("an address for documentation"),
        [0x2001, 0x10..=0x2f, ..] => Some("an ORCHID, not an address"),
        [0xfc00..=0xfdff, ..] => Some("a unique local address"),
        [0xfe80..=0xfebf, ..] => Some("a link-local address"),
        [0xfec0..=0xfeff, ..] => Some("a site-local address"),
        [0xff00..=0xffff, ..] => Some("a multicast address"),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(ip: &str) -> bool {
        Guard::default()
            .check("host.test", ip.parse().unwrap(), false)
            .is_err()
    }

    #[test]
    fn ports_of_other_services_are_refused_unless_allowed() {
        let guard = Guard::default();
        for port in [80, 443, 8080, 65_535] {
            assert!(guard.check_port(port).is_ok(), "{port}");
        }
        for port in [0, 22, 25, 6379, 6667] {
            assert!(guard.check_port(port).is_err(), "{port}");
        }
        let said = guard.check_port(22).unwrap_err().to_string();
        assert!(
            said.contains("SSH") && said.contains("also_ports = [22]"),
            "{said}"
        );
        let allowed = guard.with_ports([22]);
        assert!(allowed.check_port(22).is_ok() && allowed.check_port(25).is_err());
    }

    /// First and last address of every range, and its public neighbours.
    #[test]
    fn every_special_range_is_refused_and_its_neighbours_are_not() {
        let ranges = [
            ("0.0.0.0", "0.255.255.255", None, Some("1.0.0.0")),
            (
                "10.0.0.0",
                "10.255.255.255",
                Some("9.255.255.255"),
                Some("11.0.0.0"),
            ),
            (
                "100.64.0.0",
                "100.127.255.255",
                Some("100.63.255.255"),
                Some("100.128.0.0"),
            ),
            (
                "127.0.0.0",
                "127.255.255.255",
                Some("126.255.255.255"),
                Some("128.0.0.0"),
            ),
            (
                "169.254.0.0",
                "169.254.255.255",
                Some("169.253.255.255"),
                Some("169.255.0.0"),
            ),
            (
                "172.16.0.0",
                "172.31.255.255",
                Some("172.15.255.255"),
                Some("172.32.0.0"),
            ),
            (
                "192.0.0.0",
                "192.0.0.255",
                Some("191.255.255.255"),
                Some("192.0.1.0"),
            ),
            (
                "192.0.2.0",
                "192.0.2.255",
                Some("192.0.1.255"),
                Some("192.0.3.0"),
            ),
            (
                "192.88.99.0",
                "192.88.99.255",
                Some("192.88.98.255"),
                Some("192.88.100.0"),
            ),
            (
                "192.168.0.0",
                "192.168.255.255",
                Some("192.167.255.255"),
                Some("192.169.0.0"),
            ),
            (
                "198.18.0.0",
                "198.19.255.255",
                Some("198.17.255.255"),
                Some("198.20.0.0"),
            ),
            (
                "198.51.100.0",
                "198.51.100.255",
                Some("198.51.99.255"),
                Some("198.51.101.0"),
            ),
            (
                "203.0.113.0",
                "203.0.113.255",
                Some("203.0.112.255"),
                Some("203.0.114.0"),
            ),
            (
                "224.0.0.0",
                "239.255.255.255",
                Some("223.255.255.255"),
                None,
            ),
            ("240.0.0.0", "255.255.255.255", None, None),
            ("::", "::1", None, None),
            ("fc00::", "fdff:ffff::1", Some("fbff::1"), None),
            ("fe80::", "febf:ffff::1", None, None),
            ("fec0::", "feff::1", None, None),
            ("ff00::", "ffff::1", None, None),
            (
                "100::",
                "100::ffff:1",
                Some("ff:ffff::1"),
                Some("100:0:0:1::"),
            ),
            ("2001:2::", "2001:2:0:ffff::1", None, Some("2001:2:1::")),
            ("2001:10::", "2001:2f::1", None, Some("2001:30::")),
            (
                "2001:db8::",
                "2001:db8:ffff::1",
                Some("2001:db7::1"),
                Some("2001:db9::"),
            ),
            ("3fff::", "3fff:fff::1", None, Some("3fff:1000::")),
            (
                "64:ff9b:1::",
                "64:ff9b:1:ffff::1",
                None,
                Some("64:ff9b:2::1"),
            ),
        ];
        for (first, last, before, after) in ranges {
            assert!(refused(first), "{first}");
            assert!(refused(last), "{last}");
            for neighbour in [before, after].into_iter().flatten() {
                assert!(!refused(neighbour), "{neighbour}");
            }
        }
    }

    #[test]
    fn an_embedded_ipv4_address_decides() {
        for (private, public) in [
            ("::ffff:127.0.0.1", "::ffff:9.9.9.9"),
            ("::10.1.2.3", "::9.9.9.9"),
            ("::ffff:0:192.168.1.1", "::ffff:0:9.9.9.9"),
            ("64:ff9b::10.0.0.1", "64:ff9b::9.9.9.9"),
            ("2002:7f00:1::", "2002:909:909::"),
            ("2002:c0a8:101::1", "2002:909:909::1"),
            // Teredo of 10.0.0.1 (inverted) by a public server, and of 9.9.9.9.
            ("2001:0:909:909::f5ff:fffe", "2001:0:909:909::f6f6:f6f6"),
        ] {
            assert!(refused(private), "{private}");
            assert!(!refused(public), "{public}");
        }
    }

    #[test]
    fn what_a_person_named_is_allowed_and_nothing_else() {
        let ip = |text: &str| text.parse::<IpAddr>().unwrap();
        let guard = Guard::new(
            false,
            vec!["10.1.0.0/16".parse().unwrap()],
            [
                ("Intranet.test".to_owned(), vec![ip("10.9.8.7")]),
                ("[::1]".to_owned(), vec![ip("::1")]),
                ("public.test".to_owned(), vec![ip("9.9.9.9")]),
                ("unknown.test".to_owned(), vec![]),
            ],
        );
        assert!(
            guard
                .check("intranet.test", ip("192.168.0.9"), false)
                .is_ok()
        );
        assert!(
            guard
                .check("intranet.test.", ip("192.168.0.9"), false)
                .is_ok()
        );
        assert!(guard.check("[::1]", ip("::1"), false).is_ok());
        assert!(
            guard
                .check("a.intranet.test", ip("192.168.0.9"), false)
                .is_err()
        );
        assert!(guard.check("other.test", ip("10.1.2.3"), false).is_ok());
        assert!(guard.check("other.test", ip("10.2.2.3"), false).is_err());
        assert!(guard.check("other.test", ip("10.2.2.3"), true).is_ok());
        // A name that was public when it was named, or of another kind, stays so.
        for (host, address) in [
            ("public.test", "127.0.0.1"),
            ("public.test", "169.254.169.254"),
            ("unknown.test", "192.168.0.1"),
            ("intranet.test", "127.0.0.1"),
            ("intranet.test", "169.254.169.254"),
        ] {
            assert!(guard.check(host, ip(address), false).is_err(), "{host}");
        }
        assert!(guard.check("public.test", ip("8.8.8.8"), false).is_ok());
        let open = Guard::new(true, vec![], []);
        assert!(open.check("other.test", ip("127.0.0.1"), false).is_ok());
        let refused = guard
            .check("other.test", ip("127.0.0.1"), false)
            .unwrap_err();
        assert!(
            refused
                .to_string()
                .contains("other.test is at 127.0.0.1, a loopback address")
        );
    }
}
